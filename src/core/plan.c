/*
 * The plan: targets and instances, settling, reading. Called by the fleet, by the commands that show a plan and by the
 * server. The matching itself is in plan_match.c, pins are in plan_pin.c.
 */
#include "core/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "core/plan_state.h"

/* ---- settling */

static void report(ten_plan *plan, uint32_t target) {
    struct ten_plan_targets *targets = &plan->targets;
    uint32_t from = targets->told_holders[target];
    uint32_t to =
        targets->aside[target] & TEN_PLAN_PINNED ? ten_plan_find_pin(plan, target)->holder : targets->holders[target];
    if (from == to)
        return;
    targets->told_holders[target] = to;
    if (plan->moved)
        plan->moved(target, from, to, plan->userdata);
}

bool ten_plan_settle(ten_plan *plan) {
    if (!plan->dirty)
        return true;
    ten_plan_settle_pins(plan);
    plan->failed = !ten_plan_set_quotas(plan);
    if (!plan->failed)
        ten_plan_match(plan);
    if (plan->failed) {
        plan->scratch = true;
        return false;
    }
    for (uint32_t i = 0; i < (plan->scratch ? plan->targets.bound : plan->touched_count); i++)
        report(plan, plan->scratch ? i : plan->touched[i]);
    plan->touched_count = 0;
    plan->scratch = false;
    plan->dirty = false;
    return true;
}

/* ---- targets and instances */

uint32_t ten_plan_add_target(ten_plan *plan, const char *id) {
    uint32_t number = ten_plan_targets_find(&plan->targets, id);
    if (number != TEN_PLAN_NONE || !TEN_GROW(plan->touched, plan->touched_room, plan->touched_count + 1))
        return number;
    number = ten_plan_targets_add(&plan->targets, id);
    if (number == TEN_PLAN_NONE)
        return TEN_PLAN_NONE;
    ten_plan_touch(plan, number);
    plan->dirty = true;
    return number;
}

void ten_plan_remove_target(ten_plan *plan, uint32_t number) {
    TEN_INVARIANT(number < plan->targets.bound && plan->targets.ids[number]);
    (void)ten_plan_pin_target(plan, number, NULL, false);
    uint32_t holder = plan->targets.holders[number];
    if (holder != TEN_PLAN_NONE)
        plan->instances[holder].share--;
    ten_plan_targets_remove(&plan->targets, number);
    plan->dirty = true;
}

void ten_plan_set_aside(ten_plan *plan, uint32_t number, bool aside) {
    struct ten_plan_targets *targets = &plan->targets;
    TEN_INVARIANT(number < targets->bound && targets->ids[number]);
    if (((targets->aside[number] & TEN_PLAN_ASIDE) != 0) == aside)
        return;
    if (targets->holders[number] != TEN_PLAN_NONE)
        plan->instances[targets->holders[number]].share--;
    targets->holders[number] = TEN_PLAN_NONE;
    targets->aside[number] ^= TEN_PLAN_ASIDE;
    targets->aside_count = aside ? targets->aside_count + 1 : targets->aside_count - 1;
    ten_plan_touch(plan, number);
    plan->scratch |= plan->failed;
    plan->dirty = true;
}

/* The place of the instance in the order, or where it would be inserted. */
static uint32_t find_in_order(const ten_plan *plan, const char *id, uint64_t hash) {
    uint32_t place = 0;
    for (; place < plan->order_count; place++) {
        const struct ten_plan_instance *other = &plan->instances[plan->order[place]];
        if (other->hash < hash || (other->hash == hash && strcmp(other->id, id) >= 0))
            break;
    }
    return place;
}

uint32_t ten_plan_find_instance(const ten_plan *plan, const char *id) {
    uintptr_t value = (uintptr_t)ten_map_get(&plan->instance_numbers, id);
    return value ? (uint32_t)(value - 1) : TEN_PLAN_NONE;
}

static uint32_t add_instance(ten_plan *plan, const char *id) {
    uint32_t number = 0;
    while (number < plan->instance_bound && plan->instances[number].id)
        number++;
    if (!TEN_GROW(plan->instances, plan->instance_room, number + 1) ||
        !TEN_GROW(plan->order, plan->order_room, plan->order_count + 1) ||
        !ten_map_put(&plan->instance_numbers, id, (void *)((uintptr_t)number + 1)))
        return TEN_PLAN_NONE;
    if (number == plan->instance_bound)
        plan->instance_bound++;
    uint64_t hash = ten_hash_text(id);
    plan->instances[number] = (struct ten_plan_instance){.id = ten_map_key(&plan->instance_numbers, id),
                                                         .hash = hash,
                                                         .kept_up_to = UINT64_MAX,
                                                         .kept.worst_first = true};
    uint32_t place = find_in_order(plan, id, hash);
    memmove(plan->order + place + 1, plan->order + place, (plan->order_count - place) * sizeof *plan->order);
    plan->order[place] = number;
    plan->order_count++;
    return number;
}

uint32_t ten_plan_set_instance(ten_plan *plan, const char *id, uint32_t weight) {
    uint32_t number = ten_plan_find_instance(plan, id);
    if (number == TEN_PLAN_NONE)
        number = add_instance(plan, id);
    if (number == TEN_PLAN_NONE)
        return number;
    plan->dirty |= plan->instances[number].weight != weight;
    plan->instances[number].weight = weight;
    return number;
}

/* The instance's number may be reused, so later moves of its targets must be reported as coming from TEN_PLAN_NONE.
 * Only touched targets can still have it as their reported holder, unless the last settling failed: then any target
 * can. */
static void forget_told(ten_plan *plan, uint32_t instance) {
    uint32_t *told_holders = plan->targets.told_holders;
    for (uint32_t i = 0; i < plan->touched_count; i++)
        if (told_holders[plan->touched[i]] == instance)
            told_holders[plan->touched[i]] = TEN_PLAN_NONE;
    for (uint32_t t = 0; plan->scratch && t < plan->targets.bound; t++)
        if (told_holders[t] == instance)
            told_holders[t] = TEN_PLAN_NONE;
}

static void remove_from_order(ten_plan *plan, const struct ten_plan_instance *instance) {
    uint32_t place = find_in_order(plan, instance->id, instance->hash);
    plan->order_count--;
    memmove(plan->order + place, plan->order + place + 1, (plan->order_count - place) * sizeof *plan->order);
}

void ten_plan_remove_instance(ten_plan *plan, uint32_t number) {
    TEN_INVARIANT(number < plan->instance_bound && plan->instances[number].id);
    struct ten_plan_instance *instance = &plan->instances[number];
    ten_plan_empty(plan, number);
    ten_plan_release_pins(plan, number);
    plan->scratch |= plan->failed;
    forget_told(plan, number);
    remove_from_order(plan, instance);
    (void)ten_map_remove(&plan->instance_numbers, instance->id);
    ten_free(instance->kept.entries);
    ten_free(instance->rejected.entries);
    *instance = (struct ten_plan_instance){0};
    plan->dirty = true;
}

/* ---- the handle */

ten_plan *ten_plan_new(ten_plan_moved_fn moved, void *userdata) {
    ten_plan *plan = ten_calloc(1, sizeof *plan);
    if (plan) {
        plan->moved = moved;
        plan->userdata = userdata;
        plan->scratch = true;
    }
    return plan;
}

void ten_plan_free(ten_plan *plan) {
    if (!plan)
        return;
    for (uint32_t i = 0; i < plan->instance_bound; i++) {
        ten_free(plan->instances[i].kept.entries);
        ten_free(plan->instances[i].rejected.entries);
    }
    ten_plan_targets_free(&plan->targets);
    ten_map_free(&plan->instance_numbers);
    ten_free(plan->instances);
    ten_free(plan->order);
    ten_free(plan->choices);
    ten_free(plan->choice_hashes);
    ten_free(plan->touched);
    ten_plan_free_pins(plan);
    ten_free(plan);
}

/* ---- reading */

uint32_t ten_plan_find_target(const ten_plan *plan, const char *id) {
    return ten_plan_targets_find(&plan->targets, id);
}

const char *ten_plan_target_id(const ten_plan *plan, uint32_t target) {
    return plan->targets.ids[target];
}

const char *ten_plan_instance_id(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].id;
}

uint32_t ten_plan_target_bound(const ten_plan *plan) {
    return plan->targets.bound;
}

uint32_t ten_plan_instance_bound(const ten_plan *plan) {
    return plan->instance_bound;
}

size_t ten_plan_target_count(const ten_plan *plan) {
    return plan->targets.count - plan->targets.aside_count;
}

size_t ten_plan_instance_count(const ten_plan *plan) {
    size_t count = 0;
    for (uint32_t place = 0; place < plan->order_count; place++)
        count += plan->instances[plan->order[place]].weight > 0;
    return count;
}

uint32_t ten_plan_holder(const ten_plan *plan, uint32_t target) {
    return plan->targets.told_holders[target];
}

size_t ten_plan_quota(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].quota + plan->instances[instance].pinned;
}

size_t ten_plan_share(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].share + plan->instances[instance].pinned;
}

size_t ten_plan_rank(const ten_plan *plan, uint32_t target, uint32_t instance) {
    uint32_t holder = plan->targets.told_holders[target];
    if (instance == holder)
        return 0;
    size_t rank = holder != TEN_PLAN_NONE;
    const ten_plan_pin *pin = ten_plan_find_pin(plan, target);
    uint32_t last =
        pin && pin->away && pin->holder != TEN_PLAN_NONE ? ten_plan_find_instance(plan, pin->instance) : TEN_PLAN_NONE;
    uint64_t weight = ten_plan_pair_weight(plan, instance, target);
    for (uint32_t place = 0; place < plan->order_count; place++) {
        uint32_t other = plan->order[place];
        if (other != instance && other != holder && other != last && plan->instances[other].weight > 0)
            rank += instance == last ||
                    ten_plan_prefers(plan, other, ten_plan_pair_weight(plan, other, target), instance, weight);
    }
    return rank;
}
