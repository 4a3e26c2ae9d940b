/*
 * What goes wrong in a random run: the weather, cut links, pauses, deaths, forced releases, loss of data; and the calm
 * after it. What only one kind of run has is in random_run.c and election_run.c, which call this.
 */
#include "sim.h"

uint64_t sim_ttl_us(const struct sim_world *world) {
    return world->timing.ttl_ms * SIM_MS;
}

void sim_later(struct sim_world *world, uint64_t delay_us, enum sim_fault what, uint32_t process) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_SCRIPT, .number = (uint64_t)process << 8 | what});
}

enum sim_fault sim_fault_of(uint64_t number, uint32_t *ret_process) {
    *ret_process = (uint32_t)(number >> 8);
    return (enum sim_fault)(number & 0xff);
}

struct sim_process *sim_anybody(struct sim_world *world) {
    return world->live_count ? world->processes[world->live[sim_random(world, world->live_count)]] : NULL;
}

/* ---- the weather */

void sim_set_weather(struct sim_world *world) {
    struct sim_weather *weather = &world->weather;
    uint64_t kind = sim_random(world, 4);
    *weather = (struct sim_weather){.delay_us = 500 + sim_random(world, 4 * SIM_MS),
                                    .spread_us = 1 + sim_random(world, 10 * SIM_MS),
                                    .late_us = sim_ttl_us(world) * 3 / 2};
    if (kind == 0)
        return;
    weather->late = (double)sim_random(world, 40) / 1000;
    weather->lost = (double)sim_random(world, 30) / 1000;
    weather->twice = (double)sim_random(world, 30) / 1000;
    weather->error = (double)sim_random(world, 30) / 1000;
    weather->notice_lost = (double)sim_random(world, 300) / 1000;
    weather->overrun = (double)sim_random(world, 100) / 1000;
}

void sim_set_calm(struct sim_world *world) {
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
    sim_later(world, sim_random(world, 3 * sim_ttl_us(world)), SIM_END_CUT, process->number);
}

static void break_weather(struct sim_world *world, enum sim_fault kind) {
    struct sim_weather *weather = &world->weather;
    if (weather->unreachable || weather->refusing)
        return;
    sim_note(world,
             kind == SIM_FAULT_UNREACHABLE ? "the store cannot be reached"
             : kind == SIM_FAULT_REFUSING  ? "the store refuses everybody"
                                           : "the store is slow",
             SIM_NOBODY, SIM_NOBODY, 0);
    weather->unreachable = kind == SIM_FAULT_UNREACHABLE;
    weather->refusing = kind == SIM_FAULT_REFUSING;
    if (kind == SIM_FAULT_SLOW)
        weather->delay_us = sim_random(world, sim_ttl_us(world) / 6);
    sim_later(world, sim_random(world, 3 * sim_ttl_us(world)), SIM_END_WEATHER, 0);
}

/* ---- deaths */

static void die_and_return(struct sim_world *world, struct sim_process *process, bool with_host) {
    sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_START, process->number);
    sim_crash(world, process, with_host);
}

static void all_die(struct sim_world *world) {
    bool with_host = sim_random(world, 2);
    while (world->live_count > 0)
        die_and_return(world, world->processes[world->live[0]], with_host);
}

/* ---- all of it */

void sim_inject(struct sim_world *world, struct sim_process *process, enum sim_fault kind) {
    if (sim_is_paused(world, process) && kind == SIM_FAULT_STOP)
        return;
    switch (kind) {
    case SIM_FAULT_PAUSE:
        sim_pause(world, process,
                  sim_random(world, sim_random(world, 3) ? 2 * sim_ttl_us(world) : sim_ttl_us(world) / 4));
        break;
    case SIM_FAULT_CRASH:
    case SIM_FAULT_HOST:
        die_and_return(world, process, kind == SIM_FAULT_HOST);
        break;
    case SIM_FAULT_STOP:
        sim_later(world, sim_random(world, sim_ttl_us(world)), SIM_START, process->number);
        if (!process->stopping)
            sim_stop(world, process);
        break;
    case SIM_FAULT_CUT:
        cut(world, process);
        break;
    case SIM_FAULT_UNREACHABLE:
    case SIM_FAULT_REFUSING:
    case SIM_FAULT_SLOW:
        break_weather(world, kind);
        break;
    case SIM_FAULT_FORCE:
        sim_force(world, (uint32_t)sim_random(world, world->target_count));
        break;
    case SIM_FAULT_LOSS:
        if (!sim_is_recovering(world) && sim_random(world, 3) == 0)
            sim_lose_data(world, sim_random(world, 2));
        break;
    case SIM_FAULT_ALL_DIE:
        if (sim_random(world, 4) == 0)
            all_die(world);
        break;
    default:
        break;
    }
}

void sim_end_fault(struct sim_world *world, uint32_t process, enum sim_fault kind) {
    if (kind == SIM_END_CUT) {
        world->processes[process]->cut_requests = false;
        world->processes[process]->cut_replies = false;
    } else if (kind == SIM_END_WEATHER) {
        sim_set_weather(world);
    }
}

/* ---- the end of a run */

static void add_stats(struct sim_stats *sum, const struct sim_stats *stats) {
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)stats;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

void sim_finish_run(struct sim_world *world, struct sim_stats *stats, const char *mutant) {
    world->stats.seeds = 1;
    world->stats.moves = world->moves;
    world->stats.failures = world->failed;
    sim_show_digest(world);
    if (world->failed)
        sim_show_failure(world, mutant);
    add_stats(stats, &world->stats);
    sim_world_free(world);
}
