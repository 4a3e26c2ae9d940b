/*
 * The lease record: what one process may believe about one target. Pure: it is told what was asked, when it was sent
 * and what came back, and says until when the answer may be believed. No clock, no store.
 *
 *            granted                 granted
 *   unknown ---------> owned <------------------ uncertain
 *      ^                |  \--- renewal failed ----^  |
 *      |                |                             |
 *      +--- released ---+-------- lost, held ---------+---> other
 *
 * `other` goes back to owned only through a new grant. Invariant: a deadline is set in `owned` and `uncertain` only.
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

/* A grant or a renewal: `sent_ms` is when its request was sent, `asked_ms` and `granted_ms` the TTLs, of which the
 * smaller counts. An answer that comes after its own deadline, or after the one that it should have moved, changes
 * nothing and returns false: a token whose deadline has passed is never believed again. */
bool ten_lease_granted(ten_lease *lease, uint64_t token, uint64_t asked_ms, uint64_t granted_ms, uint64_t margin_ms,
                       uint64_t sent_ms, uint64_t now_ms);
/* A renewal got no answer, or an error: the old deadline stays, the work pauses. */
void ten_lease_renewal_failed(ten_lease *lease);
/* The store says that somebody else has it, or nobody. */
void ten_lease_lost(ten_lease *lease);
/* Given back, or about to be: from now on nothing is believed. */
void ten_lease_released(ten_lease *lease);

/* Whether new work may start. */
bool ten_lease_is_owned(const ten_lease *lease, uint64_t now_ms);

#endif
