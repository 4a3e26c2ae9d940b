/*
 * tenure once: a command that runs at most once across the fleet, for cron on every replica.
 */
#include "cli/commands.h"
#include "cli/role_work.h"

#define EXIT_MAX 255u

static uint64_t at_least_ms = UINT64_MAX;
static uint32_t not_elected_exit = TEN_EXIT_HELD;
static ten_leader_config config = {.once = true, .kill_after_ms = TEN_KILL_AFTER_MS};
static const ten_option options[] = {
    TEN_OPT_DURATION("at-least", "D", &at_least_ms,
                     "nobody else runs it before this has passed since its start; default the TTL"),
    TEN_OPT_DURATION("wait", "D", &config.wait_ms, "wait for the role up to this long; default 0s"),
    TEN_OPT_NUMBER("not-elected-exit", "N", &not_elected_exit,
                   "exit code when another has it or had it too lately; default 4"),
    TEN_OPT_ROLE_WORK(config),
    TEN_OPT_END,
};

static int run(ten_arguments *arguments) {
    if (not_elected_exit > EXIT_MAX)
        return ten_arguments_usage(arguments, "--not-elected-exit: an exit code is at most 255");
    int exit_code = ten_role_work_configure(arguments, "ROLE", TEN_COUNT_NONE, false, &config);
    if (exit_code)
        return exit_code;
    uint64_t longest_ms = ten_sub_saturating(TENURE_TTL_MAX_MS, arguments->timing.ttl_ms);
    if (at_least_ms == UINT64_MAX)
        at_least_ms = ten_min_u64(arguments->timing.ttl_ms, longest_ms);
    if (at_least_ms > longest_ms)
        return ten_arguments_usage(arguments, "--at-least is at most 366 days less the TTL");
    config.not_elected_exit = (int)not_elected_exit;
    config.at_least_ms = at_least_ms;
    return ten_role_work_run(arguments, &config);
}

const ten_command ten_cmd_once = {TEN_HELP_once, .default_namespace = "leader", .quiet = true, .options = options,
                                  .run = run};
