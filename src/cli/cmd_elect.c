/*
 * tenure elect: a command that runs while this instance leads a role; or, with --observe, who does.
 */
#include <stdio.h>
#include <string.h>

#include "agent/common/store_wait.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/role_work.h"
#include "cli/visible.h"

#define RETRY_US 500000u

/* ---- observing */

struct observer {
    const ten_arguments *arguments;
    tenure_leader last;
    bool told;
    bool down;
};

static void print_json(const ten_arguments *arguments, const tenure_leader *leader) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", arguments->operands[0]);
    ten_json_text(&line, "namespace", arguments->namespace_name);
    ten_json_text(&line, "instance", leader->instance[0] ? leader->instance : NULL);
    ten_json_number(&line, "token", leader->token);
    ten_json_text(&line, "state", leader->instance[0] ? "held" : "free");
    ten_json_time(&line, "acquired_at", leader->since_ms);
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}

static void print_words(const tenure_leader *leader) {
    ten_print_visible(stdout, leader->instance);
    printf("\t%llu\n", (unsigned long long)leader->token);
}

static int print_leader(const tenure_leader *leader, void *userdata) {
    struct observer *observer = userdata;
    if (observer->down)
        TEN_LOG(observer->arguments->log, TEN_LOG_INFO, "store_up",
                TEN_TEXT("target", observer->arguments->operands[0]));
    observer->down = false;
    bool same = observer->told && observer->last.token == leader->token &&
                strcmp(observer->last.instance, leader->instance) == 0;
    if (same) /* the observation began anew */
        return 0;
    observer->last = *leader;
    observer->told = true;
    if (observer->arguments->json)
        print_json(observer->arguments, leader);
    else if (leader->instance[0])
        print_words(leader);
    else
        printf("-\n");
    return fflush(stdout) == 0 ? 0 : 1;
}

static int observe(ten_arguments *arguments) {
    struct observer observer = {.arguments = arguments};
    int exit_code = ten_arguments_check_roles(arguments);
    arguments->needs_store = true;
    if (exit_code || !ten_arguments_open(arguments, &exit_code))
        return exit_code;
    int r;
    for (;;) {
        r = tenure_leader_observe(arguments->context, arguments->namespace_name, arguments->operands[0], print_leader,
                                  &observer);
        if (r >= 0 || !tenure_error_retryable(r) || r == TENURE_E_CANCELLED)
            break;
        /* A store that is out of reach for a while must not end what runs for weeks. */
        if (!observer.down)
            TEN_LOG(arguments->log, TEN_LOG_WARN, "store_down", TEN_TEXT("error", tenure_message(arguments->context)));
        observer.down = true;
        ten_sleep_us(RETRY_US);
        if (ten_command_signal())
            break;
    }
    bool failed = r < 0 && r != TENURE_E_CANCELLED && !ten_command_signal();
    return ten_arguments_close(arguments, failed ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE);
}

/* ---- leading */

int ten_cmd_elect(const ten_command *command, int argc, char **argv) {
    static const char *const restart_words[] = {"never", "on-failure", "always", NULL};
    ten_arguments arguments;
    ten_leader_config config = {0};
    ten_role_work work;
    int restart = TEN_RESTART_NEVER;
    bool observes = false;
    uint32_t count = UINT32_MAX;
    const char *leader_http = NULL;
    uint32_t priority = 0;
    uint64_t failback_ms = UINT64_MAX;
    config.healthy_every_ms = 10000;
    config.store_wait_ms = TEN_STORE_WAIT_FOR_EVER;
    ten_option options[11 + TEN_ROLE_OPTIONS + TEN_IDENTITY_OPTIONS + 1] = {
        {"restart", TEN_OPTION_CHOICE, &restart, "W",
         "never (default), on-failure or always: campaign again when CMD has exited", NULL, restart_words},
        {"on-elected", TEN_OPTION_TEXT, &config.on_elected, "CMD",
         "run before the command, by /bin/sh -c, for up to 10s", NULL, NULL},
        {"on-demoted", TEN_OPTION_TEXT, &config.on_demoted, "CMD",
         "run after the command, by /bin/sh -c, for up to 10s; TENURE_REASON says why", NULL, NULL},
        {"observe", TEN_OPTION_FLAG, &observes, NULL, "print the leader and every change; runs nothing", NULL, NULL},
        {"count", TEN_OPTION_NUMBER, &count, "N", "N lead at a time, each in a slot of its own; TENURE_SLOT says which",
         NULL, NULL},
        {"leader-http", TEN_OPTION_TEXT, &leader_http, "ADDR:PORT",
         "answer GET /leader with 200 while this instance leads, else with 503; for load balancers", NULL, NULL},
        {"priority", TEN_OPTION_NUMBER, &priority, "N",
         "of the candidates the one with the highest leads when the role becomes free; default 0", NULL, NULL},
        {"healthy", TEN_OPTION_TEXT, &config.healthy, "CMD",
         "run by /bin/sh -c now and then; while it does not exit with 0, this instance does not lead", NULL, NULL},
        {"healthy-every", TEN_OPTION_PERIOD, &config.healthy_every_ms, "D",
         "how often, and how long it may take; default 10s", NULL, NULL},
        {"failback", TEN_OPTION_DURATION, &failback_ms, "D",
         "step down for a higher priority that has been there this long; default: never", NULL, NULL},
        {"store-wait", TEN_OPTION_DURATION, &config.store_wait_ms, "D", TEN_STORE_WAIT_HELP, "TENURE_STORE_WAIT", NULL},
    };
    ten_role_work_options(&work, options + 11);
    ten_arguments_identity_options(&arguments, options + 11 + TEN_ROLE_OPTIONS);
    int exit_code;
    if (!ten_arguments_parse(&arguments, command, options, argc, argv, &exit_code))
        return exit_code;
    if (observes && arguments.count != 1)
        return ten_arguments_usage(&arguments, "--observe takes one role, and no command");
    arguments.store_wait_ms = config.store_wait_ms;
    if (observes)
        return observe(&arguments);
    if (count == 0)
        return ten_arguments_usage(&arguments, "--count must be between 1 and %u", TEN_ELECTION_SLOTS_MAX);
    work.count = count == UINT32_MAX ? 0 : count;
    config.announces = TEN_ELECTION_ALWAYS;
    config.leader_http = leader_http;
    config.priority = priority;
    config.failback_ms = failback_ms == UINT64_MAX ? 0 : failback_ms + 1;
    if (failback_ms != UINT64_MAX && work.count)
        return ten_arguments_usage(&arguments, "--failback and --count exclude each other");
    exit_code = ten_role_work_configure(&arguments, &work, &config);
    config.restart = (enum ten_restart)restart;
    return exit_code ? exit_code : ten_role_work_run(&arguments, &config);
}
