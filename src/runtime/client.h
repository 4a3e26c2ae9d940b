/*
 * The insides of a client, shared by the files of the runtime.
 */
#ifndef TEN_RUNTIME_CLIENT_H
#define TEN_RUNTIME_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/timing.h"
#include "store/store.h"

struct tenure_client {
    ten_store *store;
    pthread_mutex_t lock; /* around every call on the store */
    ten_timing timing;
    uint64_t process; /* see base/fork.h */
    int cancel_fd;    /* readable once cancelled */
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
};

/* tenure_open() with a clock of the caller's, for tests. */
int ten_client_open(const char *url, const tenure_options *options, const ten_clock *clock, tenure_client **ret_client);

/* Remembers the error as the calling thread's last one on this client, and returns its code. */
int ten_client_failed(const tenure_client *client, const ten_error *error);
int ten_client_fail(const tenure_client *client, int code, const char *format, ...) TEN_PRINTF(3, 4);

/* Takes the client for a call on its store: 0, or TENURE_E_FORKED, or TENURE_E_TIMEOUT when other threads had it for
 * too long. */
int ten_client_enter(tenure_client *client);
/* Gives it back; `done` is what the call came to, and is returned; an error's message is taken from the store. */
int ten_client_leave(tenure_client *client, int done);

/* One operation, entered and left. */
int ten_client_apply(tenure_client *client, const ten_op *op, ten_result *result);

/* Checks a target's name. */
int ten_client_check_target(const tenure_client *client, const char *target);

#endif
