/*
 * The store contract: tokens of one target strictly increase, whatever happens to the target, and are never wrapped.
 */
#include "conformance/suite.h"

CASE(tokens_increase_over_release_whoever_acquires) {
    const struct place *place = *state;
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t token = must_acquire(place, "t", i % 3 ? "a" : "b", LONG_MS);
        assert_true(token > last);
        last = token;
        expect_outcome(release(place, "t", NULL, token), TEN_OK);
    }
}

CASE(tokens_increase_over_expiry_for_others_and_for_the_same_holder) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t first = must_acquire(place, "t", "a", ttl_ms);
    ten_result second = acquire_within(place, "t", "b", ttl_ms, HANG_MS);
    expect_outcome(second, TEN_OK);
    assert_true(second.token > first);
    sleep_ms(ttl_ms + 20);
    ten_result third = acquire_within(place, "t", "b", ttl_ms, HANG_MS);
    expect_outcome(third, TEN_OK);
    if (third.token == second.token) /* it was renewed by recognising itself: once more, after its end */
        third = acquire_within(place, "t", "a", ttl_ms, HANG_MS);
    assert_true(third.token > second.token);
}

CASE(tokens_increase_over_forcing) {
    const struct place *place = *state;
    uint64_t first = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    assert_true(must_acquire(place, "t", "a", LONG_MS) > first);
}

CASE(a_refused_acquire_uses_up_no_token) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (int i = 0; i < 5; i++)
        expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
    assert_int_equal(read_lease(place, "t").token, token);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

/* All handles of the suite are closed in between: for an embedded store that is its restart. */
CASE(leases_and_tokens_survive_a_restart) {
    struct place *place = *state;
    if (!place->store->capabilities.survives_restart)
        return; /* does not apply */
    uint64_t held = must_acquire(place, "held", "a", LONG_MS);
    uint64_t released = must_acquire(place, "released", "a", LONG_MS);
    expect_outcome(release(place, "released", "a", released), TEN_OK);
    put_target(place, "registered");
    uint64_t cursor = cursor_now(place->store, place->ns);

    ten_store_close(place->store);
    ten_store_close(place->other);
    place->store = open_store(suite_fixture.url);
    place->other = open_store(suite_fixture.url);

    ten_result result = acquire(place, "held", "b", LONG_MS);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "a");
    assert_int_equal(result.token, held);
    expect_outcome(renew(place, "held", "a", held, LONG_MS), TEN_OK);
    assert_int_equal(read_lease(place, "released").token, released);
    assert_true(must_acquire(place, "released", "b", LONG_MS) > released);
    assert_true(read_lease(place, "registered").registered);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
}

/* Fault 30. The counter itself cannot be raised through the contract; test_sqlite_file.c does it in the database. */
CASE(a_token_above_the_largest_is_refused_and_changes_nothing) {
    const struct place *place = *state;
    static const uint64_t too_large[] = {TENURE_TOKEN_MAX + 1, UINT64_C(1) << 63, UINT64_MAX};
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (size_t i = 0; i < TEN_COUNT(too_large); i++) {
        ten_op op = {.kind = i % 2 ? TEN_OP_RELEASE : TEN_OP_RENEW,
                     .namespace_name = place->ns,
                     .target = "t",
                     .holder = "a",
                     .token = too_large[i],
                     .ttl_ms = LONG_MS};
        ten_result result;
        assert_int_equal(ten_store_apply(place->store, &op, &result, 1, CALL_MS), TENURE_E_TOKEN);
        expect_outcome(result, TEN_ERROR);
        assert_int_equal(result.error, TENURE_E_TOKEN);
    }
    expect_outcome(renew(place, "t", "a", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}
