/*
 * The digest of a run: a number made of all that the core has decided in it (what is sent, what is made of an answer,
 * what the program is told, what is believed, when it wants to be called again). Two builds of the core that decide
 * alike have the same digest of each seed: `sim --digests` prints them. It judges nothing. Called by carrier.c and
 * process.c.
 */
#include <inttypes.h>

#include "base/hash.h"
#include "sim.h"

bool sim_prints_digests;

static void mix(struct sim_world *world, uint64_t number) {
    world->digest = ten_hash_mix(world->digest * 31 + number);
}

static void mix_text(struct sim_world *world, const char *text) {
    mix(world, text ? ten_hash_text(text) : 0);
}

static void mix_place(struct sim_world *world, const struct sim_process *process, enum sim_trace what) {
    mix(world, (uint64_t)what << 32 | process->number);
    mix(world, world->now_us);
}

static void mix_op(struct sim_world *world, const ten_op *op) {
    mix(world, (uint64_t)op->kind << 32 | op->flags);
    mix(world, (uint64_t)op->reason << 32 | op->group);
    mix(world, op->token);
    mix(world, op->ttl_ms);
    mix(world, op->weight);
    mix_text(world, op->target);
    mix_text(world, op->successor);
}

void sim_trace_call(struct sim_world *world, const struct sim_process *process, const ten_call *call) {
    if (!sim_prints_digests)
        return;
    mix_place(world, process, SIM_TRACE_CALL);
    mix(world, call->kind);
    mix(world, call->kind == TEN_CALL_CHANGES ? call->cursor : 0);
    mix(world, call->limit);
    mix_text(world, call->after);
    for (size_t i = 0; i < call->count; i++)
        if (call->kind == TEN_CALL_APPLY)
            mix_op(world, &call->ops[i]);
        else
            mix_text(world, call->ids[i]);
}

void sim_trace_answer(struct sim_world *world, const struct sim_process *process, const struct sim_message *answer,
                      int error) {
    if (!sim_prints_digests)
        return;
    mix_place(world, process, SIM_TRACE_ANSWER);
    mix(world, (uint64_t)(int64_t)error);
    mix(world, answer ? answer->count : 0);
    for (uint32_t i = 0; answer && error == TENURE_OK && answer->kind == TEN_CALL_APPLY && i < answer->count; i++) {
        mix(world, answer->operations[i].result.outcome);
        mix(world, answer->operations[i].result.token);
        mix(world, answer->operations[i].result.remaining_ms);
    }
}

void sim_trace_event(struct sim_world *world, const struct sim_process *process, const tenure_event *event) {
    if (!sim_prints_digests)
        return;
    mix_place(world, process, SIM_TRACE_EVENT);
    mix(world, event->kind);
    mix(world, event->token);
    mix(world, event->remaining_ms);
    mix(world, event->count);
    mix(world, (uint64_t)(int64_t)event->error);
    mix_text(world, event->target);
    mix_text(world, event->instance);
    mix_text(world, event->reason);
}

void sim_trace_belief(struct sim_world *world, const struct sim_process *process, uint64_t next_us) {
    if (!sim_prints_digests)
        return;
    mix_place(world, process, SIM_TRACE_BELIEF);
    mix(world, next_us);
    for (uint32_t i = 0; i < world->target_count; i++) {
        const ten_holding *lease = process->kind->lease_of(process, i);
        mix(world, lease ? (uint64_t)lease->state << 16 | (uint64_t)lease->flight << 8 | lease->uncertain : 0);
        mix(world, lease ? lease->token : 0);
        mix(world, lease ? lease->deadline_ms : 0);
    }
}

void sim_show_digest(const struct sim_world *world) {
    if (!sim_prints_digests)
        return;
    printf("# digest of seed %" PRIu64 ": %016" PRIx64 ", %" PRIu64 " steps\n", world->seed, world->digest,
           world->stats.steps);
    fflush(stdout); /* a line at a time, beside those of the other jobs */
}
