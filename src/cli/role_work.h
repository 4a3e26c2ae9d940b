/*
 * What elect, once and lock have in common: a command under a lease, in a worker, under a warden.
 */
#ifndef TEN_CLI_ROLE_WORK_H
#define TEN_CLI_ROLE_WORK_H

#include "agent/runner/leader.h"
#include "cli/arguments.h"

/* Options that all of them have. */
#define TEN_OPT_ROLE_WORK(config)                                                                                      \
    TEN_OPT_GRACE(&(config).runner.grace_ms, "CMD this long before the"),                                              \
        TEN_OPT_PERIOD("kill-after", "D", &(config).kill_after_ms,                                                     \
                       "SIGKILL this long after SIGTERM; sooner if the lease is about to end; default 10s"),           \
        TEN_OPT_ON_UNCERTAIN(&(config).runner.stop_when_uncertain, "what happens to CMD"),                             \
        TEN_OPT_PID_NAMESPACE(&(config).runner.isolation, "CMD"), TEN_OPT_METRICS(&(config).runner.metrics)
#define TEN_KILL_AFTER_MS 10000u
#define TEN_COUNT_NONE    UINT32_MAX /* --count was not given */

#define TEN_ROLES_MAX     64
#define TEN_SLOT_ROLE_MAX (TENURE_TARGET_MAX - 11u) /* its slots are targets, too */

/* Takes the role, or roles, and the command from the operands, checks, and fills in what the common options say.
 * `noun`: what the usage calls a role. `count`: slots. `several`: all operands before `--` are roles. An exit code;
 * 0: go on. */
int ten_role_work_configure(ten_arguments *arguments, const char *noun, uint32_t count, bool several,
                            ten_leader_config *config);
/* Runs it to its end. The exit code. */
int ten_role_work_run(const ten_arguments *arguments, ten_leader_config *config);

#endif
