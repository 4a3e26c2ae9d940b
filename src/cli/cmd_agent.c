/*
 * tenure agent: one instance of a fleet, under a warden.
 */
#include "agent/sinks/sink.h"
#include "cli/commands.h"
#include "cli/fleet_work.h"

static const char *poll;
static ten_option_list sinks;
static ten_agent_config config = {.runner.store_wait_ms = TEN_STORE_WAIT_FOR_EVER,
                                  .every_ms = 10000,
                                  .timeout_ms = 10000,
                                  .weight = 1,
                                  .max_targets = 4000000,
                                  .settle_ms = 2000,
                                  .runner.healthy_every_ms = 10000,
                                  .sinks = sinks.items};
static const ten_option options[] = {
    TEN_OPT_STORE_WAIT(&config.runner.store_wait_ms),
    TEN_OPT_TEXT("targets", "SRC", &config.targets,
                 "where targets come from: store, file:PATH, redis-keys:PREFIX, redis-set:KEY or http://..."),
    TEN_OPT_TEXT("poll", "HOW", &poll, "exec:CMD, http, or spec"),
    TEN_OPT_LIST("publish", "SINK", &sinks,
                 "where results go: -, file:PATH, redis-stream:KEY, redis-channel:NAME or mqtt://...; repeatable"),
    TEN_OPT_ENV(TEN_OPTION_TEXT, "redis", "URL", &config.redis, "TENURE_REDIS_URL",
                "the Redis of redis-... targets and results; default: the store's"),
    TEN_OPT_PERIOD("every", "D", &config.every_ms, "time between polls of a target; default 10s"),
    TEN_OPT_PERIOD("timeout", "D", &config.timeout_ms, "longest time of one poll; default 10s"),
    TEN_OPT_WEIGHT(&config.weight, "this instance's part of the targets; default 1"),
    TEN_OPT_NUMBER("max-targets", "N", &config.max_targets,
                   "refuse to start with more targets than this; default 4000000"),
    TEN_OPT_SETTLE(&config.settle_ms, "targets"),
    TEN_OPT_GRACE(&config.runner.grace_ms, "a poll this long before its"),
    TEN_OPT_ON_UNCERTAIN(&config.runner.stop_when_uncertain, "polls under way"),
    TEN_OPT_PID_NAMESPACE(&config.runner.isolation, "each command"),
    TEN_OPT_METRICS(&config.runner.metrics),
    TEN_OPT_FLAG("trust-targets", &config.trust_targets, "run the commands that targets bring along"),
    TEN_OPT_HEALTHY(&config.runner.healthy, "hold nothing"),
    TEN_OPT_HEALTHY_EVERY(&config.runner.healthy_every_ms),
    TEN_OPT_IDENTITY,
    TEN_OPT_END,
};

static int check(ten_arguments *arguments) {
    int exit_code = ten_arguments_check(arguments);
    if (exit_code)
        return exit_code;
    if (config.max_targets == 0 || config.max_targets > TEN_SHARED_TARGETS)
        return ten_arguments_usage(arguments, "--max-targets is a number from 1 to %u", TEN_SHARED_TARGETS);
    const ten_rule rules[] = {
        {config.weight == 0, "--weight is at least 1; 'tenure drain INSTANCE' empties an instance"},
        {arguments->count != 0, "agent takes no arguments, only options"},
        {!config.targets, "--targets is missing: store, file:PATH, redis-keys:PREFIX, redis-set:KEY or a URL, where "
                          "the targets are listed"},
        {!poll, "--poll is missing: exec:CMD, http (GET each target's url) or spec (as each target says)"}};
    return TEN_CHECK_RULES(arguments, rules);
}

static int run(ten_arguments *arguments) {
    config.sink_count = sinks.count;
    return ten_fleet_work_run(arguments, &config, poll);
}

const ten_command ten_cmd_agent = {TEN_HELP_agent, .reloads = true, .options = options, .check = check, .run = run};
