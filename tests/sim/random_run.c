/*
 * One seed: a fleet of a random shape in random weather with random faults; then calm, in which it has to settle; then
 * deaths in calm weather, which have to be taken over in time.
 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

#define LIVE_MAX 8u

enum fault {
    FAULT_PAUSE,
    FAULT_CRASH,
    FAULT_HOST,
    FAULT_STOP,
    FAULT_JOIN,
    FAULT_CUT,
    FAULT_UNREACHABLE,
    FAULT_REFUSING,
    FAULT_SLOW,
    FAULT_TARGET,
    FAULT_WEIGHT,
    FAULT_FORCE,
    FAULT_LOSS,
    FAULT_ALL_DIE,
    FAULT_COUNT,
    /* the ends of some of them */
    END_CUT,
    END_WEATHER,
    START,
    NEXT_FAULT,
};

static uint64_t ttl_us(const struct sim_world *world) {
    return world->timing.ttl_ms * SIM_MS;
}

static void later(struct sim_world *world, uint64_t delay_us, enum fault what, uint32_t process) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_SCRIPT, .number = (uint64_t)process << 8 | what});
}

static struct sim_process *anybody(struct sim_world *world) {
    return world->live_count ? world->processes[world->live[sim_random(world, world->live_count)]] : NULL;
}

/* ---- faults */

static void set_weather(struct sim_world *world) {
    struct sim_weather *weather = &world->weather;
    uint64_t kind = sim_random(world, 4);
    *weather = (struct sim_weather){.delay_us = 500 + sim_random(world, 4 * SIM_MS),
                                    .spread_us = 1 + sim_random(world, 10 * SIM_MS),
                                    .late_us = ttl_us(world) * 3 / 2};
    if (kind == 0)
        return;
    weather->late = (double)sim_random(world, 40) / 1000;
    weather->lost = (double)sim_random(world, 30) / 1000;
    weather->twice = (double)sim_random(world, 30) / 1000;
    weather->error = (double)sim_random(world, 30) / 1000;
    weather->notice_lost = (double)sim_random(world, 300) / 1000;
}

static void set_calm(struct sim_world *world) {
    world->weather = (struct sim_weather){.delay_us = SIM_MS, .spread_us = 2 * SIM_MS};
    for (uint32_t i = 0; i < world->process_count; i++) {
        world->processes[i]->cut_requests = false;
        world->processes[i]->cut_replies = false;
    }
    world->long_work = false;
}

static void cut(struct sim_world *world, struct sim_process *process) {
    uint64_t way = sim_random(world, 3);
    process->cut_requests = way != 1;
    process->cut_replies = way != 0;
    sim_note(world, "is cut off (0 requests, 1 answers, 2 both):", process->number, SIM_NOBODY, way);
    later(world, sim_random(world, 3 * ttl_us(world)), END_CUT, process->number);
}

static void edit_target(struct sim_world *world) {
    uint32_t number = (uint32_t)sim_random(world, world->target_count);
    const struct sim_target *target = &world->targets[number];
    enum ten_target_action action = TEN_TARGET_PUT;
    if (target->registered)
        action = target->paused ? TEN_TARGET_RESUME : sim_random(world, 2) ? TEN_TARGET_PAUSE : TEN_TARGET_REMOVE;
    sim_edit_target(world, number, action);
}

static void die_and_return(struct sim_world *world, struct sim_process *process, bool with_host) {
    later(world, sim_random(world, 2 * ttl_us(world)), START, process->number);
    sim_crash(world, process, with_host);
}

static void all_die(struct sim_world *world) {
    bool with_host = sim_random(world, 2);
    while (world->live_count > 0)
        die_and_return(world, world->processes[world->live[0]], with_host);
}

static void break_weather(struct sim_world *world, enum fault kind) {
    struct sim_weather *weather = &world->weather;
    if (weather->unreachable || weather->refusing)
        return;
    sim_note(world,
             kind == FAULT_UNREACHABLE ? "the store cannot be reached"
             : kind == FAULT_REFUSING  ? "the store refuses everybody"
                                       : "the store is slow",
             SIM_NOBODY, SIM_NOBODY, 0);
    weather->unreachable = kind == FAULT_UNREACHABLE;
    weather->refusing = kind == FAULT_REFUSING;
    if (kind == FAULT_SLOW)
        weather->delay_us = sim_random(world, ttl_us(world) / 6);
    later(world, sim_random(world, 3 * ttl_us(world)), END_WEATHER, 0);
}

static void inject(struct sim_world *world, enum fault kind) {
    struct sim_process *process = anybody(world);
    world->stats.faults++;
    if (kind == FAULT_JOIN || !process) {
        if (world->live_count < LIVE_MAX)
            sim_start(world, 1, false);
        return;
    }
    if (sim_is_paused(world, process) && (kind == FAULT_STOP || kind == FAULT_WEIGHT))
        return;
    switch (kind) {
    case FAULT_PAUSE:
        sim_pause(world, process, sim_random(world, sim_random(world, 3) ? 2 * ttl_us(world) : ttl_us(world) / 4));
        break;
    case FAULT_CRASH:
    case FAULT_HOST:
        die_and_return(world, process, kind == FAULT_HOST);
        break;
    case FAULT_STOP:
        later(world, sim_random(world, ttl_us(world)), START, process->number);
        if (!process->stopping)
            sim_stop(world, process);
        break;
    case FAULT_CUT:
        cut(world, process);
        break;
    case FAULT_UNREACHABLE:
    case FAULT_REFUSING:
    case FAULT_SLOW:
        break_weather(world, kind);
        break;
    case FAULT_TARGET:
        edit_target(world);
        break;
    case FAULT_WEIGHT:
        if (!process->stopping)
            sim_set_weight(world, process, (uint32_t)sim_random(world, 3));
        break;
    case FAULT_FORCE:
        sim_force(world, (uint32_t)sim_random(world, world->target_count));
        break;
    case FAULT_LOSS:
        if (!sim_is_recovering(world) && sim_random(world, 3) == 0)
            sim_lose_data(world);
        break;
    case FAULT_ALL_DIE:
        if (sim_random(world, 4) == 0)
            all_die(world);
        break;
    default:
        break;
    }
}

static void script(struct sim_world *world, uint64_t number) {
    enum fault kind = (enum fault)(number & 0xff);
    uint32_t process = (uint32_t)(number >> 8);
    if (kind == END_CUT) {
        world->processes[process]->cut_requests = false;
        world->processes[process]->cut_replies = false;
    } else if (kind == END_WEATHER) {
        set_weather(world);
    } else if (kind == START) {
        const struct sim_process *former = world->processes[process];
        if (world->live_count < LIVE_MAX)
            sim_start(world, former->weight ? former->weight : 1, former->lame);
    } else {
        inject(world, (enum fault)sim_random(world, FAULT_COUNT));
        later(world, sim_random(world, 2 * ttl_us(world)), NEXT_FAULT, 0);
    }
}

static void ignore_faults(struct sim_world *world, uint64_t number) {
    if ((number & 0xff) == START)
        script(world, number);
}

static void run_for(struct sim_world *world, uint64_t for_us) {
    sim_run_until(world, world->now_us + for_us, ignore_faults);
}

/* ---- calm */

static bool anybody_is_lame(const struct sim_world *world) {
    for (uint32_t i = 0; i < world->live_count; i++)
        if (world->processes[world->live[i]]->lame)
            return true;
    return false;
}

/* Targets that somebody took in the planned one's place and keeps for a while: each will be handed over once. */
static uint64_t count_strayed(const struct sim_world *world) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *row = sim_held(world, i);
        const struct sim_process *holder = row ? sim_find_process(world, row->holder) : NULL;
        if (!holder || !holder->fleet || holder->pieces[i].number == SIM_NOBODY)
            continue;
        const ten_plan *plan = ten_fleet_plan(holder->fleet);
        uint32_t planned = ten_plan_owner(plan, holder->pieces[i].number);
        count += planned != TEN_PLAN_NOBODY && strcmp(ten_plan_instance_id(plan, planned), holder->id) != 0;
    }
    return count;
}

/* Nothing moves once the fleet has settled. A target that is planned for a lame instance may, ever more rarely. */
static void check_rest(struct sim_world *world) {
    uint64_t before = world->moves;
    uint64_t strayed = count_strayed(world);
    world->calm = true;
    run_for(world, 5 * ttl_us(world));
    uint64_t bound = anybody_is_lame(world) ? world->target_count * 3 : strayed;
    if (world->moves - before > bound)
        sim_fail(world, SIM_NOBODY,
                 "the fleet has settled, but %" PRIu64 " targets moved in 5 TTL, and %" PRIu64 " is the bound",
                 world->moves - before, bound);
}

static void settle(struct sim_world *world, uint64_t ttls) {
    world->calm = false;
    run_for(world, ttls * ttl_us(world));
    /* Who took a target back that its planned owner did not take, keeps it for up to 64 TTL: that is so after bad
     * weather, and seldom. */
    for (uint32_t i = 0; i < 16 && !world->failed && !sim_is_balanced(world) && !anybody_is_lame(world); i++)
        run_for(world, 4 * ttl_us(world));
    if (!world->failed)
        sim_check_settled(world, !anybody_is_lame(world));
    world->calm = true;
}

/* G4: all that it held is in other hands in time, and nobody stormed it. */
static void check_takeover(struct sim_world *world, struct sim_process *victim, uint64_t within_us, const char *how) {
    uint32_t held_count = 0;
    bool *held = sim_allocate(world->target_count, sizeof *held);
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *row = sim_held(world, i);
        held[i] = row && strcmp(row->holder, victim->id) == 0;
        held_count += held[i];
    }
    uint64_t refused = world->refused;
    bool lame = anybody_is_lame(world);
    uint64_t rank_us = (world->live_count + 1) * world->rank_delay_ms * SIM_MS;
    if (strcmp(how, "its graceful stop") == 0)
        sim_stop(world, victim);
    else
        sim_crash(world, victim, strcmp(how, "the death of its host") == 0);
    uint64_t at_us = world->now_us;
    run_for(world, within_us + rank_us + 100 * SIM_MS);
    for (uint32_t i = 0; i < world->target_count && !world->failed && sim_anybody_can(world); i++)
        if (held[i] && !sim_is_covered(world, i) && !sim_is_changing_hands(world, i))
            sim_fail(world, i, "%s was held by %s, and has no owner %.3f ms after %s", world->targets[i].id, victim->id,
                     (double)(world->now_us - at_us) / 1000, how);
    uint64_t bound = held_count * 3 + world->live_count + 4;
    if (world->refused - refused > bound && !lame)
        sim_fail(world, SIM_NOBODY,
                 "%s freed %u targets, but %" PRIu64 " acquires were refused, and %" PRIu64 " is the bound", how,
                 held_count, world->refused - refused, bound);
    free(held);
}

static void calm_deaths(struct sim_world *world) {
    static const char *const ways[] = {"the death of its host", "its graceful stop", "its death"};
    for (uint32_t i = 0; i < TEN_COUNT(ways) && !world->failed; i++) {
        bool joined = false;
        for (uint32_t n = world->live_count; n < 4; n++)
            joined = sim_start(world, 1, false) != NULL;
        if (joined)
            settle(world, 5);
        struct sim_process *victim = anybody(world);
        if (world->failed || victim->stopping)
            return;
        uint64_t within_us = i == 0 ? ttl_us(world) * 21 / 20 : i == 1 ? ttl_us(world) / 8 : 21 * SIM_MS;
        check_takeover(world, victim, within_us, ways[i]);
        settle(world, 5);
    }
}

/* ---- the run */

static struct sim_world *make_world(uint64_t seed) {
    uint64_t shape = seed * 7919;
    uint64_t ttl_ms = 1000 + shape % 5 * 500;
    struct sim_world *world = sim_world_new(seed, 1 + (uint32_t)(shape / 5 % 30), ttl_ms);
    if (sim_random(world, 4) == 0)
        world->granted_ms = ttl_ms * (70 + sim_random(world, 30)) / 100;
    world->long_work = true;
    for (uint32_t i = 0; i < world->target_count; i++)
        if (sim_random(world, 10))
            sim_edit_target(world, i, TEN_TARGET_PUT);
    set_weather(world);
    uint64_t count = 1 + sim_random(world, 6);
    bool lame = sim_random(world, 6) == 0;
    for (uint64_t i = 0; i < count; i++)
        sim_start(world, sim_random(world, 6) ? 1 : 2, lame && i == 1);
    return world;
}

static void add_stats(struct sim_stats *sum, const struct sim_stats *stats) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)stats;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

void sim_random_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant) {
    struct sim_world *world = make_world(seed);
    world->verbose = verbose;
    later(world, sim_random(world, 2 * ttl_us(world)), NEXT_FAULT, 0);
    sim_run_until(world, (15 + sim_random(world, 20)) * ttl_us(world), script);
    set_calm(world);
    sim_note(world, "all is calm", SIM_NOBODY, SIM_NOBODY, 0);
    run_for(world, 3 * ttl_us(world));
    bool any = false;
    for (uint32_t i = 0; i < world->live_count; i++)
        any |= !world->processes[world->live[i]]->lame && world->processes[world->live[i]]->weight > 0;
    if (!any && !world->failed)
        sim_start(world, 1, false);
    settle(world, 12);
    if (!world->failed)
        check_rest(world);
    if (!world->failed)
        calm_deaths(world);
    world->stats.seeds = 1;
    world->stats.moves = world->moves;
    world->stats.failures = world->failed;
    if (world->failed)
        sim_show_failure(world, mutant);
    add_stats(stats, &world->stats);
    sim_world_free(world);
}
