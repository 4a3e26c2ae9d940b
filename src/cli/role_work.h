/*
 * What elect, once and lock have in common: a command under a lease, in a worker, under a warden.
 */
#ifndef TEN_CLI_ROLE_WORK_H
#define TEN_CLI_ROLE_WORK_H

#include "agent/runner/leader.h"
#include "cli/arguments.h"

/* Options that both have, ending with an empty one; they are set in `work`. */
typedef struct ten_role_work {
    uint64_t grace_ms; /* 0: not given */
    uint64_t kill_after_ms;
    int on_uncertain;
    int pid_namespace;
    const char *metrics;
    /* Set by the command after ten_role_work_options(). */
    const char *noun; /* what the usage calls a role */
    uint32_t count;   /* slots; 0: none */
    bool several;     /* all arguments before `--` are roles */
} ten_role_work;

#define TEN_ROLES_MAX     64
#define TEN_SLOT_ROLE_MAX (TENURE_TARGET_MAX - 11u) /* its slots are targets, too */

#define TEN_ROLE_OPTIONS 5u
void ten_role_work_options(ten_role_work *work, ten_option options[TEN_ROLE_OPTIONS]);

/* Takes the role and the command from the operands, checks, and fills in what the options say. An exit code; 0: go
 * on.
 */
int ten_role_work_configure(ten_arguments *arguments, const ten_role_work *work, ten_leader_config *config);
/* Runs it to its end. The exit code. */
int ten_role_work_run(const ten_arguments *arguments, ten_leader_config *config);

#endif
