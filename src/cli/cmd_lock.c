/*
 * tenure lock: a command under a lock, a semaphore's slot, or several locks at once.
 */
#include "cli/commands.h"
#include "cli/role_work.h"

static uint32_t count = TEN_COUNT_NONE;
static bool no_wait;
static bool all;
static ten_leader_config config = {.once = true,
                                   .is_lock = true,
                                   .wait_ms = UINT64_MAX,
                                   .not_elected_exit = TEN_EXIT_HELD,
                                   .passes_status = true,
                                   .kill_after_ms = TEN_KILL_AFTER_MS};
static const ten_option options[] = {
    TEN_OPT_NUMBER("count", "N", &count,
                   "a semaphore: N hold it at a time, each in a slot of its own; TENURE_SLOT says which"),
    TEN_OPT_FLAG("all", &all, "several names: CMD runs when it has all of them"),
    TEN_OPT_DURATION("wait", "D", &config.wait_ms, "wait at most this long; default: without limit"),
    TEN_OPT_FLAG("no-wait", &no_wait, "exit with 4 at once if another has it"),
    TEN_OPT_ROLE_WORK(config),
    TEN_OPT_END,
};

static int run(ten_arguments *arguments) {
    if (no_wait && config.wait_ms != UINT64_MAX)
        return ten_arguments_usage(arguments, "--wait and --no-wait exclude each other");
    if (all && count != TEN_COUNT_NONE)
        return ten_arguments_usage(arguments, "--count and --all exclude each other");
    if (no_wait)
        config.wait_ms = 0;
    config.announces = all || no_wait ? TEN_ELECTION_SILENT : TEN_ELECTION_WAITING;
    int exit_code = ten_role_work_configure(arguments, "NAME", count, all, &config);
    return exit_code ? exit_code : ten_role_work_run(arguments, &config);
}

const ten_command ten_cmd_lock = {TEN_HELP_lock, .default_namespace = "lock", .quiet = true, .options = options,
                                  .run = run};
