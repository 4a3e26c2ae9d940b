/*
 * Crontabs in the simulator: hosts with clocks that are off by up to ten minutes run the jobs of core/cron_job.h under
 * leases of the rules of core/lease_row.h. Hosts crash at every step, pause, are replaced and cut off from the store;
 * answers get lost. The judge knows what every instant came to: none may run twice, and none may be missing that its policy
 * wants. Called by main.c with --cron.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/cron_job.h"
#include "core/lease_row.h"
#include "sim.h"

#define HOSTS     4u
#define JOBS      6u
#define TICK_MS   1000
#define TTL_MS    30000
#define BELIEF_MS 26000 /* from the sending of the last renewal */
#define RENEW_MS  10000
#define START_MS  INT64_C(1790000000000)
#define HOURS     5
#define CALM_MS   (INT64_C(25) * 60 * 1000) /* at the end nothing fails: everything that is wanted runs */
#define SKEW_MS   600000
#define RUNS_MAX  8192u

/* What has become of an instant. */
struct instant {
    int64_t at_ms;
    unsigned starts;
    bool claimed;    /* the store has it */
    bool overlapped; /* it came while another one ran */
    bool lost;       /* its host had it claimed, and could not start it */
};

struct job {
    const char *text;
    ten_cron_schedule schedule;
    ten_cron_policy policy;
    ten_lease_row row;
    char checkpoint[TEN_CRON_MEMORY_SIZE];
    struct instant instants[RUNS_MAX];
    size_t count;
    int64_t forced_ms; /* when an operator last took its lease away: its holder may not know that yet */
    int64_t first_ms;  /* instants after this are the job's */
};

/* A job as a host sees it. */
struct view {
    ten_cron_job machine;
    bool held;
    uint64_t token;
    int64_t deadline_ms;
    int64_t renewed_ms;
    bool uncertain;
    bool closing;
    bool writing;
    int64_t write_at_ms; /* when it reaches the store, or is sent again */
    char text[TEN_CRON_MEMORY_SIZE];
    int64_t withdrawn_ms; /* an instant whose claim is being taken back; 0: none */
    bool running;
    int64_t ends_ms;
    int64_t began_ms;
};

struct host {
    bool alive;
    unsigned life; /* a new instance with each */
    char id[32];
    int64_t skew_ms;
    int64_t paused_until_ms;
    struct view views[JOBS];
};

struct cron_world {
    uint64_t seed;
    uint64_t random;
    int64_t now_ms;
    int64_t down_until_ms;
    bool calm;
    bool verbose;
    bool failed;
    char failure[300];
    struct host hosts[HOSTS];
    struct job jobs[JOBS];
    uint64_t starts, crashes, takeovers, withdrawn, lost;
};

static uint64_t dice(struct cron_world *world, uint64_t below) {
    world->random = ten_hash_mix(world->random + UINT64_C(0x9e3779b97f4a7c15));
    return below ? world->random % below : 0;
}

static bool chance(struct cron_world *world, unsigned of_ten_thousand) {
    return dice(world, 10000) < of_ten_thousand;
}

static void fail(struct cron_world *world, const struct job *job, const char *what, int64_t instant_ms) {
    if (world->failed)
        return;
    world->failed = true;
    snprintf(world->failure, sizeof world->failure, "%s: %s: instant %+" PRId64 " s at %+" PRId64 " s", job->text, what,
             (instant_ms - START_MS) / 1000, (world->now_ms - START_MS) / 1000);
}

static void note(const struct cron_world *world, const struct host *host, unsigned job, const char *what,
                 int64_t instant_ms) {
    if (world->verbose)
        printf("# %8" PRId64 " s %-8s job %u %s %+" PRId64 "\n", (world->now_ms - START_MS) / 1000, host->id, job, what,
               (instant_ms - START_MS) / 1000);
}

static int64_t wall(const struct cron_world *world, const struct host *host) {
    return world->now_ms + host->skew_ms;
}

static struct instant *instant_of(struct cron_world *world, struct job *job, int64_t at_ms) {
    for (size_t i = job->count; i-- > 0;)
        if (job->instants[i].at_ms == at_ms)
            return &job->instants[i];
    if (job->count == RUNS_MAX) {
        fail(world, job, "more instants than there can be", at_ms);
        return &job->instants[0];
    }
    job->instants[job->count] = (struct instant){.at_ms = at_ms};
    return &job->instants[job->count++];
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
    return world->now_ms >= world->down_until_ms && (world->calm || !chance(world, 300));
}

static bool answers(struct cron_world *world) {
    return world->calm || !chance(world, 500);
}

/* ---- a host and its leases */

static void forget(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    bool claims = view->machine.state == TEN_CRON_READY || view->machine.state == TEN_CRON_CLAIMING;
    int64_t at_ms = view->withdrawn_ms ? view->withdrawn_ms : claims ? view->machine.instant_ms : TEN_CRON_NEVER;
    if (at_ms != TEN_CRON_NEVER && instant_of(world, &world->jobs[job], at_ms)->claimed) {
        instant_of(world, &world->jobs[job], at_ms)->lost = true; /* it will not start */
        world->lost++;
    }
    ten_cron_job_lost(&view->machine);
    view->withdrawn_ms = 0;
    view->held = view->writing = view->running = view->closing = false;
}

static void crash(struct cron_world *world, struct host *host) {
    if (!host->alive)
        return;
    world->crashes++;
    for (unsigned i = 0; i < JOBS; i++)
        forget(world, host, i);
    host->alive = false;
}

static void begin(struct cron_world *world, struct host *host, unsigned number) {
    *host = (struct host){.alive = true, .life = host->life + 1};
    snprintf(host->id, sizeof host->id, "h%u-%u", number, host->life);
    host->skew_ms = (int64_t)dice(world, 2 * SKEW_MS + 1) - SKEW_MS;
    for (unsigned i = 0; i < JOBS; i++)
        host->views[i].machine = (ten_cron_job){.name = world->jobs[i].text,
                                                .schedule = &world->jobs[i].schedule,
                                                .zone = &ten_zone_utc,
                                                .policy = world->jobs[i].policy};
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
    const char *kept = world->jobs[job].checkpoint;
    ten_cron_job_granted(&view->machine, view->token, kept[0] ? kept : NULL, host->id, wall(world, host));
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
        forget(world, host, job);
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
    forget(world, host, job);
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
    struct job *about = &world->jobs[job];
    ten_op op = {
        .kind = TEN_OP_CHECKPOINT, .target = "j", .holder = host->id, .token = view->token, .checkpoint = view->text};
    ten_result result;
    if (!view->writing || world->now_ms < view->write_at_ms)
        return;
    view->write_at_ms = world->now_ms + TICK_MS;
    if (!arrives(world))
        return;
    bool good = apply(world, job, &op, &result);
    bool claims = view->machine.state == TEN_CRON_CLAIMING;
    if (good && claims && view->machine.instant_ms != TEN_CRON_NEVER)
        instant_of(world, about, view->machine.instant_ms)->claimed = true;
    if (good && claims && view->machine.instant_ms == TEN_CRON_NEVER && about->first_ms == 0)
        about->first_ms = view->machine.memory.instant_ms;
    if (good && view->withdrawn_ms)
        instant_of(world, about, view->withdrawn_ms)->claimed = false;
    if (!answers(world))
        return;
    int64_t at_ms = view->withdrawn_ms ? view->withdrawn_ms : claims ? view->machine.instant_ms : TEN_CRON_NEVER;
    view->writing = false;
    view->withdrawn_ms = 0;
    if (claims && chance(world, world->calm ? 0 : 100)) {
        crash(world, host); /* between the claim and the start */
        return;
    }
    /* Refused, after the answer to an earlier try got lost or while the claim is taken back: it stands, and its command
     * will not start. */
    if (!good && at_ms != TEN_CRON_NEVER && instant_of(world, about, at_ms)->claimed) {
        instant_of(world, about, at_ms)->lost = true;
        world->lost++;
    }
    ten_cron_job_written(&view->machine, good ? TENURE_OK : TENURE_E_LOST);
}

static void start(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    struct job *about = &world->jobs[job];
    int64_t now_ms = wall(world, host);
    struct instant *instant = instant_of(world, about, view->machine.instant_ms);
    note(world, host, job, "starts", instant->at_ms);
    world->starts++;
    if (++instant->starts > 1)
        fail(world, about, "an instant runs twice", instant->at_ms);
    if (instant->at_ms > now_ms)
        fail(world, about, "an instant runs before its time", instant->at_ms);
    if (about->first_ms && instant->at_ms <= about->first_ms)
        fail(world, about, "an instant from before the job runs", instant->at_ms);
    bool forced = about->forced_ms && world->now_ms < about->forced_ms + TTL_MS;
    if (!forced && (world->now_ms >= (int64_t)about->row.ends_ms || strcmp(about->row.holder, host->id) != 0))
        fail(world, about, "an instant runs without the lease", instant->at_ms);
    uint64_t most_ms = about->policy.max_late_ms + about->policy.jitter_ms + 2 * TTL_MS;
    if ((uint64_t)(now_ms - instant->at_ms) > most_ms)
        fail(world, about, "an instant runs although it is too late", instant->at_ms);
    ten_cron_job_started(&view->machine, now_ms);
    view->running = true;
    view->began_ms = world->now_ms;
    /* What comes each minute and is made up for must be able to catch up; now and then it overlaps all the same. */
    bool often = about->policy.missed == TEN_CRON_ALL && about->policy.overlap == TEN_CRON_OVERLAP_SKIP;
    view->ends_ms = world->now_ms + (int64_t)dice(world, often && !chance(world, 500) ? 10 : 90) * TICK_MS;
}

static void look(struct cron_world *world, struct host *host, unsigned job) {
    struct view *view = &host->views[job];
    if (view->running && world->now_ms >= view->ends_ms && !view->uncertain) {
        view->running = false;
        for (int64_t at_ms = view->machine.memory.started_ms;
             (at_ms = ten_cron_next(&world->jobs[job].schedule, &ten_zone_utc, at_ms)) <= wall(world, host);)
            instant_of(world, &world->jobs[job], at_ms)->overlapped = true;
        ten_cron_job_ended(&view->machine, 0, (uint64_t)(world->now_ms - view->began_ms), wall(world, host));
        if (view->machine.state == TEN_CRON_REPORTING)
            send_memory(world, view);
    }
    if (view->writing || view->running)
        return;
    bool confirmed = !view->uncertain && world->now_ms + TICK_MS < view->deadline_ms;
    if (view->closing && confirmed && ten_cron_job_withdraw(&view->machine)) {
        note(world, host, job, "withdraws", view->machine.instant_ms);
        world->withdrawn++;
        view->withdrawn_ms = view->machine.instant_ms;
        send_memory(world, view);
        return;
    }
    enum ten_cron_step step = ten_cron_job_look(&view->machine, wall(world, host), confirmed && !view->closing);
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
            forget(world, host, i);
        bool wants = (i + number) % 2 == 0 ? chance(world, 3000) : chance(world, 200);
        if (!view->held && wants)
            take(world, host, i);
        else if (view->held && world->now_ms - view->renewed_ms >= (view->uncertain ? TICK_MS : RENEW_MS))
            renew(world, host, i);
        if (view->held)
            carry_memory(world, host, i);
        if (host->alive && view->held)
            look(world, host, i);
        if (!world->calm && view->held && chance(world, 8))
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

/* ---- the judge */

static void judge_job(struct cron_world *world, struct job *job, int64_t until_ms) {
    int64_t newest_ms = INT64_MIN;
    for (size_t i = 0; i < job->count; i++)
        if (job->instants[i].starts || job->instants[i].claimed || job->instants[i].lost)
            newest_ms = job->instants[i].at_ms > newest_ms ? job->instants[i].at_ms : newest_ms;
    if (job->first_ms == 0)
        return fail(world, job, "nobody has ever had it", 0);
    int64_t last_ms = TEN_CRON_NEVER;
    for (int64_t at_ms = job->first_ms; (at_ms = ten_cron_next(&job->schedule, &ten_zone_utc, at_ms)) <= until_ms;) {
        const struct instant *instant = instant_of(world, job, at_ms);
        last_ms = at_ms;
        bool skipped = instant->overlapped && job->policy.overlap == TEN_CRON_OVERLAP_SKIP;
        bool settled = instant->starts || instant->lost || skipped;
        if (!settled && job->policy.missed == TEN_CRON_ALL)
            fail(world, job, "an instant is missing", at_ms);
        if (!settled && job->policy.missed == TEN_CRON_LATEST && newest_ms < at_ms)
            fail(world, job, "an instant is missing, and no later one has run", at_ms);
    }
    if (last_ms != TEN_CRON_NEVER && job->policy.missed == TEN_CRON_LATEST && newest_ms < last_ms &&
        !instant_of(world, job, last_ms)->overlapped)
        fail(world, job, "the last instant is missing", last_ms);
}

static void set_up(struct cron_world *world) {
    static const char *const texts[JOBS] = {"*/5 * * * *", "@every 7m",   "*/2 * * * *",
                                            "17 * * * *",  "*/3 * * * *", "* * * * *"};
    static const ten_cron_policy policies[JOBS] = {
        {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = UINT64_C(86400000)},
        {.missed = TEN_CRON_LATEST, .overlap = TEN_CRON_OVERLAP_WAIT, .max_late_ms = UINT64_C(86400000)},
        {.missed = TEN_CRON_LATEST, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = 3600000},
        {.missed = TEN_CRON_ALL,
         .overlap = TEN_CRON_OVERLAP_WAIT,
         .max_late_ms = UINT64_C(86400000),
         .jitter_ms = 60000},
        {.missed = TEN_CRON_SKIP, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = 3600000},
        {.missed = TEN_CRON_ALL, .overlap = TEN_CRON_OVERLAP_SKIP, .max_late_ms = UINT64_C(86400000)}};
    for (unsigned i = 0; i < JOBS; i++) {
        ten_cron_mistake mistake;
        size_t size;
        world->jobs[i].text = texts[i];
        world->jobs[i].policy = policies[i];
        if (!ten_cron_parse(texts[i], &world->jobs[i].schedule, &size, &mistake))
            abort();
    }
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
        if (!world->calm && world->now_ms >= end_ms - CALM_MS) {
            world->calm = true;
            world->down_until_ms = 0;
            for (unsigned i = 0; i < HOSTS; i++)
                if (!world->hosts[i].alive)
                    begin(world, &world->hosts[i], i);
        }
        if (!world->calm)
            disturb(world);
        for (unsigned i = 0; i < HOSTS && !world->failed; i++)
            turn(world, &world->hosts[(i + (unsigned)dice(world, HOSTS)) % HOSTS], (i + 1) % HOSTS);
    }
    /* What every clock has passed, and what was claimed for it has had its time. */
    for (unsigned i = 0; i < JOBS && !world->failed; i++)
        judge_job(world, &world->jobs[i], end_ms - SKEW_MS - CALM_MS / 2);
    bool good = !world->failed;
    if (!good)
        printf("# seed %" PRIu64 ": %s\n# again: sim --cron --seeds 1 --first %" PRIu64 " --verbose\n", seed,
               world->failure, seed);
    stats->starts += world->starts;
    stats->crashes += world->crashes;
    stats->takeovers += world->takeovers;
    stats->withdrawn += world->withdrawn;
    stats->lost += world->lost;
    free(world);
    return good;
}
