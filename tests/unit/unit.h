/*
 * What the unit tests share: cmocka with what it wants included first, a clock that stands still until it is told,
 * directories that go away, children whose end is looked at, and a signal storm. Tests only.
 */
#ifndef TEN_TESTS_UNIT_H
#define TEN_TESTS_UNIT_H

#include "lib/cases.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "lib/machine.h"

#define UNIT_UNUSED __attribute__((unused))

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("'%s' does not contain '%s'", text, part);                                                        \
    } while (0)

#define assert_lacks(text, part)                                                                                       \
    do {                                                                                                               \
        if (strstr(text, part))                                                                                        \
            fail_msg("'%s' contains '%s'", text, part);                                                                \
    } while (0)

/* ---- a clock that stands still */

struct fake_clock {
    _Atomic(uint64_t) boot_ms;
    _Atomic(uint64_t) wall_ms;
    _Atomic(uint64_t) step_ms; /* added after each reading of the boot clock */
    _Atomic(uint64_t) jump_ms; /* added once, after the next reading */
};

static uint64_t fake_boot_ms(void *arg) {
    struct fake_clock *fake = arg;
    return atomic_fetch_add(&fake->boot_ms, fake->step_ms + atomic_exchange(&fake->jump_ms, 0));
}

static uint64_t fake_wall_ms(void *arg) {
    return ((struct fake_clock *)arg)->wall_ms;
}

static void fake_boot_id(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    (void)arg;
    snprintf(id, TEN_BOOT_ID_SIZE, "00000000-1111-2222-3333-444444444444");
}

static uint64_t fake_time_namespace(void *arg) {
    (void)arg;
    return 1;
}

UNIT_UNUSED static ten_clock fake_clock_make(struct fake_clock *fake) {
    fake->boot_ms = 1000000;
    fake->wall_ms = UINT64_C(1700000000000);
    fake->step_ms = 0;
    fake->jump_ms = 0;
    return (ten_clock){.boot_ms = fake_boot_ms,
                       .wall_ms = fake_wall_ms,
                       .boot_id = fake_boot_id,
                       .time_namespace = fake_time_namespace,
                       .arg = fake};
}

/* ---- directories that go away */

UNIT_UNUSED static void directory_make(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%.200s/tenure-unit-XXXXXX", base && base[0] ? base : "/tmp");
    assert_non_null(mkdtemp(path));
}

UNIT_UNUSED static void directory_remove(const char *path) {
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    assert_int_equal(rmdir(path), 0);
}

/* ---- children */

/* Runs `body` in a child, quietly; returns what waitpid says. */
UNIT_UNUSED static int child_status(void (*body)(void *), void *arg, int quiet) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (quiet) {
            struct rlimit none = {0};
            setrlimit(RLIMIT_CORE, &none);
            int null = open("/dev/null", O_WRONLY);
            dup2(null, STDERR_FILENO);
        }
        body(arg);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

UNIT_UNUSED static void assert_aborts(void (*body)(void *), void *arg) {
    int status = child_status(body, arg, 1);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* In a child cmocka's asserts would run the rest of the tests a second time. */
#define CHILD_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition);                              \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

UNIT_UNUSED static void assert_child_is_content(void (*body)(void *), void *arg) {
    assert_int_equal(child_status(body, arg, 0), 0);
}

/* ---- a signal storm: a timer signal every half millisecond, which ends system calls with EINTR */

static atomic_uint storm_signals;

static void storm_count(int signal_number) {
    (void)signal_number;
    atomic_fetch_add(&storm_signals, 1);
}

UNIT_UNUSED static void storm_start(void) {
    struct sigaction action = {.sa_handler = storm_count}; /* no SA_RESTART */
    struct itimerval timer = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    atomic_store(&storm_signals, 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

UNIT_UNUSED static void storm_stop(void) {
    struct itimerval timer = {0};
    struct sigaction action = {.sa_handler = SIG_IGN};
    setitimer(ITIMER_REAL, &timer, NULL);
    sigaction(SIGALRM, &action, NULL);
    assert_true(atomic_load(&storm_signals) > 0);
}

/* ---- real time */

#define HANG_MS                                                                                                        \
    UINT64_C(60000) /* the end of a wait for what should come at once: only a program that hangs gets there */

UNIT_UNUSED static uint64_t elapsed_ms(uint64_t start_us) {
    return (ten_boot_us() - start_us) / 1000u;
}

/*
 * So long since then, in ms. The clock is read in ms, which rounds it; and what is late by no more than this machine
 * has kept processes waiting is not late.
 */
UNIT_UNUSED static void assert_took(uint64_t start_us, uint64_t least_ms, uint64_t most_ms) {
    uint64_t took_ms = elapsed_ms(start_us);
    uint64_t late_ms = machine_stalled_ms();
    if (took_ms + MACHINE_ROUNDING_MS < least_ms || took_ms > most_ms + late_ms)
        fail_msg("it took %llu ms, which is not between %llu and %llu, and the machine was busy for %llu ms",
                 (unsigned long long)took_ms, (unsigned long long)least_ms, (unsigned long long)most_ms,
                 (unsigned long long)late_ms);
}

#endif
