/*
 * What every command starts and ends with. Called by the cmd_NAME.c files. Only src/cli prints and exits.
 */
#include "cli/arguments.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/server_probe.h"
#include "agent/common/store_wait.h"
#include "base/id.h"
#include "base/io.h"
#include "base/url.h"
#include "cli/find.h"
#include "cli/visible.h"
#include "runtime/context.h"
#include "runtime/metadata.h"

#define LOG_FLUSH_MS  1000u
#define RETRY_US      500000u
#define ANSWER_MIN_MS 1000u /* a store that is far away needs some time to answer */

static const char *const log_formats[] = {"text", "json", "human", NULL}; /* as enum ten_log_format */
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

struct ten_identity ten_identity;

/* What the common options are written to. There is one command line. */
static ten_arguments given;
static char namespace_help[64]; /* these two say what is the command's default */
static char level_help[64];

static const ten_option common[] = {
    TEN_OPT_ENV(TEN_OPTION_TEXT, "store", "URL", &given.store, "TENURE_STORE",
                "where the leases live; default sqlite: in $XDG_STATE_HOME/tenure"),
    TEN_OPT_ENV(TEN_OPTION_TEXT, "namespace", "NS", &given.namespace_name, "TENURE_NAMESPACE", namespace_help),
    TEN_OPT_ENV(TEN_OPTION_PERIOD, "ttl", "D", &given.timing.ttl_ms, "TENURE_TTL",
                "how long a lease lasts unrenewed; default 30s"),
    TEN_OPT_ENV(TEN_OPTION_PERIOD, "renew", "D", &given.timing.renew_ms, "TENURE_RENEW",
                "time between renewals; default TTL / 3"),
    TEN_OPT_PERIOD("margin", "D", &given.timing.margin_ms,
                   "stop working this long before the lease ends; default TTL / 8, at least 20ms"),
    TEN_OPT_ENV(TEN_OPTION_TEXT, "name", "NAME", &given.name, "TENURE_NAME",
                "first part of the instance id; default the host's name"),
    {"log-format", TEN_OPTION_CHOICE, &given.log_format, "F",
     "human, text or json; default human on a terminal, else text", "TENURE_LOG_FORMAT", log_formats},
    {"log-level", TEN_OPTION_CHOICE, &given.log_level, "L", level_help, "TENURE_LOG_LEVEL", log_levels},
    TEN_OPT_FLAG("quiet", &given.quiet, "log and say errors only; also -q"),
    TEN_OPT_FLAG("verbose", &given.verbose, "log more; also -v"),
    TEN_OPT_FLAG("json", &given.json, "print JSON, one object a line"),
    TEN_OPT_END,
};
static const ten_option no_options[] = {TEN_OPT_END};

static const char *default_namespace(const ten_command *command) {
    return command->default_namespace ? command->default_namespace : "poll";
}

static void print_help(const ten_command *command) {
    snprintf(namespace_help, sizeof namespace_help, "the set of targets; default %s", default_namespace(command));
    snprintf(level_help, sizeof level_help, "error, warn, info or debug; default %s", command->quiet ? "warn" : "info");
    printf("usage: tenure %s%s%s\n\n%s.\n", command->name, command->usage[0] ? " " : "", command->usage,
           command->summary);
    if (command->details)
        printf("\n%s\n", command->details);
    if (command->options && command->options->help) {
        printf("\nOptions:\n");
        ten_options_print(command->options);
    }
    printf("\nCommon options (with their environment variables):\n");
    ten_options_print(common);
}

/* ---- saying */

int ten_arguments_usage(const ten_arguments *arguments, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ten_say(text);
    fprintf(stderr, "usage: tenure %s %s\n'tenure %s --help' explains the options\n", arguments->command->name,
            arguments->command->usage, arguments->command->name);
    return TEN_EXIT_USAGE;
}

int ten_arguments_check_rules(const ten_arguments *arguments, const ten_rule *rules, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (rules[i].is_broken)
            return ten_arguments_usage(arguments, "%s", rules[i].says);
    return TEN_EXIT_DONE;
}

void ten_arguments_note(const ten_arguments *arguments, const char *format, ...) {
    char text[800];
    va_list args;
    if (arguments->quiet)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ten_say(text);
}

int ten_exit_code(int error) {
    switch (error) {
    case TENURE_OK:
        return TEN_EXIT_DONE;
    case TENURE_E_INVALID:
    case TENURE_E_TTL:
    case TENURE_E_TOO_MANY:
        return TEN_EXIT_USAGE;
    case TENURE_E_TIMEOUT:
    case TENURE_E_UNREACHABLE:
    case TENURE_E_STORE:
    case TENURE_E_FULL:
    case TENURE_E_DENIED:
        return TEN_EXIT_STORE;
    case TENURE_E_HELD:
        return TEN_EXIT_HELD;
    case TENURE_E_LOST:
        return TEN_EXIT_LOST;
    case TENURE_E_CANCELLED:
        return ten_command_signal() ? 128 + ten_command_signal() : TEN_EXIT_FAILED;
    default:
        return TEN_EXIT_FAILED;
    }
}

/* What the failed call said; in its place, if another kind of server answers at the store's address, which one. */
static const char *explain(const ten_arguments *arguments, int error, ten_error *room) {
    if (ten_store_wait_helps(arguments->store, error) && ten_server_probe(arguments->store, error, room))
        return room->message;
    const char *message = tenure_message(arguments->context);
    return message[0] ? message : tenure_strerror(error);
}

int ten_arguments_error(const ten_arguments *arguments, int error) {
    ten_error room;
    /* The user who pressed ^C knows. */
    if (error != TENURE_E_CANCELLED)
        ten_say(explain(arguments, error, &room));
    return ten_exit_code(error);
}

/* ---- signals */

static volatile sig_atomic_t received;
static tenure_context *volatile waiting_context;

static void on_signal(int number) {
    received = number;
    if (waiting_context)
        tenure_cancel(waiting_context);
}

int ten_command_signal(void) {
    return received;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup asked for it to be ignored. */
    struct sigaction before;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
    /* A reader that went away is an error of the write, not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
}

static void hold_hangup(void) {
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, NULL);
}

/* ---- start and end */

/* False: end with *ret_exit (help was asked for, or the usage is wrong and has been said). */
static bool parse(ten_arguments *arguments, const ten_command *command, int argc, char **argv, int *ret_exit) {
    *arguments = (ten_arguments){
        .command = command, .log_format = -1, .log_level = command->quiet ? TEN_LOG_WARN : TEN_LOG_INFO};
    const ten_option *arrays[] = {command->options ? command->options : no_options, common, NULL};
    ten_error error;
    bool help = false;
    if (ten_options_parse(arrays, argc, argv, &arguments->count, &arguments->before, &help, &error) < 0) {
        *ret_exit = ten_arguments_usage(arguments, "%s", error.message);
        return false;
    }
    if (arguments->log_format < 0)
        arguments->log_format = isatty(STDERR_FILENO) ? TEN_LOG_HUMAN : TEN_LOG_TEXT;
    if (arguments->quiet)
        arguments->log_level = TEN_LOG_ERROR;
    else if (arguments->verbose)
        arguments->log_level = command->quiet && arguments->log_level < TEN_LOG_INFO ? TEN_LOG_INFO : TEN_LOG_DEBUG;
    if (arguments->quiet && arguments->verbose) {
        *ret_exit = ten_arguments_usage(arguments, "--quiet and --verbose exclude each other");
        return false;
    }
    if (help) {
        print_help(command);
        *ret_exit = fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
        return false;
    }
    arguments->operands = argv;
    arguments->needs_store = command->store == TEN_STORE_EXISTING;
    arguments->namespace_is_default = !arguments->namespace_name;
    if (arguments->namespace_is_default)
        arguments->namespace_name = default_namespace(command);
    return true;
}

static int check_ids(const ten_arguments *arguments, int first, int end, int (*check)(const char *, ten_error *)) {
    ten_error error;
    for (int i = first; i < end; i++) {
        if (check(arguments->operands[i], &error) < 0) {
            ten_say(error.message);
            return TEN_EXIT_USAGE;
        }
    }
    return TEN_EXIT_DONE;
}

int ten_arguments_check_targets(const ten_arguments *arguments, int first, int end) {
    return check_ids(arguments, first, end, ten_id_check_target);
}

int ten_arguments_check_roles(const ten_arguments *arguments) {
    return check_ids(arguments, 0, arguments->count, ten_id_check_role);
}

void ten_arguments_join(ten_arguments *arguments, int at, char room[TENURE_HOLDER_MAX + 1]) {
    if (arguments->count != at + 2)
        return;
    snprintf(room, TENURE_HOLDER_MAX + 1, "%s %s", arguments->operands[at], arguments->operands[at + 1]);
    arguments->operands[at] = room;
    arguments->count--;
}

/* Options that this command does not use are checked too, so that a mistake is reported early. */
static int check_timing(const ten_arguments *arguments, ten_error *error) {
    ten_timing timing = arguments->timing;
    ten_timing_defaults(&timing);
    return ten_timing_check(&timing, TENURE_TTL_MIN_MS, NULL, error);
}

static int check_store(const ten_arguments *arguments, ten_error *error) {
    /* Often an unset variable of a script. The default store would be one of this host alone. */
    if (arguments->store && arguments->store[0] == '\0')
        return ten_fail(error, TENURE_E_INVALID, "--store is empty: name a store, or leave the option out");
    if (arguments->store && strncmp(arguments->store, "memory:", 7) == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "the store memory: lives inside one process and would end with this command; use sqlite:PATH");
    return TENURE_OK;
}

static int check_all(const ten_arguments *arguments, ten_error *error) {
    int r = check_timing(arguments, error);
    TEN_STEP(r, check_store(arguments, error));
    TEN_STEP(r, ten_id_check_namespace(arguments->namespace_name, error));
    if (r == TENURE_OK && arguments->name)
        r = ten_id_check_instance_name(arguments->name, error);
    tenure_options options = ten_arguments_options(arguments);
    TEN_CLEANUP(ten_buf_free) ten_buf members = {0};
    TEN_STEP(r, ten_metadata_identity(&options, &members, error));
    return r;
}

int ten_arguments_check(const ten_arguments *arguments) {
    ten_error error;
    int r = check_all(arguments, &error);
    if (r < 0)
        ten_say(error.message);
    return ten_exit_code(r);
}

void ten_arguments_open_log(ten_arguments *arguments, const char *instance) {
    ten_error error;
    ten_log_config config = {.fd = STDERR_FILENO,
                             .format = (enum ten_log_format)arguments->log_format,
                             .level = (enum ten_log_level)arguments->log_level,
                             .clock = &ten_system_clock,
                             .instance = instance,
                             .namespace_name = arguments->namespace_name};
    if (ten_log_open(&config, &arguments->log, &error) < 0)
        ten_say(error.message); /* lease work does not need a log */
}

void ten_arguments_set_wait(ten_arguments *arguments, uint64_t wait_ms) {
    arguments->store_wait_ms = wait_ms;
    ten_timing_defaults(&arguments->timing);
    uint64_t answer_ms = ten_max_u64(wait_ms, ANSWER_MIN_MS);
    if (answer_ms < arguments->timing.timeout_ms)
        arguments->answer_ms = answer_ms;
}

tenure_options ten_arguments_options(const ten_arguments *arguments) {
    return (tenure_options){.size = sizeof(tenure_options),
                            .namespace_name = arguments->namespace_name,
                            .instance_name = arguments->name,
                            .ttl_ms = arguments->timing.ttl_ms,
                            .renew_ms = arguments->timing.renew_ms,
                            .margin_ms = arguments->timing.margin_ms,
                            .timeout_ms = arguments->answer_ms,
                            .address = ten_identity.address,
                            .labels = ten_identity.labels.items,
                            .label_count = ten_identity.labels.count};
}

/* A command that works on what is there must not answer a mistyped path with an empty store. */
static int check_store_exists(const ten_arguments *arguments, ten_error *error) {
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    ten_error unused;
    if (!arguments->needs_store || !arguments->store || strncmp(arguments->store, "sqlite:", 7) != 0 ||
        ten_url_parse(arguments->store, &url, &unused) < 0)
        return TENURE_OK; /* if the URL is wrong, opening the store reports it */
    static const char *const known[] = {"timeout", NULL};
    if (url.path && url.path[0] && !url.hosts && ten_url_check_options(&url, known, &unused) == TENURE_OK &&
        access(url.path, F_OK) != 0 && errno == ENOENT)
        return ten_fail(
            error, TENURE_E_UNREACHABLE,
            "there is no store at %.300s: No such file or directory; check the path ('tenure lock', 'target add' and "
            "others create it)",
            url.path);
    return TENURE_OK;
}

bool ten_arguments_actor(char actor[TENURE_HOLDER_MAX + 1]) {
    char host[256];
    const struct passwd *user = getpwuid(geteuid());
    const char *sudo = getenv("SUDO_USER");
    const char *name = sudo && sudo[0] ? sudo : user ? user->pw_name : "?";
    ten_error error;
    if (gethostname(host, sizeof host) != 0)
        return false;
    host[sizeof host - 1] = '\0';
    snprintf(actor, TENURE_HOLDER_MAX + 1, "%.100s@%.150s", name, host);
    return ten_id_check_holder(actor, &error) == TENURE_OK;
}

static bool was_interrupted(void *userdata) {
    (void)userdata;
    return received != 0;
}

static int open_context(ten_arguments *arguments, ten_error *error) {
    tenure_options options = ten_arguments_options(arguments);
    ten_store_wait wait = {
        .store = arguments->store, .wait_ms = arguments->store_wait_ms, .is_stopped = was_interrupted};
    catch_signals();
    if (arguments->store_wait_ms)
        return ten_store_wait_open(&wait, &options, &arguments->context, error);
    int r = tenure_open(arguments->store, &options, &arguments->context);
    ten_error room;
    return r < 0 ? ten_fail(error, r, "%s", explain(arguments, r, &room)) : TENURE_OK;
}

bool ten_arguments_try_open(ten_arguments *arguments, int *ret_exit) {
    char actor[TENURE_HOLDER_MAX + 1];
    int r = check_all(arguments, &arguments->failure);
    TEN_STEP(r, check_store_exists(arguments, &arguments->failure));
    TEN_STEP(r, open_context(arguments, &arguments->failure));
    if (r < 0) {
        *ret_exit = ten_exit_code(r);
        return false;
    }
    waiting_context = arguments->context;
    if (ten_arguments_actor(actor))
        ten_context_set_actor(arguments->context, actor);
    ten_arguments_open_log(arguments, tenure_instance_id(arguments->context));
    return true;
}

bool ten_arguments_open(ten_arguments *arguments, int *ret_exit) {
    bool opened = ten_arguments_try_open(arguments, ret_exit);
    if (!opened && arguments->failure.code != TENURE_E_CANCELLED)
        ten_say(arguments->failure.message);
    return opened;
}

int ten_arguments_close(ten_arguments *arguments, int exit_code) {
    waiting_context = NULL;
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_code == TEN_EXIT_DONE) {
        if (errno != EPIPE)
            ten_say("cannot write to standard output");
        exit_code = TEN_EXIT_FAILED;
    }
    (void)tenure_close(arguments->context);
    ten_log_close(arguments->log, LOG_FLUSH_MS);
    arguments->context = NULL;
    arguments->log = NULL;
    return exit_code;
}

bool ten_arguments_retry(const ten_arguments *arguments, int error, bool *down) {
    if (!tenure_error_retryable(error) || error == TENURE_E_CANCELLED)
        return false;
    if (!*down)
        TEN_LOG(arguments->log, TEN_LOG_WARN, "store_down", TEN_TEXT("error", tenure_message(arguments->context)));
    *down = true;
    ten_sleep_us(RETRY_US);
    return ten_command_signal() == 0;
}

/* ---- a command with its steps */

/* Ids come last: a command's own check may have joined or counted its operands. */
static int check_operands(ten_arguments *arguments) {
    static const struct {
        int least;
        int most;
        const char *words;
        int (*check)(const char *, ten_error *);
    } rules[] = {[TEN_TAKES_WHAT_IT_CHECKS] = {0, INT_MAX, "", NULL},
                 [TEN_TAKES_NOTHING] = {0, 0, "takes no arguments", NULL},
                 [TEN_TAKES_TARGET] = {1, 1, "takes one target id", ten_id_check_target},
                 [TEN_TAKES_TARGETS] = {0, INT_MAX, "", ten_id_check_target},
                 [TEN_TAKES_ROLE] = {1, 1, "takes one role", ten_id_check_role}};
    const ten_command *command = arguments->command;
    int exit_code = TEN_EXIT_DONE;
    if (arguments->count < rules[command->takes].least || arguments->count > rules[command->takes].most)
        return ten_arguments_usage(arguments, "%s %s", command->name, rules[command->takes].words);
    if (command->check)
        exit_code = command->check(arguments);
    if (exit_code == TEN_EXIT_DONE && rules[command->takes].check)
        exit_code = check_ids(arguments, 0, arguments->count, rules[command->takes].check);
    return exit_code;
}

int ten_command_run(const ten_command *command, int argc, char **argv) {
    ten_arguments *arguments = &given;
    int exit_code;
    if (command->run_unparsed)
        return command->run_unparsed(argc, argv);
    if (command->reloads)
        hold_hangup();
    if (!parse(arguments, command, argc, argv, &exit_code))
        return exit_code;
    exit_code = check_operands(arguments);
    if (exit_code != TEN_EXIT_DONE || command->store == TEN_STORE_NONE)
        return exit_code != TEN_EXIT_DONE ? exit_code : command->run(arguments);
    if (!ten_arguments_open(arguments, &exit_code))
        return exit_code;
    bool is_here = !command->wants || arguments->count == 0 ||
                   ten_find_namespace(arguments, command->wants, arguments->operands[0], 0, &exit_code);
    return ten_arguments_close(arguments, is_here ? command->run(arguments) : exit_code);
}
