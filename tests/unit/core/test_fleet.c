/*
 * The fleet on a clock that the test tells: cases that came out of runs with real processes. Whole fleets are
 * tests/sim's business.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "core/fleet.h"
#include "part.h"

#define TARGETS 20u
#define MANY    150u /* more than are told one by one */
#define TTL_MS  1500u

static void list_instances(ten_fleet *fleet, uint64_t now_ms, const char *const *ids, size_t count) {
    (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_INSTANCES);
    for (size_t i = 0; i < count; i++)
        part_instance(ten_fleet_step, fleet, now_ms,
                      &(ten_instance){.instance = ids[i], .weight = 1, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS});
    (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_INSTANCES_END);
}

static ten_event_queue reported; /* by all fleets of a test */

static int open_queue(void **state) {
    (void)state;
    return ten_event_queue_open(&reported) ? 0 : -1;
}

static int free_queue(void **state) {
    (void)state;
    ten_event_queue_free(&reported);
    return 0;
}

#define FLEET_TEST(name) TEST_WITH(name, open_queue, free_queue)

static bool wants_instances(const ten_fleet *fleet, uint64_t now_ms) {
    return part_due(ten_fleet_due, fleet, now_ms).instances_ms <= now_ms;
}

static uint32_t targets_max; /* of the fleets of a test */

static bool with_sessions; /* in the next fleet */

static ten_fleet *new_unread_fleet(const char *instance) {
    ten_fleet_config config = {.namespace_name = "poll",
                               .instance = instance,
                               .timing = {.ttl_ms = TTL_MS},
                               .settle_ms = 100,
                               .rank_delay_ms = 20,
                               .weight = 1,
                               .registry = true,
                               .targets_max = targets_max,
                               .sessions = with_sessions,
                               .events = &reported};
    ten_timing_defaults(&config.timing);
    ten_fleet *fleet = ten_fleet_new(&config, 1000);
    assert_non_null(fleet);
    return fleet;
}

/* It has read an empty registry. */
static ten_fleet *new_fleet_of(const char *instance) {
    ten_fleet *fleet = new_unread_fleet(instance);
    (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING);
    assert_false(part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END).lacks);
    return fleet;
}

static ten_fleet *new_fleet(void) {
    return new_fleet_of("me");
}

static ten_fleet *new_session_fleet(void) {
    with_sessions = true;
    ten_fleet *fleet = new_fleet();
    with_sessions = false;
    return fleet;
}

static void list_session_instance(ten_fleet *fleet, uint64_t now_ms) {
    ten_instance me = {
        .instance = "me", .weight = 1, .ttl_ms = TTL_MS, .remaining_ms = 100 * TTL_MS, .has_session = true};
    (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_INSTANCES);
    part_instance(ten_fleet_step, fleet, now_ms, &me);
    (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_INSTANCES_END);
}

/* Answers a request as a store would in which everything is free; counts the acquires. */
static size_t answer(ten_fleet *fleet, uint64_t now_ms) {
    ten_result results[MANY + 2] = {0};
    size_t count = 0;
    size_t acquires = 0;
    const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
    for (size_t i = 0; ops && i < count; i++) {
        acquires += ops[i].kind == TEN_OP_ACQUIRE;
        results[i] = (ten_result){.outcome = TEN_OK, .token = 2, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    }
    if (ops)
        part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
    return acquires;
}

FLEET_TEST(what_a_dead_instance_held_is_taken_when_it_ends_although_the_plan_changes_before) {
    static const char *const instances[] = {"me", "other", "new"};
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0); /* announces itself */
    for (unsigned i = 0; i < TARGETS; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        assert_int_not_equal(ten_fleet_put_target(fleet, 1000, id, false), TEN_PLAN_NONE);
        ten_row row = {.target = {.id = id}, .registered = true, .holder = "dead", .token = 1, .remaining_ms = 400};
        part_row(ten_fleet_step, fleet, 1000, &row);
    }
    list_instances(fleet, 1000, instances, 2);
    assert_int_equal(answer(fleet, 1350), 0); /* it is still held */
    list_instances(fleet, 1350, instances, 3);
    /* At 1400 all is free; the last in rank waits longer, twice ten rank delays, and nobody else takes anything. */
    size_t acquires = 0;
    for (uint64_t now_ms = 1351; now_ms <= 1850; now_ms++) {
        size_t more = answer(fleet, now_ms);
        assert_true(more == 0 || now_ms >= 1400);
        acquires += more;
    }
    assert_int_equal(acquires, TARGETS);
    ten_fleet_free(fleet);
}

/* In a store that lost data, a renewal that came late can have put the lease back although somebody else had it
 * meanwhile. */
FLEET_TEST(a_token_whose_deadline_passed_is_given_back_and_not_believed_again) {
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    uint32_t number = ten_fleet_put_target(fleet, 1000, "t", false);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    uint64_t now_ms = 1000;
    while (answer(fleet, now_ms) == 0 && now_ms < 3000)
        now_ms++;
    assert_true(ten_fleet_may_work(fleet, number, now_ms)); /* with token 2 */
    /* Nothing is answered until the deadline has passed; then the store says that "me" has 2 as before. */
    now_ms += TTL_MS;
    bool released = false;
    for (int i = 0; i < 5 && !released; i++, now_ms++) {
        ten_result results[4] = {0};
        size_t count = 0;
        const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
        for (size_t j = 0; ops && j < count; j++) {
            released |= ops[j].kind == TEN_OP_RELEASE && ops[j].token == 2;
            results[j] = (ten_result){.outcome = TEN_OK, .token = 2, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
        }
        if (ops)
            part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
        assert_false(ten_fleet_may_work(fleet, number, now_ms));
    }
    assert_true(released);
    ten_fleet_free(fleet);
}

/* One request, answered with that token; counts the operations of that kind. */
static size_t answer_with(ten_fleet *fleet, uint64_t now_ms, uint64_t token, enum ten_op_kind kind) {
    ten_result results[4] = {0};
    size_t count = 0;
    size_t found = 0;
    const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
    for (size_t i = 0; ops && i < count; i++) {
        found += ops[i].kind == kind;
        results[i] = (ten_result){.outcome = TEN_OK, .token = token, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    }
    if (ops)
        part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
    return found;
}

/* A fleet of one that holds t with token 2. */
static ten_fleet *hold_one(uint32_t *ret_number, uint64_t *ret_now_ms) {
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    *ret_number = ten_fleet_put_target(fleet, 1000, "t", false);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    *ret_now_ms = 1000;
    while (answer(fleet, *ret_now_ms) == 0 && *ret_now_ms < 3000)
        ++*ret_now_ms;
    assert_true(ten_fleet_may_work(fleet, *ret_number, *ret_now_ms));
    return fleet;
}

/* Its program removes it, and puts it again before the store has ended the lease. */
FLEET_TEST(a_token_whose_deadline_passed_is_not_believed_again_after_the_target_was_removed) {
    uint32_t number;
    uint64_t now_ms;
    ten_fleet *fleet = hold_one(&number, &now_ms);
    now_ms += TTL_MS - TTL_MS / 8; /* nothing was answered until the deadline */
    ten_fleet_remove_target(fleet, now_ms, number);
    size_t releases = answer_with(fleet, now_ms, 2, TEN_OP_RELEASE);
    number = ten_fleet_put_target(fleet, now_ms, "t", false);
    for (int i = 0; i < 5; i++) {
        releases += answer_with(fleet, ++now_ms, 2, TEN_OP_RELEASE);
        assert_false(ten_fleet_may_work(fleet, number, now_ms) && ten_fleet_holding(fleet, number).token == 2 &&
                     releases == 0);
    }
    assert_true(releases > 0);
    ten_fleet_free(fleet);
}

FLEET_TEST(a_target_is_busy_until_the_last_piece_of_work_has_ended) {
    uint32_t number;
    uint64_t now_ms;
    ten_fleet *fleet = hold_one(&number, &now_ms);
    ten_fleet_begin_work(fleet, now_ms, number);
    ten_fleet_begin_work(fleet, now_ms, number);
    ten_fleet_remove_target(fleet, now_ms, number);
    assert_true(ten_fleet_end_work(fleet, now_ms, number));
    assert_true(ten_fleet_is_busy(fleet));
    assert_int_equal(answer_with(fleet, now_ms, 2, TEN_OP_RELEASE), 0);
    assert_true(ten_fleet_end_work(fleet, now_ms, number));
    assert_int_equal(answer_with(fleet, now_ms, 2, TEN_OP_RELEASE), 1);
    ten_fleet_free(fleet);
}

FLEET_TEST(work_that_was_not_begun_cannot_end) {
    uint32_t number;
    uint64_t now_ms;
    ten_fleet *fleet = hold_one(&number, &now_ms);
    assert_false(ten_fleet_end_work(fleet, now_ms, number));
    ten_fleet_begin_work(fleet, now_ms, number);
    assert_true(ten_fleet_end_work(fleet, now_ms, number));
    assert_false(ten_fleet_end_work(fleet, now_ms, number));
    assert_false(ten_fleet_is_busy(fleet));
    ten_fleet_free(fleet);
}

/* A fleet of two with some targets that lives for a few TTLs; whatever failed, only what was granted may be worked on.
 */
static void live_with_little_memory(ten_fleet *fleet) {
    char ids[TARGETS][16];
    uint32_t numbers[TARGETS];
    bool granted[TARGETS] = {0};
    for (uint64_t now_ms = 1000; now_ms < 1000 + 3 * TTL_MS; now_ms += 50) {
        for (unsigned i = 0; i < TARGETS; i++) {
            const char *id = ids[i];
            snprintf(ids[i], sizeof ids[i], "t-%u", i);
            numbers[i] = i % 5 ? ten_fleet_put_target(fleet, now_ms, id, false) : ten_fleet_claim(fleet, now_ms, id);
        }
        ten_fleet_targets_settled(fleet, now_ms);
        if (wants_instances(fleet, now_ms))
            list_instances(fleet, now_ms, (const char *const[]){"me", "other"}, 2);
        ten_result results[TARGETS + 2] = {0};
        size_t count = 0;
        const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
        for (size_t i = 0; ops && i < count; i++) {
            results[i] = (ten_result){.outcome = TEN_OK, .token = 2, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
            for (unsigned j = 0; j < TARGETS; j++)
                granted[j] |= ops[i].kind == TEN_OP_ACQUIRE && strcmp(ops[i].target, ids[j]) == 0;
        }
        if (ops)
            part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
        for (unsigned i = 0; i < TARGETS; i++)
            if (numbers[i] != TEN_PLAN_NONE && ten_fleet_may_work(fleet, numbers[i], now_ms))
                assert_true(granted[i]);
    }
}

FLEET_TEST(a_fleet_that_runs_out_of_memory_anywhere_believes_only_what_was_granted) {
    ten_fleet_config config = {.namespace_name = "poll",
                               .instance = "me",
                               .timing = {.ttl_ms = TTL_MS},
                               .settle_ms = 100,
                               .weight = 1,
                               .events = &reported};
    ten_timing_defaults(&config.timing);
    bool failed = true;
    long sites = 0;
    for (; failed; sites++) {
        ten_alloc_fail_after(sites);
        ten_fleet *fleet = ten_fleet_new(&config, 1000);
        if (fleet)
            live_with_little_memory(fleet);
        failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        ten_fleet_free(fleet);
    }
    assert_true(sites > 20); /* else nothing was tested */
}

FLEET_TEST(renewals_of_a_large_batch_are_told_as_one_event) {
    ten_fleet *fleet = new_fleet();
    tenure_event event;
    size_t renewed = 0, events = 0;
    answer(fleet, 1000);
    for (unsigned i = 0; i < MANY; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        assert_int_not_equal(ten_fleet_put_target(fleet, 1000, id, false), TEN_PLAN_NONE);
    }
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    for (uint64_t now_ms = 1001; now_ms < 1001 + TTL_MS && renewed == 0; now_ms++) {
        answer(fleet, now_ms);
        for (events = 0; ten_event_queue_take(&reported, &event);)
            if (event.kind == TENURE_EVENT_RENEWED) {
                events++;
                renewed += event.count;
            }
    }
    assert_int_equal(events, 1);
    assert_int_equal(renewed, MANY);
    ten_fleet_free(fleet);
}

FLEET_TEST(an_instance_that_was_declared_gone_acquires_nothing_more) {
    ten_fleet *fleet = new_fleet();
    answer(fleet, 1000);
    uint32_t number = ten_fleet_put_target(fleet, 1000, "t", false);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    bool refused = false;
    for (uint64_t now_ms = 1001; now_ms < 1001 + 5 * TTL_MS; now_ms += 10) {
        ten_result results[4] = {0};
        size_t count = 0;
        const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
        for (size_t i = 0; ops && i < count; i++) {
            bool acquires = ops[i].kind == TEN_OP_ACQUIRE;
            assert_false(refused && acquires);
            refused |= acquires;
            results[i] = acquires ? (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_GONE}
                                  : (ten_result){.outcome = TEN_OK, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
        }
        if (ops)
            part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
        assert_false(ten_fleet_may_work(fleet, number, now_ms));
    }
    assert_true(refused);
    ten_fleet_free(fleet);
}

/* One instance's next step in a store that answers heartbeats, and acquires as it is told; how often it told that the
 * target is nobody's. */
static size_t step(ten_fleet *fleet, uint64_t now_ms, ten_result acquire) {
    static const char *const instances[] = {"a", "b"};
    ten_result results[8] = {0};
    tenure_event event;
    size_t count = 0;
    size_t told = 0;
    const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
    for (size_t i = 0; ops && i < count; i++)
        results[i] = ops[i].kind == TEN_OP_ACQUIRE
                         ? acquire
                         : (ten_result){.outcome = TEN_OK, .token = ops[i].token, .ttl_ms = TTL_MS};
    if (ops)
        part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
    if (wants_instances(fleet, now_ms))
        list_instances(fleet, now_ms, instances, TEN_COUNT(instances));
    while (ten_event_queue_take(&reported, &event)) {
        if (event.kind != TENURE_EVENT_UNOWNED)
            continue;
        told++;
        assert_in_range(event.free_ms, TTL_MS + 1, 2 * TTL_MS);
    }
    return told;
}

FLEET_TEST(a_target_that_nobody_gets_is_told_once_by_one_instance_and_again_after_somebody_had_it) {
    const ten_result refused = {.outcome = TEN_ERROR, .error = TENURE_E_TOKEN};
    const ten_result granted = {.outcome = TEN_OK, .token = 5, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    ten_fleet *fleets[] = {new_fleet_of("a"), new_fleet_of("b")};
    uint32_t numbers[2];
    for (size_t i = 0; i < 2; i++) {
        numbers[i] = ten_fleet_put_target(fleets[i], 1000, "t", false);
        assert_int_not_equal(numbers[i], TEN_PLAN_NONE);
        assert_int_not_equal(ten_fleet_put_target(fleets[i], 1000, "paused", true), TEN_PLAN_NONE);
    }
    uint64_t now_ms = 1000;
    size_t told = 0;
    for (; now_ms < 1000 + TTL_MS; now_ms += 10)
        told += step(fleets[0], now_ms, refused) + step(fleets[1], now_ms, refused);
    assert_int_equal(told, 0); /* not longer than the TTL */
    for (; now_ms < 1000 + 10 * TTL_MS; now_ms += 10)
        told += step(fleets[0], now_ms, refused) + step(fleets[1], now_ms, refused);
    assert_int_equal(told, 1);
    assert_int_equal(ten_fleet_get_unowned(fleets[0]).count, 1);
    assert_in_range(now_ms - ten_fleet_get_unowned(fleets[0]).since_ms, 9 * TTL_MS, 10 * TTL_MS);
    /* Now the planned one gets it, and the other hears of it; then a store that forgot it takes it away. */
    size_t planned =
        ten_plan_holder(ten_fleet_plan(fleets[0]), numbers[0]) == ten_plan_find_instance(ten_fleet_plan(fleets[0]), "a")
            ? 0
            : 1;
    ten_change taken = {.kind = TENURE_EVENT_ACQUIRED,
                        .namespace_name = "poll",
                        .target = "t",
                        .instance = planned == 0 ? "a" : "b",
                        .actor = "",
                        .token = 5};
    for (uint64_t end_ms = now_ms + 2 * TTL_MS; now_ms < end_ms; now_ms += 10)
        told += step(fleets[planned], now_ms, granted);
    part_change(ten_fleet_step, fleets[1 - planned], now_ms, &taken);
    told += step(fleets[1 - planned], now_ms + 1000, refused);
    assert_true(ten_fleet_may_work(fleets[planned], numbers[planned], now_ms));
    assert_int_equal(ten_fleet_get_unowned(fleets[0]).count + ten_fleet_get_unowned(fleets[1]).count, 0);
    assert_int_equal(told, 1);
    taken.kind = TENURE_EVENT_LOST;
    taken.reason = TEN_REASON_FORCED;
    for (size_t i = 0; i < 2; i++)
        part_change(ten_fleet_step, fleets[i], now_ms + 1000, &taken);
    now_ms += 1000;
    for (uint64_t end_ms = now_ms + 10 * TTL_MS; now_ms < end_ms; now_ms += 10)
        told += step(fleets[0], now_ms, refused) + step(fleets[1], now_ms, refused);
    assert_int_equal(told, 2);
    for (size_t i = 0; i < 2; i++)
        ten_fleet_free(fleets[i]);
}

/* A store with sessions in which the target is free until `barred`, and then barred on the session of "me". Counts the
 * acquires that were granted, and the releases. */
struct sessions_store {
    bool barred;
    unsigned grants;
    unsigned releases;
};

static ten_result answer_on_session(struct sessions_store *store, const ten_op *op) {
    ten_result result = {.outcome = TEN_OK, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS, .session = 7};
    bool lease = op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_RENEW || op->kind == TEN_OP_READ;
    if (lease) {
        result.token = store->grants + (op->kind == TEN_OP_ACQUIRE && !store->barred);
        result.holder = "me";
        result.barred = store->barred;
    }
    if (op->kind == TEN_OP_ACQUIRE && !store->barred)
        store->grants++;
    else if (lease && op->kind != TEN_OP_READ && store->barred)
        result.outcome = op->kind == TEN_OP_ACQUIRE ? TEN_HELD : TEN_LOST;
    if (op->kind == TEN_OP_RELEASE) {
        store->releases++;
        store->barred = false;
    }
    return result;
}

static void step_on_session(ten_fleet *fleet, uint64_t now_ms, struct sessions_store *store) {
    ten_result results[8] = {0};
    size_t count = 0;
    const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
    for (size_t i = 0; ops && i < count; i++)
        results[i] = answer_on_session(store, &ops[i]);
    if (ops)
        part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
}

static void tell_forced(ten_fleet *fleet, uint64_t now_ms, const char *holder, uint64_t token) {
    part_change(ten_fleet_step, fleet, now_ms,
                &(ten_change){.kind = TENURE_EVENT_LOST,
                              .reason = TEN_REASON_FORCED,
                              .target = "t",
                              .instance = holder,
                              .actor = "",
                              .token = token});
}

/* The feed may tell of it before a heartbeat finds it, or not. */
FLEET_TEST(a_lease_that_was_forced_is_released_when_its_work_has_stopped_and_not_before) {
    for (int heard = 0; heard < 2; heard++) {
        ten_fleet *fleet = new_session_fleet();
        struct sessions_store store = {0};
        uint64_t now_ms = 1000;
        step_on_session(fleet, now_ms, &store);
        uint32_t number = ten_fleet_put_target(fleet, now_ms, "t", false);
        list_session_instance(fleet, now_ms);
        for (; store.grants == 0 && now_ms < 3000; now_ms += 10)
            step_on_session(fleet, now_ms, &store);
        assert_true(ten_fleet_may_work(fleet, number, now_ms));
        ten_fleet_begin_work(fleet, now_ms, number);
        store.barred = true;
        if (heard)
            tell_forced(fleet, now_ms, "me", store.grants);
        for (uint64_t end_ms = now_ms + 3 * TTL_MS; now_ms < end_ms; now_ms += 10)
            step_on_session(fleet, now_ms, &store);
        assert_false(ten_fleet_may_work(fleet, number, now_ms));
        assert_int_equal(store.releases, 0);
        (void)ten_fleet_end_work(fleet, now_ms, number);
        step_on_session(fleet, now_ms, &store);
        assert_int_equal(store.releases, 1);
        for (uint64_t end_ms = now_ms + TTL_MS; store.grants == 1 && now_ms < end_ms; now_ms += 10)
            step_on_session(fleet, now_ms, &store);
        assert_true(ten_fleet_may_work(fleet, number, now_ms));
        ten_fleet_free(fleet);
    }
}

/* Its holder is dead. Nobody hears when the lease ends: it is tried when the heartbeat does, and when the refusal says. */
FLEET_TEST(a_forced_target_is_tried_no_later_than_if_it_had_not_been_forced) {
    static const char *const instances[] = {"me", "dead"};
    uint64_t taken_ms[2] = {0};
    for (int forced = 0; forced < 2; forced++) {
        ten_fleet *fleet = new_fleet();
        assert_int_equal(answer(fleet, 1000), 0);
        (void)ten_fleet_put_target(fleet, 1000, "t", false);
        list_instances(fleet, 1000, instances, 2);
        part_row(ten_fleet_step, fleet, 1000,
                 &(ten_row){
                     .target = {.id = "t"}, .registered = true, .holder = "dead", .token = 1, .remaining_ms = TTL_MS});
        for (uint64_t now_ms = 1001; taken_ms[forced] == 0 && now_ms < 1000 + 4 * TTL_MS; now_ms++) {
            if (forced && now_ms == 1000 + TTL_MS / 2)
                tell_forced(fleet, now_ms, "dead", 1);
            if (now_ms > 1000 + TTL_MS && wants_instances(fleet, now_ms))
                list_instances(fleet, now_ms, instances, 1);
            if (answer(fleet, now_ms) > 0)
                taken_ms[forced] = now_ms;
        }
        ten_fleet_free(fleet);
    }
    assert_in_range(taken_ms[0], 1000 + TTL_MS, 1000 + 2 * TTL_MS);
    assert_in_range(taken_ms[1], 1000 + TTL_MS, taken_ms[0]);
}

/* It reads of that and of its own word in one go, when it has nothing left to release. */
FLEET_TEST(what_was_handed_over_to_an_instance_that_stops_is_released_before_it_leaves) {
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    (void)ten_fleet_put_target(fleet, 1000, "t", false);
    list_instances(fleet, 1000, (const char *const[]){"me", "other"}, 2);
    ten_fleet_stop(fleet, 1010);
    (void)answer(fleet, 1010); /* without weight */
    part_change(ten_fleet_step, fleet, 1020,
                &(ten_change){.kind = TENURE_EVENT_ACQUIRED,
                              .reason = TEN_REASON_REBALANCE,
                              .target = "t",
                              .instance = "me",
                              .actor = "",
                              .token = 7});
    part_change(ten_fleet_step, fleet, 1020,
                &(ten_change){.kind = TENURE_EVENT_INSTANCE_CHANGED, .target = "", .instance = "me", .actor = ""});
    bool released = false;
    bool left = false;
    for (uint64_t now_ms = 1020; now_ms < 1100 && !left; now_ms++) {
        ten_result results[4] = {{.outcome = TEN_OK}, {.outcome = TEN_OK}};
        size_t count = 0;
        const ten_op *ops = part_request(ten_fleet_step, fleet, now_ms, &count);
        for (size_t i = 0; ops && i < count; i++) {
            released |= ops[i].kind == TEN_OP_RELEASE && ops[i].token == 7;
            left |= ops[i].kind == TEN_OP_LEAVE;
            assert_true(released || !left);
        }
        if (ops)
            part_answer(ten_fleet_step, fleet, now_ms, TENURE_OK, results);
    }
    assert_true(left);
    ten_fleet_free(fleet);
}

/* ---- the registry */

static void list_registry(ten_fleet *fleet, uint64_t now_ms, unsigned count) {
    (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_LISTING);
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        part_row(ten_fleet_step, fleet, now_ms, &(ten_row){.target = {.id = id}, .registered = true});
    }
}

static size_t count_removed(void) {
    tenure_event event;
    size_t count = 0;
    while (ten_event_queue_take(&reported, &event))
        count += event.kind == TENURE_EVENT_TARGET_REMOVED;
    return count;
}

FLEET_TEST(a_registry_that_has_shrunk_is_believed_when_the_feed_shows_no_epoch) {
    ten_fleet *fleet = new_fleet();
    list_registry(fleet, 1000, 3);
    assert_false(part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END).lacks);
    list_registry(fleet, 2000, 1);
    assert_true(part_on(ten_fleet_step, fleet, 2000, TEN_ON_LISTING_END).lacks);
    assert_int_equal(count_removed(), 0);
    (void)part_on(ten_fleet_step, fleet, 2000, TEN_ON_LISTING); /* the next one has begun, and has shown nothing yet */
    (void)part_on(ten_fleet_step, fleet, 2010, TEN_ON_FOLLOW);  /* overrun is not loss */
    assert_int_equal(part_on(ten_fleet_step, fleet, 2010, TEN_ON_CHECKED).at_ms, UINT64_MAX);
    assert_int_equal(count_removed(), 2);
    part_absent(ten_fleet_step, fleet, 3001, "t-0"); /* one that was read by itself */
    assert_int_equal(count_removed(), 1);
    ten_fleet_free(fleet);
}

FLEET_TEST(a_registry_that_has_shrunk_in_an_epoch_is_believed_a_ttl_later) {
    ten_fleet *fleet = new_fleet();
    list_registry(fleet, 1000, 3);
    assert_false(part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END).lacks);
    list_registry(fleet, 2000, 1);
    assert_true(part_on(ten_fleet_step, fleet, 2000, TEN_ON_LISTING_END).lacks);
    part_change(ten_fleet_step, fleet, 2010,
                &(ten_change){.kind = TENURE_EVENT_RECOVERING, .target = "", .instance = "", .actor = ""});
    for (unsigned i = 0; i < 3; i++) { /* however often it is overrun meanwhile */
        (void)part_on(ten_fleet_step, fleet, 2010 + i * 100, TEN_ON_FOLLOW);
        assert_int_equal(part_on(ten_fleet_step, fleet, 2010 + i * 100, TEN_ON_CHECKED).at_ms, 2010 + TTL_MS);
    }
    assert_int_equal(count_removed(), 0);
    list_registry(fleet, 2010 + TTL_MS, 2);
    assert_true(part_on(ten_fleet_step, fleet, 2010 + TTL_MS, TEN_ON_LISTING_END).lacks);
    assert_int_equal(part_on(ten_fleet_step, fleet, 2010 + TTL_MS, TEN_ON_CHECKED).at_ms, UINT64_MAX);
    assert_int_equal(count_removed(), 1);
    ten_fleet_free(fleet);
}

static size_t count_told(enum tenure_event_kind kind, int error) {
    tenure_event event;
    size_t count = 0;
    while (ten_event_queue_take(&reported, &event))
        count += event.kind == kind && event.error == error;
    return count;
}

static int limit_targets(void **state) {
    targets_max = 5;
    return open_queue(state);
}

static int unlimit_targets(void **state) {
    targets_max = 0;
    return free_queue(state);
}

/* The others would plan with it, and hand over to it what it does not know. */
FLEET_TEST(an_instance_joins_when_it_has_read_the_targets) {
    ten_fleet *fleet = new_unread_fleet("me");
    size_t count;
    list_registry(fleet, 1000, 3);
    for (uint64_t now_ms = 1000; now_ms < 1000 + 3 * TTL_MS; now_ms++) {
        assert_null(part_request(ten_fleet_step, fleet, now_ms, &count));
        assert_true(part_due(ten_fleet_due, fleet, now_ms).next_ms > now_ms);
    }
    uint64_t read_ms = 1000 + 3 * TTL_MS;
    assert_false(part_on(ten_fleet_step, fleet, read_ms, TEN_ON_LISTING_END).lacks);
    assert_true(part_due(ten_fleet_due, fleet, read_ms).next_ms <= read_ms);
    const ten_op *ops = part_request(ten_fleet_step, fleet, read_ms, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ops[0].kind, TEN_OP_ANNOUNCE);
    ten_fleet_free(fleet);
}

TEST_WITH(an_instance_that_is_not_willing_to_know_all_targets_does_not_join, limit_targets, unlimit_targets) {
    ten_fleet *fleet = new_unread_fleet("me");
    size_t count;
    list_registry(fleet, 1000, 8);
    (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END);
    assert_int_equal(count_told(TENURE_EVENT_REFUSED, TENURE_E_TOO_MANY), 1);
    assert_null(part_request(ten_fleet_step, fleet, 1001, &count));
    assert_int_equal(count_told(TENURE_EVENT_STOPPED, TENURE_OK), 1);
    ten_fleet_free(fleet);
}

/* All instances of a fleet would stop at the same moment. */
TEST_WITH(an_instance_at_work_goes_on_when_there_are_too_many_targets, limit_targets, unlimit_targets) {
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    list_registry(fleet, 1000, 5);
    (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END);
    size_t acquires = 0;
    for (uint64_t now_ms = 1001; now_ms < 1200; now_ms++)
        acquires += answer(fleet, now_ms);
    assert_int_equal(acquires, 5);
    list_registry(fleet, 1200, 8);
    (void)part_on(ten_fleet_step, fleet, 1200, TEN_ON_LISTING_END);
    assert_int_equal(count_told(TENURE_EVENT_ACQUIRE_FAILED, TENURE_E_TOO_MANY), 1);
    assert_int_equal(ten_fleet_owned_count(fleet), 5);
    /* One goes, and there is room for another. */
    part_absent(ten_fleet_step, fleet, 1210, "t-0");
    for (uint64_t now_ms = 1210; now_ms < 1230; now_ms++)
        acquires += answer(fleet, now_ms);
    part_row(ten_fleet_step, fleet, 1230, &(ten_row){.target = {.id = "t-7"}, .registered = true});
    (void)part_on(ten_fleet_step, fleet, 1230, TEN_ON_READ_END);
    for (uint64_t now_ms = 1230; now_ms < 1400; now_ms++)
        acquires += answer(fleet, now_ms);
    assert_int_equal(acquires, 6);
    ten_fleet_free(fleet);
}

/* And no overrun of the feed postpones that. */
FLEET_TEST(a_listing_shows_that_a_target_is_free_although_the_feed_did_not_say_so) {
    ten_fleet *fleet = new_fleet();
    ten_row row = {
        .target = {.id = "t"}, .registered = true, .holder = "outsider", .token = 1, .remaining_ms = 20 * TTL_MS};
    (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_FOLLOW);
    assert_int_equal(answer(fleet, 1000), 0); /* announces itself */
    part_row(ten_fleet_step, fleet, 1000, &row);
    (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_READ_END);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    uint64_t now_ms = 1000;
    for (; now_ms < 1000 + 3 * TTL_MS; now_ms += 10)
        assert_int_equal(answer(fleet, now_ms), 0);
    row.holder = NULL;
    size_t acquires = 0;
    for (uint64_t end_ms = now_ms + 50; now_ms < end_ms; now_ms += 10) {
        (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_FOLLOW);
        part_row(ten_fleet_step, fleet, now_ms, &row);
        acquires += answer(fleet, now_ms);
    }
    assert_int_equal(acquires, 1);
    ten_fleet_free(fleet);
}

/* A listing has no rows for targets that are free and not registered. */
FLEET_TEST(what_a_listing_lacks_is_free_unless_its_holder_was_heard_of_meanwhile) {
    for (int heard = 0; heard < 2; heard++) {
        (void)state;
        ten_fleet *fleet = new_fleet();
        ten_row row = {.target = {.id = "t"}, .holder = "outsider", .token = 1, .remaining_ms = 20 * TTL_MS};
        ten_change taken = {
            .kind = TENURE_EVENT_ACQUIRED, .target = "t", .instance = "outsider", .actor = "", .token = 2};
        (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_FOLLOW);
        assert_int_equal(answer(fleet, 1000), 0); /* announces itself */
        assert_int_equal(ten_fleet_put_target(fleet, 1000, "t", false) == TEN_PLAN_NONE, false);
        (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING);
        part_row(ten_fleet_step, fleet, 1000, &row);
        (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_LISTING_END);
        list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
        uint64_t now_ms = 1000;
        for (; now_ms < 1000 + 3 * TTL_MS; now_ms += 10)
            assert_int_equal(answer(fleet, now_ms), 0);
        (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_LISTING);
        if (heard)
            part_change(ten_fleet_step, fleet, now_ms, &taken);
        (void)part_on(ten_fleet_step, fleet, now_ms, TEN_ON_LISTING_END);
        size_t acquires = 0;
        for (uint64_t end_ms = now_ms + 50; now_ms < end_ms; now_ms += 10)
            acquires += answer(fleet, now_ms);
        assert_int_equal(acquires, heard ? 0 : 1);
        ten_fleet_free(fleet);
    }
}

/* The instances' lists of targets differ: nobody would work on it until its lease ends. */
FLEET_TEST(what_is_handed_over_to_an_instance_that_does_not_know_it_is_released_at_once) {
    for (int removed = 0; removed < 2; removed++) {
        (void)state;
        ten_fleet *fleet = new_fleet();
        (void)part_on(ten_fleet_step, fleet, 1000, TEN_ON_FOLLOW);
        assert_int_equal(answer(fleet, 1000), 0); /* announces itself */
        list_instances(fleet, 1000, (const char *const[]){"me", "other"}, 2);
        if (removed) {
            uint32_t number = ten_fleet_put_target(fleet, 1000, "t", false);
            ten_fleet_remove_target(fleet, 1000, number);
        }
        ten_change handed = {.kind = TENURE_EVENT_ACQUIRED,
                             .target = "t",
                             .instance = "other",
                             .actor = "",
                             .token = 2,
                             .reason = TEN_REASON_REBALANCE};
        part_change(ten_fleet_step, fleet, 1001, &handed); /* to somebody else: that is no matter of this instance */
        assert_int_equal(answer_with(fleet, 1001, 2, TEN_OP_RELEASE), 0);
        handed.instance = "me";
        handed.token = 3;
        part_change(ten_fleet_step, fleet, 1002, &handed);
        size_t count = 0;
        const ten_op *ops = part_request(ten_fleet_step, fleet, 1002, &count);
        assert_int_equal(count, 1);
        assert_int_equal(ops[0].kind, TEN_OP_RELEASE);
        assert_string_equal(ops[0].target, "t");
        assert_int_equal(ops[0].token, 3);
        part_answer(ten_fleet_step, fleet, 1002, TENURE_OK, &(ten_result){.outcome = TEN_OK});
        assert_int_equal(ten_plan_find_target(ten_fleet_plan(fleet), "t"), TEN_PLAN_NONE);
        ten_fleet_free(fleet);
    }
}

/* It would see nobody else at first, take everything, and hand it over again. */
FLEET_TEST(after_an_outage_of_more_than_a_ttl_an_instance_takes_its_share_and_waits_for_the_others) {
    static const char *const instances[] = {"me", "other"};
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    for (unsigned i = 0; i < TARGETS; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        (void)ten_fleet_put_target(fleet, 1000, id, false);
    }
    list_instances(fleet, 1000, instances, 2);
    assert_int_equal(answer(fleet, 1100), TARGETS / 2);
    for (uint32_t i = 0; i < TARGETS; i++) {
        const ten_plan *plan = ten_fleet_plan(fleet);
        ten_change taken = {
            .kind = TENURE_EVENT_ACQUIRED, .target = ten_plan_target_id(plan, i), .instance = "other", .token = 1};
        if (strcmp(ten_plan_instance_id(plan, ten_plan_holder(plan, i)), "other") == 0)
            part_change(ten_fleet_step, fleet, 1100, &taken);
    }
    uint64_t back_ms = 1100 + 2 * TTL_MS;
    assert_int_equal(answer(fleet, back_ms), TARGETS / 2);
    for (uint64_t now_ms = back_ms; now_ms < back_ms + 100; now_ms++) {
        list_instances(fleet, now_ms, instances, 1);
        assert_int_equal(answer(fleet, now_ms), 0);
    }
    assert_true(answer(fleet, back_ms + 100) >=
                TARGETS / 2); /* what was granted under an old token is asked for, too */
    ten_fleet_free(fleet);
}

/* An acquire may have to wait in the store for what others do there. */
FLEET_TEST(a_heartbeat_goes_alone_but_the_rest_goes_with_every_second_request) {
    ten_fleet *fleet = new_fleet();
    assert_int_equal(answer(fleet, 1000), 0);
    list_instances(fleet, 1000, (const char *const[]){"me"}, 1);
    uint64_t now_ms = 1000 + TTL_MS / 2;
    for (unsigned i = 0; i < 4; i++, now_ms++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        (void)ten_fleet_put_target(fleet, now_ms, id, false);
        ten_fleet_targets_settled(fleet, now_ms);
        ten_fleet_set_weight(fleet, now_ms, 2 + i); /* a heartbeat is due */
        assert_int_equal(answer(fleet, now_ms), i % 2 == 0 ? 0 : 2);
    }
    ten_fleet_free(fleet);
}
