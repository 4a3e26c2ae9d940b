/*
 * The simulated network between processes and the store: it delays, loses, repeats and reorders. A request whose sender
 * has given up may still arrive, before or after requests on its next connection.
 */
#include <string.h>

#include "sim.h"

void sim_message_free(struct sim_message *message) {
    if (!message)
        return;
    free(message->items);
    free(message->wanted);
    free(message);
}

static uint64_t travel_us(struct sim_world *world) {
    const struct sim_weather *weather = &world->weather;
    if (sim_chance(world, weather->late))
        return sim_random(world, weather->late_us);
    return weather->delay_us + sim_random(world, weather->spread_us);
}

/* ---- to the store */

/* Texts of operations live as long as the world. */
static ten_op keep_texts(const struct sim_world *world, const struct sim_process *process, const ten_op *op) {
    ten_op kept = *op;
    kept.namespace_name = SIM_NAMESPACE;
    kept.holder = op->holder ? process->id : NULL;
    kept.target = op->target ? world->targets[sim_target_number(world, op->target)].id : NULL;
    kept.successor = op->successor ? sim_find_process(world, op->successor)->id : NULL;
    return kept;
}

static void remember_request(struct sim_world *world, struct sim_process *process, const struct sim_message *message) {
    if (message->count > process->request_room) {
        process->request_room = message->count * 2;
        free(process->request);
        process->request = sim_allocate(process->request_room, sizeof *process->request);
    }
    process->request_count = message->count;
    for (uint32_t i = 0; i < message->count; i++) {
        const ten_op *op = &message->operations[i].op;
        process->request[i].target = op->target ? sim_target_number(world, op->target) : SIM_NOBODY;
        process->request[i].kind = op->kind;
        if (process->kind->sends && op->target)
            process->kind->sends(world, process, process->request[i].target, op);
        if (op->kind != TEN_OP_RELEASE && op->kind != TEN_OP_HAND)
            continue;
        sim_check_release(world, process, process->request[i].target, op->token);
        process->pieces[process->request[i].target].released_token = op->token;
    }
}

static struct sim_message *copy_request(const struct sim_message *message) {
    struct sim_message *copy = sim_allocate(1, sizeof *copy);
    *copy = *message;
    copy->items = sim_allocate(message->count, sizeof *copy->operations);
    memcpy(copy->items, message->items, message->count * sizeof *copy->operations);
    return copy;
}

static void push_arrival(struct sim_world *world, struct sim_message *message, uint64_t delay_us) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_ARRIVAL, .process = message->process, .message = message});
}

static void push_reply(struct sim_world *world, struct sim_message *message, uint64_t delay_us) {
    sim_push(world, delay_us, (struct sim_event){.kind = SIM_REPLY, .process = message->process, .message = message});
}

void sim_send(struct sim_world *world, struct sim_process *process, const ten_call *call) {
    const struct sim_weather *weather = &world->weather;
    struct sim_message *message = sim_allocate(1, sizeof *message);
    process->calling = true;
    process->call++;
    *message = (struct sim_message){.kind = call->kind,
                                    .process = process->number,
                                    .call = process->call,
                                    .cursor = call->cursor,
                                    .limit = call->limit};
    snprintf(message->after, sizeof message->after, "%s", call->after ? call->after : "");
    if (call->kind == TEN_CALL_READ) {
        message->count = (uint32_t)call->count;
        message->wanted = sim_allocate(call->count, sizeof *message->wanted);
        for (size_t i = 0; i < call->count; i++)
            message->wanted[i] = sim_target_number(world, call->ids[i]);
    }
    if (call->kind == TEN_CALL_APPLY) {
        message->count = (uint32_t)call->count;
        message->operations = sim_allocate(call->count, sizeof *message->operations);
        for (size_t i = 0; i < call->count; i++)
            message->operations[i].op = keep_texts(world, process, &call->ops[i]);
        remember_request(world, process, message);
    }
    world->stats.requests++;
    sim_check_requests(world, process);
    sim_push(world, world->timing.timeout_ms * SIM_MS,
             (struct sim_event){.kind = SIM_TIMEOUT, .process = process->number, .number = process->call});
    if (weather->refusing) {
        message->error = TENURE_E_UNREACHABLE;
        push_reply(world, message, 200);
        return;
    }
    if (call->kind == TEN_CALL_APPLY && sim_chance(world, weather->twice)) {
        struct sim_message *copy = copy_request(message);
        copy->duplicate = true;
        push_arrival(world, copy, travel_us(world));
    }
    if (weather->unreachable || process->cut_requests || sim_chance(world, weather->lost))
        sim_message_free(message);
    else
        push_arrival(world, message, travel_us(world));
}

/* ---- from the store */

void sim_notify_all(struct sim_world *world) {
    for (uint32_t i = 0; i < world->live_count; i++) {
        struct sim_process *process = world->processes[world->live[i]];
        if (process->notice_under_way || world->weather.unreachable || process->cut_replies ||
            sim_chance(world, world->weather.notice_lost))
            continue;
        process->notice_under_way = true;
        sim_push(world, world->weather.delay_us + sim_random(world, world->weather.spread_us),
                 (struct sim_event){.kind = SIM_NOTICE, .process = process->number});
    }
}

static void note_late(struct sim_world *world, const struct sim_process *process, const struct sim_message *message) {
    if (process->alive && process->calling && process->call == message->call && !message->duplicate)
        return;
    world->stats.late_arrivals++;
    if (message->kind == TEN_CALL_APPLY)
        sim_note(world, "a late or repeated request arrives, operations:", message->process, SIM_NOBODY,
                 message->count);
}

void sim_arrive(struct sim_world *world, struct sim_message *message) {
    const struct sim_process *process = world->processes[message->process];
    note_late(world, process, message);
    uint64_t before = ten_memory_last_number(world->core);
    bool fails = sim_chance(world, world->weather.error);
    if (!fails || sim_random(world, 2))
        sim_execute(world, message);
    if (fails)
        message->error = TENURE_E_STORE; /* with or without effect */
    if (ten_memory_last_number(world->core) != before)
        sim_notify_all(world);
    if (message->duplicate || world->weather.unreachable || process->cut_replies ||
        sim_chance(world, world->weather.lost))
        sim_message_free(message);
    else
        push_reply(world, message, travel_us(world));
}
