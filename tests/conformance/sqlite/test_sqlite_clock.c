/*
 * The SQLite store and time: reboots, wall clocks that jump, and time namespaces, on a clock that the test sets.
 */
#include "conformance/sqlite/sqlite_place.h"

static void reboot(struct sqlite_place *sqlite, uint64_t boot_ms) {
    ten_store_close(sqlite->place.store);
    sqlite->clock.boot_ms = boot_ms;
    memcpy(sqlite->clock.boot_id, "22222222-2222-2222-2222-222222222222", 37);
    sqlite->place.store = open_fake(sqlite);
}

SQLITE_CASE(after_a_reboot_leases_stay_for_their_ttl_and_tokens_continue) {
    static const uint64_t starts_ms[] = {0, 500, 5000000, 9000000000};
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    for (size_t i = 0; i < TEN_COUNT(starts_ms); i++) {
        sqlite->place.store = open_fake(sqlite);
        uint64_t released = must_acquire(place, "released", "b", 30000);
        expect_outcome(release(place, "released", "b", released), TEN_OK);
        uint64_t token = must_acquire(place, "held", "a", 30000);
        sqlite->clock.boot_ms += 20000;
        reboot(sqlite, starts_ms[i]);

        ten_result result = acquire(place, "held", "b", 30000);
        expect_outcome(result, TEN_HELD);
        expect_holder(result, "a");
        assert_int_equal(result.token, token);
        assert_in_range(result.remaining_ms, 1, 30000);
        assert_false(result.recovering);
        assert_true(must_acquire(place, "released", "c", 30000) > released);
        sqlite->clock.boot_ms += 29999;
        expect_outcome(acquire(place, "held", "b", 30000), TEN_HELD);
        sqlite->clock.boot_ms += 1;
        assert_true(must_acquire(place, "held", "b", 30000) > token);

        /* Back to the first boot, for the next round; nothing is held then. */
        sqlite->clock.boot_ms += 60000;
        ten_store_close(sqlite->place.store);
        sqlite->place.store = NULL;
        memcpy(sqlite->clock.boot_id, "11111111-1111-1111-1111-111111111111", 37);
        sqlite->place.store = open_fake(sqlite);
        sqlite->clock.boot_ms += 60000;
        ten_store_close(sqlite->place.store);
        sqlite->place.store = NULL;
    }
}

SQLITE_CASE(a_holder_that_somehow_lived_through_a_reboot_may_renew) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", 30000);
    reboot(sqlite, 10);
    expect_outcome(renew(place, "t", "a", token, 30000), TEN_OK);
    expect_outcome(acquire(place, "t", "b", 30000), TEN_HELD);
}

static int count_instances(const ten_instance *instance, void *userdata) {
    assert_in_range(instance->remaining_ms, 1, instance->ttl_ms);
    ++*(int *)userdata;
    return 0;
}

SQLITE_CASE(after_a_reboot_instances_and_tombstones_end_by_their_ttl) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = "poll", .holder = "a", .ttl_ms = 10000, .weight = 1};
    ten_op gone = {.kind = TEN_OP_LEAVE, .namespace_name = "poll", .holder = "dead", .ttl_ms = 10000};
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    expect_outcome(apply_one(place->store, gone), TEN_LOST);
    reboot(sqlite, 10);
    int count = 0;
    assert_int_equal(place->store->ops->list_instances(place->store, "poll", count_instances, &count, CALL_MS), 0);
    assert_int_equal(count, 1);
    assert_int_equal(acquire(place, "t", "dead", 10000).error, TENURE_E_GONE);
    sqlite->clock.boot_ms += 10000;
    count = 0;
    assert_int_equal(place->store->ops->list_instances(place->store, "poll", count_instances, &count, CALL_MS), 0);
    assert_int_equal(count, 0);
    expect_outcome(acquire(place, "t", "dead", 10000), TEN_OK);
}

/* Faults 12 and 13. */
SQLITE_CASE(a_wall_clock_that_jumps_does_nothing) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    static const int64_t jumps_ms[] = {3600000, -7200000, 1000000000000, -1800000000000 + 5};
    sqlite->place.store = open_fake(sqlite);
    sqlite->place.other = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", 30000);
    uint64_t cursor = cursor_now(place->store, place->ns);
    sqlite->clock.boot_ms += 1000;
    for (size_t i = 0; i < TEN_COUNT(jumps_ms); i++) {
        sqlite->clock.wall_ms += (uint64_t)jumps_ms[i];
        ten_result result = acquire(place, "t", "b", 30000);
        expect_outcome(result, TEN_HELD);
        assert_int_equal(result.remaining_ms, 29000);
        assert_false(result.recovering);
    }
    expect_outcome(renew(place, "t", "a", token, 30000), TEN_OK);
    assert_int_equal(cursor_now(place->other, place->ns), cursor);
    sqlite->clock.boot_ms += 29999;
    expect_outcome(acquire(place, "t", "b", 30000), TEN_HELD);
    sqlite->clock.boot_ms += 1;
    assert_int_equal(must_acquire(place, "t", "b", 30000), token + 1);
}

SQLITE_CASE(entries_of_the_feed_go_after_thirty_days_and_younger_ones_stay) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", 30000);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    sqlite->clock.wall_ms += TEN_FEED_AGE_MS / 2;
    uint64_t kept = must_acquire(place, "kept", "a", 30000);
    sqlite->clock.wall_ms += TEN_FEED_AGE_MS / 2 + 1;
    for (int i = 0; i < 300; i++) { /* it is trimmed now and then */
        token = must_acquire(place, "t", "a", 30000);
        expect_outcome(release(place, "t", "a", token), TEN_OK);
    }
    struct seen seen = {0};
    uint64_t cursor = TEN_CURSOR_OLDEST;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 2, see_change, &seen, CALL_MS), 0);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.at[0].target, "kept");
    assert_int_equal(seen.at[0].change.token, kept);
    assert_string_equal(seen.at[1].target, "t");
}

static void use_often(const struct place *place) {
    for (int i = 0; i < 300; i++) { /* now and then what was free for long is looked for */
        uint64_t token = must_acquire(place, "busy", "b", 30000);
        expect_outcome(release(place, "busy", "b", token), TEN_OK);
    }
}

/* Its holder may have died a moment ago, and whoever follows goes on from the checkpoint. */
SQLITE_CASE(what_was_held_on_a_session_for_long_is_not_taken_for_free_as_long) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE,
                   .flags = TEN_OP_SESSION,
                   .namespace_name = place->ns,
                   .holder = "a",
                   .ttl_ms = 30000,
                   .weight = 1};
    ten_op take = {.kind = TEN_OP_ACQUIRE,
                   .flags = TEN_OP_SESSION,
                   .namespace_name = place->ns,
                   .target = "t",
                   .holder = "a",
                   .ttl_ms = 30000};
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    ten_result taken = apply_one(place->store, take);
    expect_outcome(taken, TEN_OK);
    ten_op write = {.kind = TEN_OP_CHECKPOINT,
                    .namespace_name = place->ns,
                    .target = "t",
                    .holder = "a",
                    .token = taken.token,
                    .checkpoint = "so far"};
    expect_outcome(apply_one(place->store, write), TEN_OK);
    sqlite->clock.wall_ms += 2 * TEN_FEED_AGE_MS;
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    sqlite->clock.boot_ms += 30001;
    ten_op join = beat;
    join.holder = "b"; /* who joins notices that the other has gone */
    expect_outcome(apply_one(place->store, join), TEN_OK);
    use_often(place);
    assert_int_equal(read_lease(place, "t").token, taken.token);
    ten_op again = take;
    again.flags |= TEN_OP_WITH_CHECKPOINT;
    again.holder = "b";
    ten_result followed = apply_one(place->store, again);
    expect_outcome(followed, TEN_OK);
    assert_string_equal(followed.checkpoint, "so far");
    /* Free since it was found to be, it goes after that time. */
    sqlite->clock.boot_ms += 30001;
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    sqlite->clock.wall_ms += 2 * TEN_FEED_AGE_MS;
    use_often(place);
    sqlite->clock.wall_ms += 2 * TEN_FEED_AGE_MS;
    use_often(place);
    followed = apply_one(place->store, again);
    expect_outcome(followed, TEN_OK);
    assert_null(followed.checkpoint);
}

SQLITE_CASE(another_time_namespace_of_the_same_boot_is_refused) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", 30000);
    struct fake_clock other = sqlite->clock;
    other.clock.arg = &other;
    other.time_namespace = 8;
    ten_error error;
    assert_int_equal(try_open(sqlite->url, &other.clock, &error), TENURE_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "time namespace"));
    expect_outcome(renew(place, "t", "a", token, 30000), TEN_OK);
    /* After a reboot a number says nothing: the first who comes is the one. */
    ten_store_close(sqlite->place.store);
    sqlite->place.store = NULL;
    memcpy(other.boot_id, "22222222-2222-2222-2222-222222222222", 37);
    assert_int_equal(try_open(sqlite->url, &other.clock, &error), TENURE_OK);
    memcpy(sqlite->clock.boot_id, other.boot_id, sizeof other.boot_id);
    assert_int_equal(try_open(sqlite->url, &sqlite->clock.clock, &error), TENURE_E_UNSUPPORTED);
}

SQLITE_CASE(a_system_without_a_boot_id_is_refused) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    sqlite->clock.boot_id[0] = '\0';
    assert_int_equal(try_open(sqlite->url, &sqlite->clock.clock, &error), TENURE_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "boot id"));
}

#define DAY_MS (UINT64_C(24) * 60 * 60 * 1000)

static void pass_days(struct sqlite_place *sqlite, uint64_t days) {
    sqlite->clock.boot_ms += days * DAY_MS;
    sqlite->clock.wall_ms += days * DAY_MS;
}

/* Changes enough that the feed is trimmed, which is when old counters are looked for. */
static void work_for_a_while(const struct place *place, int rounds) {
    for (int i = 0; i < rounds; i++)
        expect_outcome(release(place, "busy", "b", must_acquire(place, "busy", "b", 30000)), TEN_OK);
}

SQLITE_CASE(counters_go_when_they_were_free_and_unregistered_for_thirty_days) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        last = must_acquire(place, "released", "a", 30000);
        expect_outcome(release(place, "released", "a", last), TEN_OK);
    }
    must_acquire(place, "expired", "a", 30000);
    put_target(place, "registered");
    expect_outcome(release(place, "registered", "a", must_acquire(place, "registered", "a", 30000)), TEN_OK);
    uint64_t held = must_acquire(place, "held", "a", 60 * DAY_MS);
    pass_days(sqlite, 29);
    expect_outcome(release(place, "younger", "a", must_acquire(place, "younger", "a", 30000)), TEN_OK);
    work_for_a_while(place, 520);
    assert_int_equal(query_sql(sqlite->path, "SELECT count(*) FROM lease WHERE target <> '' AND namespace <> ''"), 6);
    pass_days(sqlite, 2);
    work_for_a_while(place, 520);
    assert_int_equal(query_sql(sqlite->path, "SELECT count(*) FROM lease WHERE target IN ('released', 'expired')"), 0);
    assert_int_equal(
        query_sql(sqlite->path, "SELECT count(*) FROM lease WHERE target IN ('registered', 'held', 'younger', 'busy')"),
        4);
    expect_outcome(renew(place, "held", "a", held, 60 * DAY_MS), TEN_OK);
    assert_true(must_acquire(place, "released", "b", 30000) > last);
}

int main(int argc, char **argv) {
    return run_sqlite_tests(argc, argv, NULL);
}
