/*
 * worker: one member of a fleet that shares targets. Each target has at most one holder, and the shares are even.
 *
 *     worker STORE NAME TTL_MS TARGET...
 *     worker sqlite:/tmp/jobs.db alice 3000 a b c d e f
 *
 * Start several with the same targets, and kill one: the others take over what it held. SIGTERM and SIGINT hand
 * everything over and end it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenure.h>

#define STEP_MS 200u

static volatile sig_atomic_t stopping;

static void on_signal(int number) {
    (void)number;
    stopping = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/*
 * One step of work on a target. Between begin and end the target is not handed over, so the step must be short against
 * the TTL. What it sends carries the token: a receiver can then refuse what a paused process sends too late.
 */
static int work_on(tenure_member *member, const char *name, const char *target) {
    uint64_t token;
    int error = tenure_member_begin(member, target, &token);
    if (error == TENURE_E_LOST)
        return TENURE_OK; /* another member has it, or nobody yet */
    if (error < 0)
        return error;
    printf("%s: worked on %s under token %" PRIu64 "\n", name, target, token);
    return tenure_member_end(member, target);
}

/* Work that takes long would run in threads of its own. Then TENURE_EVENT_STOP asks it to finish and to call
 * tenure_member_end(), and TENURE_EVENT_LOST says that it must end at once. Here the events are only shown. */
static void show(const char *name, const tenure_event *event) {
    switch (event->kind) {
    case TENURE_EVENT_ACQUIRED:
        printf("%s: acquired %s with token %" PRIu64 "\n", name, event->target, event->token);
        break;
    case TENURE_EVENT_LOST:
    case TENURE_EVENT_RELEASED:
        printf("%s: %s %s with token %" PRIu64 " (%s)\n", name, event->kind == TENURE_EVENT_LOST ? "lost" : "released",
               event->target, event->token, event->reason);
        break;
    case TENURE_EVENT_JOINED:
    case TENURE_EVENT_LEFT:
        printf("%s: %s %s\n", name, tenure_event_name(event->kind), event->instance);
        break;
    case TENURE_EVENT_STORE_DOWN:
    case TENURE_EVENT_REFUSED:
        printf("%s: %s: %s\n", name, tenure_event_name(event->kind), tenure_strerror(event->error));
        break;
    default: /* a newer library may have kinds that this program does not know */
        break;
    }
}

/* Works on what this member holds, and takes the events of one step. The wait for an event sets the pace. */
static int work(tenure_member *member, const char *name, char **targets) {
    while (!stopping) {
        tenure_event event = {.size = sizeof event};
        int error = TENURE_OK;
        for (char **target = targets; *target && error == TENURE_OK; target++)
            error = work_on(member, name, *target);
        for (uint64_t wait_ms = STEP_MS; error == TENURE_OK; wait_ms = 0) {
            error = tenure_member_next_event(member, wait_ms, &event);
            if (error == TENURE_OK)
                show(name, &event);
        }
        if (error != TENURE_E_TIMEOUT)
            return error;
    }
    return TENURE_OK;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: worker STORE NAME TTL_MS TARGET...\n");
        return 2;
    }
    const char *name = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0); /* line by line, also into a pipe */
    catch_signals();

    tenure_options options = {.size = sizeof options, .instance_name = name, .ttl_ms = strtoull(argv[3], NULL, 10)};
    tenure_context *context = NULL;
    if (tenure_open(argv[1], &options, &context) < 0) {
        fprintf(stderr, "%s: cannot open the store: %s\n", name, tenure_message(NULL));
        return EXIT_FAILURE;
    }
    printf("%s: started as %s\n", name, tenure_instance_id(context));

    /* From here on this instance is known to the others, and gets its share of what is put. */
    tenure_member *member = NULL;
    int error = tenure_member_open(context, NULL, &member);
    for (char **target = &argv[4]; *target && error == TENURE_OK; target++)
        error = tenure_member_put(member, *target, 0);
    if (error == TENURE_OK)
        error = work(member, name, &argv[4]);
    if (error < 0)
        fprintf(stderr, "%s: %s\n", name, tenure_message(NULL));

    /* No work is under way here, so nothing has to be waited for: everything is released, and the others take over. */
    if (member && tenure_member_stop(member, 0) < 0) {
        fprintf(stderr, "%s: cannot stop: %s\n", name, tenure_message(member));
        error = TENURE_E_TIMEOUT;
    }
    tenure_member_close(member);
    tenure_close(context);
    printf("%s: stopped\n", name);
    return error < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
