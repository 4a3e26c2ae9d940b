/*
 * One seed: a fleet of a random shape in random weather with random faults; then calm, in which it has to settle; then
 * deaths in calm weather, which have to be taken over in time.
 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

#define LIVE_MAX 8u
#define PIN_US   (UINT64_C(100000) * SIM_SECOND) /* longer than a run */

/* ---- faults */

/* What is forgotten comes back at once, or when it is added again. */
static void forget_targets(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count; i++)
        if (sim_forget(world, i) && sim_random(world, 2))
            sim_edit_target(world, i, TEN_TARGET_PUT);
}

/* What people do to leases and instances of a fleet, and what it must survive. */
static void meddle(struct sim_world *world, const struct sim_process *process) {
    uint32_t target = (uint32_t)sim_random(world, world->target_count);
    if (sim_random(world, 3) == 0)
        sim_make_leave(world, process);
    else
        sim_renew_by_token(world, target, world->timing.ttl_ms * (1 + sim_random(world, 3)));
}

/* `tenure move`, or its undoing. */
static void pin_target(struct sim_world *world, uint32_t target, uint64_t for_us) {
    struct sim_process *process = sim_random(world, 5) ? sim_anybody(world) : NULL;
    sim_pin(world, target, process, sim_random(world, 3) == 0, for_us + SIM_MS);
}

static void edit_target(struct sim_world *world) {
    forget_targets(world);
    uint32_t number = (uint32_t)sim_random(world, world->target_count);
    const struct sim_target *target = &world->targets[number];
    enum ten_target_action action = TEN_TARGET_PUT;
    if (target->registered && sim_random(world, 2)) {
        pin_target(world, number, sim_random(world, 8 * sim_ttl_us(world)));
        return;
    }
    if (target->registered)
        action = target->paused ? TEN_TARGET_RESUME : sim_random(world, 2) ? TEN_TARGET_PAUSE : TEN_TARGET_REMOVE;
    sim_edit_target(world, number, action);
}

/* Its program wants something. */
static void decide(struct sim_world *world, struct sim_process *process) {
    if (sim_random(world, 2))
        sim_set_weight(world, process, (uint32_t)sim_random(world, 3));
    for (uint64_t i = sim_random(world, 4); i > 0; i--)
        sim_claim(world, process, (uint32_t)sim_random(world, world->target_count));
}

static void inject(struct sim_world *world, enum sim_fault kind) {
    struct sim_process *process = sim_anybody(world);
    world->stats.faults++;
    if (kind == SIM_FAULT_JOIN || !process) {
        if (world->live_count < LIVE_MAX)
            sim_start(world, 1, false);
    } else if (kind == SIM_FAULT_OPERATOR && sim_random(world, 3) == 0) {
        meddle(world, process);
    } else if (kind == SIM_FAULT_OPERATOR) {
        edit_target(world);
    } else if (kind == SIM_FAULT_PROGRAM) {
        if (!process->stopping && !sim_is_paused(world, process))
            decide(world, process);
    } else {
        sim_inject(world, process, kind);
    }
}

static void script(struct sim_world *world, uint64_t number) {
    uint32_t process;
    enum sim_fault kind = sim_fault_of(number, &process);
    if (kind == SIM_START) {
        const struct sim_process *former = world->processes[process];
        if (world->live_count < LIVE_MAX)
            sim_start(world, former->weight ? former->weight : 1, former->lame);
    } else if (kind == SIM_NEXT_FAULT) {
        inject(world, (enum sim_fault)sim_random(world, SIM_FAULT_COUNT));
        sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    } else {
        sim_end_fault(world, process, kind);
    }
}

static void ignore_faults(struct sim_world *world, uint64_t number) {
    if (sim_fault_of(number, &(uint32_t){0}) == SIM_START)
        script(world, number);
}

static void run_for(struct sim_world *world, uint64_t for_us) {
    sim_run_until(world, world->now_us + for_us, ignore_faults);
}

/* ---- calm */

/* Targets that somebody took in the planned one's place and keeps for a while: each will be handed over once. */
static uint64_t count_strayed(const struct sim_world *world) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_lease_row *row = sim_held(world, i);
        const struct sim_process *holder = row ? sim_find_process(world, row->holder) : NULL;
        if (!holder || !holder->fleet || holder->pieces[i].number == SIM_NOBODY)
            continue;
        const ten_plan *plan = ten_fleet_plan(holder->fleet);
        uint32_t planned = ten_plan_holder(plan, holder->pieces[i].number);
        count += planned != TEN_PLAN_NONE && strcmp(ten_plan_instance_id(plan, planned), holder->id) != 0;
    }
    return count;
}

/* Nothing moves once the fleet has settled. A target that is planned for a lame instance may, ever more rarely. */
static void check_rest(struct sim_world *world) {
    uint64_t before = world->moves;
    uint64_t strayed = count_strayed(world);
    world->calm = true;
    run_for(world, 5 * sim_ttl_us(world));
    uint64_t bound = sim_anybody_is_lame(world) ? world->target_count * 3 : strayed;
    if (world->moves - before > bound)
        sim_fail(world, SIM_NOBODY,
                 "the fleet has settled, but %" PRIu64 " targets moved in 5 TTL, and %" PRIu64 " is the bound",
                 world->moves - before, bound);
}

static void settle(struct sim_world *world, uint64_t ttls) {
    world->calm = false;
    run_for(world, ttls * sim_ttl_us(world));
    /* Who took a target back that its planned owner did not take, keeps it for up to 64 TTL: that is so after bad
     * weather, and seldom. */
    for (uint32_t i = 0; i < 16 && !world->failed && !sim_is_balanced(world) && !sim_anybody_is_lame(world); i++)
        run_for(world, 4 * sim_ttl_us(world));
    if (!world->failed)
        sim_check_settled(world, !sim_anybody_is_lame(world));
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
    bool lame = sim_anybody_is_lame(world);
    uint64_t turns_us = sim_turns_us(world);
    if (strcmp(how, "its graceful stop") == 0)
        sim_stop(world, victim);
    else
        sim_crash(world, victim, strcmp(how, "the death of its host") == 0);
    uint64_t at_us = world->now_us;
    run_for(world, within_us + turns_us + 100 * SIM_MS);
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
        struct sim_process *victim = sim_anybody(world);
        if (world->failed || victim->stopping)
            return;
        uint64_t within_us = i == 0 ? sim_ttl_us(world) * 21 / 20 : i == 1 ? sim_ttl_us(world) / 8 : 21 * SIM_MS;
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
    world->plain = sim_random(world, 3) ? 0 : sim_random(world, 2) ? 1 : 0.3;
    world->long_work = true;
    world->work_rules.stop_when_uncertain = sim_random(world, 3) == 0;
    for (uint32_t i = 0; i < world->target_count; i++)
        if (sim_random(world, 10))
            sim_edit_target(world, i, TEN_TARGET_PUT);
    sim_set_weather(world);
    uint64_t count = 1 + sim_random(world, 6);
    bool lame = sim_random(world, 6) == 0;
    for (uint64_t i = 0; i < count; i++)
        sim_start(world, sim_random(world, 6) ? 1 : 2, lame && i == 1);
    return world;
}

void sim_random_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant) {
    struct sim_world *world = make_world(seed);
    world->verbose = verbose;
    sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    sim_run_until(world, (15 + sim_random(world, 20)) * sim_ttl_us(world), script);
    sim_set_calm(world);
    sim_note(world, "all is calm", SIM_NOBODY, SIM_NOBODY, 0);
    run_for(world, 3 * sim_ttl_us(world));
    bool any = false;
    for (uint32_t i = 0; i < world->live_count; i++)
        any |= !world->processes[world->live[i]]->lame && world->processes[world->live[i]]->weight > 0;
    if (!any && !world->failed)
        sim_start(world, 1, false);
    for (uint64_t i = sim_random(world, 6); i > 0 && !world->failed; i--)
        pin_target(world, (uint32_t)sim_random(world, world->target_count), PIN_US);
    settle(world, 12);
    if (!world->failed)
        check_rest(world);
    if (!world->failed)
        calm_deaths(world);
    sim_finish_run(world, stats, mutant);
}
