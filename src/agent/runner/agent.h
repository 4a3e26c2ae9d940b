/*
 * The agent: one instance of a fleet that works on its share of the targets, each under its lease. It polls them and
 * publishes what it gets, or runs the jobs of a crontab. It runs in the worker process; the warden (warden.h) is above
 * it.
 */
#ifndef TEN_AGENT_AGENT_H
#define TEN_AGENT_AGENT_H

#include "agent/runner/runner_options.h"
#include "agent/warden/shared.h"
#include "base/error.h"

enum ten_poll_how { TEN_POLL_EXEC, TEN_POLL_HTTP, TEN_POLL_SPEC };

typedef struct ten_agent_config {
    ten_runner_options runner; /* its namespace is that of the fleet */
    uint32_t weight;           /* these two as in tenure_member_options */
    uint32_t max_targets;
    uint64_t settle_ms;
    const char *targets; /* `store`, `file:PATH`, `redis-keys:PREFIX`, `redis-set:KEY[,PREFIX]` or a URL */
    const char *redis;   /* the Redis of such targets and sinks; NULL: the store */
    enum ten_poll_how how;
    const char *command; /* of TEN_POLL_EXEC */
    bool trust_targets;  /* a target's own command may be run */
    uint64_t every_ms;
    uint64_t timeout_ms;
    bool cron; /* the targets are the jobs of a crontab, `crontab:PATH` */
    const char *const *sinks;
    size_t sink_count;
} ten_agent_config;

/* Checks what can be checked before anything is started, and fills in `how` and `command` from the text of --poll. */
int ten_agent_parse_poll(const char *text, ten_agent_config *config, ten_error *error);
int ten_agent_check(const ten_agent_config *config, ten_error *error);

/* Runs until a signal asks for an end (SIGTERM, SIGINT; a second one hurries): 0, or the error that made it end.
 * Signals are taken by this function; the caller has started no threads. */
int ten_agent_run(const ten_agent_config *config, ten_shared *shared, ten_error *error);

#endif
