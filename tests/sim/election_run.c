/*
 * One seed of elections: roles of random kinds with a few candidates each, in random weather with random faults, an
 * operator who asks and forces; then calm, in which every role has to have a leader, whoever dies or is asked to go.
 */
#include "candidate.h"

#define LIVE_MAX 14u

enum { /* script events beside those of enum sim_fault */
       LOOK = SIM_NEXT_FAULT + 1,
       REPLENISH,
       ASK,
};

struct sim_world *sim_election_world(uint64_t seed, uint32_t roles, uint64_t ttl_ms) {
    struct sim_world *world = sim_world_new(seed, roles, ttl_ms);
    world->roles = sim_allocate(roles, sizeof *world->roles);
    world->option = "--elections ";
    world->feed_gap_ms = 0;
    world->requests_max = 60;
    for (uint32_t i = 0; i < roles; i++)
        world->roles[i] = (struct sim_role){
            .restart = TEN_RESTART_ALWAYS, .announces = TEN_ELECTION_ALWAYS, .failback_ms = UINT64_MAX};
    return world;
}

static void later(struct sim_world *world, uint64_t delay_us, int what) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_SCRIPT, .number = (uint64_t)what});
}

static uint32_t any_role(struct sim_world *world) {
    return (uint32_t)sim_random(world, world->target_count);
}

static void start(struct sim_world *world, uint32_t role) {
    if (world->live_count < LIVE_MAX)
        sim_candidate_start_with(world, role, (int64_t)sim_random(world, 3));
}

static uint32_t count_candidates(const struct sim_world *world, uint32_t role) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->live_count; i++) {
        const struct sim_process *process = world->processes[world->live[i]];
        count += sim_is_candidate(world, process, role) && !process->stopping;
    }
    return count;
}

/* ---- faults */

static void inject(struct sim_world *world, enum sim_fault kind) {
    struct sim_process *process = sim_anybody(world);
    world->stats.faults++;
    if (kind == SIM_FAULT_JOIN || !process)
        start(world, any_role(world));
    else if (kind == SIM_FAULT_OPERATOR && sim_chance(world, 0.5))
        sim_ask_leader(world, any_role(world));
    else if (kind == SIM_FAULT_OPERATOR)
        (void)sim_ask_instance(world, process, sim_chance(world, 0.5) ? TEN_ASK_DRAIN : TEN_ASK_UNDO);
    else if (kind != SIM_FAULT_PROGRAM)
        sim_inject(world, process, kind);
    else if (!sim_is_paused(world, process) && !process->stopping) {
        sim_candidate_resign(world, process, TEN_REASON_RESIGNED, sim_ttl_us(world));
        sim_drive(world, process);
    }
}

/* Those who want one term only are followed by others of the same kind. */
static void replenish(struct sim_world *world) {
    for (uint32_t i = 0; i < world->target_count; i++)
        if (count_candidates(world, i) < (world->roles[i].style == SIM_ONCE ? 2 : 1))
            start(world, i);
    for (uint32_t i = 0; world->roles[0].slots && i < 2; i++) /* more than there are slots */
        if (count_candidates(world, 0) < world->roles[0].slots + 1)
            start(world, 0);
    later(world, sim_ttl_us(world) / 2 + sim_random(world, sim_ttl_us(world)), REPLENISH);
}

static void script(struct sim_world *world, uint64_t number) {
    uint32_t process;
    enum sim_fault kind = sim_fault_of(number, &process);
    if (kind == SIM_START) {
        start(world, world->processes[process]->candidate->role);
    } else if (kind == SIM_NEXT_FAULT) {
        inject(world, (enum sim_fault)sim_random(world, SIM_FAULT_COUNT));
        sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    } else if (number == REPLENISH) {
        replenish(world);
    } else {
        sim_end_fault(world, process, kind);
    }
}

/* ---- calm */

static void calm_script(struct sim_world *world, uint64_t number) {
    if (number == LOOK) {
        sim_check_roles(world);
        later(world, sim_ttl_us(world) / 20, LOOK);
    } else if (number == ASK) {
        sim_ask_leader(world, any_role(world));
        later(world, sim_ttl_us(world) / 2 + sim_random(world, sim_ttl_us(world)), ASK);
    } else if (number == REPLENISH) {
        replenish(world);
    }
}

static void run_for(struct sim_world *world, uint64_t for_us) {
    sim_run_until(world, world->now_us + for_us, calm_script);
}

static void calm_deaths(struct sim_world *world) {
    for (uint32_t way = 0; way < 3 && !world->failed; way++) {
        uint32_t role = any_role(world);
        start(world, role);
        run_for(world, sim_ttl_us(world) / 2);
        struct sim_process *leader = sim_leader_of(world, role);
        if (leader && !world->failed) {
            if (way == 2 && !leader->stopping)
                sim_stop(world, leader);
            else if (way < 2)
                sim_crash(world, leader, way == 0);
        }
        run_for(world, sim_ttl_us(world) * 2);
    }
}

static uint64_t longest_us(const struct sim_world *world) {
    uint64_t longest_ms = world->timing.ttl_ms;
    for (uint32_t i = 0; i < world->target_count; i++)
        longest_ms = ten_max_u64(longest_ms, world->roles[i].at_least_ms);
    return longest_ms * SIM_MS;
}

static void calm_down(struct sim_world *world) {
    sim_set_calm(world);
    sim_note(world, "all is calm", SIM_NOBODY, SIM_NOBODY, 0);
    for (uint32_t i = 0; i < world->live_count; i++)
        (void)sim_ask_instance(world, world->processes[world->live[i]], TEN_ASK_UNDO);
    run_for(world, 2 * sim_ttl_us(world) + longest_us(world) * 11 / 10);
    for (uint32_t i = 0; i < world->target_count && !world->failed; i++)
        if (count_candidates(world, i) == 0)
            sim_candidate_start(world, i);
    world->calm = true;
    sim_begin_role_checks(world);
    later(world, 0, LOOK);
    later(world, sim_ttl_us(world), ASK);
    run_for(world, 6 * sim_ttl_us(world));
    calm_deaths(world);
}

/* ---- the run */

/* slots: so many, from this one on, are one role with slots; 0: it has none. Functions and least times have none. */
static void shape_role(struct sim_world *world, uint32_t number, uint32_t slots) {
    struct sim_role *role = &world->roles[number];
    role->style = (enum sim_style)(slots ? 1 + sim_random(world, 2) : sim_random(world, 3));
    role->restart = sim_random(world, 4) ? TEN_RESTART_ALWAYS : (enum ten_restart)sim_random(world, 2);
    role->announces = (enum ten_election_announces)sim_random(world, 3);
    role->failback_ms = sim_random(world, 4) ? UINT64_MAX : sim_random(world, 3 * world->timing.ttl_ms);
    role->has_begin_hook = sim_random(world, 3) == 0;
    role->has_end_hook = sim_random(world, 3) == 0;
    if (slots)
        sim_make_slots(world, number, slots);
    else if (role->style == SIM_ONCE) /* a TTL unless told otherwise, as in `tenure once` */
        role->at_least_ms = world->timing.ttl_ms * (sim_random(world, 3) ? 12 + sim_random(world, 30) : 10) / 10;
    else if (sim_random(world, 5) == 0)
        role->at_least_ms = world->timing.ttl_ms * (5 + sim_random(world, 25)) / 10;
    uint64_t count = 1 + sim_random(world, 4) + 2 * slots;
    for (uint64_t i = 0; i < count; i++)
        start(world, number);
}

static struct sim_world *make_world(uint64_t seed) {
    uint64_t shape = seed * 7919;
    uint64_t ttl_ms = 1000 + shape % 5 * 500;
    struct sim_world *world = sim_election_world(seed, 1 + (uint32_t)(shape / 5 % 4), ttl_ms);
    if (sim_random(world, 4) == 0)
        world->granted_ms = ttl_ms * (70 + sim_random(world, 30)) / 100;
    world->long_work = true;
    world->work_rules.stop_when_uncertain = sim_random(world, 3) == 0;
    sim_set_weather(world);
    uint32_t slots = world->target_count > 1 && sim_random(world, 3) == 0 ? world->target_count : 0;
    for (uint32_t i = 0; i < (slots ? 1 : world->target_count); i++)
        shape_role(world, i, slots);
    return world;
}

void sim_election_run(uint64_t seed, struct sim_stats *stats, bool verbose, const char *mutant) {
    struct sim_world *world = make_world(seed);
    world->verbose = verbose;
    sim_later(world, sim_random(world, 2 * sim_ttl_us(world)), SIM_NEXT_FAULT, 0);
    later(world, sim_ttl_us(world), REPLENISH);
    sim_run_until(world, (20 + sim_random(world, 20)) * sim_ttl_us(world), script);
    if (!world->failed)
        calm_down(world);
    sim_finish_run(world, stats, mutant);
}
