/*
 * The lease record (core/lease.h): each move, until when an answer may be believed, and that a broken record is an
 * abort. It is told the time, so nothing here waits.
 */
#include "unit/unit.h"

#include "core/lease.h"

enum { SENT = 5000, TTL = 30000, MARGIN = 3750 };

/* An acquire or a renewal with the usual TTL and margin. */
static ten_lease_grant usual(uint64_t token, uint64_t sent_ms) {
    return (ten_lease_grant){
        .token = token, .asked_ttl_ms = TTL, .granted_ttl_ms = TTL, .margin_ms = MARGIN, .sent_ms = sent_ms};
}

static bool is_granted(ten_lease *lease, ten_lease_grant grant, uint64_t now_ms) {
    return ten_lease_granted(lease, &grant, now_ms);
}

static ten_lease owned(void) {
    ten_lease lease = {0};
    assert_true(is_granted(&lease, usual(7, SENT), SENT + 10));
    return lease;
}

static ten_lease uncertain(void) {
    ten_lease lease = owned();
    ten_lease_renewal_failed(&lease);
    assert_int_equal(lease.state, TEN_LEASE_UNCERTAIN);
    return lease;
}

static ten_lease other(void) {
    ten_lease lease = owned();
    ten_lease_lost(&lease);
    assert_int_equal(lease.state, TEN_LEASE_OTHER);
    return lease;
}

static void a_new_record_is_not_owned(void **state) {
    (void)state;
    ten_lease lease = {0};
    assert_int_equal(lease.state, TEN_LEASE_UNKNOWN);
    assert_false(ten_lease_is_owned(&lease, 0));
}

static void the_deadline_counts_from_sending(void **state) {
    (void)state;
    ten_lease lease = {0};
    assert_true(is_granted(&lease, usual(7, SENT), SENT + 20000));
    assert_int_equal(lease.deadline_ms, SENT + TTL - MARGIN);
    assert_int_equal(lease.token, 7);
    assert_int_equal(lease.ttl_ms, TTL);
}

static void the_smaller_ttl_counts(void **state) {
    (void)state;
    ten_lease lease = {0};
    ten_lease_grant grant = {
        .token = 7, .asked_ttl_ms = TTL, .granted_ttl_ms = 10000, .margin_ms = 1250, .sent_ms = SENT};
    assert_true(ten_lease_granted(&lease, &grant, SENT));
    assert_int_equal(lease.deadline_ms, SENT + 10000 - 1250);
    assert_int_equal(lease.ttl_ms, 10000);
    grant.asked_ttl_ms = 10000;
    grant.granted_ttl_ms = TTL;
    assert_true(ten_lease_granted(&lease, &grant, SENT));
    assert_int_equal(lease.deadline_ms, SENT + 10000 - 1250);
    assert_int_equal(lease.ttl_ms, 10000);
}

static void a_lease_is_owned_until_just_before_its_deadline(void **state) {
    (void)state;
    ten_lease lease = owned();
    assert_true(ten_lease_is_owned(&lease, SENT));
    assert_true(ten_lease_is_owned(&lease, SENT + TTL - MARGIN - 1));
    assert_false(ten_lease_is_owned(&lease, SENT + TTL - MARGIN));
    assert_false(ten_lease_is_owned(&lease, UINT64_MAX));
}

static void assert_same(const ten_lease *a, const ten_lease *b) {
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->ttl_ms, b->ttl_ms);
    assert_int_equal(a->deadline_ms, b->deadline_ms);
}

static void an_answer_after_its_own_deadline_changes_nothing(void **state) {
    (void)state;
    ten_lease before[] = {{0}, owned(), uncertain(), other()};
    for (size_t i = 0; i < TEN_COUNT(before); i++) {
        ten_lease lease = before[i];
        assert_false(is_granted(&lease, usual(9, SENT), SENT + TTL - MARGIN));
        assert_same(&lease, &before[i]);
        assert_false(is_granted(&lease, usual(9, SENT), UINT64_MAX));
        assert_same(&lease, &before[i]);
    }
    ten_lease lease = {0};
    assert_true(is_granted(&lease, usual(9, SENT), SENT + TTL - MARGIN - 1));
}

/* The store may have let somebody else in meanwhile, and forgotten it. */
static void a_renewal_answered_after_the_deadline_that_it_should_have_moved_changes_nothing(void **state) {
    (void)state;
    ten_lease lease = owned();
    uint64_t deadline_ms = lease.deadline_ms;
    assert_false(is_granted(&lease, usual(7, deadline_ms - 100), deadline_ms));
    assert_int_equal(lease.deadline_ms, deadline_ms);
    assert_false(ten_lease_is_owned(&lease, deadline_ms));
    /* One moment earlier it counts; and a new token always does. */
    assert_true(is_granted(&lease, usual(7, deadline_ms - 100), deadline_ms - 1));
    lease = owned();
    assert_true(is_granted(&lease, usual(8, deadline_ms - 100), deadline_ms));
    assert_int_equal(lease.token, 8);
}

static void a_ttl_within_the_margin_is_never_owned(void **state) {
    (void)state;
    ten_lease lease = {0};
    ten_lease_grant grant = {.token = 1, .asked_ttl_ms = 100, .granted_ttl_ms = 20, .margin_ms = 20, .sent_ms = SENT};
    assert_false(ten_lease_granted(&lease, &grant, SENT));
    grant.granted_ttl_ms = 0;
    assert_false(ten_lease_granted(&lease, &grant, SENT));
    assert_int_equal(lease.state, TEN_LEASE_UNKNOWN);
    assert_int_equal(lease.deadline_ms, 0);
}

static void a_failed_renewal_keeps_the_old_deadline_and_pauses(void **state) {
    (void)state;
    ten_lease lease = owned();
    uint64_t deadline_ms = lease.deadline_ms;
    ten_lease_renewal_failed(&lease);
    assert_int_equal(lease.state, TEN_LEASE_UNCERTAIN);
    assert_int_equal(lease.deadline_ms, deadline_ms);
    assert_false(ten_lease_is_owned(&lease, SENT));
    ten_lease_renewal_failed(&lease);
    assert_int_equal(lease.state, TEN_LEASE_UNCERTAIN);
    assert_int_equal(lease.deadline_ms, deadline_ms);
}

static void a_good_renewal_makes_an_uncertain_lease_owned_again(void **state) {
    (void)state;
    ten_lease lease = uncertain();
    assert_true(is_granted(&lease, usual(7, SENT + 1000), SENT + 1001));
    assert_int_equal(lease.state, TEN_LEASE_OWNED);
    assert_int_equal(lease.deadline_ms, SENT + 1000 + TTL - MARGIN);
}

static void a_lost_lease_is_anothers(void **state) {
    (void)state;
    ten_lease from[] = {{0}, owned(), uncertain(), other()};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        ten_lease_lost(&from[i]);
        assert_int_equal(from[i].state, TEN_LEASE_OTHER);
        assert_int_equal(from[i].deadline_ms, 0);
        assert_false(ten_lease_is_owned(&from[i], 0));
        ten_lease_renewal_failed(&from[i]); /* of what is not held: nothing to be uncertain about */
        assert_int_equal(from[i].state, TEN_LEASE_OTHER);
    }
}

static void a_released_lease_is_unknown(void **state) {
    (void)state;
    ten_lease from[] = {{0}, owned(), uncertain(), other()};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        ten_lease_released(&from[i]);
        assert_int_equal(from[i].state, TEN_LEASE_UNKNOWN);
        assert_int_equal(from[i].deadline_ms, 0);
        assert_false(ten_lease_is_owned(&from[i], 0));
        ten_lease_renewal_failed(&from[i]);
        assert_int_equal(from[i].state, TEN_LEASE_UNKNOWN);
    }
}

static void a_new_grant_makes_any_lease_owned(void **state) {
    (void)state;
    ten_lease from[] = {{0}, owned(), uncertain(), other()};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        assert_true(is_granted(&from[i], usual(8, SENT + 100), SENT + 100));
        assert_int_equal(from[i].state, TEN_LEASE_OWNED);
        assert_int_equal(from[i].token, 8);
    }
}

static void renewal_fails(void *arg) {
    ten_lease_renewal_failed(arg);
}

/* Owned without a deadline would never end. */
static void an_owned_record_without_a_deadline_aborts(void **state) {
    (void)state;
    ten_lease broken = {.state = TEN_LEASE_OWNED, .token = 1, .ttl_ms = TTL};
    assert_aborts(renewal_fails, &broken);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_record_is_not_owned),
        cmocka_unit_test(the_deadline_counts_from_sending),
        cmocka_unit_test(the_smaller_ttl_counts),
        cmocka_unit_test(a_lease_is_owned_until_just_before_its_deadline),
        cmocka_unit_test(an_answer_after_its_own_deadline_changes_nothing),
        cmocka_unit_test(a_renewal_answered_after_the_deadline_that_it_should_have_moved_changes_nothing),
        cmocka_unit_test(a_ttl_within_the_margin_is_never_owned),
        cmocka_unit_test(a_failed_renewal_keeps_the_old_deadline_and_pauses),
        cmocka_unit_test(a_good_renewal_makes_an_uncertain_lease_owned_again),
        cmocka_unit_test(a_lost_lease_is_anothers),
        cmocka_unit_test(a_released_lease_is_unknown),
        cmocka_unit_test(a_new_grant_makes_any_lease_owned),
        cmocka_unit_test(an_owned_record_without_a_deadline_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
