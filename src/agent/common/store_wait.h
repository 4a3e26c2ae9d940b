/*
 * A store that is down when a command starts: services start in any order, so a command that runs for long waits for
 * it. What a person has to put right (a wrong password, scheme or kind of server, a path that is not there) is an error
 * at once. Called by the agent, the leader, the server, and by commands that wait. It decides nothing about leases.
 */
#ifndef TEN_AGENT_STORE_WAIT_H
#define TEN_AGENT_STORE_WAIT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "tenure.h"

#define TEN_STORE_WAIT_FOR_EVER UINT64_MAX
#define TEN_STORE_WAIT_HELP     "wait this long for a store that is down at the start; default: for ever"

typedef struct ten_store_wait {
    const char *store;          /* its URL; NULL: the default */
    uint64_t wait_ms;           /* 0: it is tried once */
    const ten_log_config *log;  /* for store_waiting; NULL: not logged */
    bool (*is_stopped)(void *); /* whether the program was asked to end */
    void *userdata;             /* for it */
} ten_store_wait;

/* tenure_open(), and for a store that is not asked anything by that, one question. TENURE_E_CANCELLED: it was
 * stopped. */
int ten_store_wait_open(const ten_store_wait *wait, const tenure_options *options, tenure_context **ret_context,
                        ten_error *error);
/* The same without a context: the store answers. */
int ten_store_wait_answer(const ten_store_wait *wait, uint64_t timeout_ms, ten_error *error);

/* Whether it is worth waiting: the error is one of a store that is down. */
bool ten_store_wait_helps(const char *store, int error);

/* For is_stopped(): takes what has come on a signalfd; the signal that asks for an end, or 0. */
int ten_store_wait_signal(int signal_fd);

#endif
