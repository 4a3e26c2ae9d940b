/*
 * What every worker has, whichever policy it runs: its signals, the context on the store, the log, its processes, the
 * health check and the metrics, and one loop that waits for all of them. It decides nothing about leases or work: the
 * policies are in agent.c (a fleet's polls or cron jobs) and leader.c (the command of a role).
 */
#ifndef TEN_AGENT_RUNNER_H
#define TEN_AGENT_RUNNER_H

#include <pthread.h>
#include <sys/signalfd.h>

#include "agent/common/exporter.h"
#include "agent/common/health.h"
#include "agent/common/renewals.h"
#include "agent/runner/runner_options.h"
#include "agent/warden/child.h"

typedef struct ten_runner ten_runner;

/* A descriptor that the loop waits for. It stays where it is for as long as it is watched. */
typedef struct ten_watched {
    void (*ready)(void *owner);
    void *owner;
    bool may_vanish; /* what is done for other descriptors may end its owner: it is served before them */
} ten_watched;

typedef struct ten_runner_config {
    const ten_runner_options *options;
    enum ten_log_level isolation_level; /* of the line that says which form is in force */
    const char *role;                   /* for the log; NULL: there are many */
    bool all_signals;                   /* also those that a command may want: SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH */
    /* Takes a signal other than SIGCHLD. */
    void (*take_signal)(ten_runner *runner, const struct signalfd_siginfo *info);
    /* Takes one child that has ended, an orphan or a command. */
    void (*reap)(ten_runner *runner);
    /* Takes what the context's thread has left, after ten_eventfd_poke(event_fd). NULL: go_on() does. */
    void (*take_events)(ten_runner *runner);
    /* The host has become able to do the work, or unable. */
    void (*take_health)(ten_runner *runner, bool well);
    /* Does what is due. False: the loop is over; else *ret_next_ms is when to come again if nothing happens before. */
    bool (*go_on)(ten_runner *runner, uint64_t *ret_next_ms);
    /* Waits for the epoll descriptor and for something else; NULL: there is nothing else. */
    void (*wait)(ten_runner *runner, int timeout_ms);
} ten_runner_config;

/* The first member of the structs of its policies. */
struct ten_runner {
    ten_runner_config config;
    ten_shared *shared;
    tenure_context *context;
    const char *instance;
    ten_log *log;
    ten_measures measures;
    ten_renewals renewals;
    ten_children children;
    ten_health health;
    pthread_mutex_t lock; /* around what the context's thread leaves for the loop */
    int epoll_fd;
    int signal_fd;
    int event_fd;
    int stop_signal; /* that ended the wait for the store; 0: none did */
    ten_watched signals;
    ten_watched events;
    ten_watched healths;
};

/* Everything but the context. The caller has started no threads: children of the worker that is set up have no
 * memory of most libraries. Close it even if this fails. */
int ten_runner_open(ten_runner *runner, const ten_runner_config *config, ten_shared *shared, ten_error *error);
/* Waits for the store; then there are an instance and a log. TENURE_E_CANCELLED: a signal asked for an end. */
int ten_runner_open_context(ten_runner *runner, ten_error *error);
int ten_runner_watch(ten_runner *runner, int fd, ten_watched *watched, ten_error *error);
/* What the pages of metrics have in common. */
ten_exporter_config ten_runner_exports(ten_runner *runner, const char *address, enum ten_exports kind);
void ten_runner_loop(ten_runner *runner);
/* The loop has got on, in the midst of a turn: the warden takes one that does not turn for one that hangs. */
void ten_runner_note_turn(ten_runner *runner);
void ten_runner_close(ten_runner *runner);

#endif
