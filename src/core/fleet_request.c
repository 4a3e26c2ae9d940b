/*
 * The fleet: what to send next. Decides for each target that is due what it needs now, and builds the request. Called
 * by the runtime and by the simulator.
 */
#include <string.h>

#include "core/fleet_state.h"

#define CHECKING_RANKS 2u
#define SETTLE_TIMES   2u  /* so much longer a start waits for others that come */
#define BUSY_TTLS      10u /* so long at most one is waited for that takes other targets, but not this one */
#define PATIENT_RANKS  3u  /* those behind them follow each other faster */

/* ---- what a target needs now */

static uint64_t keep_until_ms(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    return held->keep_ms ? held->holding.acquired_ms + held->keep_ms : 0;
}

static enum ten_reason reason_to_release(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    if (ten_fleet_is_removed(target))
        return TEN_REASON_REMOVED;
    if (target->paused)
        return TEN_REASON_PAUSED;
    if (fleet->end.stopping)
        return TEN_REASON_SHUTDOWN;
    if (target->want == TEN_TARGET_UNCLAIMED)
        return TEN_REASON_DONE;
    if (ten_fleet_is_claimed(target))
        return TEN_REASON_NONE;
    uint32_t planned = ten_plan_holder(fleet->plan, number);
    if (planned == fleet->self || planned == TEN_NOBODY || !ten_fleet_is_eligible(fleet, planned))
        return TEN_REASON_NONE;
    if (fleet->now_ms < keep_until_ms(fleet, number))
        return TEN_REASON_NONE;
    if (fleet->now_ms < fleet->pins.rest_until_ms)
        return TEN_REASON_NONE;
    if (fleet->now_ms < fleet->view.recovering_until_ms)
        return TEN_REASON_NONE; /* the store does not grant leases to other instances yet */
    return fleet->own.weight == 0 ? TEN_REASON_DRAIN : TEN_REASON_REBALANCE;
}

/* When a held target may be handed over to its planned holder; UINT64_MAX: there is no other planned holder. */
static uint64_t handover_ms(const ten_fleet *fleet, uint32_t number) {
    uint32_t planned = ten_plan_holder(fleet->plan, number);
    if (planned == fleet->self || planned == TEN_NOBODY || ten_fleet_is_claimed(&fleet->targets[number]))
        return UINT64_MAX;
    uint64_t settled_ms =
        ten_max_u64(fleet->instances[planned].since_ms + fleet->config.settle_ms, fleet->view.recovering_until_ms);
    return ten_max_u64(settled_ms, ten_max_u64(keep_until_ms(fleet, number), fleet->pins.rest_until_ms));
}

static bool is_other_instance(uint32_t holder) {
    return holder != TEN_NOBODY && holder != TEN_OUTSIDER;
}

/* Until when the planned holder is waited for: it is given the time to settle after its start, and more as long as it
 * is seen to take something, since it may have much to take. One that has come after the target was free may be the
 * next of many that come and die soon: for all of them together it is waited only once. */
static uint64_t patience_ms(const ten_fleet *fleet, const struct ten_fleet_instance *planned, uint64_t free_ms) {
    bool newcomer = planned->since_ms > free_ms;
    uint64_t busy_ms = (newcomer ? 1 : BUSY_TTLS) * fleet->config.timing.ttl_ms;
    uint64_t settled_ms = ten_min_u64(planned->since_ms, free_ms) + fleet->config.settle_ms;
    return ten_max_u64(ten_min_u64(planned->active_ms, free_ms + busy_ms), settled_ms);
}

/* The planned holder has its turn when the target is free; the others have theirs later, rank by rank. They are there
 * for the case that it is alive and does not take it. Many of the first ranks can be dead and not be known to be, so
 * the ranks behind them do not wait a whole turn for each. */
static uint64_t turn_of_rank_ms(const ten_fleet *fleet, uint32_t planned, size_t rank, uint64_t free_ms) {
    if (rank == 0)
        return free_ms;
    if (planned != TEN_NOBODY)
        free_ms = ten_max_u64(free_ms, patience_ms(fleet, &fleet->instances[planned], free_ms));
    size_t first = ten_min_u64(rank, PATIENT_RANKS);
    return free_ms + first * fleet->fallback_ms + (rank - first) * fleet->config.rank_delay_ms;
}

/* After a start the other instances are not known yet: wait until they have been seen and the plan has settled. As long
 * as others come it has not, but a fleet that instances keep joining must begin, too. */
static uint64_t settled_ms(const ten_fleet *fleet) {
    uint64_t last_ms = ten_min_u64(fleet->view.joined_ms, fleet->own.start_ms + SETTLE_TIMES * fleet->config.settle_ms);
    return ten_max_u64(fleet->own.start_ms, last_ms) + fleet->config.settle_ms;
}

/* Its own heartbeat has expired, and the next one is not confirmed yet. */
static bool was_away(const ten_fleet *fleet) {
    return fleet->now_ms >= fleet->own.beat_ms + fleet->config.timing.ttl_ms;
}

/* When this instance may try to acquire a target that it does not hold; UINT64_MAX: not until something happens. */
static uint64_t turn_ms(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    if (ten_fleet_is_removed(target) || target->paused || fleet->end.stopping || !fleet->own.announced ||
        target->want == TEN_TARGET_UNCLAIMED)
        return UINT64_MAX;
    if (ten_fleet_is_claimed(target))
        return target->holder == TEN_NOBODY ? 0 : target->when_ms;
    if (fleet->own.weight == 0 || !fleet->view.listed)
        return UINT64_MAX;
    uint32_t planned = ten_plan_holder(fleet->plan, number);
    size_t rank = ten_plan_rank(fleet->plan, number, fleet->self);
    /* While the store was away the heartbeats of all have expired, and their leases with them. What is planned for
     * others is left to them until they have been seen again. */
    if (rank > 0 && was_away(fleet))
        return fleet->now_ms + fleet->config.settle_ms;
    /* What was handed over to this instance is its own already. */
    uint64_t first_ms = ten_fleet_holding(fleet, number).stray ? 0 : settled_ms(fleet);
    uint64_t free_ms = target->when_ms;
    if (is_other_instance(target->holder)) {
        /* While its planned holder is alive, there is nothing to do: should that instance lose the target, it tries
         * again by itself. Any other holder may lose it unnoticed, since expiry is not announced: try now and then. Who
         * handed it over, and the first fallbacks, look whether the planned holder has confirmed it. */
        bool is_planned = target->holder == planned;
        bool checks = target->news == TEN_NEWS_HANDED && (target->handed_over || rank <= CHECKING_RANKS);
        if (is_planned && !checks && !fleet->instances[target->holder].foreign)
            return UINT64_MAX;
        if (!is_planned)
            free_ms += rank * fleet->config.timing.ttl_ms;
    }
    return turn_of_rank_ms(fleet, planned, rank, ten_max_u64(first_ms, free_ms));
}

void ten_fleet_add_op(ten_fleet *fleet, uint32_t number, ten_op op) {
    op.namespace_name = fleet->config.namespace_name;
    op.holder = fleet->config.instance;
    if (fleet->config.sessions && (op.kind == TEN_OP_ANNOUNCE || op.kind == TEN_OP_RELEASE || op.kind == TEN_OP_HAND))
        op.flags |= TEN_OP_SESSION;
    else if (op.kind == TEN_OP_ACQUIRE || op.kind == TEN_OP_RENEW)
        op.flags |= ten_fleet_session_flag(fleet);
    if (number != TEN_NOBODY)
        op.target = ten_plan_target_id(fleet->plan, number);
    fleet->request.ops[fleet->request.count] = op;
    fleet->request.targets[fleet->request.count++] = number;
}

static void add_release(ten_fleet *fleet, uint32_t number, enum ten_reason reason) {
    ten_fleet_add_op(fleet, number, ten_holding_release(&ten_fleet_held(fleet, number)->holding, reason, 0));
    ten_fleet_leave_order(fleet, number);
    ten_fleet_changed(fleet, number);
}

/* The instance to which a target is handed over; NULL: it is released for any. An instance of another program
 * would not notice. */
static const char *successor_of(const ten_fleet *fleet, uint32_t number, enum ten_reason reason) {
    uint32_t planned = ten_plan_holder(fleet->plan, number);
    if (!fleet->config.hands || (reason != TEN_REASON_REBALANCE && reason != TEN_REASON_DRAIN) ||
        planned == TEN_NOBODY || fleet->instances[planned].foreign)
        return NULL;
    return ten_plan_instance_id(fleet->plan, planned);
}

static void add_hand(ten_fleet *fleet, uint32_t number, enum ten_reason reason, const char *successor) {
    ten_holding *holding = &ten_fleet_held(fleet, number)->holding;
    ten_fleet_add_op(fleet, number, ten_holding_hand(holding, reason, successor, fleet->config.timing.ttl_ms));
    ten_fleet_leave_order(fleet, number);
    ten_fleet_changed(fleet, number);
}

/* A target that is held: closes it if there is a reason to release it, and releases it when its work has stopped. */
static void look_at_held(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    enum ten_reason reason = reason_to_release(fleet, number);
    if (reason == TEN_REASON_NONE) {
        if (held->holding.state == TEN_HOLDING_CLOSING) {
            ten_holding_reopen(&held->holding);
            ten_fleet_changed(fleet, number);
        }
        uint64_t at_ms = handover_ms(fleet, number);
        if (at_ms != UINT64_MAX && at_ms > fleet->now_ms)
            ten_timers_set(&fleet->looks, number, at_ms);
        return;
    }
    if (held->holding.state != TEN_HOLDING_CLOSING) {
        ten_holding_close(&held->holding);
        ten_fleet_changed(fleet, number);
        ten_fleet_tell_end(fleet, number, TENURE_EVENT_STOP, reason);
    }
    if (held->busy)
        return;
    const char *successor = successor_of(fleet, number, reason);
    if (successor)
        add_hand(fleet, number, reason, successor);
    else
        add_release(fleet, number, reason);
}

/* What is in the store under this token is not wanted: releases it. */
static void disown(ten_fleet *fleet, struct ten_fleet_held *held, uint32_t number, uint64_t token,
                   enum ten_reason reason) {
    ten_holding_disown(&held->holding, token, reason);
    add_release(fleet, number, reason);
}

static void look_at_removed(ten_fleet *fleet, uint32_t number) {
    bool stray = ten_fleet_holding(fleet, number).stray;
    struct ten_fleet_held *held = stray ? ten_fleet_hold(fleet, number) : ten_fleet_held(fleet, number);
    if (held && stray) /* handed over to this instance, for example */
        disown(fleet, held, number, held->holding.known_token, TEN_REASON_DONE);
    else if (held && held->holding.expired)
        disown(fleet, held, number, held->holding.token, TEN_REASON_EXPIRED);
    else
        ten_fleet_forget(fleet, number);
}

static void add_acquire(ten_fleet *fleet, struct ten_fleet_held *held, uint32_t number) {
    ten_op op = ten_holding_acquire(&held->holding, &fleet->config.timing);
    op.flags = fleet->config.checkpoints ? TEN_OP_WITH_CHECKPOINT : 0;
    ten_fleet_add_op(fleet, number, op);
}

static void look_at_free(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    bool busy = held && held->busy;
    if (ten_fleet_is_removed(&fleet->targets[number]) && !busy) {
        look_at_removed(fleet, number);
        return;
    }
    uint64_t at_ms = turn_ms(fleet, number);
    bool now = at_ms <= fleet->now_ms && !busy;
    bool stray = ten_fleet_holding(fleet, number).stray;
    /* A lease that was forced keeps others out, and is released as soon as its work has stopped. One that has expired
     * may live on in the store with its session, and would never end; but not while the store was away. */
    bool forced = fleet->targets[number].end_reason == TEN_REASON_FORCED;
    bool left = held && (held->on_session || forced) && held->holding.expired && !busy && !(now && was_away(fleet));
    uint64_t ends_ms = fleet->targets[number].when_ms; /* unless another instance has it by now */
    if (left && ends_ms <= fleet->now_ms) {
        disown(fleet, held, number, held->holding.token, forced ? TEN_REASON_FORCED : TEN_REASON_EXPIRED);
        return;
    }
    if (left)
        at_ms = ten_min_u64(at_ms, ends_ms);
    if (!now && !stray) {
        if (at_ms != UINT64_MAX && !busy)
            ten_timers_set(&fleet->looks, number, at_ms);
        return;
    }
    held = ten_fleet_hold(fleet, number);
    if (!held) /* out of memory: try again later */
        ten_timers_set(&fleet->looks, number, fleet->now_ms + ten_max_u64(fleet->config.timing.renew_ms / 8, 1));
    else if (now)
        add_acquire(fleet, held, number);
    else /* A late acquire of this instance reached the store after it had given up waiting for the answer, and the
          * target is not wanted now. The other instances assume that a holder works on what it holds. */
        disown(fleet, held, number, held->holding.known_token, TEN_REASON_DONE);
}

/* Decides what one target needs now; may add an operation to the request. */
static void look_at(ten_fleet *fleet, uint32_t number) {
    if (!ten_fleet_is_known(&fleet->targets[number]) || ten_fleet_flight(fleet, number) != TEN_FLIGHT_NONE)
        return;
    const struct ten_fleet_held *held = ten_fleet_held(fleet, number);
    if (held && held->holding.state == TEN_HOLDING_RELEASING)
        add_release(fleet, number, TEN_REASON_NONE);
    else if (held && ten_holding_is_held(&held->holding))
        look_at_held(fleet, number);
    else
        look_at_free(fleet, number);
    ten_fleet_let_go(fleet, number);
}

/* ---- the request */

/* What is renewed one by one for the sake of the session goes with a heartbeat: a lease is put on the session only if
 * it does not end earlier by that. */
static bool add_heartbeat(ten_fleet *fleet) {
    if (fleet->now_ms < fleet->own.next_beat_ms && fleet->held.unsure == 0)
        return false;
    ten_fleet_add_op(fleet, TEN_NOBODY,
                     (ten_op){.kind = TEN_OP_ANNOUNCE,
                              .ttl_ms = fleet->config.timing.ttl_ms,
                              .weight = fleet->own.weight,
                              .metadata = fleet->config.metadata});
    return true;
}

void ten_fleet_add_renewal(ten_fleet *fleet, uint32_t number) {
    ten_fleet_add_op(fleet, number,
                     ten_holding_renew(&ten_fleet_held(fleet, number)->holding, &fleet->config.timing, 0));
}

/* The oldest first, together with those that are due soon, so that renewals stay in few batches. */
static void add_renewals(ten_fleet *fleet) {
    uint64_t soon_ms = fleet->now_ms + fleet->config.timing.renew_ms / 8;
    /* Renewals are sent together with the heartbeat where possible. Then an instance and its leases expire at the same
     * time, and the other instances, who know when the heartbeat expires, take over at that moment. */
    uint64_t due_ms = fleet->now_ms + (fleet->request.count > 0 ? fleet->config.timing.renew_ms / 2 : 0);
    uint32_t number = fleet->held.oldest;
    while (number != TEN_NOBODY && fleet->request.count < fleet->config.batch_max) {
        struct ten_fleet_held *held = ten_fleet_held(fleet, number);
        if (held->holding.sent_ms + fleet->config.timing.renew_ms > due_ms)
            return;
        if (held->holding.flight == TEN_FLIGHT_NONE && !held->on_session) {
            due_ms = ten_max_u64(due_ms, soon_ms);
            ten_fleet_add_renewal(fleet, number);
        }
        number = held->newer;
    }
}

/* Nothing is held, worked on, still to be released or handed over to it unheard: the instance may leave. */
static bool is_stopped(const ten_fleet *fleet, uint64_t now_ms) {
    if (!fleet->end.stopping || fleet->held.count > 0 || (!fleet->end.parted && now_ms < fleet->end.part_until_ms))
        return false;
    if (fleet->own.announced && !fleet->end.leaving && ten_timers_next(&fleet->looks) <= now_ms)
        return false; /* the feed may just have brought what was handed over to it */
    for (uint32_t i = 0; i < fleet->held.bound; i++)
        if (fleet->held.list[i].used &&
            (fleet->held.list[i].busy || fleet->held.list[i].holding.state == TEN_HOLDING_RELEASING))
            return false;
    return true;
}

static void add_looks(ten_fleet *fleet) {
    uint32_t number;
    while (fleet->request.count < fleet->config.batch_max && ten_timers_take(&fleet->looks, fleet->now_ms, &number))
        look_at(fleet, number);
}

void ten_fleet_leave(ten_fleet *fleet) {
    fleet->end.left = true;
    ten_event_queue_put(fleet->config.events, (tenure_event){.kind = TENURE_EVENT_STOPPED});
}

/* With a tombstone: a heartbeat or an acquire that is still in flight must not bring the instance back. */
static void add_leave(ten_fleet *fleet) {
    fleet->end.leaving = true;
    if (!fleet->request.asked)
        ten_fleet_leave(fleet);
    else
        ten_fleet_add_op(
            fleet, TEN_NOBODY,
            (ten_op){.kind = TEN_OP_LEAVE, .ttl_ms = fleet->config.timing.ttl_ms, .reason = TEN_REASON_SHUTDOWN});
}

/* Before the targets have been read once, the others would plan with an instance that takes nothing, and hand over to
 * one that does not know what it gets. So it joins when it has read them. */
static bool is_ready(const ten_fleet *fleet) {
    return fleet->reading.complete || fleet->end.stopping;
}

/* A heartbeat and renewals go alone, because an acquire may have to wait in the store for what others do; but where
 * they are due all the time, the rest goes with every second request. After an outage everything goes at once. */
static bool has_room_for_looks(ten_fleet *fleet) {
    bool beats = fleet->now_ms < fleet->own.beat_ms + fleet->config.timing.ttl_ms;
    fleet->request.alone = fleet->request.count > 0 && beats && !fleet->request.alone && !fleet->end.stopping;
    return !fleet->request.alone && (fleet->end.stopping || !ten_fleet_is_gathering(fleet));
}

static void add_ops(ten_fleet *fleet) {
    bool beats = add_heartbeat(fleet);
    if (!fleet->own.announced)
        return;
    ten_fleet_add_session_checks(fleet, beats);
    add_renewals(fleet);
    if (has_room_for_looks(fleet))
        add_looks(fleet);
}

const ten_op *ten_fleet_request(ten_fleet *fleet, size_t *ret_count) {
    ten_fleet_expire(fleet);
    TEN_INVARIANT(!fleet->request.in_flight);
    if (fleet->end.refused || fleet->end.left || !is_ready(fleet))
        return NULL;
    fleet->request.count = 0;
    ten_fleet_settle(fleet);
    if (!is_stopped(fleet, fleet->now_ms))
        add_ops(fleet);
    if (fleet->request.count == 0 && is_stopped(fleet, fleet->now_ms))
        add_leave(fleet);
    if (fleet->request.count == 0)
        return NULL;
    fleet->request.in_flight = true;
    fleet->request.asked = true;
    fleet->request.sent_ms = fleet->now_ms;
    *ret_count = fleet->request.count;
    return fleet->request.ops;
}

/* ---- when */

/* When a heartbeat or a renewal is due. */
static uint64_t urgent_ms(const ten_fleet *fleet) {
    if (!is_ready(fleet))
        return UINT64_MAX;
    if (fleet->held.oldest == TEN_NOBODY || !fleet->own.announced)
        return fleet->own.next_beat_ms;
    if (fleet->held.unsure > 0)
        return 0;
    return ten_min_u64(fleet->own.next_beat_ms,
                       ten_fleet_held(fleet, fleet->held.oldest)->holding.sent_ms + fleet->config.timing.renew_ms);
}

static uint64_t next_ms(const ten_fleet *fleet, uint64_t now_ms, uint64_t urgent) {
    if (is_stopped(fleet, now_ms))
        return now_ms;
    if (!fleet->own.announced)
        return urgent;
    uint64_t part_ms = fleet->end.stopping && now_ms < fleet->end.part_until_ms ? fleet->end.part_until_ms : UINT64_MAX;
    return ten_min_u64(ten_min_u64(urgent, part_ms),
                       ten_max_u64(ten_timers_next(&fleet->looks), fleet->end.stopping ? 0 : fleet->reading.until_ms));
}

void ten_fleet_due(const void *part, uint64_t now_ms, ten_part_due *due) {
    const ten_fleet *fleet = part;
    due->deadline_ms = ten_fleet_deadline_ms(fleet);
    due->reread_ms = ten_fleet_reread_ms(fleet);
    if (fleet->end.refused || fleet->end.left)
        return;
    due->urgent_ms = urgent_ms(fleet);
    due->next_ms = next_ms(fleet, now_ms, due->urgent_ms);
    if (fleet->own.announced)
        due->instances_ms = fleet->view.next_list_ms;
}
