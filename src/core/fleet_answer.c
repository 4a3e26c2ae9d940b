/*
 * The fleet: what an answer means, and what a missing answer means. Called by the runtime and by the simulator when a
 * request has been answered or has failed.
 */
#include <string.h>

#include "core/fleet_state.h"

#define BACKOFF_MIN_MS   50u
#define STRIKES_MAX      6u
#define RENEWED_TOLD_MAX 100u /* up to so many renewals of one request have an event each */

/* ---- the answer */

static uint64_t jittered(ten_fleet *fleet, uint64_t interval_ms) {
    return interval_ms - ten_fleet_random(fleet, interval_ms / 10 + 1);
}

static void grant(ten_fleet *fleet, uint32_t number, bool renewal, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    bool was_owned = ten_fleet_is_owned(target);
    bool stale = result->token <= target->released_token || result->token < target->known_token;
    if (!renewal && stale) {
        /* The store lost data, and a late renewal put this lease back. Other instances have had higher tokens since, or
         * this token's release is still in flight: the grant cannot be trusted. Release it; the next one has a higher
         * token. */
        target->unreleased = true;
        target->lease.token = result->token;
        target->release_reason = TEN_REASON_STORE;
        ten_fleet_look(fleet, number);
        return;
    }
    ten_lease_grant granted = {.token = result->token,
                               .asked_ttl_ms = fleet->timing.ttl_ms,
                               .granted_ttl_ms = result->ttl_ms,
                               .margin_ms = fleet->timing.margin_ms,
                               .sent_ms = fleet->sent_ms};
    if (!ten_lease_granted(&target->lease, &granted, fleet->now_ms)) {
        /* The answer came too late. An acquire is tried again; a renewed lease expires at its old deadline. */
        if (!renewal)
            ten_fleet_look(fleet, number);
        return;
    }
    bool was_held = target->holder != TEN_NOBODY && target->holder != fleet->self;
    target->sent_ms = fleet->sent_ms;
    target->known_token = ten_max_u64(target->known_token, result->token);
    target->holder = fleet->self;
    target->held_until_ms = 0;
    target->stray = false;
    target->barren = false;
    ten_fleet_enter_order(fleet, number);
    if (renewal && was_owned) {
        fleet->renewed_count++;
        if (fleet->op_count <= RENEWED_TOLD_MAX)
            ten_fleet_tell_target(fleet, TEN_FLEET_RENEWED, number, TEN_REASON_NONE, 0);
        if (result->ask == TEN_ASK_RESIGN)
            ten_fleet_unclaim(fleet, fleet->now_ms, number);
        return;
    }
    target->acquired_ms = fleet->sent_ms;
    if (!target->claimed && ten_plan_holder(fleet->plan, number) != fleet->self) {
        /* This instance released it for the planned holder, which did not take it. */
        if (target->handed_over && target->strikes < STRIKES_MAX)
            target->strikes++;
        target->keep_until_ms = fleet->now_ms + (fleet->timing.ttl_ms << target->strikes);
    }
    target->handed_over = false;
    ten_fleet_tell_target(fleet, TEN_FLEET_ACQUIRED, number,
                          was_held ? TEN_REASON_EXPIRED : (enum ten_reason)target->end_reason, 0);
    target->end_reason = TEN_REASON_NONE;
    ten_fleet_look(fleet, number); /* there may be a reason to release it by now */
}

/* The holder of a target that this instance does not hold. If the store names this very instance, the lease is barred:
 * it is treated like that of an unknown holder. */
static uint32_t holder_number(const ten_fleet *fleet, const char *holder) {
    uint32_t number = holder ? ten_plan_find_instance(fleet->plan, holder) : TEN_NOBODY;
    return holder && (number == TEN_NOBODY || number == fleet->self) ? TEN_OUTSIDER : number;
}

static void answer_acquire(ten_fleet *fleet, uint32_t number, const ten_result *result) {
    struct ten_fleet_target *target = &fleet->targets[number];
    ten_fleet_event event = {.kind = TEN_FLEET_ACQUIRE_FAILED, .target = number, .remaining_ms = result->remaining_ms};
    if (result->outcome == TEN_OK) {
        grant(fleet, number, false, result);
        return;
    }
    target->barren = result->outcome != TEN_HELD;
    if (result->outcome == TEN_HELD) {
        target->holder = result->recovering ? TEN_OUTSIDER : holder_number(fleet, result->holder);
        target->held_until_ms = fleet->now_ms + ten_max_u64(result->remaining_ms, 1);
        target->known_token = ten_max_u64(target->known_token, result->token);
        event.error = TENURE_E_HELD;
        if (result->recovering) {
            event.kind = TEN_FLEET_RECOVERING;
            fleet->recovering_until_ms = ten_max_u64(fleet->recovering_until_ms, target->held_until_ms);
        }
        snprintf(event.other, sizeof event.other, "%s", result->holder ? result->holder : "");
    } else {
        event.error = result->outcome == TEN_UNKNOWN ? TENURE_E_UNKNOWN_TARGET : result->error;
        /* The tokens are used up, or the instance was declared gone: trying again at once would not help. */
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
    if (!ten_fleet_is_owned(target))
        return; /* its deadline passed before the answer arrived */
    if (result->outcome == TEN_OK) {
        grant(fleet, number, true, result);
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
    target->unreleased = false;
    target->end_reason = target->release_reason;
    target->handed_over = target->release_reason == TEN_REASON_REBALANCE || target->release_reason == TEN_REASON_DRAIN;
    target->holder = TEN_NOBODY;
    target->held_until_ms = 0;
    /* The planned holder has the first turn; this instance waits from now on by its rank. */
    target->free_ms = fleet->now_ms;
    ten_fleet_fail(fleet, number);
}

static void answer_heartbeat(ten_fleet *fleet, const ten_op *op, const ten_result *result) {
    if (op->kind == TEN_OP_LEAVE) {
        ten_fleet_leave(fleet);
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
    fleet->next_beat_ms = fleet->sent_ms + jittered(fleet, fleet->timing.renew_ms);
    bool drain = result->ask == TEN_ASK_DRAIN;
    if (drain != fleet->asked_to_drain) {
        fleet->asked_to_drain = drain;
        ten_fleet_set_weight(fleet, fleet->now_ms, fleet->own_weight);
    }
    if (!fleet->announced) {
        fleet->self = ten_fleet_put_instance(fleet, fleet->instance, fleet->weight);
        if (fleet->self == TEN_NOBODY)
            return; /* out of memory: tried again with the next heartbeat */
        fleet->announced = true;
        fleet->start_ms = fleet->now_ms;
        fleet->next_list_ms = fleet->now_ms;
        ten_fleet_settle(fleet);
    }
    if (fleet->listed)
        ten_fleet_look_for_unowned(fleet);
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

/* The request may have taken effect or not. A renewal leaves the lease uncertain, with its old deadline. An acquire is
 * not held; the next try gets the same lease if this one was granted. A release is repeated, so that the others do not
 * have to wait for the lease to expire; the lease has not been believed since the first release was sent. */
static void answer_failure(ten_fleet *fleet, uint32_t number, int error) {
    struct ten_fleet_target *target = &fleet->targets[number];
    enum ten_flight flight = (enum ten_flight)target->flight;
    target->flight = TEN_FLIGHT_NONE;
    if (flight == TEN_FLIGHT_RENEW && ten_fleet_is_owned(target)) {
        if (target->lease.state == TEN_LEASE_OWNED)
            ten_fleet_tell_target(fleet, TEN_FLEET_RENEW_FAILED, number, TEN_REASON_NONE, error);
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
        ten_fleet_look(fleet, number); /* decisions were put off while the operation was in flight */
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
    fleet->renewed_count = 0;
    ten_fleet_expire(fleet);
    for (uint32_t i = 0; i < fleet->op_count; i++) {
        if (error == TENURE_OK)
            answer_one(fleet, i, &results[i]);
        else if (fleet->op_targets[i] != TEN_NOBODY)
            answer_failure(fleet, fleet->op_targets[i], error);
    }
    if (fleet->op_count > RENEWED_TOLD_MAX && fleet->renewed_count > 0)
        ten_fleet_tell(
            fleet, (ten_fleet_event){.kind = TEN_FLEET_RENEWED, .target = TEN_NOBODY, .count = fleet->renewed_count});
    if (error < 0)
        note_failure(fleet, error);
    else
        note_success(fleet);
    ten_fleet_settle(fleet);
}
