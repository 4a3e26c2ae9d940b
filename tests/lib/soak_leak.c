/*
 * A leak on purpose, to show that `./dev soak` finds one: loaded into an agent with LD_PRELOAD, it loses something
 * about twice a second, at a wait of the agent's loop. SOAK_LEAK says what: descriptors, or memory (64 KiB each time).
 * Used by
 * ./dev soak --leak; never part of a build that is installed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define LEAK_SIZE 65536u

/* In the place of the C library's. */
__attribute__((visibility("default"))) int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);

static void leak(void) {
    const char *what = getenv("SOAK_LEAK");
    if (what && strcmp(what, "memory") == 0) {
        void *volatile lost = malloc(LEAK_SIZE);
        if (lost)
            explicit_bzero(lost, LEAK_SIZE); /* which no compiler leaves out */
    } else {
        (void)fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    }
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms) {
    static int (*real)(int, struct epoll_event *, int, int);
    static time_t last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t half_seconds = now.tv_sec * 2 + now.tv_nsec / 500000000;
    if (half_seconds != last)
        leak();
    last = half_seconds;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
    return real(epoll, events, count, timeout_ms);
}
