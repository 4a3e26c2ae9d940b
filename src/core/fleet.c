/*
 * The fleet: its handle, work, the end of leases, and events. Called by the runtime and by the simulator.
 * What to send is decided in fleet_request.c, what an answer means in fleet_answer.c, and what other instances do is
 * followed in fleet_view.c.
 */
#include "core/fleet.h"

#include <string.h>

#include "base/alloc.h"
#include "core/fleet_state.h"

#define BATCH_MAX_DEFAULT 1000u
#define RANK_DELAY_MIN_MS 20u
#define PART_MAX_MS       3000u
#define FALLBACK_DELAYS   10u /* TTL / 6 */

/* ---- small things */

void ten_fleet_tell(ten_fleet *fleet, uint32_t number, tenure_event event) {
    if (!event.token)
        event.token = ten_fleet_holding(fleet, number).token;
    ten_event_queue_put_about(fleet->config.events, event, ten_plan_target_id(fleet->plan, number), NULL);
}

void ten_fleet_tell_end(ten_fleet *fleet, uint32_t number, enum tenure_event_kind kind, enum ten_reason reason) {
    ten_fleet_tell(fleet, number, (tenure_event){.kind = kind, .reason = ten_reason_name(reason)});
}

void ten_fleet_look(ten_fleet *fleet, uint32_t number) {
    ten_timers_set(&fleet->looks, number, fleet->now_ms);
}

/* ---- the end of a lease */

void ten_fleet_fail(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    ten_fleet_leave_order(fleet, number);
    ten_fleet_move(fleet, number, TEN_MOVE_END);
    held->keep_ms = 0;
    /* While a request about it is in flight, its number and its id are still needed. What has expired is released
     * first: if the target is put again, its token must not be believed again. */
    bool needed = held->busy || held->holding.flight != TEN_FLIGHT_NONE || held->holding.expired;
    if (ten_fleet_is_removed(&fleet->targets[number]) && !needed)
        ten_fleet_forget(fleet, number);
    else
        ten_fleet_look(fleet, number);
}

void ten_fleet_lost(ten_fleet *fleet, uint32_t number, enum ten_reason reason) {
    struct ten_fleet_target *target = &fleet->targets[number];
    ten_holding *holding = &ten_fleet_held(fleet, number)->holding;
    if (ten_holding_is_held(holding))
        ten_holding_lose(holding);
    if (reason == TEN_REASON_FORCED)
        ten_holding_keep_for_release(holding);
    ten_fleet_leave_order(fleet, number);
    ten_fleet_changed(fleet, number);
    ten_fleet_tell_end(fleet, number, TENURE_EVENT_LOST, reason);
    target->end_reason = (uint8_t)reason;
    if (target->holder == fleet->self)
        ten_fleet_note(fleet, number, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
    ten_fleet_fail(fleet, number);
}

void ten_fleet_expire(ten_fleet *fleet) {
    while (fleet->held.oldest != TEN_NOBODY &&
           ten_holding_expire(&ten_fleet_held(fleet, fleet->held.oldest)->holding, fleet->now_ms))
        ten_fleet_lost(fleet, fleet->held.oldest, TEN_REASON_EXPIRED);
}

/* ---- what the program wants */

void ten_fleet_targets_settled(ten_fleet *fleet, uint64_t now_ms) {
    fleet->now_ms = now_ms;
    ten_fleet_settle(fleet);
}

void ten_fleet_begin_work(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    TEN_INVARIANT(ten_fleet_held(fleet, number));
    ten_fleet_held(fleet, number)->busy++;
}

bool ten_fleet_end_work(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (!held || held->busy == 0)
        return false;
    if (--held->busy == 0)
        ten_fleet_look(fleet, number);
    return true;
}

void ten_fleet_set_weight(ten_fleet *fleet, uint64_t now_ms, uint32_t weight) {
    fleet->now_ms = now_ms;
    fleet->own.full_weight = weight;
    if (fleet->own.drained || fleet->end.stopping)
        weight = 0;
    if (fleet->own.weight == weight)
        return;
    /* It may acquire again, as a fallback too: decide about all targets. */
    for (uint32_t i = 0; fleet->own.weight == 0 && i < fleet->target_bound; i++)
        if (ten_fleet_is_known(&fleet->targets[i]))
            ten_fleet_look(fleet, i);
    fleet->own.weight = weight;
    fleet->own.next_beat_ms = now_ms; /* the other instances need the weight for their plans */
    if (fleet->own.announced)
        ten_plan_set_instance(fleet->plan, fleet->config.instance, weight);
    ten_fleet_settle(fleet);
}

void ten_fleet_stop(ten_fleet *fleet, uint64_t now_ms) {
    fleet->now_ms = now_ms;
    if (!fleet->end.stopping) {
        /* The store refuses to hand over to an instance without weight. */
        fleet->end.parted = !fleet->own.announced || fleet->own.weight == 0;
        fleet->end.part_until_ms = now_ms + ten_min_u64(fleet->config.timing.ttl_ms / 5, PART_MAX_MS);
        fleet->own.weight = 0;
        fleet->own.next_beat_ms = now_ms;
    }
    fleet->end.stopping = true;
    if (fleet->end.refused && !fleet->end.left)
        ten_fleet_leave(fleet);
    for (uint32_t number = fleet->held.oldest; number != TEN_NOBODY; number = ten_fleet_held(fleet, number)->newer)
        ten_fleet_look(fleet, number);
}

/* ---- the handle, and reading */

ten_fleet *ten_fleet_new(const ten_fleet_config *config, uint64_t now_ms) {
    ten_fleet *fleet = ten_calloc(1, sizeof *fleet);
    if (!fleet)
        return NULL;
    fleet->config = *config;
    if (!config->rank_delay_ms)
        fleet->config.rank_delay_ms = ten_max_u64(config->timing.ttl_ms / 60, RANK_DELAY_MIN_MS);
    if (!config->batch_max)
        fleet->config.batch_max = BATCH_MAX_DEFAULT;
    if (!config->targets_max)
        fleet->config.targets_max = UINT32_MAX;
    fleet->fallback_ms = fleet->config.rank_delay_ms * FALLBACK_DELAYS;
    fleet->own.weight = fleet->own.full_weight = config->weight;
    fleet->random = config->seed;
    fleet->self = fleet->held.oldest = fleet->held.newest = TEN_NOBODY;
    fleet->now_ms = fleet->own.start_ms = fleet->own.next_beat_ms = now_ms;
    fleet->view.next_list_ms = fleet->pins.next_ms = UINT64_MAX;
    fleet->plan = ten_fleet_make_plan(fleet);
    /* A heartbeat and a leave are sent in addition to the batch. */
    fleet->request.ops = ten_calloc(fleet->config.batch_max + 2, sizeof *fleet->request.ops);
    fleet->request.targets = ten_calloc(fleet->config.batch_max + 2, sizeof *fleet->request.targets);
    if (!fleet->plan || !fleet->request.ops || !fleet->request.targets) {
        ten_fleet_free(fleet);
        return NULL;
    }
    return fleet;
}

void ten_fleet_free(ten_fleet *fleet) {
    if (!fleet)
        return;
    ten_plan_free(fleet->plan);
    ten_timers_free(&fleet->looks);
    ten_free(fleet->targets);
    ten_free(fleet->held.list);
    ten_free(fleet->instances);
    ten_free(fleet->request.ops);
    ten_free(fleet->request.targets);
    ten_free(fleet);
}

bool ten_fleet_is_announced(const ten_fleet *fleet) {
    return fleet->own.announced;
}

bool ten_fleet_is_busy(const ten_fleet *fleet) {
    for (uint32_t number = fleet->held.oldest; number != TEN_NOBODY; number = ten_fleet_held(fleet, number)->newer)
        if (ten_fleet_held(fleet, number)->busy)
            return true;
    return false;
}

bool ten_fleet_knows(const ten_fleet *fleet, uint32_t number) {
    return number < fleet->target_bound && ten_fleet_is_known(&fleet->targets[number]);
}

const ten_plan *ten_fleet_plan(const ten_fleet *fleet) {
    return fleet->plan;
}

bool ten_fleet_may_work(const ten_fleet *fleet, uint32_t number, uint64_t now_ms) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    return held && ten_fleet_is_known(&fleet->targets[number]) && ten_holding_may_work(&held->holding, now_ms);
}

size_t ten_fleet_owned_count(const ten_fleet *fleet) {
    return fleet->held.count;
}

const char *ten_fleet_holder_of(const ten_fleet *fleet, uint32_t target) {
    uint32_t holder = fleet->targets[target].holder;
    return holder < fleet->instance_room ? ten_plan_instance_id(fleet->plan, holder) : NULL;
}
