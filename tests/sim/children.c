/*
 * The processes of a piece of work as the kernel has them, and the warden, which looks at deadlines whether or not the
 * process itself runs. When what has to end is core/work.h's to say; here is how long it takes, and what it leaves.
 */
#include "sim.h"

#define KILLED_WITHIN_US (10 * SIM_MS)
#define ASKED_WITHIN_US  (30 * SIM_MS)

enum { EXITS, ALL_END, ALL_ASKED, WAYS };

static void push(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t delay_us,
                 enum sim_event_kind kind, uint64_t number) {
    sim_push(world, delay_us,
             (struct sim_event){.kind = kind, .process = process->number, .target = target, .number = number});
}

static void push_end(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t delay_us,
                     uint64_t how) {
    push(world, process, target, delay_us, SIM_CHILD, process->pieces[target].work * WAYS + how);
}

void sim_look_later(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t next_ms) {
    struct sim_piece *piece = &process->pieces[target];
    if (next_ms == UINT64_MAX)
        return;
    uint64_t at_us = ten_max_u64(sim_true_us(process, next_ms), world->now_us);
    if (piece->look_us > world->now_us && piece->look_us <= at_us)
        return; /* that one comes first */
    piece->look_us = at_us;
    push(world, process, target, at_us - world->now_us, SIM_WORK_LOOK, piece->work);
}

/* ---- the warden */

static uint64_t deadline_ms(const struct sim_process *process, uint32_t target) {
    const ten_holding *lease = process->kind->lease_of(process, target);
    return lease ? lease->deadline_ms : 0;
}

static void set_warden(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t at_ms) {
    uint64_t at_us = ten_max_u64(sim_true_us(process, at_ms), world->now_us);
    push(world, process, target, at_us - world->now_us, SIM_WARDEN, process->pieces[target].work);
}

void sim_warden_looks(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work) {
    const struct sim_piece *piece = &process->pieces[target];
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    uint64_t grace_ms = world->work_rules.grace_ms;
    if (!piece->working || piece->work != work)
        return;
    if (!process->guarded)
        grace_ms = 0;
    enum ten_work_step step = ten_work_pressure(deadline_ms(process, target), grace_ms, now_ms);
    if (step == TEN_WORK_NOTHING) {
        set_warden(world, process, target, ten_work_ask_ms(deadline_ms(process, target), grace_ms));
        return;
    }
    if (!process->guarded) {
        sim_child_overruns(world, process, target);
        return;
    }
    process->pieces[target].warned |= piece->child == SIM_CHILD_RUNS;
    sim_child_signal(world, process, target, step == TEN_WORK_KILL);
    set_warden(world, process, target, now_ms + TEN_WORK_LOOK_MS);
}

void sim_child_overruns(struct sim_world *world, struct sim_process *process, uint32_t target) {
    world->stats.overtimes += process->pieces[target].working;
    process->pieces[target].working = false;
}

/* ---- processes */

void sim_child_start(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t token,
                     bool is_bound, uint64_t length_us) {
    struct sim_piece *piece = &process->pieces[target];
    if (piece->child != SIM_CHILD_NONE)
        sim_fail(world, target, "%s starts work on %s, but something that it started before is there", process->id,
                 world->targets[target].id);
    piece->work++;
    piece->token = token;
    piece->look_us = 0;
    piece->child = SIM_CHILD_RUNS;
    piece->is_bound = piece->working = is_bound;
    piece->obeys = sim_chance(world, 0.7);
    piece->polite = sim_chance(world, 0.5);
    piece->warned = piece->asked = piece->asked_for_lease = false;
    push_end(world, process, target, length_us, EXITS);
    if (is_bound)
        set_warden(world, process, target, ten_work_ask_ms(deadline_ms(process, target), world->work_rules.grace_ms));
}

void sim_child_signal(struct sim_world *world, struct sim_process *process, uint32_t target, bool kills) {
    const struct sim_piece *piece = &process->pieces[target];
    uint64_t within_us = kills ? KILLED_WITHIN_US : ASKED_WITHIN_US;
    if (piece->child == SIM_CHILD_NONE || (process->guarded ? !kills && !piece->obeys : kills))
        return;
    if (!process->guarded) /* a function cannot be killed, and ends when it likes */
        within_us = sim_ttl_us(world) * (world->long_work && sim_chance(world, 0.2) ? 15 : 2) / 10;
    push_end(world, process, target, sim_random(world, within_us), kills ? ALL_END : ALL_ASKED);
}

enum ten_work_left sim_child_left(struct sim_world *world, struct sim_process *process, uint32_t target,
                                  const ten_work *work) {
    enum sim_child child = process->pieces[target].child;
    if (child == SIM_CHILD_LEFTOVERS)
        sim_child_signal(world, process, target, work->state == TEN_WORK_KILLED);
    return child == SIM_CHILD_RUNS ? TEN_WORK_ALL : child == SIM_CHILD_LEFTOVERS ? TEN_WORK_LEFTOVERS : TEN_WORK_NONE;
}

void sim_child_ends(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number) {
    struct sim_piece *piece = &process->pieces[target];
    enum sim_child before = piece->child;
    if (number / WAYS != piece->work || before == SIM_CHILD_NONE ||
        (number % WAYS == EXITS && before != SIM_CHILD_RUNS))
        return;
    sim_check_ended_in_time(world, process, target);
    bool leaves = number % WAYS == EXITS && process->guarded && sim_chance(world, 0.1);
    piece->child = leaves ? SIM_CHILD_LEFTOVERS : SIM_CHILD_NONE;
    piece->working = leaves && piece->is_bound;
    piece->killed = number % WAYS != EXITS;
    piece->exited_well = number % WAYS == ALL_ASKED && piece->polite;
    sim_note(world, leaves ? "its work has exited, and left something" : "its work is gone", process->number, target,
             piece->token);
    if (before == SIM_CHILD_RUNS) /* of its own children the kernel tells a process */
        push(world, process, target, 0, SIM_WORK_LOOK, piece->work);
}
