/*
 * tenure agent: one instance of a fleet, under a warden.
 */
#include <stdio.h>

#include "agent/common/store_wait.h"
#include "agent/runner/agent.h"
#include "agent/sinks/sink.h"
#include "agent/warden/warden.h"
#include "cli/commands.h"
#include "cli/host_check.h"
#include "cli/visible.h"

static int work(ten_shared *shared, void *userdata) {
    ten_error error = {0};
    int r = ten_agent_run(userdata, shared, &error);
    if (r < 0)
        ten_say(error.message);
    return ten_exit_code(r);
}

static int check(const ten_arguments *arguments, const char *poll, ten_agent_config *config) {
    ten_error error;
    if (arguments->count != 0)
        return ten_arguments_usage(arguments, "agent takes no arguments, only options");
    if (!config->targets)
        return ten_arguments_usage(arguments,
                                   "--targets is missing: store, file:PATH, redis-keys:PREFIX, redis-set:KEY "
                                   "or a URL, where the targets are listed");
    if (!poll)
        return ten_arguments_usage(arguments, "--poll is missing: exec:CMD, http (GET each target's url) or spec "
                                              "(as each target says)");
    if (ten_timing_grace(&arguments->timing, &config->grace_ms, &error) < 0 ||
        ten_agent_parse_poll(poll, config, &error) < 0 || ten_agent_check(config, &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    return TEN_EXIT_DONE;
}

static void configure(ten_agent_config *config, ten_arguments *arguments, uint64_t settle_ms, uint64_t grace_ms,
                      uint32_t weight, const ten_option_list *sinks) {
    ten_timing_defaults(&arguments->timing);
    config->store = arguments->store;
    config->context = ten_arguments_options(arguments);
    config->weight = weight;
    config->settle_ms = settle_ms;
    config->grace_ms = grace_ms;
    config->sinks = sinks->items;
    config->sink_count = sinks->count;
    config->log_format = (enum ten_log_format)arguments->log_format;
    config->log_level = (enum ten_log_level)arguments->log_level;
}

int ten_cmd_agent(const ten_command *command, int argc, char **argv) {
    static const char *const uncertain_words[] = {"wait", "stop", NULL};
    static const char *const namespace_words[] = {"auto", "off", "on", NULL};
    ten_arguments arguments;
    ten_agent_config config = {
        .every_ms = 10000, .timeout_ms = 10000, .max_targets = 4000000, .healthy_every_ms = 10000};
    const char *poll = NULL;
    ten_option_list sinks = {0};
    uint32_t weight = 1;
    uint64_t settle_ms = 2000;
    uint64_t grace_ms = 0;
    int on_uncertain = 0;
    int namespaces = 0;
    ten_option identity[TEN_IDENTITY_OPTIONS];
    ten_arguments_identity_options(&arguments, identity);
    config.store_wait_ms = TEN_STORE_WAIT_FOR_EVER;
    const ten_option options[] = {
        {"store-wait", TEN_OPTION_DURATION, &config.store_wait_ms, "D", TEN_STORE_WAIT_HELP, "TENURE_STORE_WAIT", NULL},
        {"targets", TEN_OPTION_TEXT, &config.targets, "SRC",
         "where targets come from: store, file:PATH, redis-keys:PREFIX, redis-set:KEY or http://...", NULL, NULL},
        {"poll", TEN_OPTION_TEXT, &poll, "HOW", "exec:CMD, http, or spec", NULL, NULL},
        {"publish", TEN_OPTION_LIST, &sinks, "SINK",
         "where results go: -, file:PATH, redis-stream:KEY, redis-channel:NAME or mqtt://...; repeatable", NULL, NULL},
        {"redis", TEN_OPTION_TEXT, &config.redis, "URL",
         "the Redis of redis-... targets and results; default: the store's", "TENURE_REDIS_URL", NULL},
        {"every", TEN_OPTION_PERIOD, &config.every_ms, "D", "time between polls of a target; default 10s", NULL, NULL},
        {"timeout", TEN_OPTION_PERIOD, &config.timeout_ms, "D", "longest time of one poll; default 10s", NULL, NULL},
        {"weight", TEN_OPTION_NUMBER, &weight, "N", "this instance's part of the targets; default 1", NULL, NULL},
        {"max-targets", TEN_OPTION_NUMBER, &config.max_targets, "N",
         "refuse to start with more targets than this; default 4000000", NULL, NULL},
        {"settle", TEN_OPTION_PERIOD, &settle_ms, "D",
         "how long an instance must be there before it is handed targets; default 2s", NULL, NULL},
        {"grace", TEN_OPTION_PERIOD, &grace_ms, "D", "end a poll this long before its deadline; default TTL / 10", NULL,
         NULL},
        {"on-uncertain", TEN_OPTION_CHOICE, &on_uncertain, "W",
         "wait (default) or stop: polls under way when a renewal fails", NULL, uncertain_words},
        {"pid-namespace", TEN_OPTION_CHOICE, &namespaces, "W",
         "auto (default), on or off: run each command in a PID namespace of its own; auto: or in a control group", NULL,
         namespace_words},
        {"metrics", TEN_OPTION_TEXT, &config.metrics, "ADDR",
         "serve metrics for Prometheus at http://ADDR/metrics; a port alone is one of 127.0.0.1", NULL, NULL},
        {"trust-targets", TEN_OPTION_FLAG, &config.trust_targets, NULL, "run the commands that targets bring along",
         NULL, NULL},
        {"healthy", TEN_OPTION_TEXT, &config.healthy, "CMD",
         "run by /bin/sh -c now and then; while it does not exit with 0, hold nothing", NULL, NULL},
        {"healthy-every", TEN_OPTION_PERIOD, &config.healthy_every_ms, "D",
         "how often, and how long it may take; default 10s", NULL, NULL},
        identity[0],
        identity[1],
        {.name = NULL},
    };
    int exit_code;
    ten_command_hold_hangup();
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (!ten_arguments_check(&arguments, &exit_code))
        return exit_code;
    if (weight == 0)
        return ten_arguments_usage(&arguments, "--weight is at least 1; 'tenure drain INSTANCE' empties an instance");
    if (config.max_targets == 0 || config.max_targets > TEN_SHARED_TARGETS)
        return ten_arguments_usage(&arguments, "--max-targets is a number from 1 to %u", TEN_SHARED_TARGETS);
    configure(&config, &arguments, settle_ms, grace_ms, weight, &sinks);
    config.stop_when_uncertain = on_uncertain == 1;
    config.isolation = (enum ten_isolation_wish)namespaces;
    exit_code = check(&arguments, poll, &config);
    if (!exit_code)
        exit_code = ten_host_check_isolation(config.isolation);
    if (exit_code)
        return exit_code;
    ten_warden_config warden = {.work = work,
                                .userdata = &config,
                                .store = arguments.store,
                                .namespace_name = arguments.namespace_name,
                                .ttl_ms = arguments.timing.ttl_ms,
                                .grace_ms = config.grace_ms,
                                .retry_exit = TEN_EXIT_STORE,
                                .log_format = config.log_format,
                                .log_level = config.log_level};
    return ten_warden_run(&warden);
}
