/*
 * What the program wants of a fleet member and asks it. Answers come from what the fleet knows, or from the beliefs.
 */
#include <string.h>
#include <time.h>

#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "runtime/member_state.h"

/* ---- targets; each call checks the name, finds the number, and holds the lock meanwhile */

static int check(const tenure_member *member, const char *target) {
    ten_error error;
    if (!ten_process_is(member->carrier.process))
        return ten_last_error_say(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    if (!target)
        return ten_last_error_say(member, TENURE_E_INVALID, "no target was given");
    return ten_id_check_target(target, &error) < 0 ? ten_last_error_set(member, &error) : TENURE_OK;
}

static uint32_t find(const tenure_member *member, const char *target) {
    return ten_plan_find_target(ten_fleet_plan(member->fleet), target);
}

static int unknown(const tenure_member *member, const char *target) {
    return ten_last_error_say(member, TENURE_E_UNKNOWN_TARGET, "%s is not a target of this fleet member", target);
}

/* Releases the lock after a change of the fleet, and wakes its carrier. */
static void leave(tenure_member *member) {
    ten_member_unlock(member);
    ten_carrier_wake(&member->carrier);
}

int tenure_member_put_target(tenure_member *member, const char *target, bool paused) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (member->targets_from_store)
        return ten_last_error_say(member, TENURE_E_INVALID,
                                  "the targets of this fleet member come from the store's registry");
    ten_member_lock(member);
    uint32_t number = ten_fleet_put_target(member->fleet, ten_member_now_ms(member), target, paused);
    if (number != TEN_PLAN_NONE)
        ten_fleet_targets_settled(member->fleet, ten_member_now_ms(member));
    leave(member);
    return number == TEN_PLAN_NONE
               ? ten_last_error_say(member, TENURE_E_NOMEM, "out of memory for the target %s", target)
               : TENURE_OK;
}

int tenure_member_remove_target(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_remove_target(member->fleet, ten_member_now_ms(member), number);
    leave(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_try_acquire(tenure_member *member, const char *target, bool *ret_acquired) {
    int r = check(member, target);
    if (r < 0)
        return r;
    if (!member->carrier.started)
        return ten_last_error_say(member, TENURE_E_INVALID, "start the fleet member first");
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    ten_member_lock(member);
    uint32_t number = ten_fleet_claim(member->fleet, ten_member_now_ms(member), target);
    if (number == TEN_PLAN_NONE) {
        ten_member_unlock(member);
        return ten_last_error_say(member, TENURE_E_NOMEM, "out of memory for the target %s", target);
    }
    struct ten_claim claim = {.target = target, .next = member->claims};
    claim.acquired = claim.answered = ten_fleet_may_work(member->fleet, number, ten_member_now_ms(member));
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->claims = &claim;
    ten_carrier_wake(&member->carrier);
    int waited = 0;
    while (!claim.answered && !member->stopped && waited == 0)
        waited = pthread_cond_timedwait(&member->carrier.changed, &member->carrier.lock, &end);
    for (struct ten_claim **at = &member->claims; *at; at = &(*at)->next) {
        if (*at == &claim) {
            *at = claim.next;
            break;
        }
    }
    number = find(member, target); /* meanwhile its number may have become another target's */
    if (!claim.acquired && number != TEN_PLAN_NONE)
        ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    leave(member);
    if (!claim.answered)
        return ten_last_error_say(member, TENURE_E_TIMEOUT, "the store did not answer about %s in time", target);
    *ret_acquired = claim.acquired;
    return TENURE_OK;
}

int tenure_member_release(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    leave(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_member_lock(member);
    uint64_t now = ten_member_now_ms(member);
    uint32_t number = find(member, target);
    bool owned = number != TEN_PLAN_NONE && ten_fleet_may_work(member->fleet, number, now);
    if (owned) {
        ten_fleet_busy(member->fleet, now, number, true);
        *ret_token = ten_fleet_holding(member->fleet, number)->token;
    }
    ten_member_unlock(member);
    return owned ? TENURE_OK
                 : ten_last_error_say(member, TENURE_E_LOST, "%s may not be worked on: it is not held and confirmed",
                                      target);
}

void tenure_member_end(tenure_member *member, const char *target) {
    if (check(member, target) < 0)
        return;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE)
        ten_fleet_busy(member->fleet, ten_member_now_ms(member), number, false);
    leave(member);
}

int tenure_member_set_weight(tenure_member *member, uint32_t weight) {
    if (!ten_process_is(member->carrier.process))
        return ten_last_error_say(member, TENURE_E_FORKED, "this fleet member belongs to the parent of this process");
    ten_member_lock(member);
    ten_fleet_set_weight(member->fleet, ten_member_now_ms(member), weight);
    leave(member);
    return TENURE_OK;
}

/* ---- looking */

static bool belief_is_before(const ten_belief *belief, uint64_t until_ms) {
    return until_ms != 0 && ten_now_ms() < until_ms &&
           ten_process_is(atomic_load_explicit(&belief->process, memory_order_relaxed));
}

bool tenure_handle_is_held(const tenure_handle *handle) {
    return belief_is_before(handle, ten_belief_work_until_ms(handle));
}

uint64_t tenure_handle_token(const tenure_handle *handle) {
    return atomic_load_explicit(&handle->token, memory_order_relaxed);
}

uint64_t tenure_handle_remaining_ms(const tenure_handle *handle) {
    uint64_t ends_ms = ten_belief_ends_ms(handle);
    return belief_is_before(handle, ends_ms) ? ten_sub_saturating(ends_ms, ten_now_ms()) : 0;
}

const tenure_handle *tenure_member_handle(tenure_member *member, const char *target) {
    if (check(member, target) < 0)
        return NULL;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    ten_member_unlock(member);
    return number == TEN_PLAN_NONE ? NULL : &member->beliefs->beliefs[number];
}

bool tenure_member_is_held(tenure_member *member, const char *target) {
    const tenure_handle *handle = tenure_member_handle(member, target);
    return handle && tenure_handle_is_held(handle);
}

/* A boot time as Unix time, for display. */
static uint64_t unix_ms(const tenure_member *member, uint64_t boot_ms) {
    return boot_ms ? ten_wall_ms(member->carrier.clock) - ten_sub_saturating(ten_member_now_ms(member), boot_ms) : 0;
}

static enum tenure_lease_state state_of(const ten_holding *holding, const char *holder) {
    if (ten_holding_is_held(holding))
        return holding->uncertain ? TENURE_STATE_UNCERTAIN : TENURE_STATE_OWNED;
    return holder ? TENURE_STATE_OTHER : TENURE_STATE_UNKNOWN;
}

int tenure_member_lease_info(tenure_member *member, const char *target, tenure_lease_info *ret_info) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    if (number != TEN_PLAN_NONE) {
        const ten_plan *plan = ten_fleet_plan(member->fleet);
        const ten_holding *holding = ten_fleet_holding(member->fleet, number);
        const char *holder = ten_fleet_holder_of(member->fleet, number);
        uint32_t planned = ten_plan_holder(plan, number);
        uint64_t acquired_ms;
        uint64_t renewed_ms;
        ten_fleet_times(member->fleet, number, &acquired_ms, &renewed_ms);
        *ret_info = (tenure_lease_info){.state = state_of(holding, holder),
                                        .token = holding->token,
                                        .acquired_at_ms = unix_ms(member, acquired_ms),
                                        .last_renewed_at_ms = unix_ms(member, renewed_ms)};
        snprintf(ret_info->target, sizeof ret_info->target, "%s", target);
        snprintf(ret_info->holder, sizeof ret_info->holder, "%s", holder ? holder : "");
        snprintf(ret_info->planned, sizeof ret_info->planned, "%s",
                 planned != TEN_PLAN_NONE ? ten_plan_instance_id(plan, planned) : "");
    }
    ten_member_unlock(member);
    return number == TEN_PLAN_NONE ? unknown(member, target) : TENURE_OK;
}

int tenure_member_planned_holder(tenure_member *member, const char *target, char ret_instance[TENURE_HOLDER_MAX + 1]) {
    tenure_lease_info info;
    int r = tenure_member_lease_info(member, target, &info);
    if (r == TENURE_OK)
        memcpy(ret_instance, info.planned, sizeof info.planned);
    return r;
}

/* Copies the names under the lock, then hands them out without it. */
static int hand_out(tenure_member *member, bool owned, tenure_name_fn each, void *userdata) {
    ten_plan const *plan = ten_fleet_plan(member->fleet);
    char name[TENURE_TARGET_MAX + 1];
    for (uint32_t i = 0;; i++) {
        ten_member_lock(member);
        bool more = i < (owned ? ten_plan_target_bound(plan) : ten_plan_instance_bound(plan));
        const char *found = NULL;
        if (more && owned && ten_fleet_holding(member->fleet, i)->deadline_ms > ten_member_now_ms(member))
            found = ten_plan_target_id(plan, i);
        else if (more && !owned)
            found = ten_plan_instance_id(plan, i);
        if (found)
            snprintf(name, sizeof name, "%s", found);
        ten_member_unlock(member);
        if (!more)
            return TENURE_OK;
        int stopped = found ? each(name, userdata) : 0;
        if (stopped)
            return stopped;
    }
}

int tenure_member_held(tenure_member *member, tenure_name_fn each, void *userdata) {
    return hand_out(member, true, each, userdata);
}

int tenure_member_live_instances(tenure_member *member, tenure_name_fn each, void *userdata) {
    return hand_out(member, false, each, userdata);
}

/* The thread has the store; it asks, and this waits. */
static int ask_store(tenure_member *member, const char *target, uint64_t token) {
    struct ten_question question = {.target = target, .token = token};
    struct timespec end = ten_monotonic_end(member->timing.timeout_ms * 2);
    ten_member_lock(member);
    question.next = member->questions;
    // cppcheck-suppress autoVariables ; it is taken out again before this returns
    member->questions = &question;
    ten_carrier_wake(&member->carrier);
    int waited = 0;
    /* Once it is taken, the answer comes: the call on the store is bounded. */
    while (!question.answered && (waited == 0 || question.taken))
        waited = question.taken ? pthread_cond_wait(&member->carrier.changed, &member->carrier.lock)
                                : pthread_cond_timedwait(&member->carrier.changed, &member->carrier.lock, &end);
    for (struct ten_question **at = &member->questions; *at; at = &(*at)->next) {
        if (*at == &question) {
            *at = question.next;
            break;
        }
    }
    ten_member_unlock(member);
    return question.answered ? question.answer : TENURE_E_TIMEOUT;
}

int tenure_member_strict_check(tenure_member *member, const char *target) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_member_lock(member);
    uint32_t number = find(member, target);
    uint64_t token = number != TEN_PLAN_NONE ? ten_fleet_holding(member->fleet, number)->token : 0;
    ten_member_unlock(member);
    if (!member->carrier.started || !tenure_member_is_held(member, target))
        return ten_last_error_say(member, TENURE_E_LOST, "%s is not held here", target);
    r = ask_store(member, target, token);
    if (r == TENURE_E_LOST)
        return ten_last_error_say(member, r, "the store says that %s is not held by this instance", target);
    return r < 0 ? ten_last_error_say(member, r, "%s: %s", target, tenure_strerror(r)) : TENURE_OK;
}

int tenure_member_next_event(tenure_member *member, uint64_t wait_ms, tenure_event *ret_event) {
    if (member->on_event)
        return ten_last_error_say(member, TENURE_E_INVALID,
                                  "the events of this fleet member go to its on_event function");
    struct timespec end = ten_monotonic_end(wait_ms);
    ten_carrier *carrier = &member->carrier;
    ten_member_lock(member);
    tenure_event event;
    int waited = 0;
    bool found = false;
    for (;;) {
        while (!found && ten_event_queue_take(&carrier->events, &event))
            found = event.kind != TENURE_EVENT_TARGET_REMOVED;
        if (found || waited != 0)
            break;
        waited = pthread_cond_timedwait(&carrier->changed, &carrier->lock, &end);
    }
    ten_member_unlock(member);
    if (!found)
        return ten_last_error_say(member, TENURE_E_TIMEOUT, "no event came in time");
    ten_member_hide_reason(&event);
    *ret_event = event;
    return TENURE_OK;
}
