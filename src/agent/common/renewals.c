/*
 * Renewals in the log. Called by the agent and by the leader for each event.
 */
#include "agent/common/renewals.h"

#define SUMMARY_MS 60000u

void ten_renewals_note(ten_renewals *renewals, ten_log *log, uint64_t count, uint64_t now_ms) {
    if (renewals->since_ms == 0)
        renewals->since_ms = now_ms;
    renewals->count += count;
    uint64_t over_ms = now_ms - renewals->since_ms;
    if (over_ms < SUMMARY_MS)
        return;
    TEN_LOG(log, TEN_LOG_INFO, "lease_renewed", TEN_NUMBER("count", renewals->count), TEN_NUMBER("over_ms", over_ms));
    renewals->since_ms = now_ms;
    renewals->count = 0;
}
