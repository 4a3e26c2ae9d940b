/*
 * The store contract: leases that somebody takes from their holder, and what the feed says about it.
 */
#include "conformance/suite.h"

CASE(a_forced_lease_is_barred_from_renewal_and_from_acquiring_by_its_holder) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = force(place, "t", TEN_OP_FORCE, "operator");
    expect_outcome(result, TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", NULL, token, 0), TEN_LOST);
    result = acquire(place, "t", "a", LONG_MS);
    expect_outcome(result, TEN_HELD);
    assert_in_range(result.remaining_ms, 1, LONG_MS + 1000);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    result = read_lease(place, "t");
    expect_holder(result, "a");
    assert_true(result.barred);
}

CASE(others_enter_a_forced_lease_when_it_ends_and_not_before) {
    const struct place *place = *state;
    uint64_t ttl_ms = 2 * short_ttl(place->store);
    uint64_t start_ms = now_ms();
    uint64_t token = must_acquire(place, "t", "a", ttl_ms);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    ten_result result = acquire_within(place, "t", "b", LONG_MS, 10000);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > token);
    assert_true(now_ms() - start_ms + 1 >= ttl_ms);
    assert_false(read_lease(place, "t").barred);
    expect_outcome(renew(place, "t", "b", result.token, LONG_MS), TEN_OK);
}

CASE(forcing_again_does_not_lengthen_the_lease) {
    const struct place *place = *state;
    must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    sleep_ms(30);
    uint64_t left_ms = read_lease(place, "t").remaining_ms;
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    assert_true(read_lease(place, "t").remaining_ms <= left_ms);
}

CASE(forcing_with_now_lets_others_in_at_once) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    ten_result result = acquire(place, "t", "b", LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > token);
}

CASE(a_barred_lease_can_still_be_forced_now) {
    const struct place *place = *state;
    must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_OK);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

CASE(the_holder_of_a_barred_lease_can_give_it_back_early) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_OK);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

CASE(forcing_what_nobody_holds_is_lost) {
    const struct place *place = *state;
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_LOST);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "operator"), TEN_LOST);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "operator"), TEN_LOST);
}

static ten_result force_from(const struct place *place, const char *holder, unsigned flag) {
    return apply_at(
        place, (ten_op){.kind = TEN_OP_RELEASE, .flags = flag, .target = "t", .holder = holder, .actor = "operator"});
}

CASE(forcing_with_a_holder_takes_it_from_that_holder_only) {
    const struct place *place = *state;
    static const unsigned flags[] = {TEN_OP_FORCE, TEN_OP_FORCE_NOW};
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (size_t i = 0; i < TEN_COUNT(flags); i++) {
        ten_result result = force_from(place, "b", flags[i]);
        expect_outcome(result, TEN_LOST);
        expect_holder(result, "a");
        assert_int_equal(result.token, token);
    }
    assert_false(read_lease(place, "t").barred);
    assert_int_equal(cursor_now(place->store, place->ns), cursor);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    expect_outcome(force_from(place, "a", TEN_OP_FORCE), TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_outcome(force_from(place, "b", TEN_OP_FORCE_NOW), TEN_LOST);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    expect_outcome(force_from(place, "a", TEN_OP_FORCE_NOW), TEN_OK);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
    expect_outcome(force_from(place, "a", TEN_OP_FORCE_NOW), TEN_LOST); /* it came too late, and b keeps it */
    expect_holder(read_lease(place, "t"), "b");
}

/* A store that wants UTF-8 would refuse the whole batch for it. */
CASE(an_actor_that_is_not_utf8_is_refused_before_the_store_is_asked) {
    const struct place *place = *state;
    (void)must_acquire(place, "t", "a", LONG_MS);
    ten_op op = {.kind = TEN_OP_RELEASE, .flags = TEN_OP_FORCE_NOW, .namespace_name = place->ns, .target = "t"};
    char longest[TENURE_HOLDER_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const wrong[] = {"chief (as \xe2\x82)", "\xff", longest};
    for (size_t i = 0; i < TEN_COUNT(wrong); i++) {
        ten_result result;
        op.actor = wrong[i];
        assert_int_equal(ten_store_check_ops(place->store, &op, 1), TENURE_E_INVALID);
        assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_INVALID);
    }
    expect_holder(read_lease(place, "t"), "a");
}

CASE(the_feed_says_who_forced_a_lease_and_why_it_was_released) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE, "the operator"), TEN_OK);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, "another"), TEN_OK);
    ten_op leave = {.kind = TEN_OP_RELEASE,
                    .namespace_name = place->ns,
                    .target = "t",
                    .holder = "b",
                    .token = must_acquire(place, "t", "b", LONG_MS),
                    .reason = TEN_REASON_REBALANCE};
    expect_outcome(apply_one(place->store, leave), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.at[1].change.kind, TENURE_EVENT_LOST);
    assert_int_equal(seen.at[1].change.reason, TEN_REASON_FORCED);
    assert_string_equal(seen.at[1].change.instance, "a");
    assert_string_equal(seen.at[1].change.actor, "the operator");
    assert_int_equal(seen.at[1].change.token, token);
    assert_int_equal(seen.at[2].change.reason, TEN_REASON_FORCED);
    assert_string_equal(seen.at[2].change.actor, "another");
    assert_int_equal(seen.at[4].change.kind, TENURE_EVENT_RELEASED);
    assert_int_equal(seen.at[4].change.reason, TEN_REASON_REBALANCE);
    assert_string_equal(seen.at[4].change.actor, "");
}
