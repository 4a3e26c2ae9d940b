/*
 * Renewals in the log: at the level info the first of each lease, and one line a minute with the count of all; the rest at
 * the level debug. A fleet renews for weeks, and nobody wants to read that.
 */
#ifndef TEN_AGENT_RENEWALS_H
#define TEN_AGENT_RENEWALS_H

#include "base/log.h"
#include "tenure.h"

typedef struct ten_renewals {
    uint64_t since_ms; /* boot clock; 0: none has been counted */
    uint64_t count;
} ten_renewals;

/* Whether the log has not had a renewal under this token; it has one from now on. */
static inline bool ten_renewals_is_first(uint64_t *logged_token, uint64_t token) {
    bool is_first = *logged_token != token;
    *logged_token = token;
    return is_first;
}

/* So many more were confirmed. Always by the same thread. */
void ten_renewals_note(ten_renewals *renewals, ten_log *log, uint64_t count, uint64_t now_ms);

/* What went wrong, in words. A store that recovers is held by nobody, whatever the code of the error says. */
static inline const char *ten_event_problem(const tenure_event *event) {
    return event->kind == TENURE_EVENT_RECOVERING ? "waiting one TTL: the store is new or lost data" : event->message;
}

#endif
