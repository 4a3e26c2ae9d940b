/*
 * The store contract: the feed as a history of changes of hands, which can be read from its oldest entry on, and tells
 * who had what, for how long, and how long it was nobody's.
 */
#include "conformance/suite.h"

#include "runtime/context_history.h"

#define GAP_MS 60u

static void read_history(const struct place *place, const char *target, size_t limit, struct seen *seen) {
    *seen = (struct seen){0};
    assert_int_equal(ten_context_history_list(place->other, place->ns,
                                              &(ten_history_query){.target = target, .limit = limit}, see_change, seen,
                                              CALL_MS),
                     TENURE_OK);
}

CASE(the_history_tells_how_long_it_was_held_and_how_long_it_was_free) {
    const struct place *place = *state;
    uint64_t start_ms = now_ms();
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    must_acquire(place, "other", "a", LONG_MS);
    sleep_ms(GAP_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    sleep_ms(GAP_MS);
    must_acquire(place, "t", "b", LONG_MS);
    uint64_t took_ms = now_ms() - start_ms;
    struct seen seen;
    read_history(place, "t", 100, &seen);
    assert_int_equal(seen.count, 3);
    static const enum tenure_event_kind kinds[] = {TENURE_EVENT_ACQUIRED, TENURE_EVENT_RELEASED, TENURE_EVENT_ACQUIRED};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(seen.at[i].change.kind, kinds[i]);
        assert_string_equal(seen.at[i].target, "t");
    }
    assert_int_equal(seen.at[0].change.free_ms, 0);
    assert_in_range(seen.at[1].change.held_ms, GAP_MS - 5, took_ms + 5 + late_ms());
    assert_int_equal(seen.at[1].change.reason, TEN_REASON_DONE);
    assert_in_range(seen.at[2].change.free_ms, GAP_MS - 5, took_ms + 5 + late_ms());
    read_history(place, NULL, 2, &seen);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.at[1].instance, "b");
}

/* Where the store knows when a lease ended, the time since then is not taken for its holder's. */
CASE(an_expired_lease_was_held_until_it_ended_and_free_from_then_on) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    ten_op ops[] = {
        {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = ttl_ms, .weight = 1},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = ttl_ms}};
    ten_result results[TEN_COUNT(ops)];
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    expect_outcome(results[1], TEN_OK);
    uint64_t token = results[1].token;
    uint64_t start_ms = now_ms();
    sleep_ms(ttl_ms + place->store->capabilities.expiry_late_ms + 300);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
    uint64_t took_ms = now_ms() - start_ms;
    struct seen seen;
    read_history(place, "t", 100, &seen);
    assert_int_equal(seen.count, 3);
    const ten_change *lost = &seen.at[1].change;
    assert_int_equal(lost->kind, TENURE_EVENT_LOST);
    assert_int_equal(lost->token, token);
    assert_in_range(lost->held_ms, ttl_ms - 50, took_ms + 50 + late_ms());
    assert_true(seen.at[2].change.free_ms + lost->held_ms <= took_ms + 100 + late_ms());
    if (strcmp(place->store->ops->name, "etcd") != 0)
        assert_in_range(seen.at[2].change.free_ms, 200, took_ms - ttl_ms + 50 + late_ms());
}

CASE(a_forced_release_tells_by_whom) {
    const struct place *place = *state;
    must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_OK);
    struct seen seen;
    read_history(place, "t", 1, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_FORCED);
    assert_string_equal(seen.at[0].instance, "a");
    assert_string_equal(seen.at[0].actor, "operator");
}

CASE(reading_from_the_oldest_entry_on_misses_nothing_and_goes_on) {
    const struct place *place = *state;
    uint64_t cursor = TEN_CURSOR_OLDEST;
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
    must_acquire(place, "t", "a", LONG_MS);
    must_acquire(place, "u", "a", LONG_MS);
    cursor = TEN_CURSOR_OLDEST;
    read_changes(place->store, place->ns, &cursor, &seen);
    /* Where an epoch begins with the first use, that is told, too. */
    assert_in_range(seen.count, 2, 3);
    assert_string_equal(seen.at[seen.count - 2].target, "t");
    assert_string_equal(seen.at[seen.count - 1].target, "u");
    must_acquire(place, "v", "a", LONG_MS);
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].target, "v");
}
