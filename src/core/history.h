/*
 * The history of who held what, derived from the feed of a store: which entries are wanted, how long each holder held
 * its target, how long the target was free before, and when it had no holder for longer than its TTL. The runs of a job
 * of `tenure cron` come from its checkpoint. Pure: the caller, runtime/context_history.c, reads the store and passes
 * the entries in the order of the feed.
 */
#ifndef TEN_CORE_HISTORY_H
#define TEN_CORE_HISTORY_H

#include "rules/op.h"

typedef struct ten_history ten_history;

typedef struct ten_history_config {
    const char *target; /* copied; NULL: all targets, and the instances */
    uint64_t now_ms;    /* Unix time. Entries older than TEN_FEED_AGE_MS are never shown */
    uint64_t since_ms;  /* Unix time: no earlier entries; 0: all */
    uint64_t ttl_ms;    /* of the fleet: a target that is free for longer is unowned; 0: do not look for those */
    size_t limit;       /* at most so many, the newest ones; not 0 */
} ten_history_config;

/* NULL: out of memory. */
ten_history *ten_history_new(const ten_history_config *config);
void ten_history_free(ten_history *history);

/* Takes the next entry of the feed. Entries that are not wanted must be passed too, because others are derived from
 * them. Returns 0 or TENURE_E_NOMEM. A ten_change_fn. */
int ten_history_add(const ten_change *change, void *history);

/* After the last entry, for the history of one target: its checkpoint, and who holds its lease; NULL: it is free. */
int ten_history_add_runs(ten_history *history, const char *namespace_name, const char *checkpoint, const char *holder);

/* After the last entry: calls `each` for the wanted entries in the order of time, which is not always that of the feed.
 * held_ms and free_ms are 0 if the time began before the feed, or is below a millisecond. A non-zero return of `each`
 * ends it, and is returned. */
int ten_history_each(ten_history *history, const char *namespace_name, ten_change_fn each, void *userdata);

#endif
