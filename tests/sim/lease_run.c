/*
 * One seed of leases: a few programs that want the same targets, in random weather with random faults, and an operator
 * who forces; then calm, in which whoever waits gets what is free, whoever dies.
 */
#include "lessee.h"

#define LIVE_MAX 7u

enum { /* script events beside those of enum sim_fault */
       LOOK = SIM_NEXT_FAULT + 1,
       FORCE,
};

static void later(struct sim_world *world, uint64_t delay_us, int what) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_SCRIPT, .number = (uint64_t)what});
}

static void start(struct sim_world *world) {
    if (world->live_count < LIVE_MAX)
        sim_lessee_start(world);
}

/* ---- faults */

/* Whatever can be forgotten is; else something is forced. */
static void operate(struct sim_world *world) {
    bool forgotten = false;
    for (uint32_t i = 0; i < world->target_count; i++)
        forgotten |= sim_forget(world, i);
    if (!forgotten)
        sim_force_lease(world, (uint32_t)sim_random(world, world->target_count));
}

static void inject(struct sim_world *world, enum sim_fault kind) {
    struct sim_process *process = sim_anybody(world);
    world->stats.faults++;
    if (kind == SIM_FAULT_JOIN || !process)
        start(world);
    else if (kind == SIM_FAULT_FORCE)
        sim_force_lease(world, (uint32_t)sim_random(world, world->target_count));
    else if (kind == SIM_FAULT_OPERATOR)
        operate(world);
    else
        sim_inject(world, process, kind);
}

static void script(struct sim_world *world, uint64_t number) {
    uint32_t process;
    enum sim_fault kind = sim_fault_of(number, &process);
    if (kind == SIM_START) {
        start(world);
    } else if (kind == SIM_NEXT_FAULT) {
        inject(world, (enum sim_fault)sim_random(world, SIM_FAULT_COUNT));
        sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    } else {
        sim_end_fault(world, process, kind);
    }
}

/* ---- calm */

static void calm_script(struct sim_world *world, uint64_t number) {
    if (number == LOOK) {
        sim_check_leases(world);
        later(world, sim_ttl_us(world) / 20, LOOK);
    } else if (number == FORCE) {
        sim_force_lease(world, (uint32_t)sim_random(world, world->target_count));
        later(world, sim_ttl_us(world) + sim_random(world, 2 * sim_ttl_us(world)), FORCE);
    }
}

static void run_for(struct sim_world *world, uint64_t for_us) {
    sim_run_until(world, world->now_us + for_us, calm_script);
}

static void calm_down(struct sim_world *world) {
    sim_set_calm(world);
    sim_note(world, "all is calm", SIM_NOBODY, SIM_NOBODY, 0);
    run_for(world, 3 * sim_ttl_us(world));
    while (world->live_count < 3 && !world->failed)
        sim_lessee_start(world);
    world->calm = true;
    sim_begin_lease_checks(world);
    later(world, 0, LOOK);
    later(world, sim_ttl_us(world), FORCE);
    for (uint32_t way = 0; way < 3 && !world->failed; way++) {
        run_for(world, 5 * sim_ttl_us(world));
        struct sim_process *process = world->failed ? NULL : sim_anybody(world);
        if (process && way == 2 && !process->stopping)
            sim_stop(world, process);
        else if (process && way < 2)
            sim_crash(world, process, way == 0);
        start(world);
    }
    run_for(world, 3 * sim_ttl_us(world));
}

/* ---- the run */

static struct sim_world *make_world(uint64_t seed) {
    uint64_t shape = seed * 7919;
    uint64_t ttl_ms = 1000 + shape % 5 * 500;
    struct sim_world *world = sim_world_new(seed, 1 + (uint32_t)(shape / 5 % 5), ttl_ms);
    world->option = "--leases ";
    world->work_us = ttl_ms * SIM_MS / 12;
    world->feed_gap_ms = 0;
    if (sim_random(world, 4) == 0)
        world->granted_ms = ttl_ms * (70 + sim_random(world, 30)) / 100;
    world->long_work = true;
    sim_set_weather(world);
    uint64_t count = 1 + sim_random(world, 5);
    for (uint64_t i = 0; i < count; i++)
        start(world);
    return world;
}

void sim_lease_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant) {
    struct sim_world *world = make_world(seed);
    world->verbose = verbose;
    sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    sim_run_until(world, (20 + sim_random(world, 20)) * sim_ttl_us(world), script);
    if (!world->failed)
        calm_down(world);
    sim_finish_run(world, stats, mutant);
}
