/*
 * The book of a context's leases on a clock that the test tells: each rule by itself. Whole lives, with faults, are
 * tests/sim's business.
 */
#include "unit/unit.h"

#include "core/lease_book_state.h"
#include "part.h"

#define TTL_MS    UINT64_C(3000)
#define MARGIN_MS UINT64_C(375)
#define RENEW_MS  UINT64_C(1000)
#define START_MS  UINT64_C(10000)
#define USERS_MAX 16u

struct seen {
    unsigned changed;
    unsigned failed;
    unsigned lost;
    enum ten_reason reason;
};

struct fixture {
    ten_event_queue events;
    ten_lease_book *book;
    struct seen seen;
    ten_book_user users[USERS_MAX]; /* in the order in which they were made */
    size_t user_count;
};

static void on_fact(void *userdata, const ten_fact *fact) {
    struct seen *seen = userdata;
    seen->changed += fact->kind == TEN_FACT_BELIEF;
    seen->failed += fact->kind == TEN_FACT_FAILED;
    seen->lost += fact->kind == TEN_FACT_LOST;
    if (fact->kind == TEN_FACT_LOST)
        seen->reason = fact->reason;
}

static ten_lease_book *make_book(const char *instance, uint32_t batch_max, ten_event_queue *events, struct seen *seen) {
    ten_lease_book_config config = {.namespace_name = "poll",
                                    .instance = instance,
                                    .timing = {.ttl_ms = TTL_MS},
                                    .batch_max = batch_max,
                                    .seed = 7,
                                    .events = events};
    ten_timing_defaults(&config.timing);
    events->publish = on_fact;
    events->userdata = seen;
    ten_lease_book *book = ten_lease_book_new(&config);
    assert_non_null(book);
    return book;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_true(ten_event_queue_open(&fixture->events));
    fixture->book = make_book("me", 4, &fixture->events, &fixture->seen);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    ten_lease_book_free(fixture->book);
    ten_event_queue_free(&fixture->events);
    free(fixture);
    return 0;
}

#define BOOK_TEST(name) TEST_WITH(name, set_up, tear_down)

/* A user for one test; there are enough. */
static ten_book_user *new_user(struct fixture *fixture, bool renewed) {
    assert_true(fixture->user_count < USERS_MAX);
    ten_book_user *user = &fixture->users[fixture->user_count++];
    user->renewed = renewed;
    return user;
}

/* Without those that rest. */
static size_t count_leases(const ten_lease_book *book) {
    size_t count = 0;
    for (uint32_t i = 0; i < book->room; i++)
        count += book->leases[i] && !book->leases[i]->resting;
    return count;
}

/* ---- asking the book, and answering it */

static const ten_op *request(struct fixture *fixture, uint64_t now_ms, size_t *ret_count) {
    return part_request(ten_lease_book_step, fixture->book, now_ms, ret_count);
}

static void must_send(struct fixture *fixture, uint64_t now_ms, enum ten_op_kind kind) {
    size_t count = 0;
    const ten_op *op = request(fixture, now_ms, &count);
    assert_non_null(op);
    assert_int_equal(count, 1);
    assert_int_equal(op->kind, kind);
}

static void must_be_silent(struct fixture *fixture, uint64_t now_ms) {
    assert_null(request(fixture, now_ms, &(size_t){0}));
}

static void answer(struct fixture *fixture, uint64_t now_ms, const ten_result *result) {
    part_answer(ten_lease_book_step, fixture->book, now_ms, TENURE_OK, result);
}

static void answer_ok(struct fixture *fixture, uint64_t now_ms, uint64_t token) {
    answer(fixture, now_ms, &(ten_result){.outcome = TEN_OK, .token = token, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS});
}

static void answer_held(struct fixture *fixture, uint64_t now_ms, uint64_t remaining_ms) {
    answer(fixture, now_ms,
           &(ten_result){.outcome = TEN_HELD, .token = 5, .holder = "other", .remaining_ms = remaining_ms});
}

static void answer_nothing(struct fixture *fixture, uint64_t now_ms) {
    part_answer(ten_lease_book_step, fixture->book, now_ms, TENURE_E_TIMEOUT, NULL);
}

static void tell_change(struct fixture *fixture, uint64_t now_ms, enum tenure_event_kind kind, enum ten_reason reason,
                        uint64_t token) {
    ten_change change = {.kind = kind, .reason = reason, .target = "x", .instance = "other", .token = token};
    part_change(ten_lease_book_step, fixture->book, now_ms, &change);
}

/* Takes the events up to the first of that kind. */
static bool heard(struct fixture *fixture, enum tenure_event_kind kind) {
    tenure_event event;
    while (ten_event_queue_take(&fixture->events, &event))
        if (event.kind == kind)
            return true;
    return false;
}

/* A lease on x that is held since START_MS under token 1. */
static ten_book_lease *hold(struct fixture *fixture, bool renewed) {
    ten_book_lease *lease =
        ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS, new_user(fixture, renewed), NULL);
    assert_non_null(lease);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS, 1);
    assert_true(heard(fixture, TENURE_EVENT_ACQUIRED));
    return lease;
}

/* ---- rules */

BOOK_TEST(a_lease_is_acquired_at_once_and_renewed_in_time) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    assert_int_equal(lease->holding.deadline_ms, START_MS + TTL_MS - MARGIN_MS);
    must_be_silent(fixture, START_MS + RENEW_MS - 1);
    assert_int_equal(part_due(ten_lease_book_due, fixture->book, START_MS).next_ms, START_MS + RENEW_MS);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    answer_ok(fixture, START_MS + RENEW_MS + 10, 1);
    assert_int_equal(lease->holding.deadline_ms, START_MS + RENEW_MS + TTL_MS - MARGIN_MS); /* from its sending */
    assert_true(heard(fixture, TENURE_EVENT_RENEWED));
}

BOOK_TEST(a_manual_lease_is_renewed_only_when_its_user_asks) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, false);
    must_be_silent(fixture, START_MS + RENEW_MS);
    ten_book_wait wait = {.kind = TEN_BOOK_RENEW};
    ten_lease_book_renew(fixture->book, START_MS + RENEW_MS, lease, &wait);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    answer_ok(fixture, START_MS + RENEW_MS, 1);
    assert_true(wait.answered && wait.error == TENURE_OK);
    must_be_silent(fixture, START_MS + 2 * RENEW_MS);
    must_be_silent(fixture, START_MS + RENEW_MS + TTL_MS); /* it has expired, and is not released either */
    assert_int_equal(fixture->seen.lost, 1);
    assert_int_equal(fixture->seen.reason, TEN_REASON_EXPIRED);
}

BOOK_TEST(one_try_is_answered_with_the_holder) {
    struct fixture *fixture = *state;
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    ten_book_lease *lease =
        ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS, new_user(fixture, true), &wait);
    assert_false(part_due(ten_lease_book_due, fixture->book, START_MS).follows);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS, 700);
    assert_true(wait.answered);
    assert_int_equal(wait.error, TENURE_E_HELD);
    assert_string_equal(wait.result.holder, "other");
    assert_int_equal(wait.result.remaining_ms, 700);
    must_be_silent(fixture, START_MS + TTL_MS);
    ten_lease_book_leave(fixture->book, START_MS, lease, lease->users);
    assert_int_equal(count_leases(fixture->book), 0);
}

BOOK_TEST(a_patient_caller_asks_again_when_the_other_lease_ends_or_its_end_is_heard_of) {
    struct fixture *fixture = *state;
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS + 60000, new_user(fixture, true), &wait);
    assert_true(part_due(ten_lease_book_due, fixture->book, START_MS).follows);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS, 700);
    assert_false(wait.answered);
    must_be_silent(fixture, START_MS + 699);
    must_send(fixture, START_MS + 710, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS + 710, TTL_MS);
    tell_change(fixture, START_MS + 800, TENURE_EVENT_RELEASED, TEN_REASON_DONE, 5);
    must_send(fixture, START_MS + 800, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS + 800, 6);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_false(part_due(ten_lease_book_due, fixture->book, START_MS).follows);
}

BOOK_TEST(a_patient_caller_is_refused_when_its_time_is_over) {
    struct fixture *fixture = *state;
    ten_book_wait patient = {.kind = TEN_BOOK_ACQUIRE};
    ten_book_wait hasty = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS + 1000, new_user(fixture, true), &patient);
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS, new_user(fixture, true), &hasty);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS, TTL_MS);
    assert_true(hasty.answered && hasty.error == TENURE_E_HELD);
    assert_false(patient.answered);
    must_send(fixture, START_MS + 1000, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS + 1000, TTL_MS);
    assert_true(patient.answered && patient.error == TENURE_E_HELD);
    assert_int_equal(fixture->seen.failed, 2); /* each at its time */
}

BOOK_TEST(a_patient_caller_outlasts_errors_of_the_store) {
    struct fixture *fixture = *state;
    ten_book_wait patient = {.kind = TEN_BOOK_ACQUIRE};
    ten_book_wait hasty = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS + 1000, new_user(fixture, true), &patient);
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS, new_user(fixture, true), &hasty);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_nothing(fixture, START_MS + 100);
    assert_true(hasty.answered && hasty.error == TENURE_E_TIMEOUT);
    assert_false(patient.answered);
    must_send(fixture, START_MS + 200, TEN_OP_ACQUIRE);
    answer_nothing(fixture, START_MS + 999);
    assert_false(patient.answered);
    must_send(fixture, START_MS + 999, TEN_OP_ACQUIRE);
    answer_nothing(fixture, START_MS + 1000);
    assert_true(patient.answered && patient.error == TENURE_E_TIMEOUT);
    must_be_silent(fixture, START_MS + 2000);
    (void)ten_lease_book_acquire(fixture->book, START_MS + 2000, "x", UINT64_MAX, new_user(fixture, true), &patient);
    must_send(fixture, START_MS + 2000, TEN_OP_ACQUIRE);
    part_answer(ten_lease_book_step, fixture->book, START_MS + 2000, TENURE_E_SCHEMA, NULL); /* it will not go away */
    assert_true(patient.answered && patient.error == TENURE_E_SCHEMA);
}

BOOK_TEST(a_renewal_without_an_answer_makes_the_lease_uncertain_and_is_sent_again) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    answer_nothing(fixture, START_MS + RENEW_MS + 100);
    assert_true(lease->holding.uncertain);
    assert_int_equal(lease->holding.deadline_ms, START_MS + TTL_MS - MARGIN_MS);
    assert_true(heard(fixture, TENURE_EVENT_RENEW_FAILED));
    must_send(fixture, START_MS + RENEW_MS + 200, TEN_OP_RENEW);
    answer_ok(fixture, START_MS + RENEW_MS + 210, 1);
    assert_false(lease->holding.uncertain);
}

BOOK_TEST(a_lease_that_was_not_renewed_in_time_is_lost_and_released) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    answer_nothing(fixture, START_MS + TTL_MS - MARGIN_MS);
    assert_int_equal(fixture->seen.lost, 1);
    assert_int_equal(fixture->seen.reason, TEN_REASON_EXPIRED);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_RELEASE);
    answer_nothing(fixture, START_MS + TTL_MS);
    must_send(fixture, START_MS + TTL_MS + 1, TEN_OP_RELEASE); /* until it is answered */
    answer_ok(fixture, START_MS + TTL_MS + 1, 1);
    must_be_silent(fixture, START_MS + 2 * TTL_MS);
    assert_int_equal(lease->holding.state, TEN_HOLDING_NONE);
    assert_true(ten_lease_book_is_idle(fixture->book));
}

BOOK_TEST(a_spent_token_is_released_before_a_new_one_is_believed) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, false);
    (void)part_on(ten_lease_book_step, fixture->book, START_MS + TTL_MS, TEN_ON_TIMER);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    assert_ptr_equal(ten_lease_book_acquire(fixture->book, START_MS + TTL_MS, "x", 0, new_user(fixture, true), &wait),
                     lease);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS + TTL_MS, 1);
    assert_false(ten_holding_is_held(&lease->holding));
    assert_false(wait.answered);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + TTL_MS, 1);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS + TTL_MS, 2);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_int_equal(lease->holding.token, 2);
}

BOOK_TEST(a_store_that_grants_a_spent_token_again_and_again_is_an_error) {
    struct fixture *fixture = *state;
    (void)hold(fixture, false);
    (void)part_on(ten_lease_book_step, fixture->book, START_MS + TTL_MS, TEN_ON_TIMER);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS + TTL_MS, "x", 0, new_user(fixture, true), &wait);
    for (int i = 0; i < 2; i++) {
        must_send(fixture, START_MS + TTL_MS, TEN_OP_ACQUIRE);
        answer_ok(fixture, START_MS + TTL_MS, 1);
        must_send(fixture, START_MS + TTL_MS, TEN_OP_RELEASE);
        answer_ok(fixture, START_MS + TTL_MS, 1);
    }
    assert_true(wait.answered && wait.spent);
    assert_int_equal(wait.error, TENURE_E_STORE);
}

BOOK_TEST(a_release_ends_the_belief_at_once_also_beside_a_renewal) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    ten_book_wait wait = {.kind = TEN_BOOK_RELEASE};
    ten_lease_book_release(fixture->book, START_MS + RENEW_MS + 1, lease, lease->users, &wait);
    assert_false(ten_holding_may_work(&lease->holding, START_MS + RENEW_MS + 1));
    answer_ok(fixture, START_MS + RENEW_MS + 2, 1);
    assert_false(ten_holding_may_work(&lease->holding, START_MS + RENEW_MS + 2));
    must_send(fixture, START_MS + RENEW_MS + 2, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + RENEW_MS + 3, 1);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_int_equal(fixture->seen.lost, 0);
    assert_true(heard(fixture, TENURE_EVENT_RELEASED));
}

BOOK_TEST(what_is_granted_after_it_was_dropped_is_released) {
    struct fixture *fixture = *state;
    ten_book_lease *lease =
        ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS, new_user(fixture, true), NULL);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    ten_lease_book_release(fixture->book, START_MS, lease, lease->users, NULL);
    ten_lease_book_leave(fixture->book, START_MS, lease, lease->users);
    answer_ok(fixture, START_MS + 1, 1);
    must_send(fixture, START_MS + 1, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + 2, 1);
    assert_int_equal(count_leases(fixture->book), 0);
}

BOOK_TEST(what_is_freed_is_neither_renewed_nor_released) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    ten_lease_book_leave(fixture->book, START_MS, lease, lease->users);
    must_be_silent(fixture, START_MS + RENEW_MS);
    must_be_silent(fixture, START_MS + TTL_MS);
    assert_int_equal(count_leases(fixture->book), 0);
    assert_int_equal(fixture->seen.lost, 0);
    assert_true(ten_lease_book_is_idle(fixture->book));
    /* It is remembered until the store must have ended it. */
    assert_true(ten_lease_book_has(fixture->book, START_MS + 4 * TTL_MS - 1, "x"));
    assert_false(ten_lease_book_has(fixture->book, START_MS + 4 * TTL_MS, NULL));
}

BOOK_TEST(what_was_freed_is_renewed_if_it_is_acquired_again_before_its_deadline) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    ten_lease_book_leave(fixture->book, START_MS, lease, lease->users);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    uint64_t now_ms = START_MS + TTL_MS - MARGIN_MS - 1;
    assert_ptr_equal(ten_lease_book_acquire(fixture->book, now_ms, "x", 0, new_user(fixture, true), &wait), lease);
    must_send(fixture, now_ms, TEN_OP_RENEW);
    answer_ok(fixture, now_ms, 1);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_true(heard(fixture, TENURE_EVENT_ACQUIRED));
    assert_int_equal(fixture->users[1].claim, TEN_BOOK_HOLDING);
}

/* The store would grant the token again until its own clock says that the lease is over. */
BOOK_TEST(the_token_of_what_was_freed_is_not_believed_again_after_its_deadline) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    ten_lease_book_leave(fixture->book, START_MS, lease, lease->users);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    uint64_t now_ms = START_MS + TTL_MS - MARGIN_MS;
    lease = ten_lease_book_acquire(fixture->book, now_ms, "x", 0, new_user(fixture, true), &wait);
    must_send(fixture, now_ms, TEN_OP_ACQUIRE);
    answer_ok(fixture, now_ms, 1);
    assert_false(wait.answered);
    assert_false(ten_holding_is_held(&lease->holding));
    must_send(fixture, now_ms, TEN_OP_RELEASE);
    answer_ok(fixture, now_ms, 1);
    must_send(fixture, now_ms, TEN_OP_ACQUIRE);
    answer_ok(fixture, now_ms, 2);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_int_equal(lease->holding.token, 2);
    assert_int_equal(fixture->seen.lost, 0); /* nobody had it */
}

BOOK_TEST(a_user_whose_lease_has_ended_has_no_claim_on_the_next_one) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    (void)part_on(ten_lease_book_step, fixture->book, START_MS + TTL_MS, TEN_ON_TIMER);
    assert_int_equal(fixture->users[0].claim, TEN_BOOK_NO_CLAIM);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + TTL_MS, 1);
    /* Another user gets a new lease, which it renews by hand. */
    (void)ten_lease_book_acquire(fixture->book, START_MS + TTL_MS, "x", 0, new_user(fixture, false), NULL);
    must_send(fixture, START_MS + TTL_MS, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS + TTL_MS, 2);
    must_be_silent(fixture, START_MS + TTL_MS + RENEW_MS);
    ten_lease_book_leave(fixture->book, START_MS + TTL_MS + RENEW_MS, lease, &fixture->users[1]);
    must_be_silent(fixture, START_MS + 2 * TTL_MS);
    assert_int_equal(fixture->seen.lost, 1);
}

BOOK_TEST(a_user_that_stops_waiting_takes_nothing_from_the_others) {
    struct fixture *fixture = *state;
    ten_book_user *first = new_user(fixture, true);
    ten_book_user *second = new_user(fixture, true);
    ten_book_lease *lease = ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS + 9000, first, NULL);
    (void)ten_lease_book_acquire(fixture->book, START_MS, "x", START_MS + 500, second, NULL);
    must_send(fixture, START_MS, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS, TTL_MS);
    ten_lease_book_release(fixture->book, START_MS + 1, lease, first, NULL);
    assert_int_equal(first->claim, TEN_BOOK_NO_CLAIM);
    assert_int_equal(second->claim, TEN_BOOK_WAITING);
    ten_lease_book_leave(fixture->book, START_MS + 1, lease, first);
    /* What remains is tried for as long as it was wanted for, and no longer. */
    must_send(fixture, START_MS + 500, TEN_OP_ACQUIRE);
    answer_held(fixture, START_MS + 500, TTL_MS);
    assert_int_equal(second->claim, TEN_BOOK_NO_CLAIM);
    must_be_silent(fixture, START_MS + 9000);
}

BOOK_TEST(whoever_waits_while_another_releases_gets_the_next_lease) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS + RENEW_MS, "x", 0, new_user(fixture, true), &wait);
    ten_lease_book_release(fixture->book, START_MS + RENEW_MS, lease, &fixture->users[0], NULL);
    answer_ok(fixture, START_MS + RENEW_MS, 1); /* of the renewal */
    assert_false(wait.answered);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + RENEW_MS, 1);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_ACQUIRE);
    answer_ok(fixture, START_MS + RENEW_MS, 2);
    assert_true(wait.answered && wait.error == TENURE_OK);
    assert_int_equal(fixture->users[0].claim, TEN_BOOK_NO_CLAIM);
    assert_int_equal(fixture->users[1].claim, TEN_BOOK_HOLDING);
}

BOOK_TEST(the_program_learns_of_an_end_before_the_lease_is_released) {
    struct fixture *fixture = *state;
    (void)hold(fixture, true);
    must_be_silent(fixture, START_MS + TTL_MS);
    assert_true(heard(fixture, TENURE_EVENT_LOST));
    must_send(fixture, START_MS + TTL_MS, TEN_OP_RELEASE);
}

BOOK_TEST(a_renewal_whose_caller_gave_up_is_not_sent_later) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, false);
    ten_book_wait wait = {.kind = TEN_BOOK_RENEW};
    ten_lease_book_renew(fixture->book, START_MS + 100, lease, &wait);
    ten_lease_book_abandon(fixture->book, START_MS + 200, lease, &wait);
    assert_true(lease->holding.uncertain);
    must_be_silent(fixture, START_MS + 200);
    must_be_silent(fixture, START_MS + RENEW_MS);
}

BOOK_TEST(two_users_share_a_grant_and_it_is_renewed_as_long_as_one_wants_it) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    assert_ptr_equal(ten_lease_book_acquire(fixture->book, START_MS + 10, "x", 0, new_user(fixture, false), &wait),
                     lease);
    must_send(fixture, START_MS + 10, TEN_OP_RENEW);
    answer_ok(fixture, START_MS + 10, 1);
    assert_true(wait.answered && wait.error == TENURE_OK);
    ten_lease_book_leave(fixture->book, START_MS + 20, lease, &fixture->users[1]);
    must_send(fixture, START_MS + 10 + RENEW_MS, TEN_OP_RENEW);
    answer_ok(fixture, START_MS + 10 + RENEW_MS, 1);
    assert_ptr_equal(lease->users, &fixture->users[0]);
    assert_null(lease->users->next);
}

BOOK_TEST(the_feed_tells_an_attentive_user_of_a_forced_end) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    tell_change(fixture, START_MS + 10, TENURE_EVENT_LOST, TEN_REASON_FORCED, 1);
    assert_int_equal(fixture->seen.lost, 0); /* nobody wants to know */
    ten_lease_book_attend(fixture->book, lease, lease->users, true);
    assert_true(part_due(ten_lease_book_due, fixture->book, START_MS).follows);
    tell_change(fixture, START_MS + 20, TENURE_EVENT_LOST, TEN_REASON_FORCED, 0); /* of an older lease */
    assert_int_equal(fixture->seen.lost, 0);
    tell_change(fixture, START_MS + 30, TENURE_EVENT_LOST, TEN_REASON_FORCED, 1);
    assert_int_equal(fixture->seen.lost, 1);
    assert_int_equal(fixture->seen.reason, TEN_REASON_FORCED);
    assert_false(ten_holding_is_held(&lease->holding));
    must_be_silent(fixture, START_MS + TTL_MS);
}

/* ---- forced */

static void answer_barred(struct fixture *fixture, uint64_t now_ms) {
    answer(fixture, now_ms,
           &(ten_result){.outcome = TEN_LOST, .token = 1, .holder = "me", .barred = true, .remaining_ms = TTL_MS / 2});
}

static ten_book_lease *hold_until_forced(struct fixture *fixture) {
    ten_book_lease *lease = hold(fixture, true);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    answer_barred(fixture, START_MS + RENEW_MS);
    assert_int_equal(fixture->seen.reason, TEN_REASON_FORCED);
    must_be_silent(fixture, START_MS + RENEW_MS);
    return lease;
}

BOOK_TEST(a_forced_lease_is_released_when_its_user_has_stopped) {
    struct fixture *fixture = *state;
    uint64_t now_ms = START_MS + RENEW_MS + 10;
    ten_book_lease *lease = hold_until_forced(fixture);
    ten_book_wait wait = {.kind = TEN_BOOK_RELEASE};
    ten_lease_book_release(fixture->book, now_ms, lease, lease->users, &wait);
    must_send(fixture, now_ms, TEN_OP_RELEASE);
    answer_nothing(fixture, now_ms + 10);
    assert_true(wait.answered && wait.error == TENURE_E_TIMEOUT);
    must_send(fixture, now_ms + 20, TEN_OP_RELEASE); /* until it is answered */
    answer_ok(fixture, now_ms + 20, 1);
    must_be_silent(fixture, now_ms + TTL_MS);
    ten_lease_book_release(fixture->book, now_ms + 30, lease, lease->users, &wait);
    assert_true(wait.answered && wait.error == TENURE_OK); /* once */
}

BOOK_TEST(a_lease_that_is_forced_while_it_is_being_released_is_released) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold(fixture, true);
    ten_book_wait wait = {.kind = TEN_BOOK_RELEASE};
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RENEW);
    ten_lease_book_release(fixture->book, START_MS + RENEW_MS, lease, lease->users, &wait);
    answer_barred(fixture, START_MS + RENEW_MS);
    assert_false(wait.answered);
    must_send(fixture, START_MS + RENEW_MS, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS + RENEW_MS, 1);
    assert_true(wait.answered && wait.error == TENURE_OK);
}

BOOK_TEST(a_forced_lease_whose_user_leaves_is_not_released) {
    struct fixture *fixture = *state;
    ten_book_lease *lease = hold_until_forced(fixture);
    ten_lease_book_leave(fixture->book, START_MS + RENEW_MS, lease, lease->users);
    must_be_silent(fixture, START_MS + TTL_MS);
}

/* Somebody waits for the target while its former user says that it has stopped. */
BOOK_TEST(releasing_a_forced_lease_takes_nothing_from_whoever_waits) {
    struct fixture *fixture = *state;
    uint64_t now_ms = START_MS + RENEW_MS + 10;
    ten_book_lease *lease = hold_until_forced(fixture);
    ten_book_user *former = lease->users;
    ten_book_user *next = new_user(fixture, true);
    ten_book_wait wait = {.kind = TEN_BOOK_RELEASE};
    (void)ten_lease_book_acquire(fixture->book, now_ms, "x", now_ms + TTL_MS, next, NULL);
    must_send(fixture, now_ms, TEN_OP_ACQUIRE);
    ten_lease_book_release(fixture->book, now_ms, lease, former, &wait);
    answer_held(fixture, now_ms, TTL_MS);
    assert_false(wait.answered);
    must_send(fixture, now_ms, TEN_OP_RELEASE);
    answer_ok(fixture, now_ms, 1);
    assert_true(wait.answered);
    must_send(fixture, now_ms, TEN_OP_ACQUIRE);
    answer_ok(fixture, now_ms, 7);
    assert_int_equal(next->claim, TEN_BOOK_HOLDING);
    assert_int_equal(former->claim, TEN_BOOK_NO_CLAIM);
    must_be_silent(fixture, now_ms);
}

BOOK_TEST(what_is_due_goes_together_in_bounded_batches_the_oldest_first) {
    struct fixture *fixture = *state;
    ten_result results[4];
    char target[8];
    for (unsigned i = 0; i < 6; i++) {
        snprintf(target, sizeof target, "t%u", i);
        assert_non_null(ten_lease_book_acquire(fixture->book, START_MS + i, target, 0, new_user(fixture, true), NULL));
    }
    size_t count = 0;
    const ten_op *ops = request(fixture, START_MS + 10, &count);
    assert_int_equal(count, 4);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(target, sizeof target, "t%u", i);
        assert_string_equal(ops[i].target, target);
        results[i] = (ten_result){.outcome = TEN_OK, .token = 1, .ttl_ms = TTL_MS};
    }
    answer(fixture, START_MS + 10, results);
    assert_non_null(request(fixture, START_MS + 10, &count));
    assert_int_equal(count, 2);
    answer(fixture, START_MS + 10, results);
    assert_int_equal(count_leases(fixture->book), 6);
}

BOOK_TEST(stopping_releases_everything_and_acquires_nothing_more) {
    struct fixture *fixture = *state;
    (void)hold(fixture, true);
    ten_book_wait wait = {.kind = TEN_BOOK_ACQUIRE};
    (void)ten_lease_book_acquire(fixture->book, START_MS, "y", START_MS + 60000, new_user(fixture, true), &wait);
    ten_lease_book_stop(fixture->book, START_MS);
    assert_true(wait.answered && wait.error == TENURE_E_CANCELLED);
    assert_false(ten_lease_book_is_idle(fixture->book));
    must_send(fixture, START_MS, TEN_OP_RELEASE);
    answer_ok(fixture, START_MS, 1);
    must_be_silent(fixture, START_MS + TTL_MS);
    assert_true(ten_lease_book_is_idle(fixture->book));
}
