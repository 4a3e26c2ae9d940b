/*
 * The loop of elect and once: it starts the command when the election's thread says that the term has begun, and ends
 * it before the lease does. Called by cmd_elect.c and cmd_once.c, in the worker.
 */
#include "agent/leader/leader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/exporter.h"
#include "agent/warden/child.h"
#include "agent/warden/tree.h"
#include "base/clock.h"
#include "base/io.h"
#include "runtime/candidate.h"
#include "runtime/client.h"

#define LOOK_MS            20u    /* at what is left of a command that is ending */
#define KILL_LOST_AFTER_MS 50u    /* asked to end, with the lease gone */
#define HOOK_MS            10000u /* for a hook */
#define BACKOFF_MIN_MS     200u
#define BACKOFF_MAX_MS     10000u
#define STEADY_MS          10000u /* a command that ran so long starts the backoff anew */
#define FLUSH_MS           1000u

enum phase {
    PHASE_WAITING, /* for a term */
    PHASE_BEGIN,   /* the hook of its beginning runs */
    PHASE_COMMAND,
    PHASE_END, /* the hook of its end runs */
};

/* What the election's thread leaves for the loop. */
struct heard {
    uint64_t token;     /* of a term that has begun; 0: none has */
    bool over;          /* the term has ended, or is to */
    bool lost;          /* it has: somebody else may lead */
    bool held;          /* a campaign was refused, because another leads */
    bool uncertain;     /* a renewal failed, and none has been confirmed since */
    int error;          /* of the store, or why this instance can never lead */
    bool refused;       /* the latter */
    uint64_t until_ms;  /* the store is recovering, and lets nobody in before that */
    const char *reason; /* of the end */
};

struct leader {
    const ten_leader_config *config;
    ten_shared *shared;
    ten_children children;
    ten_log *log;
    tenure_election *election;
    int signal_fd;
    int heard_fd;
    pthread_mutex_t lock;
    ten_measures measures;
    ten_exporter *exporter;            /* NULL: nobody asks */
    struct heard heard;                /* under the lock */
    char other[TENURE_HOLDER_MAX + 1]; /* who leads, as the log knows: the election's thread's own */

    enum phase phase;
    ten_child child;
    int alive_fds[2]; /* a pipe without content, for as long as the child runs */
    uint64_t mark;
    bool cut_short;       /* the child has been asked to end */
    bool ending;          /* it has, or it has ended; what is left of it is being waited for */
    uint64_t kill_ms;     /* while ending: when asking ends */
    uint64_t began_ms;    /* the command did */
    uint64_t hook_end_ms; /* a hook that still runs then is ended */
    uint64_t token;
    bool lost;       /* the lease of this term is gone */
    bool done;       /* the command has ended by itself */
    bool ran;        /* a command was started at all */
    int status;      /* how the last one ended */
    unsigned brief;  /* commands in a row that ended soon */
    uint64_t due_ms; /* once: until when another may hold the role */
    unsigned stop_signals;
    int stop_signal; /* the first */
    bool over;
};

static uint64_t ends_ms(const struct leader *leader) {
    return ten_belief_ends_ms(&leader->shared->beliefs.beliefs[0]);
}

/* ---- what the election's thread hears */

static bool is_worth_saying(struct leader *leader, const tenure_event *event) {
    if (event->kind != TENURE_EVENT_ACQUIRE_FAILED || event->error != TENURE_E_HELD)
        return true;
    /* That another leads is told when it is another than before. To lose is usual for once. */
    bool known = strcmp(leader->other, event->instance) == 0;
    snprintf(leader->other, sizeof leader->other, "%s", event->instance);
    return !known && !leader->config->once;
}

static void log_event(struct leader *leader, const tenure_event *event) {
    ten_field fields[8];
    size_t count = 0;
    bool bad = (event->error < 0 && event->error != TENURE_E_HELD) || event->kind == TENURE_EVENT_LOST ||
               event->kind == TENURE_EVENT_RECOVERING;
    enum ten_log_level level = bad ? TEN_LOG_WARN : TEN_LOG_INFO;
    if (event->kind == TENURE_EVENT_STOP || !is_worth_saying(leader, event))
        level = TEN_LOG_DEBUG;
    fields[count++] = TEN_TEXT("target", event->target);
    if (event->token)
        fields[count++] = TEN_NUMBER("token", event->token);
    if (event->instance[0])
        fields[count++] = TEN_TEXT("holder", event->instance);
    if (event->reason[0])
        fields[count++] = TEN_TEXT("reason", event->reason);
    if (event->error < 0)
        fields[count++] = TEN_TEXT("error", tenure_strerror(event->error));
    if (event->remaining_ms)
        fields[count++] = TEN_NUMBER("remaining_ms", event->remaining_ms);
    ten_log_event(leader->log, level, event->name, fields, count);
}

static void note(struct heard *heard, const tenure_event *event) {
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        *heard = (struct heard){.token = event->token};
        break;
    case TENURE_EVENT_STOP:
    case TENURE_EVENT_LOST:
        heard->over = true;
        heard->lost |= event->kind == TENURE_EVENT_LOST;
        heard->reason = event->reason;
        break;
    case TENURE_EVENT_RENEW_FAILED:
        heard->uncertain = true;
        break;
    case TENURE_EVENT_RENEWED:
        heard->uncertain = false;
        break;
    case TENURE_EVENT_RECOVERING:
        heard->until_ms = ten_now_ms() + event->remaining_ms;
        break;
    case TENURE_EVENT_ACQUIRE_FAILED:
        heard->held = event->error == TENURE_E_HELD;
        heard->until_ms = 0;
        heard->error = heard->held ? 0 : event->error;
        break;
    case TENURE_EVENT_STORE_DOWN:
    case TENURE_EVENT_REFUSED:
        heard->error = event->error;
        heard->refused = event->kind == TENURE_EVENT_REFUSED;
        break;
    case TENURE_EVENT_STORE_UP:
        heard->error = 0;
        break;
    default:
        break;
    }
}

static void on_event(const tenure_event *event, void *userdata) {
    struct leader *leader = userdata;
    log_event(leader, event);
    pthread_mutex_lock(&leader->lock);
    note(&leader->heard, event);
    pthread_mutex_unlock(&leader->lock);
    ten_eventfd_poke(leader->heard_fd);
}

static struct heard look_at_heard(struct leader *leader) {
    pthread_mutex_lock(&leader->lock);
    struct heard heard = leader->heard;
    pthread_mutex_unlock(&leader->lock);
    return heard;
}

/* ---- processes */

static bool start_child(struct leader *leader, char *const *arguments, uint32_t belief, const char *reason) {
    char token[24];
    char mark[24];
    snprintf(token, sizeof token, "%llu", (unsigned long long)leader->token);
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)++leader->mark);
    const char *const ours[][2] = {{"TENURE_ROLE", leader->config->role},
                                   {"TENURE_TOKEN", token},
                                   {"TENURE_INSTANCE", tenure_election_instance_id(leader->election)},
                                   {TEN_POLL_MARK, mark},
                                   {"TENURE_REASON", reason}};
    char **variables = ten_environment_make(ours, TEN_COUNT(ours), true);
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
    leader->ending = leader->cut_short = false;
    errno = failed;
    return started;
}

static bool start_hook(struct leader *leader, const char *hook, uint32_t belief, const char *reason) {
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)hook, NULL};
    if (!hook)
        return false;
    leader->hook_end_ms = ten_now_ms() + HOOK_MS;
    if (start_child(leader, arguments, belief, reason))
        return true;
    TEN_LOG(leader->log, TEN_LOG_ERROR, "hook_failed", TEN_TEXT("target", leader->config->role),
            TEN_TEXT("error", strerrordesc_np(errno)));
    return false;
}

static void end_child(struct leader *leader, int signal, uint64_t kill_ms) {
    if (!leader->child.pid)
        return;
    leader->kill_ms = leader->ending ? ten_min_u64(leader->kill_ms, kill_ms) : kill_ms;
    if (!leader->ending && signal != 0)
        ten_child_signal(&leader->children, &leader->child, signal);
    leader->ending = leader->cut_short = true;
}

/* ---- a term, step by step */

static uint64_t backoff_ms(struct leader *leader) {
    if (ten_now_ms() - leader->began_ms >= STEADY_MS)
        leader->brief = 0;
    return ten_min_u64((uint64_t)BACKOFF_MIN_MS << ten_min_u64(leader->brief++, 10), BACKOFF_MAX_MS);
}

static bool is_wanted_again(const struct leader *leader) {
    if (leader->config->once || leader->stop_signals || leader->config->restart == TEN_RESTART_NEVER)
        return false;
    return leader->config->restart == TEN_RESTART_ALWAYS || leader->status != 0;
}

static void end_term(struct leader *leader) {
    leader->phase = PHASE_WAITING;
    leader->over = leader->config->once || leader->stop_signals || (leader->done && !is_wanted_again(leader));
    ten_candidate_work_over(leader->election);
}

static void begin_end(struct leader *leader) {
    leader->phase = PHASE_END;
    const char *reason = leader->done ? "done" : look_at_heard(leader).reason;
    if (!start_hook(leader, leader->config->on_demoted, TEN_CHILD_UNBOUND, reason ? reason : "shutdown"))
        end_term(leader);
}

/* The command has ended by itself, or could not be started: others may go first now. */
static void note_done(struct leader *leader, int status) {
    leader->done = true;
    leader->status = status;
    bool again = is_wanted_again(leader);
    uint64_t pause_ms = again ? backoff_ms(leader) : UINT64_MAX;
    if (leader->child.exec_error)
        TEN_LOG(leader->log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
                TEN_TEXT("command", leader->config->command[0]),
                TEN_TEXT("error", strerrordesc_np(leader->child.exec_error)));
    else if (status != 0 && again)
        TEN_LOG(leader->log, TEN_LOG_WARN, "command_failed", TEN_TEXT("target", leader->config->role),
                TEN_NUMBER("token", leader->token),
                WIFSIGNALED(status) ? TEN_NUMBER("signal", (uint64_t)WTERMSIG(status))
                                    : TEN_NUMBER("exit_status", (uint64_t)WEXITSTATUS(status)));
    ten_candidate_end_term(leader->election, TEN_REASON_DONE, pause_ms);
}

static void start_command(struct leader *leader) {
    leader->phase = PHASE_COMMAND;
    leader->began_ms = ten_now_ms();
    leader->ran = true;
    if (start_child(leader, leader->config->command, 0, ""))
        return;
    TEN_LOG(leader->log, TEN_LOG_ERROR, "command_failed", TEN_TEXT("target", leader->config->role),
            TEN_TEXT("error", strerrordesc_np(errno)));
    note_done(leader, 1 << 8);
    begin_end(leader);
}

static void begin_term(struct leader *leader, uint64_t token) {
    leader->token = token;
    leader->lost = leader->done = false;
    atomic_store(&leader->shared->state->keep_until_ms, ten_now_ms() + leader->config->election.at_least_ms);
    leader->phase = PHASE_BEGIN;
    if (!start_hook(leader, leader->config->on_elected, 0, ""))
        start_command(leader);
}

static void child_gone(struct leader *leader) {
    int status = leader->child.status;
    bool cut_short = leader->cut_short;
    enum phase phase = leader->phase;
    ten_child_forget(&leader->children, &leader->child);
    ten_close_fd(&leader->alive_fds[0]);
    if (phase != PHASE_COMMAND && status != 0 && !cut_short)
        TEN_LOG(leader->log, TEN_LOG_WARN, "hook_failed", TEN_TEXT("target", leader->config->role),
                TEN_NUMBER("status", (uint64_t)(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status))));
    if (phase == PHASE_BEGIN && !cut_short)
        start_command(leader);
    else if (phase == PHASE_END)
        end_term(leader);
    else
        begin_end(leader);
}

/* ---- looking at the child */

/* When this process was stopped or hung for too long, the warden has ended the command in its place. */
static bool warden_did_it(struct leader *leader) {
    bool pressed = ten_now_ms() + leader->config->grace_ms >= ends_ms(leader) || look_at_heard(leader).lost;
    return pressed && WIFSIGNALED(leader->child.status);
}

/* The lease is no more, or may soon be no more. Should it be confirmed after all, there is no work any more to lead. */
static void cut_short(struct leader *leader, int signal, uint64_t kill_ms) {
    ten_candidate_end_term(leader->election, TEN_REASON_STORE, 0);
    end_child(leader, signal, kill_ms);
}

static void reap(struct leader *leader) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (!ten_child_reaped(&leader->children, &leader->child, pid, status))
            continue; /* an orphan that was adopted */
        if (leader->phase != PHASE_COMMAND)
            continue;
        if (!leader->cut_short && warden_did_it(leader))
            cut_short(leader, 0, ten_now_ms());
        if (leader->cut_short)
            leader->status = leader->child.status;
        else
            note_done(leader, leader->child.status);
    }
}

/* The lease presses: near its deadline there is no more time to ask. */
static bool must_kill(const struct leader *leader) {
    uint64_t now = ten_now_ms();
    if (leader->ending && now >= leader->kill_ms)
        return true;
    return leader->phase != PHASE_END && !leader->lost && now + leader->config->grace_ms / 2 >= ends_ms(leader);
}

static void look_at_child(struct leader *leader) {
    const struct heard heard = look_at_heard(leader);
    uint64_t now = ten_now_ms();
    bool under_lease = leader->phase == PHASE_BEGIN || leader->phase == PHASE_COMMAND;
    if (under_lease && heard.lost && !leader->lost) {
        leader->lost = true;
        end_child(leader, SIGTERM, now + KILL_LOST_AFTER_MS);
    } else if (under_lease && !leader->ending && !leader->child.exited) {
        bool late = now + leader->config->grace_ms >= ends_ms(leader);
        bool unsure = heard.uncertain && leader->config->stop_when_uncertain;
        uint64_t kill_ms = now + (late ? leader->config->grace_ms / 2 : leader->config->kill_after_ms);
        if (late || unsure)
            cut_short(leader, SIGTERM, kill_ms);
        else if (heard.over)
            end_child(leader, SIGTERM, kill_ms);
    }
    if (leader->phase != PHASE_COMMAND && !leader->ending && now >= leader->hook_end_ms) {
        /* Not cut short: the term goes on without it. */
        ten_child_signal(&leader->children, &leader->child, SIGTERM);
        leader->ending = true;
        leader->kill_ms = now + KILL_LOST_AFTER_MS;
    }
    int signal = must_kill(leader) ? SIGKILL : SIGTERM;
    if (signal == SIGKILL && !leader->child.exited)
        ten_child_signal(&leader->children, &leader->child, SIGKILL);
    if (leader->child.exited && !leader->ending) { /* what it left behind goes, too */
        leader->ending = true;
        leader->kill_ms = now + KILL_LOST_AFTER_MS;
    }
    if (leader->child.exited && ten_child_is_gone(&leader->children, &leader->child, signal))
        child_gone(leader);
}

/* ---- waiting for a term */

static void look_for_term(struct leader *leader) {
    const struct heard heard = look_at_heard(leader);
    uint64_t now = ten_now_ms();
    bool is_new = heard.token != 0 && heard.token != leader->token;
    if (is_new && heard.over) { /* before it began */
        leader->token = heard.token;
        ten_candidate_work_over(leader->election);
    } else if (is_new && tenure_election_token(leader->election) == heard.token) {
        begin_term(leader, heard.token);
        return;
    }
    bool recovering = now < heard.until_ms;
    bool waited = leader->config->once && now >= leader->due_ms && !recovering && (heard.held || heard.error < 0);
    if (heard.refused || waited || leader->stop_signals)
        leader->over = true;
}

/* ---- signals */

static void stop(struct leader *leader, int number, bool from_terminal) {
    if (leader->stop_signals++ == 0) {
        leader->stop_signal = number;
        ten_candidate_end_term(leader->election, TEN_REASON_SHUTDOWN, UINT64_MAX);
        if (leader->phase != PHASE_END)
            end_child(leader, from_terminal ? 0 : number, ten_now_ms() + leader->config->kill_after_ms);
    } else {
        end_child(leader, SIGTERM, ten_now_ms()); /* a second one hurries */
    }
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

/* ---- the loop */

static int wait_ms(struct leader *leader) {
    uint64_t now = ten_now_ms();
    uint64_t next_ms = UINT64_MAX;
    if (leader->ending || (leader->child.pid && leader->child.exited))
        next_ms = now + LOOK_MS;
    else if (leader->phase == PHASE_END)
        next_ms = leader->hook_end_ms;
    else if (leader->child.pid)
        next_ms = ten_sub_saturating(ends_ms(leader), leader->config->grace_ms);
    if (leader->phase == PHASE_BEGIN)
        next_ms = ten_min_u64(next_ms, leader->hook_end_ms);
    if (leader->phase == PHASE_WAITING && leader->config->once)
        next_ms = ten_max_u64(leader->due_ms, look_at_heard(leader).until_ms);
    return (int)ten_min_u64(ten_sub_saturating(next_ms, now), 1000);
}

static void loop(struct leader *leader) {
    struct pollfd polled[] = {{.fd = leader->signal_fd, .events = POLLIN}, {.fd = leader->heard_fd, .events = POLLIN}};
    while (!leader->over) {
        (void)poll(polled, TEN_COUNT(polled), wait_ms(leader));
        ten_eventfd_clear(leader->heard_fd);
        take_signals(leader);
        if (leader->child.pid)
            look_at_child(leader);
        if (!leader->child.pid && !leader->over)
            look_for_term(leader);
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
    return tenure_is_leader(userdata);
}

static int open_exporter(struct leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    ten_exporter_config exporter = {.address = config->metrics,
                                    .kind = TEN_EXPORTS_ROLE,
                                    .measures = &leader->measures,
                                    .instance = leader->shared->state->instance,
                                    .namespace_name = config->election.namespace_name,
                                    .role = config->role,
                                    .store = config->store,
                                    .leads = leads,
                                    .userdata = leader->election,
                                    .log = leader->log};
    return ten_exporter_open(&exporter, &leader->exporter, error);
}

/* The log needs the instance's name, and the election's thread the log. */
static int open_election(struct leader *leader, ten_error *error) {
    const ten_leader_config *config = leader->config;
    tenure_election_options options = config->election;
    options.size = sizeof options;
    options.on_event = on_event;
    options.userdata = leader;
    ten_election_extras extras = {
        .beliefs = &leader->shared->beliefs, .works_elsewhere = true, .measures = &leader->measures};
    int r = ten_candidate_open(config->store, config->role, &options, &extras, &leader->election);
    if (r < 0)
        return ten_fail(error, r, "%s", tenure_message(NULL));
    struct ten_shared_state *state = leader->shared->state;
    snprintf(state->instance, sizeof state->instance, "%s", tenure_election_instance_id(leader->election));
    atomic_store(&state->ready, true);
    ten_log_config log = {.fd = STDERR_FILENO,
                          .format = config->log_format,
                          .level = config->log_level,
                          .clock = &ten_system_clock,
                          .instance = state->instance,
                          .namespace_name = options.namespace_name};
    r = ten_log_open(&log, &leader->log, error);
    if (r == TENURE_OK && config->metrics)
        r = open_exporter(leader, error);
    if (r == TENURE_OK)
        ten_candidate_begin(leader->election);
    return r;
}

static int exit_of(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What came of it, after the loop. */
static int conclude(const struct leader *leader, int *ret_exit, ten_error *error) {
    const ten_leader_config *config = leader->config;
    const struct heard heard = leader->heard;
    *ret_exit = 0;
    if (heard.refused)
        return ten_fail(error, heard.error, "this instance cannot lead %s: %s", config->role,
                        tenure_strerror(heard.error));
    if (leader->done || (config->once && leader->ran && leader->stop_signals && !leader->lost))
        *ret_exit = exit_of(leader->status);
    else if (config->once && leader->ran)
        return ten_fail(error, TENURE_E_LOST, "the lease on %s was lost while the command ran; it was ended",
                        config->role);
    else if (config->once && leader->stop_signals)
        *ret_exit = 128 + leader->stop_signal;
    else if (config->once && heard.error < 0)
        return ten_fail(error, heard.error, "it is not known who has %s: %s", config->role,
                        tenure_strerror(heard.error));
    else if (config->once)
        *ret_exit = config->not_elected_exit;
    return TENURE_OK;
}

int ten_leader_run(const ten_leader_config *config, ten_shared *shared, int *ret_exit, ten_error *error) {
    struct leader leader = {.config = config,
                            .shared = shared,
                            .children = {.shared = shared, .not_isolated = config->share_pids},
                            .signal_fd = -1,
                            .heard_fd = -1,
                            .alive_fds = {-1, -1},
                            .due_ms = ten_add_saturating(ten_now_ms(), config->wait_ms)};
    pthread_mutex_init(&leader.lock, NULL);
    ten_tree_adopt();
    int r = open_loop(&leader, error);
    if (r == TENURE_OK)
        r = open_election(&leader, error);
    if (r == TENURE_OK)
        loop(&leader);
    if (r == TENURE_OK)
        ten_candidate_work_over(leader.election);
    ten_exporter_close(leader.exporter);
    tenure_election_stop(leader.election);
    if (r == TENURE_OK)
        r = conclude(&leader, ret_exit, error);
    ten_log_close(leader.log, FLUSH_MS);
    ten_children_free(&leader.children);
    ten_close_fd(&leader.signal_fd);
    ten_close_fd(&leader.heard_fd);
    pthread_mutex_destroy(&leader.lock);
    return r;
}
