/*
 * The work of a leader, as a CMD: says on standard output at what moment it ran, and goes on until it is ended, or
 * until nobody hears it any more. It needs no library, so that its start costs as little as a process can. Started by
 * `tenure elect` and by `etcdctl lock`.
 */
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void) {
    struct timespec now;
    char line[64];
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(line, sizeof line, "led %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        return 1;
    struct pollfd out = {.fd = STDOUT_FILENO}; /* an error is reported without being asked for */
    while (poll(&out, 1, -1) < 0)
        ;
    return 0;
}
