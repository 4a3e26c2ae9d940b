/*
 * The election part, continued: work that runs on the leader only, once. It keeps its role for as long as it runs and
 * for its least time, on the store's clock, whatever becomes of the process.
 */
#include "conformance/elections/candidates.h"

#include <stdio.h>

/* One call of tenure_election_run(), from a thread of its own or not, and what the function saw. */
struct job {
    const char *role;
    const char *name; /* of the context's instance; NULL: the host's */
    uint64_t ttl_ms;
    uint64_t at_least_ms;
    uint64_t wait_ms;
    uint64_t runs_ms;       /* for how long */
    atomic_uint *waits_for; /* until this has reached `waits_until` */
    atomic_uint *returned;  /* counts calls that have returned */
    pthread_t thread;
    uint64_t began_ms;
    uint64_t noticed_ms; /* that it leads no more */
    uint64_t ended_ms;
    uint64_t token;
    uint64_t token_at_end;
    unsigned waits_until;
    int result;
    bool until_lost; /* it runs until it leads no more */
    bool led_at_start;
    bool led_at_end;
    atomic_bool running; /* has begun */
};

static int work(tenure_election *election, void *arg) {
    struct job *job = arg;
    job->began_ms = now_ms();
    job->led_at_start = tenure_election_leads(election);
    job->token = tenure_election_token(election);
    atomic_store(&job->running, true);
    uint64_t end_ms = job->began_ms + 2 * HANG_MS;
    while (now_ms() < end_ms && job->waits_for && atomic_load(job->waits_for) < job->waits_until)
        sleep_ms(1);
    while (now_ms() < end_ms && job->until_lost && tenure_election_leads(election))
        sleep_ms(1);
    job->noticed_ms = now_ms();
    if (job->runs_ms)
        sleep_ms(job->runs_ms);
    (void)tenure_election_wait(election, job->until_lost ? 0 : job->ttl_ms / 2); /* over a pause */
    job->led_at_end = tenure_election_leads(election);
    job->token_at_end = tenure_election_token(election);
    return 7;
}

/* On a busy machine a store may tell nothing in time: then the call is made again. */
static bool is_untold(int result) {
    return result == TENURE_E_TIMEOUT || result == TENURE_E_UNREACHABLE;
}

static void run_job(struct job *job) {
    tenure_options options = {.size = sizeof options, .instance_name = job->name, .ttl_ms = job->ttl_ms};
    tenure_election_options election_options = {.size = sizeof election_options, .at_least_ms = job->at_least_ms};
    tenure_context *context = NULL;
    uint64_t end_ms = now_ms() + HANG_MS;
    do
        job->result = tenure_open(suite_fixture.url, &options, &context);
    while (is_untold(job->result) && now_ms() < end_ms);
    if (job->result == TENURE_OK)
        do
            job->result = tenure_election_run(context, job->role, &election_options, job->wait_ms, work, job);
        while (is_untold(job->result) && now_ms() < end_ms);
    tenure_close(context); /* what is kept for its least time stays kept */
    job->ended_ms = now_ms();
    if (job->returned)
        atomic_fetch_add(job->returned, 1);
}

static void *run_in_thread(void *arg) {
    run_job(arg);
    return NULL;
}

static void start_job(struct job *job) {
    assert_int_equal(pthread_create(&job->thread, NULL, run_in_thread, job), 0);
}

static void await_work(struct job *job) {
    for (uint64_t end_ms = now_ms() + HANG_MS; !atomic_load(&job->running) && now_ms() < end_ms;)
        sleep_ms(1);
}

static void expect_done(const struct job *job) {
    assert_int_equal(job->result, 7);
    assert_true(job->led_at_start && job->led_at_end);
    assert_true(job->token != 0);
    assert_int_equal(job->token_at_end, job->token);
}

/* ---- on one only --------------------------------------------------------------------------------------- */

ELECTION_CASE(of_five_that_want_to_run_it_one_does_and_the_others_are_told_who_leads) {
    enum { JOBS = 5 };
    const struct election_place *election = *state;
    struct job jobs[JOBS];
    atomic_uint returned = 0;
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct job){.role = election->role,
                               .ttl_ms = 3 * election->brief_ms,
                               .wait_ms = 200,
                               .waits_for = &returned,
                               .waits_until = JOBS - 1,
                               .returned = &returned};
    for (int i = 0; i < JOBS; i++)
        start_job(&jobs[i]);
    for (int i = 0; i < JOBS; i++)
        pthread_join(jobs[i].thread, NULL);
    int ran = 0;
    for (int i = 0; i < JOBS; i++) {
        if (atomic_load(&jobs[i].running)) {
            expect_done(&jobs[i]);
            ran++;
        } else {
            assert_int_equal(jobs[i].result, TENURE_E_HELD);
        }
    }
    assert_int_equal(ran, 1);
    expect_holder(read_role(election), NULL);
}

/* ---- for its least time -------------------------------------------------------------------------------- */

ELECTION_CASE(the_least_time_is_kept_although_the_process_was_killed) {
    struct election_place *election = *state;
    if (!has_processes(election))
        return; /* does not apply */
    uint64_t ttl_ms = election->brief_ms;
    election->arena->ttl_ms = ttl_ms;
    election->arena->at_least_ms = 2 * ttl_ms;
    start_candidate(election, 0, IN_PROCESSES);
    (void)await_leader(election, CANDIDATES_MAX, HANG_MS);
    uint64_t began_ms = atomic_load(&election->arena->at[0].elected_ms);
    kill_candidate(election, 0);
    /* It was kept before the work began, and so for a TTL longer than the least time. */
    assert_in_range(read_role(election).remaining_ms, ten_sub_saturating(ttl_ms, late_ms()), 3 * ttl_ms);
    struct job next = {.role = election->role, .ttl_ms = ttl_ms, .wait_ms = HANG_MS};
    run_job(&next);
    expect_done(&next);
    uint64_t after_ms = next.began_ms - began_ms;
    if (after_ms + ROUNDING_MS < 2 * ttl_ms || after_ms > 3 * ttl_ms + slack_ms(election))
        fail_msg("the next one began after %llu ms", (unsigned long long)after_ms);
}

/* ---- longer than the TTL, and lost --------------------------------------------------------------------- */

ELECTION_CASE(work_whose_role_is_taken_away_notices_and_the_caller_hears_that_it_was_lost) {
    const struct election_place *election = *state;
    struct job job = {.role = election->role, .ttl_ms = TTL_MS, .wait_ms = HANG_MS, .until_lost = true};
    start_job(&job);
    await_work(&job);
    uint64_t forced_ms = now_ms();
    ten_result result = force_role(election, TEN_OP_FORCE);
    pthread_join(job.thread, NULL);
    expect_outcome(result, TEN_OK);
    assert_true(job.led_at_start);
    assert_true(job.noticed_ms - forced_ms < NOTICE_MS);
    assert_int_equal(job.result, TENURE_E_LOST);
}
