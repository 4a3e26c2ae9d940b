/*
 * The store contract: what acquire, renew, release and read do to one lease, and when it ends.
 */
#include "conformance/suite.h"

CASE(a_free_target_is_granted_with_the_ttl_that_was_asked_for) {
    const struct place *place = *state;
    ten_result result = acquire(place, "t", "a", LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.token, 1, TENURE_TOKEN_MAX);
    assert_in_range(result.ttl_ms, LONG_MS, LONG_MS + 1000);
    assert_in_range(result.remaining_ms, LONG_MS - LONG_MS / 4, result.ttl_ms);
    assert_false(result.recovering);
}

CASE(a_held_target_is_refused_with_its_holder_token_and_the_time_left) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = acquire(place, "t", "b", LONG_MS);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
    assert_in_range(result.remaining_ms, 1, LONG_MS + 1000);
    expect_holder(read_lease(place, "t"), "a");
}

CASE(the_holder_is_granted_its_own_lease_again_with_the_same_token_and_a_fresh_ttl) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    sleep_ms(60);
    uint64_t before_ms = read_lease(place, "t").remaining_ms;
    assert_true(before_ms <= LONG_MS - 50);
    ten_result result = acquire(place, "t", "a", LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
    assert_true(result.remaining_ms > before_ms);
}

/* Fault 7. The reply is lost when the caller never looks at it; it comes back on another connection. */
CASE(an_acquire_repeated_after_a_lost_reply_recognises_itself) {
    const struct place *place = *state;
    (void)acquire(place, "t", "a", LONG_MS);
    ten_op again = {
        .kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result = apply_one(place->other, again);
    expect_outcome(result, TEN_OK);
    expect_outcome(renew(place, "t", "a", result.token, LONG_MS), TEN_OK);
    assert_int_equal(read_lease(place, "t").token, result.token);
}

CASE(an_acquire_by_the_holder_may_change_the_ttl) {
    const struct place *place = *state;
    must_acquire(place, "t", "a", LONG_MS);
    ten_result result = acquire(place, "t", "a", 2 * LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.ttl_ms, 2 * LONG_MS, 2 * LONG_MS + 1000);
    assert_true(read_lease(place, "t").remaining_ms > LONG_MS);
}

CASE(a_fresh_acquire_is_refused_to_the_holder_itself_but_not_when_free) {
    const struct place *place = *state;
    ten_op fresh = {.kind = TEN_OP_ACQUIRE,
                    .flags = TEN_OP_FRESH,
                    .namespace_name = place->ns,
                    .target = "t",
                    .holder = "a",
                    .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, fresh), TEN_OK);
    uint64_t token = read_lease(place, "t").token;
    ten_result result = apply_one(place->store, fresh);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
}

CASE(a_required_target_must_be_registered_or_leased_before) {
    const struct place *place = *state;
    ten_op required = {.kind = TEN_OP_ACQUIRE,
                       .flags = TEN_OP_REQUIRE_TARGET,
                       .namespace_name = place->ns,
                       .target = "never-seen",
                       .holder = "a",
                       .ttl_ms = LONG_MS};
    expect_outcome(apply_one(place->store, required), TEN_UNKNOWN);
    required.kind = TEN_OP_READ;
    expect_outcome(apply_one(place->store, required), TEN_UNKNOWN);

    put_target(place, "registered");
    required.target = "registered";
    expect_outcome(apply_one(place->store, required), TEN_OK);
    required.kind = TEN_OP_ACQUIRE;
    expect_outcome(apply_one(place->store, required), TEN_OK);

    uint64_t token = must_acquire(place, "leased", "a", LONG_MS);
    expect_outcome(release(place, "leased", "a", token), TEN_OK);
    required.target = "leased";
    expect_outcome(apply_one(place->store, required), TEN_OK);
}

CASE(a_lease_can_be_renewed_by_its_token_alone_or_by_token_and_holder) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = renew(place, "t", NULL, token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
    result = renew(place, "t", "a", token, LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
    assert_in_range(result.remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
}

CASE(a_renewal_by_the_token_alone_never_shortens_a_lease) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = renew(place, "t", NULL, token, short_ttl(place->store));
    expect_outcome(result, TEN_OK);
    assert_in_range(result.ttl_ms, LONG_MS, LONG_MS + 1000);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
    assert_in_range(read_lease(place, "t").ttl_ms, LONG_MS, LONG_MS + 1000);
    expect_outcome(renew(place, "t", NULL, token, 2 * LONG_MS), TEN_OK); /* longer it may be */
    assert_in_range(read_lease(place, "t").remaining_ms, 2 * LONG_MS - LONG_MS / 4, 2 * LONG_MS + 1000);
}

CASE(a_renewal_by_somebody_else_or_with_another_token_is_lost_and_changes_nothing) {
    const struct place *place = *state;
    uint64_t former = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", former), TEN_OK);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result results[] = {
        renew(place, "t", "b", token, 2 * LONG_MS),      renew(place, "t", "a", former, 2 * LONG_MS),
        renew(place, "t", NULL, token + 1, 2 * LONG_MS), renew(place, "t", "a", TENURE_TOKEN_MAX, 2 * LONG_MS),
        renew(place, "t", NULL, 0, 2 * LONG_MS),
    };
    for (size_t i = 0; i < TEN_COUNT(results); i++) {
        expect_outcome(results[i], TEN_LOST);
        assert_int_equal(results[i].token, token);
    }
    ten_result result = renew(place, "t", "b", token, 2 * LONG_MS);
    expect_holder(result, "a");
    result = read_lease(place, "t");
    expect_holder(result, "a");
    assert_true(result.remaining_ms <= LONG_MS + 1000);
}

CASE(without_a_token_the_holder_alone_decides) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(renew(place, "t", "b", 0, LONG_MS), TEN_LOST);
    ten_result renewed = renew(place, "t", "a", 0, 2 * LONG_MS);
    expect_outcome(renewed, TEN_OK);
    assert_int_equal(renewed.token, token);
    assert_true(renewed.remaining_ms > LONG_MS);
    expect_outcome(release(place, "t", "b", 0), TEN_LOST);
    expect_outcome(release(place, "t", "a", 0), TEN_OK);
    expect_outcome(renew(place, "t", "a", 0, LONG_MS), TEN_LOST);
}

CASE(a_renewal_of_what_was_never_leased_is_lost) {
    const struct place *place = *state;
    expect_outcome(renew(place, "t", "a", 1, 0), TEN_LOST);
    expect_outcome(renew(place, "t", NULL, 1, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "a", TENURE_TOKEN_MAX, LONG_MS), TEN_LOST);
    assert_int_equal(read_lease(place, "t").token, 0);
}

/* Fault 6. */
CASE(a_renewal_repeated_after_a_lost_reply_is_harmless) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (int i = 0; i < 3; i++) {
        ten_result result = renew(place, "t", "a", token, LONG_MS);
        expect_outcome(result, TEN_OK);
        assert_int_equal(result.token, token);
        assert_true(result.remaining_ms <= result.ttl_ms);
    }
    expect_holder(read_lease(place, "t"), "a");
}

CASE(a_renewal_with_another_ttl_answers_the_granted_one_and_zero_keeps_it) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_result result = renew(place, "t", "a", token, 2 * LONG_MS);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.ttl_ms, 2 * LONG_MS, 2 * LONG_MS + 1000);
    result = renew(place, "t", NULL, token, 0);
    expect_outcome(result, TEN_OK);
    assert_in_range(result.ttl_ms, 2 * LONG_MS, 2 * LONG_MS + 1000);
    assert_in_range(result.remaining_ms, LONG_MS + 1000, 2 * LONG_MS + 1000);
}

CASE(a_renewal_with_a_shorter_ttl_lets_others_in_earlier) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(renew(place, "t", "a", token, short_ttl(place->store)), TEN_OK);
    expect_outcome(acquire_within(place, "t", "b", LONG_MS, HANG_MS), TEN_OK);
}

/* ---- kept for others' sake */

/* Nobody is let in before the end of what was kept at start_ms, and soon after somebody is. */
static void expect_others_after(const struct place *place, uint64_t start_ms, uint64_t ttl_ms) {
    ten_result result = acquire_within(place, "t", "b", LONG_MS, ttl_ms + HANG_MS);
    uint64_t took_ms = now_ms() - start_ms;
    expect_outcome(result, TEN_OK);
    if (took_ms + ROUNDING_MS < ttl_ms || took_ms > ttl_ms + 3000 + late_ms())
        fail_msg("kept for %llu ms, and let in after %llu", (unsigned long long)ttl_ms, (unsigned long long)took_ms);
}

CASE(a_lease_that_is_kept_for_longer_holds_others_off_for_exactly_that) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", 3 * ttl_ms); /* a busy machine must be able to keep it in time */
    uint64_t start_ms = now_ms();
    ten_result result = keep_off(place, "t", "a", token, 4 * ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
    assert_in_range(result.ttl_ms, 4 * ttl_ms, 4 * ttl_ms + 1000);
    assert_in_range(read_lease(place, "t").remaining_ms, ten_sub_saturating(3 * ttl_ms + 1, late_ms()),
                    4 * ttl_ms + 1000);
    expect_others_after(place, start_ms, 4 * ttl_ms);
}

CASE(a_lease_that_is_kept_for_less_than_its_ttl_holds_others_off_for_exactly_that) {
    const struct place *place = *state;
    uint64_t ttl_ms = 2 * short_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t start_ms = now_ms();
    ten_result result = keep_off(place, "t", "a", token, ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, token);
    assert_in_range(result.ttl_ms, ttl_ms, ttl_ms + 1000);
    expect_others_after(place, start_ms, ttl_ms);
}

CASE(the_last_of_kept_and_plain_renewals_counts) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (int i = 0; i < 3; i++) {
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK); /* the same twice may take a shorter way */
        assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
        expect_outcome(keep_off(place, "t", "a", token, 3 * LONG_MS), TEN_OK);
        expect_outcome(keep_off(place, "t", "a", token, 3 * LONG_MS), TEN_OK);
        assert_in_range(read_lease(place, "t").remaining_ms, 3 * LONG_MS - LONG_MS / 4, 3 * LONG_MS + 1000);
    }
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(keep_off(place, "t", "a", token, LONG_MS), TEN_LOST);
    expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_OK);
}

CASE(a_lease_is_not_renewed_after_its_end_even_if_nobody_took_it) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", ttl_ms);
    sleep_ms(ttl_ms + ttl_ms / 4);
    for (uint64_t end_ms = now_ms() + HANG_MS; read_lease(place, "t").holder && now_ms() < end_ms;)
        sleep_ms(10);
    expect_outcome(renew(place, "t", "a", token, ttl_ms), TEN_LOST);
    expect_outcome(renew(place, "t", NULL, token, 0), TEN_LOST);
    ten_result result = acquire(place, "t", "a", ttl_ms);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > token);
}

CASE(a_lease_ends_not_before_its_ttl_and_soon_after) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t start_ms = now_ms();
    must_acquire(place, "t", "a", ttl_ms);
    ten_result result = acquire_within(place, "t", "b", LONG_MS, HANG_MS);
    uint64_t took_ms = now_ms() - start_ms;
    expect_outcome(result, TEN_OK);
    assert_in_range(took_ms + ROUNDING_MS, ttl_ms, ttl_ms + 3000 + late_ms());
}

CASE(renewals_carry_a_lease_beyond_its_first_end) {
    const struct place *place = *state;
    uint64_t ttl_ms = kept_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", ttl_ms);
    for (int i = 0; i < 6; i++) {
        sleep_ms(ttl_ms / 4);
        expect_outcome(renew(place, "t", "a", token, ttl_ms), TEN_OK);
    }
    expect_outcome(acquire(place, "t", "b", ttl_ms), TEN_HELD);
}

CASE(a_lease_can_be_released_by_its_token_alone_or_by_token_and_holder) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_holder(read_lease(place, "t"), NULL);
    token = must_acquire(place, "t", "b", LONG_MS);
    expect_outcome(release(place, "t", NULL, token), TEN_OK);
    ten_result result = read_lease(place, "t");
    expect_holder(result, NULL);
    assert_int_equal(result.token, token);
    assert_int_equal(result.remaining_ms, 0);
}

/* Fault 34. */
CASE(a_release_by_somebody_else_or_with_another_token_is_lost_and_changes_nothing) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "b", token), TEN_LOST);
    expect_outcome(release(place, "t", "a", token + 1), TEN_LOST);
    expect_outcome(release(place, "t", NULL, token + 2), TEN_LOST);
    ten_result result = release(place, "t", "b", token + 1);
    expect_outcome(result, TEN_LOST);
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

CASE(a_release_after_the_end_of_the_lease_is_lost) {
    const struct place *place = *state;
    uint64_t ttl_ms = short_ttl(place->store);
    uint64_t token = must_acquire(place, "t", "a", ttl_ms);
    expect_outcome(acquire_within(place, "u", "a", ttl_ms, 0), TEN_OK);
    for (uint64_t end_ms = now_ms() + HANG_MS; read_lease(place, "t").holder && now_ms() < end_ms;)
        sleep_ms(10);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
}

/* Fault 8. */
CASE(a_late_duplicate_of_a_release_does_nothing_to_the_successor) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    uint64_t next = must_acquire(place, "t", "b", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_LOST);
    expect_outcome(release(place, "t", NULL, token), TEN_LOST);
    ten_result result = read_lease(place, "t");
    expect_holder(result, "b");
    assert_int_equal(result.token, next);
    expect_outcome(renew(place, "t", "b", next, LONG_MS), TEN_OK);
}

CASE(reading_tells_the_whole_lease) {
    const struct place *place = *state;
    ten_result result = read_lease(place, "t");
    expect_outcome(result, TEN_OK);
    expect_holder(result, NULL);
    assert_int_equal(result.token, 0);
    assert_false(result.registered);

    put_target(place, "t");
    uint64_t wall_ms = ten_wall_ms(&ten_system_clock);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    result = read_lease(place, "t");
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
    assert_in_range(result.ttl_ms, LONG_MS, LONG_MS + 1000);
    assert_in_range(result.remaining_ms, LONG_MS - LONG_MS / 4, LONG_MS + 1000);
    assert_in_range(result.acquired_at_ms, wall_ms - 60000, wall_ms + 60000);
    assert_true(result.registered);
    assert_false(result.paused);
    assert_false(result.barred);
    (void)edit_target(place, TEN_TARGET_PAUSE, "t");
    assert_true(read_lease(place, "t").paused);
}

CASE(other_handles_see_a_lease_at_once) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"};
    ten_result result = apply_one(place->other, read);
    expect_holder(result, "a");
    assert_int_equal(result.token, token);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_holder(apply_one(place->other, read), NULL);
}

CASE(the_same_target_in_another_namespace_is_another_target) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    uint64_t here = must_acquire(place, "t", "a", LONG_MS);
    uint64_t there = must_acquire(&elsewhere, "t", "b", LONG_MS);
    expect_outcome(release(&elsewhere, "t", "b", there), TEN_OK);
    expect_outcome(renew(place, "t", "a", here, LONG_MS), TEN_OK);
}
