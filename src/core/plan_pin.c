/*
 * Pins: targets whose planned holder is decided by an operator instead of the matching. Called by plan.c. Who pinned
 * what, why and until when is not known here: a pin that has ended is taken back by the caller.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "core/plan_state.h"

/* The place of the target's pin, or where it would be inserted. */
static uint32_t find_place(const ten_plan *plan, uint32_t target) {
    return ten_place_of(plan->pins, plan->pin_count, sizeof *plan->pins, target);
}

ten_plan_pin *ten_plan_find_pin(const ten_plan *plan, uint32_t target) {
    uint32_t place = plan->pin_count ? find_place(plan, target) : 0;
    return place < plan->pin_count && plan->pins[place].target == target ? &plan->pins[place] : NULL;
}

ten_plan_pin *ten_plan_pins(const ten_plan *plan, uint32_t *ret_count) {
    *ret_count = plan->pin_count;
    return plan->pins;
}

/* ---- whom a pin gives its target to */

static bool is_usable(const ten_plan *plan, uint32_t instance) {
    return instance != TEN_PLAN_NONE && plan->instances[instance].weight > 0;
}

/* The first that the target would ask if `left_out` were not there. */
static uint32_t best_other(const ten_plan *plan, uint32_t target, uint32_t left_out) {
    uint32_t best = TEN_PLAN_NONE;
    uint64_t best_weight = 0;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        uint32_t other = plan->order[place];
        if (other == left_out || !is_usable(plan, other))
            continue;
        uint64_t weight = ten_plan_pair_weight(plan, other, target);
        if (best == TEN_PLAN_NONE || ten_plan_prefers(plan, other, weight, best, best_weight)) {
            best = other;
            best_weight = weight;
        }
    }
    return best;
}

static uint32_t resolve(const ten_plan *plan, const ten_plan_pin *pin) {
    uint32_t named = ten_plan_find_instance(plan, pin->instance);
    if ((plan->targets.aside[pin->target] & TEN_PLAN_ASIDE) || !is_usable(plan, named))
        return TEN_PLAN_NONE;
    return pin->away ? best_other(plan, pin->target, named) : named;
}

/* The pin gives its target to that instance from now on; TEN_PLAN_NONE: the matching decides. */
static void give(ten_plan *plan, ten_plan_pin *pin, uint32_t holder) {
    struct ten_plan_targets *targets = &plan->targets;
    if (pin->holder == holder)
        return;
    if (pin->holder != TEN_PLAN_NONE)
        plan->instances[pin->holder].pinned--;
    if (holder != TEN_PLAN_NONE)
        plan->instances[holder].pinned++;
    if (targets->holders[pin->target] != TEN_PLAN_NONE) {
        plan->instances[targets->holders[pin->target]].share--;
        targets->holders[pin->target] = TEN_PLAN_NONE;
    }
    targets->aside[pin->target] &= TEN_PLAN_ASIDE;
    if (holder != TEN_PLAN_NONE)
        targets->aside[pin->target] |= TEN_PLAN_PINNED;
    pin->holder = holder;
    ten_plan_touch(plan, pin->target);
    plan->scratch |= plan->failed;
    plan->dirty = true;
}

void ten_plan_settle_pins(ten_plan *plan) {
    for (uint32_t i = 0; i < plan->pin_count; i++)
        give(plan, &plan->pins[i], resolve(plan, &plan->pins[i]));
}

void ten_plan_release_pins(ten_plan *plan, uint32_t instance) {
    for (uint32_t i = 0; i < plan->pin_count; i++)
        if (plan->pins[i].holder == instance)
            give(plan, &plan->pins[i], TEN_PLAN_NONE);
}

/* ---- the pins */

static void remove_pin(ten_plan *plan, ten_plan_pin *pin) {
    give(plan, pin, TEN_PLAN_NONE);
    ten_free(pin->instance);
    plan->pin_count--;
    size_t place = (size_t)(pin - plan->pins);
    memmove(pin, pin + 1, (plan->pin_count - place) * sizeof *pin);
}

bool ten_plan_pin_target(ten_plan *plan, uint32_t target, const char *instance, bool away) {
    TEN_INVARIANT(target < plan->targets.bound && plan->targets.ids[target]);
    ten_plan_pin *pin = ten_plan_find_pin(plan, target);
    if (!instance) {
        if (pin)
            remove_pin(plan, pin);
        return true;
    }
    if (pin && pin->away == away && strcmp(pin->instance, instance) == 0)
        return true;
    char *copy = ten_strdup(instance);
    if (!copy || (!pin && !TEN_GROW(plan->pins, plan->pin_room, plan->pin_count + 1))) {
        ten_free(copy);
        return false;
    }
    if (!pin) {
        pin = &plan->pins[find_place(plan, target)];
        memmove(pin + 1, pin, (size_t)(plan->pins + plan->pin_count - pin) * sizeof *pin);
        *pin = (ten_plan_pin){.target = target, .holder = TEN_PLAN_NONE};
        plan->pin_count++;
    }
    ten_free(pin->instance);
    pin->instance = copy;
    pin->away = away;
    plan->dirty = true;
    return true;
}

void ten_plan_free_pins(ten_plan *plan) {
    for (uint32_t i = 0; i < plan->pin_count; i++)
        ten_free(plan->pins[i].instance);
    ten_free(plan->pins);
}
