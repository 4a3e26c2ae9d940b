/*
 * The warden. Called by the commands that run work: agent, elect and once.
 */
#include "agent/warden/warden.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/warden/tree.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/notify.h"
#include "core/work.h"
#include "core/worker.h"
#include "store/store.h"

#define LOOK_MS       20u
#define IDLE_MS       1000u
#define RELEASE_BATCH 500u

struct warden {
    const ten_warden_config *config;
    ten_shared shared;
    ten_worker rules;
    pid_t worker;   /* 0: none */
    pid_t releaser; /* gives a dead worker's leases back; 0: none */
    int status;
    int signal_fd;
    unsigned stop_signals;
    ten_log *log;
    ten_notifier notifier; /* it speaks for the worker, too: the service manager listens to the main process alone */
};

/* ---- a worker */

static bool make_shared(struct warden *warden) {
    void *memory =
        mmap(NULL, sizeof(struct ten_shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    warden->shared.state = memory;
    if (ten_beliefs_share(&warden->shared.beliefs, TEN_SHARED_TARGETS))
        return true;
    munmap(memory, sizeof(struct ten_shared_state));
    return false;
}

static void free_shared(struct warden *warden) {
    munmap(warden->shared.state, sizeof(struct ten_shared_state));
    ten_beliefs_free(&warden->shared.beliefs);
}

static _Noreturn void be_worker(struct warden *warden, pid_t parent) {
    sigset_t none;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(1); /* the warden died before this could be noticed */
    ten_close_fd(&warden->signal_fd);
    ten_notifier_close(&warden->notifier);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    _exit(warden->config->work(&warden->shared, warden->config->userdata));
}

static bool start_worker(struct warden *warden) {
    pid_t self = getpid();
    if (!make_shared(warden))
        return false;
    ten_worker_started(&warden->rules, ten_now_ms());
    warden->worker = fork();
    if (warden->worker == 0)
        be_worker(warden, self);
    if (warden->worker > 0)
        return true;
    warden->worker = 0;
    free_shared(warden);
    return false;
}

/* ---- ending a target's processes in the worker's place */

/* A worker that is stopped or hung does not look at its deadlines; at a grace before each the warden ends the processes
 * itself. Returns when to look next. */
static uint64_t watch_polls(struct warden *warden) {
    const struct ten_shared_state *state = warden->shared.state;
    uint64_t grace_ms = warden->config->grace_ms;
    uint64_t next_ms = UINT64_MAX;
    unsigned places = atomic_load(&state->poll_places);
    for (unsigned i = 0; i < places; i++) {
        const struct ten_shared_poll *place = &state->polls[i];
        uint32_t belief = atomic_load(&place->belief);
        int32_t pid = atomic_load(&place->pid);
        if (belief == 0 || belief == TEN_SHARED_UNBOUND)
            continue;
        uint64_t ends_ms = ten_belief_ends_ms(ten_beliefs_at(&warden->shared.beliefs, belief - 1));
        uint64_t now = ten_now_ms();
        enum ten_work_step step = ten_work_pressure(ends_ms, grace_ms, now);
        if (step == TEN_WORK_NOTHING) {
            next_ms = ten_min_u64(next_ms, ten_work_ask_ms(ends_ms, grace_ms));
            continue;
        }
        int signal = step == TEN_WORK_KILL ? SIGKILL : SIGTERM;
        uint64_t poll = atomic_load(&place->poll);
        if (pid > 0)
            (void)ten_tree_signal(pid, signal);
        (void)ten_tree_signal_orphans(warden->worker, poll, NULL, 0, signal);
        next_ms = ten_min_u64(next_ms, now + LOOK_MS);
    }
    return next_ms;
}

/* ---- after a worker's death */

static void reap(struct warden *warden) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == warden->worker) {
            warden->worker = 0;
            warden->status = status;
        }
        if (pid == warden->releaser)
            warden->releaser = 0;
    }
}

/* Everything that the worker started: it has been adopted by now, or will be as its parents go. False: something is
 * still there. */
static bool end_descendants(struct warden *warden, uint64_t until_ms) {
    while (ten_tree_signal_all(&warden->releaser, 1, SIGKILL) > 0) {
        if (ten_now_ms() >= until_ms)
            return false;
        ten_sleep_us(1000);
        (void)ten_notifier_beat(&warden->notifier, ten_now_ms());
        reap(warden);
    }
    reap(warden);
    return true;
}

struct held {
    const char *holder;
    ten_op *ops;
    char (*ids)[TENURE_TARGET_MAX + 1];
    size_t count;
    size_t seen;
    char last[TENURE_TARGET_MAX + 1];
};

static int collect(const ten_row *row, void *userdata) {
    struct held *held = userdata;
    held->seen++;
    snprintf(held->last, sizeof held->last, "%s", row->target.id);
    if (row->holder && strcmp(row->holder, held->holder) == 0) {
        snprintf(held->ids[held->count], sizeof *held->ids, "%s", row->target.id);
        held->ops[held->count++].token = row->token;
    }
    return 0;
}

/* The tombstone first: a request of the dead worker that is still under way must not take a target after it was freed.
 */
static int release_page(const ten_warden_config *config, ten_store *store, struct held *held, ten_result *results) {
    ten_query query = {
        .namespace_name = config->namespace_name, .filter = TENURE_LEASED, .after = held->last, .limit = RELEASE_BATCH};
    char after[TENURE_TARGET_MAX + 1];
    memcpy(after, held->last, sizeof after);
    query.after = after;
    held->count = held->seen = 0;
    int r = store->ops->list(store, &query, collect, held, config->ttl_ms);
    for (size_t i = 0; i < held->count; i++)
        held->ops[i] = (ten_op){.kind = TEN_OP_RELEASE,
                                .namespace_name = config->namespace_name,
                                .target = held->ids[i],
                                .holder = held->holder,
                                .token = held->ops[i].token,
                                .reason = TEN_REASON_SHUTDOWN};
    if (r == TENURE_OK && held->count > 0)
        r = ten_store_apply(store, held->ops, results, held->count, config->ttl_ms);
    return r;
}

static int release_all(const ten_warden_config *config, ten_store *store, const char *instance) {
    struct held held = {.holder = instance};
    held.ops = ten_calloc(RELEASE_BATCH, sizeof *held.ops);
    held.ids = ten_calloc(RELEASE_BATCH, sizeof *held.ids);
    ten_result *results = ten_calloc(RELEASE_BATCH, sizeof *results);
    int r = held.ops && held.ids && results ? TENURE_OK : TENURE_E_NOMEM;
    ten_op leave = {.kind = TEN_OP_LEAVE,
                    .namespace_name = config->namespace_name,
                    .holder = instance,
                    .ttl_ms = config->ttl_ms,
                    .reason = TEN_REASON_SHUTDOWN};
    if (r == TENURE_OK)
        r = ten_store_apply(store, &leave, results, 1, config->ttl_ms);
    while (r == TENURE_OK) {
        r = release_page(config, store, &held, results);
        if (held.seen < RELEASE_BATCH)
            break;
    }
    ten_free(held.ops);
    ten_free(held.ids);
    ten_free(results);
    return r;
}

/* In a process of its own, so that a store that hangs does not hang the warden, and nothing of it stays here. */
static void give_leases_back(struct warden *warden) {
    const struct ten_shared_state *state = warden->shared.state;
    pid_t child = fork();
    if (child != 0) {
        warden->releaser = child > 0 ? child : 0;
        return;
    }
    ten_close_fd(&warden->signal_fd);
    ten_notifier_close(&warden->notifier);
    uint64_t end_ms = ten_now_ms() + warden->config->ttl_ms; /* then they have ended by themselves */
    do {
        ten_store *store;
        ten_error error;
        ten_store_config config = {.timeout_ms = ten_max_u64(warden->config->ttl_ms / 4, 50)};
        if (ten_store_open(warden->config->store, &config, &store, &error) == TENURE_OK &&
            release_all(warden->config, store, state->instance) == TENURE_OK)
            _exit(0);
        ten_sleep_us(50000);
    } while (ten_now_ms() < end_ms);
    _exit(1);
}

/* ---- the loop */

/* The log's thread is started when there is first something to say. */
static ten_log *log_of(struct warden *warden) {
    ten_error error;
    ten_log_config config = {.fd = STDERR_FILENO,
                             .format = warden->config->log_format,
                             .level = warden->config->log_level,
                             .clock = &ten_system_clock,
                             .instance = warden->shared.state->instance,
                             .namespace_name = warden->config->namespace_name,
                             .ring_size = 4096};
    if (!warden->log && ten_log_open(&config, &warden->log, &error) < 0)
        warden->log = NULL;
    return warden->log;
}

static void take_signals(struct warden *warden) {
    struct signalfd_siginfo info;
    while (ten_read_some(warden->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool from_terminal = info.ssi_code == SI_KERNEL;
        /* Of a terminal that is gone the kernel tells the session's leader alone. */
        if (number == SIGHUP && from_terminal && warden->config->pass_signals && getsid(0) == getpid()) {
            number = SIGTERM;
            from_terminal = false;
        }
        if (number == SIGTERM || number == SIGINT || number == SIGQUIT)
            warden->stop_signals++;
        /* What the terminal sends, it sends to the worker, too. */
        if (number != SIGCHLD && !from_terminal && warden->worker)
            (void)kill(warden->worker, number);
    }
    reap(warden);
}

/* Says that the worker has its instance, that an end was asked for, and that the warden lives. A worker that hangs is
 * the warden's business, not the service manager's. Returns when to come again. */
static uint64_t notify(struct warden *warden) {
    ten_notifier *notifier = &warden->notifier;
    if (atomic_load(&warden->shared.state->ready))
        ten_notifier_ready(notifier);
    if (warden->stop_signals)
        ten_notifier_stopping(notifier);
    uint64_t wait_ms = ten_notifier_beat(notifier, ten_now_ms());
    return notifier->fd < 0 || notifier->ready ? wait_ms : ten_min_u64(wait_ms, LOOK_MS);
}

static void stand_over(struct warden *warden) {
    bool killed = false;
    while (warden->worker) {
        uint64_t next_ms = watch_polls(warden);
        if (!killed &&
            ten_worker_is_stuck(&warden->rules, atomic_load(warden->shared.beliefs.last_end_ms), ten_now_ms())) {
            killed = true;
            TEN_LOG(log_of(warden), TEN_LOG_ERROR, "worker_killed",
                    TEN_TEXT("reason", "it is past all of its deadlines"));
            (void)kill(warden->worker, SIGKILL);
        }
        uint64_t wait_ms =
            ten_min_u64(ten_sub_saturating(next_ms, ten_now_ms()), ten_min_u64(IDLE_MS, warden->config->grace_ms / 2));
        wait_ms = ten_min_u64(wait_ms, notify(warden));
        (void)ten_wait_readable(warden->signal_fd, -1, wait_ms);
        take_signals(warden);
    }
}

static void pause_before_restart(struct warden *warden) {
    uint64_t pause_ms = ten_worker_pause_ms(&warden->rules, ten_now_ms());
    TEN_LOG(log_of(warden), TEN_LOG_ERROR, "worker_crashed",
            WIFSIGNALED(warden->status) ? TEN_NUMBER("signal", (uint64_t)WTERMSIG(warden->status))
                                        : TEN_NUMBER("exit_status", (uint64_t)WEXITSTATUS(warden->status)),
            TEN_NUMBER("restart_in_ms", pause_ms));
    /* Its lines name the dead instance. */
    ten_log_close(warden->log, 100);
    warden->log = NULL;
    uint64_t end_ms = ten_now_ms() + pause_ms;
    while (ten_now_ms() < end_ms && warden->stop_signals == 0) {
        (void)ten_wait_readable(warden->signal_fd, -1,
                                ten_min_u64(ten_sub_saturating(end_ms, ten_now_ms()), notify(warden)));
        take_signals(warden);
    }
}

static ten_worker_end end_of_worker(struct warden *warden) {
    const struct ten_shared_state *state = warden->shared.state;
    return (ten_worker_end){.signalled = WIFSIGNALED(warden->status),
                            .exit_code = WEXITSTATUS(warden->status),
                            .gone = end_descendants(warden, ten_now_ms() + warden->config->ttl_ms),
                            .ready = atomic_load(&state->ready),
                            .keep_until_ms = atomic_load(&state->keep_until_ms)};
}

static int run_workers(struct warden *warden) {
    for (;;) {
        if (!start_worker(warden)) {
            fprintf(stderr, "tenure: cannot start the worker process: %s\n", strerrordesc_np(errno));
            return 1;
        }
        stand_over(warden);
        ten_worker_end end = end_of_worker(warden);
        bool crash = ten_worker_is_wanted_again(&warden->rules, &end, warden->stop_signals > 0);
        if (ten_worker_may_release(&end, ten_now_ms()))
            give_leases_back(warden);
        if (crash)
            pause_before_restart(warden);
        free_shared(warden);
        if (!crash)
            return end.signalled ? 128 + WTERMSIG(warden->status) : end.exit_code;
        if (warden->stop_signals)
            return 0;
    }
}

int ten_warden_run(const ten_warden_config *config) {
    struct warden warden = {.config = config};
    ten_worker_rules rules = {.ttl_ms = config->ttl_ms, .retry_exit = config->retry_exit, .one_shot = config->one_shot};
    ten_worker_init(&warden.rules, &rules);
    sigset_t signals;
    sigset_t before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    if (config->pass_signals) {
        sigaddset(&signals, SIGQUIT);
        sigaddset(&signals, SIGUSR1);
        sigaddset(&signals, SIGUSR2);
        sigaddset(&signals, SIGWINCH);
        (void)signal(SIGTSTP, SIG_IGN);
        (void)signal(SIGTTIN, SIG_IGN);
        (void)signal(SIGTTOU, SIG_IGN);
    }
    sigprocmask(SIG_BLOCK, &signals, &before);
    (void)signal(SIGPIPE, SIG_IGN);
    warden.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (warden.signal_fd < 0)
        return 1;
    ten_tree_adopt();
    ten_notifier_open(&warden.notifier);
    int exit_code = run_workers(&warden);
    ten_notifier_stopping(&warden.notifier);
    ten_notifier_close(&warden.notifier);
    ten_log_close(warden.log, 1000);
    ten_close_fd(&warden.signal_fd);
    /* One more that comes at the very end hurries nobody any more, and must not be what this process died of. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return exit_code;
}
