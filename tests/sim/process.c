/*
 * A simulated process: what src/runtime does around a fleet (one call to the store at a time, a time-out after which
 * its late answer counts for nothing, the feed, the listings), with a clock of its own. Its warden is in work.c.
 */
#include <string.h>

#include "sim.h"

#define CHANGES_AT_ONCE 200u

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
    else if (ten_plan_find_target(ten_fleet_plan(process->fleet), id) != TEN_PLAN_NOBODY)
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
                                        [TEN_FLEET_STOPPED] = "stopped"};
    uint32_t target = event->target == TEN_PLAN_NOBODY ? SIM_NOBODY : process->by_number[event->target];
    if (event->kind != TEN_FLEET_RENEWED)
        sim_note(world, names[event->kind], process->number, target, event->token ? event->token : event->count);
    switch (event->kind) {
    case TEN_FLEET_LOST:
        sim_end_work(world, process, target, false);
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

static void plan_wake(struct sim_world *world, struct sim_process *process) {
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
    at_us = ten_max_u64(at_us, world->now_us);
    if (at_us == process->wake_us)
        return;
    process->wake_us = at_us;
    process->wake_number++;
    if (at_us != UINT64_MAX)
        sim_push(world, at_us - world->now_us,
                 (struct sim_event){.kind = SIM_WAKE, .process = process->number, .number = process->wake_number});
}

static void bury(struct sim_world *world, struct sim_process *process) {
    ten_fleet_free(process->fleet);
    process->fleet = NULL;
    process->calling = false;
    for (uint32_t i = 0; i < world->target_count; i++)
        process->pieces[i].working = false;
    for (uint32_t i = 0; i < world->live_count; i++) {
        if (world->live[i] == process->number) {
            memmove(world->live + i, world->live + i + 1, (world->live_count - i - 1) * sizeof *world->live);
            world->live_count--;
            break;
        }
    }
}

void sim_drive(struct sim_world *world, struct sim_process *process) {
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
    if (process->stopped)
        bury(world, process);
    else
        plan_wake(world, process);
}

/* ---- answers */

/* G5: whoever was not confirmed may not start work; the harness keeps its own account of it. */
static void account_renewals(struct sim_process *process, const struct sim_message *answer) {
    for (uint32_t i = 0; i < process->request_count; i++) {
        const struct sim_sent *sent = &process->request[i];
        if (sent->target == SIM_NOBODY)
            continue;
        bool granted = answer && answer->error == TENURE_OK && answer->operations[i].result.outcome == TEN_OK;
        if (granted && sent->kind != TEN_OP_RELEASE)
            process->pieces[sent->target].unconfirmed = false;
        else if (!granted && sent->kind == TEN_OP_RENEW)
            process->pieces[sent->target].unconfirmed = true;
    }
}

static void answer_apply(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                         int error) {
    static ten_result results[2048];
    account_renewals(process, error == TENURE_OK ? answer : NULL);
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
    process->calling = false;
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
        process->feed_due = true;
        break;
    case SIM_WORK:
        sim_look_for_work(world, process);
        break;
    case SIM_WORK_END:
        sim_work_is_done(world, process, event->target, event->number);
        break;
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
    if (!process->fleet) {
        sim_message_free(event->message);
    } else if (event->kind == SIM_WARDEN) {
        sim_warden_looks(world, process, event->target, event->number);
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
    ten_fleet_stop(process->fleet, sim_local_ms(process, world->now_us));
    sim_drive(world, process);
}

void sim_crash(struct sim_world *world, struct sim_process *process, bool with_host) {
    sim_note(world, with_host ? "dies with its host" : "dies", process->number, SIM_NOBODY, 0);
    world->stats.crashes++;
    process->stopped = true;
    bury(world, process);
    if (!with_host)
        sim_push(world, SIM_MS + sim_random(world, 20 * SIM_MS),
                 (struct sim_event){.kind = SIM_WARDEN_END, .process = process->number});
}

void sim_set_weight(struct sim_world *world, struct sim_process *process, uint32_t weight) {
    sim_note(world, "gets the weight", process->number, SIM_NOBODY, weight);
    process->weight = weight;
    ten_fleet_set_weight(process->fleet, sim_local_ms(process, world->now_us), weight);
    sim_drive(world, process);
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

struct sim_process *sim_start(struct sim_world *world, uint32_t weight, bool lame) {
    struct sim_process *process = sim_allocate(1, sizeof *process);
    register_process(world, process);
    double place = (double)sim_random(world, 2000001) / 1000000 - 1;
    process->rate = 1 + place * world->clock_spread;
    process->offset_us = (double)sim_random(world, 1000 * SIM_SECOND);
    process->weight = weight;
    process->lame = lame;
    process->started_us = world->now_us;
    process->resync = true;
    process->cursor = UINT64_MAX;
    process->pieces = sim_allocate(world->target_count, sizeof *process->pieces);
    for (uint32_t i = 0; i < world->target_count; i++)
        process->pieces[i].number = SIM_NOBODY;
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
