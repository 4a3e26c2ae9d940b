/*
 * The policy of `tenure cron`: the targets are the lines of a crontab. When which instant runs is decided by
 * core/cron_job.h; here its answers are carried out with runs, timers and checkpoints. Called by run.c and by the
 * agent's loop.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "core/crontab.h"
#include "runtime/member.h"

#define CLOCK_DIFFERS_MS INT64_C(60000)
#define CLOCK_LOG_MS     (UINT64_C(10) * 60 * 1000)

struct ten_agent_job {
    char *text; /* its line */
    ten_crontab_line line;
    ten_cron_job job;
    ten_job_gauge gauge;
};

static void granted(struct ten_agent *agent, struct ten_agent_target *target);
static void look(struct ten_agent *agent, struct ten_agent_target *target);

static int64_t wall_now(void) {
    return (int64_t)ten_wall_ms(&ten_system_clock);
}

/* ---- its line */

static void forget(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->job)
        return;
    ten_jobs_gauges_drop(&agent->job_gauges, &target->job->gauge);
    ten_free(target->job->job.log);
    ten_free(target->job->text);
    ten_free(target->job);
}

/* The source has checked the line. What is under way goes on by the old one's claim; the next instant is the new
 * one's. */
static void specified(struct ten_agent *agent, struct ten_agent_target *target, const struct ten_agent_spec *before) {
    struct ten_agent_job *job = target->job;
    ten_crontab_line line;
    ten_cron_mistake mistake = {0};
    ten_error error = {0};
    char *text = target->spec->spec ? ten_strdup(target->spec->spec) : NULL;
    (void)before;
    bool good = text && ten_crontab_parse(text, &line, &mistake);
    const ten_zone *zone = good ? ten_zones_get(&agent->zones, line.zone, &error) : NULL;
    if (!job && zone)
        job = ten_calloc(1, sizeof *job);
    if (!zone || !job) {
        TEN_LOG(agent->runner.log, TEN_LOG_ERROR, "target_refused", TEN_TEXT("target", target->id),
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
    look(agent, target);
}

/* ---- the clock */

static void compare_clocks(struct ten_agent *agent) {
    int64_t ahead_ms = atomic_load(&agent->store_ahead_ms);
    int64_t bound_ms =
        CLOCK_DIFFERS_MS + (int64_t)agent->config->runner.context.ttl_ms; /* a lease may be as old as that */
    uint64_t now_ms = ten_now_ms();
    if (llabs(ahead_ms) <= (ahead_ms > 0 ? CLOCK_DIFFERS_MS : bound_ms) || now_ms < agent->clock_log_ms)
        return;
    agent->clock_log_ms = now_ms + CLOCK_LOG_MS;
    TEN_LOG(agent->runner.log, TEN_LOG_WARN, "clock_differs",
            TEN_TEXT("error", ahead_ms < 0
                                  ? "this host's clock is ahead of the store's: its jobs run early; synchronize it"
                                  : "this host's clock is behind the store's: its jobs run late; synchronize it"),
            TEN_NUMBER("difference_ms", (uint64_t)llabs(ahead_ms)));
}

/* ---- carrying out */

static const char *show_instant(int64_t instant_ms, char text[TEN_RFC3339_SIZE]) {
    ten_rfc3339((uint64_t)instant_ms, text);
    return text;
}
#define INSTANT(instant_ms) TEN_TEXT("instant", show_instant(instant_ms, (char[TEN_RFC3339_SIZE]){0}))

static void note_written(struct ten_agent *agent, struct ten_agent_target *target, int error);

static void write_memory(struct ten_agent *agent, struct ten_agent_target *target) {
    char text[TEN_CRON_MEMORY_SIZE];
    ten_cron_job *job = &target->job->job;
    uint64_t token = job->token;
    if (!ten_run_keep_target(agent, target)) { /* it is not released before the store has answered */
        ten_cron_job_lost(job);
        return;
    }
    ten_cron_job_text(job, text);
    int r = ten_member_write_checkpoint(agent->member, target->id, token, text);
    if (r == TENURE_OK)
        target->writing = token;
    else
        note_written(agent, target, r);
}

static void report_missed(struct ten_agent *agent, const struct ten_agent_target *target, enum ten_cron_end why) {
    const ten_cron_job *job = &target->job->job;
    if (!job->missed)
        return;
    ten_measure_add(why == TEN_CRON_MISSED ? &agent->runner.measures.cron_missed
                                           : &agent->runner.measures.cron_overlapped,
                    job->missed);
    TEN_LOG(agent->runner.log, TEN_LOG_WARN, "cron_missed", TEN_TEXT("target", target->id),
            TEN_TEXT("reason", ten_cron_end_name(why)), TEN_NUMBER("count", job->missed));
}

static uint64_t late_by(int64_t instant_ms, int64_t now_ms) {
    return now_ms > instant_ms ? (uint64_t)(now_ms - instant_ms) : 0;
}

static bool may_start(const struct ten_agent *agent, const struct ten_agent_target *target) {
    return target->handle.belief && tenure_handle_is_held(target->handle) && !agent->stop_ms && !target->writing &&
           !target->removed && !target->spec->paused;
}

static void set_timer(struct ten_agent *agent, struct ten_agent_target *target) {
    int64_t now = wall_now();
    int64_t next = target->run ? TEN_CRON_NEVER : ten_cron_job_next_ms(&target->job->job, now);
    if (next == TEN_CRON_NEVER || agent->stop_ms) {
        ten_timers_clear(&agent->starts, target->number);
        return;
    }
    /* The wall clock may be set: it is looked at again soon enough. */
    int64_t wait = next > now ? next - now : 0;
    ten_timers_set(&agent->starts, target->number,
                   ten_now_ms() + ten_min_u64((uint64_t)wait, agent->config->runner.context.ttl_ms));
}

/* It is held and confirmed, but about to be released, or the agent stops: nothing starts any more. */
static bool is_closing(const struct ten_agent *agent, const struct ten_agent_target *target) {
    tenure_member_info info = {.size = sizeof info};
    if (agent->stop_ms || target->removed)
        return true;
    return target->handle.belief && !tenure_handle_is_held(target->handle) &&
           tenure_member_read(agent->member, target->id, &info) == TENURE_OK && info.state == TENURE_STATE_HELD;
}

static void look(struct ten_agent *agent, struct ten_agent_target *target) {
    if (!target->job)
        return;
    ten_cron_job *job = &target->job->job;
    if (job->state == TEN_CRON_AWAY) {
        if (!agent->stop_ms && target->handle.belief && tenure_handle_is_held(target->handle) && !target->writing)
            granted(agent, target);
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
    if (step == TEN_CRON_START && !target->run)
        ten_run_start(agent, target);
    if (step == TEN_CRON_START && target->run) {
        int64_t now = wall_now();
        uint64_t late_ms = late_by(job->instant_ms, now);
        ten_cron_job_started(job, now);
        ten_measures_late(&agent->runner.measures, late_ms);
        TEN_LOG(agent->runner.log, TEN_LOG_INFO, "cron_started", TEN_TEXT("target", target->id),
                TEN_NUMBER("token", job->token), INSTANT(job->instant_ms), TEN_NUMBER("late_ms", late_ms));
    }
    set_timer(agent, target);
}

static void granted(struct ten_agent *agent, struct ten_agent_target *target) {
    target->due_ms = 1; /* it is known that it is held */
    char text[TENURE_CHECKPOINT_MAX + 1];
    uint64_t token = tenure_handle_token(target->handle);
    if (!target->job || token == 0)
        return;
    ten_cron_job *job = &target->job->job;
    bool is_known = job->state != TEN_CRON_AWAY && job->token == token;
    size_t size = ten_member_checkpoint(agent->member, target->id, token, text);
    if (!job->log)
        job->log = ten_malloc(sizeof *job->log); /* without memory its runs are not kept, but it runs */
    ten_cron_job_granted(job, token, size ? text : NULL, agent->runner.instance, wall_now());
    if (job->state == TEN_CRON_AWAY)
        return;
    if (!is_known)
        ten_jobs_gauges_hold(&agent->job_gauges, &target->job->gauge, target->id, size ? text : NULL);
    if (job->lost) {
        job->lost = false;
        ten_measure_add(&agent->runner.measures.cron_lost, 1);
        TEN_LOG(agent->runner.log, TEN_LOG_WARN, "cron_lost", TEN_TEXT("target", target->id),
                INSTANT(job->memory.instant_ms), TEN_TEXT("other", job->memory.holder),
                TEN_TEXT("error", "its runner died or lost the lease; how the run ended is not known, and it is not "
                                  "run again"));
    }
    look(agent, target);
}

/* Between the claim of an instant and the answer about its end. */
static bool is_pending(const struct ten_agent_target *target) {
    return target->job && target->job->job.state > TEN_CRON_IDLE;
}

/* An event about an older grant comes late. */
static void ended(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token) {
    if (!target->job || target->job->job.token != token)
        return;
    ten_cron_job_lost(&target->job->job);
    ten_jobs_gauges_drop(&agent->job_gauges, &target->job->gauge);
    ten_free(target->job->job.log);
    target->job->job.log = NULL;
}

static void note_written(struct ten_agent *agent, struct ten_agent_target *target, int error) {
    ten_cron_job *job = &target->job->job;
    bool claimed = job->state == TEN_CRON_CLAIMING;
    ten_cron_job_written(job, error);
    if (error < 0 && error != TENURE_E_LOST && claimed)
        TEN_LOG(agent->runner.log, TEN_LOG_ERROR, "cron_refused", TEN_TEXT("target", target->id),
                TEN_TEXT("error", tenure_strerror(error)));
    if (error < 0 && claimed) /* what the store has is read again with the next grant, or in a while */
        ten_timers_set(&agent->starts, target->number, ten_now_ms() + agent->config->runner.context.ttl_ms / 2);
    else
        look(agent, target);
}

static void written(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token, int error) {
    if (!target->job)
        return;
    if (target->job->job.token == token)
        note_written(agent, target, error);
    else
        look(agent, target);
}

/* The last line of what it wrote, for the log. */
static const char *last_words(const struct ten_target_run *run, char text[160]) {
    size_t size = run->output.size;
    const char *data = run->output.data;
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
static enum ten_cron_end end_of(const struct ten_target_run *run, int *ret_code) {
    *ret_code = run->signal ? run->signal : run->exit_code;
    if (run->work.why == TEN_WORK_OVERDUE) {
        *ret_code = run->exit_code ? run->exit_code : 124; /* as timeout(1) says it */
        return TEN_CRON_TIMED_OUT;
    }
    if (run->signal)
        return TEN_CRON_KILLED;
    if (!run->error[0] || run->exit_code)
        return TEN_CRON_EXITED;
    *ret_code = 127; /* as a shell says it */
    return TEN_CRON_NOT_STARTED;
}

static void count_end(struct ten_agent *agent, const struct ten_target_run *run, enum ten_cron_end end, int code) {
    ten_measures *measures = &agent->runner.measures;
    int64_t instant_ms = run->target->job->job.instant_ms;
    ten_measure_add(end == TEN_CRON_TIMED_OUT     ? &measures->cron_timed_out
                    : end == TEN_CRON_NOT_STARTED ? &measures->cron_not_started
                    : code                        ? &measures->cron_failed
                                                  : &measures->cron_ok,
                    1);
    ten_jobs_gauges_note(&agent->job_gauges, &run->target->job->gauge,
                         &(ten_cron_run){.end = end,
                                         .instant_ms = instant_ms,
                                         .late_ms = late_by(instant_ms, (int64_t)run->start_wall_ms),
                                         .duration_ms = run->duration_ms,
                                         .code = (uint64_t)code});
}

static void publish(struct ten_agent *agent, struct ten_target_run *run) {
    struct ten_agent_target *target = run->target;
    if (!target->job)
        return;
    ten_cron_job *job = &target->job->job;
    char output[160];
    int code;
    enum ten_cron_end end = end_of(run, &code);
    int exit_code = end == TEN_CRON_KILLED ? 128 + code : code;
    TEN_LOG(agent->runner.log, exit_code ? TEN_LOG_WARN : TEN_LOG_INFO, "cron_ended", TEN_TEXT("target", target->id),
            TEN_NUMBER("token", run->work.token), INSTANT(job->instant_ms),
            TEN_NUMBER("exit_code", (uint64_t)exit_code), TEN_NUMBER("duration_ms", run->duration_ms),
            TEN_TEXT("error", run->error), TEN_TEXT("output", exit_code ? last_words(run, output) : ""));
    count_end(agent, run, end, code);
    ten_cron_job_ended(job, end, code, run->duration_ms, wall_now());
    report_missed(agent, target, TEN_CRON_OVERLAPPED);
    job->missed = 0;
    if (job->state == TEN_CRON_REPORTING)
        write_memory(agent, target);
}

static void discard(struct ten_agent *agent, const struct ten_target_run *run, const char *why) {
    if (run->target->job)
        TEN_LOG(agent->runner.log, TEN_LOG_WARN, "cron_lost", TEN_TEXT("target", run->target->id),
                TEN_NUMBER("token", run->work.token), INSTANT(run->target->job->job.instant_ms),
                TEN_TEXT("error", why));
}

/* ---- its command */

static uint64_t timeout_ms(const struct ten_agent *agent, const struct ten_agent_target *target) {
    uint64_t longest_ms = target->job->line.policy.timeout_ms;
    (void)agent;
    return longest_ms ? longest_ms : UINT64_MAX;
}

static void start(struct ten_agent *agent, struct ten_target_run *run) {
    char instant[TEN_RFC3339_SIZE];
    const char *const variables[][2] = {{"TENURE_JOB", run->target->id},
                                        {"TENURE_INSTANT", show_instant(run->target->job->job.instant_ms, instant)}};
    ten_run_command_start(agent, run, run->target->spec->exec, variables, TEN_COUNT(variables));
}

/* ---- the policy */

static void due(struct ten_agent *agent, struct ten_agent_target *target, uint64_t now_ms) {
    (void)now_ms;
    look(agent, target);
}

const ten_policy ten_policy_cron = {.exports = TEN_EXPORTS_CRON,
                                    .specified = specified,
                                    .granted = granted,
                                    .ended = ended,
                                    .due = due,
                                    .stops = look,
                                    .is_pending = is_pending,
                                    .timeout_ms = timeout_ms,
                                    .start = start,
                                    .publish = publish,
                                    .discard = discard,
                                    .written = written,
                                    .turn = compare_clocks,
                                    .forget = forget};
