/*
 * The election part: candidates for a role, on the store under test, through the runtime and the public calls. What the
 * core decides is tested on a simulated clock; here it is shown that each store carries it: that a leader is one, that
 * changes of hands come by notice and not by a tick, and that what ends a term ends it everywhere.
 *
 * A lease that nobody waits for is long, so that a notice (usually milliseconds; seconds on a machine that is very
 * busy) and a tick (of the next renewal, or the end of the lease) are far apart. One whose end is waited for is short.
 */
#include "conformance/elections/candidates.h"

#include <stdio.h>

static struct election_place *with_ttl(void **state, uint64_t ttl_ms, uint64_t renew_ms) {
    struct election_place *election = *state;
    election->arena->ttl_ms = ttl_ms;
    election->arena->renew_ms = renew_ms;
    return election;
}

static struct election_place *with_brief_ttl(void **state) {
    return with_ttl(state, ((struct election_place *)*state)->brief_ms, 0);
}

/* A leader, and this many others that have been told how long its lease lasts: without a notice none of them asks again
 * before that. */
static unsigned start_all(struct election_place *election, unsigned count, enum candidate_kind kind) {
    start_candidate(election, 0, kind);
    unsigned leader = await_leader(election, NOBODY, HANG_MS);
    for (unsigned i = 1; i < count; i++)
        start_follower(election, i, kind);
    assert_int_equal(leader, 0);
    return leader;
}

/* Whether the lease that the store now shows was renewed so lately that neither its holder nor others do anything
 * within the time of a notice by themselves. */
static void expect_fresh_lease(const struct election_place *election) {
    ten_result role = read_role(election);
    assert_non_null(role.holder);
    if (role.remaining_ms < TTL_MS - (RENEW_MS - RENEW_MS / 10 - NOTICE_MS))
        fail_msg("this machine is too slow: %llu ms are left", (unsigned long long)role.remaining_ms);
}

/* The role has just been left behind: somebody leads when the store's lease ends, and not before. */
static unsigned expect_leader_at_the_end(struct election_place *election, unsigned except) {
    uint64_t before_ms = now_ms();
    uint64_t left_ms = read_role(election).remaining_ms;
    uint64_t after_ms = now_ms();
    unsigned next = await_leader(election, except, left_ms + slack_ms(election));
    uint64_t elected_ms = atomic_load(&election->arena->at[next].elected_ms);
    if (elected_ms + ROUNDING_MS < before_ms + left_ms || elected_ms > after_ms + left_ms + slack_ms(election))
        fail_msg("elected %lld ms after the end of a lease", (long long)elected_ms - (long long)(before_ms + left_ms));
    return next;
}

/* ---- one leader, and the next by notice ---------------------------------------------------------------- */

static void ten_lead_in_turn(void **state, enum candidate_kind kind) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    struct arena *arena = election->arena;
    unsigned leader = start_all(election, CANDIDATES_MAX, kind);
    /* It leads when it is told so, and believes when its own thread has looked next. */
    for (uint64_t i = 0; i < HANG_MS / 2 && !atomic_load(&arena->at[leader].believes); i++)
        sleep_ms(2);
    for (int i = 0; i < 100; i++, sleep_ms(2)) {
        assert_int_equal(atomic_load(&arena->inside), 1);
        assert_true(atomic_load(&arena->at[leader].believes));
    }
    for (unsigned round = 1; round < CANDIDATES_MAX; round++) {
        ten_result role = read_role(election);
        expect_holder(role, arena->at[leader].instance);
        assert_int_equal(role.token, atomic_load(&arena->at[leader].token));
        uint64_t start_ms = now_ms();
        order_candidate(election, leader, ORDER_STOP);
        unsigned next = await_leader(election, leader, NOTICE_MS);
        assert_true(atomic_load(&arena->at[next].elected_ms) - start_ms < NOTICE_MS + late_ms());
        await_demotion(election, leader, "shutdown", NOTICE_MS);
        leader = next;
    }
    stop_candidate(election, leader);
    expect_holder(read_role(election), NULL);
    expect_order(election, CANDIDATES_MAX);
}

ELECTION_CASE(of_ten_candidates_one_leads_and_when_it_stops_the_next_does_by_notice) {
    ten_lead_in_turn(state, IN_THREADS);
}

ELECTION_CASE(of_ten_processes_one_leads_and_when_it_stops_the_next_does_by_notice) {
    if (has_processes(*state))
        ten_lead_in_turn(state, IN_PROCESSES);
}

ELECTION_CASE(tokens_strictly_increase_over_fifty_handoffs_and_never_two_lead) {
    enum { CANDIDATES = 5, HANDOFFS = 50 };
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    enum candidate_kind kind = has_processes(election) ? IN_PROCESSES : IN_THREADS;
    unsigned leader = start_all(election, CANDIDATES, kind);
    for (unsigned handoff = 0; handoff < HANDOFFS; handoff++) {
        uint64_t last = atomic_load(&election->arena->at[leader].token);
        order_candidate(election, leader, ORDER_YIELD);
        leader = await_term(election, last, NOTICE_MS);
    }
    expect_order(election, HANDOFFS + 1);
}

/* ---- resigning, asked or not --------------------------------------------------------------------------- */

ELECTION_CASE(a_leader_that_resigns_with_nobody_there_leads_again_after_one_ttl) {
    struct election_place *election = with_brief_ttl(state);
    start_candidate(election, 0, IN_THREADS);
    (void)await_leader(election, NOBODY, HANG_MS);
    order_candidate(election, 0, ORDER_RESIGN);
    await_demotion(election, 0, "resigned", election->brief_ms / 2);
    uint64_t demoted_ms = atomic_load(&election->arena->at[0].demoted_ms);
    sleep_ms(election->brief_ms / 2);
    ten_result role = read_role(election);
    if (now_ms() < demoted_ms + election->brief_ms)
        expect_holder(role, NULL);
    (void)await_leader(election, NOBODY, election->brief_ms + slack_ms(election));
    assert_true(atomic_load(&election->arena->at[0].elected_ms) + ROUNDING_MS >= demoted_ms + election->brief_ms);
    expect_order(election, 2);
}

ELECTION_CASE(a_leader_that_is_asked_steps_down_by_notice_well_before_its_next_renewal) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    struct candidate *at = election->arena->at;
    unsigned first = start_all(election, 3, IN_THREADS);
    expect_fresh_lease(election);
    uint64_t start_ms = now_ms();
    expect_outcome(ask_to_resign(election, at[first].instance), TEN_OK);
    unsigned second = await_leader(election, first, NOTICE_MS);
    assert_true(atomic_load(&at[second].elected_ms) - start_ms < NOTICE_MS + late_ms());
    await_demotion(election, first, "resigned", NOTICE_MS);
    /* It was asked of that one; the next is not asked by the same words, nor by their coming late. */
    expect_outcome(ask_to_resign(election, at[first].instance), TEN_LOST);
    sleep_ms(300);
    assert_true(atomic_load(&at[second].leads) && atomic_load(&at[second].believes));
    expect_order(election, 2);
}

/* ---- forced -------------------------------------------------------------------------------------------- */

ELECTION_CASE(a_forced_leader_is_demoted_by_notice_and_another_leads_when_its_work_has_stopped) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    unsigned first = start_all(election, 2, IN_THREADS);
    expect_fresh_lease(election);
    expect_outcome(force_role(election, TEN_OP_FORCE), TEN_OK);
    await_demotion(election, first, "forced", NOTICE_MS);
    (void)await_leader(election, first, NOTICE_MS);
    expect_order(election, 2);
}

/* ---- death and silence --------------------------------------------------------------------------------- */

ELECTION_CASE(a_follower_leads_when_the_lease_of_a_killed_leader_has_ended_and_not_before) {
    struct election_place *election = with_brief_ttl(state);
    if (!has_processes(election))
        return; /* does not apply */
    unsigned leader = start_all(election, 4, IN_PROCESSES);
    for (int round = 0; round < 2; round++) {
        sleep_ms(election->brief_ms / 2); /* it has been renewed meanwhile: the others' first plans are out of date */
        kill_candidate(election, leader);
        leader = expect_leader_at_the_end(election, NOBODY);
    }
    expect_order(election, 3);
}

struct term {
    tenure_context *context;
    atomic_uint elected;
    atomic_uint demoted;
    atomic_uint uncertain;
    char reason[16];
};

static void note_elected(tenure_election *election, uint64_t token, void *userdata) {
    struct term *term = userdata;
    (void)election;
    (void)token;
    atomic_fetch_add(&term->elected, 1);
}

static void note_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    struct term *term = userdata;
    (void)election;
    (void)token;
    snprintf(term->reason, sizeof term->reason, "%s", reason);
    atomic_fetch_add(&term->demoted, 1);
}

static void note_uncertainty(const tenure_event *event, void *userdata) {
    struct term *term = userdata;
    if (event->kind == TENURE_EVENT_RENEW_FAILED)
        atomic_fetch_add(&term->uncertain, 1);
}

static tenure_election *start_election(const struct election_place *election, const char *name, struct term *term) {
    tenure_options options = {.size = sizeof options,
                              .instance_name = name,
                              .ttl_ms = election->arena->ttl_ms,
                              .renew_ms = election->arena->renew_ms};
    tenure_election_options election_options = {.size = sizeof election_options,
                                                .on_elected = note_elected,
                                                .on_demoted = note_demoted,
                                                .on_event = note_uncertainty,
                                                .userdata = term};
    tenure_election *started = NULL;
    if (tenure_open(suite_fixture.url, &options, &term->context) < 0 ||
        tenure_election_open(term->context, election->role, &election_options, &started) < 0)
        fail_msg("%s", tenure_message(NULL));
    return started;
}

static void end_election(tenure_election *started, struct term *term) {
    tenure_election_close(started);
    tenure_close(term->context);
}

static bool comes_true(const atomic_uint *count, uint64_t limit_ms) {
    for (uint64_t end_ms = now_ms() + limit_ms; atomic_load(count) == 0 && now_ms() < end_ms + late_ms();)
        sleep_ms(1);
    return atomic_load(count) != 0;
}

/* Its thread hangs in a renewal: nothing of it runs any more, and the store lets the next one in. */
ELECTION_CASE(a_leader_whose_thread_hangs_stops_believing_before_another_leads) {
    struct election_place *election = with_brief_ttl(state);
    struct term stuck_term = {0};
    struct term next_term = {0};
    tenure_election *stuck = start_election(election, "stuck", &stuck_term);
    bool led = tenure_election_wait(stuck, HANG_MS) == TENURE_OK;
    tenure_election *next = start_election(election, "next", &next_term);
    hang_request("stuck", TEN_OP_RENEW);
    for (uint64_t end_ms = now_ms() + HANG_MS; !is_hanging() && now_ms() < end_ms;)
        sleep_ms(1);
    bool believed = is_hanging() && tenure_election_leads(stuck) && tenure_election_remaining_ms(stuck) > 0;
    uint64_t doubt_ms = 0;
    bool both = false;
    for (uint64_t end_ms = now_ms() + 2 * election->brief_ms;
         !tenure_election_leads(next) && now_ms() < end_ms + late_ms(); sleep_ms(1)) {
        if (doubt_ms == 0 && !tenure_election_leads(stuck))
            doubt_ms = now_ms();
        both |= doubt_ms != 0 && tenure_election_leads(stuck);
    }
    both |= tenure_election_leads(stuck);
    bool handed_over = tenure_election_leads(next);
    bool silent = atomic_load(&stuck_term.demoted) == 0; /* no thread of it could say so */
    bool hung = is_hanging();
    let_go();
    bool told = comes_true(&stuck_term.demoted, NOTICE_MS);
    bool back = tenure_election_leads(stuck);
    end_election(stuck, &stuck_term);
    end_election(next, &next_term);
    assert_true(led && believed && hung && silent);
    assert_true(handed_over && doubt_ms != 0);
    assert_false(both || back);
    assert_true(told);
    assert_string_equal(stuck_term.reason, "expired");
    assert_int_equal(atomic_load(&stuck_term.demoted), 1);
}

/* ---- lost answers -------------------------------------------------------------------------------------- */

ELECTION_CASE(a_candidate_whose_answer_was_lost_recognises_itself) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    struct term term = {0};
    lose("loser", TEN_OP_ACQUIRE, 0, 2);
    tenure_election *loser = start_election(election, "loser", &term);
    /* Its own lease, of which it never heard, would lock it out for the TTL. */
    int led = tenure_election_wait(loser, TTL_MS / 2);
    uint64_t token = tenure_election_token(loser);
    ten_result role = read_role(election);
    bool own = role.holder && strcmp(role.holder, tenure_instance_id(term.context)) == 0;
    unsigned lost = count_lost();
    end_election(loser, &term);
    assert_int_equal(lost, 2);
    assert_int_equal(led, TENURE_OK);
    assert_true(own);
    assert_int_equal(role.token, token);
    assert_int_equal(atomic_load(&term.elected), 1);
}

ELECTION_CASE(a_leader_whose_renewals_go_unanswered_pauses_and_keeps_its_term) {
    struct election_place *election = with_brief_ttl(state);
    election->arena->ttl_ms = 2 * election->brief_ms;
    election->arena->renew_ms = election->brief_ms / 4;
    struct term term = {0};
    tenure_election *loser = start_election(election, "loser", &term);
    int led = tenure_election_wait(loser, HANG_MS);
    uint64_t token = tenure_election_token(loser);
    lose("loser", TEN_OP_RENEW, 0, 3);
    bool paused = comes_true(&term.uncertain, HANG_MS);
    for (uint64_t end_ms = now_ms() + HANG_MS; count_lost() < 3 && now_ms() < end_ms;)
        sleep_ms(1);
    int again = tenure_election_wait(loser, HANG_MS);
    uint64_t token_after = tenure_election_token(loser);
    unsigned demoted = atomic_load(&term.demoted);
    end_election(loser, &term);
    assert_int_equal(led, TENURE_OK);
    assert_true(paused);
    assert_int_equal(again, TENURE_OK);
    assert_int_equal(token_after, token);
    assert_int_equal(demoted, 0);
    assert_int_equal(atomic_load(&term.elected), 1);
}

/* Lost on its way there, and then once more on its way back. */
ELECTION_CASE(a_release_that_was_lost_is_sent_again_and_the_next_leads_by_notice) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    struct term terms[2] = {0};
    tenure_election *loser = start_election(election, "loser", &terms[0]);
    int led = tenure_election_wait(loser, HANG_MS);
    tenure_election *next = start_election(election, "next", &terms[1]);
    int refused = TENURE_E_TIMEOUT; /* nobody who leads is known yet */
    for (uint64_t end_ms = now_ms() + HANG_MS; refused == TENURE_E_TIMEOUT && now_ms() < end_ms;)
        refused = tenure_election_wait(next, 200);
    lose("loser", TEN_OP_RELEASE, 1, 1);
    int resigned = tenure_election_resign(loser);
    int took_over = tenure_election_wait(next, NOTICE_MS + late_ms());
    unsigned lost = count_lost();
    end_election(loser, &terms[0]);
    end_election(next, &terms[1]);
    assert_int_equal(led, TENURE_OK);
    assert_int_equal(refused, TENURE_E_HELD);
    assert_int_equal(resigned, TENURE_OK);
    assert_int_equal(lost, 2);
    assert_int_equal(took_over, TENURE_OK);
    assert_int_equal(atomic_load(&terms[0].demoted), 1);
    expect_holder(read_role(election), NULL);
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

struct diary {
    const struct election_place *election;
    tenure_context *context;
    char text[512];
    atomic_bool elected;
    bool held_when_demoted;
    bool led_when_elected;
    bool led_when_demoted;
};

static void write_down(struct diary *diary, const char *format, const char *word) {
    size_t length = strlen(diary->text);
    snprintf(diary->text + length, sizeof diary->text - length, format, word);
}

static void write_elected(tenure_election *election, uint64_t token, void *userdata) {
    struct diary *diary = userdata;
    diary->led_when_elected = tenure_election_leads(election) && tenure_election_token(election) == token;
    write_down(diary, "%s", "elected ");
    atomic_store(&diary->elected, true);
}

/* The work stops in here, so the role is not free before it returns. */
static void write_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    struct diary *diary = userdata;
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = "leader", .target = diary->election->role};
    ten_result role = {0};
    diary->held_when_demoted = ten_store_apply(diary->election->place.other, &read, &role, 1, CALL_MS) == TENURE_OK &&
                               role.holder && strcmp(role.holder, tenure_instance_id(diary->context)) == 0 &&
                               role.token == token;
    diary->led_when_demoted = tenure_election_leads(election);
    write_down(diary, "demoted(%s) ", reason);
}

static void write_event(const tenure_event *event, void *userdata) {
    if (event->kind == TENURE_EVENT_ACQUIRED || event->kind == TENURE_EVENT_STOP ||
        event->kind == TENURE_EVENT_RELEASED || event->kind == TENURE_EVENT_LOST)
        write_down(userdata, "%s ", tenure_event_name(event->kind));
}

ELECTION_CASE(the_program_is_told_in_order_and_the_role_is_given_back_after_the_work_has_stopped) {
    struct election_place *election = with_ttl(state, TTL_MS, RENEW_MS);
    struct diary diary = {.election = election};
    tenure_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    tenure_election_options election_options = {.size = sizeof election_options,
                                                .on_elected = write_elected,
                                                .on_demoted = write_demoted,
                                                .on_event = write_event,
                                                .userdata = &diary};
    tenure_election *started = NULL;
    assert_int_equal(tenure_open(suite_fixture.url, &options, &diary.context), TENURE_OK);
    assert_int_equal(tenure_election_open(diary.context, election->role, &election_options, &started), TENURE_OK);
    int led = tenure_election_wait(started, HANG_MS);
    for (uint64_t end_ms = now_ms() + HANG_MS; !atomic_load(&diary.elected) && now_ms() < end_ms;)
        sleep_ms(1); /* it is told a moment later */
    tenure_election_close(started);
    tenure_close(diary.context);
    assert_int_equal(led, TENURE_OK);
    assert_string_equal(diary.text, "lease_acquired elected lease_closing demoted(shutdown) lease_released ");
    assert_true(diary.led_when_elected);
    assert_false(diary.led_when_demoted);
    assert_true(diary.held_when_demoted);
    expect_holder(read_role(election), NULL);
}
