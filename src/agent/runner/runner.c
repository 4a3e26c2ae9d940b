/*
 * The loop of a worker, and what it needs to start and to end. See runner.h. Called by agent.c and leader.c.
 */
#include "agent/runner/runner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/common/store_wait.h"
#include "agent/warden/tree.h"
#include "agent/warden/warden.h"
#include "base/io.h"

#define WAIT_MAX_MS 1000u
#define FLUSH_MS    2000u

/* ---- descriptors */

int ten_runner_watch(ten_runner *runner, int fd, ten_watched *watched, ten_error *error) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = watched};
    if (fd < 0 || epoll_ctl(runner->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the loop");
    return TENURE_OK;
}

static void serve(struct epoll_event *event) {
    const ten_watched *watched = event->data.ptr;
    event->data.ptr = NULL;
    watched->ready(watched->owner);
}

/* What may vanish is served first: later its pointer may be one into freed memory. */
static void take_ready(ten_runner *runner) {
    struct epoll_event events[64];
    int count = epoll_wait(runner->epoll_fd, events, TEN_COUNT(events), 0);
    for (int i = 0; i < count; i++)
        if (((const ten_watched *)events[i].data.ptr)->may_vanish)
            serve(&events[i]);
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr)
            serve(&events[i]);
}

static void take_signals(void *owner) {
    ten_runner *runner = owner;
    struct signalfd_siginfo info;
    while (ten_read_some(runner->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGCHLD)
            runner->config.reap(runner);
        else
            runner->config.take_signal(runner, &info);
}

static void take_events(void *owner) {
    ten_runner *runner = owner;
    ten_eventfd_clear(runner->event_fd);
    if (runner->config.take_events)
        runner->config.take_events(runner);
}

static void take_health(void *owner) {
    ten_runner *runner = owner;
    bool changed = ten_health_take(&runner->health);
    bool well = runner->health.well;
    ten_field fields[2] = {TEN_TEXT("command", runner->config.options->healthy),
                           TEN_TEXT("target", runner->config.role)};
    if (!changed)
        return;
    ten_log_event(runner->log, well ? TEN_LOG_INFO : TEN_LOG_WARN, well ? "health_ok" : "health_failed", fields,
                  runner->config.role ? 2 : 1);
    runner->config.take_health(runner, well);
}

/* ---- the loop */

void ten_runner_note_turn(ten_runner *runner) {
    if (atomic_load(&runner->shared->state->turns) != 0) /* 0: it is not in its loop */
        atomic_fetch_add(&runner->shared->state->turns, 1);
}

void ten_runner_loop(ten_runner *runner) {
    struct ten_shared_state *state = runner->shared->state;
    uint64_t next_ms = 0;
    atomic_store(&state->begun, true);
    atomic_fetch_add(&state->turns, 1);
    while (runner->config.go_on(runner, &next_ms)) {
        struct pollfd polled = {.fd = runner->epoll_fd, .events = POLLIN};
        int wait_ms = (int)ten_min_u64(ten_sub_saturating(next_ms, ten_now_ms()), WAIT_MAX_MS);
        if (runner->config.wait)
            runner->config.wait(runner, wait_ms);
        else
            (void)poll(&polled, 1, wait_ms);
        atomic_fetch_add(&state->turns, 1);
        take_ready(runner);
    }
    atomic_store(&state->turns, 0);
}

/* ---- start and end */

static int open_loop(ten_runner *runner, ten_error *error) {
    sigset_t signals;
    ten_warden_signals(runner->config.all_signals, &signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    runner->signals = (ten_watched){.ready = take_signals, .owner = runner};
    runner->events = (ten_watched){.ready = take_events, .owner = runner};
    runner->healths = (ten_watched){.ready = take_health, .owner = runner};
    runner->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    runner->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    runner->event_fd = ten_eventfd_open();
    int r = ten_runner_watch(runner, runner->signal_fd, &runner->signals, error);
    TEN_STEP(r, ten_runner_watch(runner, runner->event_fd, &runner->events, error));
    if (r == TENURE_OK && runner->config.options->healthy)
        r = ten_runner_watch(runner, runner->health.fd, &runner->healths, error);
    return r;
}

int ten_runner_open(ten_runner *runner, const ten_runner_config *config, ten_shared *shared, ten_error *error) {
    *runner = (ten_runner){.config = *config,
                           .shared = shared,
                           .health = TEN_HEALTH_NONE,
                           .epoll_fd = -1,
                           .signal_fd = -1,
                           .event_fd = -1};
    pthread_mutex_init(&runner->lock, NULL);
    int r = config->options->healthy
                ? ten_health_open(&runner->health, config->options->healthy, config->options->healthy_every_ms, error)
                : TENURE_OK;
    ten_children_open(&runner->children, shared, config->options->isolation, config->options->grace_ms,
                      &runner->measures);
    ten_tree_adopt();
    return r < 0 ? r : open_loop(runner, error);
}

static bool was_stopped(void *userdata) {
    ten_runner *runner = userdata;
    int number = ten_store_wait_signal(runner->signal_fd);
    if (number)
        runner->stop_signal = number;
    return number != 0;
}

int ten_runner_open_context(ten_runner *runner, ten_error *error) {
    const ten_runner_options *options = runner->config.options;
    ten_log_config log = {.fd = STDERR_FILENO,
                          .format = options->log_format,
                          .level = options->log_level,
                          .clock = &ten_system_clock,
                          .namespace_name = options->context.namespace_name};
    ten_store_wait wait = {.store = options->store,
                           .wait_ms = options->store_wait_ms,
                           .log = &log,
                           .is_stopped = was_stopped,
                           .userdata = runner};
    int r = ten_store_wait_open(&wait, &options->context, &runner->context, error);
    if (r < 0)
        return r;
    runner->instance = tenure_instance_id(runner->context);
    struct ten_shared_state *state = runner->shared->state;
    snprintf(state->instance, sizeof state->instance, "%s", runner->instance);
    atomic_store(&state->ready, true);
    log.instance = runner->instance;
    r = ten_log_open(&log, &runner->log, error);
    runner->children.log = runner->log;
    ten_children_report(&runner->children, runner->config.isolation_level);
    return r;
}

ten_exporter_config ten_runner_exports(ten_runner *runner, const char *address, enum ten_exports kind) {
    return (ten_exporter_config){.address = address,
                                 .kind = kind,
                                 .measures = &runner->measures,
                                 .instance = runner->instance,
                                 .identity = &runner->config.options->context,
                                 .namespace_name = runner->config.options->context.namespace_name,
                                 .store = runner->config.options->store,
                                 .log = runner->log};
}

void ten_runner_close(ten_runner *runner) {
    ten_children_free(&runner->children);
    ten_health_close(&runner->health);
    ten_close_fd(&runner->epoll_fd);
    ten_close_fd(&runner->signal_fd);
    ten_close_fd(&runner->event_fd);
    (void)tenure_close(runner->context);
    ten_log_close(runner->log, FLUSH_MS);
    pthread_mutex_destroy(&runner->lock);
}
