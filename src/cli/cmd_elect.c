/*
 * tenure elect: a command that runs while this instance leads a role; or, with --observe, who does.
 */
#include "agent/common/store_wait.h"
#include "cli/commands.h"
#include "cli/role_work.h"

/* ---- observing */

struct observer {
    const ten_arguments *arguments;
    tenure_leader last;
    bool printed; /* `last` */
    bool down;
};

static int print_leader(const tenure_leader *leader, void *userdata) {
    struct observer *observer = userdata;
    if (observer->down)
        TEN_LOG(observer->arguments->log, TEN_LOG_INFO, "store_up",
                TEN_TEXT("target", observer->arguments->operands[0]));
    observer->down = false;
    bool same = observer->printed && observer->last.token == leader->token &&
                strcmp(observer->last.instance, leader->instance) == 0;
    if (same) /* the observation began anew */
        return 0;
    observer->last = *leader;
    observer->printed = true;
    if (leader->instance[0] == '\0' && !observer->arguments->json)
        printf("-\n");
    else
        TEN_PRINT_ROW(observer->arguments->json, {NULL, "target", .text = observer->arguments->operands[0]},
                      {NULL, "namespace", .text = observer->arguments->namespace_name},
                      {"INSTANCE", "instance", .text = ten_or_null(leader->instance)},
                      {"TOKEN", "token", TEN_COLUMN_NUMBER, .number = leader->token},
                      {NULL, "state", .text = leader->instance[0] ? "held" : "free"},
                      {NULL, "acquired_at", TEN_COLUMN_TIME, .number = leader->since_ms});
    return fflush(stdout) == 0 ? 0 : 1;
}

static int observe(ten_arguments *arguments) {
    struct observer observer = {.arguments = arguments};
    int exit_code = ten_arguments_check_roles(arguments);
    arguments->needs_store = true;
    if (exit_code || !ten_arguments_open(arguments, &exit_code))
        return exit_code;
    int r;
    do {
        r = tenure_leader_observe(arguments->context, arguments->namespace_name, arguments->operands[0], print_leader,
                                  &observer);
    } while (r < 0 && ten_arguments_retry(arguments, r, &observer.down));
    bool failed = r < 0 && r != TENURE_E_CANCELLED && !ten_command_signal();
    return ten_arguments_close(arguments, failed ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE);
}

/* ---- leading */

static bool observes;
static uint32_t count = TEN_COUNT_NONE;
static uint32_t priority;
static uint64_t failback_ms = UINT64_MAX;
static ten_leader_config config = {.runner.store_wait_ms = TEN_STORE_WAIT_FOR_EVER,
                                   .runner.healthy_every_ms = 10000,
                                   .kill_after_ms = TEN_KILL_AFTER_MS,
                                   .announces = TEN_ELECTION_ALWAYS};
static const ten_option options[] = {
    TEN_OPT_CHOICE("restart", &config.restart,
                   "never (default), on-failure or always: campaign again when CMD has exited", "never", "on-failure",
                   "always"),
    TEN_OPT_TEXT("on-elected", "CMD", &config.on_elected, "run before the command, by /bin/sh -c, for up to 10s"),
    TEN_OPT_TEXT("on-demoted", "CMD", &config.on_demoted,
                 "run after the command, by /bin/sh -c, for up to 10s; TENURE_REASON says why"),
    TEN_OPT_FLAG("observe", &observes, "print the leader and every change; runs nothing"),
    TEN_OPT_NUMBER("count", "N", &count, "N lead at a time, each in a slot of its own; TENURE_SLOT says which"),
    TEN_OPT_TEXT("leader-http", "ADDR:PORT", &config.leader_http,
                 "answer GET /leader with 200 while this instance leads, else with 503; for load balancers"),
    TEN_OPT_NUMBER("priority", "N", &priority,
                   "of the candidates the one with the highest leads when the role becomes free; default 0"),
    TEN_OPT_HEALTHY(&config.runner.healthy, "this instance does not lead"),
    TEN_OPT_HEALTHY_EVERY(&config.runner.healthy_every_ms),
    TEN_OPT_DURATION("failback", "D", &failback_ms,
                     "step down for a higher priority that has been there this long; default: never"),
    TEN_OPT_STORE_WAIT(&config.runner.store_wait_ms),
    TEN_OPT_ROLE_WORK(config),
    TEN_OPT_IDENTITY,
    TEN_OPT_END,
};

static int run(ten_arguments *arguments) {
    if (observes && arguments->count != 1)
        return ten_arguments_usage(arguments, "--observe takes one role, and no command");
    arguments->store_wait_ms = config.runner.store_wait_ms;
    if (observes)
        return observe(arguments);
    if (failback_ms != UINT64_MAX && count != TEN_COUNT_NONE)
        return ten_arguments_usage(arguments, "--failback and --count exclude each other");
    config.priority = priority;
    config.failback_ms = failback_ms == UINT64_MAX ? 0 : failback_ms + 1;
    int exit_code = ten_role_work_configure(arguments, "ROLE", count, false, &config);
    return exit_code ? exit_code : ten_role_work_run(arguments, &config);
}

const ten_command ten_cmd_elect = {TEN_HELP_elect, .default_namespace = "leader", .options = options, .run = run};
