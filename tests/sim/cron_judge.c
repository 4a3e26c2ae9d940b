/*
 * The judge of simulated crontabs. It knows what the store has accepted and what every host could do, and works out by
 * itself which instant a policy wants: it trusts neither the memory nor the choice of core/cron_job.c. Wrong is
 *  - an instant that starts twice, without its lease, from before the job, or that is not the one that is wanted;
 *  - an instant that is due while its holder may start it, and does not claim it;
 *  - a claim that is lost although nothing has happened to its host, its store and its lease;
 *  - in the end: an instant that neither ran, nor was lost with its host, nor is one that its policy leaves out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/util.h"
#include "cron_world.h"

#define STUCK_MS INT64_C(300000)

static void fail(struct cron_world *world, const struct job *job, const char *what, int64_t instant_ms) {
    if (world->failed)
        return;
    world->failed = true;
    snprintf(world->failure, sizeof world->failure, "%s: %s: instant %+" PRId64 " s at %+" PRId64 " s", job->text, what,
             (instant_ms - START_MS) / 1000, (world->now_ms - START_MS) / 1000);
}

static struct instant *instant_of(struct cron_world *world, struct job *job, int64_t at_ms) {
    for (size_t i = job->count; i-- > 0;)
        if (job->instants[i].at_ms == at_ms)
            return &job->instants[i];
    if (job->count == INSTANT_MAX) {
        fail(world, job, "more instants than there can be", at_ms);
        return &job->instants[0];
    }
    job->instants[job->count] = (struct instant){.at_ms = at_ms};
    return &job->instants[job->count++];
}

/* ---- what is wanted */

static int64_t next_wanted(const struct job *job, int64_t after_ms) {
    if (!job->wanted)
        return ten_cron_next(&job->schedule, job->zone, after_ms);
    size_t i = 0;
    while (job->wanted[i] <= after_ms)
        i++;
    return job->wanted[i];
}

/* When an instant may start at the earliest. */
static int64_t moment_of(const struct job *job, int64_t at_ms) {
    if (job->policy.jitter_ms == 0)
        return at_ms;
    uint64_t hash = ten_hash_mix(ten_hash_text(job->text) ^ ten_hash_mix((uint64_t)at_ms));
    return at_ms + (int64_t)(hash % job->policy.jitter_ms);
}

/* By a clock that shows this, an instant before the result is too late. */
static int64_t too_late_ms(const struct job *job, int64_t wall_ms) {
    uint64_t late_ms = job->policy.max_late_ms;
    if (job->policy.missed == TEN_CRON_SKIP && late_ms > 60000)
        late_ms = 60000;
    return wall_ms - (int64_t)(late_ms + job->policy.jitter_ms);
}

/* The instant that the policy wants to run now; TEN_CRON_NEVER: none. */
static int64_t wanted_now(const struct job *job, const struct view *view, int64_t wall_ms) {
    int64_t after_ms = job->settled_ms > view->passed_ms ? job->settled_ms : view->passed_ms;
    int64_t late_ms = too_late_ms(job, wall_ms);
    int64_t wanted = TEN_CRON_NEVER;
    if (after_ms < late_ms - 1)
        after_ms = late_ms - 1;
    for (int64_t at_ms = after_ms; (at_ms = next_wanted(job, at_ms)) <= wall_ms;) {
        bool come = moment_of(job, at_ms) <= wall_ms;
        if (job->policy.missed == TEN_CRON_ALL)
            return come ? at_ms : TEN_CRON_NEVER;
        if (come)
            wanted = at_ms;
    }
    return wanted;
}

static void pass_between(struct cron_world *world, struct job *job, int64_t after_ms, int64_t before_ms) {
    for (int64_t at_ms = after_ms; (at_ms = next_wanted(job, at_ms)) < before_ms;)
        instant_of(world, job, at_ms)->passed = true;
}

/* ---- what happens */

static bool has_lease(const struct cron_world *world, const struct host *host, const struct job *job) {
    return world->now_ms < (int64_t)job->row.ends_ms && strcmp(job->row.holder, host->id) == 0;
}

static void judge_claim(struct cron_world *world, struct host *host, unsigned number, int64_t wanted) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    int64_t instant_ms = view->machine.instant_ms;
    if (instant_ms != wanted)
        fail(world, job, wanted == TEN_CRON_NEVER ? "an instant is claimed that nobody wants" : "another one is wanted",
             instant_ms);
    /* With missed=all only what is too late is passed over, with the others also what came before. */
    int64_t late_ms = too_late_ms(job, cron_wall(world, host));
    pass_between(world, job, job->settled_ms, job->policy.missed == TEN_CRON_ALL ? late_ms : instant_ms);
    view->claim_since_ms = world->now_ms;
    view->before_ms = job->settled_ms > view->passed_ms ? job->settled_ms : view->passed_ms;
    view->will_settle_ms = instant_ms;
}

void cron_judge_look(struct cron_world *world, struct host *host, unsigned number, enum ten_cron_step step) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    int64_t wall_ms = cron_wall(world, host);
    view->able_ms = world->now_ms;
    if (!has_lease(world, host, job)) /* it does not know yet, and the store will refuse what it writes */
        return;
    if (job->first_ms == 0) {
        if (step != TEN_CRON_WRITE || view->machine.instant_ms != TEN_CRON_NEVER ||
            view->machine.memory.instant_ms != view->granted_wall_ms)
            fail(world, job, "from when on a new job counts is not written down", wall_ms);
        view->will_settle_ms = view->machine.memory.instant_ms;
        return;
    }
    int64_t wanted = wanted_now(job, view, wall_ms);
    if (step == TEN_CRON_WRITE && view->machine.state == TEN_CRON_REPORTING && wanted == TEN_CRON_NEVER) {
        view->will_settle_ms = job->settled_ms; /* what a holder before it has lost is reported once */
        return;
    }
    if (step == TEN_CRON_WRITE) {
        judge_claim(world, host, number, wanted);
        return;
    }
    if (wanted != TEN_CRON_NEVER)
        fail(world, job, "an instant is due, and is not claimed", wanted);
    int64_t late_ms = too_late_ms(job, wall_ms);
    int64_t over_ms = job->settled_ms > view->passed_ms ? job->settled_ms : view->passed_ms;
    if (next_wanted(job, over_ms) < late_ms) {
        pass_between(world, job, over_ms, late_ms);
        view->passed_ms = late_ms - 1;
    }
}

void cron_judge_wrote(struct cron_world *world, struct host *host, unsigned number) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    bool claims = view->machine.state == TEN_CRON_CLAIMING;
    if (claims && view->machine.instant_ms == TEN_CRON_NEVER) {
        job->first_ms = view->will_settle_ms;
    } else if (claims) {
        view->claimed_ms = view->machine.instant_ms;
    } else if (view->withdrawn_ms) {
        view->will_settle_ms = view->before_ms;
        view->claimed_ms = 0;
    }
    job->settled_ms = view->will_settle_ms;
}

void cron_judge_started(struct cron_world *world, struct host *host, unsigned number) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    struct instant *instant = instant_of(world, job, view->machine.instant_ms);
    bool forced = job->forced_ms && world->now_ms < job->forced_ms + TTL_MS;
    if (++instant->starts > 1)
        fail(world, job, "an instant runs twice", instant->at_ms);
    if (job->first_ms == 0 || instant->at_ms <= job->first_ms)
        fail(world, job, "an instant from before the job runs", instant->at_ms);
    if (!forced && !has_lease(world, host, job))
        fail(world, job, "an instant runs without the lease", instant->at_ms);
    if (view->claimed_ms != instant->at_ms)
        fail(world, job, "an instant runs that the store does not have as claimed", instant->at_ms);
    view->claimed_ms = 0;
    view->began_wall_ms = cron_wall(world, host);
}

/* With overlap=skip, what came while it ran is over; unless there are earlier ones, which come first. */
void cron_judge_ended(struct cron_world *world, struct host *host, unsigned number) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    int64_t wall_ms = cron_wall(world, host);
    int64_t instant_ms = view->machine.instant_ms;
    view->will_settle_ms = instant_ms;
    if (job->policy.overlap != TEN_CRON_OVERLAP_SKIP || next_wanted(job, instant_ms) <= view->began_wall_ms)
        return;
    for (int64_t at_ms = instant_ms; (at_ms = next_wanted(job, at_ms)) <= wall_ms;) {
        instant_of(world, job, at_ms)->overlapped = true;
        view->will_settle_ms = at_ms;
    }
}

/* Whether something has happened since the claim that can part a host from its lease. */
static bool is_excused(const struct cron_world *world, const struct host *host, const struct job *job,
                       int64_t since_ms) {
    return host->paused_until_ms > since_ms || world->down_until_ms > since_ms || job->forced_ms >= since_ms;
}

void cron_judge_forgot(struct cron_world *world, struct host *host, unsigned number, bool crashed) {
    struct job *job = &world->jobs[number];
    struct view *view = &host->views[number];
    if (view->claimed_ms) {
        instant_of(world, job, view->claimed_ms)->lost = true;
        world->lost++;
        if (!crashed && !is_excused(world, host, job, view->claim_since_ms))
            fail(world, job, "a claim is lost, and nothing has happened to its host", view->claimed_ms);
    }
    view->claimed_ms = 0;
    view->passed_ms = 0;
}

void cron_judge_calm(struct cron_world *world, const struct host *host, unsigned number) {
    const struct view *view = &host->views[number];
    int64_t since_ms = view->able_ms > world->calm_ms ? view->able_ms : world->calm_ms;
    if (world->now_ms - since_ms > STUCK_MS)
        fail(world, &world->jobs[number], "its holder is stuck", view->machine.instant_ms);
}

/* ---- the history */

struct told {
    struct cron_world *world;
    struct job *job;
    int64_t oldest_ms;
    bool seen[INSTANT_MAX];
};

static void see(struct told *told, int64_t at_ms, bool ran) {
    const struct instant *instant = instant_of(told->world, told->job, at_ms);
    size_t number = (size_t)(instant - told->job->instants);
    if (told->seen[number])
        fail(told->world, told->job, "the history has an instant twice", at_ms);
    if (ran != (instant->starts > 0))
        fail(told->world, told->job, ran ? "the history has a run that never was" : "what ran is told as missed",
             at_ms);
    told->seen[number] = true;
}

static int hear(const ten_cron_run *run, void *userdata) {
    struct told *told = userdata;
    told->oldest_ms = run->instant_ms;
    if (run->end == TEN_CRON_LOST) {
        bool ran = instant_of(told->world, told->job, run->instant_ms)->starts > 0; /* or only was claimed */
        see(told, run->instant_ms, ran);
    } else if (run->end <= TEN_CRON_NOT_STARTED) {
        see(told, run->instant_ms, true);
    } else {
        int64_t at_ms = run->instant_ms;
        for (uint64_t i = 0; i < run->code && !told->world->failed; i++, at_ms = next_wanted(told->job, at_ms))
            see(told, at_ms, false);
    }
    return told->world->failed;
}

void cron_judge_log(struct cron_world *world, struct job *job) {
    ten_cron_memory memory = {0};
    struct told told = {.world = world, .job = job, .oldest_ms = INT64_MAX};
    (void)ten_cron_memory_read(job->checkpoint, &memory);
    (void)ten_cron_log_each(job->checkpoint, hear, &told);
    for (size_t i = 0; i < job->count; i++) {
        const struct instant *instant = &job->instants[i];
        bool open = memory.open && memory.ran_ms == instant->at_ms;
        if (instant->starts && !open && instant->at_ms >= told.oldest_ms && !told.seen[i])
            fail(world, job, "the history lacks a run", instant->at_ms);
        if (instant->starts && !open && told.oldest_ms == INT64_MAX)
            fail(world, job, "the history is empty", instant->at_ms);
    }
}

void cron_judge_end(struct cron_world *world, struct job *job, int64_t until_ms) {
    if (job->first_ms == 0)
        fail(world, job, "nobody has ever had it", 0);
    for (int64_t at_ms = job->first_ms; (at_ms = next_wanted(job, at_ms)) <= until_ms && !world->failed;) {
        const struct instant *instant = instant_of(world, job, at_ms);
        if (!instant->starts && !instant->lost && !instant->overlapped && !instant->passed)
            fail(world, job, "an instant is missing", at_ms);
    }
}
