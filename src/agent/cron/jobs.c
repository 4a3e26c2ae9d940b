/*
 * The jobs of `tenure cron`. See jobs.h.
 */
#include "agent/cron/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/member.h"

#define CLOCK_DIFFERS_MS INT64_C(60000)
#define CLOCK_TOLD_MS    (UINT64_C(10) * 60 * 1000)

static int64_t wall_now(void) {
    return (int64_t)ten_wall_ms(&ten_system_clock);
}

/* ---- its line */

void ten_jobs_free(struct ten_agent_target *target) {
    if (!target->job)
        return;
    ten_free(target->job->job.log);
    ten_free(target->job->text);
    ten_free(target->job);
    target->job = NULL;
}

/* The source has checked the line. What is under way goes on by the old one's claim; the next instant is the new one's. */
void ten_jobs_set(struct ten_agent *agent, struct ten_agent_target *target) {
    struct ten_agent_job *job = target->job;
    ten_crontab_line line;
    ten_cron_mistake mistake = {0};
    ten_error error = {0};
    char *text = target->spec ? ten_strdup(target->spec) : NULL;
    bool good = text && ten_crontab_parse(text, &line, &mistake);
    const ten_zone *zone = good ? ten_zones_get(&agent->zones, line.zone, &error) : NULL;
    if (!job && zone)
        job = ten_calloc(1, sizeof *job);
    if (!zone || !job) {
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", target->id),
                TEN_TEXT("error", good ? error.message[0] ? error.message : "out of memory" : "no job"));
        ten_free(text);
        return;
    }
    ten_free(job->text);
    job->text = text;
    job->line = line;
    job->job.name = target->id;
    job->job.schedule = &job->line.schedule;
    job->job.zone = zone;
    job->job.policy = line.policy;
    target->job = job;
    ten_jobs_look(agent, target);
}

/* ---- the clock */

void ten_jobs_note_clock(struct ten_agent *agent, int64_t ahead_ms) {
    int64_t bound_ms = CLOCK_DIFFERS_MS + (int64_t)agent->config->context.ttl_ms; /* a lease may be as old as that */
    uint64_t now_ms = ten_now_ms();
    if (llabs(ahead_ms) <= (ahead_ms > 0 ? CLOCK_DIFFERS_MS : bound_ms) || now_ms < agent->clock_told_ms)
        return;
    agent->clock_told_ms = now_ms + CLOCK_TOLD_MS;
    TEN_LOG(agent->log, TEN_LOG_WARN, "clock_differs",
            TEN_TEXT("error", ahead_ms < 0
                                  ? "this host's clock is ahead of the store's: its jobs run early; synchronize it"
                                  : "this host's clock is behind the store's: its jobs run late; synchronize it"),
            TEN_NUMBER("difference_ms", (uint64_t)llabs(ahead_ms)));
}

/* ---- carrying out */

static void show_instant(int64_t instant_ms, char text[TEN_RFC3339_SIZE]) {
    ten_rfc3339((uint64_t)instant_ms, text);
}

static void write_memory(struct ten_agent *agent, struct ten_agent_target *target) {
    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_job *job = &target->job->job;
    uint64_t token = job->token;
    if (!target->busy) { /* it is not released before the store has answered */
        uint64_t held;
        if (tenure_member_begin(agent->member, target->id, &held) < 0) {
            ten_cron_job_lost(job);
            return;
        }
        target->busy = true;
    }
    ten_cron_job_text(job, text);
    int r = ten_member_write_checkpoint(agent->member, target->id, token, text);
    if (r == TENURE_OK)
        target->writing = token;
    else
        ten_jobs_written(agent, target, r);
}

static void report_missed(struct ten_agent *agent, const struct ten_agent_target *target, enum ten_cron_end why) {
    const ten_cron_job *job = &target->job->job;
    if (!job->missed)
        return;
    ten_measure_add(why == TEN_CRON_MISSED ? &agent->measures.cron_missed : &agent->measures.cron_overlapped,
                    job->missed);
    TEN_LOG(agent->log, TEN_LOG_WARN, "cron_missed", TEN_TEXT("target", target->id),
            TEN_TEXT("reason", ten_cron_end_name(why)), TEN_NUMBER("count", job->missed));
}

static uint64_t late_by(int64_t instant_ms, int64_t now_ms) {
    return now_ms > instant_ms ? (uint64_t)(now_ms - instant_ms) : 0;
}

static bool may_start(const struct ten_agent *agent, const struct ten_agent_target *target) {
    return target->handle.belief && tenure_handle_is_held(target->handle) && !agent->stop_ms && !target->writing &&
           !target->removed && !target->paused;
}

static void set_timer(struct ten_agent *agent, struct ten_agent_target *target) {
    int64_t now = wall_now();
    int64_t next = target->poll ? TEN_CRON_NEVER : ten_cron_job_next_ms(&target->job->job, now);
    if (next == TEN_CRON_NEVER || agent->stop_ms) {
        ten_timers_clear(&agent->polls, target->number);
        return;
    }
    /* The wall clock may be set: it is looked at again soon enough. */
    int64_t wait = next > now ? next - now : 0;
    ten_timers_set(&agent->polls, target->number,
                   ten_now_ms() + ten_min_u64((uint64_t)wait, agent->config->context.ttl_ms));
}

/* It is held and confirmed, but about to be released, or the agent stops: nothing starts any more. */
static bool is_closing(const struct ten_agent *agent, const struct ten_agent_target *target) {
    tenure_member_info info = {.size = sizeof info};
    if (agent->stop_ms || target->removed)
        return true;
    return target->handle.belief && !tenure_handle_is_held(target->handle) &&
           tenure_member_read(agent->member, target->id, &info) == TENURE_OK && info.state == TENURE_STATE_HELD;
}

void ten_jobs_look(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->job)
        return;
    ten_cron_job *job = &target->job->job;
    if (job->state == TEN_CRON_AWAY) {
        if (!agent->stop_ms && target->handle.belief && tenure_handle_is_held(target->handle) && !target->writing)
            ten_jobs_granted(agent, target);
        return;
    }
    if (job->state == TEN_CRON_READY && is_closing(agent, target) && ten_cron_job_withdraw(job)) {
        write_memory(agent, target);
        return;
    }
    enum ten_cron_step step = ten_cron_job_look(job, wall_now(), may_start(agent, target));
    if (step != TEN_CRON_NOTHING || job->state == TEN_CRON_IDLE)
        report_missed(agent, target, TEN_CRON_MISSED);
    job->missed = 0;
    if (step == TEN_CRON_WRITE)
        write_memory(agent, target);
    if (step == TEN_CRON_START && !target->poll)
        ten_poll_start(agent, target);
    if (step == TEN_CRON_START && target->poll) {
        char instant[TEN_RFC3339_SIZE];
        show_instant(job->instant_ms, instant);
        int64_t now = wall_now();
        uint64_t late_ms = late_by(job->instant_ms, now);
        ten_cron_job_started(job, now);
        ten_measures_late(&agent->measures, late_ms);
        TEN_LOG(agent->log, TEN_LOG_INFO, "cron_started", TEN_TEXT("target", target->id),
                TEN_NUMBER("token", job->token), TEN_TEXT("instant", instant), TEN_NUMBER("late_ms", late_ms));
    }
    set_timer(agent, target);
}

void ten_jobs_granted(struct ten_agent *agent, struct ten_agent_target *target) {
    char text[TENURE_CHECKPOINT_MAX + 1];
    uint64_t token = tenure_handle_token(target->handle);
    if (!target->job || token == 0)
        return;
    ten_cron_job *job = &target->job->job;
    bool is_known = job->state != TEN_CRON_AWAY && job->token == token;
    size_t size = ten_member_checkpoint(agent->member, target->id, token, text);
    if (!job->log)
        job->log = ten_malloc(sizeof *job->log); /* without memory its runs are not kept, but it runs */
    ten_cron_job_granted(job, token, size ? text : NULL, agent->instance, wall_now());
    if (job->state == TEN_CRON_AWAY)
        return;
    if (!is_known)
        ten_jobs_gauges_hold(&agent->job_gauges, target->id, size ? text : NULL);
    if (job->lost) {
        char instant[TEN_RFC3339_SIZE];
        show_instant(job->memory.instant_ms, instant);
        job->lost = false;
        ten_measure_add(&agent->measures.cron_lost, 1);
        TEN_LOG(agent->log, TEN_LOG_WARN, "cron_lost", TEN_TEXT("target", target->id), TEN_TEXT("instant", instant),
                TEN_TEXT("other", job->memory.holder),
                TEN_TEXT("error", "its runner died or lost the lease; how the run ended is not known, and it is not "
                                  "run again"));
    }
    ten_jobs_look(agent, target);
}

bool ten_jobs_is_pending(const struct ten_agent_target *target) {
    return target->job && target->job->job.state > TEN_CRON_IDLE;
}

/* An event about an older grant comes late. */
void ten_jobs_lost(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token) {
    if (!target->job || target->job->job.token != token)
        return;
    ten_cron_job_lost(&target->job->job);
    ten_jobs_gauges_drop(&agent->job_gauges, target->id);
    ten_free(target->job->job.log);
    target->job->job.log = NULL;
    ten_timers_clear(&agent->polls, target->number);
}

void ten_jobs_written(struct ten_agent *agent, struct ten_agent_target *target, int error) {
    if (!target->job)
        return;
    ten_cron_job *job = &target->job->job;
    bool claimed = job->state == TEN_CRON_CLAIMING;
    ten_cron_job_written(job, error);
    if (error < 0 && error != TENURE_E_LOST && claimed)
        TEN_LOG(agent->log, TEN_LOG_ERROR, "cron_refused", TEN_TEXT("target", target->id),
                TEN_TEXT("error", tenure_strerror(error)));
    if (error < 0 && claimed) /* what the store has is read again with the next grant, or in a while */
        ten_timers_set(&agent->polls, target->number, ten_now_ms() + agent->config->context.ttl_ms / 2);
    else
        ten_jobs_look(agent, target);
}

/* The last line of what it wrote, for the log. */
static const char *last_words(const struct ten_poll *poll, char text[160]) {
    size_t size = poll->output.size;
    const char *data = poll->output.data;
    text[0] = '\0';
    while (size > 0 && (data[size - 1] == '\n' || data[size - 1] == ' '))
        size--;
    size_t start = size;
    while (start > 0 && data[start - 1] != '\n' && size - start < 150)
        start--;
    if (size > start)
        snprintf(text, 160, "%.*s", (int)(size - start), data + start);
    return text;
}

/* What has become of the command; *ret_code: its exit status or the signal. */
static enum ten_cron_end end_of(const struct ten_poll *poll, int *ret_code) {
    *ret_code = poll->signal ? poll->signal : poll->exit_code;
    if (poll->work.why == TEN_WORK_OVERDUE) {
        *ret_code = poll->exit_code ? poll->exit_code : 124; /* as timeout(1) says it */
        return TEN_CRON_TIMED_OUT;
    }
    if (poll->signal)
        return TEN_CRON_KILLED;
    if (!poll->error[0] || poll->exit_code)
        return TEN_CRON_EXITED;
    *ret_code = 127; /* as a shell says it */
    return TEN_CRON_NOT_STARTED;
}

static void count_end(struct ten_agent *agent, const struct ten_poll *poll, enum ten_cron_end end, int code) {
    ten_measures *measures = &agent->measures;
    int64_t instant_ms = poll->target->job->job.instant_ms;
    ten_measure_add(end == TEN_CRON_TIMED_OUT     ? &measures->cron_timed_out
                    : end == TEN_CRON_NOT_STARTED ? &measures->cron_not_started
                    : code                        ? &measures->cron_failed
                                                  : &measures->cron_ok,
                    1);
    ten_jobs_gauges_note(&agent->job_gauges, poll->target->id,
                         &(ten_cron_run){.end = end,
                                         .instant_ms = instant_ms,
                                         .late_ms = late_by(instant_ms, (int64_t)poll->start_wall_ms),
                                         .duration_ms = poll->duration_ms,
                                         .code = (uint64_t)code});
}

void ten_jobs_ended(struct ten_agent *agent, const struct ten_poll *poll) {
    struct ten_agent_target *target = poll->target;
    if (!target->job)
        return;
    ten_cron_job *job = &target->job->job;
    char instant[TEN_RFC3339_SIZE];
    char output[160];
    int code;
    enum ten_cron_end end = end_of(poll, &code);
    int exit_code = end == TEN_CRON_KILLED ? 128 + code : code;
    show_instant(job->instant_ms, instant);
    TEN_LOG(agent->log, exit_code ? TEN_LOG_WARN : TEN_LOG_INFO, "cron_ended", TEN_TEXT("target", target->id),
            TEN_NUMBER("token", poll->work.token), TEN_TEXT("instant", instant),
            TEN_NUMBER("exit_code", (uint64_t)exit_code), TEN_NUMBER("duration_ms", poll->duration_ms),
            TEN_TEXT("error", poll->error), TEN_TEXT("output", exit_code ? last_words(poll, output) : ""));
    count_end(agent, poll, end, code);
    ten_cron_job_ended(job, end, code, poll->duration_ms, wall_now());
    report_missed(agent, target, TEN_CRON_OVERLAPPED);
    job->missed = 0;
    if (job->state == TEN_CRON_REPORTING)
        write_memory(agent, target);
}

void ten_jobs_discarded(struct ten_agent *agent, const struct ten_poll *poll) {
    char instant[TEN_RFC3339_SIZE];
    if (!poll->target->job)
        return;
    show_instant(poll->target->job->job.instant_ms, instant);
    TEN_LOG(agent->log, TEN_LOG_WARN, "cron_lost", TEN_TEXT("target", poll->target->id),
            TEN_NUMBER("token", poll->work.token), TEN_TEXT("instant", instant),
            TEN_TEXT("error", poll->error[0] ? poll->error : "the lease was lost"));
}

uint64_t ten_jobs_timeout_ms(const struct ten_agent_target *target, uint64_t now_ms) {
    uint64_t timeout_ms = target->job ? target->job->line.policy.timeout_ms : 0;
    return timeout_ms ? now_ms + timeout_ms : UINT64_MAX;
}
