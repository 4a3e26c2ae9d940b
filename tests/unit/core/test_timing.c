/*
 * The times of a lease: the defaults, and each combination that is refused, with its reason.
 */
#include "unit/unit.h"

#include "core/timing.h"

static ten_timing usual(void) {
    ten_timing timing = {.ttl_ms = 30000, .renew_ms = 10000};
    ten_timing_defaults(&timing);
    return timing;
}

TEST(the_defaults_are_30_seconds_and_10_seconds) {
    ten_timing timing = {0};
    ten_timing_defaults(&timing);
    assert_int_equal(timing.ttl_ms, 30000);
    assert_int_equal(timing.renew_ms, 10000);
    assert_int_equal(timing.margin_ms, 3750);
    assert_int_equal(timing.timeout_ms, 5000);
    assert_int_equal(ten_timing_check(&timing, 0, NULL, NULL), TENURE_OK);
}

TEST(what_is_given_is_kept) {
    ten_timing timing = {.ttl_ms = 1000, .renew_ms = 100, .margin_ms = 50, .timeout_ms = 70};
    ten_timing_defaults(&timing);
    assert_int_equal(timing.ttl_ms, 1000);
    assert_int_equal(timing.renew_ms, 100);
    assert_int_equal(timing.margin_ms, 50);
    assert_int_equal(timing.timeout_ms, 70);
}

TEST(small_and_large_ttls_have_bounded_defaults) {
    ten_timing timing = {.ttl_ms = 100};
    ten_timing_defaults(&timing);
    assert_int_equal(timing.margin_ms, 20);
    assert_int_equal(timing.timeout_ms, 50);
    timing = (ten_timing){.ttl_ms = TENURE_TTL_MAX_MS};
    ten_timing_defaults(&timing);
    assert_int_equal(timing.margin_ms, TENURE_TTL_MAX_MS / 8);
    assert_int_equal(timing.timeout_ms, 5000);
}

TEST(the_defaults_of_every_ttl_are_safe) {
    ten_error error = {0};
    for (uint64_t ttl_ms = TENURE_TTL_MIN_MS; ttl_ms <= TENURE_TTL_MAX_MS; ttl_ms += ttl_ms / 50 + 1) {
        ten_timing timing = {.ttl_ms = ttl_ms};
        ten_timing_defaults(&timing);
        if (ten_timing_check(&timing, TENURE_TTL_MIN_MS, NULL, &error) < 0)
            fail_msg("%llu: %s", (unsigned long long)ttl_ms, error.message);
    }
}

static void assert_refused(ten_timing timing, uint64_t ttl_min_ms, const char *reason) {
    ten_error error = {0};
    assert_int_equal(ten_timing_check(&timing, ttl_min_ms, NULL, &error), TENURE_E_TTL);
    assert_contains(error.message, reason);
}

TEST(a_ttl_that_is_too_short_is_refused) {
    ten_timing timing = usual();
    timing.ttl_ms = 99;
    assert_refused(timing, 0, "99ms is too short: the shortest that this store keeps safely is 100ms");
    timing.ttl_ms = 0;
    assert_refused(timing, 0, "too short");
    timing = usual();
    assert_refused(timing, 30001, "the shortest that this store keeps safely is 30.0s");
    assert_int_equal(ten_timing_check(&timing, 30000, NULL, NULL), TENURE_OK);
}

TEST(a_ttl_that_is_too_long_is_refused) {
    ten_timing timing = {.ttl_ms = TENURE_TTL_MAX_MS + 1};
    ten_timing_defaults(&timing);
    assert_refused(timing, 0, "longest is 366 days");
    timing = (ten_timing){.ttl_ms = UINT64_MAX};
    ten_timing_defaults(&timing);
    assert_refused(timing, 0, "longest is 366 days");
}

TEST(a_margin_that_is_too_short_or_too_long_is_refused) {
    ten_timing timing = usual();
    timing.margin_ms = 19;
    assert_refused(timing, 0, "margin of 19ms is too short");
    timing.margin_ms = 20;
    assert_int_equal(ten_timing_check(&timing, 0, NULL, NULL), TENURE_OK);
    timing.margin_ms = 15001;
    assert_refused(timing, 0, "more than half of the TTL");
    timing.margin_ms = UINT64_MAX;
    assert_refused(timing, 0, "more than half of the TTL");
}

TEST(renewing_too_seldom_is_refused) {
    ten_timing timing = usual();
    timing.renew_ms = 13125;
    assert_int_equal(ten_timing_check(&timing, 0, NULL, NULL), TENURE_OK);
    timing.renew_ms = 13126;
    assert_refused(timing, 0, "cannot be safe");
    timing.renew_ms = UINT64_MAX;
    assert_refused(timing, 0, "cannot be safe");
}

TEST(renewing_without_a_pause_is_refused) {
    ten_timing timing = usual();
    timing.renew_ms = 0;
    assert_refused(timing, 0, "at least 1ms");
}

TEST(a_grace_leaves_time_between_two_renewals) {
    ten_timing timing = usual();
    ten_timing_defaults(&timing);
    uint64_t grace_ms = 0;
    ten_error error;
    assert_int_equal(ten_timing_grace(&timing, &grace_ms, &error), TENURE_OK);
    assert_int_equal(grace_ms, timing.ttl_ms / 10);
    grace_ms = timing.ttl_ms - timing.margin_ms - timing.renew_ms;
    assert_int_equal(ten_timing_grace(&timing, &grace_ms, &error), TENURE_OK);
    grace_ms++;
    assert_int_equal(ten_timing_grace(&timing, &grace_ms, &error), TENURE_E_TTL);
}
