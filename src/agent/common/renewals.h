/*
 * Renewals in the log: at the level info the first of each lease, and one line a minute with the count of all; the rest
 * at the level debug, because a fleet renews for weeks. Likewise a wait for a store that recovers is logged once.
 */
#ifndef TEN_AGENT_RENEWALS_H
#define TEN_AGENT_RENEWALS_H

#include "base/log.h"
#include "rules/op.h"

typedef struct ten_renewals {
    uint64_t since_ms; /* boot clock; 0: none has been counted */
    uint64_t count;
    uint64_t recovering_ms; /* see ten_recovery_is_known() */
} ten_renewals;

/* Whether the log has not had a renewal under this token; it has one from now on. */
static inline bool ten_renewals_is_first(uint64_t *logged_token, uint64_t token) {
    bool is_first = *logged_token != token;
    *logged_token = token;
    return is_first;
}

/* So many more were confirmed. Always by the same thread. */
void ten_renewals_note(ten_renewals *renewals, ten_log *log, uint64_t count, uint64_t now_ms);

/* How an event is logged where its words are not the event's own. */
typedef struct ten_lease_words {
    const char *target;
    const uint32_t *slot; /* of a role with several; NULL: it has none */
    const char *other;    /* the key of the other instance */
    const char *problem;  /* what went wrong; NULL: nothing */
} ten_lease_words;

/* Logs an event of a lease, and counts a renewal. Always by the same thread. */
void ten_renewals_log(ten_renewals *renewals, ten_log *log, enum ten_log_level level, const tenure_event *event,
                      const ten_lease_words *words);

/* Whether the event reports once more a wait for a store that recovers. Within a wait the time that is left, of which
 * *left_ms is the last that was reported, does not grow. */
static inline bool ten_recovery_is_known(uint64_t *left_ms, const tenure_event *event) {
    bool recovers = event->kind == TENURE_EVENT_RECOVERING;
    bool is_known = recovers && event->remaining_ms <= *left_ms;
    if (recovers || event->kind == TENURE_EVENT_ACQUIRED || event->kind == TENURE_EVENT_ACQUIRE_FAILED)
        *left_ms = recovers ? event->remaining_ms : 0;
    return is_known;
}

/* What went wrong, in words. Of a store that recovers no instance holds anything, whatever the code of the error
 * says. */
static inline const char *ten_event_problem(const tenure_event *event) {
    return event->kind == TENURE_EVENT_RECOVERING ? "waiting one TTL: the store " TEN_RECOVERING_WHY : event->message;
}

#endif
