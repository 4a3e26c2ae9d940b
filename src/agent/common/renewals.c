/*
 * Renewals in the log. Called by the agent and by the leader for each event.
 */
#include "agent/common/renewals.h"

#include "base/clock.h"

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

void ten_renewals_log(ten_renewals *renewals, ten_log *log, enum ten_log_level level, const tenure_event *event,
                      const ten_lease_words *words) {
    ten_field fields[9];
    size_t count = 0;
    if (words->target[0])
        fields[count++] = TEN_TEXT("target", words->target);
    if (words->slot)
        fields[count++] = TEN_NUMBER("slot", *words->slot);
    if (event->token)
        fields[count++] = TEN_NUMBER("token", event->token);
    if (event->instance[0])
        fields[count++] = TEN_TEXT(words->other, event->instance);
    if (event->reason[0])
        fields[count++] = TEN_TEXT("reason", event->reason);
    if (words->problem)
        fields[count++] = TEN_TEXT("error", words->problem);
    if (event->remaining_ms)
        fields[count++] = TEN_NUMBER("remaining_ms", event->remaining_ms);
    if (event->free_ms)
        fields[count++] = TEN_NUMBER("free_ms", event->free_ms);
    if (event->count)
        fields[count++] = TEN_NUMBER("count", event->count);
    ten_log_event(log, level, tenure_event_name(event->kind), fields, count);
    if (event->kind == TENURE_EVENT_RENEWED)
        ten_renewals_note(renewals, log, event->count ? event->count : 1, ten_now_ms());
}
