/*
 * What a Redis store does over a long life: epochs that count only when replicas have them, other databases, a history
 * that outlives a loss, settings that change while it runs, and work that does not grow with what is in it.
 */
#include "conformance/redis/redis_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS   UINT64_C(2000) /* long enough to act before its end on a busy machine */
#define AFTER_MS (TTL_MS + 150)

static ten_op acquisition(const struct place *place, const char *target, const char *holder) {
    return (ten_op){
        .kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = target, .holder = holder, .ttl_ms = TTL_MS};
}

static ten_op heartbeat(const struct place *place, const char *instance) {
    return (ten_op){
        .kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = instance, .ttl_ms = LONG_MS, .weight = 1};
}

/* ---- replicas */

/* The replica is promoted while its master goes on. As long as nobody follows the new one, the former may have the
 * other replicas, and may grant and renew. */
REDIS_CASE(an_epoch_counts_from_the_moment_at_which_replicas_have_it) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    ten_result result;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "before", "a", TTL_MS);
    redis_place_start_replica(redis);
    redis_replica_command(redis, "REPLICAOF NO ONE");
    redis_place_use_replica(redis, "wait_replicas=1");
    ten_op op = acquisition(place, "t", "b");
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 300), TENURE_E_TIMEOUT);
    sleep_ms(AFTER_MS);
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 300), TENURE_E_TIMEOUT);
    redis_command(redis, "REPLICAOF 127.0.0.1 %d", redis->replica.port);
    redis_wait_for_sync(redis);
    result = apply_one(place->store, op);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    /* A whole TTL from here on. */
    assert_in_range(result.remaining_ms, TTL_MS / 2, TTL_MS);
    ten_result granted = acquire_within(place, "t", "b", TTL_MS, HANG_MS);
    expect_outcome(granted, TEN_OK);
}

REDIS_CASE(without_wait_replicas_an_epoch_that_nobody_confirms_is_not_for_ever) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    ten_result result;
    redis_place_open(redis, "wait_replicas=1");
    ten_op op = acquisition(place, "t", "a");
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 300), TENURE_E_TIMEOUT);
    redis_place_open(redis, "");
    expect_outcome(apply_one(place->store, op), TEN_HELD);
    /* As if those who wait for replicas had been away for two minutes. */
    expect_outcome(apply_one(place->store, op), TEN_HELD);
    sleep_ms(AFTER_MS);
    expect_outcome(acquire_within(place, "t", "a", TTL_MS, HANG_MS), TEN_OK);
}

/* ---- databases */

/* The same namespace in database 1, in which z holds t. */
static struct place open_other(const struct redis_place *redis) {
    char url[FIXTURE_URL_SIZE];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/1?timeout=5s&fresh=1", redis->server.port);
    struct place other = {.store = open_store(url)};
    snprintf(other.ns, sizeof other.ns, "%s", redis->place.ns);
    must_acquire(&other, "t", "z", LONG_MS);
    return other;
}

REDIS_CASE(a_database_that_was_exchanged_with_another_begins_an_epoch) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    struct place other = open_other(redis);
    redis_place_open(redis, "fresh=1");
    sleep_ms(2); /* tokens begin at the clock: this one is to be above z's */
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    redis_command(redis, "SWAPDB 0 1");
    ten_result result = acquire(place, "u", "newcomer", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    expect_holder(read_lease(place, "t"), "a");
    ten_store_close(other.store);
}

/* While it was away, targets were taken in the other one, of which it knows nothing. */
REDIS_CASE(a_database_that_comes_back_begins_an_epoch) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "t", "a", TTL_MS);
    redis_command(redis, "SWAPDB 0 1");
    ten_result granted = acquire_within(place, "t", "b", TTL_MS, HANG_MS);
    expect_outcome(granted, TEN_OK);
    sleep_ms(5); /* a key is there until the end of the millisecond in which it expires: a's lease has ended by then */
    redis_command(redis, "SWAPDB 0 1");
    ten_result result = acquire(place, "t", "c", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    expect_outcome(renew(place, "t", "b", granted.token, TTL_MS), TEN_OK);
    expect_holder(read_lease(place, "t"), "b");
}

/* `fresh` is wrong of a database that has only been exchanged. */
REDIS_CASE(an_empty_database_that_came_for_another_is_not_fresh) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "t", "a", TTL_MS);
    redis_command(redis, "SWAPDB 0 1");
    redis_place_open(redis, "fresh=1");
    ten_result result = acquire(place, "t", "b", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
}

/* Fleets in several databases of one server have nothing to do with each other. */
REDIS_CASE(an_epoch_of_one_database_leaves_the_others_alone) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    struct place other = open_other(redis);
    redis_place_open(redis, "");
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_HELD); /* its epoch begins */
    must_acquire(&other, "u", "z", LONG_MS);
    ten_store_close(other.store);
}

/* ---- the history */

REDIS_CASE(the_history_survives_a_restart) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    struct seen seen;
    redis_place_open(redis, "fresh=1");
    for (int i = 0; i < 5; i++)
        expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", TTL_MS)), TEN_OK);
    redis_command(redis, "SAVE");
    redis_place_restart(redis);
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_HELD);
    expect_outcome(acquire_within(place, "t", "a", TTL_MS, HANG_MS), TEN_OK);
    uint64_t cursor = TEN_CURSOR_OLDEST;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_true(seen.count >= 12); /* ten from before, the loss, and one more */
}

/* ---- the end of a recovery */

REDIS_CASE(a_recovery_that_no_replica_has_confirmed_cannot_be_ended) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    uint64_t left_ms = 0;
    ten_result result;
    redis_place_open(redis, "wait_replicas=1");
    ten_op op = acquisition(place, "t", "a");
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 300), TENURE_E_TIMEOUT);
    assert_int_equal(place->store->ops->recovery(place->store, place->ns, TTL_MS, "me@here", &left_ms, CALL_MS),
                     TENURE_E_TIMEOUT);
    assert_non_null(strstr(place->store->error.message, "replicas"));
}

/* ---- settings that change */

REDIS_CASE(a_server_that_begins_to_evict_is_refused_while_it_is_in_use) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    ten_result result;
    redis_place_open(redis, "fresh=1");
    ten_op op = heartbeat(place, "a");
    expect_outcome(apply_one(place->store, op), TEN_OK);
    redis_command(redis, "CONFIG SET maxmemory-policy volatile-lru");
    int r = TENURE_OK;
    for (uint64_t end_ms = now_ms() + HANG_MS; r == TENURE_OK && now_ms() < end_ms; sleep_ms(100))
        r = ten_store_apply(place->store, &op, &result, 1, CALL_MS);
    assert_true(r < 0);
    assert_non_null(strstr(place->store->error.message, "noeviction"));
}

/* ---- growth */

static unsigned calls_of(struct redis_place *redis, const char *command) {
    char name[64];
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *found = strstr(redis_text(redis, "INFO commandstats"), name);
    return found ? (unsigned)strtoul(found + strlen(name), NULL, 10) : 0;
}

REDIS_CASE(a_hundred_heartbeats_take_one_step_of_the_sweep_a_second) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t start_ms = now_ms();
    for (int i = 0; i < 100; i++)
        expect_outcome(apply_one(place->store, heartbeat(place, "a")), TEN_OK);
    assert_in_range(calls_of(redis, "scan"), 1, 2 + (now_ms() - start_ms) / 1000);
}

/* No script goes through a long feed at once: everybody would wait for it. */
REDIS_CASE(the_history_of_what_is_forgotten_goes_in_steps) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    ten_forget item = {.id = "t"};
    redis_place_open(redis, "fresh=1");
    use_once(place, "t");
    for (int i = 0; i < 12; i++) /* 600 changes each */
        use_many(place, "busy", 300);
    use_once(place, "t");
    unsigned before = calls_of(redis, "evalsha");
    assert_int_equal(ten_store_forget(place->store, place->ns, &item, 1, CALL_MS), TENURE_OK);
    assert_int_equal(item.outcome, TEN_FORGET_DONE);
    assert_in_range(calls_of(redis, "evalsha") - before, 4, 20);
    struct seen seen = {0};
    uint64_t cursor = TEN_CURSOR_OLDEST;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 1, see_change, &seen, CALL_MS),
                     TENURE_OK);
    assert_string_equal(seen.at[0].target, "busy0");
}
