/*
 * What etcd makes of sessions: how many requests a heartbeat is, who may keep a session alive, what becomes of it when
 * the leader changes, when its etcd lease is revoked by hand, and without room. What a session is to others is said by
 * the contract (contract/sessions.c).
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>

#define TTL_MS UINT64_C(2000)

static ten_op beat_op(const struct place *place, uint64_t ttl_ms) {
    return (ten_op){.kind = TEN_OP_ANNOUNCE,
                    .flags = TEN_OP_SESSION,
                    .namespace_name = place->ns,
                    .holder = "a",
                    .ttl_ms = ttl_ms,
                    .weight = 1};
}

static bool is_same(const ten_result *one, const ten_result *other) {
    return one->session == other->session && one->session_version == other->session_version;
}

static struct many *many_on_session(const struct place *place, size_t count) {
    struct many *many = many_acquire(place, count, "a", LONG_MS);
    for (size_t i = 0; i < count; i++)
        many->ops[i].flags = TEN_OP_SESSION;
    (void)must_beat(place, "a", LONG_MS); /* it ends no earlier than they do */
    assert_int_equal(many_renew(place, many), 0);
    return many;
}

/* ---- time */

/* Another millisecond with each look at it. */
static uint64_t restless_boot_ms(void *arg) {
    uint64_t *looks = arg;
    return ten_now_ms() + ++*looks;
}

/* The end of the session must not be read twice, for it comes nearer between two looks at the clock. */
ETCD_CASE(a_renewal_of_what_is_on_the_session_leaves_it_there_at_any_millisecond) {
    const struct place *place = *state;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    uint64_t looks = 0;
    ten_clock clock = *place->store->clock;
    clock.boot_ms = restless_boot_ms;
    clock.arg = &looks;
    const ten_clock *usual = place->store->clock;
    place->store->clock = &clock;
    ten_result renewed = apply_on_session(place, TEN_OP_RENEW, "t", "a", token, LONG_MS);
    place->store->clock = usual;
    expect_outcome(renewed, TEN_OK);
    assert_int_equal(renewed.session, session.session);
}

/* ---- requests */

ETCD_CASE(a_heartbeat_of_a_session_is_three_requests_whatever_it_holds) {
    const struct place *place = *state;
    ten_result session = must_beat(place, "a", LONG_MS);
    struct many *many = many_on_session(place, 1000);
    uint64_t revision = etcd_fact(place, "record/lease/t-999", "mod_revision");
    ten_op ops[17] = {beat_op(place, LONG_MS)}; /* as a fleet does it: with some that it reads */
    ten_result results[TEN_COUNT(ops)];
    for (size_t i = 1; i < TEN_COUNT(ops); i++)
        ops[i] = (ten_op){.kind = TEN_OP_READ, .namespace_name = place->ns, .target = many->targets[i]};
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    uint64_t before = etcd_calls_served();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
        assert_true(is_same(&results[0], &session));
        for (size_t at = 1; at < TEN_COUNT(ops); at++) {
            expect_holder(results[at], "a");
            assert_int_equal(results[at].session, session.session);
        }
    }
    uint64_t calls = etcd_calls_served() - before;
    if (calls != 30) /* keep-alive and comparison, and what it reads */
        fail_msg("10 heartbeats with 1,000 leases were %llu requests", (unsigned long long)calls);
    assert_int_equal(etcd_fact(place, "record/lease/t-999", "mod_revision"), revision);
}

ETCD_CASE(taking_over_a_thousand_leases_of_a_dead_session_is_few_requests) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    must_beat(place, "a", LONG_MS);
    struct many *many = many_on_session(place, 1000);
    etcd_revoke(etcd_key_fact(place, "t-0", "lease")); /* an end that they had before the session */
    etcd_revoke(etcd_fact(place, "node/a", "lease"));
    for (size_t i = 0; i < many->count; i++) {
        many->ops[i].kind = TEN_OP_ACQUIRE;
        many->ops[i].flags = 0;
        many->ops[i].token = 0;
        many->ops[i].holder = "b";
    }
    uint64_t before = etcd_calls_served();
    assert_int_equal(many_renew(&elsewhere, many), 0);
    uint64_t calls = etcd_calls_served() - before;
    if (calls > 30)
        fail_msg("taking over 1,000 leases was %llu requests", (unsigned long long)calls);
}

/* Each of the sessions is told. */
ETCD_CASE(a_group_of_targets_that_as_many_dead_sessions_held_is_one_step) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    static char names[TEN_GROUP_MAX][8];
    ten_op ops[TEN_GROUP_MAX];
    ten_result results[TEN_GROUP_MAX];
    for (size_t i = 0; i < TEN_GROUP_MAX; i++) {
        char node[24];
        snprintf(names[i], sizeof names[i], "n-%zu", i);
        ten_op beat = beat_op(place, LONG_MS);
        beat.holder = names[i];
        expect_outcome(apply_one(place->store, beat), TEN_OK);
        expect_outcome(apply_on_session(place, TEN_OP_ACQUIRE, names[i], names[i], 0, LONG_MS), TEN_OK);
        snprintf(node, sizeof node, "node/%s", names[i]);
        etcd_revoke(etcd_fact(place, node, "lease"));
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = place->ns,
                          .target = names[i],
                          .holder = "b",
                          .ttl_ms = LONG_MS,
                          .group = 1};
    }
    assert_int_equal(ten_store_apply(elsewhere.store, ops, results, TEN_GROUP_MAX, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < TEN_GROUP_MAX; i++)
        expect_outcome(results[i], TEN_OK);
}

ETCD_CASE(an_acquire_on_a_session_is_two_requests) {
    const struct place *place = *state;
    must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    uint64_t before = etcd_calls_served();
    must_take(place, "u", "a", LONG_MS);
    assert_int_equal(etcd_calls_served() - before, 2);
}

/* ---- other handles */

ETCD_CASE(a_heartbeat_by_another_handle_goes_on_with_the_session) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_result session = must_beat(place, "a", TTL_MS);
    must_take(place, "t", "a", LONG_MS);
    for (int i = 0; i < 5; i++) {
        sleep_ms(TTL_MS / 4);
        ten_result next = must_beat(i % 2 ? place : &elsewhere, "a", TTL_MS);
        if (next.session != session.session)
            return; /* this machine was away for longer than the TTL */
        assert_true(is_same(&next, &session));
    }
    ten_result read = read_lease(place, "t");
    expect_holder(read, "a");
    assert_int_equal(read.session, session.session);
}

static void force_the_lease(const struct place *place) {
    expect_outcome(force(place, "t", TEN_OP_FORCE, "root"), TEN_OK);
}

/* Whoever forces a lease lets others in at the end that the session has then. Were the version read before the session is
 * extended, a holder would believe for longer in what was forced in between. */
static void expect_forced_in_between_is_told(const struct place *beating, const struct place *forcing,
                                             const char *path) {
    ten_result session = must_beat(forcing, "a", LONG_MS);
    must_take(forcing, "t", "a", LONG_MS);
    etcd_wire.place = forcing;
    etcd_wire.before = force_the_lease;
    etcd_wire.hook_path = path;
    ten_result next = must_beat(beating, "a", LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    assert_false(is_same(&next, &session));
}

ETCD_CASE(what_is_forced_just_before_the_keep_alive_is_told_by_that_heartbeat) {
    struct place elsewhere = elsewhere_of(*state);
    (void)must_beat(*state, "a", LONG_MS);
    expect_forced_in_between_is_told(*state, &elsewhere, "/v3/lease/keepalive");
}

ETCD_CASE(the_same_by_a_handle_that_does_not_know_the_session_yet) {
    struct place elsewhere = elsewhere_of(*state);
    expect_forced_in_between_is_told(&elsewhere, *state, "/v3/lease/grant");
}

/* A session that has nearly ended, and is kept alive by nobody, is not lengthened by what is put on it. */
ETCD_CASE(an_acquire_does_not_keep_the_session_alive) {
    const struct place *place = *state;
    uint64_t kept = etcd_wire.kept_alive;
    must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    must_take(place, "u", "a", LONG_MS);
    assert_int_equal(etcd_wire.kept_alive, kept);
}

/* ---- by hand */

ETCD_CASE(a_session_that_is_revoked_by_hand_has_ended_with_its_leases) {
    const struct place *place = *state;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    etcd_revoke(etcd_fact(place, "node/a", "lease"));
    ten_result next = must_beat(place, "a", LONG_MS);
    assert_int_not_equal(next.session, session.session);
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "t", "a", token, LONG_MS), TEN_LOST);
    struct place elsewhere = elsewhere_of(place);
    assert_true(must_acquire(&elsewhere, "t", "b", LONG_MS) > token);
}

static void revoke_the_session(const struct place *place) {
    etcd_revoke(etcd_fact(place, "node/a", "lease"));
}

/* Between the reading, which found the session, and the writing. */
ETCD_CASE(nothing_is_put_on_a_session_that_is_revoked_in_between) {
    const struct place *place = *state;
    must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    etcd_wire.place = place;
    etcd_wire.before = revoke_the_session;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestPut";
    ten_result result = apply_on_session(place, TEN_OP_ACQUIRE, "u", "a", 0, LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.session, 0);
    assert_true(etcd_key_fact(place, "u", "lease") > 0);
}

/* ---- a change of leader */

ETCD_CASE(a_session_goes_on_over_a_change_of_leader) {
    const struct place *place = *state;
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    uint64_t former = etcd_fact(place, "node/a", "lease");
    etcd_restart();
    ten_result next = must_beat(place, "a", LONG_MS);
    assert_true(is_same(&next, &session));
    assert_int_not_equal(etcd_fact(place, "node/a", "lease"), former);
    /* What a former leader revokes now is nobody's. */
    etcd_revoke(former);
    ten_result read = read_lease(place, "t");
    expect_holder(read, "a");
    assert_int_equal(read.token, token);
    next = must_beat(place, "a", LONG_MS);
    assert_true(is_same(&next, &session));
}

static void expect_held_in_doubt(const struct place *place, const char *target) {
    struct place elsewhere = elsewhere_of(place);
    ten_result newcomer = acquire(&elsewhere, target, "newcomer", LONG_MS);
    expect_outcome(newcomer, TEN_HELD);
    expect_holder(newcomer, "a");
}

ETCD_CASE(a_session_of_an_earlier_term_that_was_revoked_goes_on) {
    const struct place *place = *state;
    ten_result session = must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    uint64_t former = etcd_fact(place, "node/a", "lease");
    etcd_restart();
    etcd_revoke(former);
    expect_held_in_doubt(place, "t");
    ten_result next = must_beat(place, "a", LONG_MS);
    assert_true(is_same(&next, &session));
    assert_true(etcd_fact(place, "node/a", "lease") > 0);
    expect_held_in_doubt(place, "t");
}

/* The session is of the earlier term, until the next heartbeat. */
ETCD_CASE(what_was_put_on_a_session_of_an_earlier_term_is_given_to_nobody_when_that_is_revoked) {
    const struct place *place = *state;
    must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    etcd_restart();
    uint64_t token = must_take(place, "u", "a", LONG_MS);
    etcd_revoke(etcd_fact(place, "node/a", "lease"));
    expect_held_in_doubt(place, "u");
    must_beat(place, "a", LONG_MS);
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "u", "a", token, LONG_MS), TEN_OK);
}

static void of_another_term(ten_etcd_call *call) {
    call->head.term--;
}

static void of_another_member(ten_etcd_call *call) {
    call->head.member++;
}

/* Whoever answered the keep-alive need not have led. */
static void expect_no_trust(const struct place *place, void (*after)(ten_etcd_call *call)) {
    must_beat(place, "a", LONG_MS);
    must_take(place, "t", "a", LONG_MS);
    etcd_wire.kept_alive = etcd_wire.hooked = 0;
    etcd_wire.after = after;
    etcd_wire.hook_path = "/v3/lease/keepalive";
    uint64_t lease = etcd_fact(place, "node/a", "lease");
    must_beat(place, "a", LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    assert_true(etcd_wire.kept_alive > 1 || etcd_fact(place, "node/a", "lease") != lease);
}

ETCD_CASE(a_keep_alive_of_an_earlier_term_does_not_count) {
    expect_no_trust(*state, of_another_term);
}

ETCD_CASE(a_keep_alive_by_another_member_than_the_reading_does_not_count) {
    expect_no_trust(*state, of_another_member);
}

/* ---- no room */

ETCD_CASE(sessions_go_on_without_room_also_after_a_change_of_leader) {
    const struct place *place = *state;
    ten_op ops[] = {
        beat_op(place, LONG_MS),
        {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "new", .holder = "a", .ttl_ms = LONG_MS},
    };
    ten_result results[TEN_COUNT(ops)];
    ten_result session = must_beat(place, "a", LONG_MS);
    uint64_t token = must_take(place, "t", "a", LONG_MS);
    etcd_raise_alarm();
    for (int round = 0; round < 2; round++) {
        for (size_t count = 2; count <= TEN_COUNT(ops); count++) {
            assert_int_equal(ten_store_apply(place->store, ops, results, count, CALL_MS), TENURE_OK);
            expect_outcome(results[0], TEN_OK);
            assert_true(is_same(&results[0], &session));
            expect_holder(results[1], "a");
            assert_int_equal(results[1].token, token);
        }
        expect_outcome(results[2], TEN_ERROR);
        assert_int_equal(results[2].error, TENURE_E_FULL);
        etcd_restart_alarmed(place);
    }
    /* A heartbeat that says something else has to write. */
    ops[0].weight = 0;
    assert_int_equal(ten_store_apply(place->store, ops, results, 1, CALL_MS), TENURE_E_FULL);
    (void)etcdctl("alarm disarm");
    assert_int_equal(must_beat(place, "a", LONG_MS).session, session.session);
    expect_outcome(apply_on_session(place, TEN_OP_RENEW, "t", "a", token, LONG_MS), TEN_OK);
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
