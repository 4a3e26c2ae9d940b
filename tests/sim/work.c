/*
 * The work that processes do on the targets they hold: core/work.h decides, as in the poller; here are the length of
 * the work and the checks. Its processes and the warden are in children.c.
 */
#include "sim.h"

static ten_work_lease lease_of(const struct sim_process *process, const struct sim_piece *piece, uint64_t now_ms) {
    ten_holding lease = ten_fleet_holding(process->fleet, piece->number);
    return (ten_work_lease){.token = lease.token,
                            .ends_ms = lease.deadline_ms,
                            .confirmed = ten_holding_is_held(&lease) && !lease.uncertain,
                            .closing = !ten_fleet_may_work(process->fleet, piece->number, now_ms)};
}

/* ---- its start */

static uint64_t length_us(struct sim_world *world) {
    uint64_t ttl_us = world->timing.ttl_ms * SIM_MS;
    uint64_t length_us = ttl_us / 100 + sim_random(world, ttl_us / 10);
    if (world->long_work && sim_chance(world, 0.05))
        length_us = ttl_us / 2 + sim_random(world, 2 * ttl_us);
    return length_us;
}

bool sim_start_work(struct sim_world *world, struct sim_process *process, uint32_t target, const ten_work_rules *rules,
                    const ten_work_lease *lease, uint64_t length_us) {
    struct sim_piece *piece = &process->pieces[target];
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    if (!ten_work_is_over(&piece->machine) || !sim_has_room_for_outgoing(piece) ||
        !ten_work_may_start(rules, lease, now_ms))
        return false;
    sim_note_start(world, process, target, "starts work", lease->token);
    ten_work_start(&piece->machine, rules, lease, now_ms + world->timing.ttl_ms, now_ms);
    sim_child_start(world, process, target, lease->token, true, length_us);
    sim_look_later(world, process, target, ten_work_next_ms(&piece->machine, now_ms));
    return true;
}

void sim_note_start(struct sim_world *world, struct sim_process *process, uint32_t target, const char *what,
                    uint64_t token) {
    sim_check_work_start(world, process, target);
    sim_note(world, what, process->number, target, token);
    world->stats.works++;
    world->targets[target].worked_us = world->now_us;
}

void sim_look_for_work(struct sim_world *world, struct sim_process *process) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    for (uint32_t i = 0; i < world->target_count; i++) {
        struct sim_piece *piece = &process->pieces[i];
        if (piece->number == SIM_NOBODY || piece->unreported)
            continue;
        ten_work_lease lease = lease_of(process, piece, now_ms);
        if (!sim_start_work(world, process, i, &world->work_rules, &lease, length_us(world)) || piece->busy)
            continue; /* messages of the piece before may still be leaving */
        piece->busy = true;
        ten_fleet_begin_work(process->fleet, now_ms, piece->number);
    }
    sim_push(world, world->work_us, (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
}

/* ---- its end */

bool sim_carry_work(struct sim_world *world, struct sim_process *process, uint32_t target,
                    const ten_work_lease *lease) {
    struct sim_piece *piece = &process->pieces[target];
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    enum ten_work_left left = sim_child_left(world, process, target, &piece->machine);
    if (left != TEN_WORK_ALL && piece->warned && !ten_work_is_over(&piece->machine) &&
        piece->machine.state != TEN_WORK_WITHHELD)
        ten_work_ended_for_lease(&piece->machine);
    enum ten_work_step step = ten_work_look(&piece->machine, lease, left, now_ms);
    if (step == TEN_WORK_ASK || step == TEN_WORK_KILL)
        sim_child_signal(world, process, target, step == TEN_WORK_KILL);
    if (step == TEN_WORK_PUBLISH || step == TEN_WORK_DISCARD)
        sim_note(world, step == TEN_WORK_PUBLISH ? "publishes" : "discards", process->number, target, piece->token);
    if (step == TEN_WORK_PUBLISH) {
        sim_check_publish(world, process, target);
        if (process->fleet)
            sim_put_outgoing(world, process, target);
        else /* a function has published it itself */
            (void)ten_work_look(&piece->machine, lease, TEN_WORK_NONE, now_ms);
    }
    sim_look_later(world, process, target, ten_work_next_ms(&piece->machine, now_ms));
    return sim_is_free(piece);
}

static void look(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    if (piece->number == SIM_NOBODY || sim_is_idle(piece))
        return;
    ten_work_lease lease = lease_of(process, piece, sim_local_ms(process, world->now_us));
    sim_look_at_outgoing(world, process, target, &lease);
    if (piece->machine.state != TEN_WORK_IDLE)
        (void)sim_carry_work(world, process, target, &lease);
    piece->unreported |= sim_is_free(piece);
}

void sim_look_at_sending(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number) {
    struct sim_piece *piece = &process->pieces[target];
    if (piece->number == SIM_NOBODY || sim_is_idle(piece))
        return;
    ten_work_lease lease = lease_of(process, piece, sim_local_ms(process, world->now_us));
    sim_outgoing_event(world, process, target, number, &lease);
    piece->unreported |= sim_is_free(piece);
    sim_drive(world, process);
}

void sim_look_at_work(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t work) {
    if (process->pieces[target].work == work)
        look(world, process, target);
    sim_drive(world, process);
}

void sim_work_hears(struct sim_world *world, struct sim_process *process, const tenure_event *event, uint32_t target) {
    if (event->kind == TENURE_EVENT_LOST && ten_reason_parse(event->reason) == TEN_REASON_EXPIRED &&
        event->token == process->pieces[target].token)
        sim_check_ended_before_expiry(world, process, target);
    if (target != SIM_NOBODY)
        look(world, process, target);
    for (uint32_t i = 0; event->kind == TENURE_EVENT_RENEWED && target == SIM_NOBODY && i < world->target_count; i++)
        look(world, process, i);
}
