/*
 * The election on a clock that the test tells: each rule by itself, then whole elections from seeds, with requests that
 * are lost, late or doubled, pauses, losses of data and clocks that run apart. Never two leaders, tokens always rise,
 * and somebody leads again.
 */
#include "unit/unit.h"

#include "base/hash.h"
#include "core/election.h"
#include "part.h"
#include "rules/lease_row.h"

#define TTL_MS    UINT64_C(3000)
#define START_MS  UINT64_C(10000)
#define JITTER_MS UINT64_C(20)

static ten_event_queue reported; /* of the election that was made last */

static ten_election make_election(const char *instance) {
    ten_election election;
    ten_event_queue_free(&reported);
    assert_true(ten_event_queue_open(&reported));
    ten_election_config config = {.namespace_name = "leader",
                                  .role = "web",
                                  .instance = instance,
                                  .timing = {.ttl_ms = TTL_MS},
                                  .seed = 7,
                                  .events = &reported,
                                  .failback_ms = UINT64_MAX};
    ten_timing_defaults(&config.timing);
    ten_election_init(&election, &config);
    return election;
}

static ten_op must_send(ten_election *election, uint64_t now_ms, enum ten_op_kind kind) {
    const ten_op *op = part_request(ten_election_step, election, now_ms, &(size_t){0});
    assert_non_null(op);
    assert_int_equal(op->kind, kind);
    assert_string_equal(op->target, "web");
    return *op;
}

static void must_be_silent(ten_election *election, uint64_t now_ms) {
    assert_null(part_request(ten_election_step, election, now_ms, &(size_t){0}));
}

static void answer_ok(ten_election *election, uint64_t now_ms, uint64_t token) {
    part_answer(ten_election_step, election, now_ms, TENURE_OK,
                &(ten_result){.outcome = TEN_OK, .token = token, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS});
}

static bool heard(const ten_election *election, enum tenure_event_kind kind, tenure_event *ret_event) {
    tenure_event event;
    bool found = false;
    while (ten_event_queue_take(election->config.events, &event)) {
        if (event.kind != kind)
            continue;
        found = true;
        if (ret_event)
            *ret_event = event;
    }
    return found;
}

static ten_election make_leader(uint64_t token) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    answer_ok(&election, START_MS + 1, token);
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_ACQUIRED, &event));
    assert_int_equal(event.token, token);
    assert_true(ten_election_is_leader(&election, START_MS + 1));
    return election;
}

/* ---- drains */

/* The answer to a request whose operations are on the role, and then the heartbeat. */
static void answer_with(ten_election *election, uint64_t now_ms, uint64_t token, enum ten_ask ask) {
    const ten_result lease = {.outcome = TEN_OK, .token = token, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    const ten_result beat = {.outcome = TEN_OK, .ttl_ms = TTL_MS, .ask = ask};
    const ten_result results[] = {election->op_count == 1 ? beat : lease, beat};
    part_answer(ten_election_step, election, now_ms, TENURE_OK, results);
}

static ten_election make_announced_leader(bool is_lock) {
    ten_election election = make_election("me");
    election.config.announces = TEN_ELECTION_ALWAYS;
    election.config.is_lock = is_lock;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    assert_int_equal(election.op_count, 2);
    answer_with(&election, START_MS + 1, 5, TEN_ASK_NOTHING);
    assert_true(heard(&election, TENURE_EVENT_ACQUIRED, NULL));
    return election;
}

/* The feed says that somebody wants something of this instance: the heartbeat comes at once. */
static void ask_of(ten_election *election, uint64_t now_ms, enum ten_ask ask) {
    part_change(ten_election_step, election, now_ms,
                &(ten_change){.kind = TENURE_EVENT_INSTANCE_CHANGED, .target = "", .instance = "me"});
    const ten_op *op = part_request(ten_election_step, election, now_ms, &(size_t){0});
    assert_non_null(op);
    assert_int_equal(op->kind, TEN_OP_ANNOUNCE);
    answer_with(election, now_ms, 0, ask);
}

TEST(a_drained_leader_steps_down_and_campaigns_when_that_is_undone) {
    ten_election election = make_announced_leader(false);
    tenure_event event;
    ask_of(&election, START_MS + 10, TEN_ASK_DRAIN);
    assert_true(heard(&election, TENURE_EVENT_STOP, &event));
    assert_string_equal(event.reason, "drain");
    must_be_silent(&election, START_MS + 11); /* the work comes first */
    ten_election_stopped(&election);
    assert_int_equal(must_send(&election, START_MS + 20, TEN_OP_RELEASE).reason, TEN_REASON_DRAIN);
    answer_with(&election, START_MS + 21, 5, TEN_ASK_DRAIN);
    for (uint64_t now_ms = START_MS + 30; now_ms < START_MS + 5 * TTL_MS; now_ms += 100) {
        const ten_op *op = part_request(ten_election_step, &election, now_ms, &(size_t){0});
        assert_true(!op || op->kind == TEN_OP_ANNOUNCE);
        if (op)
            answer_with(&election, now_ms, 0, TEN_ASK_DRAIN);
    }
    ask_of(&election, START_MS + 5 * TTL_MS, TEN_ASK_NOTHING);
    must_send(&election, START_MS + 5 * TTL_MS + JITTER_MS, TEN_OP_ACQUIRE);
}

TEST(a_drain_does_not_concern_a_lock) {
    ten_election election = make_announced_leader(true);
    ask_of(&election, START_MS + 10, TEN_ASK_DRAIN);
    assert_false(heard(&election, TENURE_EVENT_STOP, NULL));
}

TEST(a_candidate_that_cannot_announce_itself_says_so_once_and_leads) {
    ten_election election = make_election("me");
    election.config.announces = TEN_ELECTION_ALWAYS;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    const ten_result results[] = {{.outcome = TEN_OK, .token = 5, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS},
                                  {.outcome = TEN_ERROR, .error = TENURE_E_TTL, .ttl_ms = 2 * TTL_MS}};
    part_answer(ten_election_step, &election, START_MS + 1, TENURE_OK, results);
    tenure_event event;
    assert_true(ten_election_is_leader(&election, START_MS + 1));
    assert_true(heard(&election, TENURE_EVENT_UNANNOUNCED, &event));
    assert_int_equal(event.error, TENURE_E_TTL);
    assert_int_equal(event.remaining_ms, 2 * TTL_MS);
    must_send(&election, START_MS + 1000, TEN_OP_RENEW);
    assert_int_equal(election.op_count, 1); /* no heartbeat */
}

TEST(a_grant_that_comes_with_a_drain_begins_no_term) {
    ten_election election = make_election("me");
    election.config.announces = TEN_ELECTION_ALWAYS;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    answer_with(&election, START_MS + 1, 5, TEN_ASK_DRAIN);
    assert_false(heard(&election, TENURE_EVENT_ACQUIRED, NULL));
    must_send(&election, START_MS + 2, TEN_OP_RELEASE);
}

/* ---- terms */

TEST(a_candidate_asks_at_once_and_leads_with_its_token) {
    ten_election election = make_leader(5);
    must_be_silent(&election, START_MS + 2);
    assert_in_range(part_due(ten_election_due, &election, START_MS + 2).next_ms, START_MS + 800, START_MS + 1000);
}

TEST(a_refused_candidate_asks_again_when_the_leaders_lease_ends) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS, TENURE_OK,
                &(ten_result){.outcome = TEN_HELD, .holder = "other", .token = 4, .remaining_ms = 700});
    must_be_silent(&election, START_MS + 699);
    assert_in_range(part_due(ten_election_due, &election, START_MS).next_ms, START_MS + 700,
                    START_MS + 700 + JITTER_MS);
    must_send(&election, START_MS + 700 + JITTER_MS, TEN_OP_ACQUIRE);
}

TEST(a_release_that_is_heard_of_is_answered_by_a_campaign) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS, TENURE_OK,
                &(ten_result){.outcome = TEN_HELD, .holder = "other", .token = 4, .remaining_ms = TTL_MS});
    part_change(ten_election_step, &election, START_MS + 10,
                &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "web", .instance = "other", .token = 4});
    must_send(&election, START_MS + 10 + JITTER_MS, TEN_OP_ACQUIRE);
}

static ten_change acquired_by(const char *instance, uint64_t token) {
    return (ten_change){.kind = TENURE_EVENT_ACQUIRED, .target = "web", .instance = instance, .token = token};
}

TEST(a_candidate_asks_the_store_how_long_the_lease_of_a_stranger_lasts) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS, TENURE_OK,
                &(ten_result){.outcome = TEN_HELD, .holder = "other", .token = 4, .remaining_ms = TTL_MS});
    ten_change change = acquired_by("stranger", 5);
    part_change(ten_election_step, &election, START_MS + 10, &change);
    must_send(&election, START_MS + 10 + JITTER_MS, TEN_OP_READ);
    part_answer(ten_election_step, &election, START_MS + 40, TENURE_OK,
                &(ten_result){.outcome = TEN_OK, .holder = "stranger", .token = 5, .remaining_ms = 300});
    must_be_silent(&election, START_MS + 339);
    must_send(&election, START_MS + 340 + JITTER_MS, TEN_OP_ACQUIRE);
}

TEST(a_candidate_knows_how_long_the_lease_of_another_one_in_the_line_lasts) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS, TENURE_OK,
                &(ten_result){.outcome = TEN_HELD, .holder = "other", .token = 4, .remaining_ms = TTL_MS});
    ten_turns_list_begin(&election.turns);
    ten_turns_list(&election.turns,
                   &(ten_instance){.instance = "next", .metadata = "{\"role\":\"web\",\"priority\":0}", .ttl_ms = 1000},
                   START_MS);
    ten_turns_list_end(&election.turns, true);
    ten_change change = acquired_by("next", 5);
    part_change(ten_election_step, &election, START_MS + 10, &change);
    must_be_silent(&election, START_MS + 1009);
    must_send(&election, START_MS + 1010 + JITTER_MS, TEN_OP_ACQUIRE);
    ten_election_free(&election);
}

TEST(a_candidate_that_withdrew_while_it_was_granted_gives_the_role_back) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    ten_election_withdraw(&election, TEN_REASON_SHUTDOWN);
    answer_ok(&election, START_MS + 2, 5);
    assert_false(ten_election_is_leader(&election, START_MS + 2));
    ten_op op = must_send(&election, START_MS + 3, TEN_OP_RELEASE);
    assert_int_equal(op.token, 5);
}

/* refuse ERROR: a campaign that the store answers with it. */
static ten_election refuse(int error) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS + 1, TENURE_OK,
                &(ten_result){.outcome = TEN_ERROR, .error = error});
    return election;
}

TEST(an_error_of_one_campaign_is_tried_again_after_a_ttl) {
    ten_election election = refuse(TENURE_E_STORE);
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_ACQUIRE_FAILED, &event));
    assert_int_equal(event.error, TENURE_E_STORE);
    must_be_silent(&election, START_MS + TTL_MS);
    must_send(&election, START_MS + 1 + TTL_MS, TEN_OP_ACQUIRE);
}

TEST(an_instance_that_was_declared_gone_asks_no_more) {
    ten_election election = refuse(TENURE_E_GONE);
    assert_true(heard(&election, TENURE_EVENT_REFUSED, NULL));
    must_be_silent(&election, START_MS + 10 * TTL_MS);
}

TEST(a_role_that_the_store_cannot_have_is_refused_for_good_but_not_under_its_leader) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS + 1, TENURE_E_INVALID, NULL);
    assert_true(heard(&election, TENURE_EVENT_REFUSED, NULL));
    must_be_silent(&election, START_MS + 10 * TTL_MS);
    ten_election leader = make_leader(5);
    must_send(&leader, START_MS + 1000, TEN_OP_RENEW);
    part_answer(ten_election_step, &leader, START_MS + 1001, TENURE_E_INVALID, NULL);
    assert_false(heard(&leader, TENURE_EVENT_REFUSED, NULL));
    must_send(&leader, START_MS + 1800, TEN_OP_RENEW);
}

TEST(a_candidate_whose_answer_was_lost_recognises_itself) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    part_answer(ten_election_step, &election, START_MS + 500, TENURE_E_TIMEOUT, NULL);
    must_send(&election, START_MS + 600, TEN_OP_ACQUIRE);
    answer_ok(&election, START_MS + 601, 5); /* what the first one was granted */
    assert_true(ten_election_is_leader(&election, START_MS + 601));
    assert_int_equal(election.own.holding.token, 5);
}

TEST(a_failed_renewal_pauses_and_a_later_one_goes_on_until_the_deadline) {
    ten_election election = make_leader(5);
    must_send(&election, START_MS + 1000, TEN_OP_RENEW);
    part_answer(ten_election_step, &election, START_MS + 1500, TENURE_E_TIMEOUT, NULL);
    assert_false(ten_election_is_leader(&election, START_MS + 1500));
    must_send(&election, START_MS + 1800, TEN_OP_RENEW);
    answer_ok(&election, START_MS + 1801, 5);
    assert_true(ten_election_is_leader(&election, START_MS + 1801));
    assert_false(heard(&election, TENURE_EVENT_LOST, NULL));
}

TEST(a_deadline_that_passes_ends_the_term_and_its_token_for_good) {
    ten_election election = make_leader(5);
    must_send(&election, START_MS + 1000, TEN_OP_RENEW);
    uint64_t late_ms = START_MS + TTL_MS;
    answer_ok(&election, late_ms, 5); /* counts from its sending, but comes after the old deadline */
    assert_false(ten_election_is_leader(&election, late_ms));
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_LOST, &event));
    assert_string_equal(event.reason, "expired");
    must_be_silent(&election, late_ms); /* its work may still run */
    ten_election_stopped(&election);
    /* What is left of that term is given back first, whatever the store makes of it. */
    assert_int_equal(must_send(&election, late_ms, TEN_OP_RELEASE).token, 5);
    part_answer(ten_election_step, &election, late_ms + 1, TENURE_OK, &(ten_result){.outcome = TEN_LOST});
    assert_false(heard(&election, TENURE_EVENT_RELEASED, NULL));
    must_send(&election, late_ms + 1, TEN_OP_ACQUIRE);
    answer_ok(&election, late_ms + 2, 5); /* nor is it believed when it comes back */
    assert_false(ten_election_is_leader(&election, late_ms + 2));
    ten_op release = must_send(&election, late_ms + 3, TEN_OP_RELEASE);
    assert_int_equal(release.token, 5);
    part_answer(ten_election_step, &election, late_ms + 4, TENURE_OK, &(ten_result){.outcome = TEN_OK});
    must_send(&election, late_ms + 4, TEN_OP_ACQUIRE);
    answer_ok(&election, late_ms + 5, 6);
    assert_true(ten_election_is_leader(&election, late_ms + 5));
}

TEST(a_leader_gives_back_only_when_its_work_has_stopped) {
    ten_election election = make_leader(5);
    ten_election_resign(&election, TEN_REASON_RESIGNED, TTL_MS);
    assert_true(heard(&election, TENURE_EVENT_STOP, NULL));
    assert_false(ten_election_is_leader(&election, START_MS + 100)); /* no new work */
    must_be_silent(&election, START_MS + 101);
    must_send(&election, START_MS + 1000, TEN_OP_RENEW); /* the work may take its time */
    answer_ok(&election, START_MS + 1001, 5);
    ten_election_stopped(&election);
    must_send(&election, START_MS + 1100, TEN_OP_RELEASE);
    part_answer(ten_election_step, &election, START_MS + 1101, TENURE_OK, &(ten_result){.outcome = TEN_OK});
    /* Others go first. */
    must_be_silent(&election, START_MS + 1100 + TTL_MS - 1);
    must_send(&election, START_MS + 1100 + TTL_MS, TEN_OP_ACQUIRE);
}

TEST(a_leader_that_is_asked_to_resign_does) {
    ten_election election = make_leader(5);
    must_send(&election, START_MS + 1000, TEN_OP_RENEW);
    part_answer(
        ten_election_step, &election, START_MS + 1001, TENURE_OK,
        &(ten_result){.outcome = TEN_OK, .token = 5, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS, .ask = TEN_ASK_RESIGN});
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_STOP, &event));
    assert_string_equal(event.reason, "resigned");
}

TEST(a_leader_that_hears_that_it_is_asked_looks_at_once) {
    ten_election election = make_leader(5);
    part_change(ten_election_step, &election, START_MS + 10,
                &(ten_change){.kind = TENURE_EVENT_ASKED, .target = "web", .instance = "other", .token = 5});
    must_be_silent(&election, START_MS + 10);
    part_change(ten_election_step, &election, START_MS + 10,
                &(ten_change){.kind = TENURE_EVENT_ASKED, .target = "web", .instance = "me", .token = 5});
    must_send(&election, START_MS + 10, TEN_OP_RENEW);
}

/* ---- a role that is kept for a least time */

#define LEAST_MS (10 * TTL_MS)

static ten_op must_keep(ten_election *election, uint64_t now_ms) {
    const ten_op *op = part_request(ten_election_step, election, now_ms, &(size_t){0});
    assert_non_null(op);
    assert_int_equal(op->kind, TEN_OP_RENEW);
    assert_int_equal(op->flags, TEN_OP_KEEP);
    return *op;
}

static void answer_kept(ten_election *election, uint64_t now_ms, uint64_t ttl_ms) {
    part_answer(ten_election_step, election, now_ms, TENURE_OK,
                &(ten_result){.outcome = TEN_OK, .token = 5, .ttl_ms = ttl_ms, .remaining_ms = ttl_ms});
}

static ten_election make_keeper(void) {
    ten_election election = make_election("me");
    election.config.at_least_ms = LEAST_MS;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    answer_ok(&election, START_MS, 5);
    return election;
}

TEST(work_begins_only_when_the_role_is_kept_for_its_least_time) {
    ten_election election = make_keeper();
    assert_false(ten_election_is_leader(&election, START_MS));
    assert_false(heard(&election, TENURE_EVENT_ACQUIRED, NULL));
    /* From the moment at which the work begins, however late that is. */
    assert_int_equal(must_keep(&election, START_MS).ttl_ms, LEAST_MS + TTL_MS);
    answer_kept(&election, START_MS + 5, LEAST_MS + TTL_MS);
    assert_true(heard(&election, TENURE_EVENT_ACQUIRED, NULL));
    assert_true(ten_election_is_leader(&election, START_MS + 5));
    /* What it believes itself is bounded by the TTL, whose margin allows for clocks that run apart. */
    assert_true(election.own.holding.deadline_ms < START_MS + TTL_MS);
    assert_int_equal(must_keep(&election, START_MS + 1005).ttl_ms, LEAST_MS - 1000);
}

TEST(the_longest_least_time_neither_wraps_nor_is_cut) {
    ten_election election = make_election("me");
    uint64_t longest_ms = ten_election_at_least_max_ms(&election.config.timing);
    assert_int_equal(longest_ms, TENURE_TTL_MAX_MS - TTL_MS);
    election.config.at_least_ms = longest_ms;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    answer_ok(&election, START_MS, 5);
    assert_int_equal(must_keep(&election, START_MS).ttl_ms, TENURE_TTL_MAX_MS);
    answer_kept(&election, START_MS + 5, TENURE_TTL_MAX_MS);
    assert_int_equal(must_keep(&election, START_MS + 1005).ttl_ms, longest_ms - 1000);
}

TEST(a_kept_role_is_not_given_back_before_its_least_time) {
    ten_election election = make_keeper();
    must_keep(&election, START_MS);
    answer_kept(&election, START_MS, LEAST_MS);
    ten_election_withdraw(&election, TEN_REASON_DONE);
    ten_election_stopped(&election);
    assert_int_equal(must_keep(&election, START_MS + 100).ttl_ms, LEAST_MS - 100);
    part_answer(ten_election_step, &election, START_MS + 600, TENURE_E_TIMEOUT, NULL);
    assert_int_equal(must_keep(&election, START_MS + 700).ttl_ms, LEAST_MS - 700);
    answer_kept(&election, START_MS + 701, LEAST_MS - 700);
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_KEPT, &event));
    assert_int_equal(event.remaining_ms, LEAST_MS - 700);
    assert_int_equal(part_due(ten_election_due, &election, START_MS + 702).next_ms, UINT64_MAX);
}

TEST(a_role_whose_least_time_is_over_is_given_back) {
    ten_election election = make_election("me");
    election.config.at_least_ms = 500;
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    answer_ok(&election, START_MS, 5);
    assert_true(heard(&election, TENURE_EVENT_ACQUIRED, NULL)); /* the TTL covers it */
    ten_election_withdraw(&election, TEN_REASON_DONE);
    ten_election_stopped(&election);
    must_send(&election, START_MS + 500, TEN_OP_RELEASE);
}

TEST(a_role_whose_work_never_began_is_given_back_before_its_least_time) {
    ten_election election = make_keeper();
    must_keep(&election, START_MS);
    answer_kept(&election, START_MS, LEAST_MS);
    ten_election_keep_nothing(&election);
    ten_election_withdraw(&election, TEN_REASON_DONE);
    ten_election_stopped(&election);
    must_send(&election, START_MS + 100, TEN_OP_RELEASE);
}

TEST(what_is_granted_after_withdrawing_is_given_back) {
    ten_election election = make_election("me");
    ten_election_campaign(&election, START_MS);
    must_send(&election, START_MS, TEN_OP_ACQUIRE);
    ten_election_withdraw(&election, TEN_REASON_SHUTDOWN);
    answer_ok(&election, START_MS + 2, 5);
    assert_false(heard(&election, TENURE_EVENT_ACQUIRED, NULL));
    must_send(&election, START_MS + 2, TEN_OP_RELEASE);
    part_answer(ten_election_step, &election, START_MS + 3, TENURE_OK, &(ten_result){.outcome = TEN_OK});
    assert_int_equal(election.state, TEN_ELECTION_IDLE);
    assert_int_equal(part_due(ten_election_due, &election, START_MS + 4).next_ms, UINT64_MAX);
}

TEST(a_release_without_an_answer_is_sent_again_before_anything_else) {
    ten_election election = make_leader(5);
    ten_election_resign(&election, TEN_REASON_DONE, 0);
    ten_election_stopped(&election);
    must_send(&election, START_MS + 10, TEN_OP_RELEASE);
    part_answer(ten_election_step, &election, START_MS + 510, TENURE_E_TIMEOUT, NULL);
    assert_false(ten_election_is_leader(&election, START_MS + 510));
    must_send(&election, START_MS + 600, TEN_OP_RELEASE);
}

/* Nobody enters before the lease ends: its work is told to stop, and has until then. When it has, the lease is released. */
static void expect_orderly_end(ten_election *election, uint64_t deadline_ms) {
    tenure_event event;
    assert_true(heard(election, TENURE_EVENT_STOP, &event));
    assert_string_equal(event.reason, "forced");
    assert_false(ten_election_is_leader(election, START_MS + 10));
    assert_int_equal(ten_election_deadline_ms(election), deadline_ms);
    size_t count;
    assert_null(part_request(ten_election_step, election, deadline_ms - 1, &count)); /* it cannot be renewed */
    ten_election_stopped(election);
    ten_op op = must_send(election, deadline_ms - 1, TEN_OP_RELEASE);
    assert_int_equal(op.reason, TEN_REASON_FORCED);
    assert_true(heard(election, TENURE_EVENT_LOST, &event));
    assert_string_equal(event.reason, "forced");
    assert_int_equal(ten_election_deadline_ms(election), 0);
    part_answer(ten_election_step, election, deadline_ms - 1, TENURE_OK, &(ten_result){.outcome = TEN_OK});
    assert_false(heard(election, TENURE_EVENT_RELEASED, &event));                         /* one end is enough */
    assert_true(part_due(ten_election_due, election, deadline_ms).next_ms > deadline_ms); /* others go first */
}

TEST(a_forced_leader_ends_its_work_before_the_lease_ends) {
    ten_election election = make_leader(5);
    uint64_t deadline_ms = ten_election_deadline_ms(&election);
    part_change(
        ten_election_step, &election, START_MS + 10,
        &(ten_change){
            .kind = TENURE_EVENT_LOST, .reason = TEN_REASON_FORCED, .target = "web", .instance = "me", .token = 5});
    expect_orderly_end(&election, deadline_ms);
}

TEST(a_forced_leader_hears_of_it_by_its_renewal_too) {
    ten_election election = make_leader(5);
    uint64_t deadline_ms = ten_election_deadline_ms(&election);
    uint64_t due_ms = part_due(ten_election_due, &election, START_MS).next_ms;
    must_send(&election, due_ms, TEN_OP_RENEW);
    part_answer(ten_election_step, &election, due_ms, TENURE_OK,
                &(ten_result){.outcome = TEN_LOST, .barred = true, .holder = "me", .token = 5, .remaining_ms = 100});
    expect_orderly_end(&election, deadline_ms);
}

/* It does not end before the deadline: others go first all the same. */
TEST(a_forced_leader_whose_work_ends_too_late_lets_others_go_first) {
    ten_election election = make_leader(5);
    uint64_t deadline_ms = ten_election_deadline_ms(&election);
    part_change(
        ten_election_step, &election, START_MS + 10,
        &(ten_change){
            .kind = TENURE_EVENT_LOST, .reason = TEN_REASON_FORCED, .target = "web", .instance = "me", .token = 5});
    must_be_silent(&election, deadline_ms); /* its end is told first */
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_LOST, &event));
    assert_string_equal(event.reason, "forced");
    ten_election_stopped(&election);
    must_send(&election, deadline_ms + 1, TEN_OP_RELEASE);
    part_answer(ten_election_step, &election, deadline_ms + 2, TENURE_OK, &(ten_result){.outcome = TEN_OK});
    assert_in_range(part_due(ten_election_due, &election, deadline_ms + 2).next_ms, deadline_ms + TTL_MS,
                    UINT64_MAX - 1);
}

/* Of several that belong together one is forced: that one is lost, and all are released. */
TEST(the_forced_one_of_several_is_named) {
    static const char *const names[] = {"a", "b", "c"};
    ten_election_slot slots[3] = {{.target = names[0]}, {.target = names[1]}, {.target = names[2]}};
    ten_op ops[4];
    ten_result results[4] = {0};
    ten_election election = make_election("me");
    ten_election_config config = election.config;
    config.slots = slots;
    config.ops = ops;
    config.slot_count = 3;
    config.wants = TEN_ELECTION_ALL;
    ten_election_init(&election, &config);
    ten_election_campaign(&election, START_MS);
    for (unsigned i = 0; i < 3; i++)
        results[i] = (ten_result){.outcome = TEN_OK, .token = 5 + i, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    size_t count;
    for (unsigned i = 0; i < 2; i++) { /* the slots are read first */
        assert_non_null(part_request(ten_election_step, &election, START_MS, &count));
        part_answer(ten_election_step, &election, START_MS, TENURE_OK, results);
    }
    assert_true(ten_election_is_leader(&election, START_MS));
    part_change(
        ten_election_step, &election, START_MS + 10,
        &(ten_change){
            .kind = TENURE_EVENT_LOST, .reason = TEN_REASON_FORCED, .target = "b", .instance = "me", .token = 6});
    ten_election_stopped(&election);
    assert_non_null(part_request(ten_election_step, &election, START_MS + 20, &count));
    assert_int_equal(count, 3);
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_LOST, &event));
    assert_string_equal(event.target, "b");
    assert_int_equal(event.token, 6);
}

TEST(a_lease_that_is_forced_at_once_is_lost_at_once) {
    ten_election election = make_leader(5);
    part_change(
        ten_election_step, &election, START_MS + 10,
        &(ten_change){
            .kind = TENURE_EVENT_RELEASED, .reason = TEN_REASON_FORCED, .target = "web", .instance = "me", .token = 5});
    tenure_event event;
    assert_true(heard(&election, TENURE_EVENT_LOST, &event));
    assert_string_equal(event.reason, "forced");
    assert_int_equal(ten_election_deadline_ms(&election), 0);
}

/* ---- whole elections */

#define CANDIDATES 4u
#define LATE_MAX   8u
#define RUN_MS     UINT64_C(60000)

struct late { /* a request that arrives when nobody waits for it any more */
    ten_op op;
    uint64_t at_ms;
    bool used;
};

struct candidate {
    ten_election election;
    ten_event_queue events;
    char id[8];
    uint64_t waiting_ms; /* when the answer to its request arrives; 0: none is under way */
    int error;
    ten_result result;
    uint64_t paused_until_ms;
    uint64_t clock_ms; /* its own: up to 5 % faster or slower */
    double rate;
};

struct contest {
    struct candidate candidates[CANDIDATES];
    struct late late[LATE_MAX];
    ten_lease_row row;
    uint64_t recovering_until_ms;
    uint64_t floor;
    uint64_t random;
    uint64_t highest; /* token that anybody has led with */
    unsigned terms;
};

static uint64_t draw(struct contest *contest, uint64_t limit) {
    contest->random = ten_hash_mix(contest->random + 1);
    return contest->random % limit;
}

static void reach_store(struct contest *contest, const ten_op *op, uint64_t now_ms, ten_result *result) {
    ten_lease_context context = {.now_ms = now_ms,
                                 .wall_ms = now_ms,
                                 .token_floor = contest->floor,
                                 .recovering_ms = ten_sub_saturating(contest->recovering_until_ms, now_ms)};
    ten_lease_effect effect;
    *result = (ten_result){0};
    ten_lease_row_apply(&contest->row, op, &context, result, &effect);
    result->holder = result->holder ? "somebody" : NULL;
}

static void keep_late(struct contest *contest, const ten_op *op, uint64_t at_ms) {
    for (size_t i = 0; i < LATE_MAX; i++) {
        if (contest->late[i].used)
            continue;
        contest->late[i] = (struct late){.op = *op, .at_ms = at_ms, .used = true};
        return;
    }
}

static void send(struct contest *contest, struct candidate *candidate, const ten_op *op, uint64_t now_ms) {
    uint64_t weather = draw(contest, 20);
    candidate->waiting_ms = now_ms + 1 + draw(contest, 20);
    candidate->error = TENURE_OK;
    if (weather < 16) {
        reach_store(contest, op, now_ms, &candidate->result);
        return;
    }
    candidate->error = TENURE_E_TIMEOUT;
    candidate->waiting_ms = now_ms + candidate->election.config.timing.timeout_ms;
    if (weather == 16) {
        ten_result unheard;
        reach_store(contest, op, now_ms, &unheard);
    } else if (weather == 17) {
        keep_late(contest, op, now_ms + draw(contest, 3 * TTL_MS));
    }
    if (weather == 18) { /* done, and once more later */
        ten_result unheard;
        reach_store(contest, op, now_ms, &unheard);
        keep_late(contest, op, now_ms + draw(contest, 2 * TTL_MS));
    }
}

static void step_candidate(struct contest *contest, struct candidate *candidate, uint64_t now_ms) {
    ten_election *election = &candidate->election;
    uint64_t own_ms = candidate->clock_ms;
    tenure_event event;
    if (candidate->waiting_ms && now_ms >= candidate->waiting_ms) {
        candidate->waiting_ms = 0;
        part_answer(ten_election_step, election, own_ms, candidate->error, &candidate->result);
    }
    while (ten_event_queue_take(&candidate->events, &event)) {
        if (event.kind == TENURE_EVENT_ACQUIRED) {
            if (event.token <= contest->highest)
                fail_msg("%s leads with %llu after %llu", candidate->id, (unsigned long long)event.token,
                         (unsigned long long)contest->highest);
            contest->highest = event.token;
            contest->terms++;
        }
        if (event.kind == TENURE_EVENT_STOP || event.kind == TENURE_EVENT_LOST)
            ten_election_stopped(election);
    }
    const ten_op *op = candidate->waiting_ms ? NULL : part_request(ten_election_step, election, own_ms, &(size_t){0});
    if (op)
        send(contest, candidate, op, now_ms);
}

static void lose_data(struct contest *contest, const ten_lease_row *copy, uint64_t now_ms) {
    contest->row = draw(contest, 2) ? (ten_lease_row){0} : *copy;
    contest->floor = now_ms + 1000000;
    contest->recovering_until_ms = now_ms + TTL_MS;
}

static void misfortune(struct contest *contest, ten_lease_row *copy, uint64_t now_ms) {
    struct candidate *candidate = &contest->candidates[draw(contest, CANDIDATES)];
    switch (draw(contest, 3000)) {
    case 0:
    case 1:
        candidate->paused_until_ms = now_ms + draw(contest, 2 * TTL_MS);
        break;
    case 2:
    case 3:
        ten_election_resign(&candidate->election, TEN_REASON_RESIGNED, TTL_MS);
        break;
    case 4:
        lose_data(contest, copy, now_ms);
        break;
    case 5:
    case 6:
        *copy = contest->row;
        break;
    default:
        break;
    }
}

static size_t count_leaders(const struct contest *contest) {
    size_t leaders = 0;
    for (size_t i = 0; i < CANDIDATES; i++)
        leaders += ten_election_is_leader(&contest->candidates[i].election, contest->candidates[i].clock_ms);
    return leaders;
}

static unsigned run_contest(uint64_t seed) {
    struct contest contest = {.random = seed};
    ten_lease_row copy = {0};
    for (size_t i = 0; i < CANDIDATES; i++) {
        struct candidate *candidate = &contest.candidates[i];
        snprintf(candidate->id, sizeof candidate->id, "c%zu", i);
        candidate->election = make_election(candidate->id);
        candidate->election.config.seed = candidate->election.random = seed + i;
        candidate->election.config.events = &candidate->events;
        assert_true(ten_event_queue_open(&candidate->events));
        candidate->rate = 0.95 + (double)draw(&contest, 101) / 1000;
        candidate->clock_ms = START_MS * (i + 1);
        ten_election_campaign(&candidate->election, candidate->clock_ms);
    }
    for (uint64_t now_ms = START_MS; now_ms < START_MS + RUN_MS; now_ms++) {
        misfortune(&contest, &copy, now_ms);
        for (size_t i = 0; i < LATE_MAX; i++) {
            if (!contest.late[i].used || now_ms < contest.late[i].at_ms)
                continue;
            ten_result unheard;
            contest.late[i].used = false;
            reach_store(&contest, &contest.late[i].op, now_ms, &unheard);
        }
        for (size_t i = 0; i < CANDIDATES; i++) {
            struct candidate *candidate = &contest.candidates[i];
            candidate->clock_ms = START_MS * (i + 1) + (uint64_t)((double)(now_ms - START_MS) * candidate->rate);
            if (now_ms >= candidate->paused_until_ms)
                step_candidate(&contest, candidate, now_ms);
        }
        if (count_leaders(&contest) > 1)
            fail_msg("seed %llu: two leaders at %llu", (unsigned long long)seed, (unsigned long long)now_ms);
    }
    for (size_t i = 0; i < CANDIDATES; i++)
        ten_event_queue_free(&contest.candidates[i].events);
    return contest.terms;
}

TEST(whole_elections_have_never_two_leaders_and_always_higher_tokens) {
    unsigned terms = 0;
    for (uint64_t seed = 1; seed <= 500; seed++)
        terms += run_contest(seed * 1000);
    /* A run that tests nothing must not pass. */
    assert_true(terms > 2500);
}

int main(void) {
    int failed = run_cases(NULL, NULL);
    ten_event_queue_free(&reported);
    return failed;
}
