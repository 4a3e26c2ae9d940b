/*
 * The history of changes of hands, out of the feed of a store: which entries are wanted, how long each holder had its
 * target, how long it was free before it was taken, and when a target was nobody's for longer than its TTL. Pure: it is
 * told the entries, in the order of the feed, and reads nothing. Called by runtime/client_history.c, which reads the store.
 */
#ifndef TEN_CORE_HISTORY_H
#define TEN_CORE_HISTORY_H

#include "core/op.h"

typedef struct ten_history ten_history;

typedef struct ten_history_config {
    const char *target; /* copied; NULL: all, and the instances */
    uint64_t now_ms;    /* Unix time. Older entries than TEN_FEED_AGE_MS are never shown */
    uint64_t since_ms;  /* Unix time: no earlier entries; 0: all */
    uint64_t ttl_ms;    /* of the fleet: a target that is free for longer is unowned; 0: do not look for those */
    size_t limit;       /* the newest so many; not 0 */
} ten_history_config;

/* NULL: out of memory. */
ten_history *ten_history_new(const ten_history_config *config);
void ten_history_free(ten_history *history);

/* The next entry of the feed; also one that is not wanted, because another may be understood by it. TENURE_E_NOMEM, or
 * 0. A ten_change_fn. */
int ten_history_add(const ten_change *change, void *history);

/* After the last entry: hands out what is wanted, in the order of time, which is not always that of the feed. held_ms
 * and free_ms are 0 where the beginning lies before the feed's, or less than a millisecond. A non-zero return ends it,
 * and is returned. */
int ten_history_each(ten_history *history, const char *namespace_name, ten_change_fn each, void *userdata);

#endif
