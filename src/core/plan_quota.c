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

/* By the largest remainder; equal remainders in the order of instances, so that every process rounds alike. */
static bool share_out(ten_plan *plan, uint64_t all_weights) {
    uint64_t left = ten_plan_planned_count(plan);
    struct claim *claims = ten_malloc(plan->order_count * sizeof *claims);
    if (!claims)
        return false;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        uint64_t part = (uint64_t)ten_plan_planned_count(plan) * instance->weight;
        instance->quota = (uint32_t)(part / all_weights);
        left -= instance->quota;
        claims[place] = (struct claim){.rest = part % all_weights, .place = place};
    }
    qsort(claims, plan->order_count, sizeof *claims, compare_claims);
    for (uint32_t i = 0; i < left; i++)
        plan->instances[plan->order[claims[i].place]].quota++;
    ten_free(claims);
    return true;
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

bool ten_plan_set_quotas(ten_plan *plan) {
    uint64_t all_weights = 0;
    for (uint32_t place = 0; place < plan->order_count; place++) {
        struct ten_plan_instance *instance = &plan->instances[plan->order[place]];
        all_weights += instance->weight;
        instance->former_quota = instance->quota;
        instance->quota = 0;
    }
    if (all_weights > 0 && !share_out(plan, all_weights))
        return false;
    return list_choices(plan);
}
