/*
 * A resident candidate that uses the C API, as a program of a user would: built against tenure.h and the shared library
 * alone. Arguments: URL NAMESPACE TTL_MS [FILE]. See elections_pair.h for what it reads and says.
 */
#include <poll.h>

#include <tenure.h>

#include "peers/jobs.h"

#define ROLE "role"

/* ---- elections ---- */

static void work(tenure_election *election, uint64_t token, void *userdata) {
    (void)election;
    (void)token;
    (void)userdata;
    jobs_say("led", jobs_now_ns());
}

/* The work of a program that looks before each step, until there is something to read. */
static void step_until_told(const tenure_election *election, int beats) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (election && beats >= 0 && poll(&in, 1, JOBS_BEAT_MS) == 0)
        if (tenure_election_leads(election))
            jobs_beat(beats, getpid());
}

struct campaign {
    tenure_context *context;
    tenure_election *election;
};

static bool start_campaign(struct campaign *campaign, char **argv) {
    tenure_options options = {.size = sizeof options, .ttl_ms = strtoull(argv[3], NULL, 10)};
    tenure_election_options role = {.size = sizeof role, .namespace_name = argv[2], .on_elected = work};
    if (tenure_open(argv[1], &options, &campaign->context) == TENURE_OK &&
        tenure_election_open(campaign->context, ROLE, &role, &campaign->election) == TENURE_OK)
        return true;
    fprintf(stderr, "%s\n", tenure_message(NULL));
    return false;
}

static void stop_campaign(struct campaign *campaign) {
    tenure_election_close(campaign->election);
    tenure_close(campaign->context);
    *campaign = (struct campaign){0};
}

/* ---- jobs ---- */

struct jobs {
    tenure_context *context;
    tenure_lease *lease;
};

static unsigned acquire_and_release(void *arg) {
    struct jobs *jobs = arg;
    tenure_lease *lease;
    if (tenure_acquire(jobs->context, "pair", 0, 0, &lease) < 0)
        return 0;
    bool released = tenure_release(lease) == TENURE_OK;
    tenure_lease_free(lease);
    return released;
}

static unsigned renew(void *arg) {
    struct jobs *jobs = arg;
    return tenure_renew(jobs->lease) == TENURE_OK;
}

static bool open_jobs(struct jobs *jobs, char **argv) {
    tenure_options options = {.size = sizeof options, .namespace_name = argv[2], .ttl_ms = strtoull(argv[3], NULL, 10)};
    return jobs->context || (tenure_open(argv[1], &options, &jobs->context) == TENURE_OK &&
                             tenure_acquire(jobs->context, "renewed", 20000, TENURE_MANUAL, &jobs->lease) == TENURE_OK);
}

static bool do_job(struct jobs *jobs, const char *line, char **argv) {
    long pairs_ms = jobs_is(line, "pairs"), renew_ms = jobs_is(line, "renew");
    if (!open_jobs(jobs, argv)) {
        fprintf(stderr, "%s\n", tenure_message(NULL));
        return false;
    }
    (void)tenure_renew(jobs->lease); /* it may have been a while */
    if (pairs_ms)
        jobs_run(acquire_and_release, jobs, pairs_ms);
    else
        jobs_run(renew, jobs, renew_ms);
    return true;
}

int main(int argc, char **argv) {
    char line[64];
    struct campaign campaign = {0};
    struct jobs jobs = {0};
    if (argc < 4)
        return 2;
    int beats = jobs_open_beats(argc > 4 ? argv[4] : NULL);
    setvbuf(stdin, NULL, _IONBF, 0); /* it is polled */
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "campaign\n") == 0) {
            if (!start_campaign(&campaign, argv))
                return 1;
        } else if (strcmp(line, "stop\n") == 0) {
            long long start_ns = jobs_now_ns();
            stop_campaign(&campaign);
            jobs_say("stopping", start_ns);
        } else if (!do_job(&jobs, line, argv))
            return 1;
        step_until_told(campaign.election, beats);
    }
    stop_campaign(&campaign);
    tenure_lease_free(jobs.lease);
    tenure_close(jobs.context);
    return 0;
}
