/*
 * Reading the history of a namespace from its store. For tenure_history_read() and for the server.
 */
#ifndef TEN_RUNTIME_CONTEXT_HISTORY_H
#define TEN_RUNTIME_CONTEXT_HISTORY_H

#include "store/store.h"

typedef struct ten_history_query {
    const char *target; /* NULL: all */
    uint64_t for_ms;    /* as far back as this; 0: as far as there is */
    size_t limit;       /* the newest so many; not 0 */
} ten_history_query;

/* Hands out what is wanted, in the order of time. Three calls on the store or so, however many holders there are; they
 * pay nothing. A non-zero return of `each` ends it, and is returned. */
int ten_context_history_list(ten_store *store, const char *namespace_name, const ten_history_query *query,
                             ten_change_fn each, void *userdata, uint64_t timeout_ms);

#endif
