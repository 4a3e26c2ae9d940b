/*
 * The fleet: what to send next, and what an answer means. Called by the runtime and by the simulator. What others do,
 * and the plan, is fleet_view.c's part.
 */
#include "core/fleet.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "core/fleet_state.h"

#define BATCH_MAX_DEFAULT 1000u
#define RANK_DELAY_MIN_MS 20u
#define BACKOFF_MIN_MS    50u
#define STRIKES_MAX       6u
#define RENEWED_TOLD_MAX  100u

/* ---- small things */

uint64_t ten_fleet_random(ten_fleet *fleet, uint64_t below) {
    fleet->random += UINT64_C(0x9e3779b97f4a7c15);
    return below ? ten_hash_mix(fleet->random) % below : 0;
}

void ten_fleet_tell(ten_fleet *fleet, ten_fleet_event event) {
    if (fleet->event_count == fleet->event_room) {
        uint32_t room = fleet->event_room ? fleet->event_room * 2 : 64;
        ten_fleet_event *events = ten_malloc(room * sizeof *events);
        if (!events)
            return; /* what is owned is not told by events alone: nothing depends on one */
        for (uint32_t i = 0; i < fleet->event_count; i++)
            events[i] = fleet->events[(fleet->event_first + i) % fleet->event_room];
        ten_free(fleet->events);
        fleet->events = events;
        fleet->event_room = room;
        fleet->event_first = 0;
    }
    fleet->events[(fleet->event_first + fleet->event_count++) % fleet->event_room] = event;
}

bool ten_fleet_event_take(ten_fleet *fleet, ten_fleet_event *ret_event) {
    if (fleet->event_count == 0)
        return false;
    *ret_event = fleet->events[fleet->event_first];
    fleet->event_first = (fleet->event_first + 1) % fleet->event_room;
    fleet->event_count--;
    return true;
}

static void tell_target(ten_fleet *fleet, enum ten_fleet_event_kind kind, uint32_t number, enum ten_reason reason,
                        int error) {
    ten_fleet_tell(fleet, (ten_fleet_event){.kind = kind,
                                            .target = number,
                                            .token = fleet->targets[number].lease.token,
                                            .reason = reason,
                                            .error = error});
}

void ten_fleet_look(ten_fleet *fleet, uint32_t number) {
    ten_timers_set(&fleet->looks, number, fleet->now_ms);
}

static bool is_owned(const struct ten_fleet_target *target) {
    return target->lease.deadline_ms != 0;
}

/* ---- owned targets, the oldest renewal first */

static void leave_order(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_target *target = &fleet->targets[number];
    if (!target->in_order)
        return;
    if (target->older != TEN_NOBODY)
        fleet->targets[target->older].newer = target->newer;
    else
        fleet->oldest = target->newer;
    if (target->newer != TEN_NOBODY)
        fleet->targets[target->newer].older = target->older;
    else
        fleet->newest = target->older;
    target->in_order = false;
    fleet->owned_count--;
}

static void enter_order(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_target *target = &fleet->targets[number];
    leave_order(fleet, number);
    target->older = fleet->newest;
    target->newer = TEN_NOBODY;
    if (fleet->newest != TEN_NOBODY)
        fleet->targets[fleet->newest].newer = number;
    else
        fleet->oldest = number;
    fleet->newest = number;
    target->in_order = true;
    fleet->owned_count++;
}

static void forget(ten_fleet *fleet, uint32_t number) {
    ten_timers_clear(&fleet->looks, number);
    fleet->targets[number] = (struct ten_fleet_target){.holder = TEN_NOBODY};
    if (ten_plan_target_id(fleet->plan, number))
        ten_plan_remove_target(fleet->plan, number);
}

/* No longer owned, for whatever reason: nothing of it is believed, and it is looked at anew. */
static void let_down(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_target *target = &fleet->targets[number];
    leave_order(fleet, number);
    target->closing = false;
    target->unclaimed = false;
    target->keep_until_ms = 0;
    /* While a request about it is under way its number and its name are still needed. */
    if (target->removed && !target->busy && target->flight == TEN_FLIGHT_NONE)
        forget(fleet, number);
    else
        ten_fleet_look(fleet, number);
}

void ten_fleet_lose(ten_fleet *fleet, uint32_t number, enum ten_reason reason) {
    struct ten_fleet_target *target = &fleet->targets[number];
    tell_target(fleet, TEN_FLEET_LOST, number, reason, 0);
    ten_lease_lost(&target->lease);
    if (target->holder == fleet->self) {
        target->holder = TEN_NOBODY;
        target->free_ms = fleet->now_ms;
    }
    let_down(fleet, number);
}

static void expire(ten_fleet *fleet) {
    while (fleet->oldest != TEN_NOBODY && !TEN_MUTANT(NO_DEADLINE)) {
        const struct ten_fleet_target *target = &fleet->targets[fleet->oldest];
        if (target->lease.deadline_ms > fleet->now_ms)
            return;
        ten_fleet_lose(fleet, fleet->oldest, TEN_REASON_EXPIRED);
    }
}

/* ---- what a target needs now */

static enum ten_reason reason_to_release(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    if (target->removed || (target->paused && !TEN_MUTANT(PAUSE_IGNORED)))
        return TEN_REASON_REMOVED;
    if (fleet->stopping && !TEN_MUTANT(STOP_FORGETS))
        return TEN_REASON_SHUTDOWN;
    if (target->unclaimed)
        return TEN_REASON_DONE;
    if (target->claimed || TEN_MUTANT(NO_HANDOVER))
        return TEN_REASON_NONE;
    uint32_t planned = ten_plan_owner(fleet->plan, number);
    if (planned == fleet->self || planned == TEN_NOBODY || !ten_fleet_is_eligible(fleet, planned))
        return TEN_REASON_NONE;
    if (fleet->now_ms < target->keep_until_ms && !TEN_MUTANT(PING_PONG))
        return TEN_REASON_NONE;
    return fleet->weight == 0 ? TEN_REASON_DRAIN : TEN_REASON_REBALANCE;
}

/* When an owned target that is planned for another may be handed over; UINT64_MAX: nobody to hand it to. */
static uint64_t handover_ms(const ten_fleet *fleet, uint32_t number) {
    uint32_t planned = ten_plan_owner(fleet->plan, number);
    if (planned == fleet->self || planned == TEN_NOBODY || fleet->targets[number].claimed)
        return UINT64_MAX;
    return ten_max_u64(fleet->peers[planned].since_ms + fleet->settle_ms, fleet->targets[number].keep_until_ms);
}

static bool is_peer(uint32_t holder) {
    return holder != TEN_NOBODY && holder != TEN_OUTSIDER;
}

/* When it is this instance's turn to try for a target that it does not own; UINT64_MAX: not until something happens. */
static uint64_t turn_ms(const ten_fleet *fleet, uint32_t number) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    if (target->removed || (target->paused && !TEN_MUTANT(PAUSE_IGNORED)) || fleet->stopping || !fleet->announced ||
        target->unclaimed)
        return UINT64_MAX;
    if (target->claimed)
        return target->held_until_ms;
    if (target->unplanned || fleet->weight == 0 || !fleet->listed)
        return UINT64_MAX;
    size_t rank = ten_plan_rank(fleet->plan, number, fleet->self);
    if (rank > 0 && TEN_MUTANT(NO_FALLBACK))
        return UINT64_MAX;
    /* Nobody knows that fleet yet: give it the time to show itself, and the plan the time to settle. */
    uint64_t first_ms = fleet->start_ms + fleet->settle_ms;
    uint64_t free_ms = target->holder == TEN_NOBODY ? target->free_ms : target->held_until_ms;
    if (target->holder != TEN_NOBODY && TEN_MUTANT(NO_RETRY_AT_END))
        return UINT64_MAX;
    if (is_peer(target->holder)) {
        /* In good hands, as long as that instance lives: the planned one tries again by itself should it lose the
         * target. Of another nobody knows that, since an expiry is not announced: then one asks now and then. */
        if (target->holder == ten_plan_owner(fleet->plan, number))
            return UINT64_MAX;
        free_ms += rank * fleet->timing.ttl_ms;
    }
    return ten_max_u64(first_ms, free_ms) + (TEN_MUTANT(NO_STAGGER) ? 0 : rank * fleet->rank_delay_ms);
}

static void add_op(ten_fleet *fleet, uint32_t number, enum ten_flight flight, ten_op op) {
    op.namespace_name = fleet->namespace_name;
    op.holder = fleet->instance;
    if (number != TEN_NOBODY) {
        op.target = ten_plan_target_id(fleet->plan, number);
        fleet->targets[number].flight = (uint8_t)flight;
    }
    fleet->ops[fleet->op_count] = op;
    fleet->op_targets[fleet->op_count++] = number;
}

static void add_release(ten_fleet *fleet, uint32_t number, enum ten_reason reason) {
    struct ten_fleet_target *target = &fleet->targets[number];
    target->release_reason = (uint8_t)reason;
    target->unreleased = true;
    target->stray = false;
    target->released_token = target->lease.token;
    add_op(fleet, number, TEN_FLIGHT_RELEASE,
           (ten_op){.kind = TEN_OP_RELEASE, .token = target->lease.token, .reason = reason});
    /* From the moment that it is sent nothing is believed, whatever becomes of it. */
    if (!TEN_MUTANT(RELEASE_NOT_BELIEVED)) {
        ten_lease_released(&target->lease);
        leave_order(fleet, number);
    }
}

/* Decides what to do about one target, now; may add an operation to the request. */
static void look_at(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_target *target = &fleet->targets[number];
    if (!target->known || target->flight != TEN_FLIGHT_NONE)
        return;
    if (target->unreleased) {
        add_release(fleet, number, (enum ten_reason)target->release_reason);
        return;
    }
    if (is_owned(target)) {
        enum ten_reason reason = reason_to_release(fleet, number);
        if (reason == TEN_REASON_NONE) {
            target->closing = false;
            uint64_t at_ms = handover_ms(fleet, number);
            if (at_ms != UINT64_MAX && at_ms > fleet->now_ms)
                ten_timers_set(&fleet->looks, number, at_ms);
            return;
        }
        if (!target->closing)
            tell_target(fleet, TEN_FLEET_STOP, number, reason, 0);
        target->closing = true;
        if (!target->busy || TEN_MUTANT(RELEASE_BEFORE_STOP))
            add_release(fleet, number, reason);
        return;
    }
    if (target->removed && !target->busy) {
        forget(fleet, number);
        return;
    }
    uint64_t at_ms = turn_ms(fleet, number);
    if (target->stray && (at_ms > fleet->now_ms || target->busy)) {
        /* Held for this instance, which does not want it: an acquire came to the store when nobody waited for it any
         * more. The others trust that a holder knows what it holds. */
        target->lease.token = target->known_token;
        add_release(fleet, number, TEN_REASON_DONE);
        return;
    }
    if (at_ms == UINT64_MAX)
        return;
    if (at_ms > fleet->now_ms || target->busy) {
        if (!target->busy)
            ten_timers_set(&fleet->looks, number, at_ms);
        return;
    }
    add_op(fleet, number, TEN_FLIGHT_ACQUIRE, (ten_op){.kind = TEN_OP_ACQUIRE, .ttl_ms = fleet->timing.ttl_ms});
}

/* ---- the request */

static void add_heartbeat(ten_fleet *fleet) {
    if (fleet->now_ms < fleet->next_beat_ms)
        return;
    add_op(fleet, TEN_NOBODY, TEN_FLIGHT_NONE,
           (ten_op){.kind = TEN_OP_ANNOUNCE, .ttl_ms = fleet->timing.ttl_ms, .weight = fleet->weight});
}

/* The oldest first, and with them what would be due soon, so that renewals stay together. */
static void add_renewals(ten_fleet *fleet) {
    if (TEN_MUTANT(NO_RENEWAL))
        return;
    uint64_t soon_ms = fleet->now_ms + fleet->timing.renew_ms / 8;
    uint64_t due_ms = fleet->op_count > 0 ? soon_ms : fleet->now_ms; /* they travel with the heartbeat */
    uint32_t number = fleet->oldest;
    while (number != TEN_NOBODY && fleet->op_count < fleet->batch_max) {
        struct ten_fleet_target *target = &fleet->targets[number];
        if (target->sent_ms + fleet->timing.renew_ms > due_ms)
            return;
        if (target->flight == TEN_FLIGHT_NONE) {
            due_ms = soon_ms;
            add_op(fleet, number, TEN_FLIGHT_RENEW,
                   (ten_op){.kind = TEN_OP_RENEW, .token = target->lease.token, .ttl_ms = fleet->timing.ttl_ms});
        }
        number = target->newer;
    }
}

/* Nothing is owned, worked on or still to be given back: it may leave. */
static bool is_stopped(const ten_fleet *fleet) {
    if (!fleet->stopping || fleet->owned_count > 0)
        return false;
    for (uint32_t i = 0; i < fleet->target_room; i++)
        if (fleet->targets[i].known && (fleet->targets[i].busy || fleet->targets[i].unreleased))
            return false;
    return true;
}

static void add_looks(ten_fleet *fleet) {
    uint32_t number;
    while (fleet->op_count < fleet->batch_max && ten_timers_take(&fleet->looks, fleet->now_ms, &number))
        look_at(fleet, number);
}

static void leave(ten_fleet *fleet) {
    fleet->left = true;
    ten_fleet_tell(fleet, (ten_fleet_event){.kind = TEN_FLEET_STOPPED, .target = TEN_NOBODY});
}

/* With a tombstone: a heartbeat or an acquire that is still under way must not bring it back. */
static void add_leave(ten_fleet *fleet) {
    if (!fleet->asked)
        leave(fleet);
    else
        add_op(fleet, TEN_NOBODY, TEN_FLIGHT_NONE,
               (ten_op){.kind = TEN_OP_LEAVE, .ttl_ms = fleet->timing.ttl_ms, .reason = TEN_REASON_SHUTDOWN});
}

const ten_op *ten_fleet_request(ten_fleet *fleet, uint64_t now_ms, size_t *ret_count) {
    fleet->now_ms = now_ms;
    expire(fleet);
    if (fleet->in_flight || fleet->refused || fleet->left || (now_ms < fleet->retry_ms && !TEN_MUTANT(NO_BACKOFF)))
        return NULL;
    fleet->op_count = 0;
    ten_fleet_settle(fleet);
    if (is_stopped(fleet)) {
        add_leave(fleet);
    } else {
        add_heartbeat(fleet);
        if (fleet->announced) {
            add_renewals(fleet);
            add_looks(fleet);
        }
    }
    if (fleet->op_count == 0)
        return NULL;
    fleet->in_flight = true;
    fleet->asked = true;
    fleet->sent_ms = now_ms;
    *ret_count = fleet->op_count;
    return fleet->ops;
}

uint32_t ten_fleet_request_target(const ten_fleet *fleet, size_t at) {
    return fleet->op_targets[at];
}

uint64_t ten_fleet_next_ms(const ten_fleet *fleet, uint64_t now_ms) {
    if (fleet->refused || fleet->left)
        return UINT64_MAX;
    uint64_t next_ms = UINT64_MAX;
    if (fleet->oldest != TEN_NOBODY)
        next_ms = fleet->targets[fleet->oldest].lease.deadline_ms;
    if (fleet->in_flight)
        return next_ms;
    uint64_t send_ms = ten_min_u64(fleet->next_beat_ms, fleet->next_list_ms);
    if (fleet->announced)
        send_ms = ten_min_u64(send_ms, ten_timers_next(&fleet->looks));
    if (fleet->oldest != TEN_NOBODY)
        send_ms = ten_min_u64(send_ms, fleet->targets[fleet->oldest].sent_ms + fleet->timing.renew_ms);
    if (is_stopped(fleet))
        send_ms = now_ms;
    return ten_min_u64(next_ms, ten_max_u64(send_ms, fleet->retry_ms));
}

/* ---- the answer */

static uint64_t jittered(ten_fleet *fleet, uint64_t interval_ms) {
    return interval_ms - ten_fleet_random(fleet, interval_ms / 10 + 1);
}

static void grant(ten_fleet *fleet, uint32_t number, bool renewal, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    bool was_owned = is_owned(target);
    bool stale = result->token == target->released_token || result->token < target->known_token;
    if (!renewal && stale && !TEN_MUTANT(STALE_GRANT_COUNTS)) {
        /* A store that lost data was given this lease back by a late renewal. Others have had higher tokens, or its
         * release is still under way: it is not to be trusted. Given back; the next grant has a higher token. */
        target->unreleased = true;
        target->lease.token = result->token;
        target->release_reason = TEN_REASON_STORE;
        ten_fleet_look(fleet, number);
        return;
    }
    uint64_t token = TEN_MUTANT(OLD_TOKEN) && target->lease.token ? target->lease.token : result->token;
    if (!ten_lease_granted(&target->lease, token, fleet->timing.ttl_ms, result->ttl_ms, fleet->timing.margin_ms,
                           fleet->sent_ms, fleet->now_ms)) {
        /* Over again before it was known. An acquire is tried again; a renewal ends at its old deadline. */
        if (!renewal)
            ten_fleet_look(fleet, number);
        return;
    }
    target->sent_ms = fleet->sent_ms;
    target->known_token = ten_max_u64(target->known_token, result->token);
    target->holder = fleet->self;
    target->held_until_ms = 0;
    target->stray = false;
    enter_order(fleet, number);
    if (renewal && was_owned) {
        if (fleet->op_count <= RENEWED_TOLD_MAX)
            tell_target(fleet, TEN_FLEET_RENEWED, number, TEN_REASON_NONE, 0);
        if (result->ask == TEN_ASK_RESIGN)
            ten_fleet_let_go(fleet, fleet->now_ms, number);
        return;
    }
    target->acquired_ms = fleet->sent_ms;
    if (!target->claimed && ten_plan_owner(fleet->plan, number) != fleet->self) {
        target->keep_until_ms = fleet->now_ms + (fleet->timing.ttl_ms << target->strikes);
        if (target->strikes < STRIKES_MAX)
            target->strikes++;
    }
    tell_target(fleet, TEN_FLEET_ACQUIRED, number, TEN_REASON_NONE, 0);
    ten_fleet_look(fleet, number); /* it may have become unwanted meanwhile */
}

/* Who holds a target that this instance does not have. Its own name: a barred lease, which is as good as another's. */
static uint32_t holder_number(const ten_fleet *fleet, const char *holder) {
    uint32_t number = holder ? ten_plan_find_instance(fleet->plan, holder) : TEN_NOBODY;
    return holder && (number == TEN_NOBODY || number == fleet->self) ? TEN_OUTSIDER : number;
}

static void answer_acquire(ten_fleet *fleet, uint32_t number, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    ten_fleet_event event = {.kind = TEN_FLEET_ACQUIRE_FAILED, .target = number, .remaining_ms = result->remaining_ms};
    if (result->outcome == TEN_OK || (result->outcome == TEN_HELD && TEN_MUTANT(HELD_IS_OK))) {
        ten_result granted = *result;
        if (TEN_MUTANT(HELD_IS_OK))
            granted.ttl_ms = fleet->timing.ttl_ms;
        grant(fleet, number, false, &granted);
        return;
    }
    if (result->outcome == TEN_HELD) {
        target->holder = result->recovering ? TEN_OUTSIDER : holder_number(fleet, result->holder);
        target->held_until_ms = fleet->now_ms + ten_max_u64(result->remaining_ms, 1);
        target->known_token = ten_max_u64(target->known_token, result->token);
        event.error = TENURE_E_HELD;
        if (result->recovering)
            event.kind = TEN_FLEET_RECOVERING;
        snprintf(event.other, sizeof event.other, "%s", result->holder ? result->holder : "");
    } else {
        event.error = result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET : result->error;
        /* Tokens used up, or declared gone: trying at once again would not help. */
        target->holder = TEN_OUTSIDER;
        target->held_until_ms = fleet->now_ms + fleet->timing.ttl_ms;
    }
    ten_fleet_tell(fleet, event);
    if (result->outcome == TEN_ERROR && result->error == TENURE_E_GONE)
        fleet->refused = true;
    ten_fleet_look(fleet, number);
}

static void answer_renewal(ten_fleet *fleet, uint32_t number, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    if (!is_owned(target))
        return; /* its deadline passed while the answer was under way */
    if (result->outcome == TEN_OK || TEN_MUTANT(LOST_IGNORED)) {
        ten_result granted = *result;
        if (TEN_MUTANT(LOST_IGNORED))
            granted = (ten_result){.outcome = TEN_OK, .token = target->lease.token, .ttl_ms = fleet->timing.ttl_ms};
        grant(fleet, number, true, &granted);
        return;
    }
    target->holder = holder_number(fleet, result->holder);
    target->held_until_ms = result->holder ? fleet->now_ms + ten_max_u64(result->remaining_ms, 1) : 0;
    target->free_ms = fleet->now_ms;
    ten_fleet_lose(fleet, number, TEN_REASON_TAKEN);
}

static void answer_release(ten_fleet *fleet, uint32_t number) {
    struct ten_fleet_target *target = &fleet->targets[number];
    ten_fleet_tell(fleet, (ten_fleet_event){.kind = TEN_FLEET_RELEASED,
                                            .target = number,
                                            .token = target->lease.token,
                                            .reason = (enum ten_reason)target->release_reason});
    if (TEN_MUTANT(RELEASE_NOT_BELIEVED) && is_owned(target))
        ten_lease_released(&target->lease);
    target->unreleased = false;
    target->holder = TEN_NOBODY;
    target->held_until_ms = 0;
    /* The one that it was released for has the first turn: this one counts from now, by its rank. */
    target->free_ms = fleet->now_ms;
    let_down(fleet, number);
}

static void answer_heartbeat(ten_fleet *fleet, const ten_op *op, const ten_result *result) {
    if (op->kind == TEN_OP_LEAVE) {
        leave(fleet);
        return;
    }
    if (result->outcome != TEN_OK) {
        fleet->refused = true;
        ten_fleet_tell(fleet, (ten_fleet_event){.kind = TEN_FLEET_REFUSED,
                                                .target = TEN_NOBODY,
                                                .error = result->error,
                                                .remaining_ms = result->ttl_ms});
        return;
    }
    fleet->next_beat_ms =
        TEN_MUTANT(NO_HEARTBEAT) ? UINT64_MAX : fleet->sent_ms + jittered(fleet, fleet->timing.renew_ms);
    bool drain = result->ask == TEN_ASK_DRAIN;
    if (drain != fleet->asked_to_drain) {
        fleet->asked_to_drain = drain;
        ten_fleet_set_weight(fleet, fleet->now_ms, fleet->own_weight);
    }
    if (!fleet->announced) {
        fleet->announced = true;
        fleet->start_ms = fleet->now_ms;
        fleet->self = ten_fleet_put_peer(fleet, fleet->instance, fleet->weight);
        fleet->next_list_ms = fleet->now_ms;
        ten_fleet_settle(fleet);
    }
}

static void note_failure(ten_fleet *fleet, int error) {
    if (!fleet->down)
        ten_fleet_tell(fleet, (ten_fleet_event){.kind = TEN_FLEET_STORE_DOWN, .target = TEN_NOBODY, .error = error});
    fleet->down = true;
    uint64_t backoff_ms = BACKOFF_MIN_MS << ten_min_u64(fleet->failures, 10);
    backoff_ms = ten_min_u64(backoff_ms, ten_max_u64(fleet->timing.renew_ms / 4, BACKOFF_MIN_MS));
    fleet->retry_ms = fleet->now_ms + backoff_ms / 2 + ten_fleet_random(fleet, backoff_ms / 2 + 1);
    fleet->failures++;
}

static void note_success(ten_fleet *fleet) {
    if (fleet->down)
        ten_fleet_tell(fleet, (ten_fleet_event){.kind = TEN_FLEET_STORE_UP, .target = TEN_NOBODY});
    fleet->down = false;
    fleet->failures = 0;
    fleet->retry_ms = 0;
}

/* Nobody knows what became of the request. Renewals: uncertain, the old deadline stays. Acquires: not held; asking
 * again recognises itself. Releases: not believed since they were sent; asked again, so that others need not wait. */
static void answer_failure(ten_fleet *fleet, uint32_t number, int error) {
    struct ten_fleet_target *target = &fleet->targets[number];
    enum ten_flight flight = (enum ten_flight)target->flight;
    target->flight = TEN_FLIGHT_NONE;
    if (flight == TEN_FLIGHT_RENEW && is_owned(target)) {
        if (target->lease.state == TEN_LEASE_OWNED)
            tell_target(fleet, TEN_FLEET_RENEW_FAILED, number, TEN_REASON_NONE, error);
        if (!TEN_MUTANT(UNCERTAIN_WORKS))
            ten_lease_renewal_failed(&target->lease);
    }
    ten_fleet_look(fleet, number);
}

static void answer_one(ten_fleet *fleet, uint32_t at, const ten_result *result) {
    uint32_t number = fleet->op_targets[at];
    if (number == TEN_NOBODY) {
        answer_heartbeat(fleet, &fleet->ops[at], result);
        return;
    }
    struct ten_fleet_target *target = &fleet->targets[number];
    enum ten_flight flight = (enum ten_flight)target->flight;
    target->flight = TEN_FLIGHT_NONE;
    if (flight != TEN_FLIGHT_NONE)
        ten_fleet_look(fleet, number); /* what was put off because of it */
    if (flight == TEN_FLIGHT_ACQUIRE)
        answer_acquire(fleet, number, result);
    else if (flight == TEN_FLIGHT_RENEW)
        answer_renewal(fleet, number, result);
    else if (flight == TEN_FLIGHT_RELEASE)
        answer_release(fleet, number);
}

void ten_fleet_answer(ten_fleet *fleet, uint64_t now_ms, int error, const ten_result *results) {
    TEN_INVARIANT(fleet->in_flight);
    fleet->now_ms = now_ms;
    fleet->in_flight = false;
    expire(fleet);
    if (error < 0 && TEN_MUTANT(ERROR_IS_OK)) {
        for (uint32_t i = 0; i < fleet->op_count; i++) {
            const ten_op *op = &fleet->ops[i];
            answer_one(fleet, i,
                       &(ten_result){.outcome = TEN_OK, .token = op->token ? op->token : 1, .ttl_ms = op->ttl_ms});
        }
        return;
    }
    for (uint32_t i = 0; i < fleet->op_count; i++) {
        if (error == TENURE_OK)
            answer_one(fleet, i, &results[i]);
        else if (fleet->op_targets[i] != TEN_NOBODY)
            answer_failure(fleet, fleet->op_targets[i], error);
    }
    if (error < 0)
        note_failure(fleet, error);
    else
        note_success(fleet);
    ten_fleet_settle(fleet);
}

/* ---- what the owner wants */

static bool make_room(ten_fleet *fleet, uint32_t number) {
    if (!ten_timers_reserve(&fleet->looks, number + 1))
        return false;
    if (number < fleet->target_room)
        return true;
    uint32_t room = fleet->target_room ? fleet->target_room * 2 : 16;
    while (room <= number)
        room *= 2;
    struct ten_fleet_target *targets = ten_realloc(fleet->targets, room * sizeof *targets);
    if (!targets)
        return false;
    for (uint32_t i = fleet->target_room; i < room; i++)
        targets[i] = (struct ten_fleet_target){.holder = TEN_NOBODY};
    fleet->targets = targets;
    fleet->target_room = room;
    return true;
}

/* The number of a target, which is made known if it was not; TEN_NOBODY: out of memory. */
static uint32_t make_known(ten_fleet *fleet, const char *id, bool unplanned) {
    uint32_t number = ten_plan_add_target(fleet->plan, id);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    if (!make_room(fleet, number)) {
        ten_plan_remove_target(fleet->plan, number);
        return TEN_NOBODY;
    }
    struct ten_fleet_target *target = &fleet->targets[number];
    if (!target->known)
        *target = (struct ten_fleet_target){
            .known = true, .holder = TEN_NOBODY, .free_ms = fleet->now_ms, .unplanned = unplanned};
    target->removed = false;
    return number;
}

uint32_t ten_fleet_put_target(ten_fleet *fleet, uint64_t now_ms, const char *id, bool paused) {
    fleet->now_ms = now_ms;
    uint32_t number = make_known(fleet, id, false);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    fleet->targets[number].unplanned = false;
    fleet->targets[number].paused = paused;
    ten_plan_set_aside(fleet->plan, number, paused);
    ten_fleet_look(fleet, number);
    return number;
}

void ten_fleet_targets_settled(ten_fleet *fleet, uint64_t now_ms) {
    fleet->now_ms = now_ms;
    ten_fleet_settle(fleet);
}

void ten_fleet_remove_target(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    fleet->targets[number].removed = true;
    fleet->targets[number].claimed = false;
    ten_plan_set_aside(fleet->plan, number, true);
    ten_fleet_look(fleet, number);
}

void ten_fleet_busy(ten_fleet *fleet, uint64_t now_ms, uint32_t number, bool busy) {
    fleet->now_ms = now_ms;
    fleet->targets[number].busy = busy;
    if (!busy)
        ten_fleet_look(fleet, number);
}

uint32_t ten_fleet_claim(ten_fleet *fleet, uint64_t now_ms, const char *id) {
    fleet->now_ms = now_ms;
    uint32_t number = make_known(fleet, id, true);
    if (number == TEN_NOBODY)
        return TEN_NOBODY;
    fleet->targets[number].claimed = true;
    ten_plan_set_aside(fleet->plan, number, fleet->targets[number].unplanned || fleet->targets[number].paused);
    fleet->targets[number].unclaimed = false;
    fleet->targets[number].held_until_ms = 0;
    ten_fleet_look(fleet, number);
    return number;
}

void ten_fleet_let_go(ten_fleet *fleet, uint64_t now_ms, uint32_t number) {
    fleet->now_ms = now_ms;
    fleet->targets[number].claimed = false;
    fleet->targets[number].unclaimed = is_owned(&fleet->targets[number]);
    if (fleet->targets[number].unplanned)
        fleet->targets[number].removed = true; /* nothing else keeps it here */
    ten_fleet_look(fleet, number);
}

void ten_fleet_set_weight(ten_fleet *fleet, uint64_t now_ms, uint32_t weight) {
    fleet->now_ms = now_ms;
    fleet->own_weight = weight;
    if (fleet->asked_to_drain)
        weight = 0;
    if (fleet->weight == weight)
        return;
    fleet->weight = weight;
    fleet->next_beat_ms = now_ms; /* the others plan by it */
    if (fleet->announced)
        ten_plan_set_instance(fleet->plan, fleet->instance, weight);
    ten_fleet_settle(fleet);
}

void ten_fleet_stop(ten_fleet *fleet, uint64_t now_ms) {
    fleet->now_ms = now_ms;
    fleet->stopping = true;
    if (fleet->refused && !fleet->left)
        leave(fleet);
    for (uint32_t number = fleet->oldest; number != TEN_NOBODY; number = fleet->targets[number].newer)
        ten_fleet_look(fleet, number);
}

/* ---- the handle, and looking */

ten_fleet *ten_fleet_new(const ten_fleet_config *config, uint64_t now_ms) {
    ten_fleet *fleet = ten_calloc(1, sizeof *fleet);
    if (!fleet)
        return NULL;
    fleet->timing = config->timing;
    fleet->settle_ms = config->settle_ms;
    fleet->rank_delay_ms =
        config->rank_delay_ms ? config->rank_delay_ms : ten_max_u64(config->timing.ttl_ms / 60, RANK_DELAY_MIN_MS);
    fleet->weight = fleet->own_weight = config->weight;
    fleet->batch_max = config->batch_max ? config->batch_max : BATCH_MAX_DEFAULT;
    fleet->random = config->seed;
    fleet->self = fleet->oldest = fleet->newest = TEN_NOBODY;
    fleet->now_ms = fleet->start_ms = fleet->next_beat_ms = now_ms;
    fleet->next_list_ms = UINT64_MAX;
    snprintf(fleet->instance, sizeof fleet->instance, "%s", config->instance);
    snprintf(fleet->namespace_name, sizeof fleet->namespace_name, "%s", config->namespace_name);
    fleet->plan = ten_fleet_make_plan(fleet);
    /* A heartbeat and a leave travel beside the batch. */
    fleet->ops = ten_calloc(fleet->batch_max + 2, sizeof *fleet->ops);
    fleet->op_targets = ten_calloc(fleet->batch_max + 2, sizeof *fleet->op_targets);
    if (!fleet->plan || !fleet->ops || !fleet->op_targets) {
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
    ten_free(fleet->peers);
    ten_free(fleet->ops);
    ten_free(fleet->op_targets);
    ten_free(fleet->events);
    ten_free(fleet);
}

const ten_plan *ten_fleet_plan(const ten_fleet *fleet) {
    return fleet->plan;
}

const ten_lease *ten_fleet_lease(const ten_fleet *fleet, uint32_t target) {
    return &fleet->targets[target].lease;
}

bool ten_fleet_may_work(const ten_fleet *fleet, uint32_t number, uint64_t now_ms) {
    const struct ten_fleet_target *target = &fleet->targets[number];
    return target->known && !target->closing && ten_lease_is_owned(&target->lease, now_ms);
}

size_t ten_fleet_owned_count(const ten_fleet *fleet) {
    return fleet->owned_count;
}

const char *ten_fleet_holder_of(const ten_fleet *fleet, uint32_t target) {
    uint32_t holder = fleet->targets[target].holder;
    return holder < fleet->peer_room ? ten_plan_instance_id(fleet->plan, holder) : NULL;
}

void ten_fleet_times(const ten_fleet *fleet, uint32_t target, uint64_t *ret_acquired_ms, uint64_t *ret_renewed_ms) {
    bool owned = is_owned(&fleet->targets[target]);
    *ret_acquired_ms = owned ? fleet->targets[target].acquired_ms : 0;
    *ret_renewed_ms = owned ? fleet->targets[target].sent_ms : 0;
}
