/*
 * tenure once: a command that runs at most once across the fleet, for cron on every replica.
 */
#include "cli/commands.h"
#include "cli/role_work.h"

#define EXIT_MAX 255u

int ten_cmd_once(const ten_command *command, int argc, char **argv) {
    ten_arguments arguments;
    ten_leader_config config = {.once = true};
    ten_role_work work;
    uint64_t at_least_ms = UINT64_MAX;
    uint32_t not_elected_exit = TEN_EXIT_HELD;
    ten_option options[3 + TEN_ROLE_OPTIONS + 1] = {
        {"at-least", TEN_OPTION_DURATION, &at_least_ms, "D",
         "nobody else runs it before this has passed since its start; default the TTL", NULL, NULL},
        {"wait", TEN_OPTION_DURATION, &config.wait_ms, "D", "wait for the role up to this long; default 0s", NULL,
         NULL},
        {"not-elected-exit", TEN_OPTION_NUMBER, &not_elected_exit, "N",
         "exit code when another has it or had it too lately; default 4", NULL, NULL},
    };
    ten_role_work_options(&work, options + 3);
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (not_elected_exit > EXIT_MAX)
        return ten_arguments_usage(&arguments, "--not-elected-exit: an exit code is at most 255");
    exit_code = ten_role_work_configure(&arguments, &work, &config);
    if (exit_code)
        return exit_code;
    uint64_t longest_ms = ten_sub_saturating(TENURE_TTL_MAX_MS, arguments.timing.ttl_ms);
    if (at_least_ms == UINT64_MAX)
        at_least_ms = ten_min_u64(arguments.timing.ttl_ms, longest_ms);
    if (at_least_ms > longest_ms)
        return ten_arguments_usage(&arguments, "--at-least is at most 366 days less the TTL");
    config.not_elected_exit = (int)not_elected_exit;
    config.at_least_ms = at_least_ms;
    return ten_role_work_run(&arguments, &config);
}
