/*
 * The line of candidates, and what an election makes of it: who tries first, the slots of a role, and several roles that
 * are led together.
 */
#include "unit/unit.h"

#include <string.h>

#include "core/election.h"
#include "part.h"

#define TTL_MS   UINT64_C(3000)
#define STEP_MS  UINT64_C(20)
#define START_MS UINT64_C(10000)

static const char metadata[] = "{\"version\":\"1\",\"role\":\"web\",\"priority\":0}";

/* ---- the line */

static void list(ten_turns *turns, const char *const *instances, size_t count) {
    ten_turns_list_begin(turns);
    for (size_t i = 0; i < count; i++)
        ten_turns_list(turns, &(ten_instance){.instance = instances[i], .metadata = metadata, .since_ms = 100 + i}, 0);
    ten_turns_list_end(turns, true);
}

static bool nobody(const void *arg, uint64_t instance) {
    (void)arg;
    (void)instance;
    return false;
}

static size_t rank_of(const ten_turns *turns) {
    return ten_turns_rank(turns, nobody, NULL);
}

TEST(whoever_came_first_is_first) {
    const char *const line[] = {"a", "b", "me", "c"};
    ten_turns turns;
    ten_turns_init(&turns, "web", "me", TTL_MS);
    assert_int_equal(rank_of(&turns), SIZE_MAX);
    list(&turns, line, 4);
    assert_int_equal(rank_of(&turns), 2);
    assert_int_equal(ten_turns_delay_ms(&turns, 2), 2 * STEP_MS);
    ten_turns_left(&turns, "a");
    assert_int_equal(rank_of(&turns), 1);
    ten_turns_left(&turns, "unknown");
    assert_int_equal(rank_of(&turns), 1);
    ten_turns_free(&turns);
}

TEST(whoever_is_drained_does_not_stand_in_the_line) {
    ten_turns turns;
    ten_turns_init(&turns, "web", "me", TTL_MS);
    ten_turns_list_begin(&turns);
    ten_turns_list(&turns, &(ten_instance){.instance = "a", .metadata = metadata, .since_ms = 1, .ask = TEN_ASK_DRAIN},
                   0);
    ten_turns_list(&turns, &(ten_instance){.instance = "me", .metadata = metadata, .since_ms = 2}, 0);
    ten_turns_list_end(&turns, true);
    assert_int_equal(rank_of(&turns), 0);
    ten_turns_free(&turns);
}

TEST(a_lock_says_so) {
    assert_false(ten_turns_is_lock(NULL));
    assert_false(ten_turns_is_lock(metadata));
    assert_true(ten_turns_is_lock("{\"version\":\"1\",\"role\":\"web\",\"kind\":\"lock\"}"));
    assert_false(ten_turns_is_lock("{\"role\":\"web\",\"labels\":{\"kind\":\"lock\"}}"));
}

TEST(whoever_has_led_goes_to_the_end) {
    const char *const line[] = {"a", "me", "b"};
    ten_turns turns;
    ten_turns_init(&turns, "web", "me", TTL_MS);
    list(&turns, line, 3);
    ten_turns_served(&turns, "a");
    assert_int_equal(rank_of(&turns), 0);
    list(&turns, line, 3); /* a listing does not bring it back */
    assert_int_equal(rank_of(&turns), 0);
    ten_turns_served(&turns, "me");
    assert_int_equal(rank_of(&turns), 2);
    ten_turns_served(&turns, "b");
    ten_turns_served(&turns, "a");
    assert_int_equal(rank_of(&turns), 0);
    ten_turns_free(&turns);
}

TEST(a_listing_that_fails_changes_nothing) {
    const char *const line[] = {"a", "me"};
    ten_turns turns;
    ten_turns_init(&turns, "web", "me", TTL_MS);
    list(&turns, line, 2);
    ten_turns_list_begin(&turns);
    ten_turns_list(&turns, &(ten_instance){.instance = "me", .metadata = metadata}, 0);
    ten_turns_list_end(&turns, false);
    assert_int_equal(rank_of(&turns), 1);
    ten_turns_free(&turns);
}

TEST(only_candidates_of_the_role_stand_in_the_line) {
    int64_t priority;
    assert_true(ten_turns_read_metadata("{\"role\":\"web\"}", "web", &priority));
    assert_int_equal(priority, 0);
    assert_true(ten_turns_read_metadata("{\"role\":\"web\",\"priority\":-3,\"labels\":{}}", "web", &priority));
    assert_int_equal(priority, -3);
    assert_false(ten_turns_read_metadata("{\"role\":\"web2\"}", "web", &priority));
    assert_false(ten_turns_read_metadata("{\"role\":\"we\"}", "web", &priority));
    assert_false(ten_turns_read_metadata("{\"labels\":{\"role\":\"web\"}}", "web", &priority));
    assert_false(ten_turns_read_metadata("{\"version\":\"\\\"role\\\":\\\"web\\\"\"}", "web", &priority));
    assert_false(ten_turns_read_metadata(NULL, "web", &priority));
    assert_false(ten_turns_read_metadata("", "web", &priority));
}

TEST(a_higher_priority_stands_first) {
    ten_turns turns;
    ten_turns_init(&turns, "web", "me", TTL_MS);
    ten_turns_list_begin(&turns);
    ten_turns_list(&turns, &(ten_instance){.instance = "me", .metadata = metadata, .since_ms = 1}, 0);
    ten_turns_list(
        &turns, &(ten_instance){.instance = "b", .metadata = "{\"role\":\"web\",\"priority\":5}", .since_ms = 2}, 50);
    ten_turns_list_end(&turns, true);
    assert_int_equal(rank_of(&turns), 1);
    assert_int_equal(ten_turns_better_ms(&turns, 0), 50);
    assert_int_equal(ten_turns_better_ms(&turns, 5), UINT64_MAX);
    ten_turns_served(&turns, "b");
    assert_int_equal(rank_of(&turns), 1);
    ten_turns_free(&turns);
}

/* ---- elections with slots */

struct several {
    ten_election election;
    ten_election_slot slots[3];
    ten_op ops[4];
    ten_event_queue events;
};

static void open_several(struct several *several, enum ten_election_wants wants) {
    static const char *const targets[] = {"web/0", "web/1", "web/2"};
    *several = (struct several){0};
    assert_true(ten_event_queue_open(&several->events));
    for (size_t i = 0; i < TEN_COUNT(targets); i++)
        several->slots[i].target = targets[i];
    ten_election_config config = {.namespace_name = "lock",
                                  .role = "web",
                                  .instance = "me",
                                  .timing = {.ttl_ms = TTL_MS},
                                  .seed = 3,
                                  .events = &several->events,
                                  .slots = several->slots,
                                  .ops = several->ops,
                                  .slot_count = 3,
                                  .wants = wants,
                                  .failback_ms = UINT64_MAX};
    ten_timing_defaults(&config.timing);
    ten_election_init(&several->election, &config);
    ten_election_campaign(&several->election, START_MS);
}

static void close_several(struct several *several) {
    ten_election_free(&several->election);
    ten_event_queue_free(&several->events);
}

static const ten_op *must_send(struct several *several, uint64_t now_ms, enum ten_op_kind kind, size_t count) {
    size_t found = 0;
    const ten_op *ops = part_request(ten_election_step, &several->election, now_ms, &found);
    assert_non_null(ops);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ops[i].kind, kind);
    return ops;
}

static const ten_result held_by_other = {.outcome = TEN_HELD, .holder = "other", .token = 4, .remaining_ms = 700};
static const ten_result read_held = {.outcome = TEN_OK, .holder = "other", .token = 4, .remaining_ms = 700};
static const ten_result read_free = {.outcome = TEN_OK, .token = 3};
static const ten_result granted = {.outcome = TEN_OK, .token = 5, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
static const ten_result done = {.outcome = TEN_OK};

static bool heard(struct several *several, enum tenure_event_kind kind) {
    tenure_event event;
    bool found = false;
    while (ten_event_queue_take(&several->events, &event))
        found |= event.kind == kind;
    return found;
}

TEST(it_takes_the_slot_that_is_free) {
    struct several several;
    open_several(&several, TEN_ELECTION_ANY);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_held, read_free, read_held});
    assert_false(heard(&several, TENURE_EVENT_ACQUIRE_FAILED));
    const ten_op *op = must_send(&several, START_MS, TEN_OP_ACQUIRE, 1);
    assert_string_equal(op->target, "web/1");
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK, &granted);
    assert_true(heard(&several, TENURE_EVENT_ACQUIRED));
    assert_true(ten_election_is_leader(&several.election, START_MS + 1));
    assert_string_equal(ten_election_slot_at(&several.election)->target, "web/1");
    close_several(&several);
}

TEST(that_all_slots_are_held_is_told_once_it_is_known) {
    struct several several;
    open_several(&several, TEN_ELECTION_ANY);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_held, read_free, read_held});
    must_send(&several, START_MS, TEN_OP_ACQUIRE, 1);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK, &held_by_other);
    assert_true(heard(&several, TENURE_EVENT_ACQUIRE_FAILED));
    assert_in_range(part_due(ten_election_due, &several.election, START_MS).next_ms, START_MS + 700,
                    START_MS + 700 + 30);
    close_several(&several);
}

TEST(a_slot_that_may_be_granted_is_asked_for_again) {
    struct several several;
    open_several(&several, TEN_ELECTION_ANY);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_free, read_free, read_free});
    const char *first = must_send(&several, START_MS, TEN_OP_ACQUIRE, 1)->target;
    for (uint64_t i = 0; i < 20; i++) {
        part_answer(ten_election_step, &several.election, START_MS + i, TENURE_E_TIMEOUT, NULL);
        assert_ptr_equal(must_send(&several, START_MS + i, TEN_OP_ACQUIRE, 1)->target, first);
    }
    part_answer(ten_election_step, &several.election, START_MS + 20, TENURE_OK, &granted);
    assert_true(heard(&several, TENURE_EVENT_ACQUIRED));
    close_several(&several);
}

/* ---- several roles at once */

TEST(all_are_acquired_together) {
    struct several several;
    open_several(&several, TEN_ELECTION_ALL);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_free, read_free, read_free});
    must_send(&several, START_MS, TEN_OP_ACQUIRE, 3);
    ten_result shorter = granted;
    shorter.ttl_ms = TTL_MS / 2;
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK, (ten_result[]){granted, shorter, granted});
    assert_true(heard(&several, TENURE_EVENT_ACQUIRED));
    uint64_t deadline_ms = ten_election_deadline_ms(&several.election);
    assert_true(deadline_ms < START_MS + TTL_MS / 2); /* of the first that ends */
    must_send(&several, START_MS + 1000, TEN_OP_RENEW, 3);
    part_answer(ten_election_step, &several.election, START_MS + 1000, TENURE_OK,
                (ten_result[]){granted, granted, granted});
    assert_true(ten_election_deadline_ms(&several.election) > deadline_ms);
    close_several(&several);
}

TEST(nothing_is_held_while_one_of_all_is_missing) {
    struct several several;
    open_several(&several, TEN_ELECTION_ALL);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_free, read_free, read_free});
    must_send(&several, START_MS, TEN_OP_ACQUIRE, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){granted, held_by_other, granted});
    assert_false(ten_election_is_leader(&several.election, START_MS));
    assert_int_equal(ten_election_deadline_ms(&several.election), 0);
    const ten_op *ops = must_send(&several, START_MS, TEN_OP_RELEASE, 2);
    assert_string_equal(ops[0].target, "web/0");
    assert_string_equal(ops[1].target, "web/2");
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK, (ten_result[]){done, done});
    assert_false(heard(&several, TENURE_EVENT_ACQUIRED));
    assert_true(part_due(ten_election_due, &several.election, START_MS).next_ms >= START_MS + 700);
    close_several(&several);
}

TEST(what_a_group_withholds_is_asked_for_again_with_the_one_that_was_refused) {
    struct several several;
    open_several(&several, TEN_ELECTION_ALL);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_free, read_free, read_free});
    const ten_op *ops = must_send(&several, START_MS, TEN_OP_ACQUIRE, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(ops[i].group != 0 && ops[i].group == ops[0].group);
    ten_result withheld = {.outcome = TEN_HELD, .token = 4};
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){withheld, held_by_other, withheld});
    tenure_event event;
    assert_true(ten_event_queue_take(&several.events, &event)); /* of the one that is held, and of no other */
    assert_int_equal(event.kind, TENURE_EVENT_ACQUIRE_FAILED);
    assert_false(ten_event_queue_take(&several.events, &event));
    uint64_t next_ms = part_due(ten_election_due, &several.election, START_MS).next_ms;
    assert_true(next_ms >= START_MS + 700);
    must_send(&several, next_ms, TEN_OP_ACQUIRE, 3);
    close_several(&several);
}

TEST(the_loss_of_one_ends_the_term_of_all) {
    struct several several;
    open_several(&several, TEN_ELECTION_ALL);
    must_send(&several, START_MS, TEN_OP_READ, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK,
                (ten_result[]){read_free, read_free, read_free});
    must_send(&several, START_MS, TEN_OP_ACQUIRE, 3);
    part_answer(ten_election_step, &several.election, START_MS, TENURE_OK, (ten_result[]){granted, granted, granted});
    must_send(&several, START_MS + 1000, TEN_OP_RENEW, 3);
    ten_result lost = {.outcome = TEN_LOST, .holder = "other", .token = 6, .remaining_ms = 500};
    part_answer(ten_election_step, &several.election, START_MS + 1000, TENURE_OK,
                (ten_result[]){granted, lost, granted});
    assert_true(heard(&several, TENURE_EVENT_LOST));
    assert_int_equal(ten_election_deadline_ms(&several.election), 0);
    /* The others are released when the work is over, and not before. */
    assert_null(part_request(ten_election_step, &several.election, START_MS + 1000, &(size_t){0}));
    ten_election_stopped(&several.election);
    must_send(&several, START_MS + 1001, TEN_OP_RELEASE, 2);
    close_several(&several);
}
