/*
 * The gauges of jobs. See cron_gauges.h.
 */
#include "agent/runner/cron_gauges.h"

#include "base/metric.h"
#include "base/thread.h"

void ten_jobs_gauges_open(ten_jobs_gauges *gauges, const char *namespace_name) {
    *gauges = (ten_jobs_gauges){.namespace_name = namespace_name};
    TAILQ_INIT(&gauges->shown);
    pthread_mutex_init(&gauges->lock, NULL);
}

void ten_jobs_gauges_free(ten_jobs_gauges *gauges) {
    pthread_mutex_destroy(&gauges->lock);
}

/* ---- the loop's side */

static bool has_ended(const ten_cron_run *run) {
    return run->end <= TEN_CRON_NOT_STARTED;
}

static bool succeeded(const ten_cron_run *run) {
    return run->end == TEN_CRON_EXITED && run->code == 0;
}

static void take_last(ten_job_gauge *gauge, const ten_cron_run *run) {
    gauge->ended = true;
    gauge->duration_ms = run->duration_ms;
    gauge->exit_code = run->end == TEN_CRON_KILLED ? 128 + run->code : run->code;
}

static void take_success(ten_job_gauge *gauge, const ten_cron_run *run) {
    gauge->success_ms = run->instant_ms + (int64_t)(run->late_ms + run->duration_ms);
}

/* The newest first: the last run, and the last that succeeded. */
static int take_known(const ten_cron_run *run, void *userdata) {
    ten_job_gauge *gauge = userdata;
    if (has_ended(run) && !gauge->ended)
        take_last(gauge, run);
    if (succeeded(run))
        take_success(gauge, run);
    return gauge->success_ms != 0;
}

void ten_jobs_gauges_hold(ten_jobs_gauges *gauges, ten_job_gauge *gauge, const char *name, const char *checkpoint) {
    ten_jobs_gauges_drop(gauges, gauge);
    *gauge = (ten_job_gauge){.name = name};
    (void)ten_cron_log_each(checkpoint, take_known, gauge);
    TEN_LOCKED(&gauges->lock);
    TAILQ_INSERT_TAIL(&gauges->shown, gauge, link);
}

void ten_jobs_gauges_drop(ten_jobs_gauges *gauges, ten_job_gauge *gauge) {
    TEN_LOCKED(&gauges->lock);
    if (gauge->name)
        TAILQ_REMOVE(&gauges->shown, gauge, link);
    gauge->name = NULL;
}

void ten_jobs_gauges_note(ten_jobs_gauges *gauges, ten_job_gauge *gauge, const ten_cron_run *run) {
    TEN_LOCKED(&gauges->lock);
    take_last(gauge, run);
    if (succeeded(run))
        take_success(gauge, run);
}

/* ---- the exporter's side */

enum what { SUCCESS, DURATION, EXIT_CODE, WHATS };

static void write_one(const ten_jobs_gauges *gauges, ten_buf *to, enum what what, const char *metric) {
    const ten_job_gauge *gauge;
    TAILQ_FOREACH(gauge, &gauges->shown, link) {
        double value = what == SUCCESS    ? (double)gauge->success_ms / 1e3
                       : what == DURATION ? (double)gauge->duration_ms / 1e3
                                          : (double)gauge->exit_code;
        if (what == SUCCESS || gauge->ended) /* ids have neither quotes nor backslashes */
            ten_buf_format(to, "%s{namespace=\"%s\",job=\"%s\"} %.*f\n", metric, gauges->namespace_name, gauge->name,
                           what == EXIT_CODE ? 0 : 3, value);
    }
}

void ten_jobs_gauges_write(ten_buf *to, void *userdata) {
    static const struct {
        const char *metric;
        const char *help;
    } whats[WHATS] = {
        [SUCCESS] = {"tenure_cron_last_success_timestamp_seconds",
                     "When a run of the job last ended with exit status 0; 0: never, as far as is known."},
        [DURATION] = {"tenure_cron_last_duration_seconds", "How long the last run of the job took."},
        [EXIT_CODE] = {"tenure_cron_last_exit_code", "The exit status of the last run of the job; 128 + N: signal N."},
    };
    ten_jobs_gauges *gauges = userdata;
    TEN_LOCKED(&gauges->lock);
    for (unsigned i = 0; i < WHATS; i++) {
        ten_metric_head(to, whats[i].metric, "gauge", whats[i].help);
        write_one(gauges, to, (enum what)i, whats[i].metric);
    }
}
