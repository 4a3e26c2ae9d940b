/*
 * One job of a crontab on a clock that the test tells: what is claimed, what a successor makes of it, and what clocks that
 * are set may not do. Whole fleets of jobs are in tests/sim/cron_run.c.
 */
#include "unit/unit.h"

#include "core/cron_job.h"

#define MINUTE_MS INT64_C(60000)
#define START_MS  (INT64_C(1790000000000) / (10 * MINUTE_MS) * (10 * MINUTE_MS)) /* on a multiple of ten minutes */

static ten_cron_schedule each_minute = {.every_ms = 60000};

static ten_cron_job make_job(enum ten_cron_missed missed) {
    return (ten_cron_job){.name = "job",
                          .schedule = &each_minute,
                          .zone = &ten_zone_utc,
                          .policy = {.missed = missed, .max_late_ms = 3600000}};
}

/* Its first holder has written down from when on it counts. */
static ten_cron_job make_known_job(enum ten_cron_missed missed) {
    ten_cron_job job = make_job(missed);
    ten_cron_job_granted(&job, 1, NULL, "a", START_MS);
    assert_int_equal(ten_cron_job_look(&job, START_MS, true), TEN_CRON_WRITE);
    ten_cron_job_written(&job, TENURE_OK);
    return job;
}

static void must_claim(ten_cron_job *job, int64_t now_ms, int64_t instant_ms) {
    assert_int_equal(ten_cron_job_look(job, now_ms, true), TEN_CRON_WRITE);
    assert_int_equal(job->instant_ms, instant_ms);
}

static void must_start(ten_cron_job *job, int64_t now_ms) {
    ten_cron_job_written(job, TENURE_OK);
    assert_int_equal(ten_cron_job_look(job, now_ms, true), TEN_CRON_START);
    ten_cron_job_started(job, now_ms);
}

/* Another host takes the job over with what the store has. */
static ten_cron_job take_over(const ten_cron_job *former, int64_t now_ms) {
    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_job job = make_job(former->policy.missed);
    ten_cron_job_text(former, text);
    ten_cron_job_granted(&job, former->token + 1, text, "b", now_ms);
    return job;
}

TEST(an_instant_starts_only_after_it_was_written_down) {
    ten_cron_job job = make_known_job(TEN_CRON_ALL);
    assert_int_equal(ten_cron_job_look(&job, START_MS + MINUTE_MS - 1, true), TEN_CRON_NOTHING);
    assert_int_equal(ten_cron_job_next_ms(&job, START_MS + 1), START_MS + MINUTE_MS);
    must_claim(&job, START_MS + MINUTE_MS, START_MS + MINUTE_MS);
    assert_int_equal(ten_cron_job_look(&job, START_MS + MINUTE_MS, true), TEN_CRON_NOTHING);
    must_start(&job, START_MS + MINUTE_MS + 5);
}

TEST(a_claim_without_a_result_is_not_run_again) {
    ten_cron_job job = make_known_job(TEN_CRON_ALL);
    must_claim(&job, START_MS + MINUTE_MS, START_MS + MINUTE_MS);
    ten_cron_job next = take_over(&job, START_MS + MINUTE_MS + 100);
    assert_true(next.lost);
    assert_int_equal(ten_cron_job_look(&next, START_MS + MINUTE_MS + 200, true), TEN_CRON_WRITE);
    ten_cron_job_written(&next, TENURE_OK);
    assert_int_equal(ten_cron_job_look(&next, START_MS + MINUTE_MS + 300, true), TEN_CRON_NOTHING);
    /* It was reported, and by this holder alone. */
    assert_false(take_over(&next, START_MS + MINUTE_MS + 400).lost);
    must_claim(&next, START_MS + 2 * MINUTE_MS, START_MS + 2 * MINUTE_MS);
}

TEST(of_what_was_missed_the_policy_says_what_runs) {
    static const struct {
        enum ten_cron_missed missed;
        int64_t minutes;
    } cases[] = {{TEN_CRON_ALL, 1}, {TEN_CRON_LATEST, 5}, {TEN_CRON_SKIP, 5}};
    for (size_t i = 0; i < TEN_COUNT(cases); i++) {
        ten_cron_job job = make_known_job(cases[i].missed);
        ten_cron_job next = take_over(&job, START_MS + 5 * MINUTE_MS + 1000);
        must_claim(&next, START_MS + 5 * MINUTE_MS + 1000, START_MS + cases[i].minutes * MINUTE_MS);
        assert_int_equal(next.missed, cases[i].minutes - 1);
    }
}

TEST(a_claim_that_is_taken_back_is_run_by_the_next) {
    ten_cron_job job = make_known_job(TEN_CRON_LATEST);
    assert_false(ten_cron_job_withdraw(&job));
    must_claim(&job, START_MS + MINUTE_MS, START_MS + MINUTE_MS);
    ten_cron_job_written(&job, TENURE_OK);
    assert_true(ten_cron_job_withdraw(&job));
    ten_cron_job next = take_over(&job, START_MS + MINUTE_MS + 100);
    assert_false(next.lost);
    must_claim(&next, START_MS + MINUTE_MS + 200, START_MS + MINUTE_MS);
}

TEST(a_clock_that_is_set_back_runs_nothing_again) {
    ten_cron_job job = make_known_job(TEN_CRON_LATEST);
    must_claim(&job, START_MS + 9 * MINUTE_MS, START_MS + 9 * MINUTE_MS);
    must_start(&job, START_MS + 3 * MINUTE_MS + 1000);
    ten_cron_job_ended(&job, TEN_CRON_EXITED, 0, 120000, START_MS + 5 * MINUTE_MS + 1000);
    assert_int_equal(job.memory.instant_ms, START_MS + 9 * MINUTE_MS);
    ten_cron_job_written(&job, TENURE_OK);
    assert_int_equal(ten_cron_job_look(&job, START_MS + 9 * MINUTE_MS + 1000, true), TEN_CRON_NOTHING);
    must_claim(&job, START_MS + 10 * MINUTE_MS, START_MS + 10 * MINUTE_MS);
}

TEST(what_comes_while_it_runs_is_passed_over) {
    ten_cron_job job = make_known_job(TEN_CRON_ALL);
    must_claim(&job, START_MS + MINUTE_MS, START_MS + MINUTE_MS);
    must_start(&job, START_MS + MINUTE_MS);
    ten_cron_job_ended(&job, TEN_CRON_EXITED, 3, 150000, START_MS + 3 * MINUTE_MS + 30000);
    assert_int_equal(job.missed, 2);
    assert_int_equal(job.memory.exit_code, 3);
    ten_cron_job_written(&job, TENURE_OK);
    assert_int_equal(ten_cron_job_look(&job, START_MS + 3 * MINUTE_MS + 40000, true), TEN_CRON_NOTHING);
    must_claim(&job, START_MS + 4 * MINUTE_MS, START_MS + 4 * MINUTE_MS);
}
