/*
 * A command that runs while this instance leads a role (elect), once for the whole fleet (once), or under a lock
 * (lock). It runs in the worker process; the warden (warden.h) stands over it. A term's work is the hook of its
 * beginning, the command, and the hook of its end, one after the other; only when all of it is over is the role
 * released.
 */
#ifndef TEN_AGENT_LEADER_H
#define TEN_AGENT_LEADER_H

#include "agent/runner/runner_options.h"
#include "agent/warden/shared.h"
#include "base/error.h"
#include "core/election.h"
#include "core/term.h"

typedef struct ten_leader_config {
    ten_runner_options runner; /* its namespace is that of the role */
    const char *role;          /* as people name it */
    uint32_t count;            /* slots of the role; 0: it has none */
    const char *const *all;    /* roles that are led together, instead of the one; NULL: none */
    uint32_t all_count;
    enum ten_election_announces announces;
    int64_t priority; /* these two as in ten_election_extras */
    uint64_t failback_ms;
    uint64_t at_least_ms;   /* as in tenure_election_options */
    char **command;         /* ends with NULL */
    const char *on_elected; /* run by /bin/sh -c; NULL: none */
    const char *on_demoted;
    enum ten_restart restart;
    uint64_t kill_after_ms; /* how long it may take to end when nothing else presses */
    /* Once and lock: one term, and its command's exit code. */
    bool once;
    bool is_lock;            /* the role is one */
    uint64_t wait_ms;        /* for the role; UINT64_MAX: for ever */
    int not_elected_exit;    /* when another has it */
    bool passes_status;      /* how the command exits is its caller's business: the log says it at the level info */
    const char *leader_http; /* where a load balancer may ask; NULL: nowhere */
} ten_leader_config;

/* Runs until the command has ended for good, or a signal asks for an end: *ret_exit is this program's exit code. Or the
 * error that made it end. Signals are taken by this function; the caller has started no threads. */
int ten_leader_run(const ten_leader_config *config, ten_shared *shared, int *ret_exit, ten_error *error);

#endif
