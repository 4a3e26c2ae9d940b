/*
 * A client of the public API that acquires, renews, releases and reads leases at random, and writes down each operation
 * twice: when it is invoked, and what came of it. It judges nothing: linear.py and ledger.py do. Run by tests/faults.
 *     ledger_client URL NAME LOG SEED TTL_MS TARGETS [LIE]
 * Each line is one append:
 *     BOOTTIME_US INSTANCE NUMBER EVENT KIND TARGET TOKEN UNTIL_US HOLDER
 * EVENT is invoke, ok, held, lost or unknown. UNTIL_US is how long the client believes: before the operation on a line
 * with invoke, after it on the others; 0 is not at all. HOLDER is what a read has found. Runs until SIGTERM.
 * LIE makes it a recorder that is not to be trusted, to see that it is found out: "held" calls a refusal a grant,
 * "release" and "renew" tell of releases and renewals that it never sent.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tenure.h>

#define TARGETS_MAX 64
#define OPEN_PAUSE  50000u
#define PAUSE_MIN   4000u
#define PAUSE_SPAN  36000u /* us; between operations, at random */

struct recorder {
    tenure_context *context;
    tenure_lease *leases[TARGETS_MAX];
    uint64_t random;
    unsigned targets;
    unsigned number;
    int log_fd;
    const char *lie;
};

static volatile sig_atomic_t stopping;

static void stop(int number) {
    (void)number;
    stopping = 1;
}

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void pause_us(uint64_t us) {
    struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

/* xorshift64*: the same choices for the same seed, as far as the answers are the same. */
static uint64_t below(struct recorder *recorder, uint64_t limit) {
    recorder->random ^= recorder->random >> 12;
    recorder->random ^= recorder->random << 25;
    recorder->random ^= recorder->random >> 27;
    return (recorder->random * UINT64_C(2685821657736338717) >> 33) % limit;
}

static int lies(const struct recorder *recorder, const char *how) {
    return recorder->lie && strcmp(recorder->lie, how) == 0;
}

static void write_line(const struct recorder *recorder, const char *event, const char *kind, unsigned target,
                       uint64_t token, uint64_t until_us, const char *holder) {
    char line[1024];
    int size = snprintf(line, sizeof line, "%" PRIu64 " %s %u %s %s r-%u %" PRIu64 " %" PRIu64 " %s\n", now_us(),
                        tenure_instance_id(recorder->context), recorder->number, event, kind, target, token, until_us,
                        holder && holder[0] ? holder : "-");
    if (size <= 0 || (size_t)size >= sizeof line || write(recorder->log_fd, line, (size_t)size) != size)
        _exit(99);
}

/* The deadline, never later than it is: a process that is stopped between the two clocks would tell of a belief that it
 * never had. If that took longer than a millisecond, it is read again. */
static uint64_t until_us(const tenure_lease *lease) {
    for (;;) {
        uint64_t before_us = now_us();
        uint64_t left_ms = lease ? tenure_lease_remaining_ms(lease) : 0;
        if (left_ms == 0)
            return 0;
        if (now_us() - before_us < 1000)
            return (before_us / 1000 + left_ms) * 1000;
    }
}

static void forget(struct recorder *recorder, unsigned target) {
    tenure_lease_free(recorder->leases[target]);
    recorder->leases[target] = NULL;
}

static const char *event_of(int r) {
    return r == TENURE_OK ? "ok" : r == TENURE_E_HELD ? "held" : r == TENURE_E_LOST ? "lost" : "unknown";
}

static void acquire(struct recorder *recorder, unsigned target, const char *id) {
    tenure_info info = {.size = sizeof info};
    write_line(recorder, "invoke", "acquire", target, 0, 0, NULL);
    int r = tenure_acquire(recorder->context, id, 0, TENURE_MANUAL, &recorder->leases[target]);
    tenure_lease *lease = r == TENURE_OK ? recorder->leases[target] : NULL;
    if (r == TENURE_E_HELD && lies(recorder, "held") && tenure_target_read(recorder->context, id, &info) == TENURE_OK)
        write_line(recorder, "ok", "acquire", target, info.token + 1, now_us() + 100000, NULL);
    else
        write_line(recorder, event_of(r), "acquire", target, lease ? tenure_lease_token(lease) : 0, until_us(lease),
                   NULL);
}

static void renew(struct recorder *recorder, unsigned target) {
    tenure_lease *lease = recorder->leases[target];
    uint64_t token = tenure_lease_token(lease);
    write_line(recorder, "invoke", "renew", target, token, until_us(lease), NULL);
    int r = lies(recorder, "renew") ? TENURE_OK : tenure_renew(lease);
    write_line(recorder, event_of(r), "renew", target, token, until_us(lease), NULL);
    if (r == TENURE_E_LOST)
        forget(recorder, target);
}

static void release(struct recorder *recorder, unsigned target) {
    tenure_lease *lease = recorder->leases[target];
    uint64_t token = tenure_lease_token(lease);
    write_line(recorder, "invoke", "release", target, token, until_us(lease), NULL);
    int r = lies(recorder, "release") ? TENURE_OK : tenure_release(lease);
    write_line(recorder, event_of(r), "release", target, token, 0, NULL);
    forget(recorder, target);
}

static void look(struct recorder *recorder, unsigned target, const char *id) {
    tenure_info info = {.size = sizeof info};
    write_line(recorder, "invoke", "read", target, 0, 0, NULL);
    int r = tenure_target_read(recorder->context, id, &info);
    if (r == TENURE_E_UNKNOWN_TARGET)
        r = TENURE_OK; /* never leased: token 0 */
    write_line(recorder, event_of(r), "read", target, info.token, 0, info.holder);
}

static void step(struct recorder *recorder) {
    char id[32];
    unsigned target = (unsigned)below(recorder, recorder->targets);
    uint64_t chance = below(recorder, 100);
    snprintf(id, sizeof id, "r-%u", target);
    recorder->number++;
    if (recorder->leases[target] && tenure_lease_remaining_ms(recorder->leases[target]) == 0)
        forget(recorder, target);
    if (chance < 25)
        look(recorder, target, id);
    else if (!recorder->leases[target])
        acquire(recorder, target, id);
    else if (chance < 70)
        renew(recorder, target);
    else
        release(recorder, target);
}

static int open_context(struct recorder *recorder, char **argv) {
    tenure_options options = {.size = sizeof options,
                              .namespace_name = "ledger",
                              .instance_name = argv[2],
                              .ttl_ms = strtoull(argv[5], NULL, 10)};
    while (!stopping) {
        int r = tenure_open(argv[1], &options, &recorder->context);
        if (r == TENURE_OK)
            return 0;
        if (!tenure_error_retryable(r)) {
            fprintf(stderr, "ledger_client: %s\n", tenure_message(NULL));
            return 1;
        }
        pause_us(OPEN_PAUSE);
    }
    return -1;
}

int main(int argc, char **argv) {
    if (argc < 7)
        return 2;
    struct recorder recorder = {.random = strtoull(argv[4], NULL, 10) * 2654435761u + 88172645463325252u,
                                .targets = (unsigned)strtoul(argv[6], NULL, 10),
                                .lie = argc > 7 ? argv[7] : NULL};
    if (recorder.targets == 0 || recorder.targets > TARGETS_MAX)
        return 2;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    recorder.log_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (recorder.log_fd < 0)
        return 99;
    int opened = open_context(&recorder, argv);
    if (opened != 0)
        return opened < 0 ? 0 : 1;
    while (!stopping) {
        step(&recorder);
        pause_us(PAUSE_MIN + below(&recorder, PAUSE_SPAN));
    }
    for (unsigned target = 0; target < recorder.targets; target++)
        forget(&recorder, target);
    tenure_close(recorder.context);
    return 0;
}
