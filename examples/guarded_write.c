/*
 * guarded_write: the shortest useful program. It acquires a lease if the target is free, appends three lines to a file
 * while the lease is valid, each with the token, and releases the lease.
 *
 *     guarded_write STORE TARGET FILE
 *     guarded_write sqlite:/tmp/jobs.db report /tmp/report.txt
 *
 * Exit codes: 0 written; 1 failed; 2 wrong usage; 4 another process holds the lease; 5 the lease ended before the work.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tenure.h>

enum { WRITTEN = 0, FAILED = 1, WRONG_USAGE = 2, HELD = 4, LOST = 5 };

/* Works in small steps and checks the lease before each one: a process that was suspended for longer than its lease
 * lasts notices here, without a call to the store. */
static int write_lines(const tenure_lease *lease, const char *path) {
    FILE *file = fopen(path, "a");
    if (!file) {
        perror(path);
        return FAILED;
    }
    int outcome = WRITTEN;
    for (int line = 1; line <= 3 && outcome == WRITTEN; line++) {
        if (!tenure_lease_valid(lease))
            outcome = LOST;
        else if (fprintf(file, "token %" PRIu64 " line %d\n", tenure_lease_token(lease), line) < 0 || fflush(file) != 0)
            outcome = FAILED;
    }
    if (fclose(file) != 0 && outcome == WRITTEN)
        outcome = FAILED;
    return outcome;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: guarded_write STORE TARGET FILE\n");
        return WRONG_USAGE;
    }

    /* NULL for the options: namespace "poll", a TTL of 30 s, the host's name in the instance id. */
    tenure_context *context = NULL;
    int error = tenure_open(argv[1], NULL, &context);
    if (error < 0) {
        fprintf(stderr, "guarded_write: %s (%s)\n", tenure_message(NULL), tenure_error_name(error));
        return FAILED;
    }

    /* No wait and no flags: it asks once. TENURE_E_HELD is the ordinary failure, and its message names the holder. */
    tenure_lease *lease = NULL;
    error = tenure_acquire(context, argv[2], 0, 0, &lease);
    if (error < 0) {
        fprintf(stderr, "guarded_write: %s (%s)\n", tenure_message(context), tenure_error_name(error));
        tenure_close(context);
        return error == TENURE_E_HELD ? HELD : FAILED;
    }

    int outcome = write_lines(lease, argv[3]);

    /* Release after the work. If that fails, the lease ends by its TTL. */
    if (tenure_release(lease) < 0)
        fprintf(stderr, "guarded_write: not released: %s\n", tenure_message(lease));
    if (outcome == WRITTEN)
        printf("written under token %" PRIu64 "\n", tenure_lease_token(lease));
    else
        fprintf(stderr, "guarded_write: %s\n", outcome == LOST ? "the lease ended first" : "cannot write");
    tenure_lease_free(lease);
    tenure_close(context);
    return outcome;
}
