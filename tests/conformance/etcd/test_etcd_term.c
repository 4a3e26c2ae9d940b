/*
 * A change of leader in etcd, and what etcd before 3.4.25 can do after one: leases that were kept alive are revoked by
 * a leader of an earlier term. The single member is restarted, which begins a term, and etcd leases are revoked by
 * hand. What has vanished is in doubt: it counts as held, and its holder goes on with it. (e2e/etcd_cluster.sh does it with three members.)
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS  UINT64_C(2000)
#define LATE_MS UINT64_C(1500) /* by how much etcd may be late */
#define BUSY_MS UINT64_C(1000) /* and a busy machine */

static void expect_in_doubt(ten_result result, uint64_t most_ms) {
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "a");
    assert_in_range(result.remaining_ms, 1, most_ms);
}

static void revoke_lease_of(const struct place *place, const char *target) {
    etcd_revoke(etcd_key_fact(place, target, "lease"));
    assert_int_equal(etcd_key_fact(place, target, "lease"), 0);
}

ETCD_CASE(a_revoked_lease_of_an_earlier_term_is_put_back_by_its_holder) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    etcd_restart();
    revoke_lease_of(place, "t");
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", LONG_MS), LONG_MS);
    assert_int_equal(read_lease(place, "t").token, token);
    ten_result back = renew(place, "t", "a", token, LONG_MS);
    expect_outcome(back, TEN_OK);
    assert_int_equal(back.token, token);
    expect_holder(acquire(&elsewhere, "t", "newcomer", LONG_MS), "a");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_true(must_acquire(&elsewhere, "t", "newcomer", LONG_MS) > token);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
}

/* What its own holder acquires lasts for the TTL, however soon the doubt ends. */
ETCD_CASE(an_acquire_in_doubt_by_the_holder_gives_the_lease_its_life_back) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    etcd_restart();
    revoke_lease_of(place, "t");
    struct place elsewhere = elsewhere_of(place);
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", TTL_MS), TTL_MS + 1000);
    sleep_ms(TTL_MS / 2);
    uint64_t since_ms = now_ms();
    assert_int_equal(must_acquire(place, "t", "a", TTL_MS), token);
    assert_true(etcd_key_fact(place, "t", "lease") > 0);
    ten_result result = acquire_within(&elsewhere, "t", "newcomer", TTL_MS, TTL_MS + LATE_MS + BUSY_MS);
    expect_outcome(result, TEN_OK);
    assert_true(now_ms() - since_ms >= TTL_MS);
}

/* It is the first of all to come after the change, too. */
ETCD_CASE(three_hundred_revoked_leases_are_put_back_by_their_holder) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 300, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t former = etcd_key_fact(place, "t-0", "lease");
    assert_int_equal(etcd_key_fact(place, "t-299", "lease"), former);
    etcd_restart();
    etcd_revoke(former);
    assert_int_equal(many_renew(place, many), 0);
    for (size_t i = 0; i < many->count; i++)
        assert_int_equal(many->results[i].token, many->ops[i].token);
    assert_int_equal(many_renew(place, many), 0);
    struct place elsewhere = elsewhere_of(place);
    expect_holder(acquire(&elsewhere, "t-299", "newcomer", LONG_MS), "a");
}

ETCD_CASE(nobody_else_puts_a_revoked_lease_back) {
    const struct place *place = *state;
    expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", LONG_MS)), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    etcd_restart();
    revoke_lease_of(place, "t");
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "a", token - 1, LONG_MS), TEN_LOST);
    expect_in_doubt(acquire(place, "t", "b", LONG_MS), LONG_MS);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

ETCD_CASE(when_the_wait_is_over_a_newcomer_enters_and_the_holder_is_told) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    etcd_restart();
    revoke_lease_of(place, "t");
    uint64_t since_ms = now_ms();
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", TTL_MS), TTL_MS + 1000);
    ten_result result = acquire_within(&elsewhere, "t", "newcomer", TTL_MS, TTL_MS + LATE_MS + BUSY_MS);
    expect_outcome(result, TEN_OK);
    assert_true(now_ms() - since_ms >= TTL_MS);
    assert_true(result.token > token);
    result = renew(place, "t", "a", token, TTL_MS);
    expect_outcome(result, TEN_LOST);
    expect_holder(result, "newcomer");
}

ETCD_CASE(the_wait_lasts_for_the_longest_ttl_of_the_namespace) {
    const struct place *place = *state;
    uint64_t longest_ms = 2 * TTL_MS;
    must_acquire(place, "short", "a", TTL_MS);
    must_acquire(place, "long", "b", longest_ms);
    etcd_restart();
    revoke_lease_of(place, "short");
    revoke_lease_of(place, "long");
    uint64_t since_ms = now_ms();
    ten_result result = acquire_within(place, "short", "c", TTL_MS, longest_ms + LATE_MS + BUSY_MS);
    expect_outcome(result, TEN_OK);
    assert_true(now_ms() - since_ms >= longest_ms);
    must_acquire(place, "long", "c", TTL_MS);
}

static uint64_t lease_of_wait(const struct place *place) {
    return etcd_fact(place, "state/wait", "lease");
}

/* What keeps newcomers waiting is of the present term itself: it could be revoked like the leases that it is for. */
ETCD_CASE(another_change_of_leader_begins_the_wait_anew) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    etcd_restart();
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK); /* it notices the change */
    uint64_t former = lease_of_wait(place);
    etcd_restart();
    revoke_lease_of(place, "t");
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", LONG_MS), LONG_MS);
    assert_true(lease_of_wait(place) != former);
    etcd_revoke(former);
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", LONG_MS), LONG_MS);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

ETCD_CASE(what_was_renewed_in_the_new_term_does_not_mind_its_old_etcd_lease) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 3, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t former = etcd_key_fact(place, "t-1", "lease");
    etcd_restart();
    assert_int_equal(many_renew(place, many), 0);
    uint64_t present = etcd_key_fact(place, "t-1", "lease");
    assert_true(present > 0 && present != former);
    etcd_revoke(former);
    for (size_t i = 0; i < many->count; i++)
        assert_int_equal(etcd_key_fact(place, many->targets[i], "lease"), present);
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(etcd_key_fact(place, "t-1", "lease"), present);
}

ETCD_CASE(what_was_released_or_never_held_is_free_at_once_in_a_new_term) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    etcd_restart();
    assert_true(must_acquire(place, "t", "b", LONG_MS) > token);
    must_acquire(place, "never-seen", "b", LONG_MS);
}

ETCD_CASE(what_was_forced_is_not_put_back) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "me"), TEN_OK);
    etcd_restart();
    revoke_lease_of(place, "t");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_in_doubt(acquire(place, "t", "b", LONG_MS), LONG_MS);
}

/* In the present term a lease that has gone has ended, whoever ended it. */
ETCD_CASE(an_etcd_lease_that_is_revoked_in_its_own_term_has_ended) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    struct many *many = many_acquire(place, 200, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    revoke_lease_of(place, "t-0");
    must_acquire(&elsewhere, "t-0", "newcomer", LONG_MS);
    assert_int_equal(many_renew(place, many), 200);
    expect_holder(many->results[0], "newcomer");
}

ETCD_CASE(heartbeats_move_to_the_new_term_too) {
    const struct place *place = *state;
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    etcd_restart();
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

/* ---- no room */

ETCD_CASE(holders_go_on_without_room_also_after_a_change_of_leader) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op ops[] = {
        {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1},
        {.kind = TEN_OP_RENEW, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "new", .holder = "a", .ttl_ms = LONG_MS},
    };
    ten_result results[TEN_COUNT(ops)];
    ops[1].token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_OK);
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_OK);
    etcd_raise_alarm();
    for (int round = 0; round < 3; round++) {
        assert_int_equal(ten_store_apply(place->store, ops, results, 3, CALL_MS), TENURE_OK);
        expect_outcome(results[0], TEN_OK);
        expect_outcome(results[1], TEN_OK);
        assert_int_equal(results[1].token, ops[1].token);
        expect_outcome(results[2], TEN_ERROR);
        assert_int_equal(results[2].error, TENURE_E_FULL);
        assert_int_equal(ten_store_apply(place->other, ops + 2, results, 1, CALL_MS), TENURE_E_FULL);
        etcd_restart_alarmed(place);
    }
    /* What a former leader takes away meanwhile is given to nobody when there is room again. */
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_OK);
    revoke_lease_of(place, "t");
    (void)etcdctl("alarm disarm");
    expect_in_doubt(acquire(&elsewhere, "t", "newcomer", LONG_MS), LONG_MS);
    assert_int_equal(ten_store_apply(place->store, ops, results, 3, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < TEN_COUNT(ops); i++)
        expect_outcome(results[i], TEN_OK);
}

/* ---- answers that do not belong together */

static void of_another_term(ten_etcd_call *call) {
    call->head.term--;
}

static void of_another_member(ten_etcd_call *call) {
    call->head.member++;
}

/* Whoever answered the keep-alive need not have led: it does not count. The etcd lease is kept alive once more, or
 * another takes its place. */
static void expect_no_trust(const struct place *place, void (*after)(ten_etcd_call *call)) {
    struct many *many = many_acquire(place, 3, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    uint64_t former = etcd_key_fact(place, "t-0", "lease");
    etcd_wire.kept_alive = 0;
    etcd_wire.after = after;
    etcd_wire.hook_path = "/v3/lease/keepalive";
    assert_int_equal(many_renew(place, many), 0);
    assert_int_equal(etcd_wire.hooked, 1);
    uint64_t present = etcd_key_fact(place, "t-0", "lease");
    assert_true(present > 0);
    assert_true(present != former || etcd_wire.kept_alive > 1);
}

ETCD_CASE(a_keep_alive_of_an_earlier_term_does_not_count) {
    expect_no_trust(*state, of_another_term);
}

ETCD_CASE(a_keep_alive_by_another_member_than_the_comparison_does_not_count) {
    expect_no_trust(*state, of_another_member);
}

TEST_GROUP(etcd_group_setup, etcd_group_teardown)
