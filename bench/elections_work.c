/*
 * The work of a leader, as a CMD: says on standard output at what moment it ran, and goes on until it is ended, or
 * until nobody hears it any more. With a file as its argument it writes there all the time that it runs. It needs no
 * library, so that its start costs as little as a process can. Started by `tenure elect` and by `etcdctl lock`.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MS 4

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int put(int fd, const char *format, long long number, long long name) {
    char line[64];
    int length = snprintf(line, sizeof line, format, number, name);
    return write(fd, line, (size_t)length) == length;
}

int main(int argc, char **argv) {
    int beats = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    struct pollfd out = {.fd = STDOUT_FILENO}; /* an error is reported without being asked for */
    long long name = now_ns();                 /* in a PID namespace of its own, each is the same process */
    if (!put(STDOUT_FILENO, "led %lld\n", name, 0))
        return 1;
    while (poll(&out, 1, beats >= 0 ? BEAT_MS : -1) <= 0)
        if (beats >= 0 && !put(beats, "%lld %lld\n", now_ns(), name))
            return 1;
    return 0;
}
