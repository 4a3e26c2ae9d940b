/*
 * tenure guard: passes on the messages whose token is current.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/gate_lines.h"
#include "base/id.h"
#include "base/io.h"
#include "cli/commands.h"

struct guard_options {
    const char *in;
    const char *out;
    const char *id_field;
    const char *token_field;
    uint64_t cache_ttl_ms;
    int on_expired;
};

static int say(const char *text, int exit_code) {
    fprintf(stderr, "tenure: %s\n", text);
    return exit_code;
}

/* ---- where messages come from and go to */

/* The path of `-` (NULL), `file:PATH` or PATH. False: it is none of them. */
static bool path_of(const char *text, const char **ret_path) {
    *ret_path = strcmp(text, "-") == 0 ? NULL : strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    return !*ret_path || ((*ret_path)[0] != '\0' && !strstr(text, "://"));
}

static int open_stream(const char *text, int standard_fd, int flags, int *ret_fd) {
    const char *path;
    (void)path_of(text, &path);
    *ret_fd = path ? open(path, flags | O_CLOEXEC, 0666) : fcntl(standard_fd, F_DUPFD_CLOEXEC, 0);
    if (*ret_fd >= 0)
        return TEN_EXIT_DONE;
    fprintf(stderr, "tenure: cannot open %s: %s\n", text, strerror(errno));
    return TEN_EXIT_FAILED;
}

/* A file that grows by what is read from it has no end. */
static bool is_same_file(int in_fd, int out_fd) {
    struct stat in;
    struct stat out;
    return fstat(in_fd, &in) == 0 && fstat(out_fd, &out) == 0 && S_ISREG(in.st_mode) && in.st_dev == out.st_dev &&
           in.st_ino == out.st_ino;
}

/* A descriptor that is readable when a signal asks for the end. What was ignored before stays so. */
static int open_stop(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t stop;
    sigemptyset(&stop);
    for (size_t i = 0; i < TEN_COUNT(signals); i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&stop, signals[i]);
    }
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error of the write */
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    return signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the guard */

static void log_event(const tenure_event *event, void *userdata) {
    ten_log *log = userdata;
    if (event->kind == TENURE_EVENT_STORE_DOWN)
        TEN_LOG(log, TEN_LOG_WARN, event->name, TEN_TEXT("error", tenure_strerror(event->error)));
    else
        ten_log_event(log, TEN_LOG_INFO, event->name, NULL, 0);
}

static void log_summary(ten_log *log, const ten_gate_counts *counts) {
    TEN_LOG(log, TEN_LOG_INFO, "guard_stopped", TEN_NUMBER("passed", counts->passed),
            TEN_NUMBER("stale", counts->stale), TEN_NUMBER("ungranted", counts->ungranted),
            TEN_NUMBER("unconfirmed", counts->unconfirmed), TEN_NUMBER("incomplete", counts->incomplete),
            TEN_NUMBER("malformed", counts->malformed));
}

static int pass_lines(const ten_session *session, const struct guard_options *options, tenure_guard *guard,
                      const ten_gate_lines_config *lines) {
    ten_gate_config config = {
        .guard = guard, .log = session->log, .id_field = options->id_field, .token_field = options->token_field};
    ten_gate *gate = NULL;
    ten_error error = {0};
    int system_error = 0;
    int done = ten_gate_open(&config, &gate, &error);
    if (done < 0)
        return say(error.message, TEN_EXIT_FAILED);
    done = ten_gate_lines(gate, lines, &system_error, &error);
    log_summary(session->log, ten_gate_get_counts(gate));
    ten_gate_close(gate);
    if (done == TENURE_OK || system_error == -EPIPE) /* the reader knows */
        return done == TENURE_OK ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
    return say(error.message, TEN_EXIT_FAILED);
}

static int run_guard(ten_session *session, const struct guard_options *options, ten_gate_lines_config *lines) {
    char instance[TENURE_HOLDER_MAX + 1];
    ten_error error;
    int exit_code = open_stream(options->in, STDIN_FILENO, O_RDONLY, &lines->in_fd);
    if (exit_code != TEN_EXIT_DONE)
        return exit_code;
    if (ten_instance_id_make(session->name, instance, &error) < 0)
        return say(error.message, TEN_EXIT_FAILED);
    ten_session_open_log(session, instance);
    tenure_guard_options config = {.size = sizeof config,
                                   .namespace_name = session->namespace_name,
                                   .cache_ttl_ms = options->cache_ttl_ms,
                                   .on_expired_accept = options->on_expired == 1,
                                   .on_event = log_event,
                                   .userdata = session->log};
    tenure_guard *guard = NULL;
    int done = tenure_guard_open(session->store && session->store[0] ? session->store : NULL, &config, &guard);
    if (done < 0)
        return say(tenure_guard_message(NULL), ten_exit_code(done));
    exit_code = open_stream(options->out, STDOUT_FILENO, O_WRONLY | O_CREAT | O_APPEND, &lines->out_fd);
    if (exit_code == TEN_EXIT_DONE && is_same_file(lines->in_fd, lines->out_fd))
        exit_code = say("the input and the output are the same file", TEN_EXIT_USAGE);
    if (exit_code == TEN_EXIT_DONE)
        exit_code = pass_lines(session, options, guard, lines);
    tenure_guard_close(guard);
    return exit_code;
}

int ten_cmd_guard(const ten_command *command, int argc, char **argv) {
    static const char *const expired_words[] = {"reject", "accept", NULL};
    struct guard_options options = {.in = "-", .out = "-", .token_field = "_version"};
    const ten_option own[] = {
        {"in", TEN_OPTION_TEXT, &options.in, "SRC", "- (standard input, default) or file:PATH", NULL, NULL},
        {"out", TEN_OPTION_TEXT, &options.out, "DST", "- (standard output, default) or file:PATH, appended to", NULL,
         NULL},
        {"id-field", TEN_OPTION_TEXT, &options.id_field, "F",
         "where a message names its target; default target, else "
         "scene_id",
         NULL, NULL},
        {"token-field", TEN_OPTION_TEXT, &options.token_field, "F", "where it has its token; default _version", NULL,
         NULL},
        {"cache-ttl", TEN_OPTION_PERIOD, &options.cache_ttl_ms, "D",
         "how long a token serves after it was last confirmed; default 30s", NULL, NULL},
        {"on-expired", TEN_OPTION_CHOICE, &options.on_expired, "W",
         "reject (default) or accept: the newest token known, when the store cannot confirm it any more", NULL,
         expired_words},
        {.name = NULL},
    };
    ten_session session;
    int exit_code;
    const char *path;
    if (!ten_session_parse(&session, command, own, argc, argv, &exit_code))
        return exit_code;
    if (session.count != 0)
        return ten_session_usage(&session, "guard takes no arguments: messages come by --in");
    if (!path_of(options.in, &path) || !path_of(options.out, &path))
        return ten_session_usage(&session, "messages come from and go to '-' or file:PATH");
    if ((options.id_field && options.id_field[0] == '\0') || options.token_field[0] == '\0')
        return ten_session_usage(&session, "a field has a name");
    if (!ten_session_check(&session, &exit_code))
        return exit_code;
    TEN_CLEANUP(ten_close_fd) int stop_fd = open_stop();
    ten_gate_lines_config lines = {.in_fd = -1, .out_fd = -1, .stop_fd = stop_fd};
    exit_code = run_guard(&session, &options, &lines);
    ten_close_fd(&lines.in_fd);
    ten_close_fd(&lines.out_fd);
    return ten_session_close(&session, exit_code);
}
