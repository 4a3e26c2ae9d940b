/*
 * The work of a leader, as a CMD: says on standard output at what moment it ran, and goes on until it is ended, or
 * until nobody hears it any more. With a file as its argument it writes there all the time that it runs. It needs no
 * library, so that its start costs as little as a process can. Started by `tenure elect` and by `etcdctl lock`.
 */
#include <poll.h>

#include "peers/jobs.h"

int main(int argc, char **argv) {
    int beats = jobs_open_beats(argc > 1 ? argv[1] : NULL);
    struct pollfd out = {.fd = STDOUT_FILENO}; /* an error is reported without being asked for */
    long long name = jobs_now_ns();            /* in a PID namespace of its own, each is the same process */
    jobs_say("led", name);
    while (poll(&out, 1, beats >= 0 ? JOBS_BEAT_MS : -1) <= 0)
        if (beats >= 0)
            jobs_beat(beats, name);
    return 0;
}
