/*
 * The warden: the parent of a worker, which makes "the work stops before the lease ends" true when the worker is
 * stopped, hung or dead. It is tiny and does nothing while all is well. It adopts every orphan below it; ends a
 * target's processes when the worker has not by a grace before the deadline; ends everything when the worker dies,
 * gives its leases back and leaves a tombstone for its instance, so that a crash is taken over in milliseconds; and
 * starts a new worker, which is a new instance. When the warden itself dies, the kernel ends the worker and its
 * commands.
 */
#ifndef TEN_AGENT_WARDEN_H
#define TEN_AGENT_WARDEN_H

#include <signal.h>

#include "agent/warden/shared.h"
#include "base/log.h"

typedef struct ten_warden_config {
    /* The worker: runs in a process of its own, and returns its exit code. */
    int (*work)(ten_shared *shared, void *userdata);
    void *userdata;
    const char *store; /* for releasing a dead worker's leases; NULL: the default */
    const char *namespace_name;
    uint64_t ttl_ms;
    uint64_t grace_ms;
    /* A worker that follows a crashed one and ends with this, or before it has begun, is followed by another: at the
     * very start a store out of reach is a mistake, later it is a fault among others. */
    int retry_exit;
    bool one_shot;     /* a worker that dies is not followed by another */
    int lost_exit;     /* one_shot: the exit code when the warden has killed it past its last deadline */
    bool pass_signals; /* those that a command may want, too: SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH; and the worker stays
                          in the terminal's group, for its command is there */
    enum ten_log_format log_format;
    enum ten_log_level log_level;
} ten_warden_config;

/* Runs workers until one ends by itself; its exit code, or 128 + N when it died of a signal that was not the warden's
 * business. The caller has started no threads and opened no store. */
int ten_warden_run(const ten_warden_config *config);
/* The signals that the warden takes and passes on, and that the worker's loop takes; `all`: pass_signals. */
void ten_warden_signals(bool all, sigset_t *ret_signals);

#endif
