/*
 * What agent and cron have in common. Called by cmd_agent.c and cmd_cron.c.
 */
#include "cli/fleet_work.h"

#include "agent/warden/warden.h"
#include "cli/host_check.h"
#include "cli/visible.h"

static int work(ten_shared *shared, void *userdata) {
    ten_error error = {0};
    int r = ten_agent_run(userdata, shared, &error);
    if (r < 0)
        ten_say(error.message);
    return ten_exit_code(r);
}

int ten_fleet_work_run(ten_arguments *arguments, ten_agent_config *config, const char *poll) {
    ten_error error;
    ten_timing_defaults(&arguments->timing);
    config->runner.store = arguments->store;
    config->runner.context = ten_arguments_options(arguments);
    config->runner.log_format = (enum ten_log_format)arguments->log_format;
    config->runner.log_level = (enum ten_log_level)arguments->log_level;
    if (ten_timing_grace(&arguments->timing, &config->runner.grace_ms, &error) < 0 ||
        (poll && ten_agent_parse_poll(poll, config, &error) < 0) || ten_agent_check(config, &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    int exit_code = ten_host_check_isolation(config->runner.isolation);
    if (exit_code)
        return exit_code;
    ten_warden_config warden = {.work = work,
                                .userdata = config,
                                .store = arguments->store,
                                .namespace_name = arguments->namespace_name,
                                .ttl_ms = arguments->timing.ttl_ms,
                                .grace_ms = config->runner.grace_ms,
                                .retry_exit = TEN_EXIT_STORE,
                                .log_format = config->runner.log_format,
                                .log_level = config->runner.log_level};
    return ten_warden_run(&warden);
}
