/*
 * The times of a lease. Called by the runtime at open, and by the commands to refuse early.
 */
#include "core/timing.h"

#include "base/duration.h"

#define MARGIN_MIN_MS 20u
#define GRACE_MIN_MS  10u

void ten_timing_defaults(ten_timing *timing) {
    if (timing->ttl_ms == 0)
        timing->ttl_ms = TENURE_TTL_DEFAULT_MS;
    if (timing->renew_ms == 0)
        timing->renew_ms = timing->ttl_ms / 3;
    if (timing->margin_ms == 0)
        timing->margin_ms = ten_max_u64(timing->ttl_ms / 8, MARGIN_MIN_MS);
    if (timing->timeout_ms == 0)
        timing->timeout_ms = ten_max_u64(50, ten_min_u64(timing->ttl_ms / 6, 5000));
}

int ten_timing_check(const ten_timing *timing, uint64_t ttl_min_ms, const char *reason, ten_error *error) {
    char ttl[TEN_DURATION_SIZE];
    char other[TEN_DURATION_SIZE];
    ten_duration_show(timing->ttl_ms, ttl);
    uint64_t least_ms = ten_max_u64(ttl_min_ms, TENURE_TTL_MIN_MS);
    ten_duration_show(least_ms, other);
    if (timing->ttl_ms < least_ms)
        return ten_fail(error, TENURE_E_TTL,
                        "a TTL of %s is too short: the shortest that this store keeps safely is %s%s%s%s", ttl, other,
                        reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
    if (timing->ttl_ms > TENURE_TTL_MAX_MS)
        return ten_fail(error, TENURE_E_TTL, "a TTL of %s is too long: the longest is 366 days", ttl);
    ten_duration_show(timing->margin_ms, other);
    if (timing->margin_ms < MARGIN_MIN_MS)
        return ten_fail(error, TENURE_E_TTL, "a margin of %s is too short: clocks and scheduling need at least 20ms",
                        other);
    if (timing->margin_ms > timing->ttl_ms / 2)
        return ten_fail(error, TENURE_E_TTL, "a margin of %s takes more than half of the TTL of %s", other, ttl);
    if (timing->renew_ms == 0)
        return ten_fail(error, TENURE_E_TTL, "renewing without a pause is not possible: --renew is at least 1ms");
    uint64_t longest_ms = (timing->ttl_ms - timing->margin_ms) / 2;
    ten_duration_show(timing->renew_ms, other);
    if (timing->renew_ms > longest_ms)
        return ten_fail(
            error, TENURE_E_TTL,
            "renewing every %s cannot be safe with a TTL of %s: one failed renewal would end the lease. --renew is at "
            "most %llums here: half of what the margin leaves of the TTL",
            other, ttl, (unsigned long long)longest_ms);
    ten_duration_show(timing->timeout_ms, other);
    if (timing->timeout_ms > TENURE_TTL_MAX_MS)
        return ten_fail(error, TENURE_E_INVALID, "a time-out of %s is too long: the longest is 366 days", other);
    return TENURE_OK;
}

int ten_timing_grace(const ten_timing *timing, uint64_t *grace_ms, ten_error *error) {
    char grace[TEN_DURATION_SIZE];
    char ttl[TEN_DURATION_SIZE];
    if (*grace_ms == 0)
        *grace_ms = ten_max_u64(timing->ttl_ms / 10, GRACE_MIN_MS);
    if (timing->renew_ms + *grace_ms <= timing->ttl_ms - timing->margin_ms)
        return TENURE_OK;
    ten_duration_show(*grace_ms, grace);
    ten_duration_show(timing->ttl_ms, ttl);
    return ten_fail(
        error, TENURE_E_TTL,
        "a grace of %s is too long for a TTL of %s: work would be ended before its lease could be renewed (the "
        "time between renewals and the grace must fit into the TTL less the margin)",
        grace, ttl);
}
