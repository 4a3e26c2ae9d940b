/*
 * What agent and cron have in common: one instance of a fleet in a worker, under a warden.
 */
#ifndef TEN_CLI_FLEET_WORK_H
#define TEN_CLI_FLEET_WORK_H

#include "agent/common/store_wait.h"
#include "agent/runner/agent.h"
#include "agent/warden/warden.h"
#include "cli/arguments.h"

/* Checks what the options say, beside `config`, and runs it to its end. `poll`: the text of --poll; NULL: there is
 * none. The exit code. */
int ten_fleet_work_run(ten_arguments *arguments, ten_agent_config *config, const char *poll);
/* What the common options say of any work. An exit code; 0: go on. */
int ten_command_configure(ten_arguments *arguments, ten_runner_options *runner);
/* Runs work under a warden to its end, where its commands can be isolated as asked; `config` has the rest of what the
 * warden knows. The exit code. */
int ten_command_run_work(const ten_arguments *arguments, const ten_runner_options *runner,
                         const ten_warden_config *config);

#endif
