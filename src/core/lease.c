/*
 * The lease record. Called by the runtime, the fleet and the election.
 */
#include "core/lease.h"

#include "base/util.h"

/* moves[from][to]; every change of state goes through move(). */
static const bool moves[4][4] = {
    [TEN_LEASE_UNKNOWN] = {[TEN_LEASE_UNKNOWN] = true, [TEN_LEASE_OWNED] = true, [TEN_LEASE_OTHER] = true},
    [TEN_LEASE_OWNED] =
        {[TEN_LEASE_UNKNOWN] = true, [TEN_LEASE_OWNED] = true, [TEN_LEASE_OTHER] = true, [TEN_LEASE_UNCERTAIN] = true},
    [TEN_LEASE_OTHER] = {[TEN_LEASE_UNKNOWN] = true, [TEN_LEASE_OWNED] = true, [TEN_LEASE_OTHER] = true},
    [TEN_LEASE_UNCERTAIN] =
        {[TEN_LEASE_UNKNOWN] = true, [TEN_LEASE_OWNED] = true, [TEN_LEASE_OTHER] = true, [TEN_LEASE_UNCERTAIN] = true},
};

static void move(ten_lease *lease, enum ten_lease_state to) {
    TEN_INVARIANT(moves[lease->state][to]);
    lease->state = to;
    if (to == TEN_LEASE_UNKNOWN || to == TEN_LEASE_OTHER)
        lease->deadline_ms = 0;
    TEN_INVARIANT((lease->deadline_ms != 0) == (to == TEN_LEASE_OWNED || to == TEN_LEASE_UNCERTAIN));
}

bool ten_lease_granted(ten_lease *lease, const ten_lease_grant *grant, uint64_t now_ms) {
    uint64_t ttl_ms = ten_min_u64(grant->asked_ttl_ms, grant->granted_ttl_ms);
    uint64_t deadline_ms = grant->sent_ms + ten_sub_saturating(ttl_ms, grant->margin_ms);
    if (now_ms >= deadline_ms)
        return false;
    /* A renewal that was answered after the deadline that it should have extended. Another instance may have held the
     * target since, and the store may have lost that lease. */
    if (lease->deadline_ms != 0 && now_ms >= lease->deadline_ms && grant->token == lease->token)
        return false;
    lease->token = grant->token;
    lease->ttl_ms = ttl_ms;
    lease->deadline_ms = deadline_ms;
    move(lease, TEN_LEASE_OWNED);
    return true;
}

void ten_lease_renewal_failed(ten_lease *lease) {
    if (lease->state == TEN_LEASE_OWNED)
        move(lease, TEN_LEASE_UNCERTAIN);
}

void ten_lease_lost(ten_lease *lease) {
    move(lease, TEN_LEASE_OTHER);
}

void ten_lease_released(ten_lease *lease) {
    move(lease, TEN_LEASE_UNKNOWN);
}

bool ten_lease_is_owned(const ten_lease *lease, uint64_t now_ms) {
    return lease->state == TEN_LEASE_OWNED && now_ms < lease->deadline_ms;
}
