/*
 * holder: one of several processes that can do the same job, of which at most one does it at a time.
 *
 *     holder STORE TARGET NAME TTL_MS
 *     holder sqlite:/tmp/jobs.db job-1 alice 3000
 *
 * Start it twice. The second one waits. Kill the first, with any signal: the second takes over, under a higher token.
 * The whole life of a lease is in main(), from top to bottom. The context renews the lease in the background, so the
 * work only checks it. The program uses the public API only: <tenure.h> and -ltenure.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenure.h>
#include <time.h>

static tenure_context *volatile cancelled_by_signal;
static volatile sig_atomic_t stopping;

/* tenure_cancel() is safe in a signal handler. It ends the wait for the lease. */
static void on_signal(int number) {
    (void)number;
    stopping = 1;
    if (cancelled_by_signal)
        tenure_cancel(cancelled_by_signal);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static void pause_ms(uint64_t ms) {
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal cuts it short, which is intended */
}

/*
 * The work, in steps of a sixth of the TTL. Before each step it checks the lease, which is a read of the local clock.
 * What a step sends or writes carries the token, so that the receiver can refuse an older holder. Returns true when it
 * was told to stop, and false when the lease is over.
 */
static bool work(const char *name, const tenure_lease *lease) {
    for (unsigned step = 1; !stopping; step++) {
        uint64_t left_ms = tenure_lease_remaining_ms(lease);
        if (tenure_lease_valid(lease))
            printf("%s: step %u of %s under token %" PRIu64 ", %" PRIu64 " ms left\n", name, step,
                   tenure_lease_target(lease), tenure_lease_token(lease), left_ms);
        else if (left_ms > 0)
            printf("%s: the last renewal failed; no work until one succeeds\n", name);
        else
            return false;
        pause_ms(tenure_lease_ttl_ms(lease) / 6);
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: holder STORE TARGET NAME TTL_MS\n");
        return 2;
    }
    const char *target = argv[2];
    const char *name = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, also into a pipe */
    catch_signals();

    /* The context gets an instance id of its own, which is the holder of all its leases. */
    tenure_options options = {.size = sizeof options, .instance_name = name, .ttl_ms = strtoull(argv[4], NULL, 10)};
    tenure_context *context = NULL;
    if (tenure_open(argv[1], &options, &context) < 0) {
        fprintf(stderr, "%s: cannot open the store: %s\n", name, tenure_message(NULL));
        return EXIT_FAILURE;
    }
    cancelled_by_signal = context;
    printf("%s: started as %s\n", name, tenure_instance_id(context));

    /* Wait for the lease, without end. It is granted when its holder releases it, or when the holder's lease expires. */
    tenure_lease *lease = NULL;
    int error = tenure_acquire(context, target, UINT64_MAX, 0, &lease);
    cancelled_by_signal = NULL; /* from here on a signal only ends the work */
    if (error == TENURE_OK) {
        printf("%s: acquired %s with token %" PRIu64 "\n", name, target, tenure_lease_token(lease));
        bool told_to_stop = work(name, lease);

        /* The work has stopped, and only now is the lease released: the next holder enters at once. */
        error = tenure_release(lease);
        if (error < 0)
            fprintf(stderr, "%s: cannot release: %s\n", name, tenure_message(lease));
        printf("%s: %s %s with token %" PRIu64 "\n", name, told_to_stop ? "released" : "lost", target,
               tenure_lease_token(lease));
        if (!told_to_stop)
            error = TENURE_E_LOST;
        tenure_lease_free(lease);
    } else if (error == TENURE_E_CANCELLED) {
        printf("%s: stopped while waiting for %s\n", name, target);
        error = TENURE_OK;
    } else {
        fprintf(stderr, "%s: cannot acquire: %s\n", name, tenure_message(context));
    }

    tenure_close(context);
    return error < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
