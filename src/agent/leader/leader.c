/*
 * The loop of elect and once. It passes events of the election and of the processes to core/term.h, and carries out
 * what that decides. Called by cli/role_work.c, in the worker.
 */
#include "agent/leader/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/exporter.h"
#include "agent/common/health.h"
#include "agent/common/renewals.h"
#include "agent/common/store_wait.h"
#include "agent/leader/ready.h"
#include "agent/warden/child.h"
#include "agent/warden/environment.h"
#include "agent/warden/tree.h"
#include "base/clock.h"
#include "base/io.h"
#include "runtime/candidate.h"

#define BACKOFF_MIN_MS 200u
#define BACKOFF_MAX_MS 10000u
#define STEADY_MS      10000u
#define FLUSH_MS       1000u
#define IDLE_MS        1000u

/* What the context's thread leaves for the loop. */
struct heard {
    ten_term_heard term;
    bool lost;          /* somebody else may lead */
    const char *reason; /* of the end */
    char problem[256];  /* what the error of the term is about */
};

struct leader {
    const ten_leader_config *config;
    ten_shared *shared;
    ten_children children;
    ten_log *log;
    tenure_context *context;
    tenure_election *election;
    int signal_fd;
    int heard_fd;
    pthread_mutex_t lock;
    ten_measures measures;
    ten_exporter *exporter;            /* NULL: nobody asks */
    ten_exporter *leader_http;         /* the same for who leads */
    struct heard heard;                /* under the lock */
    char other[TENURE_HOLDER_MAX + 1]; /* who leads, as the log knows: on_event()'s own, as the next */
    uint64_t renewed;                  /* the token whose first renewal the log has: the same */
    ten_renewals renewals;

    ten_health health;

    ten_term term;
    ten_child child;
    int alive_fds[2]; /* a pipe without content, for as long as the child runs */
    ten_ready ready;  /* the command of a later term */
    uint64_t mark;
    int status;         /* how the last command ended */
    int exec_error;     /* errno, when it could not even be run; else 0 */
    const char *ending; /* why the command was made to end, as the log was told; NULL: it was not */
    int stop_signal;
    bool stop_from_terminal; /* which has told the command, too */
};

/* ---- what the context's thread hears */

static bool is_worth_saying(struct leader *leader, const tenure_event *event) {
    if (event->kind == TENURE_EVENT_RENEWED)
        return ten_renewals_is_first(&leader->renewed, event->token);
    if (event->kind != TENURE_EVENT_ACQUIRE_FAILED || event->error != TENURE_E_HELD)
        return true;
    /* That another leads is told when it is another than before. To lose is usual for once. */
    bool known = strcmp(leader->other, event->instance) == 0;
    snprintf(leader->other, sizeof leader->other, "%s", event->instance);
    return !known && !leader->config->once;
}

/* The slots of a role are targets: ROLE/0, ROLE/1... People know the role and the number. */
static bool find_slot(const ten_leader_config *config, const char *target, uint32_t *ret_slot) {
    size_t size = strlen(config->role);
    if (config->count == 0 || strncmp(target, config->role, size) != 0 || target[size] != '/')
        return false;
    *ret_slot = (uint32_t)strtoul(target + size + 1, NULL, 10);
    return true;
}

static void log_event(struct leader *leader, const tenure_event *event) {
    ten_field fields[9];
    size_t count = 0;
    bool bad = (event->error < 0 && event->error != TENURE_E_HELD) || event->kind == TENURE_EVENT_LOST ||
               event->kind == TENURE_EVENT_RECOVERING;
    enum ten_log_level level = bad ? TEN_LOG_WARN : TEN_LOG_INFO;
    if (event->kind == TENURE_EVENT_STOP || !is_worth_saying(leader, event))
        level = TEN_LOG_DEBUG;
    /* A standby waits; it has not failed. */
    bool waits = event->kind == TENURE_EVENT_ACQUIRE_FAILED && event->error == TENURE_E_HELD;
    uint32_t slot;
    bool has_slot = find_slot(leader->config, event->target, &slot);
    fields[count++] = TEN_TEXT("target", has_slot ? leader->config->role : event->target);
    if (has_slot)
        fields[count++] = TEN_NUMBER("slot", slot);
    if (event->token)
        fields[count++] = TEN_NUMBER("token", event->token);
    if (event->instance[0])
        fields[count++] = TEN_TEXT("holder", event->instance);
    if (event->reason[0])
        fields[count++] = TEN_TEXT("reason", event->reason);
    if (event->error < 0 && !waits)
        fields[count++] = TEN_TEXT("error", ten_event_problem(event));
    if (event->remaining_ms)
        fields[count++] = TEN_NUMBER("remaining_ms", event->remaining_ms);
    ten_log_event(leader->log, level, tenure_event_name(event->kind), fields, count);
    if (event->kind == TENURE_EVENT_RENEWED)
        ten_renewals_note(&leader->renewals, leader->log, 1, ten_now_ms());
}

static void note(const ten_leader_config *config, struct heard *heard, const tenure_event *event) {
    uint32_t slot = 0;
    if (event->error < 0 && event->message && !heard->term.refused)
        snprintf(heard->problem, sizeof heard->problem, "%s", event->message);
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        (void)find_slot(config, event->target, &slot);
        *heard = (struct heard){.term.lease = {.token = TEN_TERM_ID(event->token, slot), .confirmed = true}};
        break;
    case TENURE_EVENT_STOP:
    case TENURE_EVENT_LOST:
        heard->term.over = true;
        heard->lost |= event->kind == TENURE_EVENT_LOST;
        heard->term.forced |= ten_reason_parse(event->reason) == TEN_REASON_FORCED;
        heard->reason = event->reason;
        break;
    case TENURE_EVENT_RENEW_FAILED:
    case TENURE_EVENT_RENEWED:
        heard->term.lease.confirmed = event->kind == TENURE_EVENT_RENEWED;
        break;
    case TENURE_EVENT_RECOVERING:
        heard->term.recovering_until_ms = ten_now_ms() + event->remaining_ms;
        break;
    case TENURE_EVENT_ACQUIRE_FAILED:
        heard->term.held = event->error == TENURE_E_HELD;
        heard->term.recovering_until_ms = 0;
        heard->term.error = heard->term.held ? 0 : event->error;
        break;
    case TENURE_EVENT_STORE_DOWN:
    case TENURE_EVENT_STORE_UP:
        if (!heard->term.refused) /* that is final, and says why */
            heard->term.error = event->error;
        break;
    case TENURE_EVENT_REFUSED:
        heard->term.error = event->error;
        heard->term.refused = true;
        break;
    default:
        break;
    }
}

static void on_event(const tenure_event *event, void *userdata) {
    struct leader *leader = userdata;
    log_event(leader, event);
    pthread_mutex_lock(&leader->lock);
    note(leader->config, &leader->heard, event);
    pthread_mutex_unlock(&leader->lock);
    ten_eventfd_poke(leader->heard_fd);
}

/* With what may be believed of the lease at this moment. */
static struct heard look_at_heard(struct leader *leader) {
    const ten_belief *belief = ten_beliefs_at(&leader->shared->beliefs, 0);
    pthread_mutex_lock(&leader->lock);
    struct heard heard = leader->heard;
    pthread_mutex_unlock(&leader->lock);
    ten_work_lease *lease = &heard.term.lease;
    lease->ends_ms = heard.lost ? 0 : ten_belief_ends_ms(belief);
    lease->closing = ten_belief_work_until_ms(belief) == 0 || atomic_load(&belief->token) != lease->token;
    return heard;
}

/* ---- processes */

/* What a hook or the command finds in its environment. */
struct words {
    char token[24];
    char slot[12];
    char mark[24];
    ten_buf tokens;
    const char *ours[7][2];
};

static void free_words(struct words *words) {
    ten_buf_free(&words->tokens);
}

static bool make_words(struct leader *leader, uint64_t mark, const char *reason, struct words *ret_words) {
    const ten_leader_config *config = leader->config;
    *ret_words = (struct words){0};
    ten_candidate_tokens(leader->election, &ret_words->tokens);
    snprintf(ret_words->token, sizeof ret_words->token, "%llu", (unsigned long long)TEN_TERM_TOKEN(leader->term.token));
    snprintf(ret_words->slot, sizeof ret_words->slot, "%u", TEN_TERM_SLOT(leader->term.token));
    snprintf(ret_words->mark, sizeof ret_words->mark, "%llu", (unsigned long long)mark);
    const char *const ours[][2] = {{"TENURE_ROLE", config->role},
                                   {"TENURE_TOKEN", ret_words->token},
                                   {"TENURE_INSTANCE", tenure_instance_id(leader->context)},
                                   {TEN_POLL_MARK, ret_words->mark},
                                   {"TENURE_REASON", reason},
                                   {"TENURE_SLOT", config->count ? ret_words->slot : NULL},
                                   {"TENURE_TOKENS", config->all_count ? ten_buf_string(&ret_words->tokens) : NULL}};
    memcpy(ret_words->ours, ours, sizeof ours);
    return !ret_words->tokens.failed;
}

static bool start_child(struct leader *leader, char *const *arguments, uint32_t belief, const char *reason) {
    TEN_CLEANUP(free_words) struct words words;
    bool made = make_words(leader, ++leader->mark, reason, &words);
    char **variables = made ? ten_environment_make(words.ours, TEN_COUNT(words.ours), true) : NULL;
    if (!variables || pipe2(leader->alive_fds, O_CLOEXEC) != 0) {
        ten_environment_free(variables);
        return false;
    }
    ten_child_config config = {.arguments = arguments,
                               .variables = variables,
                               .mark = leader->mark,
                               .belief = belief,
                               .in_fd = -1,
                               .out_fd = -1,
                               .alive_fd = leader->alive_fds[1],
                               .worker_fd = leader->alive_fds[0]};
    bool started = ten_child_start(&leader->children, &config, &leader->child);
    int failed = errno;
    ten_environment_free(variables);
    ten_close_fd(&leader->alive_fds[1]);
    if (!started)
        ten_close_fd(&leader->alive_fds[0]);
    errno = failed;
    return started;
}

/* While another leads. */
static void make_ready(struct leader *leader) {
    TEN_CLEANUP(free_words) struct words words;
    if (!ten_ready_is_there(&leader->ready) && make_words(leader, ++leader->mark, "", &words))
        ten_ready_make(&leader->ready, &leader->children, leader->config->command, leader->mark, words.ours,
                       TEN_COUNT(words.ours));
}

static bool start_ready(struct leader *leader) {
    TEN_CLEANUP(free_words) struct words words;
    return make_words(leader, leader->ready.child.mark, "", &words) &&
           ten_ready_go(&leader->ready, &leader->children, words.ours, TEN_COUNT(words.ours), &leader->child,
                        &leader->alive_fds[0]);
}

static void start_hook(struct leader *leader, const char *hook, uint32_t belief, const char *reason) {
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)hook, NULL};
    if (!start_child(leader, arguments, belief, reason))
        TEN_LOG(leader->log, TEN_LOG_ERROR, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_TEXT("error", strerrordesc_np(errno)));
}

/* Why the command could not be run, and what its user can do. */
static const char *why_not_run(const char *command, int error) {
    struct stat found;
    bool is_path = strchr(command, '/') != NULL;
    bool is_there = is_path && stat(command, &found) == 0;
    if (error == ENOENT && is_there)
        return "the interpreter that the file names is not on this host";
    if (error == ENOENT)
        return is_path ? "there is no such file on this host" : "there is no such command in PATH";
    if (error == EACCES && is_there && S_ISDIR(found.st_mode))
        return "it is a directory";
    if (error == EACCES && is_there && access(command, X_OK) != 0)
        return "the file is not executable; chmod +x allows it";
    if (error == E2BIG)
        return "its arguments and its environment are too long together";
    if (error == EAGAIN)
        return "too many processes; raise the limit (ulimit -u, TasksMax=)";
    if (error == EMFILE)
        return "too many open files; raise the hard limit (ulimit -Hn, LimitNOFILE=)";
    return strerrordesc_np(error);
}

static void start_command(struct leader *leader, const ten_term_heard *heard) {
    leader->ending = NULL;
    if (start_ready(leader) || start_child(leader, leader->config->command, 0, ""))
        return;
    TEN_LOG(leader->log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
            TEN_TEXT("command", leader->config->command[0]),
            TEN_TEXT("error", why_not_run(leader->config->command[0], errno)));
    leader->status = 1 << 8;
    leader->exec_error = 0;
    ten_term_exited(&leader->term, heard, &(ten_term_exit){.failed = true, .unstarted = true}, ten_now_ms());
}

/* Why a command has to end, or had to, that no deadline was pressing. */
static const char *why_stopped(const struct leader *leader, const struct heard *heard) {
    if (heard->reason)
        return heard->reason;
    return leader->term.stops ? "shutdown" : "expired";
}

/* The command has to end: logs the reason, once. */
static void report_ending(struct leader *leader, const struct heard *heard, const char *reason, bool is_lost) {
    if (leader->ending)
        return;
    leader->ending = reason;
    TEN_LOG(leader->log, is_lost ? TEN_LOG_WARN : TEN_LOG_INFO, "command_ending",
            TEN_TEXT("target", leader->config->role), TEN_NUMBER("token", TEN_TERM_TOKEN(leader->term.token)),
            TEN_TEXT("reason", reason),
            TEN_NUMBER("ends_in_ms", ten_sub_saturating(heard->term.lease.ends_ms, ten_now_ms())));
}

static void report_end(const struct leader *leader) {
    const ten_term *term = &leader->term;
    int status = leader->status;
    bool bad = term->lost || (term->done && status != 0 && !leader->config->passes_status);
    if (leader->exec_error)
        TEN_LOG(leader->log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
                TEN_TEXT("command", leader->config->command[0]),
                TEN_TEXT("error", why_not_run(leader->config->command[0], leader->exec_error)));
    else
        TEN_LOG(leader->log, bad ? TEN_LOG_WARN : TEN_LOG_INFO, "command_ended",
                TEN_TEXT("target", leader->config->role), TEN_NUMBER("token", TEN_TERM_TOKEN(term->token)),
                TEN_TEXT("reason", term->done ? "done" : leader->ending),
                WIFSIGNALED(status) ? TEN_NUMBER("signal", (uint64_t)WTERMSIG(status))
                                    : TEN_NUMBER("exit_status", (uint64_t)WEXITSTATUS(status)));
}

static void note_exit(struct leader *leader) {
    struct heard heard = look_at_heard(leader);
    ten_term_exit how = {.failed = leader->child.status != 0,
                         .unstarted = leader->child.exec_error != 0,
                         .ended_for_lease = leader->child.ended_for_lease};
    ten_term_exited(&leader->term, &heard.term, &how, ten_now_ms());
    if (leader->term.state != TEN_TERM_COMMAND)
        return;
    leader->status = leader->child.status;
    leader->exec_error = leader->child.exec_error;
    if (leader->child.ended_for_lease) /* the warden was the first to see that */
        report_ending(leader, &heard, "expiring", true);
    if (!leader->ending)
        leader->ending = why_stopped(leader, &heard);
    report_end(leader);
}

static void reap(struct leader *leader) {
    int status;
    for (pid_t pid; (pid = ten_children_reap(&leader->children, &status)) > 0;)
        if (ten_child_reaped(&leader->children, &leader->child, pid, status))
            note_exit(leader);
        else /* or an orphan that was adopted */
            (void)ten_ready_reaped(&leader->ready, &leader->children, pid, status);
}

static int exit_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static enum ten_work_left left_of_child(struct leader *leader) {
    const ten_work *work = &leader->term.work;
    int status = leader->child.ended_for_lease ? 0 : leader->child.status;
    enum ten_work_left left = ten_child_left(&leader->children, &leader->child, work);
    if (left != TEN_WORK_NONE || !leader->child.pid)
        return left;
    ten_child_forget(&leader->children, &leader->child);
    ten_close_fd(&leader->alive_fds[0]);
    if (leader->term.state != TEN_TERM_COMMAND && status != 0 && !ten_work_is_cut_short(work))
        TEN_LOG(leader->log, TEN_LOG_WARN, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_NUMBER("status", (uint64_t)exit_of(status)));
    return TEN_WORK_NONE;
}

/* ---- what the term wants */

/* The worker is about to signal the command, unless that has exited and only left something. */
static void note_ending(struct leader *leader, const struct heard *heard) {
    enum ten_work_why why = leader->term.work.why;
    if (leader->term.state != TEN_TERM_COMMAND || leader->child.exited)
        return;
    const char *reason = why == TEN_WORK_LATE        ? "expiring"
                         : why == TEN_WORK_UNCERTAIN ? "uncertain"
                                                     : why_stopped(leader, heard);
    report_ending(leader, heard, reason, why >= TEN_WORK_UNCERTAIN || leader->term.lost);
}

static void carry_out(struct leader *leader, enum ten_term_step step, const struct heard *heard) {
    const ten_term *term = &leader->term;
    const char *reason = term->done ? "done" : heard->reason ? heard->reason : "shutdown";
    switch (step) {
    case TEN_TERM_START_BEGIN_HOOK:
        start_hook(leader, leader->config->on_elected, 0, "");
        break;
    case TEN_TERM_START_COMMAND:
        start_command(leader, &heard->term);
        break;
    case TEN_TERM_START_END_HOOK:
        start_hook(leader, leader->config->on_demoted, TEN_CHILD_UNBOUND, reason);
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
static uint64_t go_on(struct leader *leader) {
    for (;;) {
        /* In this order: that something is gone can take long to see, and then the lease is looked at again. */
        enum ten_work_left left = left_of_child(leader);
        struct heard heard = look_at_heard(leader);
        uint64_t now_ms = ten_now_ms();
        enum ten_term_step step = ten_term_next(&leader->term, &heard.term, left, now_ms);
        atomic_store(&leader->shared->state->keep_until_ms, leader->term.keep_until_ms);
        carry_out(leader, step, &heard);
        if (step == TEN_TERM_NOTHING && ten_term_wants_ready(&leader->term, &heard.term))
            make_ready(leader);
        if (step == TEN_TERM_NOTHING || step == TEN_TERM_KILL) /* which is repeated, but not at once */
            return ten_term_next_ms(&leader->term, &heard.term, now_ms);
    }
}

/* ---- signals */

static void stop(struct leader *leader, int number, bool from_terminal) {
    if (leader->term.stops == 0) {
        leader->stop_signal = number;
        leader->stop_from_terminal = from_terminal;
    }
    ten_term_stop(&leader->term);
}

static void take_signals(struct leader *leader) {
    struct signalfd_siginfo info;
    while (ten_read_some(leader->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool from_terminal = info.ssi_code == SI_KERNEL;
        bool stops = number == SIGTERM || number == SIGINT || number == SIGQUIT || (number == SIGHUP && from_terminal);
        if (number == SIGCHLD)
            reap(leader);
        else if (stops)
            stop(leader, number, from_terminal);
        else if (leader->child.pid && !from_terminal)
            ten_child_pass(&leader->child, number);
    }
}

/* ---- health */

static void take_health(struct leader *leader) {
    if (!ten_health_take(&leader->health))
        return;
    bool well = leader->health.well;
    TEN_LOG(leader->log, well ? TEN_LOG_INFO : TEN_LOG_WARN, well ? "health_ok" : "health_failed",
            TEN_TEXT("target", leader->config->role), TEN_TEXT("command", leader->config->healthy));
    ten_candidate_set_fit(leader->election, well);
}

/* ---- the loop */

static void loop(struct leader *leader) {
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

static int open_loop(struct leader *leader, ten_error *error) {
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

static int open_exporter(struct leader *leader, const char *address, enum ten_exports kind, ten_exporter **ret_exporter,
                         ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_exporter_config exporter = {.address = address,
                                    .kind = kind,
                                    .measures = &leader->measures,
                                    .instance = leader->shared->state->instance,
                                    .namespace_name = config->context.namespace_name,
                                    .role = config->role,
                                    .store = config->store,
                                    .leads = leads,
                                    .userdata = leader->election,
                                    .log = leader->log};
    return ten_exporter_open(&exporter, ret_exporter, error);
}

static bool was_stopped(void *userdata) {
    struct leader *leader = userdata;
    int number = ten_store_wait_signal(leader->signal_fd);
    if (number)
        leader->stop_signal = number;
    return number != 0;
}

static int open_context(struct leader *leader, ten_error *error) {
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

static int open_election(struct leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    tenure_election_options options = {.size = sizeof options,
                                       .namespace_name = config->context.namespace_name,
                                       .at_least_ms = config->at_least_ms,
                                       .count = config->count,
                                       .on_event = on_event,
                                       .userdata = leader};
    ten_election_extras extras = {.beliefs = &leader->shared->beliefs,
                                  .works_elsewhere = true,
                                  .measures = &leader->measures,
                                  .all = config->all,
                                  .all_count = config->all_count,
                                  .announces = config->announces,
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

static const char *problem_of(const struct leader *leader) {
    const struct heard *heard = &leader->heard;
    return heard->problem[0] ? heard->problem : tenure_strerror(heard->term.error);
}

/* What came of it, after the loop. */
static int conclude(const struct leader *leader, int *ret_exit, ten_error *error) {
    const ten_leader_config *config = leader->config;
    const ten_term_heard *heard = &leader->heard.term;
    *ret_exit = 0;
    switch (ten_term_outcome(&leader->term, heard)) {
    case TEN_TERM_REFUSED:
        return ten_fail(error, heard->error, "this instance cannot %s %s: %s", config->once ? "get" : "lead",
                        config->role, problem_of(leader));
    case TEN_TERM_COMMAND_END:
        *ret_exit = exit_of(leader->status);
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

static void open_term(struct leader *leader) {
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
    struct leader leader = {.config = config,
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
