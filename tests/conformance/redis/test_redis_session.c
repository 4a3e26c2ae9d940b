/*
 * What is Redis' own about leases on sessions (`leases=session`): which instances are refused, what the keys look like to
 * programs that know no sessions, and what is left of a session after a loss of data. The contract is the conformance
 * suite's, which runs in both modes.
 */
#include "conformance/redis/redis_place.h"

#include <stdio.h>

#define TTL_MS   UINT64_C(2000) /* long enough to act before its end on a busy machine */
#define AFTER_MS (TTL_MS + 150)

/* The first handle has sessions, the second one has not. */
static struct place *open_both(struct redis_place *redis) {
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    ten_store_close(place->store);
    char url[FIXTURE_URL_SIZE];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0?fresh=1&leases=session", redis->server.port);
    place->store = open_store(url);
    return place;
}

static int try_beat(ten_store *store, const char *ns, const char *instance, uint64_t ttl_ms, ten_result *ret_result) {
    ten_op op = {.kind = TEN_OP_ANNOUNCE,
                 .flags = TEN_OP_SESSION,
                 .namespace_name = ns,
                 .holder = instance,
                 .ttl_ms = ttl_ms,
                 .weight = 1};
    return ten_store_apply(store, &op, ret_result, 1, CALL_MS);
}

/* ---- one setting */

static void expect_refused(ten_store *store, const char *ns, const char *others, const char *own) {
    ten_result result;
    char words[128];
    assert_int_equal(try_beat(store, ns, "newcomer", LONG_MS, &result), TENURE_E_INVALID);
    assert_non_null(strstr(store->error.message, ns));
    snprintf(words, sizeof words, "use leases=%s, but this URL says leases=%s", others, own);
    assert_non_null(strstr(store->error.message, words));
}

REDIS_CASE(an_instance_with_another_setting_than_the_fleet_is_refused) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    ten_result result;
    must_beat(place, "a", LONG_MS);
    expect_refused(place->other, place->ns, "session", "key");
    must_beat(place, "a", LONG_MS); /* nobody else is harmed */
    expect_outcome(leave(place, "a", 0), TEN_OK);
    assert_int_equal(try_beat(place->other, place->ns, "b", LONG_MS, &result), 0);
    assert_int_equal(result.session, 0);
    expect_refused(place->store, place->ns, "key", "session");
}

REDIS_CASE(of_two_settings_that_come_at_once_one_is_refused) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    for (unsigned i = 0; i < 20; i++) {
        char ns[TENURE_NAMESPACE_MAX + 1];
        make_namespace(ns);
        ten_store *first = i % 2 ? place->store : place->other;
        ten_store *second = i % 2 ? place->other : place->store;
        ten_result result;
        assert_int_equal(try_beat(first, ns, "a", LONG_MS, &result), 0);
        assert_int_equal(try_beat(second, ns, "b", LONG_MS, &result), TENURE_E_INVALID);
        assert_int_equal(try_beat(first, ns, "a", LONG_MS, &result), 0);
    }
}

/* ---- what others see */

REDIS_CASE(the_key_names_holder_and_session_and_has_no_end) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    uint64_t session = must_beat(place, "a", LONG_MS).session;
    must_take(place, "t", "a", LONG_MS);
    char value[64];
    snprintf(value, sizeof value, "a\tsession %llu", (unsigned long long)session);
    assert_string_equal(redis_text(redis, "GET %s:lease:t", place->ns), value);
    assert_string_equal(redis_text(redis, "PTTL %s:lease:t", place->ns), "-1");
}

/* The second handle, with one operation and with many. */
REDIS_CASE(who_knows_no_sessions_is_told_the_holder_and_changes_nothing) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis), keys = elsewhere_of(place);
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    must_take(place, "u", "a", LONG_MS);
    ten_result refused = acquire(&keys, "t", "b", LONG_MS);
    expect_outcome(refused, TEN_HELD);
    expect_holder(refused, "a");
    assert_in_range(refused.remaining_ms, LONG_MS / 2, LONG_MS);
    ten_op ops[] = {{.kind = TEN_OP_ACQUIRE, .target = "t"}, {.kind = TEN_OP_ACQUIRE, .target = "u"}};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = place->ns;
        ops[i].holder = "b";
        ops[i].ttl_ms = LONG_MS;
    }
    assert_int_equal(ten_store_apply(place->other, ops, results, TEN_COUNT(ops), CALL_MS), 0);
    expect_holder(results[0], "a");
    expect_holder(results[1], "a");
    assert_int_equal(must_beat(place, "a", LONG_MS).session_version, session.session_version);
    /* A renewal by its token gives it an end of its own, and the holder hears of it. */
    expect_outcome(renew(&keys, "t", "a", token, LONG_MS), TEN_OK);
    assert_int_not_equal(must_beat(place, "a", LONG_MS).session_version, session.session_version);
    assert_string_equal(redis_text(redis, "GET %s:lease:t", place->ns), "a");
}

REDIS_CASE(what_ended_with_its_session_is_not_renewed_by_anybody_and_anybody_gets_it) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis), keys = elsewhere_of(place);
    must_beat(place, "a", TTL_MS);
    uint64_t token = must_take(place, "t", "a", TTL_MS), second = must_take(place, "u", "a", TTL_MS);
    must_take(place, "v", "a", TTL_MS);
    sleep_ms(AFTER_MS);
    expect_outcome(renew(&keys, "t", "a", token, TTL_MS), TEN_LOST);
    expect_outcome(release(&keys, "t", "a", token), TEN_LOST);
    expect_outcome(force(&keys, "t", TEN_OP_FORCE_NOW, "root"), TEN_LOST);
    ten_op ops[] = {{.kind = TEN_OP_RENEW, .target = "t", .token = token},
                    {.kind = TEN_OP_RENEW, .target = "u", .token = second}};
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = place->ns;
        ops[i].holder = "a";
        ops[i].ttl_ms = TTL_MS;
    }
    assert_int_equal(ten_store_apply(place->other, ops, results, TEN_COUNT(ops), CALL_MS), 0);
    expect_outcome(results[0], TEN_LOST);
    expect_outcome(results[1], TEN_LOST);
    assert_null(read_lease(&keys, "t").holder);
    assert_true(must_acquire(&keys, "t", "b", LONG_MS) > token);
    assert_true(must_acquire(place, "u", "b", LONG_MS) > second);
    /* Forgetting takes the key of an ended lease along. */
    ten_forget item = {.id = "v"};
    assert_int_equal(ten_store_forget(place->other, place->ns, &item, 1, CALL_MS), 0);
    assert_int_equal(item.outcome, TEN_FORGET_DONE);
    assert_string_equal(redis_text(redis, "EXISTS %s:lease:v", place->ns), "0");
}

REDIS_CASE(a_strangers_value_with_a_tab_is_a_strangers_lease) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    must_beat(place, "a", LONG_MS);
    redis_command(redis, "EVAL return(redis.call('SET',KEYS[1],'x\\ty')) 1 %s:lease:t", place->ns);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "t", "a", 0, LONG_MS), TEN_HELD);
    expect_outcome(acquire(place, "t", "a", LONG_MS), TEN_HELD);
}

/* ---- loss of data */

/* The holder's session is gone or another one, so it renews each lease: that puts them back, on its new session. */
static void expect_survival(struct place *place, ten_result session, uint64_t token) {
    expect_outcome(acquire(place, "t", "newcomer", TTL_MS), TEN_HELD);
    expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, "t", "newcomer", 0, TTL_MS), TEN_HELD);
    ten_result next = must_beat(place, "a", TTL_MS);
    assert_true(next.session != session.session || next.session_version != session.session_version);
    ten_result back = apply_on_session(place, TEN_OP_RENEW, "t", "a", token, TTL_MS);
    expect_outcome(back, TEN_OK);
    assert_int_equal(back.token, token);
    assert_int_equal(back.session, next.session);
    for (int i = 0; i < 4; i++) {
        sleep_ms(AFTER_MS / 3);
        must_beat(place, "a", TTL_MS);
        expect_outcome(acquire(place, "t", "newcomer", TTL_MS), TEN_HELD);
    }
    expect_holder(read_lease(place, "t"), "a");
    sleep_ms(AFTER_MS);
    assert_true(must_acquire(place, "t", "newcomer", TTL_MS) > token);
}

/* For what comes after a loss the URL has no `fresh`. */
static void open_later(struct redis_place *redis) {
    redis_place_open(redis, "leases=session");
}

REDIS_CASE(after_flushall_the_leases_of_a_session_are_put_back) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    ten_result session = must_beat(place, "a", TTL_MS);
    uint64_t token = must_take(place, "t", "a", TTL_MS);
    open_later(redis);
    session = must_beat(place, "a", TTL_MS);
    redis_command(redis, "FLUSHALL");
    expect_survival(place, session, token);
}

REDIS_CASE(an_older_dump_brings_back_no_session_that_its_holder_takes_for_its_own) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    must_beat(place, "a", LONG_MS);
    uint64_t old = must_take(place, "t", "a", LONG_MS);
    redis_command(redis, "SAVE");
    /* After the dump it was released, and another has it. */
    expect_outcome(apply_on_session(place, TEN_OP_RELEASE, "t", "a", old, 0), TEN_OK);
    ten_result session = must_beat(place, "a", LONG_MS);
    must_beat(place, "b", LONG_MS);
    uint64_t token = must_take(place, "t", "b", LONG_MS);
    redis_place_restart(redis);
    open_later(redis);
    ten_result next = must_beat(place, "a", LONG_MS);
    assert_true(next.session != session.session || next.session_version != session.session_version);
    ten_result late = apply_on_session(place, TEN_OP_ACQUIRE, "t", "a", 0, LONG_MS);
    expect_outcome(late, TEN_HELD);
    assert_true(late.recovering);
    must_beat(place, "b", LONG_MS);
    ten_result back = apply_on_session(place, TEN_OP_RENEW, "t", "b", token, LONG_MS);
    expect_outcome(back, TEN_OK);
    expect_holder(read_lease(place, "t"), "b");
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "t", "a", old, LONG_MS), TEN_LOST);
    /* That it was taken from the session in the dump is told to its holder. */
    assert_int_not_equal(must_beat(place, "a", LONG_MS).session_version, next.session_version);
}

REDIS_CASE(records_that_somebody_deleted_are_a_loss_of_data) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    ten_result session = must_beat(place, "a", TTL_MS);
    uint64_t token = must_take(place, "t", "a", TTL_MS);
    open_later(redis);
    session = must_beat(place, "a", TTL_MS);
    redis_command(redis, "DEL tenure:%s:records", place->ns);
    expect_survival(place, session, token);
}

/* ---- a clock that was set back: what is kept here is as if it had been an hour ahead */

static unsigned long long in_an_hour_ms(void) {
    return ten_wall_ms(&ten_system_clock) + 3600000;
}

REDIS_CASE(an_epoch_is_another_version_also_after_the_clock_was_set_back) {
    struct redis_place *redis = *state;
    struct place *place = open_both(redis);
    must_beat(place, "a", TTL_MS);
    redis_command(redis,
                  "EVAL redis.call('HSET',KEYS[1],'N',redis.call('HGET',KEYS[1],'N')..'\\32floor='..ARGV[1]) 1 "
                  "tenure:%s:records %llu",
                  place->ns, in_an_hour_ms());
    ten_result before = must_beat(place, "a", TTL_MS);
    redis_command(redis,
                  "EVAL redis.call('HSET',KEYS[1],'N',(string.gsub(redis.call('HGET',KEYS[1],'N'),'redis','other'))) 1 "
                  "tenure:%s:records",
                  place->ns);
    ten_result after = must_beat(place, "a", TTL_MS);
    assert_int_equal(after.session, before.session);
    assert_int_not_equal(after.session_version, before.session_version);
    for (int i = 0; i < 3; i++) { /* and stays that version, also when the quarantine is over */
        sleep_ms(AFTER_MS / 2);
        assert_int_equal(must_beat(place, "a", TTL_MS).session_version, after.session_version);
    }
}
