/*
 * The carrier of a simulated process: what src/runtime/carrier.c does for a real one. One thread: while a call is under
 * way it neither sends, nor hears of notices, nor delivers events. What is wanted is the engine's business
 * (core/engine.h), which is the one that ships.
 */
#include "sim.h"

#define RESULTS_MAX 2048u

static uint64_t now_ms(const struct sim_world *world, const struct sim_process *process) {
    return sim_local_ms(process, world->now_us);
}

void sim_carrier_start(struct sim_world *world, struct sim_process *process, ten_engine_config config) {
    config.events = &process->events;
    config.seed = sim_random(world, UINT64_MAX);
    config.backoff_max_ms = world->timing.renew_ms / 4;
    config.feed_gap_ms = world->feed_gap_ms;
    config.feed_size = SIM_CHANGES_MAX;
    config.page_size = world->target_count / 3 + 2;
    config.registrations = true;
    ten_engine_init(&process->engine, &config, now_ms(world, process));
}

void sim_carrier_end(struct sim_process *process) {
    ten_engine_free(&process->engine);
    ten_event_queue_free(&process->events);
}

void sim_carrier_tell(struct sim_world *world, struct sim_process *process, ten_engine_event event) {
    event.now_ms = now_ms(world, process);
    ten_engine_step(&process->engine, &event, NULL);
}

/* ---- driving */

static bool deliver(struct sim_world *world, struct sim_process *process) {
    tenure_event event;
    bool any = false;
    for (; ten_event_queue_take(&process->events, &event); any = true) {
        sim_trace_event(world, process, &event);
        process->kind->on_event(world, process, &event);
    }
    return any;
}

static bool take_notice(struct sim_world *world, struct sim_process *process) {
    bool noticed = process->noticed;
    process->noticed = false;
    if (noticed)
        sim_carrier_tell(world, process, (ten_engine_event){.kind = TEN_ON_NOTICE});
    return noticed;
}

uint64_t sim_carry(struct sim_world *world, struct sim_process *process) {
    if (process->calling)
        return UINT64_MAX;
    ten_update update;
    ten_engine_event timer = {.kind = TEN_ON_TIMER, .now_ms = now_ms(world, process)};
    (void)take_notice(world, process);
    for (;;) {
        bool worked = deliver(world, process);
        ten_engine_step(&process->engine, &timer, &update);
        if (update.call.kind != TEN_CALL_NONE) {
            sim_trace_call(world, process, &update.call);
            sim_send(world, process, &update.call);
            return UINT64_MAX;
        }
        /* A deadline that has passed is an event: it is delivered before anything else is done. */
        if (!worked && process->events.count == 0 && !take_notice(world, process))
            break;
    }
    process->stopped |= process->kind->is_over(process);
    if (!process->stopped && update.next_ms <= timer.now_ms)
        sim_fail(world, SIM_NOBODY, "%s says that something is due now, but has nothing to send: it would spin",
                 process->id);
    return update.next_ms == UINT64_MAX ? UINT64_MAX : sim_true_us(process, update.next_ms);
}

/* ---- answers */

static ten_row row_of(const struct sim_world *world, const struct sim_row *row) {
    return (ten_row){.target = {.id = world->targets[row->target].id, .paused = row->paused},
                     .pin = row->pin,
                     .registered = row->registered,
                     .barred = row->barred,
                     .holder = row->holder,
                     .token = row->token,
                     .remaining_ms = row->remaining_ms};
}

static void take_items(struct sim_world *world, struct sim_process *process, const struct sim_message *answer) {
    for (uint32_t i = 0; i < answer->count; i++) {
        ten_engine_event event = {0};
        ten_row row;
        switch (answer->kind) {
        case TEN_CALL_CHANGES:
            event = (ten_engine_event){.kind = TEN_ON_CHANGE, .change = &answer->changes[i]};
            break;
        case TEN_CALL_INSTANCES:
            event = (ten_engine_event){.kind = TEN_ON_INSTANCE, .instance = &answer->instances[i]};
            break;
        case TEN_CALL_LIST:
        case TEN_CALL_READ:
            row = row_of(world, &answer->rows[i]);
            event = (ten_engine_event){.kind = TEN_ON_ROW, .row = &row};
            break;
        default: /* an apply brings no items */
            return;
        }
        sim_carrier_tell(world, process, event);
    }
}

/* `answer` is NULL when none came. */
void sim_carrier_answer(struct sim_world *world, struct sim_process *process, const struct sim_message *answer,
                        int error) {
    static ten_result results[RESULTS_MAX];
    sim_trace_answer(world, process, answer, error);
    if (answer && (error == TENURE_OK || error == TENURE_E_RESYNC))
        take_items(world, process, answer);
    for (uint32_t i = 0; error == TENURE_OK && answer->kind == TEN_CALL_APPLY && i < answer->count; i++)
        results[i] = answer->operations[i].result;
    sim_carrier_tell(
        world, process,
        (ten_engine_event){
            .kind = TEN_ON_ANSWER, .error = error, .results = results, .cursor = answer ? answer->cursor : 0});
}
