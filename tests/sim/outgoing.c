/*
 * The messages of published work on their way through a sink that may be slow. core/work.h decides when one is dropped
 * and when its target is free; here is how long a message takes to leave. A sink looks at the message's end itself
 * before it sends it, as the agent's sinks do: its thread can run before the loop's does.
 */
#include "sim.h"

enum { LEAVES, LOOK };

static void push(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t delay_us,
                 uint64_t number, uint64_t what) {
    sim_push(world, delay_us,
             (struct sim_event){
                 .kind = SIM_OUTGOING, .process = process->number, .target = target, .number = number * 2 + what});
}

static uint64_t delay_us(struct sim_world *world) {
    uint64_t ttl_us = sim_ttl_us(world);
    if (world->long_work && sim_chance(world, 0.1)) /* the sink hangs */
        return ttl_us / 4 + sim_random(world, 2 * ttl_us);
    return sim_random(world, ttl_us / 50);
}

static bool is_under_way(const struct sim_outgoing *outgoing) {
    return outgoing->machine.state == TEN_WORK_SENDING;
}

bool sim_has_outgoing(const struct sim_piece *piece, uint64_t token) {
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        if (is_under_way(&piece->outgoing[i]) && piece->outgoing[i].machine.token == token)
            return true;
    return false;
}

static struct sim_outgoing *find(struct sim_piece *piece, uint64_t number) {
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        if (is_under_way(&piece->outgoing[i]) && piece->outgoing[i].number == number)
            return &piece->outgoing[i];
    return NULL;
}

bool sim_is_idle(const struct sim_piece *piece) {
    bool idle = piece->machine.state == TEN_WORK_IDLE;
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        idle &= !is_under_way(&piece->outgoing[i]);
    return idle;
}

bool sim_has_room_for_outgoing(const struct sim_piece *piece) {
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        if (!is_under_way(&piece->outgoing[i]))
            return true;
    return false;
}

bool sim_is_free(const struct sim_piece *piece) {
    bool free = ten_work_is_free(&piece->machine);
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        free &= ten_work_is_free(&piece->outgoing[i].machine);
    return free;
}

void sim_put_outgoing(struct sim_world *world, struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    struct sim_outgoing *outgoing = piece->outgoing;
    while (is_under_way(outgoing))
        outgoing++;
    *outgoing = (struct sim_outgoing){.machine = piece->machine, .number = ++piece->sent};
    piece->machine = (ten_work){0};
    if (!is_under_way(outgoing))
        return; /* only a planted bug does that */
    push(world, process, target, delay_us(world), outgoing->number, LEAVES);
    sim_send_checkpoint(world, process, target, outgoing->machine.token);
    uint64_t next_ms = ten_work_next_ms(&outgoing->machine, sim_local_ms(process, world->now_us));
    push(world, process, target, ten_sub_saturating(sim_true_us(process, next_ms), world->now_us), outgoing->number,
         LOOK);
}

static void look(struct sim_world *world, struct sim_process *process, uint32_t target, struct sim_outgoing *outgoing,
                 const ten_work_lease *lease, enum ten_work_left left) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    uint64_t until_ms = outgoing->machine.send_until_ms;
    if (ten_work_look(&outgoing->machine, lease, left, now_ms) == TEN_WORK_DROP)
        sim_note(world, "drops its message", process->number, target, outgoing->machine.token);
    else if (is_under_way(outgoing) && outgoing->machine.send_until_ms < until_ms)
        push(world, process, target,
             ten_sub_saturating(sim_true_us(process, outgoing->machine.send_until_ms), world->now_us), outgoing->number,
             LOOK);
}

void sim_look_at_outgoing(struct sim_world *world, struct sim_process *process, uint32_t target,
                          const ten_work_lease *lease) {
    struct sim_piece *piece = &process->pieces[target];
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        if (is_under_way(&piece->outgoing[i]))
            look(world, process, target, &piece->outgoing[i], lease, TEN_WORK_ALL);
}

void sim_flush_outgoing(struct sim_process *process, uint32_t target) {
    struct sim_piece *piece = &process->pieces[target];
    ten_work_flush(&piece->machine);
    for (uint32_t i = 0; i < SIM_OUTGOING_MAX; i++)
        ten_work_flush(&piece->outgoing[i].machine);
}

/* The sink's thread, and then the loop that it tells. */
void sim_outgoing_event(struct sim_world *world, struct sim_process *process, uint32_t target, uint64_t number,
                        const ten_work_lease *lease) {
    struct sim_outgoing *outgoing = find(&process->pieces[target], number / 2);
    if (!outgoing)
        return;
    bool leaves = number % 2 == LEAVES;
    uint64_t token = outgoing->machine.token;
    if (leaves && sim_local_ms(process, world->now_us) < outgoing->machine.send_until_ms) {
        sim_note(world, "its message leaves", process->number, target, token);
        sim_check_leave(world, process, target, token);
    }
    look(world, process, target, outgoing, lease, leaves ? TEN_WORK_NONE : TEN_WORK_ALL);
}
