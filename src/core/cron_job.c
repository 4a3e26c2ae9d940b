/*
 * One job of a crontab under its lease. See cron_job.h.
 */
#include "core/cron_job.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/util.h"

#define MISSED_MAX 1000u /* more are not counted one by one */

/* ---- what the checkpoint remembers: words of the form key=value */

void ten_cron_memory_write(const ten_cron_memory *memory, char text[TEN_CRON_MEMORY_SIZE]) {
    snprintf(text, TEN_CRON_MEMORY_SIZE,
             "cron=1 instant=%" PRId64 " next=%" PRId64 " ran=%" PRId64 " open=%d started=%" PRId64 " ms=%" PRIu64
             " exit=%d runs=%" PRIu64 " skipped=%" PRIu64 " by=%s",
             memory->instant_ms, memory->next_ms, memory->ran_ms, memory->open, memory->started_ms, memory->duration_ms,
             memory->exit_code, memory->runs, memory->skipped, memory->holder);
}

/* More may follow the last word: the log of the runs. */
bool ten_cron_memory_read(const char *text, ten_cron_memory *ret_memory) {
    ten_cron_memory memory = {.known = true};
    int open = 0;
    int read = 0;
    if (!text ||
        sscanf(text,
               "cron=1 instant=%" SCNd64 " next=%" SCNd64 " ran=%" SCNd64 " open=%d started=%" SCNd64 " ms=%" SCNu64
               " exit=%d runs=%" SCNu64 " skipped=%" SCNu64 " by=%n",
               &memory.instant_ms, &memory.next_ms, &memory.ran_ms, &open, &memory.started_ms, &memory.duration_ms,
               &memory.exit_code, &memory.runs, &memory.skipped, &read) != 9 ||
        read == 0)
        return false;
    memory.open = open != 0;
    snprintf(memory.holder, sizeof memory.holder, "%.*s",
             (int)ten_min_u64(strcspn(text + read, " "), TENURE_HOLDER_MAX), text + read);
    *ret_memory = memory;
    return true;
}

/* ---- instants */

/* The same for an instant wherever it runs. */
static int64_t jitter_of(const ten_cron_job *job, int64_t instant_ms) {
    if (job->policy.jitter_ms == 0)
        return 0;
    uint64_t hash = ten_hash_mix(ten_hash_text(job->name) ^ ten_hash_mix((uint64_t)instant_ms));
    return (int64_t)(hash % job->policy.jitter_ms);
}

static int64_t next_of(const ten_cron_job *job, int64_t after_ms) {
    return ten_cron_next(job->schedule, job->zone, after_ms);
}

/* Up to here instants are over, for this job. */
static int64_t floor_of(const ten_cron_job *job) {
    return job->passed_ms > job->memory.instant_ms ? job->passed_ms : job->memory.instant_ms;
}

/* No instant before this is run any more. */
static int64_t too_late_ms(const ten_cron_job *job, int64_t now_ms) {
    uint64_t late_ms = job->policy.max_late_ms;
    if (job->policy.missed == TEN_CRON_SKIP)
        late_ms = ten_min_u64(late_ms, TEN_CRON_ON_TIME_MS);
    late_ms += job->policy.jitter_ms;
    return now_ms - (int64_t)ten_min_u64(late_ms, INT64_MAX / 4);
}

static uint64_t count_between(const ten_cron_job *job, int64_t after_ms, int64_t before_ms) {
    uint64_t count = 0;
    for (int64_t at = next_of(job, after_ms); at < before_ms && count < MISSED_MAX; at = next_of(job, at))
        count++;
    return count;
}

/* The instant that has to run now; TEN_CRON_NEVER: none. */
static int64_t due_now(const ten_cron_job *job, int64_t now_ms) {
    int64_t floor_ms = floor_of(job);
    int64_t late_ms = too_late_ms(job, now_ms) - 1;
    int64_t from_ms = floor_ms > late_ms ? floor_ms : late_ms;
    int64_t found = TEN_CRON_NEVER;
    if (job->policy.missed == TEN_CRON_ALL) {
        found = next_of(job, from_ms);
        return found <= now_ms && found + jitter_of(job, found) <= now_ms ? found : TEN_CRON_NEVER;
    }
    /* The latest whose own moment has come. */
    int64_t until_ms = now_ms;
    while ((found = ten_cron_last(job->schedule, job->zone, from_ms, until_ms)) != TEN_CRON_NEVER &&
           found + jitter_of(job, found) > now_ms)
        until_ms = found - 1;
    return found;
}

static uint64_t since(int64_t instant_ms, int64_t now_ms) {
    return now_ms > instant_ms ? (uint64_t)(now_ms - instant_ms) : 0;
}

static void log_run(ten_cron_job *job, enum ten_cron_end end, int64_t instant_ms, uint64_t late_ms,
                    uint64_t duration_ms, uint64_t code) {
    if (job->log)
        ten_cron_log_add(
            job->log,
            &(ten_cron_run){
                .end = end, .instant_ms = instant_ms, .late_ms = late_ms, .duration_ms = duration_ms, .code = code});
}

/* Instants that are over without having run, before that one. */
static void pass_over(ten_cron_job *job, enum ten_cron_end end, int64_t before_ms, int64_t now_ms) {
    int64_t first_ms = next_of(job, floor_of(job));
    job->missed = count_between(job, floor_of(job), before_ms);
    job->memory.skipped += job->missed;
    if (!job->missed)
        return;
    log_run(job, end, first_ms, since(first_ms, now_ms), 0, job->missed);
    job->passed_ms = before_ms - 1;
}

/* ---- what happens */

void ten_cron_job_granted(ten_cron_job *job, uint64_t token, const char *checkpoint, const char *holder,
                          int64_t now_ms) {
    bool again = job->state != TEN_CRON_AWAY && job->token == token;
    job->lost = false;
    if (again)
        return;
    job->state = TEN_CRON_IDLE;
    job->token = token;
    job->missed = 0;
    job->passed_ms = INT64_MIN;
    job->unwritten = false;
    job->holder = holder;
    if (job->log)
        ten_cron_log_read(job->log, checkpoint);
    if (ten_cron_memory_read(checkpoint, &job->memory)) {
        /* Its runner has died, or its lease was lost: it is not run again. */
        job->lost = job->unwritten = job->memory.open;
        if (job->lost)
            log_run(job, TEN_CRON_LOST, job->memory.ran_ms, since(job->memory.ran_ms, now_ms), 0, 0);
        job->memory.open = false; /* it is reported once, also if the next claim is taken back */
    } else {
        /* A new job: what was before it does not count. That is written down before anything runs, so that a successor
         * knows which instants are its own. */
        job->memory = (ten_cron_memory){.instant_ms = now_ms};
        snprintf(job->memory.holder, sizeof job->memory.holder, "%s", holder);
    }
    if (job->log)
        ten_cron_log_pass_on(job->log, token);
}

void ten_cron_job_lost(ten_cron_job *job) {
    job->state = TEN_CRON_AWAY;
    job->token = 0;
}

static enum ten_cron_step claim(ten_cron_job *job, int64_t instant_ms, int64_t now_ms) {
    job->before = job->memory;
    job->before.instant_ms = floor_of(job); /* what was reported as missed stays so */
    if (job->log) {
        ten_cron_log_cut(job->log);
        job->mark = ten_cron_log_here(job->log);
    }
    pass_over(job, TEN_CRON_MISSED, instant_ms, now_ms);
    job->instant_ms = instant_ms;
    snprintf(job->memory.holder, sizeof job->memory.holder, "%s", job->holder);
    job->memory.instant_ms = job->memory.ran_ms = instant_ms;
    job->memory.open = true;
    job->state = TEN_CRON_CLAIMING;
    return TEN_CRON_WRITE;
}

static enum ten_cron_step look_for_due(ten_cron_job *job, int64_t now_ms) {
    job->missed = 0;
    if (!job->memory.known) {
        job->instant_ms = TEN_CRON_NEVER;
        job->state = TEN_CRON_CLAIMING;
        return TEN_CRON_WRITE;
    }
    int64_t due_ms = due_now(job, now_ms);
    if (due_ms != TEN_CRON_NEVER)
        return claim(job, due_ms, now_ms);
    if (job->unwritten) {
        job->state = TEN_CRON_REPORTING;
        return TEN_CRON_WRITE;
    }
    int64_t late_ms = too_late_ms(job, now_ms);
    if (next_of(job, floor_of(job)) < late_ms)
        pass_over(job, TEN_CRON_MISSED, late_ms, now_ms);
    return TEN_CRON_NOTHING;
}

enum ten_cron_step ten_cron_job_look(ten_cron_job *job, int64_t now_ms, bool may_start) {
    if (job->state == TEN_CRON_IDLE && may_start)
        return look_for_due(job, now_ms);
    if (job->state == TEN_CRON_READY && may_start)
        return TEN_CRON_START;
    return TEN_CRON_NOTHING;
}

int64_t ten_cron_job_coming_ms(const ten_cron_job *job, int64_t now_ms) {
    int64_t floor_ms = floor_of(job);
    int64_t late_ms = too_late_ms(job, now_ms) - 1;
    return next_of(job, floor_ms > late_ms ? floor_ms : late_ms);
}

int64_t ten_cron_job_next_ms(const ten_cron_job *job, int64_t now_ms) {
    if (job->state == TEN_CRON_READY)
        return now_ms + (int64_t)TEN_CRON_SOON_MS;
    if (job->state != TEN_CRON_IDLE)
        return TEN_CRON_NEVER;
    if (!job->memory.known)
        return now_ms;
    int64_t coming_ms = ten_cron_job_coming_ms(job, now_ms);
    if (coming_ms == TEN_CRON_NEVER)
        return TEN_CRON_NEVER;
    /* With jitter a later instant may come first, but it is then the turn of the earlier one's policy. */
    int64_t at_ms = coming_ms + jitter_of(job, coming_ms);
    return at_ms > now_ms ? at_ms : now_ms + (int64_t)TEN_CRON_SOON_MS;
}

void ten_cron_job_text(const ten_cron_job *job, char text[TEN_CRON_MEMORY_SIZE]) {
    ten_cron_memory memory = job->memory;
    memory.next_ms = next_of(job, memory.instant_ms);
    ten_cron_memory_write(&memory, text);
    if (job->log)
        ten_cron_log_write(job->log, text + strlen(text), TEN_CRON_MEMORY_SIZE - strlen(text));
}

void ten_cron_job_written(ten_cron_job *job, int error) {
    if (job->state != TEN_CRON_CLAIMING && job->state != TEN_CRON_REPORTING)
        return;
    job->unwritten = false;
    if (error < 0) {
        /* Stale, or the store cannot: nothing of it counts, and the next grant reads what does. */
        if (job->state == TEN_CRON_CLAIMING)
            ten_cron_job_lost(job);
        else
            job->state = TEN_CRON_IDLE;
        return;
    }
    job->memory.known = true;
    bool runs = job->state == TEN_CRON_CLAIMING && job->instant_ms != TEN_CRON_NEVER;
    job->state = runs ? TEN_CRON_READY : TEN_CRON_IDLE;
}

bool ten_cron_job_withdraw(ten_cron_job *job) {
    if (job->state != TEN_CRON_READY)
        return false;
    job->memory = job->before;
    if (job->log)
        ten_cron_log_take_back(job->log, job->mark);
    job->state = TEN_CRON_REPORTING;
    return true;
}

void ten_cron_job_started(ten_cron_job *job, int64_t now_ms) {
    job->state = TEN_CRON_RUNNING;
    job->memory.started_ms = now_ms;
}

void ten_cron_job_ended(ten_cron_job *job, enum ten_cron_end end, int code, uint64_t duration_ms, int64_t now_ms) {
    if (job->state != TEN_CRON_RUNNING && job->state != TEN_CRON_READY)
        return;
    bool ran = job->state == TEN_CRON_RUNNING;
    job->memory.open = false;
    job->memory.exit_code = end == TEN_CRON_KILLED ? 128 + code : code;
    job->memory.duration_ms = duration_ms;
    job->memory.runs++;
    job->missed = 0;
    log_run(job, end, job->instant_ms, since(job->instant_ms, ran ? job->memory.started_ms : now_ms), duration_ms,
            (uint64_t)code);
    /* What came while it ran has been passed over; not what came before it started, which is still to be made up
     * for. */
    int64_t last_ms = ten_cron_last(job->schedule, job->zone, job->memory.started_ms, now_ms);
    bool later = last_ms != TEN_CRON_NEVER && last_ms > job->instant_ms; /* not if the clock was set back meanwhile */
    if (job->policy.overlap == TEN_CRON_OVERLAP_SKIP && later &&
        next_of(job, job->instant_ms) > job->memory.started_ms) {
        pass_over(job, TEN_CRON_OVERLAPPED, last_ms + 1, now_ms);
        job->memory.instant_ms = last_ms;
    }
    job->state = TEN_CRON_REPORTING;
}
