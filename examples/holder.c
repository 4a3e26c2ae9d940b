/*
 * holder: one of several processes that want to do the same job, of which exactly one does it at a time.
 *
 *     holder STORE TARGET NAME TTL_MS
 *     holder sqlite:/tmp/jobs.db job-1 alice 3000
 *
 * Start it twice. The second one waits. Kill the first, with any signal: the second goes on, under a higher token.
 * The whole life of a lease is in main(), from top to bottom; the functions above it are the steps.
 * './dev demo' runs this program. It uses the public API only: <tenure.h> and -ltenure.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenure.h>
#include <time.h>

static tenure_client *volatile client;
static volatile sig_atomic_t stopping;

/* tenure_cancel() may be called in a signal handler: it ends the waiting for the lease. */
static void on_signal(int number) {
    (void)number;
    stopping = 1;
    if (client)
        tenure_cancel(client);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* Every failing call has a message: which target, who holds it, what to do. */
static int failed(const char *name, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", name, what, tenure_message(client));
    return EXIT_FAILURE;
}

static void pause_ms(uint64_t ms) {
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal cuts it short, and that is meant */
}

/* The work itself. What it sends or writes carries the token, so that the receiver can refuse an older holder. */
static void do_step(const char *name, const tenure_lease *lease, unsigned step) {
    printf("%s: step %u of %s under token %" PRIu64 ", %" PRIu64 " ms left\n", name, step, tenure_lease_target(lease),
           tenure_lease_token(lease), tenure_lease_remaining_ms(lease));
}

/*
 * Works in steps of a sixth of the TTL and renews after every second one, which is at a third of the TTL: two renewals
 * may fail before the lease ends. Returns when it is told to stop (true), or when the lease is over (false).
 */
static bool work(const char *name, tenure_lease *lease) {
    for (unsigned step = 1; !stopping; step++) {
        /* Before each step, and from the local clock alone: may this process still believe in its lease? */
        if (tenure_lease_valid(lease))
            do_step(name, lease, step);
        else
            printf("%s: not sure of the lease: no work until a renewal succeeds\n", name);
        pause_ms(tenure_lease_ttl_ms(lease) / 6);
        if (stopping || (step % 2 != 0 && tenure_lease_valid(lease)))
            continue;
        int error = tenure_renew(lease);
        if (error < 0)
            (void)failed(name, "cannot renew");
        if (error == TENURE_E_LOST || tenure_lease_remaining_ms(lease) == 0)
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: holder STORE TARGET NAME TTL_MS\n");
        return 2;
    }
    const char *store = argv[1];
    const char *target = argv[2];
    const char *name = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line at a time, also into a pipe */
    catch_signals();

    /* Open a client. It gets an instance id of its own, which is the holder of its leases. */
    tenure_options options = {.size = sizeof options, .instance_name = name, .ttl_ms = strtoull(argv[4], NULL, 10)};
    tenure_client *opened = NULL;
    if (tenure_open(store, &options, &opened) < 0)
        return failed(name, "cannot open the store");
    client = opened;
    printf("%s: started as %s\n", name, tenure_instance_id(opened));

    /* Wait for the lease, without end. It comes when the holder releases it, or when the holder's lease expires. */
    tenure_lease *lease = NULL;
    int error = tenure_acquire(opened, target, UINT64_MAX, &lease);
    if (error == TENURE_OK) {
        printf("%s: acquired %s with token %" PRIu64 "\n", name, target, tenure_lease_token(lease));

        bool told_to_stop = work(name, lease);

        /* The work has stopped: only now give the lease back, so that another may enter at once. */
        if (told_to_stop)
            error = tenure_release(lease);
        printf("%s: %s %s with token %" PRIu64 "\n", name,
               !told_to_stop ? "lost"
               : error < 0   ? "could not release"
                             : "released",
               target, tenure_lease_token(lease));
        tenure_lease_free(lease);
        error = told_to_stop ? error : TENURE_E_LOST;
    } else if (error == TENURE_E_CANCELLED) {
        printf("%s: stopped while waiting for %s\n", name, target);
        error = TENURE_OK;
    } else {
        (void)failed(name, "cannot acquire");
    }

    client = NULL; /* the handler must not touch what is freed next */
    tenure_close(opened);
    return error < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
