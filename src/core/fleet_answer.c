/*
 * The fleet: what an answer means, and what a missing answer means. Called by the runtime and by the simulator when a
 * request has been answered or has failed.
 */
#include <string.h>

#include "core/fleet_state.h"

#define STRIKES_MAX      10u
#define KEEP_MIN_MS      100u
#define KEEP_MAX_TTLS    16u  /* what was slow to take its targets is tried again */
#define RENEWED_TOLD_MAX 100u /* up to so many renewals of one request have an event each */

/* ---- the answer */

static uint64_t jittered(ten_fleet *fleet, uint64_t interval_ms) {
    return interval_ms - ten_jitter(&fleet->random, interval_ms / 10 + 1);
}

/* The lease is held, or held for longer. */
static void note_confirmed(ten_fleet *fleet, uint32_t number) {
    ten_fleet_note(fleet, number, fleet->self, 0, TEN_NEWS_NONE);
    ten_fleet_enter_order(fleet, number);
    ten_fleet_changed(fleet, number);
}

static void note_granted(ten_fleet *fleet, uint32_t number, const ten_result *result) {
    ten_event_queue_publish(fleet->config.events,
                            &(ten_fact){.kind = TEN_FACT_GRANTED, .target = number, .result = result});
    struct ten_fleet_target *target = &fleet->targets[number];
    bool was_held = target->holder != TEN_NOBODY && target->holder != fleet->self;
    note_confirmed(fleet, number);
    if (!ten_fleet_is_claimed(target) && ten_plan_holder(fleet->plan, number) != fleet->self) {
        /* This instance released it for the planned holder, which did not take it. */
        if (target->handed_over && target->strikes < STRIKES_MAX)
            target->strikes++;
        struct ten_fleet_held *held = ten_fleet_held(fleet, number);
        uint64_t keep_ms =
            ten_min_u64(ten_max_u64(fleet->config.settle_ms, KEEP_MIN_MS) << target->strikes,
                        ten_max_u64(KEEP_MAX_TTLS * fleet->config.timing.ttl_ms, fleet->config.settle_ms));
        held->keep_ms = (uint32_t)ten_min_u64(fleet->now_ms - held->holding.acquired_ms + keep_ms, UINT32_MAX);
    }
    target->handed_over = false;
    ten_fleet_tell_end(fleet, number, TENURE_EVENT_ACQUIRED,
                       was_held ? TEN_REASON_EXPIRED : (enum ten_reason)target->end_reason);
    target->end_reason = TEN_REASON_NONE;
    /* It is decided about it again: there may be a reason to release it by now. */
}

/* Of a request that renews many there is one event for all. */
static bool tells_each(const ten_fleet *fleet) {
    return fleet->request.count <= RENEWED_TOLD_MAX && (!fleet->session.used || fleet->held.count <= RENEWED_TOLD_MAX);
}

void ten_fleet_renewed(ten_fleet *fleet, uint32_t number, enum ten_ask ask) {
    note_confirmed(fleet, number);
    fleet->request.renewed_count++;
    if (fleet->request.tells_each)
        ten_fleet_tell_end(fleet, number, TENURE_EVENT_RENEWED, TEN_REASON_NONE);
    if (ask == TEN_ASK_RESIGN)
        ten_fleet_unclaim(fleet, fleet->now_ms, number);
}

/* The holder of a target that this instance does not hold. If the store names this very instance, the lease is barred:
 * it is treated like that of an unknown holder. */
static uint32_t holder_number(const ten_fleet *fleet, const char *holder) {
    uint32_t number = holder ? ten_plan_find_instance(fleet->plan, holder) : TEN_NOBODY;
    return holder && (number == TEN_NOBODY || number == fleet->self) ? TEN_OUTSIDER : number;
}

static void note_refused(ten_fleet *fleet, uint32_t number, const ten_meaning *meaning, const ten_result *result) {
    tenure_event event = {
        .kind = TENURE_EVENT_ACQUIRE_FAILED, .error = meaning->error, .remaining_ms = result->remaining_ms};
    const char *holder = meaning->error == TENURE_E_HELD ? result->holder : NULL;
    if (meaning->error == TENURE_E_HELD) {
        uint32_t other = result->recovering || !holder ? TEN_OUTSIDER : holder_number(fleet, holder);
        if (other < fleet->instance_room)
            fleet->instances[other].active_ms = fleet->now_ms;
        /* If it was handed over, it was tried after the first term: the holder has confirmed it. */
        ten_fleet_note(fleet, number, other, meaning->free_ms, TEN_NEWS_NONE);
        if (result->recovering) {
            event.kind = TENURE_EVENT_RECOVERING;
            fleet->view.recovering_until_ms = ten_max_u64(fleet->view.recovering_until_ms, meaning->free_ms);
        }
    } else {
        /* The tokens are used up, or the instance was declared gone: trying again at once would not help. */
        ten_fleet_note(fleet, number, TEN_OUTSIDER, fleet->now_ms + fleet->config.timing.ttl_ms, TEN_NEWS_BARREN);
    }
    ten_event_queue_put_about(fleet->config.events, event, ten_plan_target_id(fleet->plan, number), holder);
    if (meaning->error == TENURE_E_GONE)
        fleet->end.refused = true;
}

/* The planned holder has the first turn, and this instance waits from now on by its rank. If the planned holder has the
 * target already, but does not take it, that lease ends, and this instance may get its turn. */
static void note_released(ten_fleet *fleet, uint32_t number, const ten_meaning *meaning, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    bool handed = meaning->outcome == TEN_HOLDING_HANDED;
    if (meaning->reason != TEN_REASON_FORCED) /* its end was reported when it was lost */
        ten_fleet_tell_end(fleet, number, TENURE_EVENT_RELEASED, meaning->reason);
    target->end_reason = (uint8_t)meaning->reason;
    target->handed_over = meaning->reason == TEN_REASON_REBALANCE || meaning->reason == TEN_REASON_DRAIN;
    if (handed)
        ten_fleet_note(fleet, number, holder_number(fleet, result->holder), meaning->free_ms, TEN_NEWS_HANDED);
    else
        ten_fleet_note(fleet, number, TEN_NOBODY, fleet->now_ms, TEN_NEWS_NONE);
    ten_fleet_fail(fleet, number);
}

static void answer_target(ten_fleet *fleet, uint32_t number, const ten_result *result) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    ten_holding *holding = &held->holding;
    ten_fleet_look(fleet, number); /* decisions were put off while the operation was in flight */
    uint64_t sent_ms = ten_fleet_belief_ms(fleet, result);
    ten_meaning meaning = ten_holding_answer(holding, &fleet->config.timing, sent_ms, fleet->now_ms, result);
    if (meaning.outcome == TEN_HOLDING_GRANTED || meaning.outcome == TEN_HOLDING_RENEWED ||
        meaning.outcome == TEN_HOLDING_LATE) {
        held->on_session = fleet->config.sessions && result->session != 0;
        if (held->in_order)
            ten_fleet_set_check(fleet, held, TEN_FLEET_SURE);
    }
    switch (meaning.outcome) {
    case TEN_HOLDING_GRANTED:
        holding->acquired_ms = fleet->request.sent_ms;
        note_granted(fleet, number, result);
        break;
    case TEN_HOLDING_RENEWED:
        ten_fleet_renewed(fleet, number, result->ask);
        break;
    case TEN_HOLDING_LATE:
        if (ten_holding_expire(holding, fleet->now_ms))
            ten_fleet_lost(fleet, number, TEN_REASON_EXPIRED);
        break;
    case TEN_HOLDING_REFUSED:
        note_refused(fleet, number, &meaning, result);
        break;
    case TEN_HOLDING_BARRED:
    case TEN_HOLDING_LOST:
        ten_fleet_note(fleet, number, holder_number(fleet, result->holder), meaning.free_ms, TEN_NEWS_NONE);
        ten_fleet_lost(fleet, number, meaning.reason);
        break;
    case TEN_HOLDING_RELEASED:
    case TEN_HOLDING_HANDED:
        note_released(fleet, number, &meaning, result);
        break;
    case TEN_HOLDING_SPENT: /* it is released with the next request */
    case TEN_HOLDING_IGNORED:
    case TEN_HOLDING_KEPT: /* only elections keep */
    case TEN_HOLDING_UNKEPT:
        break;
    }
}

/* After an outage the heartbeats of all instances have expired. The first instance that is back sees no other: it
 * would take everything, and hand it over again a moment later. So it waits for the others, as after a start; what was
 * planned for it before has come with this request. */
static void note_heartbeat(ten_fleet *fleet) {
    if (fleet->own.announced && fleet->request.sent_ms >= fleet->own.beat_ms + fleet->config.timing.ttl_ms)
        fleet->own.start_ms = fleet->now_ms;
    fleet->own.beat_ms = fleet->request.sent_ms;
    fleet->own.next_beat_ms = fleet->request.sent_ms + jittered(fleet, fleet->config.timing.renew_ms);
}

static void refuse_for_good(ten_fleet *fleet, int error, uint64_t ttl_ms) {
    fleet->end.refused = true;
    ten_event_queue_put(fleet->config.events,
                        (tenure_event){.kind = TENURE_EVENT_REFUSED, .error = error, .remaining_ms = ttl_ms});
}

static void answer_heartbeat(ten_fleet *fleet, const ten_op *op, const ten_result *result) {
    if (op->kind == TEN_OP_LEAVE) {
        ten_fleet_leave(fleet);
        return;
    }
    if (result->outcome != TEN_OK) {
        refuse_for_good(fleet, result->error, result->ttl_ms);
        return;
    }
    note_heartbeat(fleet);
    ten_fleet_session_beaten(fleet, result);
    bool drain = result->ask == TEN_ASK_DRAIN;
    if (drain != fleet->own.drained) {
        fleet->own.drained = drain;
        ten_fleet_set_weight(fleet, fleet->now_ms, fleet->own.full_weight);
    }
    if (!fleet->own.announced) {
        fleet->self = ten_fleet_put_instance(fleet, fleet->config.instance, fleet->own.weight);
        if (fleet->self == TEN_NOBODY)
            return; /* out of memory: tried again with the next heartbeat */
        fleet->own.announced = true;
        fleet->own.start_ms = fleet->now_ms;
        fleet->view.next_list_ms = fleet->now_ms;
        ten_fleet_settle(fleet);
    }
    if (fleet->view.listed)
        ten_fleet_look_for_unowned(fleet);
}

/* The request may have taken effect or not. A renewal leaves the lease uncertain, with its old deadline. An acquire is
 * not held; the next try gets the same lease if this one was granted. A release is repeated, so that the others do not
 * have to wait for the lease to expire. */
static void answer_failure(ten_fleet *fleet, uint32_t number, int error) {
    if (ten_holding_unanswered(&ten_fleet_held(fleet, number)->holding)) {
        ten_fleet_changed(fleet, number);
        ten_fleet_tell(fleet, number, (tenure_event){.kind = TENURE_EVENT_RENEW_FAILED, .error = error});
    }
    ten_fleet_look(fleet, number);
}

void ten_fleet_answer(ten_fleet *fleet, int error, const ten_result *results) {
    TEN_INVARIANT(fleet->request.in_flight);
    fleet->request.in_flight = false;
    fleet->request.renewed_count = 0;
    fleet->request.tells_each = tells_each(fleet);
    ten_fleet_expire(fleet);
    for (uint32_t i = 0; i < fleet->request.count; i++) {
        uint32_t number = fleet->request.targets[i];
        if (number == TEN_NOBODY && error == TENURE_OK)
            answer_heartbeat(fleet, &fleet->request.ops[i], &results[i]);
        else if (fleet->request.ops[i].kind == TEN_OP_ANNOUNCE)
            ten_fleet_session_unanswered(fleet, error);
        else if (fleet->request.ops[i].kind == TEN_OP_READ)
            ten_fleet_session_read(fleet, number, error, error == TENURE_OK ? &results[i] : NULL);
        else if (number != TEN_NOBODY && error == TENURE_OK)
            answer_target(fleet, number, &results[i]);
        else if (number != TEN_NOBODY)
            answer_failure(fleet, number, error);
    }
    /* The settings do not fit those of the others: that will not be otherwise later. */
    if (error == TENURE_E_INVALID && !fleet->own.announced && !fleet->end.refused)
        refuse_for_good(fleet, error, 0);
    if (!fleet->request.tells_each && fleet->request.renewed_count > 0)
        ten_event_queue_put(fleet->config.events,
                            (tenure_event){.kind = TENURE_EVENT_RENEWED, .count = fleet->request.renewed_count});
    ten_fleet_settle(fleet);
}
