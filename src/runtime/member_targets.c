/*
 * What the program wants of a fleet member and asks it. Answers come from what the fleet knows, or from the beliefs.
 */
#include <string.h>
#include <time.h>

#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"
#include "runtime/copies.h"
#include "runtime/member_state.h"

/* ---- targets; each call checks the name, finds the number, and holds the lock meanwhile */

static int check(const tenure_member *member, const char *target) {
    int r = ten_object_check(member, TEN_OBJECT_MEMBER);
    return r < 0 ? r : ten_context_check_target(member, target);
}

static uint32_t find(const tenure_member *member, const char *target) {
    return ten_plan_find_target(ten_fleet_plan(member->fleet), target);
}

static int unknown(const tenure_member *member, const char *target) {
    return ten_last_error_say(
        member, TENURE_E_UNKNOWN_TARGET,
        "%s is not a target of this fleet member; add it with tenure_member_put(), or register it "
        "if the targets come from the store",
        target);
}

/* Checks the name, takes the lock, and finds the number. After an error the lock is not held. */
static int enter(tenure_member *member, const char *target, uint32_t *ret_number) {
    int r = check(member, target);
    if (r < 0)
        return r;
    ten_carrier_lock(member->carrier);
    *ret_number = find(member, target);
    if (*ret_number != TEN_PLAN_NONE)
        return TENURE_OK;
    ten_carrier_unlock(member->carrier);
    return unknown(member, target);
}

static int no_room(const tenure_member *member, const char *target) {
    ten_carrier_lock(member->carrier);
    bool full = ten_fleet_is_full(member->fleet);
    ten_carrier_unlock(member->carrier);
    if (!full)
        return ten_last_error_say(member, TENURE_E_NOMEM, "out of memory for the target %s", target);
    return ten_last_error_say(member, TENURE_E_TOO_MANY,
                              "%s is one more than the targets that this fleet member may have; raise max_targets",
                              target);
}

int tenure_member_put(tenure_member *member, const char *target, unsigned flags) {
    int r = check(member, target);
    if (r == TENURE_OK)
        r = ten_flags_check(member, flags, TENURE_PAUSED);
    if (r < 0)
        return r;
    if (member->targets_from_store)
        return ten_last_error_say(member, TENURE_E_INVALID,
                                  "the targets of this fleet member come from the store's registry");
    ten_carrier_lock(member->carrier);
    uint32_t number = ten_fleet_put_target(member->fleet, ten_member_now_ms(member), target, flags & TENURE_PAUSED);
    if (number != TEN_PLAN_NONE)
        ten_fleet_targets_settled(member->fleet, ten_member_now_ms(member));
    ten_carrier_unlock(member->carrier);
    return number == TEN_PLAN_NONE ? no_room(member, target) : TENURE_OK;
}

int tenure_member_remove(tenure_member *member, const char *target) {
    uint32_t number;
    int r = enter(member, target, &number);
    if (r < 0)
        return r;
    ten_fleet_remove_target(member->fleet, ten_member_now_ms(member), number);
    ten_carrier_unlock(member->carrier);
    return TENURE_OK;
}

/* ---- checkpoints */

size_t ten_member_checkpoint(tenure_member *member, const char *target, uint64_t token, char *buffer) {
    ten_carrier_lock(member->carrier);
    const char *value = ten_checkpoints_value(&member->checkpoints, target, token);
    int size = snprintf(buffer, TENURE_CHECKPOINT_MAX + 1, "%s", value ? value : "");
    ten_carrier_unlock(member->carrier);
    return size > 0 ? (size_t)size : 0;
}

int ten_member_write_checkpoint(tenure_member *member, const char *target, uint64_t token, const char *value) {
    ten_carrier_lock(member->carrier);
    int r = ten_checkpoints_write(&member->checkpoints, target, token, value);
    ten_carrier_tell_waiting(member->carrier);
    ten_carrier_unlock(member->carrier);
    return r;
}

/* ---- claims */

static bool is_answered(const void *arg) {
    const struct ten_claim *claim = arg;
    return claim->answered;
}

/* With the lock. */
static int claim_target(tenure_member *member, const char *target, struct ten_claim *claim) {
    uint32_t number = ten_fleet_claim(member->fleet, ten_member_now_ms(member), target);
    if (number == TEN_PLAN_NONE)
        return TENURE_E_NOMEM;
    claim->acquired = claim->answered = ten_fleet_may_work(member->fleet, number, ten_member_now_ms(member));
    claim->next = member->claims;
    member->claims = claim;
    ten_task_hurry(&member->task);
    int r = ten_carrier_await(member->carrier, &member->task, is_answered, claim,
                              ten_member_now_ms(member) + 2 * member->timing.timeout_ms);
    TEN_UNLINK(member->claims, claim, next);
    number = find(member, target); /* meanwhile its number may have become another target's */
    if (!claim->acquired && number != TEN_PLAN_NONE)
        ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    return r < 0 ? r : claim->error;
}

int tenure_member_acquire(tenure_member *member, const char *target) {
    struct ten_claim claim = {.target = target};
    int r = ten_object_check_waiting(member, TEN_OBJECT_MEMBER);
    if (r == TENURE_OK)
        r = check(member, target);
    if (r < 0)
        return r;
    ten_carrier_lock(member->carrier);
    r = claim_target(member, target, &claim);
    ten_carrier_unlock(member->carrier);
    if (r == TENURE_E_NOMEM)
        return no_room(member, target);
    if (r == TENURE_E_TIMEOUT)
        return ten_last_error_say(member, r, "the store did not answer about %s in time", target);
    return r < 0 ? ten_last_error_say(member, r, "%s cannot be acquired: %s", target, tenure_strerror(r)) : TENURE_OK;
}

int tenure_member_release(tenure_member *member, const char *target) {
    uint32_t number;
    int r = enter(member, target, &number);
    if (r < 0)
        return r;
    ten_fleet_unclaim(member->fleet, ten_member_now_ms(member), number);
    ten_carrier_unlock(member->carrier);
    return TENURE_OK;
}

int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token) {
    int r = check(member, target);
    if (r == TENURE_OK && !ret_token)
        r = ten_last_error_say(member, TENURE_E_INVALID, "there is no place for the token of %s", target);
    uint32_t number;
    if (r == TENURE_OK)
        r = enter(member, target, &number);
    if (r < 0)
        return r;
    uint64_t now = ten_member_now_ms(member);
    bool owned = ten_fleet_may_work(member->fleet, number, now);
    if (owned) {
        ten_fleet_begin_work(member->fleet, now, number);
        *ret_token = ten_fleet_holding(member->fleet, number).token;
    }
    ten_carrier_unlock(member->carrier);
    return owned ? TENURE_OK
                 : ten_last_error_say(member, TENURE_E_LOST, "%s may not be worked on: it is not held and confirmed",
                                      target);
}

int tenure_member_end(tenure_member *member, const char *target) {
    uint32_t number;
    int r = enter(member, target, &number);
    if (r < 0)
        return r;
    bool begun = ten_fleet_end_work(member->fleet, ten_member_now_ms(member), number);
    ten_carrier_unlock(member->carrier);
    return begun ? TENURE_OK
                 : ten_last_error_say(member, TENURE_E_INVALID,
                                      "no work on %s is under way: tenure_member_end() follows tenure_member_begin()",
                                      target);
}

int tenure_member_set_weight(tenure_member *member, uint32_t weight) {
    int r = ten_object_check(member, TEN_OBJECT_MEMBER);
    if (r < 0)
        return r;
    ten_carrier_lock(member->carrier);
    ten_fleet_set_weight(member->fleet, ten_member_now_ms(member), weight);
    ten_carrier_unlock(member->carrier);
    return TENURE_OK;
}

/* ---- looking */

/* The belief, if the handle is still about its target. */
static const ten_belief *belief_of(tenure_handle handle) {
    const ten_belief *belief = handle.belief;
    return belief && atomic_load_explicit(&belief->generation, memory_order_acquire) == handle.generation ? belief
                                                                                                          : NULL;
}

/* The generation is read again behind what it is about. */
static bool is_before(tenure_handle handle, uint64_t until_ms) {
    return until_ms != 0 && ten_now_ms() < until_ms && ten_fork_is(handle.process) && belief_of(handle);
}

bool tenure_handle_is_held(tenure_handle handle) {
    const ten_belief *belief = belief_of(handle);
    return belief && is_before(handle, ten_belief_work_until_ms(belief));
}

uint64_t tenure_handle_token(tenure_handle handle) {
    const ten_belief *belief = belief_of(handle);
    bool held = belief && ten_belief_ends_ms(belief) != 0 && ten_fork_is(handle.process);
    uint64_t token = held ? atomic_load_explicit(&belief->token, memory_order_acquire) : 0;
    return held && belief_of(handle) ? token : 0;
}

uint64_t tenure_handle_remaining_ms(tenure_handle handle) {
    const ten_belief *belief = belief_of(handle);
    uint64_t ends_ms = belief ? ten_belief_ends_ms(belief) : 0;
    return ends_ms && is_before(handle, ends_ms) ? ten_sub_saturating(ends_ms, ten_now_ms()) : 0;
}

int tenure_member_handle(tenure_member *member, const char *target, tenure_handle *ret_handle) {
    int r = check(member, target);
    if (r == TENURE_OK && !ret_handle)
        r = ten_last_error_say(member, TENURE_E_INVALID, "there is no place for the handle on %s", target);
    uint32_t number = 0;
    if (r == TENURE_OK)
        r = enter(member, target, &number);
    if (r < 0)
        return r;
    const ten_belief *belief = ten_beliefs_at(member->beliefs, number);
    *ret_handle = (tenure_handle){
        .belief = belief, .generation = atomic_load(&belief->generation), .process = member->object.process};
    ten_carrier_unlock(member->carrier);
    return TENURE_OK;
}

bool tenure_member_is_held(tenure_member *member, const char *target) {
    tenure_handle handle;
    return tenure_member_handle(member, target, &handle) == TENURE_OK && tenure_handle_is_held(handle);
}

/* A boot time as Unix time, for display. */
static uint64_t unix_ms(const tenure_member *member, uint64_t boot_ms) {
    return boot_ms ? ten_wall_ms(member->carrier->clock) - ten_sub_saturating(ten_member_now_ms(member), boot_ms) : 0;
}

static enum tenure_member_state state_of(const ten_holding *holding, const char *holder) {
    if (ten_holding_is_held(holding))
        return holding->uncertain ? TENURE_STATE_UNCERTAIN : TENURE_STATE_HELD;
    return holder ? TENURE_STATE_OTHER : TENURE_STATE_UNKNOWN;
}

/* With the lock. */
static void fill_info(const tenure_member *member, uint32_t number, const char *target, tenure_member_info *info) {
    const ten_plan *plan = ten_fleet_plan(member->fleet);
    ten_holding holding = ten_fleet_holding(member->fleet, number);
    const char *holder = ten_fleet_holder_of(member->fleet, number);
    uint32_t planned = ten_plan_holder(plan, number);
    bool held = ten_holding_is_held(&holding);
    uint64_t acquired_ms = held ? holding.acquired_ms : 0;
    /* On a session it counts from the last heartbeat, which may have been before the acquire. */
    uint64_t renewed_ms = held ? ten_max_u64(holding.sent_ms, acquired_ms) : 0;
    *info = (tenure_member_info){.size = sizeof *info,
                                 .state = state_of(&holding, holder),
                                 .token = held ? holding.token : holding.known_token,
                                 .acquired_at_ms = unix_ms(member, acquired_ms),
                                 .renewed_at_ms = unix_ms(member, renewed_ms)};
    snprintf(info->target, sizeof info->target, "%s", target);
    snprintf(info->holder, sizeof info->holder, "%s", holder ? holder : "");
    snprintf(info->planned, sizeof info->planned, "%s",
             planned != TEN_PLAN_NONE ? ten_plan_instance_id(plan, planned) : "");
}

int tenure_member_read(tenure_member *member, const char *target, tenure_member_info *ret_info) {
    tenure_member_info info;
    int r = check(member, target);
    if (r == TENURE_OK)
        r = ten_struct_check(member, "tenure_member_info", ret_info);
    uint32_t number;
    if (r == TENURE_OK)
        r = enter(member, target, &number);
    if (r < 0)
        return r;
    fill_info(member, number, target, &info);
    ten_carrier_unlock(member->carrier);
    ten_struct_write(ret_info, &info, sizeof info);
    return TENURE_OK;
}

/* With the lock. The names as they are at this moment. False: out of memory. */
static bool copy_names(const tenure_member *member, bool owned, ten_copies *copies) {
    const ten_plan *plan = ten_fleet_plan(member->fleet);
    uint32_t bound = owned ? ten_plan_target_bound(plan) : ten_plan_instance_bound(plan);
    for (uint32_t i = 0; i < bound; i++) {
        const char *name = NULL;
        if (!owned)
            name = ten_plan_instance_id(plan, i);
        else if (ten_fleet_knows(member->fleet, i) &&
                 ten_fleet_holding(member->fleet, i).deadline_ms > ten_member_now_ms(member))
            name = ten_plan_target_id(plan, i);
        if (name && (!ten_copies_keep(copies, &name) || !ten_copies_add(copies, &name, sizeof name)))
            return false;
    }
    return true;
}

static int hand_out(tenure_member *member, bool owned, tenure_name_fn each, void *userdata) {
    ten_copies copies = {0};
    ten_carrier_lock(member->carrier);
    bool copied = copy_names(member, owned, &copies);
    ten_carrier_unlock(member->carrier);
    int r = copied ? TENURE_OK : ten_last_error_say(member, TENURE_E_NOMEM, "out of memory for a list of names");
    for (size_t i = 0; r == TENURE_OK && i < copies.count; i++)
        r = each(*(const char *const *)ten_copies_at(&copies, i, sizeof(char *)), userdata);
    ten_copies_free(&copies);
    return r;
}

static int list(tenure_member *member, bool owned, tenure_name_fn each, void *userdata) {
    int r = ten_object_check(member, TEN_OBJECT_MEMBER);
    if (r == TENURE_OK && !each)
        r = ten_last_error_say(member, TENURE_E_INVALID, "no function was given");
    if (r < 0)
        return r;
    ten_object_use use;
    ten_object_use_begin(&use, member);
    r = hand_out(member, owned, each, userdata);
    ten_object_use_end(&use);
    return r;
}

int tenure_member_list_held(tenure_member *member, tenure_name_fn each, void *userdata) {
    return list(member, true, each, userdata);
}

int tenure_member_list_instances(tenure_member *member, tenure_name_fn each, void *userdata) {
    return list(member, false, each, userdata);
}

/* Reads the target from the store: TENURE_E_LOST if this instance does not hold it under that token. */
static int read_store(tenure_member *member, const char *target, uint64_t token) {
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = member->namespace_name, .target = target};
    ten_result result;
    int r = ten_carrier_enter(member->carrier);
    if (r < 0)
        return r;
    r = ten_store_apply(member->task.channel->store, &op, &result, 1, member->timing.timeout_ms);
    bool held = r == TENURE_OK && result.holder && strcmp(result.holder, member->instance) == 0 &&
                result.token == token && !result.barred;
    ten_carrier_leave(member->carrier);
    return r == TENURE_OK && !held ? TENURE_E_LOST : r;
}

int tenure_member_confirm(tenure_member *member, const char *target) {
    tenure_handle handle;
    int r = ten_object_check_waiting(member, TEN_OBJECT_MEMBER);
    if (r == TENURE_OK)
        r = check(member, target);
    if (r < 0)
        return r;
    uint64_t token = tenure_member_handle(member, target, &handle) == TENURE_OK && tenure_handle_is_held(handle)
                         ? tenure_handle_token(handle)
                         : 0;
    if (token == 0)
        return ten_last_error_say(member, TENURE_E_LOST, "%s is not held here", target);
    r = read_store(member, target, token);
    if (r == TENURE_E_LOST)
        return ten_last_error_say(member, r, "the store says that %s is not held by this instance", target);
    return r < 0 ? ten_last_error_say(member, r, "%s: %s", target, tenure_strerror(r)) : TENURE_OK;
}

int tenure_member_next_event(tenure_member *member, uint64_t wait_ms, tenure_event *ret_event) {
    int r = ten_object_check_waiting(member, TEN_OBJECT_MEMBER);
    if (r == TENURE_OK)
        r = ten_struct_check(member, "tenure_event", ret_event);
    if (r < 0)
        return r;
    if (member->on_event)
        return ten_last_error_say(member, TENURE_E_INVALID,
                                  "the events of this fleet member go to its on_event function");
    tenure_event event;
    r = ten_context_next_event(member, &member->task, wait_ms, &event);
    if (r < 0)
        return r;
    ten_member_hide_reason(&event);
    ten_struct_write(ret_event, &event, sizeof event);
    return TENURE_OK;
}
