/*
 * When a store may connect again after it failed. Many instances lose the same server at the same moment: they come
 * back spread out, and the less often the longer it is away. Shared by the Redis and the PostgreSQL store; etcd and
 * HTTP have libcurl, and another member to go to.
 */
#ifndef TEN_STORE_DIAL_H
#define TEN_STORE_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ten_dial {
    uint64_t next_ms;    /* boot clock: no try before this */
    uint64_t backoff_ms; /* the last pause; 0: the last try succeeded */
} ten_dial;

/* Waits until the next try is due. TENURE_E_UNREACHABLE at once if that is not before deadline_ms; then nothing was
 * tried, and ten_dial_note() is not called. */
int ten_dial_wait(const ten_dial *dial, const char *server, uint64_t deadline_ms, ten_error *error);
/* How the try went: TENURE_OK or an error. */
void ten_dial_note(ten_dial *dial, int r);
/* A connection was found dead: the next try is put off by a few random milliseconds. */
void ten_dial_spread(ten_dial *dial);

/* Whether a call that failed is worth another try on a new connection: the old one was dead, or its server is no longer
 * the one to ask. */
bool ten_dial_worth_another(int error, bool was_connected, uint64_t deadline_ms);

#endif
