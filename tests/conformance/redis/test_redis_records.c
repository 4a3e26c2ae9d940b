/*
 * What a commit or a touch in Redis must not be taken in by: the server of before a failover, a key of another program, and
 * what no replica has. `redis_planted --mutants` runs it with planted bugs (tests/mutants, TEN_REDIS_MUTANTS), each of which
 * has to be found here.
 */
#include "conformance/redis/redis_place.h"

#include <stdio.h>

#define TTL_MS UINT64_C(2000) /* long enough to act before its end on a busy machine */

/* Another server at the same address, which has everything and still knows the replication id of before. */
static void fail_over(struct redis_place *redis) {
    redis_server_kill(&redis->server);
    redis_replica_command(redis, "REPLICAOF NO ONE");
    redis_replica_command(redis, "CONFIG SET port %d", redis->server.port);
}

/* Whoever acted before it prepares the next commit or touch by what it knew then. */
REDIS_CASE(what_was_prepared_before_a_failover_does_not_land_on_the_promoted_replica) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_start_replica(redis); /* the first one gives the master another replication id */
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    expect_outcome(release(place, "free", "a", must_acquire(place, "free", "a", TTL_MS)), TEN_OK);
    for (uint64_t start_ms = now_ms(); !redis_replica_has(redis, "%s:lease:t", place->ns);)
        assert_true(now_ms() < start_ms + HANG_MS);
    fail_over(redis);
    /* Nobody knows what the replica has missed. */
    ten_result again = acquire(place, "free", "a", TTL_MS);
    expect_outcome(again, TEN_HELD);
    assert_true(again.recovering);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
}

/* A handle that knows the versions of its leases, and that nobody has written since, does not compare them again. */
REDIS_CASE(a_renewal_notices_whatever_others_have_done_since_the_last_one) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    struct place second = *place;
    second.store = place->other;
    uint64_t first = must_acquire(place, "t", "a", LONG_MS);
    uint64_t other = must_acquire(place, "u", "a", LONG_MS);
    expect_outcome(renew(place, "t", "a", first, LONG_MS), TEN_OK);
    expect_outcome(renew(place, "u", "a", other, LONG_MS), TEN_OK);
    /* In the same name, under another token. */
    expect_outcome(release(&second, "t", "a", first), TEN_OK);
    uint64_t later = must_acquire(&second, "t", "a", LONG_MS);
    sleep_ms(ROUNDING_MS); /* Redis extends no key to the end that it has */
    expect_outcome(renew(place, "t", "a", first, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "u", "a", other, LONG_MS), TEN_OK);
    /* The same by the handle itself. */
    expect_outcome(release(place, "u", "a", other), TEN_OK);
    uint64_t again = must_acquire(place, "u", "a", LONG_MS);
    expect_outcome(renew(place, "u", "a", other, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "u", "a", again, LONG_MS), TEN_OK);
    expect_outcome(renew(&second, "t", "a", later, LONG_MS), TEN_OK);
    /* Another program writes only the plain key. */
    redis_command(redis, "SET %s:lease:u foreigner PX 400", place->ns);
    expect_outcome(renew(place, "u", "a", again, LONG_MS), TEN_LOST);
    assert_in_range(strtoll(redis_text(redis, "PTTL %s:lease:u", place->ns), NULL, 10), 1, 400);
    redis_command(redis, "DEL %s:lease:t", place->ns);
    expect_outcome(renew(&second, "t", "a", later, LONG_MS), TEN_LOST);
    assert_string_equal(redis_text(redis, "EXISTS %s:lease:t", place->ns), "0");
}

/* An acquire that was written, and that no replica has, is not believed because a later call reads it. */
static void acquire_unconfirmed(struct redis_place *redis, const char *options, unsigned flags) {
    struct place *place = &redis->place;
    ten_result result;
    redis_place_start_replica(redis);
    redis_place_open(redis, options);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE,
                   .flags = flags,
                   .namespace_name = place->ns,
                   .holder = "a",
                   .ttl_ms = LONG_MS,
                   .weight = 1};
    ten_op take = {.kind = TEN_OP_ACQUIRE,
                   .flags = flags,
                   .namespace_name = place->ns,
                   .target = "t",
                   .holder = "a",
                   .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    redis_place_pause_replica(redis);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ten_store_apply(place->store, &take, &result, 1, 500), TENURE_E_TIMEOUT);
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"};
    expect_holder(apply_one(place->store, read), "a"); /* as the master has it, and nobody believes by that */
    take.kind = TEN_OP_RENEW;
    take.token = read_lease(place, "t").token;
    assert_int_equal(ten_store_apply(place->store, &take, &result, 1, 500), TENURE_E_TIMEOUT);
    redis_place_continue_replica(redis);
    expect_outcome(apply_one(place->store, take), TEN_OK);
    assert_true(redis_replica_has(redis, "%s:lease:t", place->ns));
}

REDIS_CASE(a_lease_with_an_end_of_its_own_is_not_believed_because_it_was_read) {
    acquire_unconfirmed(*state, "fresh=1&wait_replicas=1", 0);
}

REDIS_CASE(a_lease_on_a_session_is_not_believed_because_it_was_read) {
    acquire_unconfirmed(*state, "fresh=1&wait_replicas=1&leases=session", TEN_OP_SESSION);
}
