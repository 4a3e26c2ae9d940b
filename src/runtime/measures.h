/*
 * What an instance counts about itself, for its metrics. Written by the threads that carry requests and work, read by
 * the thread that answers Prometheus: atomics only, so that counting never waits and a reader delays no renewal.
 * What they are called outside is agent/common/exporter.c's business.
 */
#ifndef TEN_RUNTIME_MEASURES_H
#define TEN_RUNTIME_MEASURES_H

#include <stdatomic.h>

#include "store/store.h"

#define TEN_MEASURE_BUCKETS 12u

/* The last place is for all that is more than the last bound. */
typedef struct ten_histogram {
    _Atomic(uint64_t) buckets[TEN_MEASURE_BUCKETS + 1];
    _Atomic(uint64_t) sum_us;
} ten_histogram;

typedef struct ten_measures {
    _Atomic(uint64_t) held;
    _Atomic(uint64_t) planned;
    _Atomic(uint64_t) unowned;
    _Atomic(uint64_t) unowned_since_ms; /* boot clock; 0: nothing is */
    _Atomic(uint64_t) store_errors;
    atomic_bool store_up;
    _Atomic(uint64_t) renewals_failed;
    ten_histogram renew;  /* a request with renewals, from its sending to its answer */
    ten_histogram margin; /* how long the first of the renewed leases would still have lasted */
    _Atomic(uint64_t) takeovers[TEN_REASON_COUNT];
    _Atomic(uint64_t) led_at_ms; /* Unix time of the last renewal of the role */
    _Atomic(uint64_t) polls_ok;
    _Atomic(uint64_t) polls_failed;
    _Atomic(uint64_t) polls_discarded; /* the lease was lost before the result was published */
    _Atomic(uint64_t) cron_ok;         /* runs of jobs, by how they ended */
    _Atomic(uint64_t) cron_failed;
    _Atomic(uint64_t) cron_timed_out;
    _Atomic(uint64_t) cron_not_started;
    _Atomic(uint64_t) cron_lost;
    _Atomic(uint64_t) cron_missed; /* instants that did not run */
    _Atomic(uint64_t) cron_overlapped;
    ten_histogram cron_late;   /* from an instant to the start of its command */
    _Atomic(uint64_t) dropped; /* messages that no sink took */
    _Atomic(uint64_t) commands_not_isolated;
    atomic_int isolation;     /* of commands: enum ten_isolation */
    _Atomic(uint64_t) passed; /* by a guard */
    _Atomic(uint64_t) refused_stale;
    _Atomic(uint64_t) refused_other;
} ten_measures;

extern const uint64_t ten_renew_bounds_us[TEN_MEASURE_BUCKETS];
extern const uint64_t ten_margin_bounds_us[TEN_MEASURE_BUCKETS];
extern const uint64_t ten_late_bounds_us[TEN_MEASURE_BUCKETS];

/* A call on the store was answered, or not. */
void ten_measures_answered(ten_measures *measures, int error);
void ten_measures_renewed(ten_measures *measures, uint64_t took_us, uint64_t margin_ms, int error);
/* A lease was taken; `reason`: how the one before it ended, none if there was none. */
void ten_measures_taken_over(ten_measures *measures, enum ten_reason reason);
void ten_measures_fleet(ten_measures *measures, size_t held, size_t planned, size_t unowned, uint64_t unowned_since_ms);
void ten_measures_late(ten_measures *measures, uint64_t late_ms);
void ten_measures_led(ten_measures *measures, uint64_t wall_ms);

/* One more, or so many: no order with anything else is needed. */
static inline void ten_measure_add(_Atomic(uint64_t) *counter, uint64_t count) {
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

static inline uint64_t ten_measure_get(const _Atomic(uint64_t) *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
