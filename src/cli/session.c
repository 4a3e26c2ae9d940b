/*
 * What every command starts and ends with. Called by the cmd_NAME.c files. Only src/cli prints and exits.
 */
#include "cli/session.h"

#include <errno.h>
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
#include "base/url.h"
#include "cli/visible.h"
#include "runtime/context.h"
#include "runtime/metadata.h"

#define LOG_FLUSH_MS  1000u
#define ANSWER_MIN_MS 1000u /* a store that is far away needs some time to answer */

static const char *const log_formats[] = {"text", "json", "human", NULL}; /* as enum ten_log_format */
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

#define COMMON_COUNT 12
static void common_options(ten_session *s, ten_option options[COMMON_COUNT]) {
    static char namespace_help[64];
    snprintf(namespace_help, sizeof namespace_help, "the set of targets; default %s", s->command->default_namespace);
    const ten_option common[COMMON_COUNT] = {
        {"store", TEN_OPTION_TEXT, &s->store, "URL", "where the leases live; default sqlite: in $XDG_STATE_HOME/tenure",
         "TENURE_STORE", NULL},
        {"namespace", TEN_OPTION_TEXT, &s->namespace_name, "NS", namespace_help, "TENURE_NAMESPACE", NULL},
        {"ttl", TEN_OPTION_PERIOD, &s->timing.ttl_ms, "D", "how long a lease lasts unrenewed; default 30s",
         "TENURE_TTL", NULL},
        {"renew", TEN_OPTION_PERIOD, &s->timing.renew_ms, "D", "time between renewals; default TTL / 3", "TENURE_RENEW",
         NULL},
        {"margin", TEN_OPTION_PERIOD, &s->timing.margin_ms, "D",
         "stop working this long before the lease ends; default TTL / 8, at least 20ms", NULL, NULL},
        {"name", TEN_OPTION_TEXT, &s->name, "NAME", "first part of the instance id; default the host's name",
         "TENURE_NAME", NULL},
        {"log-format", TEN_OPTION_CHOICE, &s->log_format, "F",
         "human, text or json; default human on a terminal, else text", "TENURE_LOG_FORMAT", log_formats},
        {"log-level", TEN_OPTION_CHOICE, &s->log_level, "L",
         s->command->quiet ? "error, warn, info or debug; default warn" : "error, warn, info or debug; default info",
         "TENURE_LOG_LEVEL", log_levels},
        {"quiet", TEN_OPTION_FLAG, &s->quiet, NULL, "log and say errors only; also -q", NULL, NULL},
        {"verbose", TEN_OPTION_FLAG, &s->verbose, NULL, "log more; also -v", NULL, NULL},
        {"json", TEN_OPTION_FLAG, &s->json, NULL, "print JSON, one object a line", NULL, NULL},
        {NULL, TEN_OPTION_FLAG, NULL, NULL, NULL, NULL, NULL},
    };
    memcpy(options, common, sizeof common);
}

void ten_session_identity_options(ten_session *session, ten_option options[TEN_IDENTITY_OPTIONS]) {
    options[0] = (ten_option){"address",
                              TEN_OPTION_TEXT,
                              &session->address,
                              "HOST:PORT",
                              "where this instance can be reached, for 'tenure owner'",
                              "TENURE_ADDRESS",
                              NULL};
    options[1] = (ten_option){"label",
                              TEN_OPTION_LIST,
                              &session->labels,
                              "K=V",
                              "anything else to know about this instance; repeatable",
                              NULL,
                              NULL};
}

static const ten_option no_options[] = {{.name = NULL}};

void ten_session_help(const ten_command *command, const ten_option *own) {
    ten_session shown = {.command = command};
    ten_option common[COMMON_COUNT];
    common_options(&shown, common);
    printf("usage: tenure %s %s\n\n%s.\n", command->name, command->usage, command->summary);
    if (command->details)
        printf("\n%s\n", command->details);
    if (own && own->name) {
        printf("\nOptions:\n");
        ten_options_print(own);
    }
    printf("\nCommon options (with their environment variables):\n");
    ten_options_print(common);
}

/* ---- saying */

int ten_session_usage(const ten_session *session, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ten_say(text);
    fprintf(stderr, "usage: tenure %s %s\n'tenure %s --help' explains the options\n", session->command->name,
            session->command->usage, session->command->name);
    return TEN_EXIT_USAGE;
}

void ten_session_note(const ten_session *session, const char *format, ...) {
    char text[800];
    va_list args;
    if (session->quiet)
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
        return ten_session_signal() ? 128 + ten_session_signal() : TEN_EXIT_FAILED;
    default:
        return TEN_EXIT_FAILED;
    }
}

/* What the failed call said; in its place, if another kind of server answers at the store's address, which one. */
static const char *explain(const ten_session *session, int error, ten_error *room) {
    if (ten_store_wait_helps(session->store, error) && ten_server_probe(session->store, error, room))
        return room->message;
    const char *message = tenure_message(session->context);
    return message[0] ? message : tenure_strerror(error);
}

int ten_session_error(const ten_session *session, int error) {
    ten_error room;
    /* The user who pressed ^C knows. */
    if (error != TENURE_E_CANCELLED)
        ten_say(explain(session, error, &room));
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

int ten_session_signal(void) {
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

void ten_session_hold_hangup(void) {
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, NULL);
}

/* ---- start and end */

bool ten_session_parse(ten_session *session, const ten_command *command, const ten_option *own, int argc, char **argv,
                       int *ret_exit) {
    *session =
        (ten_session){.command = command, .log_format = -1, .log_level = command->quiet ? TEN_LOG_WARN : TEN_LOG_INFO};
    ten_option common[COMMON_COUNT];
    common_options(session, common);
    const ten_option *arrays[] = {own ? own : no_options, common, NULL};
    ten_error error;
    bool help = false;
    if (ten_options_parse(arrays, argc, argv, &session->count, &session->before, &help, &error) < 0) {
        *ret_exit = ten_session_usage(session, "%s", error.message);
        return false;
    }
    if (session->log_format < 0)
        session->log_format = isatty(STDERR_FILENO) ? TEN_LOG_HUMAN : TEN_LOG_TEXT;
    if (session->quiet)
        session->log_level = TEN_LOG_ERROR;
    else if (session->verbose)
        session->log_level = command->quiet && session->log_level < TEN_LOG_INFO ? TEN_LOG_INFO : TEN_LOG_DEBUG;
    if (session->quiet && session->verbose) {
        *ret_exit = ten_session_usage(session, "--quiet and --verbose exclude each other");
        return false;
    }
    if (help) {
        ten_session_help(command, own);
        *ret_exit = fflush(stdout) == 0 ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
        return false;
    }
    session->arguments = argv;
    session->needs_store = command->needs_store;
    session->namespace_is_default = !session->namespace_name;
    if (session->namespace_is_default)
        session->namespace_name = command->default_namespace;
    return true;
}

static int check_arguments(const ten_session *session, int first, int (*check)(const char *, ten_error *)) {
    ten_error error;
    for (int i = first; i < session->count; i++) {
        if (check(session->arguments[i], &error) < 0) {
            ten_say(error.message);
            return TEN_EXIT_USAGE;
        }
    }
    return TEN_EXIT_DONE;
}

int ten_session_check_targets(const ten_session *session, int first) {
    return check_arguments(session, first, ten_id_check_target);
}

int ten_session_check_roles(const ten_session *session) {
    return check_arguments(session, 0, ten_id_check_role);
}

/* Options that no call of this command would look at are checked all the same: a mistake is better told now. */
static int check_timing(const ten_session *session, ten_error *error) {
    ten_timing timing = session->timing;
    ten_timing_defaults(&timing);
    return ten_timing_check(&timing, TENURE_TTL_MIN_MS, NULL, error);
}

static int check_store(const ten_session *session, ten_error *error) {
    /* Often an unset variable of a script. The default store would be one of this host alone. */
    if (session->store && session->store[0] == '\0')
        return ten_fail(error, TENURE_E_INVALID, "--store is empty: name a store, or leave the option out");
    if (session->store && strncmp(session->store, "memory:", 7) == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "the store memory: lives inside one process and would end with this command; use sqlite:PATH");
    return TENURE_OK;
}

static int check_all(const ten_session *session, ten_error *error) {
    int r = check_timing(session, error);
    if (r == TENURE_OK)
        r = check_store(session, error);
    if (r == TENURE_OK)
        r = ten_id_check_namespace(session->namespace_name, error);
    if (r == TENURE_OK && session->name)
        r = ten_id_check_instance_name(session->name, error);
    tenure_options options = ten_session_options(session);
    ten_buf members = {0};
    if (r == TENURE_OK)
        r = ten_metadata_identity(&options, &members, error);
    ten_buf_free(&members);
    return r;
}

bool ten_session_check(const ten_session *session, int *ret_exit) {
    ten_error error;
    int r = check_all(session, &error);
    if (r < 0) {
        ten_say(error.message);
        *ret_exit = ten_exit_code(r);
    }
    return r == TENURE_OK;
}

void ten_session_open_log(ten_session *session, const char *instance) {
    ten_error error;
    ten_log_config config = {.fd = STDERR_FILENO,
                             .format = (enum ten_log_format)session->log_format,
                             .level = (enum ten_log_level)session->log_level,
                             .clock = &ten_system_clock,
                             .instance = instance,
                             .namespace_name = session->namespace_name};
    if (ten_log_open(&config, &session->log, &error) < 0)
        ten_say(error.message); /* lease work does not need a log */
}

void ten_session_set_wait(ten_session *session, uint64_t wait_ms) {
    session->store_wait_ms = wait_ms;
    ten_timing_defaults(&session->timing);
    uint64_t answer_ms = ten_max_u64(wait_ms, ANSWER_MIN_MS);
    if (answer_ms < session->timing.timeout_ms)
        session->answer_ms = answer_ms;
}

tenure_options ten_session_options(const ten_session *session) {
    return (tenure_options){.size = sizeof(tenure_options),
                            .namespace_name = session->namespace_name,
                            .instance_name = session->name,
                            .ttl_ms = session->timing.ttl_ms,
                            .renew_ms = session->timing.renew_ms,
                            .margin_ms = session->timing.margin_ms,
                            .timeout_ms = session->answer_ms,
                            .address = session->address,
                            .labels = session->labels.items,
                            .label_count = session->labels.count};
}

/* A command that works on what is there must not answer a mistyped path with an empty store. */
static int check_store_exists(const ten_session *session, ten_error *error) {
    ten_url url;
    ten_error unused;
    int r = TENURE_OK;
    if (!session->needs_store || !session->store || strncmp(session->store, "sqlite:", 7) != 0 ||
        ten_url_parse(session->store, &url, &unused) < 0)
        return TENURE_OK; /* if the URL is wrong, opening the store reports it */
    static const char *const known[] = {"timeout", NULL};
    if (url.path && ten_url_check_options(&url, known, &unused) == TENURE_OK && access(url.path, F_OK) != 0 &&
        errno == ENOENT)
        r = ten_fail(
            error, TENURE_E_UNREACHABLE,
            "there is no store at %.300s: No such file or directory; check the path ('tenure lock', 'target add' and "
            "others create it)",
            url.path);
    ten_url_free(&url);
    return r;
}

/* The history names the person who forced something: the process will have ended long before somebody asks. */
static void name_actor(tenure_context *context) {
    char host[256];
    char actor[TENURE_HOLDER_MAX + 1];
    const struct passwd *user = getpwuid(geteuid());
    const char *sudo = getenv("SUDO_USER");
    const char *name = sudo && sudo[0] ? sudo : user ? user->pw_name : "?";
    ten_error error;
    if (gethostname(host, sizeof host) != 0)
        return;
    host[sizeof host - 1] = '\0';
    snprintf(actor, sizeof actor, "%.100s@%.150s", name, host);
    if (ten_id_check_holder(actor, &error) == TENURE_OK)
        ten_context_set_actor(context, actor);
}

static bool was_interrupted(void *userdata) {
    (void)userdata;
    return received != 0;
}

static int open_context(ten_session *session, ten_error *error) {
    tenure_options options = ten_session_options(session);
    ten_store_wait wait = {.store = session->store, .wait_ms = session->store_wait_ms, .is_stopped = was_interrupted};
    catch_signals();
    if (session->store_wait_ms)
        return ten_store_wait_open(&wait, &options, &session->context, error);
    int r = tenure_open(session->store, &options, &session->context);
    ten_error room;
    return r < 0 ? ten_fail(error, r, "%s", explain(session, r, &room)) : TENURE_OK;
}

bool ten_session_try_open(ten_session *session, int *ret_exit) {
    int r = check_all(session, &session->failure);
    if (r == TENURE_OK)
        r = check_store_exists(session, &session->failure);
    if (r == TENURE_OK)
        r = open_context(session, &session->failure);
    if (r < 0) {
        *ret_exit = ten_exit_code(r);
        return false;
    }
    waiting_context = session->context;
    name_actor(session->context);
    ten_session_open_log(session, tenure_instance_id(session->context));
    return true;
}

bool ten_session_open(ten_session *session, int *ret_exit) {
    bool opened = ten_session_try_open(session, ret_exit);
    if (!opened && session->failure.code != TENURE_E_CANCELLED)
        ten_say(session->failure.message);
    return opened;
}

int ten_session_close(ten_session *session, int exit_code) {
    waiting_context = NULL;
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_code == TEN_EXIT_DONE) {
        if (errno != EPIPE)
            ten_say("cannot write to standard output");
        exit_code = TEN_EXIT_FAILED;
    }
    (void)tenure_close(session->context);
    ten_log_close(session->log, LOG_FLUSH_MS);
    return exit_code;
}
