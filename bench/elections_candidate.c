/*
 * A resident candidate that uses the C API, as a program of a user would: built against tenure.h and the shared library
 * alone. Arguments: URL NAMESPACE TTL_MS. See elections_pair.h for what it reads and says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tenure.h>

#define ROLE "role"

static void say(const char *word, long long ns) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %lld\n", word, ns);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(1);
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void work(tenure_election *election, uint64_t token, void *userdata) {
    (void)election;
    (void)token;
    (void)userdata;
    say("led", now_ns());
}

int main(int argc, char **argv) {
    char line[64];
    tenure_election *election = NULL;
    if (argc != 4)
        return 2;
    tenure_election_options options = {
        .size = sizeof options, .namespace_name = argv[2], .ttl_ms = strtoull(argv[3], NULL, 10), .on_elected = work};
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "campaign\n") == 0) {
            if (tenure_election_start(argv[1], ROLE, &options, &election) < 0) {
                fprintf(stderr, "%s\n", tenure_message(NULL));
                return 1;
            }
        } else if (strcmp(line, "stop\n") == 0) {
            long long start_ns = now_ns();
            tenure_election_stop(election);
            election = NULL;
            say("stopping", start_ns);
        }
    }
    tenure_election_stop(election);
    return 0;
}
