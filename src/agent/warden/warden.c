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

#include "agent/warden/release.h"
#include "agent/warden/tree.h"
#include "agent/warden/watch.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/memfd.h"
#include "base/notify.h"
#include "core/worker.h"
#include "store/store.h"

#define NOTIFY_MS      20u
#define IDLE_MS        1000u
#define LOG_MS         1000u /* longest wait for a log that is not read */
#define TROUBLE_MS     1000u
#define TROUBLE_LOG_MS 10000u
#define STUCK_MS       500u /* after so long everything that was killed is gone, unless it waits in the kernel */

struct warden {
    const ten_warden_config *config;
    ten_shared shared;
    ten_worker rules;
    pid_t worker;      /* 0: none */
    pid_t last_worker; /* also when it is dead */
    ten_watch *watch;
    uint64_t trouble_ms;     /* since when there is trouble; UINT64_MAX: there is none */
    uint64_t trouble_log_ms; /* when the next trouble may be logged */
    pid_t releaser;          /* gives a dead worker's leases back; 0: none */
    int status;
    int signal_fd;
    unsigned stop_signals;
    ten_log *log;
    ten_notifier notifier; /* it speaks for the worker, too: the service manager listens to the main process alone */
};

/* ---- a worker */

static bool make_shared(struct warden *warden) {
    ten_shared *shared = &warden->shared;
    shared->state = ten_memfd_share(sizeof *shared->state, &shared->state_fd);
    if (!shared->state)
        return false;
    if (ten_beliefs_share(&shared->beliefs, TEN_SHARED_TARGETS))
        return true;
    munmap(shared->state, sizeof *shared->state);
    ten_close_fd(&shared->state_fd);
    return false;
}

static void free_shared(struct warden *warden) {
    munmap(warden->shared.state, sizeof *warden->shared.state);
    ten_close_fd(&warden->shared.state_fd);
    ten_beliefs_free(&warden->shared.beliefs);
}

void ten_warden_signals(bool all, sigset_t *ret_signals) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigemptyset(ret_signals);
    for (size_t i = 0; i < (all ? TEN_COUNT(numbers) : 4); i++)
        sigaddset(ret_signals, numbers[i]);
}

/* The worker's loop takes the same signals. Until it does they wait: a SIGHUP that is meant to reload must not end a
 * worker that has just been started. */
static _Noreturn void be_worker(struct warden *warden, pid_t parent) {
    sigset_t signals;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (!warden->config->pass_signals) /* a stop of the warden's group, by the terminal or not, leaves it alone */
        (void)setpgid(0, 0);
    if (getppid() != parent)
        _exit(1); /* the warden died before this could be noticed */
    ten_close_fd(&warden->signal_fd);
    ten_notifier_close(&warden->notifier);
    ten_warden_signals(warden->config->pass_signals, &signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
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
    warden->last_worker = warden->worker;
    if (warden->worker > 0)
        return true;
    warden->worker = 0;
    free_shared(warden);
    return false;
}

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

static void take_signals(struct warden *warden);

/* Logs what cannot be ended, but not with every look; nor what the kernel is just ending with its control group. */
static void report_trouble(struct warden *warden, const ten_trouble *trouble) {
    uint64_t now_ms = ten_now_ms();
    if (trouble->error == 0)
        warden->trouble_ms = UINT64_MAX;
    else if (warden->trouble_ms == UINT64_MAX)
        warden->trouble_ms = now_ms;
    if (trouble->error == 0 || now_ms < warden->trouble_ms + TROUBLE_MS || now_ms < warden->trouble_log_ms)
        return;
    warden->trouble_log_ms = now_ms + TROUBLE_LOG_MS;
    TEN_LOG(log_of(warden), TEN_LOG_ERROR, "cannot_end_command", TEN_NUMBER("process", (uint64_t)trouble->pid),
            TEN_TEXT("error", ten_trouble_text(trouble)));
}

/* Everything that the worker started: it has been adopted by now, or will be as its parents go. False: something is
 * still there. */
static bool end_descendants(struct warden *warden, uint64_t until_ms) {
    uint64_t stuck_ms = ten_now_ms() + STUCK_MS;
    for (;;) {
        ten_trouble trouble = {0};
        ten_trouble walk = {0};
        unsigned grouped = ten_cgroup_end(warden->shared.state->cgroup, &trouble);
        unsigned found = ten_watch_kill_all(&warden->shared, warden->last_worker, warden->releaser, &walk);
        if (grouped + found == 0 || !ten_process_has_children())
            break;
        if (grouped == 0) /* else the kernel is ending what may not be signalled */
            trouble = walk;
        if (trouble.error == 0 && ten_now_ms() > stuck_ms)
            trouble.error = TEN_TROUBLE_STUCK;
        report_trouble(warden, &trouble);
        if (ten_now_ms() >= until_ms)
            return false;
        ten_sleep_us(1000);
        (void)ten_notifier_beat(&warden->notifier, ten_now_ms());
        take_signals(warden);
    }
    reap(warden);
    return true;
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
    ten_release release = {.namespace_name = warden->config->namespace_name,
                           .instance = state->instance,
                           .ttl_ms = warden->config->ttl_ms};
    uint64_t end_ms = ten_now_ms() + warden->config->ttl_ms; /* then they have ended by themselves */
    do {
        ten_store *store;
        ten_error error;
        ten_store_config config = {.timeout_ms = ten_max_u64(warden->config->ttl_ms / 4, 50)};
        if (ten_store_open(warden->config->store, &config, &store, &error) == TENURE_OK &&
            ten_release_all(&release, store) == TENURE_OK)
            _exit(0);
        ten_sleep_us(50000);
    } while (ten_now_ms() < end_ms);
    _exit(1);
}

/* ---- the loop */

static void take_signals(struct warden *warden) {
    struct signalfd_siginfo info;
    while (ten_read_some(warden->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool from_terminal = info.ssi_code == SI_KERNEL;
        /* When a terminal goes, the kernel signals the session's leader alone. */
        if (number == SIGHUP && from_terminal && warden->config->pass_signals && getsid(0) == getpid()) {
            number = SIGTERM;
            from_terminal = false;
        }
        if (number == SIGTERM || number == SIGINT || number == SIGQUIT)
            warden->stop_signals++;
        /* What the terminal sends, it sends to a worker of the same group, too. */
        if (number != SIGCHLD && warden->worker && !(from_terminal && warden->config->pass_signals))
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
    return notifier->fd < 0 || notifier->ready ? wait_ms : ten_min_u64(wait_ms, NOTIFY_MS);
}

/* A worker that is of no more use is killed. */
static bool kill_useless(struct warden *warden) {
    static const char *const reasons[] = {
        [TEN_WORKER_PAST_DEADLINES] = "it is past all of its deadlines", [TEN_WORKER_HUNG] = "its loop hangs"};
    enum ten_worker_state state =
        ten_worker_look(&warden->rules, atomic_load(warden->shared.beliefs.last_end_ms),
                        atomic_load(&warden->shared.state->turns), warden->stop_signals > 0, ten_now_ms());
    if (state == TEN_WORKER_FINE)
        return false;
    TEN_LOG(log_of(warden), TEN_LOG_ERROR, "worker_killed", TEN_TEXT("reason", reasons[state]));
    (void)kill(warden->worker, SIGKILL);
    return true;
}

static void stand_over(struct warden *warden) {
    uint64_t idle_ms =
        ten_min_u64(ten_min_u64(IDLE_MS, warden->config->grace_ms / 2), ten_worker_look_ms(&warden->rules));
    bool killed = false;
    while (warden->worker) {
        ten_trouble trouble = {0};
        uint64_t next_ms = ten_watch_look(warden->watch, &warden->shared, warden->worker, &trouble);
        report_trouble(warden, &trouble);
        killed = killed || kill_useless(warden);
        uint64_t wait_ms = ten_min_u64(ten_sub_saturating(next_ms, ten_now_ms()), idle_ms);
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
    ten_log_close(warden->log, LOG_MS);
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
                            .exit_code = WIFSIGNALED(warden->status) ? 128 + WTERMSIG(warden->status)
                                                                     : WEXITSTATUS(warden->status),
                            .gone = end_descendants(warden, ten_now_ms() + warden->config->ttl_ms),
                            .ready = atomic_load(&state->ready),
                            .begun = atomic_load(&state->begun),
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
        /* Nothing is run beside what cannot be ended. */
        while (crash && !end.gone && warden->stop_signals == 0)
            end.gone = end_descendants(warden, ten_now_ms() + IDLE_MS);
        if (!end.gone)
            fprintf(stderr, "tenure: what the command has started is still there and cannot be ended; its lease was "
                            "not released\n");
        if (ten_worker_may_release(&end, ten_now_ms()))
            give_leases_back(warden);
        if (crash)
            pause_before_restart(warden);
        free_shared(warden);
        if (!crash)
            return ten_worker_exit_code(&warden->rules, &end, warden->stop_signals > 0);
        if (warden->stop_signals)
            return 0;
    }
}

int ten_warden_run(const ten_warden_config *config) {
    struct warden warden = {.config = config, .trouble_ms = UINT64_MAX};
    ten_worker_rules rules = {.ttl_ms = config->ttl_ms,
                              .retry_exit = config->retry_exit,
                              .one_shot = config->one_shot,
                              .lost_exit = config->lost_exit};
    ten_worker_init(&warden.rules, &rules);
    (void)signal(SIGCHLD, SIG_DFL); /* if it was ignored, the worker's end would not be reported */
    sigset_t signals;
    sigset_t before;
    ten_warden_signals(config->pass_signals, &signals);
    /* The terminal's stop keys must not stop a process that watches a deadline. */
    (void)signal(SIGTSTP, SIG_IGN);
    (void)signal(SIGTTIN, SIG_IGN);
    (void)signal(SIGTTOU, SIG_IGN);
    sigprocmask(SIG_BLOCK, &signals, &before);
    (void)signal(SIGPIPE, SIG_IGN);
    warden.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    warden.watch = ten_watch_open(config->grace_ms);
    if (warden.signal_fd < 0 || !warden.watch) {
        fprintf(stderr, "tenure: cannot start: %s\n", warden.watch ? strerrordesc_np(errno) : "out of memory");
        return 1;
    }
    ten_tree_adopt();
    ten_notifier_open(&warden.notifier);
    int exit_code = run_workers(&warden);
    ten_notifier_stopping(&warden.notifier);
    ten_notifier_close(&warden.notifier);
    ten_log_close(warden.log, LOG_MS);
    ten_close_fd(&warden.signal_fd);
    ten_watch_close(warden.watch);
    /* One more that comes at the very end has no effect, and must not be what this process died of. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return exit_code;
}
