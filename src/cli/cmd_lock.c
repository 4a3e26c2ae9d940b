/*
 * tenure lock: a command under a lock, a semaphore's slot, or several locks at once.
 */
#include "cli/commands.h"
#include "cli/role_work.h"

int ten_cmd_lock(const ten_command *command, int argc, char **argv) {
    ten_session session;
    ten_leader_config config = {
        .once = true, .is_lock = true, .wait_ms = UINT64_MAX, .not_elected_exit = TEN_EXIT_HELD, .passes_status = true};
    ten_role_work work;
    uint32_t count = UINT32_MAX;
    bool no_wait = false;
    bool all = false;
    ten_option options[4 + TEN_ROLE_OPTIONS + 1] = {
        {"count", TEN_OPTION_NUMBER, &count, "N",
         "a semaphore: N hold it at a time, each in a slot of its own; TENURE_SLOT says which", NULL, NULL},
        {"all", TEN_OPTION_FLAG, &all, NULL, "several names: CMD runs when it has all of them", NULL, NULL},
        {"wait", TEN_OPTION_DURATION, &config.wait_ms, "D", "wait at most this long; default: without limit", NULL,
         NULL},
        {"no-wait", TEN_OPTION_FLAG, &no_wait, NULL, "exit with 4 at once if another has it", NULL, NULL},
    };
    ten_role_work_options(&work, options + 4);
    int exit_code;
    if (!ten_session_parse(&session, command, options, argc, argv, &exit_code))
        return exit_code;
    if (no_wait && config.wait_ms != UINT64_MAX)
        return ten_session_usage(&session, "--wait and --no-wait exclude each other");
    if (all && count != UINT32_MAX)
        return ten_session_usage(&session, "--count and --all exclude each other");
    if (count == 0)
        return ten_session_usage(&session, "--count must be between 1 and %u", TEN_ELECTION_SLOTS_MAX);
    if (no_wait)
        config.wait_ms = 0;
    work.noun = "NAME";
    work.count = count == UINT32_MAX ? 0 : count;
    work.several = all;
    config.announces = all || no_wait ? TEN_ELECTION_SILENT : TEN_ELECTION_WAITING;
    exit_code = ten_role_work_configure(&session, &work, &config);
    return exit_code ? exit_code : ten_role_work_run(&session, &config);
}
