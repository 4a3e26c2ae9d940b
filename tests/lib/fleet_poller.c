/*
 * The poller of the fleet's end-to-end tests, and the command of those of elections, where its target is the role: it
 * says when it runs, and nothing else. Each line is one append, so that processes that write at the same moment do not
 * mix:
 *     BOOTTIME_US POLL EVENT TARGET TOKEN INSTANCE
 * EVENT is start, beat or end. Beats come all the time while it runs: a poller that is killed writes no end, and its
 * last beat says until when it was certainly there. POLL is the process id of the command and the time of its start.
 *     fleet_poller LOG poll MS [detach] [forge] [stubborn] [root] [thread] [beat MS] [print TEXT]
 *         runs for MS; detach: a grandchild in a session of its own goes on for ever, as part of the same poll; forge:
 *         with a mark of its own choice; stubborn: SIGTERM is ignored; root: it becomes root first, as a set-uid program
 *         may; thread: its first thread ends at once, and another goes on; beat: how often it beats
 *     fleet_poller LOG mark NAME     writes a line of the test itself
 *     fleet_poller now               prints CLOCK_BOOTTIME in ms
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t beat_us = 4000;
static int log_fd;
static char poll_name[64];

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : "-";
}

static void write_line(uint64_t at_us, const char *poll, const char *event, const char *target) {
    char line[1024];
    int size = snprintf(line, sizeof line, "%" PRIu64 " %s %s %s %s %s\n", at_us, poll, event, target,
                        variable("TENURE_TOKEN"), variable("TENURE_INSTANCE"));
    if (size <= 0 || (size_t)size >= sizeof line || write(log_fd, line, (size_t)size) != size)
        _exit(99);
}

static void stamp(const char *event) {
    write_line(now_us(), poll_name, event, variable(getenv("TENURE_ROLE") ? "TENURE_ROLE" : "TENURE_TARGET"));
}

static void beat_until(uint64_t end_us) {
    struct timespec pause = {.tv_sec = (time_t)(beat_us / 1000000), .tv_nsec = (long)(beat_us % 1000000) * 1000};
    while (now_us() < end_us) {
        nanosleep(&pause, NULL);
        stamp("beat");
    }
}

/* In the memory that /proc shows. */
static void forge_mark(void) {
    char *mark = getenv("TENURE_POLL");
    if (mark)
        memset(mark, '4', strlen(mark));
}

static void detach(bool forged) {
    if (fork() != 0)
        return;
    if (fork() != 0)
        _exit(0);
    if (forged)
        forge_mark();
    setsid();
    close(STDOUT_FILENO);
    beat_until(UINT64_MAX);
    _exit(0);
}

static void *beat_in_thread(void *end_us) {
    beat_until(*(const uint64_t *)end_us);
    stamp("end");
    exit(0);
}

/* What sudo does: nothing of the user who has started it is left. */
static void become_root(void) {
    if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0)
        _exit(98);
}

static void leave_to_a_thread(uint64_t end_us) {
    static uint64_t end;
    pthread_t thread;
    end = end_us;
    if (pthread_create(&thread, NULL, beat_in_thread, &end) != 0)
        _exit(97);
    pthread_exit(NULL);
}

static int run_poll(int argc, char **argv) {
    uint64_t start_us = now_us();
    const char *text = NULL;
    bool detached = false;
    bool forged = false;
    bool in_thread = false;
    uint64_t end_us = start_us + strtoull(argv[3], NULL, 10) * 1000;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "detach") == 0)
            detached = true;
        else if (strcmp(argv[i], "forge") == 0)
            forged = true;
        else if (strcmp(argv[i], "stubborn") == 0)
            signal(SIGTERM, SIG_IGN);
        else if (strcmp(argv[i], "root") == 0)
            become_root();
        else if (strcmp(argv[i], "thread") == 0)
            in_thread = true;
        else if (strcmp(argv[i], "beat") == 0 && i + 1 < argc)
            beat_us = strtoull(argv[++i], NULL, 10) * 1000;
        else if (strcmp(argv[i], "print") == 0 && i + 1 < argc)
            text = argv[++i];
        else
            return 2;
    }
    snprintf(poll_name, sizeof poll_name, "%d.%" PRIu64, (int)getpid(), start_us);
    stamp("start");
    if (detached)
        detach(forged);
    if (in_thread)
        leave_to_a_thread(end_us);
    beat_until(end_us);
    if (text)
        puts(text);
    fflush(stdout);
    stamp("end");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "now") == 0) {
        printf("%" PRIu64 "\n", now_us() / 1000);
        return 0;
    }
    if (argc < 4)
        return 2;
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_fd < 0)
        return 99;
    if (strcmp(argv[2], "mark") == 0) {
        write_line(now_us(), "-", "mark", argv[3]);
        return 0;
    }
    return strcmp(argv[2], "poll") == 0 ? run_poll(argc, argv) : 2;
}
