/*
 * A simulated process: a clock of its own, one call to the store at a time, a time-out after which its late answer
 * counts for nothing, pauses and death. What it does about its calls and its work depends on what it is: member.c,
 * candidate.c, lessee.c.
 */
#include <string.h>

#include "lessee.h"

/* ---- its clock */

uint64_t sim_local_ms(const struct sim_process *process, uint64_t at_us) {
    return (uint64_t)((process->offset_us + process->rate * (double)at_us) / 1000);
}

/* The first moment at which its clock shows that time. */
uint64_t sim_true_us(const struct sim_process *process, uint64_t local_ms) {
    double at_us = ((double)local_ms * 1000 - process->offset_us) / process->rate;
    uint64_t found_us = at_us > 2 ? (uint64_t)at_us - 2 : 0;
    while (sim_local_ms(process, found_us) < local_ms)
        found_us++;
    return found_us;
}

bool sim_is_paused(const struct sim_world *world, const struct sim_process *process) {
    return world->now_us < process->paused_until_us;
}

/* ---- its next step */

static void plan_wake(struct sim_world *world, struct sim_process *process, uint64_t next_us) {
    uint64_t at_us = ten_max_u64(next_us, world->now_us);
    sim_trace_belief(world, process, at_us);
    if (at_us == process->wake_us)
        return;
    process->wake_us = at_us;
    process->wake_number++;
    if (at_us != UINT64_MAX)
        sim_push(world, at_us - world->now_us,
                 (struct sim_event){.kind = SIM_WAKE, .process = process->number, .number = process->wake_number});
}

static void bury(struct sim_world *world, struct sim_process *process) {
    process->kind->end(process);
    sim_carrier_end(process);
    process->alive = false;
    process->calling = false;
    for (uint32_t i = 0; i < world->target_count; i++) {
        process->pieces[i].working = false;
        process->pieces[i].child = SIM_CHILD_NONE;
    }
    for (uint32_t i = 0; i < world->live_count; i++) {
        if (world->live[i] == process->number) {
            memmove(world->live + i, world->live + i + 1, (world->live_count - i - 1) * sizeof *world->live);
            world->live_count--;
            break;
        }
    }
}

void sim_drive(struct sim_world *world, struct sim_process *process) {
    if (process->kind->report)
        process->kind->report(world, process);
    uint64_t next_us = sim_carry(world, process);
    if (process->stopped)
        bury(world, process);
    else
        plan_wake(world, process, next_us);
}

/* ---- answers */

/* A heartbeat confirms what is on the session of the process, unless somebody has touched some of that since. */
static void account_heartbeat(const struct sim_world *world, struct sim_process *process, const ten_result *result) {
    bool same = result && result->session == process->session && result->session_version == process->session_version;
    for (uint32_t i = 0; i < world->target_count; i++) {
        struct sim_piece *piece = &process->pieces[i];
        piece->unread |= result && !same;
        if (piece->on_session && (!result || (same && !piece->unread)))
            piece->unconfirmed = !result;
    }
    if (result) {
        process->session = result->session;
        process->session_version = result->session_version;
    }
}

/* G5: whoever was not confirmed may not start work; the harness keeps its own account of it. */
static void account_renewals(const struct sim_world *world, struct sim_process *process,
                             const struct sim_message *answer) {
    for (uint32_t i = 0; i < process->request_count; i++) {
        const struct sim_sent *sent = &process->request[i];
        const ten_result *result = answer && answer->error == TENURE_OK ? &answer->operations[i].result : NULL;
        if (sent->kind == TEN_OP_ANNOUNCE)
            account_heartbeat(world, process, result);
        if (sent->target == SIM_NOBODY)
            continue;
        struct sim_piece *piece = &process->pieces[sent->target];
        bool granted = result && result->outcome == TEN_OK;
        if (sent->kind == TEN_OP_READ)
            granted &= result && result->holder && strcmp(result->holder, process->id) == 0 && !result->barred;
        if (granted && sent->kind != TEN_OP_RELEASE && sent->kind != TEN_OP_HAND) {
            piece->unconfirmed = piece->unread = false;
            piece->on_session = result->session != 0;
        } else if (!granted && sent->kind == TEN_OP_RENEW)
            process->pieces[sent->target].unconfirmed = true;
    }
}

static void answer_call(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                        int error) {
    process->calling = false;
    if (process->engine.call.kind == TEN_CALL_APPLY)
        account_renewals(world, process, error == TENURE_OK ? answer : NULL);
    sim_carrier_answer(world, process, answer, error);
}

/* ---- what happens to it */

static void handle(struct sim_world *world, struct sim_process *process, const struct sim_event *event) {
    switch (event->kind) {
    case SIM_REPLY:
        if (!process->calling || process->call != event->message->call)
            return; /* its connection was closed: nobody listens */
        answer_call(world, process, event->message, event->message->error);
        break;
    case SIM_TIMEOUT:
        if (!process->calling || process->call != event->number)
            return;
        world->stats.timeouts++;
        sim_note(world, "no answer in time", process->number, SIM_NOBODY, event->number);
        answer_call(world, process, NULL, TENURE_E_TIMEOUT);
        break;
    case SIM_NOTICE:
        process->notice_under_way = false;
        process->noticed = true;
        break;
    case SIM_WORK:
        process->kind->look_for_work(world, process);
        return;
    case SIM_WORK_LOOK:
        process->kind->look_at_work(world, process, event->target, event->number);
        return;
    case SIM_OUTGOING:
        sim_look_at_sending(world, process, event->target, event->number);
        return;
    case SIM_WAKE:
        if (event->number != process->wake_number)
            return;
        process->wake_us = 0;
        break;
    default:
        break;
    }
    sim_drive(world, process);
}

void sim_process_event(struct sim_world *world, struct sim_process *process, struct sim_event *event) {
    if (!process->alive) {
        sim_message_free(event->message);
    } else if (event->kind == SIM_WARDEN) {
        process->kind->warden_looks(world, process, event->target, event->number);
    } else if (event->kind == SIM_CHILD && (process->guarded || !sim_is_paused(world, process))) {
        sim_child_ends(world, process, event->target, event->number);
    } else if (sim_is_paused(world, process)) {
        sim_push(world, process->paused_until_us - world->now_us, *event);
    } else {
        handle(world, process, event);
        sim_message_free(event->message);
    }
}

void sim_pause(struct sim_world *world, struct sim_process *process, uint64_t for_us) {
    sim_note(world, "is paused, ms:", process->number, SIM_NOBODY, for_us / 1000);
    world->stats.pauses++;
    process->paused_until_us = ten_max_u64(process->paused_until_us, world->now_us + for_us);
    sim_push(world, process->paused_until_us - world->now_us,
             (struct sim_event){.kind = SIM_RESUME, .process = process->number});
}

void sim_stop(struct sim_world *world, struct sim_process *process) {
    sim_note(world, "is asked to stop", process->number, SIM_NOBODY, 0);
    process->stopping = true;
    process->stop_us = world->now_us;
    process->kind->stop(world, process);
    sim_drive(world, process);
}

void sim_crash(struct sim_world *world, struct sim_process *process, bool with_host) {
    sim_note(world, with_host ? "dies with its host" : "dies", process->number, SIM_NOBODY, 0);
    world->stats.crashes++;
    process->stopped = true;
    bury(world, process);
    if (!with_host && process->guarded && !sim_is_keeping(world, process))
        sim_push(world, SIM_MS + sim_random(world, 20 * SIM_MS),
                 (struct sim_event){.kind = SIM_WARDEN_END, .process = process->number});
}

/* ---- its birth */

static void register_process(struct sim_world *world, struct sim_process *process) {
    if (world->process_count == world->process_room) {
        uint32_t room = world->process_room ? world->process_room * 2 : 16;
        struct sim_process **processes = sim_allocate(room, sizeof(struct sim_process *));
        uint32_t *live = sim_allocate(room, sizeof *live);
        for (uint32_t i = 0; i < world->process_count; i++)
            processes[i] = world->processes[i];
        for (uint32_t i = 0; i < world->live_count; i++)
            live[i] = world->live[i];
        free(world->processes);
        free(world->live);
        world->processes = processes;
        world->live = live;
        world->process_room = room;
    }
    process->number = world->process_count++;
    world->processes[process->number] = process;
    world->live[world->live_count++] = process->number;
    snprintf(process->id, sizeof process->id, "p%u-%08x", process->number, (unsigned)sim_random(world, UINT32_MAX));
    if (!ten_map_put(&world->process_numbers, process->id, (void *)((uintptr_t)process->number + 1)))
        abort();
}

struct sim_process *sim_process_new(struct sim_world *world, const struct sim_kind *kind) {
    struct sim_process *process = sim_allocate(1, sizeof *process);
    register_process(world, process);
    double place = (double)sim_random(world, 2000001) / 1000000 - 1;
    process->rate = 1 + place * world->clock_spread;
    process->offset_us = (double)sim_random(world, 1000 * SIM_SECOND);
    process->kind = kind;
    process->alive = true;
    process->guarded = true;
    process->started_us = world->now_us;
    if (!ten_event_queue_open(&process->events))
        abort();
    process->pieces = sim_allocate(world->target_count, sizeof *process->pieces);
    for (uint32_t i = 0; i < world->target_count; i++)
        process->pieces[i].number = SIM_NOBODY;
    return process;
}

void sim_process_free(struct sim_process *process) {
    if (process->alive) {
        process->kind->end(process);
        sim_carrier_end(process);
    }
    free(process->candidate);
    if (process->lessee)
        free(process->lessee->tenancies);
    free(process->lessee);
    free(process->pieces);
    free(process->by_number);
    free(process->request);
    free(process);
}
