/*
 * Counting. Called by the fleet member's, the election's and the agent's threads.
 */
#include "runtime/measures.h"

const uint64_t ten_renew_bounds_us[TEN_MEASURE_BUCKETS] = {500,   1000,   2500,   5000,    10000,   25000,
                                                           50000, 100000, 250000, 1000000, 2500000, 10000000};
const uint64_t ten_margin_bounds_us[TEN_MEASURE_BUCKETS] = {100000,  250000,   500000,   1000000,  2500000,  5000000,
                                                            7500000, 10000000, 15000000, 20000000, 30000000, 60000000};
const uint64_t ten_late_bounds_us[TEN_MEASURE_BUCKETS] = {5000,   10000,   25000,   50000,    100000,   250000,
                                                          500000, 1000000, 5000000, 15000000, 60000000, 600000000};

static void observe(ten_histogram *histogram, const uint64_t bounds_us[TEN_MEASURE_BUCKETS], uint64_t value_us) {
    size_t bucket = 0;
    while (bucket < TEN_MEASURE_BUCKETS && value_us > bounds_us[bucket])
        bucket++;
    ten_measure_add(&histogram->buckets[bucket], 1);
    ten_measure_add(&histogram->sum_us, value_us);
}

void ten_measures_answered(ten_measures *measures, int error) {
    if (error < 0)
        ten_measure_add(&measures->store_errors, 1);
    atomic_store_explicit(&measures->store_up, error >= 0, memory_order_relaxed);
}

void ten_measures_renewed(ten_measures *measures, uint64_t took_us, uint64_t margin_ms, int error) {
    observe(&measures->renew, ten_renew_bounds_us, took_us);
    if (error < 0)
        ten_measure_add(&measures->renewals_failed, 1);
    else
        observe(&measures->margin, ten_margin_bounds_us, margin_ms * 1000);
}

void ten_measures_taken_over(ten_measures *measures, enum ten_reason reason) {
    if (reason != TEN_REASON_NONE && (unsigned)reason < TEN_REASON_COUNT)
        ten_measure_add(&measures->takeovers[reason], 1);
}

void ten_measures_fleet(ten_measures *measures, size_t held, size_t planned, size_t unowned,
                        uint64_t unowned_since_ms) {
    atomic_store_explicit(&measures->held, held, memory_order_relaxed);
    atomic_store_explicit(&measures->planned, planned, memory_order_relaxed);
    atomic_store_explicit(&measures->unowned, unowned, memory_order_relaxed);
    atomic_store_explicit(&measures->unowned_since_ms, unowned_since_ms, memory_order_relaxed);
}

void ten_measures_late(ten_measures *measures, uint64_t late_ms) {
    observe(&measures->cron_late, ten_late_bounds_us, late_ms * 1000);
}

void ten_measures_led(ten_measures *measures, uint64_t wall_ms) {
    atomic_store_explicit(&measures->led_at_ms, wall_ms, memory_order_relaxed);
}
