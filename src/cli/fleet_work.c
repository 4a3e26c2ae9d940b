/*
 * What agent and cron have in common, and role_work.c with them. Called by cmd_agent.c, cmd_cron.c and role_work.c.
 */
#include "cli/fleet_work.h"

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
    config->store = arguments->store;
    config->context = ten_arguments_options(arguments);
    config->log_format = (enum ten_log_format)arguments->log_format;
    config->log_level = (enum ten_log_level)arguments->log_level;
    if (ten_timing_grace(&arguments->timing, &config->grace_ms, &error) < 0 ||
        (poll && ten_agent_parse_poll(poll, config, &error) < 0) || ten_agent_check(config, &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    return ten_work_run(arguments, config->isolation,
                        &(ten_warden_config){.work = work, .userdata = config, .grace_ms = config->grace_ms});
}

int ten_work_run(const ten_arguments *arguments, enum ten_isolation_wish isolation, const ten_warden_config *config) {
    int exit_code = ten_host_check_isolation(isolation);
    ten_warden_config warden = *config;
    warden.store = arguments->store;
    warden.namespace_name = arguments->namespace_name;
    warden.ttl_ms = arguments->timing.ttl_ms;
    warden.retry_exit = TEN_EXIT_STORE;
    warden.log_format = (enum ten_log_format)arguments->log_format;
    warden.log_level = (enum ten_log_level)arguments->log_level;
    return exit_code ? exit_code : ten_warden_run(&warden);
}
