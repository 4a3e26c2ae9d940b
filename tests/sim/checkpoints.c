/*
 * Checkpoints that published work leaves beside its lease. A write is on its way for a moment or for longer than a lease,
 * whatever becomes of its sender meanwhile: it is the stale writer that must change nothing. How long it takes comes from
 * the run's seed, but not from its dice: runs are the same with checkpoints and without.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "sim.h"

void sim_send_checkpoint(struct sim_world *world, const struct sim_process *process, uint32_t target, uint64_t token) {
    uint64_t dice = ten_hash_mix(world->seed ^ ten_hash_mix(world->now_us ^ token << 8 ^ target));
    uint64_t delay_us = dice % 4 ? dice % (sim_ttl_us(world) / 20) : dice % (3 * sim_ttl_us(world));
    sim_push(world, delay_us,
             (struct sim_event){.kind = SIM_CHECKPOINT, .process = process->number, .target = target, .number = token});
}

void sim_checkpoint_arrives(struct sim_world *world, const struct sim_event *event) {
    const struct sim_process *process = world->processes[event->process];
    const struct sim_target *target = &world->targets[event->target];
    char value[48];
    snprintf(value, sizeof value, "%llu", (unsigned long long)event->number);
    ten_op op = {.kind = TEN_OP_CHECKPOINT,
                 .namespace_name = SIM_NAMESPACE,
                 .target = target->id,
                 .holder = process->id,
                 .token = event->number,
                 .checkpoint = value};
    ten_result result;
    (void)ten_store_apply(world->store, &op, &result, 1, 0);
    sim_note(world, result.outcome == TEN_OK ? "keeps a checkpoint" : "its checkpoint is refused", event->process,
             event->target, event->number);
    if (result.outcome != TEN_OK)
        return;
    world->stats.checkpoints++;
    const ten_lease_row *held = sim_held(world, event->target);
    if (!held || held->token != event->number || strcmp(held->holder, process->id) != 0)
        sim_fail(world, event->target, "%s writes a checkpoint under the token %llu, and does not hold the target",
                 process->id, (unsigned long long)event->number);
    else if (event->number < target->highest_token && world->now_us >= target->excused_us &&
             event->number != target->old_token) /* the store knows of no other */
        sim_fail(world, event->target, "%s writes a checkpoint under the token %llu, and %llu was granted", process->id,
                 (unsigned long long)event->number, (unsigned long long)target->highest_token);
    else if (sim_is_recovering(world))
        sim_fail(world, event->target, "%s writes a checkpoint while the store recovers", process->id);
}
