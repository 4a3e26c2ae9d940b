/*
 * Quotas: how many targets each instance gets. Called when a plan is settled.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/plan_state.h"

/* The remainder of an instance's part after whole targets. */
struct claim {
    uint64_t rest;
    uint32_t place; /* in the order of instances */
};

static int compare_claims(const void *left, const void *right) {
    const struct claim *a = left;
    const struct claim *b = right;
    if (a->rest != b->rest)
        return a->rest > b->rest ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* Shares `count` targets out among the instances that are not closed, by the largest remainder; equal remainders in the
 * order of instances, so that every process rounds alike. */
static bool share_out(ten_plan *plan, uint64_t count) {
    uint64_t all_weights = 0;
    for (uint32_t place = 0; place < plan->order_count; place++)
        all_weights += plan->instances[plan->order[place]].closed ? 0 : plan->instances[plan->order[place]].weight;
    if (all_weights == 0)
        return true;
    struct claim *claims = ten_malloc(plan->order_count * sizeof *claims);
    if (!claims)
        return false;
    uint64_t left = count;
    uint32_t claim_count = 0;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        if (instance->closed)
            continue;
        uint64_t part = count * instance->weight;
        instance->quota = (uint32_t)(part / all_weights);
        left -= instance->quota;
        claims[claim_count++] = (struct claim){.rest = part % all_weights, .place = place};
    }
    qsort(claims, claim_count, sizeof *claims, compare_claims);
    for (uint32_t i = 0; i < left; i++)
        plan->instances[plan->order[claims[i].place]].quota++;
    ten_free(claims);
    return true;
}

/* Closes the instances that have more pins than their quota; returns how many targets those have. 0: there are none. */
static uint64_t close_full(ten_plan *plan) {
    uint64_t taken = 0;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        if (instance->closed || instance->pinned <= instance->quota)
            continue;
        instance->closed = true;
        instance->quota = instance->pinned;
        taken += instance->pinned;
    }
    return taken;
}

static bool list_choices(ten_plan *plan) {
    plan->choice_count = 0;
    if (!TEN_GROW(plan->choices, plan->choice_room, plan->order_count) ||
        !TEN_GROW(plan->choice_hashes, plan->choice_hash_room, plan->order_count))
        return false;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        const struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        if (instance->quota == 0)
            continue;
        plan->choices[plan->choice_count] = plan->order[place];
        plan->choice_hashes[plan->choice_count++] = instance->hash;
    }
    return true;
}

/* An instance with too many pins keeps them, and the others share the rest: with that their quotas are smaller, so that
 * another one may have too many, too. */
bool ten_plan_set_quotas(ten_plan *plan) {
    for (uint32_t place = 0; place < plan->order_count; place++) {
        struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        instance->former_quota = instance->quota;
        instance->quota = 0;
        instance->closed = instance->weight == 0;
    }
    uint64_t taken = 0;
    uint64_t left = ten_plan_target_count(plan);
    do {
        left -= taken;
        if (!share_out(plan, left))
            return false;
        taken = plan->pin_count ? close_full(plan) : 0;
    } while (taken > 0);
    for (uint32_t place = 0; place < plan->order_count; place++)
        plan->instances[plan->order[place]].quota -= plan->instances[plan->order[place]].pinned;
    return list_choices(plan);
}
