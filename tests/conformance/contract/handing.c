/*
 * The store contract: a holder hands its lease over to a successor, and nobody can get in between.
 */
#include "conformance/suite.h"

static ten_op hand_op(const struct place *place, const char *holder, uint64_t token, const char *successor) {
    return (ten_op){.kind = TEN_OP_HAND,
                    .namespace_name = place->ns,
                    .target = "t",
                    .holder = holder,
                    .token = token,
                    .successor = successor,
                    .ttl_ms = LONG_MS,
                    .reason = TEN_REASON_REBALANCE};
}

static ten_result hand(const struct place *place, const char *holder, uint64_t token, const char *successor) {
    return apply_one(place->store, hand_op(place, holder, token, successor));
}

static bool cannot(const struct place *place) {
    return !place->store->capabilities.hands;
}

CASE(the_successor_has_the_next_token_at_once_and_nobody_else_gets_in) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    ten_result result = hand(place, "a", token, "b");
    expect_outcome(result, TEN_OK);
    expect_holder(result, "b");
    assert_true(result.token > token);
    assert_in_range(result.remaining_ms, 1, LONG_MS);
    expect_outcome(acquire(place, "t", "c", LONG_MS), TEN_HELD);
    expect_outcome(acquire(place, "t", "a", LONG_MS), TEN_HELD);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    /* It confirms by an acquire, which finds that it has it. */
    ten_result confirmed = acquire(place, "t", "b", LONG_MS);
    expect_outcome(confirmed, TEN_OK);
    assert_int_equal(confirmed.token, result.token);
    expect_outcome(renew(place, "t", "b", result.token, LONG_MS), TEN_OK);
    /* The feed says who gave it, who has it, and why. */
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RELEASED);
    assert_string_equal(seen.at[0].change.instance, "a");
    assert_int_equal(seen.at[0].change.token, token);
    assert_int_equal(seen.at[0].change.reason, TEN_REASON_REBALANCE);
    assert_int_equal(seen.at[1].change.kind, TENURE_EVENT_ACQUIRED);
    assert_string_equal(seen.at[1].change.instance, "b");
    assert_int_equal(seen.at[1].change.token, result.token);
    assert_int_equal(seen.at[1].change.reason, TEN_REASON_REBALANCE);
}

CASE(only_the_holder_hands_over_under_its_token) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(hand(place, "a", token + 1, "b"), TEN_LOST);
    expect_outcome(hand(place, "c", token, "b"), TEN_LOST);
    /* Without a token it could be about a lease that it had before. */
    ten_op blind = hand_op(place, "a", 0, "b");
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &blind, &result, 1, CALL_MS), TENURE_E_INVALID);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(hand(place, "a", token, "b"), TEN_LOST); /* a late one */
    assert_null(read_lease(place, "t").holder);
}

CASE(nothing_is_handed_over_to_one_that_is_not_there_draining_or_gone) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(hand(place, "a", token, "nobody"), TEN_UNKNOWN);
    expect_outcome(apply_at(place, (ten_op){.kind = TEN_OP_ANNOUNCE, .holder = "draining", .ttl_ms = LONG_MS}), TEN_OK);
    expect_outcome(hand(place, "a", token, "draining"), TEN_UNKNOWN);
    expect_outcome(announce(place, "asked", LONG_MS), TEN_OK);
    expect_outcome(ask_of(place, NULL, "asked", TEN_ASK_DRAIN), TEN_OK);
    expect_outcome(hand(place, "a", token, "asked"), TEN_UNKNOWN);
    expect_outcome(announce(place, "gone", LONG_MS), TEN_OK);
    expect_outcome(leave(place, "gone", LONG_MS), TEN_OK);
    expect_outcome(hand(place, "a", token, "gone"), TEN_UNKNOWN);
    /* Nothing has changed. */
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

CASE(a_lease_that_was_forced_is_not_handed_over) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, NULL), TEN_OK);
    expect_outcome(hand(place, "a", token, "b"), TEN_UNKNOWN);
    expect_holder(read_lease(place, "t"), "a");
}

/* So that what is handed over to an instance that has just died is free when its death is noticed. */
CASE(what_is_handed_over_ends_with_the_heartbeat_of_the_successor) {
    const struct place *place = *state;
    if (cannot(place))
        return;
    expect_outcome(announce(place, "b", LONG_MS / 2), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = hand(place, "a", token, "b");
    expect_outcome(result, TEN_OK);
    assert_in_range(result.remaining_ms, 1, LONG_MS / 2);
    assert_in_range(read_lease(place, "t").remaining_ms, 1, LONG_MS / 2);
}

CASE(a_batch_is_handed_over_as_a_whole) {
    enum { COUNT = 300 };
    const struct place *place = *state;
    if (cannot(place))
        return;
    static ten_op ops[COUNT];
    static ten_result results[COUNT];
    static char targets[COUNT][16];
    static uint64_t tokens[COUNT];
    expect_outcome(announce(place, "b", LONG_MS), TEN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(targets[i], sizeof targets[i], "t-%zu", i);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = place->ns,
                          .target = targets[i],
                          .holder = "a",
                          .ttl_ms = LONG_MS};
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < COUNT; i++) {
        tokens[i] = results[i].token;
        ops[i].kind = TEN_OP_HAND;
        ops[i].token = tokens[i];
        ops[i].successor = i % 3 ? "b" : "nobody";
        ops[i].reason = TEN_REASON_DRAIN;
    }
    assert_int_equal(ten_store_apply(place->store, ops, results, COUNT, CALL_MS), TENURE_OK);
    for (size_t i = 0; i < COUNT; i++) {
        expect_outcome(results[i], i % 3 ? TEN_OK : TEN_UNKNOWN);
        assert_true(i % 3 == 0 || results[i].token > tokens[i]);
        expect_holder(read_lease(place, targets[i]), i % 3 ? "b" : "a");
    }
}
