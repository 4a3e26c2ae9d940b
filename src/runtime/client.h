/*
 * The insides of a client, shared by the files of the runtime.
 */
#ifndef TEN_RUNTIME_CLIENT_H
#define TEN_RUNTIME_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "core/timing.h"
#include "runtime/last_error.h"
#include "store/store.h"

/* A thread that waits for events from the store. The store has one descriptor for all threads of a client, and whoever
 * clears it takes the events from the others; so it passes them on. */
typedef struct ten_waiter {
    bool added;
    int store_fd;  /* -1: the store cannot be watched */
    int passed_fd; /* readable when another thread has passed events on */
    struct ten_waiter *next;
} ten_waiter;

struct tenure_client {
    ten_store *store;
    pthread_mutex_t lock; /* around every call on the store */
    ten_timing timing;
    uint64_t process; /* see base/fork.h */
    int cancel_fd;    /* readable once cancelled */
    pthread_mutex_t waiters_lock;
    ten_waiter *waiters;
    tenure_lease *leases;           /* the handles; under waiters_lock, too */
    ten_map spent;                  /* target to uint64_t: its highest spent token (core/holding.h). Under the lock */
    _Atomic uint64_t recovering_ms; /* how long the last acquire was told to wait for a recovering store; 0: not */
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
};

/* tenure_open() with a clock of the caller's, for tests. */
int ten_client_open(const char *url, const tenure_options *options, const ten_clock *clock, tenure_client **ret_client);

/* Takes the client for a call on its store: 0, or TENURE_E_FORKED, or TENURE_E_TIMEOUT when other threads had it for
 * too long. */
int ten_client_enter(tenure_client *client);
/* Releases it; `r` is what the call came to, and is returned; an error's message is taken from the store. */
int ten_client_leave(tenure_client *client, int r);

/* One operation, entered and left. */
int ten_client_apply(tenure_client *client, const ten_op *op, ten_result *result);

/* Waiting: add (once; more is nothing), clear, read the changes, sleep, clear, read... and remove. The first two inside
 * enter and leave, the others outside. Sleeping ends with 0 after events, or pause_ms, or earlier for nothing; or it is
 * TENURE_E_CANCELLED or TENURE_E_SYSTEM. */
void ten_waiter_add(tenure_client *client, ten_waiter *waiter);
void ten_waiter_clear(tenure_client *client, ten_waiter *waiter);
int ten_waiter_sleep(tenure_client *client, const ten_waiter *waiter, uint64_t pause_ms, const char *what);
void ten_waiter_remove(tenure_client *client, ten_waiter *waiter);

/* Checks a target's name. */
int ten_client_check_target(const tenure_client *client, const char *target);

/* client_lease.c */
void ten_client_free_spent(tenure_client *client);

#endif
