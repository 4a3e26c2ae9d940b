/*
 * The lease record: what one instance may believe about one target. Pure: it is told what was requested, when the
 * request was sent and what the store answered, and decides until when the answer may be believed. No clock, no store.
 *
 *            granted                 granted
 *   unknown ---------> owned <------------------ uncertain
 *      ^                |  \--- renewal failed ----^  |
 *      |                |                             |
 *      +--- released ---+-------- lost, held ---------+---> other
 *
 * From `other`, only a new grant leads to `owned`. Invariant: a deadline is set in `owned` and `uncertain` only.
 */
#ifndef TEN_CORE_LEASE_H
#define TEN_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

enum ten_lease_state { TEN_LEASE_UNKNOWN, TEN_LEASE_OWNED, TEN_LEASE_OTHER, TEN_LEASE_UNCERTAIN };

typedef struct ten_lease {
    enum ten_lease_state state;
    uint64_t token;
    uint64_t ttl_ms;
    uint64_t deadline_ms; /* boot clock; 0 unless owned or uncertain */
} ten_lease;

/* What the store answered to an acquire or a renewal, and what was requested. */
typedef struct ten_lease_grant {
    uint64_t token;
    uint64_t asked_ttl_ms; /* the smaller of these two TTLs counts */
    uint64_t granted_ttl_ms;
    uint64_t margin_ms; /* how much earlier than the store the holder stops believing */
    uint64_t sent_ms;   /* when the request was sent: the deadline counts from here */
} ten_lease_grant;

/* Takes a grant or a renewal that was answered at now_ms. An answer that arrives after its own deadline, or after the
 * deadline that it should have extended, changes nothing and returns false: a token whose deadline has passed is never
 * believed again. */
bool ten_lease_granted(ten_lease *lease, const ten_lease_grant *grant, uint64_t now_ms);
/* A renewal got no answer, or an error: the old deadline stays, and the work pauses. */
void ten_lease_renewal_failed(ten_lease *lease);
/* The store says that another instance holds the lease, or none. */
void ten_lease_lost(ten_lease *lease);
/* The lease is released, or about to be: from now on it is not believed. */
void ten_lease_released(ten_lease *lease);

/* Whether new work may start. */
bool ten_lease_is_owned(const ten_lease *lease, uint64_t now_ms);

#endif
