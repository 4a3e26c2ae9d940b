/*
 * What a user says of a worker, whichever policy it runs: its store, its timing, its processes, its health, metrics and
 * log. Part of the options of agent.h and leader.h; runner.c carries it out.
 */
#ifndef TEN_AGENT_RUNNER_OPTIONS_H
#define TEN_AGENT_RUNNER_OPTIONS_H

#include "agent/warden/isolation.h"
#include "base/log.h"
#include "tenure.h"

typedef struct ten_runner_options {
    const char *store;                 /* NULL: the default */
    uint64_t store_wait_ms;            /* for one that is down at the start; UINT64_MAX: for ever */
    tenure_options context;            /* its namespace is that of the work */
    uint64_t grace_ms;                 /* ending a process starts this long before the deadline */
    bool stop_when_uncertain;          /* work ends when a renewal fails */
    enum ten_isolation_wish isolation; /* of commands */
    const char *healthy;               /* by /bin/sh -c: work is taken only while it exits with 0; NULL: always */
    uint64_t healthy_every_ms;
    const char *metrics; /* where Prometheus may ask; NULL: nowhere */
    enum ten_log_format log_format;
    enum ten_log_level log_level;
} ten_runner_options;

#endif
