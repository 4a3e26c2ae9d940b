/*
 * Waiting for a target in etcd: how many requests the successor needs after a release, and that what was prepared in
 * advance is given up when anything is otherwise than it was foretold. The etcd lease that was granted in advance lasts
 * for what the lease promises.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>

#define TTL_MS UINT64_C(4000)

/* The second handle watches, and was refused: it waits. */
static struct place wait_for(const struct place *place, const char *target, uint64_t ttl_ms) {
    struct place waiter = elsewhere_of(place);
    int fd;
    assert_int_equal(waiter.store->ops->watch(waiter.store, waiter.ns, &fd), TENURE_OK);
    expect_outcome(acquire(&waiter, target, "w", ttl_ms), TEN_HELD);
    return waiter;
}

static void read_feed(const struct place *waiter, uint64_t *cursor) {
    struct seen seen;
    read_changes(waiter->store, waiter->ns, cursor, &seen);
}

static void after_a_release_the_one_that_waits_needs_two_requests(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    for (int i = 0; i < 3; i++) {
        uint64_t cursor = cursor_now(waiter.store, waiter.ns);
        expect_outcome(release(place, "t", "a", token), TEN_OK);
        uint64_t before = etcd_calls_served();
        size_t count = 0;
        struct seen seen;
        read_changes(waiter.store, waiter.ns, &cursor, &seen);
        count = seen.count;
        uint64_t reads = etcd_calls_served() - before;
        ten_result result = acquire(&waiter, "t", "w", LONG_MS);
        uint64_t calls = etcd_calls_served() - before - reads + 1;
        expect_outcome(result, TEN_OK);
        assert_int_equal(count, 1);
        assert_int_equal(calls, 2); /* one page of the feed, and the acquire */
        assert_true(result.token > token);
        assert_int_equal(result.ttl_ms, LONG_MS);
        assert_int_equal(etcd_key_fact(place, "t", "create_revision"), result.token);
        read_changes(waiter.store, waiter.ns, &cursor, &seen);
        assert_int_equal(seen.count, 1);
        assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_ACQUIRED);
        assert_int_equal(seen.at[0].change.token, result.token);
        expect_outcome(release(&waiter, "t", "w", result.token), TEN_OK);
        token = must_acquire(place, "t", "a", LONG_MS);
        expect_outcome(acquire(&waiter, "t", "w", LONG_MS), TEN_HELD);
    }
}

static void the_first_renewal_moves_it_to_an_etcd_lease_of_its_ttl(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    token = must_acquire(&waiter, "t", "w", LONG_MS);
    uint64_t reserve = etcd_key_fact(place, "t", "lease");
    expect_outcome(renew(&waiter, "t", "w", token, LONG_MS), TEN_OK);
    assert_int_not_equal(etcd_key_fact(place, "t", "lease"), reserve);
    assert_in_range(read_lease(place, "t").remaining_ms, 1, LONG_MS);
    uint64_t before = etcd_calls_served();
    expect_outcome(renew(&waiter, "t", "w", token, LONG_MS), TEN_OK);
    assert_int_equal(etcd_calls_served() - before, 2);
}

/* However long it waited: what was granted in advance is used only while a whole TTL of it is left. */
static void what_is_acquired_lasts_for_its_ttl_however_long_was_waited(void **state) {
    const struct place *place = *state;
    struct place rival = elsewhere_of(place);
    static const uint64_t waits_ms[] = {TTL_MS / 4, TTL_MS / 2 + 500};
    for (size_t i = 0; i < TEN_COUNT(waits_ms); i++) {
        char target[8];
        snprintf(target, sizeof target, "t%zu", i);
        uint64_t token = must_acquire(place, target, "a", LONG_MS);
        struct place waiter = wait_for(place, target, TTL_MS);
        sleep_ms(waits_ms[i]);
        expect_outcome(release(place, target, "a", token), TEN_OK);
        uint64_t sent_ms = now_ms();
        expect_outcome(acquire(&waiter, target, "w", TTL_MS), TEN_OK);
        expect_outcome(acquire_within(&rival, target, "r", LONG_MS, 4 * TTL_MS), TEN_OK);
        if (now_ms() - sent_ms < TTL_MS)
            fail_msg("taken after %llu ms", (unsigned long long)(now_ms() - sent_ms));
    }
}

static void the_holder_releases_with_one_request(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    uint64_t before = etcd_calls_served();
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_int_equal(etcd_calls_served() - before, 1);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RELEASED);
    assert_int_equal(seen.at[0].change.token, token);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    assert_true(must_acquire(place, "t", "b", LONG_MS) > token);
}

/* ---- what comes in between */

static void take_it(const struct place *place) {
    must_acquire(place, "t", "rival", LONG_MS);
}

static void declare_gone(const struct place *place) {
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = place->ns, .holder = "w", .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, leave), TEN_LOST);
}

static ten_result acquire_disturbed(const struct place *place, void (*before)(const struct place *place)) {
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    etcd_wire.place = place;
    etcd_wire.before = before;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestPut";
    ten_result result = acquire(&waiter, "t", "w", LONG_MS);
    assert_int_equal(etcd_wire.hooked, 1);
    return result;
}

static void whoever_was_faster_is_not_overwritten(void **state) {
    ten_result result = acquire_disturbed(*state, take_it);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "rival");
}

static void whoever_is_declared_gone_gets_nothing(void **state) {
    ten_result result = acquire_disturbed(*state, declare_gone);
    expect_outcome(result, TEN_ERROR);
    assert_int_equal(result.error, TENURE_E_GONE);
    expect_holder(read_lease(*state, "t"), NULL);
}

static void delete_and_take(const struct place *place) {
    struct place rival = elsewhere_of(place);
    etcd_delete_key(place, "t");
    must_acquire(&rival, "t", "rival", LONG_MS);
}

static void bar_it(const struct place *place) {
    struct place other = elsewhere_of(place);
    expect_outcome(force(&other, "t", TEN_OP_FORCE, "root"), TEN_OK);
}

static void a_late_release_does_nothing_to_whoever_took_it(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    etcd_wire.place = place;
    etcd_wire.before = delete_and_take;
    etcd_wire.hook_path = "/v3/kv/txn";
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_holder(read_lease(place, "t"), "rival");
}

static void what_was_forced_meanwhile_is_released_as_ever(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    etcd_wire.place = place;
    etcd_wire.before = bar_it;
    etcd_wire.hook_path = "/v3/kv/txn";
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_holder(read_lease(place, "t"), NULL);
}

static void revoke_all(const struct place *place) {
    (void)place;
    (void)etcdctl("lease list | grep -v found | xargs -n1 etcdctl --endpoints=127.0.0.1:%d lease revoke",
                  etcd_member.port);
}

static void a_reserve_that_was_revoked_by_hand_is_replaced(void **state) {
    const struct place *place = *state;
    ten_result result = acquire_disturbed(place, revoke_all);
    expect_outcome(result, TEN_OK);
    assert_true(etcd_key_fact(place, "t", "lease") > 0);
    struct place waiter = elsewhere_of(place);
    expect_outcome(renew(&waiter, "t", "w", result.token, LONG_MS), TEN_OK);
}

static void after_a_change_of_leader_nothing_that_was_prepared_is_used(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    char leases[4096];
    snprintf(leases, sizeof leases, "%s", etcdctl("lease list"));
    etcd_restart();
    ten_result result = acquire(&waiter, "t", "w", LONG_MS);
    expect_outcome(result, TEN_OK);
    char lease[24];
    snprintf(lease, sizeof lease, "%llx", (unsigned long long)etcd_key_fact(place, "t", "lease"));
    assert_null(strstr(leases, lease)); /* it is of the new term */
}

/* Others write other fences: nothing is foretold then. */
static void what_was_forced_or_handed_over_or_has_expired_is_acquired_as_ever(void **state) {
    const struct place *place = *state;
    must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "root"), TEN_OK);
    must_acquire(&waiter, "t", "w", LONG_MS);
    must_acquire(place, "u", "a", TTL_MS);
    waiter = wait_for(place, "u", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(acquire_within(&waiter, "u", "w", LONG_MS, 4 * TTL_MS), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2); /* that it was lost, too */
}

static void an_acquire_whose_reply_was_lost_recognises_itself(void **state) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    struct place waiter = wait_for(place, "t", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "w", .ttl_ms = LONG_MS};
    ten_result result;
    assert_int_equal(ten_store_apply(waiter.store, &op, &result, 1, CALL_MS), TENURE_E_TIMEOUT);
    assert_int_equal(etcd_wire.lost, 1);
    token = etcd_key_fact(place, "t", "create_revision");
    expect_outcome(acquire(place, "t", "rival", LONG_MS), TEN_HELD);
    ten_result again = acquire(&waiter, "t", "w", LONG_MS);
    expect_outcome(again, TEN_OK);
    assert_int_equal(again.token, token);
}

static void what_was_granted_in_advance_ends_with_the_handle(void **state) {
    const struct place *place = *state;
    char url[FIXTURE_URL_SIZE];
    etcd_url(url, "");
    must_acquire(place, "t", "a", LONG_MS);
    const char *first = etcdctl("lease list | wc -l");
    char before[16];
    snprintf(before, sizeof before, "%.15s", first);
    struct place waiter = *place;
    waiter.store = open_store(url);
    int fd;
    assert_int_equal(waiter.store->ops->watch(waiter.store, waiter.ns, &fd), TENURE_OK);
    expect_outcome(acquire(&waiter, "t", "w", LONG_MS), TEN_HELD);
    uint64_t cursor = cursor_now(waiter.store, waiter.ns);
    read_feed(&waiter, &cursor);
    assert_string_not_equal(etcdctl("lease list | wc -l"), before);
    ten_store_close(waiter.store);
    assert_string_equal(etcdctl("lease list | wc -l"), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ETCD_CASE(after_a_release_the_one_that_waits_needs_two_requests),
        ETCD_CASE(the_first_renewal_moves_it_to_an_etcd_lease_of_its_ttl),
        ETCD_CASE(what_is_acquired_lasts_for_its_ttl_however_long_was_waited),
        ETCD_CASE(the_holder_releases_with_one_request),
        ETCD_CASE(whoever_was_faster_is_not_overwritten),
        ETCD_CASE(a_late_release_does_nothing_to_whoever_took_it),
        ETCD_CASE(what_was_forced_meanwhile_is_released_as_ever),
        ETCD_CASE(whoever_is_declared_gone_gets_nothing),
        ETCD_CASE(a_reserve_that_was_revoked_by_hand_is_replaced),
        ETCD_CASE(after_a_change_of_leader_nothing_that_was_prepared_is_used),
        ETCD_CASE(what_was_forced_or_handed_over_or_has_expired_is_acquired_as_ever),
        ETCD_CASE(an_acquire_whose_reply_was_lost_recognises_itself),
        ETCD_CASE(what_was_granted_in_advance_ends_with_the_handle),
    };
    return cmocka_run_group_tests(tests, etcd_group_setup, etcd_group_teardown);
}
