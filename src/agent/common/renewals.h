/*
 * Renewals in the log: each of them at the level debug, and at the level info one line a minute with their count. A fleet
 * renews for weeks, and nobody wants to read that.
 */
#ifndef TEN_AGENT_RENEWALS_H
#define TEN_AGENT_RENEWALS_H

#include "base/log.h"
#include "tenure.h"

typedef struct ten_renewals {
    uint64_t since_ms; /* boot clock; 0: none has been counted */
    uint64_t count;
} ten_renewals;

/* So many more were confirmed. Always by the same thread. */
void ten_renewals_note(ten_renewals *renewals, ten_log *log, uint64_t count, uint64_t now_ms);

/* What went wrong, in words. A store that recovers is held by nobody, whatever the code of the error says. */
static inline const char *ten_event_problem(const tenure_event *event) {
    return event->kind == TENURE_EVENT_RECOVERING ? "waiting one TTL: the store is new or lost data" : event->message;
}

#endif
