/*
 * tenure guard: passes on the messages whose token is current.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/exporter.h"
#include "agent/guard/guard_lines.h"
#include "agent/guard/guard_topic.h"
#include "base/io.h"
#include "cli/commands.h"

static struct {
    const char *in;
    const char *out;
    const char *id_field;
    const char *token_field;
    uint64_t cache_ttl_ms;
    bool accepts_expired;
    const char *metrics;
} given = {.in = "-", .out = "-", .token_field = "_version"};

static const ten_option options[] = {
    TEN_OPT_TEXT("in", "SRC", &given.in, "- (standard input, default), file:PATH or mqtt://HOST/TOPIC/+"),
    TEN_OPT_TEXT("out", "DST", &given.out,
                 "- (standard output, default), file:PATH, appended to, or mqtt://HOST/TOPIC/{target}"),
    TEN_OPT_TEXT("id-field", "F", &given.id_field, "where a message names its target; default target, else scene_id"),
    TEN_OPT_TEXT("token-field", "F", &given.token_field, "where it has its token; default _version"),
    TEN_OPT_PERIOD("cache-ttl", "D", &given.cache_ttl_ms,
                   "how long a token serves after it was last confirmed; default 30s"),
    TEN_OPT_EITHER("on-expired", &given.accepts_expired,
                   "reject (default) or accept: the newest token known, when the store cannot confirm it any more",
                   "reject", "accept"),
    TEN_OPT_METRICS(&given.metrics),
    TEN_OPT_END,
};

/* What is open while it runs. */
struct flow {
    int in_fd; /* -1: from a topic */
    int out_fd;
    ten_guard_filter_stop stop;
    tenure_guard *guard;
    ten_guard_filter *filter;
    ten_guard_out *out;
    ten_measures measures;
    ten_exporter *exporter;
    ten_log *log;
};

static int say(const char *text, int exit_code) {
    ten_say(text);
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

static bool is_topic(const char *text) {
    return strncmp(text, "mqtt://", 7) == 0 || strncmp(text, "mqtts://", 8) == 0;
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
    struct flow *flow = userdata;
    ten_log *log = flow->log;
    if (event->kind == TENURE_EVENT_STORE_DOWN || event->kind == TENURE_EVENT_STORE_UP)
        ten_measures_answered(&flow->measures, event->error);
    if (event->kind == TENURE_EVENT_STORE_DOWN)
        TEN_LOG(log, TEN_LOG_WARN, tenure_event_name(event->kind), TEN_TEXT("error", event->message));
    else
        ten_log_event(log, TEN_LOG_INFO, tenure_event_name(event->kind), NULL, 0);
}

static void log_summary(ten_log *log, const ten_guard_filter_counts *counts) {
    TEN_LOG(log, TEN_LOG_INFO, "guard_stopped", TEN_NUMBER("passed", counts->passed),
            TEN_NUMBER("stale", counts->stale), TEN_NUMBER("ungranted", counts->ungranted),
            TEN_NUMBER("unconfirmed", counts->unconfirmed), TEN_NUMBER("incomplete", counts->incomplete),
            TEN_NUMBER("malformed", counts->malformed), TEN_NUMBER("untaken", counts->untaken));
}

static int pass_messages(const ten_arguments *arguments, struct flow *flow) {
    ten_guard_filter_config config = {.guard = flow->guard,
                                      .log = arguments->log,
                                      .id_field = given.id_field,
                                      .token_field = given.token_field,
                                      .measures = &flow->measures};
    ten_error error = {0};
    int r = ten_guard_filter_open(&config, &flow->filter, &error);
    TEN_STEP(r, is_topic(given.out) ? ten_guard_topic_open_out(flow->filter, arguments->log, arguments->namespace_name,
                                                               given.out, &flow->out, &error)
                                    : ten_guard_out_open_lines(flow->out_fd, &flow->out, &error));
    if (r < 0)
        return say(error.message, TEN_EXIT_FAILED);
    r = is_topic(given.in) ? ten_guard_topic_in(flow->filter, arguments->log, given.in, flow->out, &flow->stop, &error)
                           : ten_guard_lines(flow->filter, flow->in_fd, flow->out, &flow->stop, &error);
    log_summary(arguments->log, ten_guard_filter_get_counts(flow->filter));
    if (r == TENURE_OK || flow->out->system_error == -EPIPE) /* the reader knows */
        return r == TENURE_OK ? TEN_EXIT_DONE : TEN_EXIT_FAILED;
    return say(error.message, TEN_EXIT_FAILED);
}

/* Not ten_arguments_open(): signals are the descriptor's, and a guard holds nothing that --ttl would be about. */
static int open_context(ten_arguments *arguments, struct flow *flow) {
    tenure_options config = {
        .size = sizeof config, .namespace_name = arguments->namespace_name, .instance_name = arguments->name};
    int r = tenure_open(arguments->store, &config, &arguments->context);
    if (r < 0)
        return ten_arguments_error(arguments, r);
    ten_arguments_open_log(arguments, tenure_instance_id(arguments->context));
    flow->log = arguments->log;
    return TEN_EXIT_DONE;
}

static int open_guard(const ten_arguments *arguments, struct flow *flow) {
    tenure_guard_options config = {.size = sizeof config,
                                   .flags = given.accepts_expired ? TENURE_ACCEPT_EXPIRED : 0,
                                   .cache_ttl_ms = given.cache_ttl_ms,
                                   .on_event = log_event,
                                   .userdata = flow};
    int r = tenure_guard_open(arguments->context, &config, &flow->guard);
    return r < 0 ? ten_arguments_error(arguments, r) : TEN_EXIT_DONE;
}

static int open_exporter(const ten_arguments *arguments, struct flow *flow) {
    ten_error error = {0};
    ten_exporter_config config = {.address = given.metrics,
                                  .kind = TEN_EXPORTS_GUARD,
                                  .measures = &flow->measures,
                                  .instance = tenure_instance_id(arguments->context),
                                  .namespace_name = arguments->namespace_name,
                                  .store = arguments->store,
                                  .log = arguments->log};
    int r = ten_exporter_open(&config, &flow->exporter, &error);
    return r < 0 ? say(error.message, ten_exit_code(r)) : TEN_EXIT_DONE;
}

static int run_guard(ten_arguments *arguments, struct flow *flow) {
    int exit_code = TEN_EXIT_DONE;
    if (!is_topic(given.in))
        exit_code = open_stream(given.in, STDIN_FILENO, O_RDONLY, &flow->in_fd);
    if (exit_code == TEN_EXIT_DONE)
        exit_code = open_context(arguments, flow);
    ten_measures_answered(&flow->measures, TENURE_OK);
    if (exit_code == TEN_EXIT_DONE)
        exit_code = open_guard(arguments, flow);
    if (exit_code == TEN_EXIT_DONE && given.metrics)
        exit_code = open_exporter(arguments, flow);
    if (exit_code == TEN_EXIT_DONE && !is_topic(given.out))
        exit_code = open_stream(given.out, STDOUT_FILENO, O_WRONLY | O_CREAT | O_APPEND, &flow->out_fd);
    if (exit_code == TEN_EXIT_DONE && is_same_file(flow->in_fd, flow->out_fd))
        exit_code = say("the input and the output are the same file", TEN_EXIT_USAGE);
    return exit_code == TEN_EXIT_DONE ? pass_messages(arguments, flow) : exit_code;
}

static void close_flow(struct flow *flow) {
    ten_exporter_close(flow->exporter);
    ten_guard_out_close(flow->out);
    ten_guard_filter_close(flow->filter);
    tenure_guard_close(flow->guard);
    ten_close_fd(&flow->in_fd);
    ten_close_fd(&flow->out_fd);
}

/* What can be said before anything is opened. */
static int check(ten_arguments *arguments) {
    const char *path;
    ten_error error;
    bool in_topic = is_topic(given.in);
    bool out_topic = is_topic(given.out);
    if (arguments->count != 0)
        return ten_arguments_usage(arguments, "guard takes no arguments: messages come by --in");
    if ((!in_topic && !path_of(given.in, &path)) || (!out_topic && !path_of(given.out, &path)))
        return ten_arguments_usage(arguments, "messages come from and go to '-', file:PATH or mqtt://HOST/TOPIC");
    if (ten_guard_topic_check(in_topic ? given.in : NULL, out_topic ? given.out : NULL, arguments->namespace_name,
                              &error) < 0)
        return ten_arguments_usage(arguments, "%s", error.message);
    if ((given.id_field && given.id_field[0] == '\0') || given.token_field[0] == '\0')
        return ten_arguments_usage(arguments, "a field has a name");
    return TEN_EXIT_DONE;
}

static int run(ten_arguments *arguments) {
    int exit_code = ten_arguments_check(arguments);
    if (exit_code)
        return exit_code;
    TEN_CLEANUP(ten_close_fd) int stop_fd = open_stop();
    struct flow flow = {.in_fd = -1, .out_fd = -1, .stop = {.fd = stop_fd}};
    exit_code = run_guard(arguments, &flow);
    close_flow(&flow);
    return ten_arguments_close(arguments, exit_code);
}

const ten_command ten_cmd_guard = {TEN_HELP_guard, .options = options, .check = check, .run = run};
