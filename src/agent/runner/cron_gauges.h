/*
 * What the metrics of `tenure cron` have of each job that this instance holds: when it last succeeded, how long its
 * last run took and how that ended. It is read from the checkpoint when the job is granted, so that no value is lost
 * when a job changes hands, and removed when the job is, so that one instance shows each job. Written by the agent's
 * loop, read by the exporter's thread.
 */
#ifndef TEN_AGENT_CRON_GAUGES_H
#define TEN_AGENT_CRON_GAUGES_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "core/cron_log.h"

/* Of one job. It stays where it is while it is shown. */
typedef struct ten_job_gauge {
    TAILQ_ENTRY(ten_job_gauge) link;
    const char *name;   /* of the job; NULL: it is not shown */
    bool ended;         /* a run of it has ended; else there is only when it succeeded, if at all */
    int64_t success_ms; /* Unix time; 0: never, as far as is known */
    uint64_t duration_ms;
    uint64_t exit_code;
} ten_job_gauge;

typedef struct ten_jobs_gauges {
    pthread_mutex_t lock;
    const char *namespace_name;
    TAILQ_HEAD(, ten_job_gauge) shown;
} ten_jobs_gauges;

void ten_jobs_gauges_open(ten_jobs_gauges *gauges, const char *namespace_name);
void ten_jobs_gauges_free(ten_jobs_gauges *gauges);
/* The job is held here from now on. */
void ten_jobs_gauges_hold(ten_jobs_gauges *gauges, ten_job_gauge *gauge, const char *name, const char *checkpoint);
void ten_jobs_gauges_drop(ten_jobs_gauges *gauges, ten_job_gauge *gauge);
/* A run of it has ended. */
void ten_jobs_gauges_note(ten_jobs_gauges *gauges, ten_job_gauge *gauge, const ten_cron_run *run);
/* Prometheus' text. */
void ten_jobs_gauges_write(ten_buf *to, void *gauges);

#endif
