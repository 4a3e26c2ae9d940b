/*
 * Crontabs in the simulator: hosts with clocks that are off by up to ten minutes run the jobs of core/cron_job.h under
 * leases of the rules of rules/lease_row.h. Hosts crash at every step, pause, are replaced and cut off from the store;
 * answers get lost; clocks are set, and the local time of some jobs changes. What is right is for cron_judge.c to say. Called
 * by main.c with --cron.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cron_world.h"
#include "sim.h"

static uint64_t dice(struct cron_world *world, uint64_t below) {
    world->random = ten_hash_mix(world->random + UINT64_C(0x9e3779b97f4a7c15));
    return below ? world->random % below : 0;
}

static bool chance(struct cron_world *world, unsigned of_ten_thousand) {
    return dice(world, 10000) < of_ten_thousand;
}

void cron_note(const struct cron_world *world, const struct host *host, unsigned job, const char *what,
               int64_t instant_ms) {
    if (world->verbose)
        printf("# %8" PRId64 " s %-8s job %u %s %+" PRId64 "\n", (world->now_ms - START_MS) / 1000, host->id, job, what,
               (instant_ms - START_MS) / 1000);
}

int64_t cron_wall(const struct cron_world *world, const struct host *host) {
    return world->now_ms + host->skew_ms;
}

/* ---- the store */

static bool apply(struct cron_world *world, unsigned job, const ten_op *op, ten_result *result) {
    ten_lease_effect effect;
    ten_lease_context context = {.now_ms = (uint64_t)world->now_ms, .wall_ms = (uint64_t)world->now_ms};
    *result = (ten_result){0};
    ten_lease_row_apply(&world->jobs[job].row, op, &context, result, &effect);
    if (effect.checkpointed)
        snprintf(world->jobs[job].checkpoint, TEN_CRON_MEMORY_SIZE, "%s", op->checkpoint);
    return result->outcome == TEN_OK;
}

/* Whether a request gets there, and whether its answer comes back. */
static bool arrives(struct cron_world *world) {
    return world->now_ms >= world->down_until_ms && (world->calm_ms || !chance(world, 300));
}

static bool answers(struct cron_world *world) {
    return world->calm_ms || !chance(world, 500);
}

/* ---- a host and its leases */

static void forget(struct cron_world *world, struct host *host, unsigned job, bool crashed) {
    struct view *view = &host->views[job];
    if (view->held)
        cron_note(world, host, job, crashed ? "dies, and had" : "ends its term, and had", view->machine.instant_ms);
    if (view->held)
        cron_judge_forgot(world, host, job, crashed);
    ten_cron_job_lost(&view->machine);
    view->withdrawn_ms = 0;
    view->held = view->writing = view->running = view->closing = false;
}

static void crash(struct cron_world *world, struct host *host) {
    if (!host->alive)
        return;
    world->crashes++;
    for (unsigned i = 0; i < JOBS; i++)
        forget(world, host, i, true);
    host->alive = false;
}

static void begin(struct cron_world *world, struct host *host, unsigned number) {
    *host = (struct host){.alive = true, .life = host->life + 1};
    snprintf(host->id, sizeof host->id, "h%u-%u", number, host->life);
    host->skew_ms = (int64_t)dice(world, 2 * SKEW_MS + 1) - SKEW_MS;
    for (unsigned i = 0; i < JOBS; i++)
        host->views[i].machine = (ten_cron_job){.name = world->jobs[i].text,
                                                .schedule = &world->jobs[i].schedule,
                                                .zone = world->jobs[i].zone,
                                                .policy = world->jobs[i].policy,
                                                .log = &host->views[i].log};
}

static void take(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    ten_op op = {.kind = TEN_OP_ACQUIRE, .target = "j", .holder = host->id, .ttl_ms = TTL_MS};
    ten_result result;
    if (!arrives(world) || !apply(world, job, &op, &result) || !answers(world))
        return;
    if (world->jobs[job].checkpoint[0])
        world->takeovers++;
    view->held = true;
    view->token = result.token;
    view->deadline_ms = world->now_ms + BELIEF_MS;
    view->renewed_ms = world->now_ms;
    view->uncertain = view->closing = false;
    view->granted_wall_ms = cron_wall(world, host);
    cron_note(world, host, job, "is granted it, and its clock shows", view->granted_wall_ms);
    const char *kept = world->jobs[job].checkpoint;
    ten_cron_job_granted(&view->machine, view->token, kept[0] ? kept : NULL, host->id, cron_wall(world, host));
}

static void renew(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    ten_op op = {.kind = TEN_OP_RENEW, .target = "j", .holder = host->id, .token = view->token, .ttl_ms = TTL_MS};
    ten_result result;
    view->renewed_ms = world->now_ms;
    view->uncertain = true;
    if (!arrives(world))
        return;
    bool good = apply(world, job, &op, &result);
    if (!answers(world))
        return;
    if (!good) {
        forget(world, host, job, false);
        return;
    }
    view->uncertain = false;
    view->deadline_ms = world->now_ms + BELIEF_MS;
}

static void release(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    ten_op op = {.kind = TEN_OP_RELEASE, .target = "j", .holder = host->id, .token = view->token};
    ten_result result;
    (void)(arrives(world) && apply(world, job, &op, &result));
    forget(world, host, job, false);
}

/* ---- a host and its jobs */

static void send_memory(struct cron_world *world, struct view *view) {
    ten_cron_job_text(&view->machine, view->text);
    view->writing = true;
    view->write_at_ms = world->now_ms + (int64_t)dice(world, 3) * TICK_MS;
}

/* It is repeated until it is answered, as core/checkpoints.h does. */
static void carry_memory(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    ten_op op = {
        .kind = TEN_OP_CHECKPOINT, .target = "j", .holder = host->id, .token = view->token, .checkpoint = view->text};
    ten_result result;
    if (!view->writing || world->now_ms < view->write_at_ms)
        return;
    view->write_at_ms = world->now_ms + TICK_MS;
    if (!arrives(world))
        return;
    bool good = apply(world, job, &op, &result);
    cron_note(world, host, job, good ? "writes for" : "may not write for", view->machine.instant_ms);
    if (good)
        cron_judge_wrote(world, host, job);
    if (!answers(world))
        return;
    bool claims = view->machine.state == TEN_CRON_CLAIMING;
    view->writing = false;
    view->withdrawn_ms = 0;
    if (claims && chance(world, world->calm_ms ? 0 : 100))
        crash(world, host); /* between the claim and the start */
    else
        ten_cron_job_written(&view->machine, good ? TENURE_OK : TENURE_E_LOST);
}

static void start(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    const struct job *about = &world->jobs[job];
    cron_note(world, host, job, "starts", view->machine.instant_ms);
    world->starts++;
    cron_judge_started(world, host, job);
    ten_cron_job_started(&view->machine, cron_wall(world, host));
    view->running = true;
    view->began_ms = world->now_ms;
    /* What comes each minute and is made up for must be able to catch up; now and then it overlaps all the same. */
    bool often = about->policy.missed == TEN_CRON_ALL && about->policy.overlap == TEN_CRON_OVERLAP_SKIP;
    view->ends_ms =
        world->now_ms + (int64_t)dice(world, often && !chance(world, 500) ? 10 : RUN_MAX_MS / TICK_MS) * TICK_MS;
}

static void look(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    if (view->running && world->now_ms >= view->ends_ms && !view->uncertain) {
        view->running = false;
        cron_note(world, host, job, "ended", view->machine.instant_ms);
        cron_judge_ended(world, host, job);
        ten_cron_job_ended(&view->machine, TEN_CRON_EXITED, 0, (uint64_t)(world->now_ms - view->began_ms),
                           cron_wall(world, host));
        if (view->machine.state == TEN_CRON_REPORTING)
            send_memory(world, view);
    }
    if (view->writing || view->running)
        return;
    bool confirmed = !view->uncertain && world->now_ms + TICK_MS < view->deadline_ms;
    if (view->closing && confirmed && ten_cron_job_withdraw(&view->machine)) {
        cron_note(world, host, job, "withdraws", view->machine.instant_ms);
        world->withdrawn++;
        view->withdrawn_ms = view->machine.instant_ms;
        send_memory(world, view);
        return;
    }
    bool able = confirmed && !view->closing && view->machine.state == TEN_CRON_IDLE;
    enum ten_cron_step step = ten_cron_job_look(&view->machine, cron_wall(world, host), confirmed && !view->closing);
    if (able)
        cron_judge_look(world, host, job, step);
    if (step == TEN_CRON_WRITE)
        send_memory(world, view);
    else if (step == TEN_CRON_START)
        start(world, host, job);
    else if (view->closing && view->machine.state <= TEN_CRON_IDLE)
        release(world, host, job);
}

static void turn(struct cron_world *world, struct host *host, unsigned number) {
    if (!host->alive || world->now_ms < host->paused_until_ms)
        return;
    for (unsigned i = 0; i < JOBS && host->alive && !world->failed; i++) {
        struct view *view = &host->views[i];
        if (view->held && world->now_ms >= view->deadline_ms)
            forget(world, host, i, false);
        bool wants = (i + number) % 2 == 0 ? chance(world, 3000) : chance(world, 200);
        if (!view->held && wants)
            take(world, host, i);
        else if (view->held && world->now_ms - view->renewed_ms >= (view->uncertain ? TICK_MS : RENEW_MS))
            renew(world, host, i);
        if (view->held)
            carry_memory(world, host, i);
        if (host->alive && view->held)
            look(world, host, i);
        if (world->calm_ms && view->held)
            cron_judge_calm(world, host, i);
        if (!world->calm_ms && view->held && chance(world, 8))
            view->closing = true; /* a rebalancing or a deployment: it stops, then releases */
    }
}

static void disturb(struct cron_world *world) {
    unsigned number = (unsigned)dice(world, HOSTS);
    struct host *host = &world->hosts[number];
    if (!host->alive && chance(world, 100))
        begin(world, host, number);
    else if (host->alive && chance(world, 12))
        crash(world, host);
    else if (host->alive && chance(world, 10))
        host->paused_until_ms = world->now_ms + (int64_t)dice(world, 90) * 1000;
    else if (host->alive && chance(world, 3)) {
        host->skew_ms = (int64_t)dice(world, 2 * SKEW_MS + 1) - SKEW_MS; /* its clock is set */
        world->clocks_set++;
    }
    if (chance(world, 20)) {
        unsigned job = (unsigned)dice(world, JOBS);
        ten_result result;
        ten_op op = {.kind = TEN_OP_RELEASE, .flags = TEN_OP_FORCE_NOW, .target = "j"};
        if (apply(world, job, &op, &result))
            world->jobs[job].forced_ms = world->now_ms;
    }
    if (chance(world, 4))
        world->down_until_ms = world->now_ms + (int64_t)dice(world, 600) * 1000;
}

/* ---- the jobs */

#define HOUR_MS       INT64_C(3600000)
#define CHANGE_MS     (START_MS / HOUR_MS * HOUR_MS + 2 * HOUR_MS) /* 16:00 UTC */
#define BEFORE(hours) (CHANGE_MS - (int64_t)((hours)*HOUR_MS))
#define AFTER(hours)  (CHANGE_MS + (int64_t)((hours)*HOUR_MS))

/* The clock is set back or forward by an hour, at the change. Local times from 17:00 to 18:00 come twice, or not at all; what
 * that means for a job at a fixed time and for one that follows the clock is written down here, for the judge. */
static void set_zone(struct cron_world *world) {
    static const int64_t back_fixed[] = {BEFORE(0.5), TEN_CRON_NEVER};
    static const int64_t back_follows[] = {BEFORE(1), BEFORE(0.5), AFTER(0), AFTER(0.5), TEN_CRON_NEVER};
    static const int64_t forward_fixed[] = {AFTER(0), TEN_CRON_NEVER};
    static const int64_t forward_follows[] = {TEN_CRON_NEVER};
    bool back = world->seed % 2 == 0;
    world->change = (ten_zone_transition){.at_s = CHANGE_MS / 1000, .offset_s = back ? 3600 : 7200};
    world->zone = (ten_zone){.first_offset_s = back ? 7200 : 3600, .transitions = &world->change, .count = 1};
    world->jobs[6].zone = world->jobs[7].zone = &world->zone;
    world->jobs[6].wanted = back ? back_fixed : forward_fixed;
    world->jobs[7].wanted = back ? back_follows : forward_follows;
}

static void set_up(struct cron_world *world) {
    static const struct {
        const char *text;
        ten_cron_policy policy;
    } jobs[JOBS] = {
        {"*/5 * * * *", {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = 24 * HOUR_MS}},
        {"@every 7m", {.missed = TEN_CRON_LATEST, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = 24 * HOUR_MS}},
        {"*/2 * * * *", {.missed = TEN_CRON_LATEST, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = HOUR_MS}},
        {"17 * * * *",
         {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = 24 * HOUR_MS, .jitter_ms = 60000}},
        {"*/3 * * * *", {.missed = TEN_CRON_SKIP, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = HOUR_MS}},
        {"* * * * *", {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = 24 * HOUR_MS}},
        {"30 17 * * *", {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = 24 * HOUR_MS}},
        {"*/30 17 * * *", {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = 24 * HOUR_MS}}};
    for (unsigned i = 0; i < JOBS; i++) {
        ten_cron_mistake mistake;
        size_t size;
        world->jobs[i].text = jobs[i].text;
        world->jobs[i].policy = jobs[i].policy;
        world->jobs[i].zone = &ten_zone_utc;
        if (!ten_cron_parse(jobs[i].text, &world->jobs[i].schedule, &size, &mistake))
            abort();
    }
    set_zone(world);
    for (unsigned i = 0; i < HOSTS; i++)
        begin(world, &world->hosts[i], i);
}

bool sim_cron_run(uint64_t seed, bool verbose, struct sim_cron_stats *stats) {
    struct cron_world *world = sim_allocate(1, sizeof *world);
    world->seed = seed;
    world->random = ten_hash_mix(seed);
    world->now_ms = START_MS;
    world->verbose = verbose;
    set_up(world);
    int64_t end_ms = START_MS + (int64_t)HOURS * 3600 * 1000;
    while (world->now_ms < end_ms && !world->failed) {
        world->now_ms += TICK_MS;
        if (!world->calm_ms && world->now_ms >= end_ms - CALM_MS) {
            world->calm_ms = world->now_ms;
            world->down_until_ms = 0;
            for (unsigned i = 0; i < HOSTS; i++)
                if (!world->hosts[i].alive)
                    begin(world, &world->hosts[i], i);
        }
        if (!world->calm_ms)
            disturb(world);
        for (unsigned i = 0; i < HOSTS && !world->failed; i++)
            turn(world, &world->hosts[(i + (unsigned)dice(world, HOSTS)) % HOSTS], (i + 1) % HOSTS);
    }
    /* What every clock has passed, and what is made up for has had its time. */
    for (unsigned i = 0; i < JOBS && !world->failed; i++)
        cron_judge_end(world, &world->jobs[i], end_ms - SKEW_MS - CALM_MS / 3);
    for (unsigned i = 0; i < JOBS && !world->failed; i++)
        cron_judge_log(world, &world->jobs[i]);
    bool good = !world->failed;
    if (!good)
        printf("# seed %" PRIu64 ": %s\n# again: sim --cron --seeds 1 --first %" PRIu64 " --verbose\n", seed,
               world->failure, seed);
    stats->starts += world->starts;
    stats->crashes += world->crashes;
    stats->takeovers += world->takeovers;
    stats->withdrawn += world->withdrawn;
    stats->lost += world->lost;
    stats->clocks_set += world->clocks_set;
    free(world);
    return good;
}
