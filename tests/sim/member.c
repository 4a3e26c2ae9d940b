/*
 * A member of a fleet: what src/runtime does around ten_fleet (the calls, the feed, the listings). Its work and its
 * warden are in work.c.
 */
#include <inttypes.h>

#include "sim.h"

#define CHANGES_AT_ONCE 200u

/* ---- targets */

static void know_number(struct sim_process *process, uint32_t target, uint32_t number) {
    if (number >= process->by_number_room) {
        uint32_t room = number * 2 + 16;
        uint32_t *by_number = sim_allocate(room, sizeof *by_number);
        for (uint32_t i = 0; i < room; i++)
            by_number[i] = i < process->by_number_room ? process->by_number[i] : SIM_NOBODY;
        free(process->by_number);
        process->by_number = by_number;
        process->by_number_room = room;
    }
    uint32_t former = process->by_number[number];
    if (former != SIM_NOBODY && former != target && process->pieces[former].number == number)
        process->pieces[former].number = SIM_NOBODY;
    process->by_number[number] = target;
    process->pieces[target].number = number;
}

static void note_target(struct sim_world *world, struct sim_process *process, uint32_t target, bool registered,
                        bool paused) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    const char *id = world->targets[target].id;
    if (registered)
        know_number(process, target, ten_fleet_put_target(process->fleet, now_ms, id, paused));
    else if (ten_plan_find_target(ten_fleet_plan(process->fleet), id) != TEN_PLAN_NONE)
        ten_fleet_remove_target(process->fleet, now_ms, process->pieces[target].number);
}

/* ---- events of the fleet */

static void on_event(struct sim_world *world, struct sim_process *process, const ten_fleet_event *event) {
    static const char *const names[] = {[TEN_FLEET_ACQUIRED] = "acquired",
                                        [TEN_FLEET_ACQUIRE_FAILED] = "acquire failed",
                                        [TEN_FLEET_RENEWED] = "renewed",
                                        [TEN_FLEET_RENEW_FAILED] = "renewal failed",
                                        [TEN_FLEET_LOST] = "lost",
                                        [TEN_FLEET_STOP] = "stop",
                                        [TEN_FLEET_RELEASED] = "released",
                                        [TEN_FLEET_JOINED] = "sees one join",
                                        [TEN_FLEET_LEFT] = "sees one leave",
                                        [TEN_FLEET_PLAN_CHANGED] = "plan changed",
                                        [TEN_FLEET_STORE_DOWN] = "store down",
                                        [TEN_FLEET_STORE_UP] = "store up",
                                        [TEN_FLEET_RECOVERING] = "store recovers",
                                        [TEN_FLEET_REFUSED] = "refused",
                                        [TEN_FLEET_STOPPED] = "stopped",
                                        [TEN_FLEET_UNOWNED] = "tells that it is nobody's"};
    uint32_t target = event->target == TEN_PLAN_NONE ? SIM_NOBODY : process->by_number[event->target];
    if (event->kind != TEN_FLEET_RENEWED)
        sim_note(world, names[event->kind], process->number, target, event->token ? event->token : event->count);
    sim_work_hears(world, process, event, target);
    switch (event->kind) {
    case TEN_FLEET_LOST:
        if (world->calm)
            sim_fail(world, target, "%s lost %s (%s) in calm weather: its renewals came too late or not at all",
                     process->id, world->targets[target].id, ten_reason_name(event->reason));
        break;
    case TEN_FLEET_ACQUIRED:
        if (event->token == process->pieces[target].released_token)
            sim_fail(world, target,
                     "%s believes in %s with token %llu, but it has sent a release of it, which may arrive",
                     process->id, world->targets[target].id, (unsigned long long)event->token);
        break;
    case TEN_FLEET_STOP:
        if (event->reason == TEN_REASON_REBALANCE || event->reason == TEN_REASON_DRAIN)
            sim_check_handover(world, process, target);
        break;
    case TEN_FLEET_REFUSED:
        sim_fail(world, SIM_NOBODY, "%s lives, but was refused (%d)", process->id, event->error);
        break;
    case TEN_FLEET_STOPPED:
        process->stopped = true;
        break;
    default:
        break;
    }
}

static void take_events(struct sim_world *world, struct sim_process *process) {
    ten_fleet_event event;
    while (ten_fleet_event_take(process->fleet, &event))
        on_event(world, process, &event);
}

/* ---- calls */

static const ten_op *request_of(struct sim_world *world, struct sim_process *process, size_t *ret_count) {
    return ten_fleet_request(process->fleet, sim_local_ms(process, world->now_us), ret_count);
}

static void start_call(struct sim_world *world, struct sim_process *process) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    size_t count = 0;
    const ten_op *ops;
    bool may_retry = world->now_us >= process->retry_us;
    if (!process->has_cursor) {
        if (may_retry)
            sim_send(world, process, SIM_CHANGES, NULL, 0);
    } else if ((ops = request_of(world, process, &count))) {
        sim_send(world, process, SIM_APPLY, ops, count);
    } else if (process->feed_due && world->now_us >= process->feed_us) {
        sim_send(world, process, SIM_CHANGES, NULL, 0);
    } else if (ten_fleet_wants_instances(process->fleet, now_ms)) {
        sim_send(world, process, SIM_INSTANCES, NULL, 0);
    } else if (process->resync && process->instances_read && may_retry) {
        sim_send(world, process, SIM_LEASES, NULL, 0);
    } else if (!process->stopped && ten_fleet_next_ms(process->fleet, now_ms) <= now_ms) {
        take_events(world, process);
        if (!process->stopped)
            sim_fail(world, SIM_NOBODY, "%s says that something is due now, but has nothing to send: it would spin",
                     process->id);
    }
}

static uint64_t next_us(struct sim_world *world, struct sim_process *process) {
    uint64_t next_ms = ten_fleet_next_ms(process->fleet, sim_local_ms(process, world->now_us));
    /* During a call that is not the fleet's nothing else can be sent; its time-out bounds it. */
    bool waits = process->calling && process->call_kind != SIM_APPLY;
    uint64_t at_us = waits || next_ms == UINT64_MAX ? UINT64_MAX : sim_true_us(process, next_ms);
    if (!process->calling && process->retry_us > world->now_us && (!process->has_cursor || process->resync))
        at_us = ten_min_u64(at_us, process->retry_us);
    if (process->feed_due && !process->calling)
        at_us = ten_min_u64(at_us, process->feed_us);
    if (!process->has_cursor && !process->calling)
        at_us = process->retry_us;
    return at_us;
}

static void drive(struct sim_world *world, struct sim_process *process) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    for (uint32_t i = 0; i < world->target_count; i++) {
        struct sim_piece *piece = &process->pieces[i];
        if (!piece->unreported)
            continue;
        piece->unreported = false;
        ten_fleet_busy(process->fleet, now_ms, piece->number, false);
    }
    take_events(world, process);
    if (!process->calling)
        start_call(world, process);
    else if (process->call_kind == SIM_APPLY)
        (void)request_of(world, process, &(size_t){0}); /* there is none, but it notices deadlines */
    take_events(world, process);
}

/* ---- answers */

static void answer_apply(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                         int error) {
    static ten_result results[2048];
    for (uint32_t i = 0; error == TENURE_OK && i < answer->count; i++) {
        results[i] = answer->operations[i].result;
        process->feed_due |= answer->operations[i].op.kind == TEN_OP_ANNOUNCE && results[i].outcome == TEN_OK;
    }
    ten_fleet_answer(process->fleet, sim_local_ms(process, world->now_us), error, results);
}

static void answer_changes(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                           int error) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    process->feed_due = false;
    /* When changes come thick and fast they are read together. */
    process->feed_us = world->now_us + world->rank_delay_ms * SIM_MS / 8;
    if (error == TENURE_E_RESYNC) {
        process->cursor = answer->cursor;
        process->resync = true;
        process->instances_read = false;
        ten_fleet_resync(process->fleet, now_ms);
        return;
    }
    if (error < 0) {
        process->retry_us = world->now_us + 100 * SIM_MS;
        return; /* read again after the next successful heartbeat, or notice */
    }
    process->has_cursor = true;
    process->cursor = answer->cursor;
    process->feed_due = answer->count == CHANGES_AT_ONCE;
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct sim_change *change = &answer->changes[i];
        if (change->change.kind >= TEN_TARGET_ADDED && change->change.kind <= TEN_TARGET_REMOVED)
            note_target(world, process, sim_target_number(world, change->change.target), change->registered,
                        change->paused);
        else
            ten_fleet_change(process->fleet, now_ms, &change->change);
    }
}

static void answer_instances(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                             int error) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    if (error < 0) {
        ten_fleet_instances_failed(process->fleet, now_ms, error);
        return;
    }
    ten_fleet_instances_begin(process->fleet, now_ms);
    for (uint32_t i = 0; i < answer->count; i++)
        ten_fleet_instance(process->fleet, now_ms, &answer->instances[i]);
    ten_fleet_instances_end(process->fleet, now_ms);
    process->instances_read = true;
}

static void answer_leases(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                          int error) {
    uint64_t now_ms = sim_local_ms(process, world->now_us);
    if (error < 0) {
        process->retry_us = world->now_us + 100 * SIM_MS;
        return;
    }
    process->resync = false;
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct sim_row *row = &answer->rows[i];
        note_target(world, process, row->target, row->registered, row->paused);
        ten_fleet_holder(process->fleet, now_ms, world->targets[row->target].id, row->holder, row->token,
                         row->remaining_ms);
    }
}

static void answer_call(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                        int error) {
    if (process->call_kind == SIM_APPLY)
        answer_apply(world, process, answer, error);
    else if (process->call_kind == SIM_CHANGES)
        answer_changes(world, process, answer, error);
    else if (process->call_kind == SIM_INSTANCES)
        answer_instances(world, process, answer, error);
    else
        answer_leases(world, process, answer, error);
    take_events(world, process);
}

/* ---- what happens to it */

static void stop(struct sim_world *world, struct sim_process *process) {
    ten_fleet_stop(process->fleet, sim_local_ms(process, world->now_us));
}

static void end(struct sim_process *process) {
    ten_fleet_free(process->fleet);
    process->fleet = NULL;
}

void sim_set_weight(struct sim_world *world, struct sim_process *process, uint32_t weight) {
    sim_note(world, "gets the weight", process->number, SIM_NOBODY, weight);
    process->weight = weight;
    ten_fleet_set_weight(process->fleet, sim_local_ms(process, world->now_us), weight);
    sim_drive(world, process);
}

static const ten_lease *lease_of(const struct sim_process *process, uint32_t target) {
    uint32_t number = process->pieces[target].number;
    return number == SIM_NOBODY ? NULL : ten_fleet_lease(process->fleet, number);
}

static void describe(const struct sim_process *process, uint64_t now_ms) {
    printf("weight %u, owns %zu, its clock says %" PRIu64 " and to look at %" PRIu64, process->weight,
           ten_fleet_owned_count(process->fleet), now_ms, ten_fleet_next_ms(process->fleet, now_ms));
}

static const struct sim_kind member = {.drive = drive,
                                       .next_us = next_us,
                                       .answer = answer_call,
                                       .look_for_work = sim_look_for_work,
                                       .look_at_work = sim_look_at_work,
                                       .warden_looks = sim_warden_looks,
                                       .stop = stop,
                                       .lease_of = lease_of,
                                       .describe = describe,
                                       .end = end};

struct sim_process *sim_start(struct sim_world *world, uint32_t weight, bool lame) {
    struct sim_process *process = sim_process_new(world, &member);
    process->weight = weight;
    process->lame = lame;
    process->resync = true;
    ten_fleet_config config = {.namespace_name = SIM_NAMESPACE,
                               .instance = process->id,
                               .timing = world->timing,
                               .settle_ms = world->settle_ms,
                               .rank_delay_ms = world->rank_delay_ms,
                               .weight = weight,
                               .seed = sim_random(world, UINT64_MAX)};
    process->fleet = ten_fleet_new(&config, sim_local_ms(process, world->now_us));
    if (!process->fleet)
        abort();
    sim_note(world, lame ? "starts, lame, with weight" : "starts, with weight", process->number, SIM_NOBODY, weight);
    sim_push(world, sim_random(world, world->work_us),
             (struct sim_event){.kind = SIM_WORK, .process = process->number});
    sim_drive(world, process);
    return process;
}
