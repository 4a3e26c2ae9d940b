/*
 * The jobs of `tenure cron`: an agent whose targets are the lines of a crontab. When which instant runs is decided by
 * core/cron_job.h; here its answers are carried out with the agent's polls, timers and checkpoints. Called by the agent's
 * loop (agent_loop.c) and by its polls (poll.c).
 */
#ifndef TEN_AGENT_CRON_JOBS_H
#define TEN_AGENT_CRON_JOBS_H

#include "agent/poller/agent_state.h"
#include "core/crontab.h"

struct ten_agent_job {
    char *text; /* its line */
    ten_crontab_line line;
    ten_cron_job job;
};

/* The line of a target is new, or another one. */
void ten_jobs_set(struct ten_agent *agent, struct ten_agent_target *target);
void ten_jobs_free(struct ten_agent_target *target);
/* What has happened to its lease. */
void ten_jobs_granted(struct ten_agent *agent, struct ten_agent_target *target);
void ten_jobs_lost(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token);
/* Between the claim of an instant and the answer about its end: the target is not released. */
bool ten_jobs_is_pending(const struct ten_agent_target *target);
/* Something may be due. */
void ten_jobs_look(struct ten_agent *agent, struct ten_agent_target *target);
/* Its checkpoint was written, or was not. */
void ten_jobs_written(struct ten_agent *agent, struct ten_agent_target *target, int error);
/* Its command has ended, and its lease is confirmed; or nobody knows whose the lease is now. */
void ten_jobs_ended(struct ten_agent *agent, const struct ten_poll *poll);
void ten_jobs_discarded(struct ten_agent *agent, const struct ten_poll *poll);
/* The moment of its time-out, on the boot clock. */
uint64_t ten_jobs_timeout_ms(const struct ten_agent_target *target, uint64_t now_ms);
/* By how much the store's clock is ahead of this host's. */
void ten_jobs_note_clock(struct ten_agent *agent, int64_t ahead_ms);

#endif
