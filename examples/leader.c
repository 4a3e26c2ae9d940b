/*
 * leader: one of several candidates for a role, of which at most one leads at a time.
 *
 *     leader STORE ROLE NAME TTL_MS
 *     leader sqlite:/tmp/jobs.db cleanup alice 3000
 *
 * Start it twice and kill the leader: the other one follows. SIGUSR1 makes a leader resign and lets others go first.
 * SIGTERM and SIGINT end it; it then steps down at once.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenure.h>
#include <time.h>

#define STEP_MS 100u

static volatile sig_atomic_t stopping;
static volatile sig_atomic_t resigning;

/* Held during each step of the work: whoever has it knows that no step is under way. */
static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int number) {
    if (number == SIGUSR1)
        resigning = 1;
    else
        stopping = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

static void pause_ms(unsigned ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal cuts it short, which is intended */
}

static void on_elected(tenure_election *election, uint64_t token, void *userdata) {
    (void)election;
    printf("%s: elected with token %" PRIu64 "\n", (const char *)userdata, token);
}

/*
 * The role passes to another instance when this returns, so it waits for the step that is under way. No further step
 * begins: tenure_election_leads() is false by now. Nothing is renewed meanwhile, so steps must be short.
 */
static void on_demoted(tenure_election *election, uint64_t token, const char *reason, void *userdata) {
    (void)election;
    pthread_mutex_lock(&step_lock);
    printf("%s: demoted from the term with token %" PRIu64 " (%s)\n", (const char *)userdata, token, reason);
    pthread_mutex_unlock(&step_lock);
}

/* A step checks first, and sends its token with everything. False: this instance does not lead. */
static bool do_step(const tenure_election *election, const char *name, unsigned step) {
    pthread_mutex_lock(&step_lock);
    bool leads = tenure_election_leads(election);
    if (leads)
        printf("%s: step %u under token %" PRIu64 "\n", name, step, tenure_election_token(election));
    pthread_mutex_unlock(&step_lock);
    return leads;
}

/* Works until the role is lost, or in doubt because a renewal failed, or until this process is told to stop. */
static void lead(tenure_election *election, const char *name) {
    for (unsigned step = 1; !stopping && do_step(election, name, step); step++) {
        pause_ms(STEP_MS);
        if (resigning && tenure_election_resign(election) < 0)
            fprintf(stderr, "%s: cannot resign: %s\n", name, tenure_message(election));
        resigning = 0;
    }
    pause_ms(STEP_MS); /* if it is in doubt: look again a little later */
}

static int campaign(tenure_election *election, const char *name) {
    while (!stopping) {
        int error = tenure_election_wait(election, STEP_MS);
        if (error == TENURE_OK)
            lead(election, name);
        else if (!tenure_error_retryable(error))
            return error;
        /* TENURE_E_HELD: another instance leads. Other errors: the store is out of reach, and the campaign goes on. */
    }
    return TENURE_OK;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: leader STORE ROLE NAME TTL_MS\n");
        return 2;
    }
    char *name = argv[3];
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, also into a pipe */
    catch_signals();

    tenure_options options = {.size = sizeof options, .instance_name = name, .ttl_ms = strtoull(argv[4], NULL, 10)};
    tenure_context *context = NULL;
    if (tenure_open(argv[1], &options, &context) < 0) {
        fprintf(stderr, "%s: cannot open the store: %s\n", name, tenure_message(NULL));
        return EXIT_FAILURE;
    }
    printf("%s: started as %s\n", name, tenure_instance_id(context));

    /* The context's thread campaigns from here on, and renews while this instance leads. */
    tenure_election_options role = {
        .size = sizeof role, .on_elected = on_elected, .on_demoted = on_demoted, .userdata = name};
    tenure_election *election = NULL;
    int error = tenure_election_open(context, argv[2], &role, &election);
    if (error == TENURE_OK)
        error = campaign(election, name);
    if (error < 0)
        fprintf(stderr, "%s: %s\n", name, tenure_message(NULL));

    /* Steps down, which calls on_demoted, and releases the role. */
    tenure_election_close(election);
    tenure_close(context);
    printf("%s: stopped\n", name);
    return error < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
