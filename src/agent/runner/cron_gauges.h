/*
 * What the metrics of `tenure cron` have of each job that this instance holds: when it last succeeded, how long its last run
 * took and how that ended. It is read from the checkpoint when the job is granted, so that no value is lost when a job
 * changes hands, and removed when the job is, so that one instance shows each job. Written by the agent's loop, read by the
 * exporter's thread.
 */
#ifndef TEN_AGENT_CRON_GAUGES_H
#define TEN_AGENT_CRON_GAUGES_H

#include <pthread.h>

#include "base/buf.h"
#include "base/map.h"
#include "core/cron_log.h"

typedef struct ten_jobs_gauges {
    pthread_mutex_t lock;
    const char *namespace_name;
    ten_map by_name;
} ten_jobs_gauges;

void ten_jobs_gauges_open(ten_jobs_gauges *gauges, const char *namespace_name);
void ten_jobs_gauges_free(ten_jobs_gauges *gauges);
/* The job is held here from now on. */
void ten_jobs_gauges_hold(ten_jobs_gauges *gauges, const char *name, const char *checkpoint);
void ten_jobs_gauges_drop(ten_jobs_gauges *gauges, const char *name);
/* A run of it has ended. */
void ten_jobs_gauges_note(ten_jobs_gauges *gauges, const char *name, const ten_cron_run *run);
/* Prometheus' text. */
void ten_jobs_gauges_write(ten_buf *to, void *gauges);

#endif
