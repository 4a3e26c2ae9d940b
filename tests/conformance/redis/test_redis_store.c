/*
 * What is Redis' own: the layout that people and other programs see, epochs over every way in which a server can lose
 * data, scripts that it forgets, and replicas. The contract itself is the conformance suite's.
 */
#include "conformance/redis/redis_place.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS   UINT64_C(2000) /* long enough to act before its end on a busy machine */
#define AFTER_MS (TTL_MS + 150)

static void expect_recovering(ten_result result) {
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_null(result.holder);
    assert_in_range(result.remaining_ms, 1, TTL_MS);
}

/* ---- epochs */

REDIS_CASE(a_redis_without_an_epoch_lets_newcomers_in_after_one_ttl) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "");
    expect_recovering(acquire(place, "t", "a", TTL_MS));
    sleep_ms(AFTER_MS);
    must_acquire(place, "t", "a", TTL_MS);
    must_acquire(place, "u", "a", TTL_MS);
}

REDIS_CASE(a_longer_ttl_that_is_shown_meanwhile_makes_everybody_wait_longer) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "");
    expect_recovering(acquire(place, "t", "a", TTL_MS));
    ten_op beat = {
        .kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "b", .ttl_ms = 2 * TTL_MS, .weight = 1};
    expect_outcome(apply_one(place->other, beat), TEN_OK);
    sleep_ms(AFTER_MS);
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_HELD);
    sleep_ms(TTL_MS);
    must_acquire(place, "t", "a", TTL_MS);
}

/* Whoever had that TTL may hold a lease that was lost. */
REDIS_CASE(a_longer_ttl_that_is_shown_later_makes_only_itself_wait) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "");
    expect_recovering(acquire(place, "t", "a", TTL_MS));
    sleep_ms(AFTER_MS);
    must_acquire(place, "t", "a", TTL_MS);
    expect_recovering(acquire(place, "u", "b", 2 * TTL_MS));
    expect_recovering(acquire(place, "u", "b", 2 * TTL_MS)); /* its TTL is known by now, and that is no reason */
    must_acquire(place, "v", "c", TTL_MS);
    sleep_ms(TTL_MS);
    must_acquire(place, "u", "b", 2 * TTL_MS);
}

REDIS_CASE(fresh_lets_newcomers_in_at_once_and_not_after_a_restart) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    redis_command(redis, "SAVE");
    redis_place_restart(redis);
    expect_recovering(acquire(place, "u", "b", TTL_MS));
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
}

/* The holder goes on, newcomers wait, and whoever comes after has a higher token. */
static void expect_survival(struct redis_place *redis, uint64_t token) {
    struct place *place = &redis->place;
    expect_outcome(acquire(place, "t", "newcomer", TTL_MS), TEN_HELD);
    expect_recovering(acquire(place, "never-seen", "newcomer", TTL_MS));
    /* A bound for a token, not one that was granted. */
    ten_result bound = read_lease(place, "never-seen");
    assert_true(bound.recovering && bound.token >= token);
    ten_result back = renew(place, "t", "a", token, TTL_MS);
    expect_outcome(back, TEN_OK);
    assert_int_equal(back.token, token);
    back = read_lease(place, "t");
    assert_true(!back.recovering && back.token == token);
    expect_holder(acquire(place, "t", "newcomer", TTL_MS), "a");
    sleep_ms(AFTER_MS / 2);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    sleep_ms(AFTER_MS / 2 + 100);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    uint64_t next = must_acquire(place, "t", "newcomer", TTL_MS);
    assert_true(next > token);
}

REDIS_CASE(after_flushall_holders_go_on_newcomers_wait_and_tokens_rise) {
    struct redis_place *redis = *state;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(&redis->place, "t", "a", TTL_MS);
    redis_command(redis, "FLUSHALL");
    /* `fresh` is for a Redis that was never used: this fleet's URL no longer has it. */
    redis_place_open(redis, "");
    expect_survival(redis, token);
}

REDIS_CASE(after_a_restart_without_data_holders_go_on_newcomers_wait_and_tokens_rise) {
    struct redis_place *redis = *state;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(&redis->place, "t", "a", TTL_MS);
    redis_place_open(redis, "");
    redis_place_restart(redis);
    expect_survival(redis, token);
}

REDIS_CASE(a_promoted_replica_begins_an_epoch) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    redis_place_start_replica(redis);
    redis_server_stop(&redis->server);
    redis_replica_command(redis, "REPLICAOF NO ONE");
    redis_place_use_replica(redis, "");
    expect_survival(redis, token);
}

/* The run id is the old one then, but not the data: it is those of the other server. */
REDIS_CASE(a_server_that_was_demoted_and_promoted_again_begins_an_epoch) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "before", "a", TTL_MS);
    redis_place_start_replica(redis);
    redis_replica_command(redis, "REPLICAOF NO ONE");
    sleep_ms(AFTER_MS); /* the first replica gives the master a new replication id, and so an epoch */
    uint64_t token = acquire_within(place, "t", "a", TTL_MS, HANG_MS).token; /* the replica never hears of it */
    redis_command(redis, "REPLICAOF 127.0.0.1 %d", redis->replica.port);
    redis_wait_for_sync(redis);
    redis_command(redis, "REPLICAOF NO ONE");
    assert_string_equal(redis_text(redis, "EXISTS %s:lease:t", place->ns), "0");
    expect_survival(redis, token);
}

/* Its NUL would end the feed's text in the middle. */
REDIS_CASE(a_foreign_heartbeat_with_a_hostile_name_does_not_stop_the_feed) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t cursor = cursor_now(place->store, place->ns);
    redis_command_bytes(redis, place->ns);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    must_acquire(place, "t", "a", LONG_MS);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
}

/* A late renewal puts 100 back; the one that had a later token meanwhile is dead, and nobody knows of it. */
REDIS_CASE(a_token_from_before_the_epoch_is_not_recognised_later) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "");
    expect_outcome(renew(place, "t", "a", 100, 2 * TTL_MS), TEN_OK);
    sleep_ms(2 * TTL_MS - 600);
    expect_outcome(renew(place, "t", "a", 100, TTL_MS), TEN_OK); /* as long as it believes */
    sleep_ms(700);
    ten_result again = acquire(place, "t", "a", TTL_MS);
    expect_outcome(again, TEN_HELD);
    expect_holder(again, "a");
    sleep_ms(TTL_MS);
    assert_true(must_acquire(place, "t", "a", TTL_MS) > 1000000);
}

REDIS_CASE(an_instance_that_was_declared_gone_puts_nothing_back) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "");
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, leave), TEN_LOST);
    expect_outcome(renew(place, "t", "a", 100, TTL_MS), TEN_LOST);
}

/* All keys and what is in them. A dump of a hash has its fields in any order. A word of a command has no blanks. */
static const char *whole_database(struct redis_place *redis) {
    return redis_text(redis, "EVAL local\nall=redis.call('KEYS','*')for\ni=1,#all\ndo\nlocal\nkey=all[i]"
                             "if\nredis.call('TYPE',key).ok~='hash'then\nall[i]=key..redis.call('DUMP',key)else\n"
                             "local\nfields=redis.call('HGETALL',key)for\nj=1,#fields,2\ndo\n"
                             "all[#all+1]=key..fields[j]..'='..fields[j+1]end\nend\nend\n"
                             "table.sort(all)return\nredis.sha1hex(table.concat(all)) 0");
}

static int ignore_row(const ten_row *row, void *userdata) {
    (void)row, (void)userdata;
    return 0;
}

static int ignore_instance(const ten_instance *instance, void *userdata) {
    (void)instance, (void)userdata;
    return 0;
}

static int ignore_change(const ten_change *change, void *userdata) {
    (void)change, (void)userdata;
    return 0;
}

static void expect_refused(ten_store *store, int r) {
    assert_int_equal(r, TENURE_E_SCHEMA);
    assert_non_null(strstr(store->error.message, "fresh=1 in the URL removes its records"));
}

static int count_row(const ten_row *row, void *userdata) {
    (void)row;
    ++*(unsigned *)userdata;
    return 0;
}

static int count_instance(const ten_instance *instance, void *userdata) {
    (void)instance;
    ++*(unsigned *)userdata;
    return 0;
}

/* A fleet whose agents are started anew would find no targets, and nothing would say why. */
REDIS_CASE(an_index_that_somebody_deletes_is_made_again) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    (void)must_acquire(place, "leased", "a", LONG_MS);
    put_target(place, "registered");
    ten_op op = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    expect_outcome(apply_one(place->store, op), TEN_OK);
    redis_command(redis, "DEL tenure:%s:ids", place->ns);
    for (unsigned i = 0; i < 2; i++) {
        unsigned rows = 0;
        unsigned instances = 0;
        ten_query query = {.namespace_name = place->ns, .limit = 10};
        ten_store *store = i == 0 ? place->store : place->other;
        put_target(place, i == 0 ? "registered later" : "registered"); /* it is in the new index, and others were not */
        assert_int_equal(store->ops->list(store, &query, count_row, &rows, CALL_MS), TENURE_OK);
        assert_int_equal(store->ops->list_instances(store, place->ns, count_instance, &instances, CALL_MS), TENURE_OK);
        assert_int_equal(rows, 3);
        assert_int_equal(instances, 1);
    }
}

REDIS_CASE(records_of_an_earlier_version_are_refused_and_left_as_they_are) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    char before[64];
    ten_result result;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    redis_place_open(redis, "");
    redis_command(redis, "DEL tenure:%s:records tenure:%s:ids tenure:%s:feed", place->ns, place->ns, place->ns);
    redis_command(redis, "HSET tenure:%s:epoch layout 2 server another", place->ns);
    redis_command(redis, "ZADD tenure:%s:ids 0 t", place->ns);
    snprintf(before, sizeof before, "%s", whole_database(redis));
    ten_op ops[] = {{.kind = TEN_OP_ACQUIRE, .target = "u", .holder = "a", .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_RENEW, .target = "t", .holder = "a", .token = token, .ttl_ms = LONG_MS},
                    {.kind = TEN_OP_ANNOUNCE, .holder = "a", .ttl_ms = LONG_MS, .weight = 1}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = place->ns;
        expect_refused(place->store, ten_store_apply(place->store, &ops[i], &result, 1, CALL_MS));
    }
    ten_store *store = place->store;
    ten_query query = {.namespace_name = place->ns, .limit = 10};
    expect_refused(store, store->ops->list(store, &query, ignore_row, NULL, CALL_MS));
    expect_refused(store, store->ops->list_instances(store, place->ns, ignore_instance, NULL, CALL_MS));
    expect_refused(store, store->ops->changes(store, place->ns, &cursor, 10, ignore_change, NULL, CALL_MS));
    assert_string_equal(whole_database(redis), before);
    /* What the remedy does: everything begins anew, but a lease that lives is held. Tokens go on to rise. */
    redis_place_open(redis, "fresh=1");
    expect_holder(acquire(place, "t", "b", LONG_MS), "a");
    assert_true(must_acquire(place, "u", "b", LONG_MS) > token);
    assert_string_equal(redis_text(redis, "HGET tenure:%s:records layout", place->ns), "3");
    assert_string_equal(redis_text(redis, "EXISTS tenure:%s:epoch", place->ns), "0");
}

REDIS_CASE(records_of_a_newer_version_are_refused_also_by_who_begins_anew) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    char before[64];
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "u", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "t", "a", LONG_MS);
    redis_command(redis, "HSET tenure:%s:records layout 4", place->ns);
    redis_place_open(redis, "fresh=1");
    snprintf(before, sizeof before, "%s", whole_database(redis));
    expect_refused(place->store, ten_store_apply(place->store, &op, &result, 1, CALL_MS));
    assert_string_equal(whole_database(redis), before);
}

REDIS_CASE(another_pattern_of_keys_is_another_epoch) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    redis_place_open(redis, "lease_key={ns}/{id}");
    expect_survival(redis, token);
}

REDIS_CASE(a_cursor_from_before_an_epoch_has_to_start_over) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "t", "a", TTL_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    redis_command(redis, "FLUSHALL");
    struct seen seen = {0};
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 10, see_change, &seen, CALL_MS),
                     TENURE_E_RESYNC);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
    must_acquire(place, "u", "a", TTL_MS);
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
}

/* ---- the layout, and other programs on it */

REDIS_CASE(entries_of_the_feed_go_after_thirty_days_also_those_of_an_epoch_before) {
    struct redis_place *redis = *state;
    const struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    must_acquire(place, "t", "a", LONG_MS);
    /* Some of long ago, in front of the others. */
    redis_command(redis,
                  "EVAL for\ni=1,500\ndo\nredis.call('ZADD',KEYS[1],i,i..'\\0'..ARGV[1]..'\\0000'..'\\0old\\0x')end 1 "
                  "tenure:%s:feed %llu",
                  place->ns, (unsigned long long)(ten_wall_ms(&ten_system_clock) - TEN_FEED_AGE_MS - 60000));
    for (int i = 0; i < 251; i++) {
        uint64_t token = must_acquire(place, "u", "a", LONG_MS);
        expect_outcome(release(place, "u", "a", token), TEN_OK);
    }
    assert_string_equal(redis_text(redis, "ZCOUNT tenure:%s:feed 1 500", place->ns), "0");
    struct seen seen;
    uint64_t cursor = TEN_CURSOR_OLDEST;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_string_equal(seen.at[0].target, "t");
}

REDIS_CASE(a_key_that_another_program_set_locks_us_out_until_it_ends) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t first = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", first), TEN_OK);
    redis_command(redis, "SET %s:lease:t foreigner NX PX 400", place->ns);
    ten_result held = acquire(place, "t", "a", LONG_MS);
    expect_outcome(held, TEN_HELD);
    expect_holder(held, "foreigner");
    assert_in_range(held.remaining_ms, 1, 400);
    /* Nobody acts on it by an old token, not even by the token alone. */
    expect_outcome(renew(place, "t", NULL, first, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "a", first, LONG_MS), TEN_LOST);
    expect_outcome(release(place, "t", NULL, first), TEN_LOST);
    expect_outcome(release(place, "t", "foreigner", first), TEN_LOST);
    expect_holder(read_lease(place, "t"), "foreigner");
    sleep_ms(500);
    assert_true(must_acquire(place, "t", "a", LONG_MS) > first);
}

REDIS_CASE(a_living_holder_does_not_take_back_what_another_program_took_after_a_loss) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    redis_place_open(redis, "");
    redis_command(redis, "FLUSHALL");
    redis_command(redis, "SET %s:lease:t foreigner NX PX 60000", place->ns);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    assert_string_equal(redis_text(redis, "GET %s:lease:t", place->ns), "foreigner");
}

REDIS_CASE(a_key_without_an_end_is_held_and_asked_for_again) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    redis_command(redis, "SET %s:lease:t foreigner", place->ns);
    ten_result held = acquire(place, "t", "a", TTL_MS);
    expect_outcome(held, TEN_HELD);
    assert_in_range(held.remaining_ms, 1, TTL_MS);
}

REDIS_CASE(a_key_of_another_type_is_an_error_and_harms_nobody_else) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    redis_command(redis, "RPUSH %s:lease:t x", place->ns);
    ten_result held = acquire(place, "t", "a", TTL_MS);
    expect_outcome(held, TEN_ERROR);
    assert_int_equal(held.error, TENURE_E_STORE);
    must_acquire(place, "u", "a", TTL_MS);
}

struct roll {
    char names[8][64];
    size_t count;
};

static int take_name(const ten_instance *instance, void *userdata) {
    struct roll *roll = userdata;
    snprintf(roll->names[roll->count++ % 8], sizeof roll->names[0], "%s", instance->instance);
    return 0;
}

static size_t count_instances(const struct place *place) {
    struct roll roll = {.count = 0};
    assert_int_equal(place->store->ops->list_instances(place->store, place->ns, take_name, &roll, CALL_MS), TENURE_OK);
    return roll.count;
}

REDIS_CASE(a_heartbeat_that_another_program_wrote_is_found_and_forgotten) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    redis_command(redis, "SET %s:node:foreigner 1 PX 700", place->ns);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    size_t found = 0;
    for (int i = 0; i < 20 && found < 2; i++) {
        expect_outcome(apply_one(place->store, beat), TEN_OK);
        found = count_instances(place);
    }
    assert_int_equal(found, 2);
    sleep_ms(900);
    assert_int_equal(count_instances(place), 1);
}

REDIS_CASE(no_command_walks_the_keyspace_but_the_bounded_sweep) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    redis_command(redis, "CONFIG RESETSTAT");
    must_acquire(place, "t", "a", LONG_MS);
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    expect_outcome(apply_one(place->store, beat), TEN_OK);
    (void)count_instances(place);
    struct seen seen = {0};
    uint64_t cursor = cursor_now(place->store, place->ns);
    read_changes(place->store, place->ns, &cursor, &seen);
    const char *stats = redis_text(redis, "INFO commandstats");
    assert_null(strstr(stats, "cmdstat_keys:"));
    assert_non_null(strstr(stats, "cmdstat_scan:calls=1,"));
}

/* ---- the server */

REDIS_CASE(scripts_that_the_server_forgot_are_loaded_again) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    redis_command(redis, "SCRIPT FLUSH");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    redis_command(redis, "SCRIPT FLUSH");
    assert_int_equal(count_instances(place), 0);
    redis_command(redis, "SCRIPT FLUSH");
    put_target(place, "t");
}

REDIS_CASE(a_server_that_became_a_replica_is_an_error_until_it_is_a_master_again) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    redis_place_start_replica(redis);
    redis_replica_command(redis, "REPLICAOF NO ONE");
    redis_command(redis, "REPLICAOF 127.0.0.1 %d", redis->replica.port);
    redis_wait_for_sync(redis);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = place->ns,
                 .target = "t",
                 .holder = "a",
                 .token = token,
                 .ttl_ms = LONG_MS};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 1000), TENURE_E_UNREACHABLE);
    assert_int_equal(result.outcome, TEN_ERROR);
    redis_command(redis, "REPLICAOF NO ONE");
    sleep_ms(600); /* the handle pauses between tries */
    expect_outcome(apply_one(place->store, op), TEN_OK);
}

REDIS_CASE(with_wait_replicas_nothing_counts_that_no_replica_has) {
    struct redis_place *redis = *state;
    struct place *place = &redis->place;
    redis_place_open(redis, "fresh=1&wait_replicas=1");
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = TTL_MS};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 500), TENURE_E_TIMEOUT);
    assert_int_equal(result.outcome, TEN_ERROR);
    assert_non_null(strstr(place->store->error.message, "wait_replicas"));
    redis_place_start_replica(redis);
    ten_result granted = acquire_within(place, "t", "a", TTL_MS, HANG_MS);
    expect_outcome(granted, TEN_OK);
    assert_true(redis_replica_has(redis, "%s:lease:t", place->ns));
    op.kind = TEN_OP_RENEW;
    op.token = granted.token;
    op.ttl_ms = LONG_MS;
    expect_outcome(apply_one(place->store, op), TEN_OK);
    redis_place_pause_replica(redis);
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 500), TENURE_E_TIMEOUT);
    redis_place_continue_replica(redis);
    expect_outcome(apply_one(place->store, op), TEN_OK);
}
