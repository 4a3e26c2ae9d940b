/*
 * Handing over in etcd, which takes two transactions: what others see and can do between them, and what is left when
 * the second one never comes. That it works is the conformance suite's.
 */
#include "conformance/etcd/etcd_place.h"

#include <stdio.h>

#define TTL_MS  UINT64_C(3000)
#define LATE_MS UINT64_C(2500) /* by how much etcd may be late */
#define BUSY_MS UINT64_C(2000) /* and a busy machine */

static ten_op announcing(const struct place *place, const char *instance) {
    return (ten_op){
        .kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = instance, .ttl_ms = LONG_MS, .weight = 1};
}

static ten_op handing(const struct place *place, uint64_t token, uint64_t ttl_ms) {
    return (ten_op){.kind = TEN_OP_HAND,
                    .namespace_name = place->ns,
                    .target = "t",
                    .holder = "a",
                    .token = token,
                    .successor = "b",
                    .ttl_ms = ttl_ms,
                    .reason = TEN_REASON_DRAIN};
}

/* `a` holds, and `b`, which is announced by the second handle, is to have it. */
static ten_op prepare(const struct place *place, uint64_t ttl_ms) {
    expect_outcome(apply_one(place->other, announcing(place, "b")), TEN_OK);
    return handing(place, must_acquire(place, "t", "a", LONG_MS), ttl_ms);
}

static void lose_reply(const struct place *place, ten_op op, const char *body) {
    ten_result result;
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = body;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_TIMEOUT);
    assert_int_equal(etcd_wire.lost, 1);
    expect_outcome(result, TEN_ERROR);
}

/* The first step is done, and its sender does not know. */
static ten_op prepare_half(const struct place *place, uint64_t ttl_ms) {
    ten_op op = prepare(place, ttl_ms);
    lose_reply(place, op, "requestDelete");
    assert_int_equal(etcd_key_fact(place, "t", "create_revision"), 0); /* else nothing is tested */
    return op;
}

/* ---- tokens and requests */

static void the_token_of_the_successor_is_the_revision_at_which_its_key_was_created(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare(place, LONG_MS);
    ten_result result = apply_one(place->store, op);
    expect_outcome(result, TEN_OK);
    assert_int_equal(etcd_key_fact(place, "t", "create_revision"), result.token);
    assert_int_equal(must_acquire(&elsewhere, "t", "b", LONG_MS), result.token);
    assert_int_equal(etcd_key_fact(place, "t", "create_revision"), result.token);
    expect_outcome(renew(&elsewhere, "t", "b", result.token, LONG_MS), TEN_OK);
}

static void handing_a_thousand_leases_over_to_ten_is_few_requests(void **state) {
    const struct place *place = *state;
    static char successors[10][8];
    struct many *many = many_acquire(place, 1000, "a", LONG_MS);
    for (size_t i = 0; i < TEN_COUNT(successors); i++) {
        snprintf(successors[i], sizeof successors[i], "b-%zu", i);
        expect_outcome(apply_one(place->other, announcing(place, successors[i])), TEN_OK);
    }
    for (size_t i = 0; i < many->count; i++) {
        many->ops[i].kind = TEN_OP_HAND;
        many->ops[i].successor = successors[i % TEN_COUNT(successors)];
    }
    uint64_t before = etcd_calls_served();
    assert_int_equal(ten_store_apply(place->store, many->ops, many->results, many->count, 4 * CALL_MS), TENURE_OK);
    uint64_t calls = etcd_calls_served() - before;
    for (size_t i = 0; i < many->count; i++) {
        expect_outcome(many->results[i], TEN_OK);
        expect_holder(many->results[i], many->ops[i].successor);
        assert_true(many->results[i].token > many->ops[i].token);
    }
    /* Four for each 48 leases, two for each successor, and the feed's. */
    if (calls < 80 || calls > 140)
        fail_msg("handing 1,000 leases over was %llu requests", (unsigned long long)calls);
}

static void those_that_are_renewed_beside_it_stay_where_they_are(void **state) {
    const struct place *place = *state;
    struct many *many = many_acquire(place, 100, "a", LONG_MS);
    assert_int_equal(many_renew(place, many), 0);
    expect_outcome(apply_one(place->other, announcing(place, "b")), TEN_OK);
    uint64_t written = etcd_key_fact(place, "t-99", "mod_revision");
    many->ops[0].kind = TEN_OP_HAND;
    many->ops[0].successor = "b";
    assert_int_equal(many_renew(place, many), 0);
    expect_holder(many->results[0], "b");
    assert_int_equal(etcd_key_fact(place, "t-99", "mod_revision"), written);
}

/* ---- between the two steps */

static ten_result between[3];

static void others_try(ten_etcd_call *call) {
    struct place elsewhere = elsewhere_of(etcd_wire.place);
    (void)call;
    between[0] = acquire(&elsewhere, "t", "c", LONG_MS);
    between[1] = acquire(&elsewhere, "t", "a", LONG_MS);
    between[2] = renew(&elsewhere, "t", NULL, between[0].token, LONG_MS);
}

static ten_result hand_with(const struct place *place, ten_op op, void (*after)(ten_etcd_call *call)) {
    etcd_wire.place = place;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestDelete";
    etcd_wire.after = after;
    ten_result result = apply_one(place->store, op);
    assert_int_equal(etcd_wire.hooked, 1);
    return result;
}

static void nobody_gets_in_between_the_two_steps(void **state) {
    const struct place *place = *state;
    ten_result result = hand_with(place, prepare(place, LONG_MS), others_try);
    expect_outcome(result, TEN_OK);
    expect_holder(result, "b");
    expect_outcome(between[0], TEN_HELD);
    assert_in_range(between[0].remaining_ms, 1, LONG_MS);
    expect_outcome(between[1], TEN_HELD);
    expect_outcome(between[2], TEN_LOST);
    assert_true(between[0].token < result.token);
}

static void the_successor_acquires(ten_etcd_call *call) {
    struct place elsewhere = elsewhere_of(etcd_wire.place);
    (void)call;
    between[0] = acquire(&elsewhere, "t", "b", LONG_MS);
}

static void the_successor_may_acquire_between_the_two_steps(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare(place, LONG_MS);
    ten_result result = hand_with(place, op, the_successor_acquires);
    expect_outcome(result, TEN_OK);
    expect_holder(result, "b");
    expect_outcome(between[0], TEN_OK);
    assert_int_equal(between[0].token, result.token);
    assert_true(result.token > op.token);
    expect_outcome(renew(&elsewhere, "t", "b", result.token, LONG_MS), TEN_OK);
}

static void it_is_forced(ten_etcd_call *call) {
    struct place elsewhere = elsewhere_of(etcd_wire.place);
    (void)call;
    expect_outcome(force(&elsewhere, "t", TEN_OP_FORCE_NOW, "me"), TEN_OK);
    between[0] = acquire(&elsewhere, "t", "c", LONG_MS);
}

static void what_is_forced_between_the_two_steps_is_not_taken_back(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_result result = hand_with(place, prepare(place, LONG_MS), it_is_forced);
    expect_outcome(result, TEN_LOST);
    expect_outcome(between[0], TEN_OK);
    expect_outcome(renew(&elsewhere, "t", "c", between[0].token, LONG_MS), TEN_OK);
}

static void the_successor_leaves(const struct place *place) {
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = place->ns, .holder = "b"};
    expect_outcome(apply_one(place->other, leave), TEN_OK);
}

static void nothing_is_handed_over_to_one_that_leaves_in_between(void **state) {
    const struct place *place = *state;
    ten_op op = prepare(place, LONG_MS);
    etcd_wire.place = place;
    etcd_wire.hook_path = "/v3/lease/grant"; /* after the reading, before the writing */
    etcd_wire.before = the_successor_leaves;
    expect_outcome(apply_one(place->store, op), TEN_UNKNOWN);
    assert_int_equal(etcd_wire.hooked, 1);
    expect_outcome(renew(place, "t", "a", op.token, LONG_MS), TEN_OK);
}

static void operations_of_a_batch_on_the_successor_take_effect_in_their_order(void **state) {
    const struct place *place = *state;
    ten_op op = prepare(place, LONG_MS);
    ten_op leave = {.kind = TEN_OP_LEAVE, .namespace_name = place->ns, .holder = "b"};
    ten_op ops[] = {leave, op, announcing(place, "b"), op, leave};
    ten_result results[TEN_COUNT(ops)];
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    expect_outcome(results[0], TEN_OK);
    expect_outcome(results[1], TEN_UNKNOWN);
    expect_outcome(results[2], TEN_OK);
    expect_outcome(results[3], TEN_OK);
    expect_outcome(results[4], TEN_OK);
    expect_holder(read_lease(place, "t"), "b");
}

/* ---- lost replies */

static void a_hand_whose_first_reply_was_lost_goes_on_when_it_is_sent_again(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare_half(place, LONG_MS);
    expect_holder(acquire(&elsewhere, "t", "c", LONG_MS), "b");
    expect_holder(acquire(place, "t", "a", LONG_MS), "b");
    expect_outcome(renew(place, "t", "a", op.token, LONG_MS), TEN_LOST);
    ten_result result = apply_one(place->store, op);
    expect_outcome(result, TEN_OK);
    expect_holder(result, "b");
    assert_int_equal(must_acquire(&elsewhere, "t", "b", LONG_MS), result.token);
    assert_int_equal(etcd_key_fact(place, "t", "create_revision"), result.token);
    expect_outcome(apply_one(place->store, op), TEN_LOST); /* once more: it has been handed over */
}

static void the_successor_of_a_hand_that_was_not_finished_acquires_at_once(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare_half(place, LONG_MS);
    uint64_t token = must_acquire(&elsewhere, "t", "b", LONG_MS);
    assert_true(token > op.token);
    assert_int_equal(etcd_key_fact(place, "t", "create_revision"), token);
    expect_outcome(apply_one(place->store, op), TEN_LOST);
    expect_outcome(renew(&elsewhere, "t", "b", token, LONG_MS), TEN_OK);
}

static void the_next_reply_is_lost(ten_etcd_call *call) {
    (void)call;
    etcd_wire.lose_path = "/v3/kv/txn";
    etcd_wire.lose_body = "requestPut";
}

/* If the second step of a hand never comes, the next holder writes the entry of the release. */
static void expect_told(const struct place *place, uint64_t cursor, const ten_op *op, const char *next,
                        uint64_t token) {
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, next ? 2 : 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RELEASED);
    assert_string_equal(seen.at[0].change.instance, "a");
    assert_int_equal(seen.at[0].change.token, op->token);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_DRAIN);
    if (!next)
        return;
    assert_int_equal(seen.at[1].change.kind, TENURE_EVENT_ACQUIRED);
    assert_string_equal(seen.at[1].change.instance, next);
    assert_int_equal(seen.at[1].change.token, token);
}

static void the_feed_tells_of_a_hand_that_was_not_finished(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare(place, LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    lose_reply(place, op, "requestDelete");
    uint64_t token = must_acquire(&elsewhere, "t", "b", LONG_MS);
    expect_told(place, cursor, &op, "b", token);
}

/* As a fleet does that had no answer. */
static void a_release_takes_a_hand_back_that_was_not_finished(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare(place, LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    lose_reply(place, op, "requestDelete");
    expect_outcome(release(place, "t", "c", op.token), TEN_LOST);
    expect_outcome(release(place, "t", "a", op.token + 1), TEN_LOST);
    ten_op back = {.kind = TEN_OP_RELEASE,
                   .namespace_name = place->ns,
                   .target = "t",
                   .holder = "a",
                   .token = op.token,
                   .reason = TEN_REASON_DRAIN};
    expect_outcome(apply_one(place->store, back), TEN_OK);
    expect_told(place, cursor, &op, NULL, 0);
    expect_outcome(apply_one(place->store, op), TEN_LOST); /* the hand, sent again */
    assert_true(must_acquire(&elsewhere, "t", "c", LONG_MS) > op.token + 1);
}

static void a_hand_whose_second_reply_was_lost_has_happened(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    ten_op op = prepare(place, LONG_MS);
    ten_result result;
    etcd_wire.hook_path = "/v3/kv/txn";
    etcd_wire.hook_body = "requestDelete";
    etcd_wire.after = the_next_reply_is_lost;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_TIMEOUT);
    assert_int_equal(etcd_wire.lost, 1);
    uint64_t created = etcd_key_fact(place, "t", "create_revision");
    assert_true(created > op.token); /* else nothing is tested */
    expect_outcome(apply_one(place->store, op), TEN_LOST);
    assert_int_equal(must_acquire(&elsewhere, "t", "b", LONG_MS), created);
}

/* ---- nobody comes */

static void expect_free_in_time(const struct place *place, uint64_t since_ms) {
    struct place elsewhere = elsewhere_of(place);
    expect_outcome(acquire_within(&elsewhere, "t", "c", LONG_MS, TTL_MS + LATE_MS + BUSY_MS), TEN_OK);
    if (now_ms() - since_ms < TTL_MS)
        fail_msg("it was taken after %llu ms", (unsigned long long)(now_ms() - since_ms));
}

static void a_hand_that_was_not_finished_ends_after_its_ttl(void **state) {
    const struct place *place = *state;
    uint64_t since_ms = now_ms();
    (void)prepare_half(place, TTL_MS);
    expect_free_in_time(place, since_ms);
}

static void what_the_successor_does_not_confirm_ends_although_it_keeps_its_heartbeat(void **state) {
    const struct place *place = *state;
    ten_op op = prepare(place, TTL_MS);
    uint64_t since_ms = now_ms();
    expect_outcome(apply_one(place->store, op), TEN_OK);
    expect_outcome(apply_one(place->other, announcing(place, "b")), TEN_OK);
    expect_free_in_time(place, since_ms);
}

static void a_reservation_can_be_forced(void **state) {
    const struct place *place = *state;
    struct place elsewhere = elsewhere_of(place);
    (void)prepare_half(place, LONG_MS);
    expect_holder(read_lease(place, "t"), "b");
    expect_outcome(force(&elsewhere, "t", TEN_OP_FORCE, "me"), TEN_OK); /* bars it */
    expect_outcome(acquire(&elsewhere, "t", "b", LONG_MS), TEN_HELD);
    expect_outcome(force(&elsewhere, "t", TEN_OP_FORCE_NOW, "me"), TEN_OK);
    must_acquire(&elsewhere, "t", "c", LONG_MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ETCD_CASE(the_token_of_the_successor_is_the_revision_at_which_its_key_was_created),
        ETCD_CASE(handing_a_thousand_leases_over_to_ten_is_few_requests),
        ETCD_CASE(those_that_are_renewed_beside_it_stay_where_they_are),
        ETCD_CASE(nobody_gets_in_between_the_two_steps),
        ETCD_CASE(the_successor_may_acquire_between_the_two_steps),
        ETCD_CASE(what_is_forced_between_the_two_steps_is_not_taken_back),
        ETCD_CASE(nothing_is_handed_over_to_one_that_leaves_in_between),
        ETCD_CASE(operations_of_a_batch_on_the_successor_take_effect_in_their_order),
        ETCD_CASE(a_hand_whose_first_reply_was_lost_goes_on_when_it_is_sent_again),
        ETCD_CASE(the_successor_of_a_hand_that_was_not_finished_acquires_at_once),
        ETCD_CASE(the_feed_tells_of_a_hand_that_was_not_finished),
        ETCD_CASE(a_release_takes_a_hand_back_that_was_not_finished),
        ETCD_CASE(a_hand_whose_second_reply_was_lost_has_happened),
        ETCD_CASE(a_hand_that_was_not_finished_ends_after_its_ttl),
        ETCD_CASE(what_the_successor_does_not_confirm_ends_although_it_keeps_its_heartbeat),
        ETCD_CASE(a_reservation_can_be_forced),
    };
    return cmocka_run_group_tests(tests, etcd_group_setup, etcd_group_teardown);
}
