/*
 * What elect, once and lock have in common. Called by cmd_elect.c, cmd_once.c and cmd_lock.c.
 */
#include "cli/role_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fleet_work.h"
#include "cli/visible.h"

/* An exit code; 0: there are a role and a command, and the first word of the command is not taken for the role. */
static int check_arguments(const ten_arguments *arguments, const char *what, bool several) {
    int roles = arguments->before >= 0 ? arguments->before : arguments->count > 0;
    if (arguments->before == 0)
        return ten_arguments_usage(arguments, "%s is missing before --", what);
    if (arguments->count == 0)
        return ten_arguments_usage(arguments, "%s is missing", what);
    if (several && arguments->before < 0)
        return ten_arguments_usage(arguments, "there is no -- between the names and the command: --all A B -- CMD");
    if (arguments->count <= roles)
        return ten_arguments_usage(arguments,
                                   "there is no command to run: write it after --, as in 'tenure %s %s -- CMD'",
                                   arguments->command->name, arguments->operands[0]);
    if (roles > 1 && !several)
        return ten_arguments_usage(arguments, "unexpected argument '%.100s' before --: there is one %s",
                                   arguments->operands[1], what);
    return TEN_EXIT_DONE;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Everybody takes several roles in the same order, so that no two wait for each other. An exit code. */
static int take_roles(ten_arguments *arguments, ten_leader_config *config) {
    int count = arguments->count;
    if (count > TEN_ROLES_MAX)
        return ten_arguments_usage(arguments, "--all takes at most %d names, and there are %d", TEN_ROLES_MAX, count);
    qsort(arguments->operands, (size_t)count, sizeof *arguments->operands, by_name);
    static char names[TEN_ROLES_MAX * (TENURE_TARGET_MAX + 1) + 1];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && strcmp(arguments->operands[i], arguments->operands[i - 1]) == 0)
            return ten_arguments_usage(arguments, "'%.100s' is given twice", arguments->operands[i]);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "", arguments->operands[i]);
    }
    config->all = (const char *const *)arguments->operands;
    config->all_count = (uint32_t)count;
    config->role = names;
    return TEN_EXIT_DONE;
}

int ten_role_work_configure(ten_arguments *arguments, const char *noun, uint32_t count, bool several,
                            ten_leader_config *config) {
    config->count = count == TEN_COUNT_NONE ? 0 : count;
    int exit_code = check_arguments(arguments, noun, several);
    if (exit_code == TEN_EXIT_DONE)
        exit_code = ten_arguments_check(arguments);
    if (exit_code)
        return exit_code;
    int roles = several ? arguments->before : 1;
    arguments->operands[arguments->count] = NULL;
    config->command = arguments->operands + roles;
    config->role = arguments->operands[0];
    arguments->count = roles;
    exit_code = ten_arguments_check_roles(arguments);
    if (exit_code == TEN_EXIT_DONE && several)
        exit_code = take_roles(arguments, config);
    if (exit_code)
        return exit_code;
    if (count == 0 || config->count > TEN_ELECTION_SLOTS_MAX)
        return ten_arguments_usage(arguments, "--count must be between 1 and %u", TEN_ELECTION_SLOTS_MAX);
    if (config->count && strlen(config->role) > TEN_SLOT_ROLE_MAX)
        return ten_arguments_usage(arguments, "with --count the name has at most %u bytes", TEN_SLOT_ROLE_MAX);
    if (config->once) { /* elect has an option of its own */
        ten_arguments_set_wait(arguments, config->wait_ms);
        config->runner.store_wait_ms = config->wait_ms;
    }
    return ten_command_configure(arguments, &config->runner);
}

static int work_on(ten_shared *shared, void *userdata) {
    ten_error error = {0};
    int exit_code;
    int r = ten_leader_run(userdata, shared, &exit_code, &error);
    if (r == TENURE_OK)
        return exit_code;
    ten_say(error.message);
    return ten_exit_code(r);
}

int ten_role_work_run(const ten_arguments *arguments, ten_leader_config *config) {
    return ten_command_run_work(arguments, &config->runner,
                                &(ten_warden_config){.work = work_on,
                                                     .userdata = config,
                                                     .one_shot = config->once,
                                                     .lost_exit = TEN_EXIT_LOST,
                                                     .pass_signals = true});
}
