/*
 * The holding (core/holding.h): each move, until when an answer may be believed, which tokens are never believed again,
 * and that a broken holding is an abort. It is told the time, so nothing here waits.
 */
#include "unit/unit.h"

#include "core/holding.h"

enum { SENT = 5000, TTL = 30000, MARGIN = 3750, DEADLINE = SENT + TTL - MARGIN };

static const ten_timing timing = {.ttl_ms = TTL, .renew_ms = TTL / 3, .margin_ms = MARGIN, .timeout_ms = 1000};

static ten_result ok(uint64_t token) {
    return (ten_result){.outcome = TEN_OK, .token = token, .ttl_ms = TTL};
}

static enum ten_holding_outcome answer(ten_holding *holding, uint64_t sent_ms, uint64_t now_ms, ten_result result) {
    return ten_holding_answer(holding, &timing, sent_ms, now_ms, &result).outcome;
}

static enum ten_holding_outcome acquire(ten_holding *holding, uint64_t sent_ms, uint64_t now_ms, ten_result result) {
    assert_int_equal(ten_holding_acquire(holding, &timing).kind, TEN_OP_ACQUIRE);
    return answer(holding, sent_ms, now_ms, result);
}

static enum ten_holding_outcome renew(ten_holding *holding, uint64_t sent_ms, uint64_t now_ms, ten_result result) {
    assert_int_equal(ten_holding_renew(holding, &timing, 0).kind, TEN_OP_RENEW);
    return answer(holding, sent_ms, now_ms, result);
}

static ten_holding held(void) {
    ten_holding holding = {0};
    assert_int_equal(acquire(&holding, SENT, SENT + 10, ok(7)), TEN_HOLDING_GRANTED);
    return holding;
}

static ten_holding uncertain(void) {
    ten_holding holding = held();
    (void)ten_holding_renew(&holding, &timing, 0);
    assert_true(ten_holding_unanswered(&holding));
    return holding;
}

static ten_holding closing(void) {
    ten_holding holding = held();
    ten_holding_close(&holding);
    return holding;
}

static ten_holding releasing(void) {
    ten_holding holding = held();
    (void)ten_holding_release(&holding, TEN_REASON_DONE, 0);
    (void)ten_holding_unanswered(&holding);
    return holding;
}

static void assert_not_believed(const ten_holding *holding) {
    assert_false(ten_holding_is_held(holding));
    assert_false(ten_holding_is_confirmed(holding, 0));
    assert_false(ten_holding_may_work(holding, 0));
}

/* ---- until when it is believed */

TEST(a_new_holding_is_not_believed) {
    ten_holding holding = {0};
    assert_int_equal(holding.state, TEN_HOLDING_NONE);
    assert_not_believed(&holding);
}

TEST(the_deadline_counts_from_sending) {
    ten_holding holding = {0};
    assert_int_equal(acquire(&holding, SENT, SENT + 20000, ok(7)), TEN_HOLDING_GRANTED);
    assert_int_equal(holding.deadline_ms, DEADLINE);
    assert_int_equal(holding.token, 7);
    assert_int_equal(holding.ttl_ms, TTL);
    assert_int_equal(holding.sent_ms, SENT);
    assert_int_equal(holding.acquired_ms, SENT);
}

TEST(the_smaller_ttl_counts) {
    ten_holding holding = {0};
    ten_result result = ok(7);
    result.ttl_ms = 10000;
    assert_int_equal(acquire(&holding, SENT, SENT, result), TEN_HOLDING_GRANTED);
    assert_int_equal(holding.deadline_ms, SENT + 10000 - MARGIN);
    assert_int_equal(holding.ttl_ms, 10000);
    result.ttl_ms = 2 * TTL;
    assert_int_equal(renew(&holding, SENT, SENT, result), TEN_HOLDING_RENEWED);
    assert_int_equal(holding.deadline_ms, DEADLINE);
    assert_int_equal(holding.ttl_ms, TTL);
}

TEST(it_is_believed_until_just_before_its_deadline) {
    ten_holding holding = held();
    assert_true(ten_holding_may_work(&holding, SENT));
    assert_true(ten_holding_may_work(&holding, DEADLINE - 1));
    assert_false(ten_holding_may_work(&holding, DEADLINE));
    assert_false(ten_holding_may_work(&holding, UINT64_MAX));
    assert_false(ten_holding_expire(&holding, DEADLINE - 1));
    assert_true(ten_holding_expire(&holding, DEADLINE));
    assert_false(ten_holding_expire(&holding, DEADLINE));
    assert_not_believed(&holding);
}

TEST(a_grant_that_arrives_after_its_own_deadline_is_not_believed) {
    ten_holding holding = {0};
    assert_int_equal(acquire(&holding, SENT, DEADLINE, ok(7)), TEN_HOLDING_LATE);
    assert_not_believed(&holding);
    assert_int_equal(acquire(&holding, SENT, UINT64_MAX, ok(7)), TEN_HOLDING_LATE);
    assert_int_equal(acquire(&holding, SENT, DEADLINE - 1, ok(7)), TEN_HOLDING_GRANTED);
}

/* The store may have let somebody else in meanwhile, and forgotten it. */
TEST(a_renewal_answered_after_the_deadline_that_it_should_have_moved_is_late) {
    ten_holding holding = held();
    assert_int_equal(renew(&holding, DEADLINE - 100, DEADLINE, ok(7)), TEN_HOLDING_LATE);
    assert_int_equal(holding.deadline_ms, DEADLINE);
    assert_false(ten_holding_may_work(&holding, DEADLINE - 1));
    assert_true(ten_holding_expire(&holding, DEADLINE));
    holding = held();
    assert_int_equal(renew(&holding, DEADLINE - 100, DEADLINE - 1, ok(7)), TEN_HOLDING_RENEWED);
}

/* The store ends the lease earlier than the old deadline then. */
TEST(a_late_answer_that_granted_less_ends_the_lease) {
    ten_holding holding = held();
    ten_result result = ok(7);
    result.ttl_ms = MARGIN + 1000;
    assert_int_equal(renew(&holding, SENT + 5000, SENT + 6000, result), TEN_HOLDING_LATE);
    assert_false(ten_holding_is_confirmed(&holding, SENT + 6000));
    assert_true(ten_holding_expire(&holding, SENT + 6000));
}

TEST(a_ttl_within_the_margin_is_never_believed) {
    ten_holding holding = {0};
    ten_result result = ok(1);
    result.ttl_ms = MARGIN;
    assert_int_equal(acquire(&holding, SENT, SENT, result), TEN_HOLDING_LATE);
    result.ttl_ms = 0;
    assert_int_equal(acquire(&holding, SENT, SENT, result), TEN_HOLDING_LATE);
    assert_not_believed(&holding);
}

/* ---- uncertainty */

TEST(a_renewal_without_an_answer_keeps_the_deadline_and_pauses) {
    ten_holding holding = held();
    (void)ten_holding_renew(&holding, &timing, 0);
    assert_true(ten_holding_unanswered(&holding));
    assert_int_equal(holding.deadline_ms, DEADLINE);
    assert_true(ten_holding_is_held(&holding));
    assert_false(ten_holding_is_confirmed(&holding, SENT));
    (void)ten_holding_renew(&holding, &timing, 0);
    assert_false(ten_holding_unanswered(&holding)); /* it was before */
    assert_int_equal(renew(&holding, SENT + 1000, SENT + 1001, ok(7)), TEN_HOLDING_RENEWED);
    assert_true(ten_holding_may_work(&holding, SENT + 1001));
    assert_int_equal(holding.deadline_ms, DEADLINE + 1000);
    assert_int_equal(holding.acquired_ms, SENT);
}

TEST(an_acquire_without_an_answer_is_not_held) {
    ten_holding holding = {0};
    (void)ten_holding_acquire(&holding, &timing);
    assert_false(ten_holding_unanswered(&holding));
    assert_not_believed(&holding);
    assert_int_equal(acquire(&holding, SENT, SENT, ok(7)), TEN_HOLDING_GRANTED);
}

/* ---- losing it */

TEST(a_renewal_that_the_store_refuses_is_a_loss) {
    ten_holding from[] = {held(), uncertain(), closing()};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        assert_int_equal(renew(&from[i], SENT, SENT, (ten_result){.outcome = TEN_LOST}), TEN_HOLDING_LOST);
        assert_not_believed(&from[i]);
        assert_false(from[i].spent); /* it was not released: the store's word counts */
    }
}

TEST(an_answer_about_a_lease_that_has_ended_is_ignored) {
    ten_holding holding = held();
    (void)ten_holding_renew(&holding, &timing, 0);
    ten_holding_lose(&holding);
    assert_int_equal(answer(&holding, SENT, SENT, ok(7)), TEN_HOLDING_IGNORED);
    assert_not_believed(&holding);
    holding = held();
    (void)ten_holding_renew(&holding, &timing, 0);
    assert_true(ten_holding_expire(&holding, DEADLINE));
    ten_holding_disown(&holding, holding.token, TEN_REASON_EXPIRED);
    assert_int_equal(answer(&holding, DEADLINE - 1, DEADLINE, ok(7)), TEN_HOLDING_IGNORED);
    assert_int_equal(holding.state, TEN_HOLDING_RELEASING);
}

TEST(a_refused_acquire_shows_the_highest_token) {
    ten_holding holding = {0};
    ten_result result = {.outcome = TEN_HELD, .token = 12};
    assert_int_equal(acquire(&holding, SENT, SENT, result), TEN_HOLDING_REFUSED);
    assert_int_equal(holding.known_token, 12);
    assert_int_equal(acquire(&holding, SENT, SENT, (ten_result){.outcome = TEN_ERROR}), TEN_HOLDING_REFUSED);
    assert_not_believed(&holding);
}

TEST(news_of_another_lease_is_told_from_old_news) {
    ten_holding holding = held();
    assert_int_equal(ten_holding_hear(&holding, 6, false), TEN_HOLDING_OUTDATED);
    assert_int_equal(ten_holding_hear(&holding, 7, false), TEN_HOLDING_OUTDATED);
    assert_int_equal(ten_holding_hear(&holding, 8, false), TEN_HOLDING_NEWER);
    ten_holding_lose(&holding);
    assert_int_equal(ten_holding_hear(&holding, 8, false), TEN_HOLDING_KNOWN);
    assert_int_equal(ten_holding_hear(&holding, 7, false), TEN_HOLDING_OUTDATED);
}

/* Its answer was lost, or is on its way. */
TEST(a_lease_of_its_own_that_was_never_granted_is_a_stray) {
    ten_holding holding = {0};
    (void)ten_holding_acquire(&holding, &timing);
    assert_int_equal(ten_holding_hear(&holding, 5, true), TEN_HOLDING_NEWER);
    assert_false(holding.stray);
    (void)ten_holding_unanswered(&holding);
    assert_int_equal(ten_holding_hear(&holding, 6, true), TEN_HOLDING_NEWER);
    assert_true(holding.stray);
    ten_holding again = holding;
    assert_int_equal(acquire(&again, SENT, SENT, ok(6)), TEN_HOLDING_GRANTED);
    assert_false(again.stray);
    assert_int_equal(ten_holding_hear(&holding, 7, false), TEN_HOLDING_NEWER);
    assert_false(holding.stray);
}

/* ---- closing and releasing */

TEST(closing_starts_no_work_but_is_believed_and_renewed) {
    ten_holding holding = closing();
    assert_false(ten_holding_may_work(&holding, SENT));
    assert_true(ten_holding_is_confirmed(&holding, SENT));
    assert_int_equal(renew(&holding, SENT + 500, SENT + 501, ok(7)), TEN_HOLDING_RENEWED);
    assert_int_equal(holding.state, TEN_HOLDING_CLOSING);
    ten_holding_reopen(&holding);
    assert_true(ten_holding_may_work(&holding, SENT + 501));
}

TEST(from_the_sending_of_its_release_on_it_is_not_believed) {
    ten_holding from[] = {held(), uncertain(), closing()};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        ten_op op = ten_holding_release(&from[i], TEN_REASON_DRAIN, 0);
        assert_int_equal(op.kind, TEN_OP_RELEASE);
        assert_int_equal(op.token, 7);
        assert_int_equal(op.reason, TEN_REASON_DRAIN);
        assert_not_believed(&from[i]);
        assert_int_equal(answer(&from[i], SENT, SENT, (ten_result){.outcome = TEN_LOST}), TEN_HOLDING_RELEASED);
        assert_int_equal(from[i].state, TEN_HOLDING_NONE);
    }
}

TEST(a_release_without_an_answer_is_repeated_with_its_first_reason) {
    ten_holding holding = releasing();
    assert_int_equal(holding.state, TEN_HOLDING_RELEASING);
    ten_op op = ten_holding_release(&holding, TEN_REASON_SHUTDOWN, 0);
    assert_int_equal(op.token, 7);
    assert_int_equal(op.reason, TEN_REASON_DONE);
    assert_int_equal(answer(&holding, SENT, SENT, ok(7)), TEN_HOLDING_RELEASED);
}

TEST(from_the_sending_of_a_handover_on_it_is_not_believed) {
    ten_holding holding = closing();
    ten_op op = ten_holding_hand(&holding, TEN_REASON_REBALANCE, "next", TTL);
    assert_int_equal(op.kind, TEN_OP_HAND);
    assert_int_equal(op.token, 7);
    assert_string_equal(op.successor, "next");
    assert_not_believed(&holding);
    /* Its successor's token is known then: older news do not count. */
    assert_int_equal(answer(&holding, SENT, SENT + 20, ok(8)), TEN_HOLDING_HANDED);
    assert_int_equal(holding.state, TEN_HOLDING_NONE);
    assert_int_equal(ten_holding_hear(&holding, 7, true), TEN_HOLDING_OUTDATED);
}

TEST(what_cannot_be_handed_over_is_released) {
    ten_holding refused = closing();
    ten_holding unanswered = closing();
    (void)ten_holding_hand(&refused, TEN_REASON_DRAIN, "next", TTL);
    (void)ten_holding_hand(&unanswered, TEN_REASON_DRAIN, "next", TTL);
    assert_int_equal(answer(&refused, SENT, SENT + 20, (ten_result){.outcome = TEN_UNKNOWN}), TEN_HOLDING_IGNORED);
    assert_false(ten_holding_unanswered(&unanswered));
    ten_holding *const both[] = {&refused, &unanswered};
    for (size_t i = 0; i < TEN_COUNT(both); i++) {
        assert_not_believed(both[i]);
        ten_op op = ten_holding_release(both[i], TEN_REASON_NONE, 0);
        assert_int_equal(op.kind, TEN_OP_RELEASE);
        assert_int_equal(op.token, 7);
        assert_int_equal(op.reason, TEN_REASON_DRAIN);
    }
}

TEST(what_is_kept_is_renewed_instead_of_released) {
    ten_holding holding = held();
    ten_op op = ten_holding_renew(&holding, &timing, TTL + 1);
    assert_int_equal(op.ttl_ms, TTL + 1);
    assert_int_equal(op.flags, TEN_OP_KEEP);
    ten_result result = ok(7);
    result.ttl_ms = TTL + 1;
    assert_int_equal(answer(&holding, SENT, SENT, result), TEN_HOLDING_RENEWED);
    assert_int_equal(holding.deadline_ms, DEADLINE); /* it only keeps the others out */
    op = ten_holding_release(&holding, TEN_REASON_DONE, 500);
    assert_int_equal(op.kind, TEN_OP_RENEW);
    assert_int_equal(op.flags, TEN_OP_KEEP);
    assert_int_equal(op.ttl_ms, 500);
    assert_not_believed(&holding);
    ten_holding lost = holding;
    assert_int_equal(answer(&holding, SENT, SENT, ok(7)), TEN_HOLDING_KEPT);
    assert_not_believed(&holding);
    assert_int_equal(answer(&lost, SENT, SENT, (ten_result){.outcome = TEN_LOST}), TEN_HOLDING_UNKEPT);
}

/* ---- spent tokens */

TEST(a_token_whose_release_was_sent_or_whose_deadline_passed_is_never_believed_again) {
    ten_holding released = releasing();
    (void)ten_holding_release(&released, TEN_REASON_DONE, 0);
    assert_int_equal(answer(&released, SENT, SENT, (ten_result){.outcome = TEN_LOST}), TEN_HOLDING_RELEASED);
    ten_holding expired = held();
    assert_true(ten_holding_expire(&expired, DEADLINE));
    ten_holding *from[] = {&released, &expired};
    for (size_t i = 0; i < TEN_COUNT(from); i++) {
        assert_int_equal(acquire(from[i], DEADLINE, DEADLINE, ok(7)), TEN_HOLDING_SPENT);
        assert_not_believed(from[i]);
        ten_op op = ten_holding_release(from[i], TEN_REASON_DONE, 0);
        assert_int_equal(op.token, 7);
        assert_int_equal(op.reason, TEN_REASON_STORE);
        assert_int_equal(answer(from[i], DEADLINE, DEADLINE, ok(7)), TEN_HOLDING_RELEASED);
        assert_int_equal(acquire(from[i], DEADLINE, DEADLINE, ok(8)), TEN_HOLDING_GRANTED);
    }
}

/* A store that lost data counts anew. */
TEST(a_token_below_the_highest_seen_is_not_believed_and_does_not_lower_what_is_spent) {
    ten_holding holding = held();
    (void)ten_holding_release(&holding, TEN_REASON_DONE, 0);
    (void)answer(&holding, SENT, SENT, ok(7));
    assert_int_equal(acquire(&holding, SENT, SENT, ok(3)), TEN_HOLDING_SPENT);
    (void)ten_holding_release(&holding, TEN_REASON_DONE, 0);
    (void)answer(&holding, SENT, SENT, ok(3));
    assert_int_equal(acquire(&holding, SENT, SENT, ok(7)), TEN_HOLDING_SPENT);
    holding = (ten_holding){0};
    assert_int_equal(ten_holding_hear(&holding, 9, false), TEN_HOLDING_NEWER);
    assert_int_equal(acquire(&holding, SENT, SENT, ok(8)), TEN_HOLDING_SPENT);
}

/* ---- what must not happen */

static void close_it(void *arg) {
    ten_holding_close(arg);
}

static void renew_it(void *arg) {
    (void)ten_holding_renew(arg, &timing, 0);
}

static void acquire_it(void *arg) {
    (void)ten_holding_acquire(arg, &timing);
}

static void expire_it(void *arg) {
    (void)ten_holding_expire(arg, UINT64_MAX);
}

TEST(a_broken_holding_aborts) {
    ten_holding none = {0};
    assert_aborts(close_it, &none);
    assert_aborts(renew_it, &none);
    ten_holding twice = held();
    renew_it(&twice);
    assert_aborts(renew_it, &twice);
    ten_holding unanswered = releasing();
    assert_aborts(acquire_it, &unanswered);
    /* Held without a deadline would never end; with one, a spent token would be believed. */
    ten_holding endless = {.state = TEN_HOLDING_HELD, .token = 1};
    assert_aborts(renew_it, &endless);
    ten_holding spent = held();
    spent.spent = true;
    assert_aborts(renew_it, &spent);
    ten_holding strange = held();
    strange.state = TEN_HOLDING_RELEASING;
    strange.flight = TEN_FLIGHT_ACQUIRE;
    assert_aborts(acquire_it, &strange);
    assert_true(ten_holding_is_held(&(ten_holding){.state = TEN_HOLDING_HELD, .token = 1, .deadline_ms = 1}));
    expire_it(&none);
}
