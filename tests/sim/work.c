/*
 * The work that processes do on the targets they hold, and the warden, which ends it before the lease does, whether or
 * not the process runs.
 */
#include "sim.h"

uint64_t sim_grace_ms(const struct sim_world *world) {
    return world->timing.ttl_ms / 10;
}

/* When the warden has to look again: a grace before the deadline as it is now. */
static void set_warden(struct sim_world *world, struct sim_process *process, uint32_t target) {
    const struct sim_piece *piece = &process->pieces[target];
    const ten_holding *lease = ten_fleet_holding(process->fleet, piece->number);
    uint64_t at_us = sim_true_us(process, ten_sub_saturating(lease->deadline_ms, sim_grace_ms(world)));
    sim_push(
        world, ten_sub_saturating(at_us, world->now_us),
        (struct sim_event){.kind = SIM_WARDEN, .process = process->number, .target = target, .number = piece->work});
}

static void start_work(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    sim_check_work_start(world, process, target);
    sim_note(world, "starts work", process->number, target, ten_fleet_holding(process->fleet, piece->number)->token);
    world->stats.works++;
    world->targets[target].worked_us = world->now_us;
    piece->working = true;
    piece->work++;
    piece->token = ten_fleet_holding(process->fleet, piece->number)->token;
    ten_fleet_busy(process->fleet, sim_local_ms(process, world->now_us), piece->number, true);
    uint64_t ttl_us = world->timing.ttl_ms * SIM_MS;
    uint64_t length_us = ttl_us / 100 + sim_random(world, ttl_us / 10);
    if (world->long_work && sim_chance(world, 0.05))
        length_us = ttl_us / 2 + sim_random(world, 2 * ttl_us);
    sim_push(
        world, length_us,
        (struct sim_event){.kind = SIM_WORK_END, .process = process->number, .target = target, .number = piece->work});
    set_warden(world, process, target);
}

void sim_look_for_work(struct sim_world *world, struct sim_process *process) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    for (uint32_t i = 0; i < world->target_count; i++) {
        const struct sim_piece *piece = &process->pieces[i];
        if (piece->number == SIM_NOBODY || piece->working || piece->unreported ||
            !ten_fleet_may_work(process->fleet, piece->number, now_ms))
            continue;
        /* No work is begun that would have to end at once. */
        if (now_ms + sim_grace_ms(world) < ten_fleet_holding(process->fleet, piece->number)->deadline_ms)
            start_work(world, process, i);
    }
    sim_push(world, world->work_us, (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
}

void sim_end_work(struct sim_world *world, struct sim_process *process, uint32_t target, bool publish) {
    struct sim_piece *piece = &process->pieces[target];
    if (!piece->working)
        return;
    piece->working = false;
    piece->unreported = true;
    sim_note(world, publish ? "work is done" : "work is ended", process->number, target, piece->token);
    if (publish && ten_holding_is_confirmed(ten_fleet_holding(process->fleet, piece->number),
                                            sim_local_ms(process, world->now_us)))
        sim_check_publish(world, process, target);
}

void sim_work_is_done(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work) {
    if (process->pieces[target].work == work)
        sim_end_work(world, process, target, true);
    sim_drive(world, process);
}

void sim_warden_looks(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work) {
    struct sim_piece *piece = &process->pieces[target];
    if (!piece->working || piece->work != work)
        return;
    const ten_holding *lease = ten_fleet_holding(process->fleet, piece->number);
    if (sim_local_ms(process, world->now_us) + sim_grace_ms(world) < lease->deadline_ms) {
        set_warden(world, process, target);
        return;
    }
    sim_end_work(world, process, target, false);
    if (!sim_is_paused(world, process))
        sim_drive(world, process);
}
