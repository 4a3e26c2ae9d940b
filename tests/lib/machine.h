/*
 * The machine that a test in C runs on: every test program starts in the same state, whoever started it, and can ask
 * for how long the machine has kept processes waiting. machine.py does the same for tests in shell. Tests only;
 * included by one file of each program.
 */
#ifndef TEN_TESTS_MACHINE_H
#define TEN_TESTS_MACHINE_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MACHINE_FILES = 4096, MACHINE_UNKNOWN_MS = 20000, MACHINE_ROUNDING_MS = 2 };

/* ---- the state in which a program starts */

/* Names that end in '*' stand for all that begin so. machine.py has the same list. */
static const char *const machine_foreign[] = {
    "TENURE_*",    "XDG_STATE_HOME", "PG*",           "REDIS*",    "ETCD*",         "NOTIFY_SOCKET",
    "LISTEN_*",    "WATCHDOG_*",     "http_proxy",    "ftp_proxy", "https_proxy",   "all_proxy",
    "no_proxy",    "CURL_*",         "SSL_CERT_*",    "OPENSSL_*", "MALLOC_CHECK_", "MALLOC_ARENA_*",
    "MALLOC_TOP*", "MALLOC_TRIM*",   "MALLOC_MMAP_*", "LANG*",     "LC_*",          "TZ*",
    "PYTHON*",     "NODE_*",         "CDPATH",        "ENV",       "BASH_ENV",      "POSIXLY_CORRECT",
    "NO_COLOR",    "CLICOLOR*",      "COLUMNS",       "LINES",     "RES_OPTIONS",   "LOCALDOMAIN",
    "HOSTALIASES",
};
static const char *const machine_ours[] = {"TENURE_SOURCE", "TENURE_BUILD", "TENURE_EXAMPLES", "TENURE_SANITIZED"};

static bool machine_is_foreign(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof machine_ours / sizeof machine_ours[0]; i++)
        if (strlen(machine_ours[i]) == length && strncmp(name, machine_ours[i], length) == 0)
            return false;
    for (size_t i = 0; i < sizeof machine_foreign / sizeof machine_foreign[0]; i++) {
        size_t wanted = strlen(machine_foreign[i]);
        bool any_end = machine_foreign[i][wanted - 1] == '*';
        wanted -= any_end;
        if ((any_end ? length >= wanted : length == wanted) && strncasecmp(name, machine_foreign[i], wanted) == 0)
            return true;
    }
    return false;
}

static void machine_clear_environment(void) {
    for (size_t i = 0; environ && environ[i];) {
        char name[128];
        size_t length = strcspn(environ[i], "=");
        if (length >= sizeof name || !machine_is_foreign(environ[i], length)) {
            i++;
            continue;
        }
        memcpy(name, environ[i], length);
        name[length] = '\0';
        unsetenv(name); /* the next one takes its place */
    }
    setenv("LC_ALL", "C", 1);
    setenv("TZ", "UTC0", 1);
    /* Sockets are made there, whose paths are at most 107 bytes long. */
    const char *place = getenv("TMPDIR");
    if (place && (place[0] != '/' || strlen(place) > 40 || access(place, W_OK | X_OK) != 0))
        unsetenv("TMPDIR");
}

/* A program that is started by nohup or in the background of a shell has signals ignored, and passes that on. What a
   sanitizer catches stays caught. */
static void machine_reset_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            signal(number, SIG_DFL);
    }
}

static void machine_reset_limits(void) {
    struct rlimit files;
    struct rlimit core = {0};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        if (files.rlim_max < MACHINE_FILES)
            (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){MACHINE_FILES, MACHINE_FILES}); /* root may */
        files.rlim_cur = files.rlim_max < MACHINE_FILES ? files.rlim_max : MACHINE_FILES;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = 0;
        (void)setrlimit(RLIMIT_CORE, &core);
    }
    umask(022);
}

static void machine_open_descriptors(void) {
    int null = open("/dev/null", O_RDWR);
    while (null >= 0 && null <= STDERR_FILENO) /* one of the three was closed, and is this one now */
        null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        close(null);
    }
}

/* ---- how long processes had to wait for it */

static uint64_t machine_stalled_before_ms;

/*
 * For how long since the machine started some process had to wait for a processor, a disk or memory. Whatever a test
 * waits for cannot have been delayed by more than this has grown meanwhile. UINT64_MAX: this kernel does not tell.
 */
static uint64_t machine_total_stalled_ms(void) {
    static const char *const paths[] = {"/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"};
    uint64_t total_us = 0;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        unsigned long long some_us = 0;
        FILE *file = fopen(paths[i], "re");
        int found = file ? fscanf(file, "some %*s %*s %*s total=%llu", &some_us) : 0;
        if (file)
            fclose(file);
        if (found != 1)
            return UINT64_MAX;
        total_us += some_us;
    }
    unsigned long long stolen = 0; /* by the host of a virtual machine */
    FILE *file = fopen("/proc/stat", "re");
    if (file && fscanf(file, "cpu %*s %*s %*s %*s %*s %*s %*s %llu", &stolen) == 1)
        total_us += stolen * 10000;
    if (file)
        fclose(file);
    return total_us / 1000;
}

/* The same since the program started, or since the last machine_mark(). */
__attribute__((unused)) static uint64_t machine_stalled_ms(void) {
    uint64_t now_ms = machine_total_stalled_ms();
    if (now_ms == UINT64_MAX || machine_stalled_before_ms == UINT64_MAX)
        return MACHINE_UNKNOWN_MS;
    return now_ms - machine_stalled_before_ms;
}

__attribute__((unused)) static void machine_mark(void) {
    machine_stalled_before_ms = machine_total_stalled_ms();
}

__attribute__((constructor)) static void machine_start(void) {
    machine_reset_signals();
    machine_reset_limits();
    machine_open_descriptors();
    machine_clear_environment();
    machine_mark();
}

#endif
