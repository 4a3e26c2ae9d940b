/*
 * driven: a program with an event loop of its own holds many leases, without any thread of the library's.
 *
 *     driven STORE NAME TTL_MS [LEASES]
 *     driven redis://localhost alice 10000 1000
 *
 * The loop is epoll on three descriptors: the context's, a timer and the signals. It acquires the leases job-1 to
 * job-LEASES (1,000 unless told otherwise) and prints a line of counts once a second and whenever they change:
 *
 *     alice: held 1000, valid 1000, lost 0, failed 0, threads 1
 *
 * SIGTERM and SIGINT release everything and end it. Exit code 1: something failed, or could not be released.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <tenure.h>
#include <unistd.h>

#define TARGET_SIZE 32u

struct program {
    const char *name;
    tenure_context *context;
    tenure_lease **leases;
    size_t count;  /* of leases, as asked for */
    size_t held;   /* acquired, and neither lost nor released; it follows the events */
    size_t lost;   /* ended without having been released */
    size_t failed; /* never acquired */
    bool changed;  /* since the last line */
    bool stopping;
};

/* ---- what the library reports -------------------------------------------------------------------------- */

/* Called inside tenure_process(), so in this program's only thread: no lock is needed. */
static void on_event(const tenure_event *event, void *userdata) {
    struct program *program = userdata;
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        program->held++;
        break;
    case TENURE_EVENT_ACQUIRE_FAILED:
        program->failed++;
        break;
    case TENURE_EVENT_LOST:
        program->held--;
        program->lost++;
        break;
    case TENURE_EVENT_STORE_DOWN:
        printf("%s: the store is down: %s\n", program->name, tenure_strerror(event->error));
        break;
    case TENURE_EVENT_STORE_UP:
        printf("%s: the store is up\n", program->name);
        break;
    default: /* renewals, for example: nothing that is counted here */
        return;
    }
    program->changed = true;
}

/* ---- the line of counts -------------------------------------------------------------------------------- */

static unsigned count_threads(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return 0;
    for (const struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* "Held" is what the store granted. "Valid" is what may be worked on at this moment: while renewals fail, it is less. */
static void print_counts(struct program *program) {
    size_t valid = 0;
    for (size_t i = 0; i < program->count; i++)
        valid += tenure_lease_valid(program->leases[i]);
    printf("%s: held %zu, valid %zu, lost %zu, failed %zu, threads %u\n", program->name, program->held, valid,
           program->lost, program->failed, count_threads());
    program->changed = false;
}

/* ---- leases -------------------------------------------------------------------------------------------- */

/* Only asks: each call returns at once, and the answers come as events. One request carries many of them. */
static bool acquire_all(struct program *program, size_t count) {
    program->leases = calloc(count, sizeof(tenure_lease *));
    if (!program->leases)
        return false;
    for (size_t i = 0; i < count; i++) {
        char target[TARGET_SIZE];
        snprintf(target, sizeof target, "job-%zu", i + 1);
        if (tenure_acquire(program->context, target, UINT64_MAX, TENURE_ASYNC, &program->leases[i]) < 0) {
            fprintf(stderr, "%s: cannot acquire %s: %s\n", program->name, target, tenure_message(program->context));
            return false;
        }
        program->count++;
    }
    return true;
}

/* Dropping a lease does not wait. tenure_close() sends what has not been sent, and waits for the answers. */
static bool release_all(struct program *program) {
    for (size_t i = 0; i < program->count; i++)
        tenure_lease_drop(program->leases[i]);
    free(program->leases);
    if (tenure_close(program->context) < 0) {
        fprintf(stderr, "%s: %s\n", program->name, tenure_message(NULL));
        return false;
    }
    printf("%s: released everything\n", program->name);
    return true;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* SIGTERM and SIGINT become readable instead of interrupting something. */
static int open_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return sigprocmask(SIG_BLOCK, &signals, NULL) < 0 ? -1 : signalfd(-1, &signals, SFD_CLOEXEC);
}

static int open_timer(void) {
    struct itimerspec every = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    return timer >= 0 && timerfd_settime(timer, 0, &every, NULL) < 0 ? -1 : timer;
}

static bool watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void on_timer(struct program *program, int timer) {
    uint64_t expirations;
    if (read(timer, &expirations, sizeof expirations) > 0)
        program->changed = true; /* the line of this second */
}

/*
 * The library asks to be called when its descriptor is readable and when its time-out has passed. Calling it once more
 * than that is harmless, so the loop does it after every wait. A store that is down is no error here: it is an event.
 */
static bool run_loop(struct program *program, int epoll, int timer, int signals) {
    while (!program->stopping) {
        struct epoll_event ready[3];
        int count = epoll_wait(epoll, ready, 3, tenure_timeout_ms(program->context));
        if (count < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < count; i++) {
            if (ready[i].data.fd == timer)
                on_timer(program, timer);
            else if (ready[i].data.fd == signals)
                program->stopping = true;
        }
        int error = tenure_process(program->context);
        if (error < 0 && !tenure_error_retryable(error)) {
            fprintf(stderr, "%s: %s\n", program->name, tenure_message(program->context));
            return false;
        }
        if (program->changed)
            print_counts(program);
    }
    return true;
}

static bool run(struct program *program, size_t leases) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = open_timer();
    int signals = open_signals();
    bool ok = epoll >= 0 && watch(epoll, timer) && watch(epoll, signals) && watch(epoll, tenure_fd(program->context));
    if (!ok)
        fprintf(stderr, "%s: cannot set up the loop: %s\n", program->name, strerror(errno));
    ok = ok && acquire_all(program, leases) && run_loop(program, epoll, timer, signals);
    close(signals);
    close(timer);
    close(epoll);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: driven STORE NAME TTL_MS [LEASES]\n");
        return 2;
    }
    struct program program = {.name = argv[2]};
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, also into a pipe */

    /* TENURE_DRIVEN: the library starts no thread, and this program's loop does its work. */
    tenure_options options = {.size = sizeof options,
                              .flags = TENURE_DRIVEN,
                              .instance_name = program.name,
                              .ttl_ms = strtoull(argv[3], NULL, 10),
                              .on_event = on_event,
                              .userdata = &program};
    if (tenure_open(argv[1], &options, &program.context) < 0) {
        fprintf(stderr, "%s: cannot open the store: %s\n", program.name, tenure_message(NULL));
        return EXIT_FAILURE;
    }
    printf("%s: started as %s\n", program.name, tenure_instance_id(program.context));

    bool ok = run(&program, argc > 4 ? strtoul(argv[4], NULL, 10) : 1000);
    bool released = release_all(&program);
    return ok && released ? EXIT_SUCCESS : EXIT_FAILURE;
}
