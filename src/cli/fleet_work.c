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
    int exit_code = ten_command_configure(arguments, &config->runner);
    if (exit_code)
        return exit_code;
    if ((poll && ten_agent_parse_poll(poll, config, &error) < 0) || ten_agent_check(config, &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    return ten_command_run_work(arguments, &config->runner, &(ten_warden_config){.work = work, .userdata = config});
}

int ten_command_configure(ten_arguments *arguments, ten_runner_options *runner) {
    ten_error error;
    ten_timing_defaults(&arguments->timing);
    runner->store = arguments->store;
    runner->context = ten_arguments_options(arguments);
    runner->log_format = (enum ten_log_format)arguments->log_format;
    runner->log_level = (enum ten_log_level)arguments->log_level;
    bool valid = ten_timing_grace(&arguments->timing, &runner->grace_ms, &error) == TENURE_OK;
    return valid ? TEN_EXIT_DONE : ten_arguments_usage(arguments, "%s", error.message);
}

int ten_command_run_work(const ten_arguments *arguments, const ten_runner_options *runner,
                         const ten_warden_config *config) {
    int exit_code = ten_host_check_isolation(runner->isolation);
    ten_warden_config warden = *config;
    warden.store = runner->store;
    warden.namespace_name = arguments->namespace_name;
    warden.ttl_ms = arguments->timing.ttl_ms;
    warden.grace_ms = runner->grace_ms;
    warden.retry_exit = TEN_EXIT_STORE;
    warden.log_format = runner->log_format;
    warden.log_level = runner->log_level;
    return exit_code ? exit_code : ten_warden_run(&warden);
}
