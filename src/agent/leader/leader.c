/*
 * The loop of elect and once. It passes events of the election and of the processes to core/term.h, and carries out
 * what that decides. Called by cli/role_work.c, in the worker.
 */
#include "agent/leader/leader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/store_wait.h"
#include "agent/leader/leader_state.h"
#include "agent/warden/tree.h"
#include "base/clock.h"
#include "base/io.h"
#include "runtime/candidate.h"

#define BACKOFF_MIN_MS 200u
#define BACKOFF_MAX_MS 10000u
#define STEADY_MS      10000u
#define FLUSH_MS       1000u
#define IDLE_MS        1000u

/* ---- what the term wants */

/* The worker is about to signal the command, unless that has exited and only left something. */
static void note_ending(struct ten_leader *leader, const struct ten_leader_heard *heard) {
    enum ten_work_why why = leader->term.work.why;
    if (leader->term.state != TEN_TERM_COMMAND || leader->child.exited)
        return;
    const char *reason = why == TEN_WORK_LATE        ? "expiring"
                         : why == TEN_WORK_UNCERTAIN ? "uncertain"
                                                     : ten_leader_why_stopped(leader, heard);
    ten_leader_report_ending(leader, heard, reason, why >= TEN_WORK_UNCERTAIN || leader->term.lost);
}

static void carry_out(struct ten_leader *leader, enum ten_term_step step, const struct ten_leader_heard *heard) {
    const ten_term *term = &leader->term;
    const char *reason = term->done ? "done" : leader->ending ? leader->ending : ten_leader_why_stopped(leader, heard);
    switch (step) {
    case TEN_TERM_START_BEGIN_HOOK:
        ten_leader_start_hook(leader, leader->config->on_elected, 0, "");
        break;
    case TEN_TERM_START_COMMAND:
        ten_leader_start_command(leader, &heard->term);
        break;
    case TEN_TERM_START_END_HOOK:
        ten_leader_start_hook(leader, leader->config->on_demoted, TEN_CHILD_UNBOUND, reason);
        break;
    case TEN_TERM_PASS_STOP:
        note_ending(leader, heard);
        if (!leader->stop_from_terminal)
            ten_child_signal(&leader->children, &leader->child, leader->stop_signal);
        break;
    case TEN_TERM_ASK:
    case TEN_TERM_KILL:
        note_ending(leader, heard);
        ten_child_signal(&leader->children, &leader->child, step == TEN_TERM_KILL ? SIGKILL : SIGTERM);
        break;
    case TEN_TERM_RESIGN:
        if (term->unstarted)
            ten_candidate_keep_nothing(leader->election);
        ten_candidate_end_term(leader->election, term->resign_reason, term->resign_pause_ms);
        break;
    case TEN_TERM_WORK_OVER:
        ten_candidate_work_over(leader->election);
        break;
    case TEN_TERM_NOTHING:
        break;
    }
}

/* Returns when to come again if nothing happens before. */
static uint64_t go_on(struct ten_leader *leader) {
    for (;;) {
        /* In this order: that something is gone can take long to see, and then the lease is looked at again. */
        enum ten_work_left left = ten_leader_left_of_child(leader);
        struct ten_leader_heard heard = ten_leader_look_at_heard(leader);
        uint64_t now_ms = ten_now_ms();
        enum ten_term_step step = ten_term_next(&leader->term, &heard.term, left, now_ms);
        atomic_store(&leader->shared->state->keep_until_ms, leader->term.keep_until_ms);
        carry_out(leader, step, &heard);
        if (step == TEN_TERM_NOTHING && ten_term_wants_ready(&leader->term, &heard.term))
            ten_leader_make_ready(leader);
        if (step == TEN_TERM_NOTHING || step == TEN_TERM_KILL) /* which is repeated, but not at once */
            return ten_term_next_ms(&leader->term, &heard.term, now_ms);
    }
}

/* ---- signals */

static void stop(struct ten_leader *leader, int number, bool from_terminal) {
    if (leader->term.stops == 0) {
        leader->stop_signal = number;
        leader->stop_from_terminal = from_terminal;
    }
    ten_term_stop(&leader->term);
}

static void take_signals(struct ten_leader *leader) {
    struct signalfd_siginfo info;
    while (ten_read_some(leader->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool from_terminal = info.ssi_code == SI_KERNEL;
        bool stops = number == SIGTERM || number == SIGINT || number == SIGQUIT || (number == SIGHUP && from_terminal);
        if (number == SIGCHLD)
            ten_leader_reap(leader);
        else if (stops)
            stop(leader, number, from_terminal);
        else if (leader->child.pid && !from_terminal)
            ten_child_pass(&leader->child, number);
    }
}

/* ---- health */

static void take_health(struct ten_leader *leader) {
    if (!ten_health_take(&leader->health))
        return;
    bool well = leader->health.well;
    TEN_LOG(leader->log, well ? TEN_LOG_INFO : TEN_LOG_WARN, well ? "health_ok" : "health_failed",
            TEN_TEXT("target", leader->config->role), TEN_TEXT("command", leader->config->healthy));
    ten_candidate_set_fit(leader->election, well);
}

/* ---- the loop */

static void loop(struct ten_leader *leader) {
    struct pollfd polled[] = {{.fd = leader->signal_fd, .events = POLLIN},
                              {.fd = leader->heard_fd, .events = POLLIN},
                              {.fd = leader->health.fd, .events = POLLIN}};
    atomic_store(&leader->shared->state->begun, true);
    atomic_fetch_add(&leader->shared->state->turns, 1);
    while (leader->term.state != TEN_TERM_OVER) {
        uint64_t next_ms = go_on(leader);
        if (leader->term.state == TEN_TERM_OVER)
            return;
        (void)poll(polled, TEN_COUNT(polled), (int)ten_min_u64(ten_sub_saturating(next_ms, ten_now_ms()), IDLE_MS));
        atomic_fetch_add(&leader->shared->state->turns, 1);
        ten_eventfd_clear(leader->heard_fd);
        take_signals(leader);
        take_health(leader);
        polled[2].fd = leader->health.fd;
    }
}

/* ---- start and end */

static int open_loop(struct ten_leader *leader, ten_error *error) {
    static const int taken[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < TEN_COUNT(taken); i++)
        sigaddset(&signals, taken[i]);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    leader->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    leader->heard_fd = ten_eventfd_open();
    if (leader->signal_fd < 0 || leader->heard_fd < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot start the loop");
    return TENURE_OK;
}

static bool leads(const void *userdata) {
    return tenure_election_leads(userdata);
}

static int open_exporter(struct ten_leader *leader, const char *address, enum ten_exports kind,
                         ten_exporter **ret_exporter, ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_exporter_config exporter = {.address = address,
                                    .kind = kind,
                                    .measures = &leader->measures,
                                    .instance = leader->shared->state->instance,
                                    .identity = &config->context,
                                    .namespace_name = config->context.namespace_name,
                                    .role = config->role,
                                    .role_kind = config->is_lock ? "lock"
                                                 : config->once  ? "once"
                                                                 : "elect",
                                    .slots = config->count ? config->count : 1,
                                    .store = config->store,
                                    .leads = leads,
                                    .userdata = leader->election,
                                    .log = leader->log};
    return ten_exporter_open(&exporter, ret_exporter, error);
}

static bool was_stopped(void *userdata) {
    struct ten_leader *leader = userdata;
    int number = ten_store_wait_signal(leader->signal_fd);
    if (number)
        leader->stop_signal = number;
    return number != 0;
}

static int open_context(struct ten_leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_log_config log = {.fd = STDERR_FILENO,
                          .format = config->log_format,
                          .level = config->log_level,
                          .clock = &ten_system_clock,
                          .namespace_name = config->context.namespace_name};
    ten_store_wait wait = {.store = config->store,
                           .wait_ms = config->store_wait_ms,
                           .log = &log,
                           .is_stopped = was_stopped,
                           .userdata = leader};
    int r = ten_store_wait_open(&wait, &config->context, &leader->context, error);
    if (r < 0)
        return r;
    struct ten_shared_state *state = leader->shared->state;
    snprintf(state->instance, sizeof state->instance, "%s", tenure_instance_id(leader->context));
    atomic_store(&state->ready, true);
    log.instance = state->instance;
    r = ten_log_open(&log, &leader->log, error);
    leader->children.log = leader->log;
    ten_children_report(&leader->children, TEN_LOG_DEBUG);
    return r;
}

static int open_election(struct ten_leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    tenure_election_options options = {.size = sizeof options,
                                       .namespace_name = config->context.namespace_name,
                                       .at_least_ms = config->at_least_ms,
                                       .count = config->count,
                                       .on_event = ten_leader_on_event,
                                       .userdata = leader};
    ten_election_extras extras = {.beliefs = &leader->shared->beliefs,
                                  .works_elsewhere = true,
                                  .measures = &leader->measures,
                                  .all = config->all,
                                  .all_count = config->all_count,
                                  .announces = config->announces,
                                  .is_lock = config->is_lock,
                                  .priority = config->priority,
                                  .failback_ms = config->failback_ms};
    const char *role = config->all_count ? config->all[0] : config->role;
    int r = ten_candidate_open(leader->context, role, &options, &extras, &leader->election);
    if (r < 0)
        return ten_fail(error, r, "%s", tenure_message(NULL));
    if (config->metrics)
        r = open_exporter(leader, config->metrics, TEN_EXPORTS_ROLE, &leader->exporter, error);
    if (r == TENURE_OK && config->leader_http)
        r = open_exporter(leader, config->leader_http, TEN_EXPORTS_LEADER, &leader->leader_http, error);
    if (r < 0)
        return r;
    if (config->healthy) /* until the first result */
        ten_candidate_set_fit(leader->election, false);
    r = ten_candidate_begin(leader->election);
    return r < 0 ? ten_fail(error, r, "%s", tenure_message(NULL)) : TENURE_OK;
}

static const char *problem_of(const struct ten_leader *leader) {
    const struct ten_leader_heard *heard = &leader->heard;
    return heard->problem[0] ? heard->problem : tenure_strerror(heard->term.error);
}

/* What came of it, after the loop. */
static int conclude(const struct ten_leader *leader, int *ret_exit, ten_error *error) {
    const ten_leader_config *config = leader->config;
    const ten_term_heard *heard = &leader->heard.term;
    *ret_exit = 0;
    switch (ten_term_outcome(&leader->term, heard)) {
    case TEN_TERM_REFUSED:
        return ten_fail(error, heard->error, "this instance cannot %s %s: %s", config->once ? "get" : "lead",
                        config->role, problem_of(leader));
    case TEN_TERM_COMMAND_END:
        *ret_exit = ten_leader_exit_of(leader->status);
        break;
    case TEN_TERM_LOST:
        return ten_fail(error, TENURE_E_LOST, "the lease on %s was lost while the command ran; it was ended",
                        config->role);
    case TEN_TERM_STOPPED:
        *ret_exit = 128 + leader->stop_signal;
        break;
    case TEN_TERM_UNKNOWN:
        return ten_fail(error, heard->error, "it is not known who has %s: %s", config->role, problem_of(leader));
    case TEN_TERM_NOT_ELECTED:
        *ret_exit = config->not_elected_exit;
        break;
    case TEN_TERM_ENDED:
        break;
    }
    return TENURE_OK;
}

static void open_term(struct ten_leader *leader) {
    const ten_leader_config *config = leader->config;
    ten_term_rules rules = {.work = {.grace_ms = config->grace_ms,
                                     .kill_after_ms = config->kill_after_ms,
                                     .kill_overdue_after_ms = TEN_WORK_KILL_LOST_AFTER_MS,
                                     .stop_when_uncertain = config->stop_when_uncertain},
                            .restart = config->restart,
                            .once = config->once,
                            .has_begin_hook = config->on_elected != NULL,
                            .has_end_hook = config->on_demoted != NULL,
                            .at_least_ms = config->at_least_ms,
                            .wait_until_ms = ten_add_saturating(ten_now_ms(), config->wait_ms)};
    ten_backoff backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS, .steady_ms = STEADY_MS};
    ten_term_init(&leader->term, &rules, &backoff);
}

int ten_leader_run(const ten_leader_config *config, ten_shared *shared, int *ret_exit, ten_error *error) {
    struct ten_leader leader = {.config = config,
                                .shared = shared,
                                .signal_fd = -1,
                                .heard_fd = -1,
                                .alive_fds = {-1, -1},
                                .ready = TEN_READY_NONE,
                                .health = TEN_HEALTH_NONE};
    /* Before anything else: children of the worker that is set up have no memory of most libraries. */
    int r =
        config->healthy ? ten_health_open(&leader.health, config->healthy, config->healthy_every_ms, error) : TENURE_OK;
    ten_children_open(&leader.children, shared, config->isolation, config->grace_ms, &leader.measures);
    open_term(&leader);
    pthread_mutex_init(&leader.lock, NULL);
    ten_tree_adopt();
    if (r == TENURE_OK)
        r = open_loop(&leader, error);
    if (r == TENURE_OK)
        r = open_context(&leader, error);
    if (r == TENURE_OK)
        r = open_election(&leader, error);
    if (r == TENURE_OK)
        loop(&leader);
    ten_ready_drop(&leader.ready, &leader.children);
    atomic_store(&shared->state->turns, 0);
    if (r == TENURE_OK)
        ten_candidate_work_over(leader.election);
    ten_exporter_close(leader.exporter);
    ten_exporter_close(leader.leader_http);
    tenure_election_close(leader.election);
    (void)tenure_close(leader.context);
    if (r == TENURE_OK)
        r = conclude(&leader, ret_exit, error);
    if (r == TENURE_E_CANCELLED) { /* before there was a store */
        *ret_exit = config->once ? 128 + leader.stop_signal : 0;
        r = TENURE_OK;
    }
    ten_log_close(leader.log, FLUSH_MS);
    ten_children_free(&leader.children);
    ten_health_close(&leader.health);
    ten_close_fd(&leader.signal_fd);
    ten_close_fd(&leader.heard_fd);
    pthread_mutex_destroy(&leader.lock);
    return r;
}
