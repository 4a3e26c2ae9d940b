/*
 * The times of a lease and which combinations of them are safe. Pure arithmetic; called wherever options come in.
 */
#ifndef TEN_CORE_TIMING_H
#define TEN_CORE_TIMING_H

#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

typedef struct ten_timing {
    uint64_t ttl_ms;
    uint64_t renew_ms;   /* between renewals */
    uint64_t margin_ms;  /* how much earlier than the store a holder stops believing in its lease */
    uint64_t timeout_ms; /* of one call */
} ten_timing;

/* Fills in what is 0: renew = TTL / 3, margin = max(TTL / 8, 20 ms), time-out = TTL / 6 between 50 ms and 5 s. */
void ten_timing_defaults(ten_timing *timing);

/* TENURE_E_TTL with the reason if the combination cannot be safe. ttl_min_ms: the shortest TTL of the store; `reason`:
 * why it is not shorter, or NULL. */
int ten_timing_check(const ten_timing *timing, uint64_t ttl_min_ms, const char *reason, ten_error *error);

/* Checks the grace, which is how long before the deadline the ending of a process begins; 0 is replaced by TTL / 10.
 * TENURE_E_TTL: it leaves no time between two renewals. */
int ten_timing_grace(const ten_timing *timing, uint64_t *grace_ms, ten_error *error);

/* A time below this, or 0: the next of a sequence that begins with a seed in *random. */
static inline uint64_t ten_jitter(uint64_t *random, uint64_t below) {
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return below ? ten_hash_mix(*random) % below : 0;
}

#endif
