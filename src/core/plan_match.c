/*
 * The matching. Called when a plan is settled, after the quotas are set.
 *
 * Each instance has two heaps: `kept`, its targets with the worst on top, and `rejected`, the targets that prefer this
 * instance to the one they have, with the best on top. The matching is right when no instance exceeds its quota, and no
 * instance has a target in `rejected` for which it has room, or which weighs more than one that it keeps. Each repair
 * step matches one such pair. By that the sorted list of matched weights only grows, so the repair ends, and it ends in
 * the only stable matching.
 *
 * Few of many targets are ever put out, so `kept` contains only the worst few: all that weigh at most kept_up_to. When
 * it is empty, one walk over the planned holders collects the next few.
 *
 * Entries are not removed from the heaps when a target moves. An entry carries its weight, and the code that takes it
 * from the top checks whether it is still true.
 */
#include "base/alloc.h"
#include "base/util.h"
#include "core/plan_state.h"

#define KEPT_LEAST 64u /* a heap collects so many targets */
#define KEPT_PART  32u /* plus this part of its share: fewer are used up too often, more slow everything down */

typedef struct ten_plan_entry entry;

static bool still_means(const ten_plan *plan, uint32_t instance, entry it) {
    return plan->targets.ids[it.target] && !plan->targets.aside[it.target] &&
           ten_plan_pair_weight(plan, instance, it.target) == it.weight;
}

void ten_plan_touch(ten_plan *plan, uint32_t target) {
    if (plan->scratch)
        return;
    if (plan->touched_count < plan->touched_room ||
        TEN_GROW(plan->touched, plan->touched_room, plan->touched_count + 1))
        plan->touched[plan->touched_count++] = target;
    else
        plan->failed = true;
}

/* ---- kept: the worst few */

/* Starts collecting the worst of about `share` targets. */
static void begin_kept(struct ten_plan_instance *instance, uint32_t share) {
    uint32_t over = share > instance->quota ? share - instance->quota : 0;
    instance->kept.count = 0;
    instance->kept.worst_first = true;
    instance->kept_up_to = UINT64_MAX;
    instance->kept_limit = KEPT_LEAST + share / KEPT_PART + over;
}

/* Keeps the `kept_limit` worst entries, and those that weigh the same as the last of them. */
static void cut_kept(ten_plan *plan, struct ten_plan_instance *instance) {
    struct ten_plan_heap *kept = &instance->kept;
    uint32_t count = kept->count;
    ten_plan_heap_select(&plan->targets, kept, instance->kept_limit);
    kept->count = instance->kept_limit;
    instance->kept_up_to = kept->entries[kept->count - 1].weight;
    for (uint32_t i = kept->count; i < count; i++)
        if (kept->entries[i].weight == instance->kept_up_to)
            kept->entries[kept->count++] = kept->entries[i];
    if (kept->count > count / 2 + count / 4) /* many have the same weight: they cannot be separated here */
        instance->kept_limit = kept->count;
}

/* Between begin_kept() and the ordering of the heap. */
static inline void collect_kept(ten_plan *plan, struct ten_plan_instance *instance, entry it) {
    if (it.weight > instance->kept_up_to)
        return;
    if (!ten_plan_heap_append(&instance->kept, it))
        plan->failed = true;
    else if (instance->kept.count >= 2 * instance->kept_limit)
        cut_kept(plan, instance);
}

static void collect_again(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    const struct ten_plan_targets *targets = &plan->targets;
    begin_kept(instance, instance->share);
    for (uint32_t t = 0; t < targets->bound && !plan->failed; t++)
        if (targets->holders[t] == number)
            collect_kept(plan, instance,
                         (entry){.weight = ten_plan_weigh(instance->hash, targets->hashes[t]), .target = t});
    ten_plan_heap_order(targets, &instance->kept);
}

/* The worst of the instance's targets; false: it has none. */
static bool worst_kept(ten_plan *plan, uint32_t number, entry *ret_entry) {
    struct ten_plan_instance *instance = &plan->instances[number];
    struct ten_plan_heap *kept = &instance->kept;
    while (!plan->failed && instance->share > 0) {
        for (; kept->count > 0; ten_plan_heap_pop(&plan->targets, kept)) {
            *ret_entry = kept->entries[0];
            if (plan->targets.holders[ret_entry->target] == number && still_means(plan, number, *ret_entry))
                return true;
        }
        collect_again(plan, number);
        TEN_INVARIANT(kept->count > 0 || plan->failed);
    }
    return false;
}

/* ---- rejected */

static bool is_rejected(const ten_plan *plan, uint32_t number, entry it) {
    if (!still_means(plan, number, it))
        return false;
    uint32_t holder = plan->targets.holders[it.target];
    return holder == TEN_PLAN_NONE ||
           (holder != number &&
            ten_plan_prefers(plan, number, it.weight, holder, ten_plan_pair_weight(plan, holder, it.target)));
}

/* The best of the targets that prefer this instance. */
static bool best_rejected(ten_plan *plan, uint32_t number, entry *ret_entry) {
    struct ten_plan_heap *rejected = &plan->instances[number].rejected;
    for (; rejected->count > 0; ten_plan_heap_pop(&plan->targets, rejected)) {
        *ret_entry = rejected->entries[0];
        if (is_rejected(plan, number, *ret_entry))
            return true;
    }
    return false;
}

/* From scratch, the heap is not read before it is complete: it is ordered at the end. */
static void reject(ten_plan *plan, uint32_t number, entry it) {
    struct ten_plan_heap *rejected = &plan->instances[number].rejected;
    if (plan->scratch ? !ten_plan_heap_append(rejected, it) : !ten_plan_heap_push(&plan->targets, rejected, it))
        plan->failed = true;
}

/* ---- moving */

static void take_in(ten_plan *plan, uint32_t number, entry it) {
    struct ten_plan_instance *instance = &plan->instances[number];
    plan->targets.holders[it.target] = number;
    instance->share++;
    if (it.weight <= instance->kept_up_to && !ten_plan_heap_push(&plan->targets, &instance->kept, it))
        plan->failed = true;
    ten_plan_touch(plan, it.target);
}

static void put_out(ten_plan *plan, uint32_t number, entry it) {
    plan->targets.holders[it.target] = TEN_PLAN_NONE;
    plan->instances[number].share--;
    reject(plan, number, it);
    ten_plan_touch(plan, it.target);
}

static uint32_t first_choice(const ten_plan *plan, uint64_t target_hash, uint64_t *ret_weight) {
    uint32_t best = 0;
    uint64_t best_weight = ten_plan_weigh(plan->choice_hashes[0], target_hash);
    for (uint32_t i = 1; i < plan->choice_count; i++) {
        uint64_t weight = ten_plan_weigh(plan->choice_hashes[i], target_hash);
        best = weight > best_weight ? i : best; /* of equal weights the first: the order of choices decides */
        best_weight = weight > best_weight ? weight : best_weight;
    }
    *ret_weight = best_weight;
    return plan->choices[best];
}

/* The instance that a target prefers among those that it ranks below `after`. */
static uint32_t next_choice(const ten_plan *plan, uint32_t target, uint32_t after, uint64_t after_weight,
                            uint64_t *ret_weight) {
    uint64_t hash = plan->targets.hashes[target];
    uint32_t best = TEN_PLAN_NONE;
    uint64_t best_weight = 0;
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        uint64_t weight = ten_plan_weigh(plan->choice_hashes[i], hash);
        uint32_t number = plan->choices[i];
        if (weight > after_weight || (best != TEN_PLAN_NONE && weight <= best_weight))
            continue;
        if (weight == after_weight && (number == after || !ten_plan_prefers(plan, after, weight, number, weight)))
            continue;
        best = number;
        best_weight = weight;
    }
    *ret_weight = best_weight;
    return best;
}

/* Lets a target that was put out by `after` ask the instances that it ranks below, in its order; a target that is put
 * out for it does the same. If `after` is TEN_PLAN_NONE, it asks all instances. */
static void place(ten_plan *plan, uint32_t target, uint32_t after, uint64_t after_weight) {
    while (!plan->failed && plan->choice_count > 0) {
        uint64_t weight;
        uint32_t number = after == TEN_PLAN_NONE ? first_choice(plan, plan->targets.hashes[target], &weight)
                                                 : next_choice(plan, target, after, after_weight, &weight);
        if (number == TEN_PLAN_NONE)
            return;
        struct ten_plan_instance *instance = &plan->instances[number];
        entry asking = {.weight = weight, .target = target};
        entry worst;
        if (instance->share < instance->quota) {
            take_in(plan, number, asking);
            return;
        }
        if (worst_kept(plan, number, &worst) && ten_plan_is_better(&plan->targets, asking, worst)) {
            put_out(plan, number, worst);
            take_in(plan, number, asking);
            target = worst.target;
            after_weight = worst.weight;
        } else {
            reject(plan, number, asking);
            after_weight = weight;
        }
        after = number;
    }
}

/* The instance takes the best target that prefers it, if it has room or keeps a worse one. False: there is no such
 * target. */
static bool attract_one(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    entry best;
    entry worst;
    if (instance->quota == 0 || !best_rejected(plan, number, &best))
        return false;
    bool full = instance->share >= instance->quota;
    if (full && (!worst_kept(plan, number, &worst) || !ten_plan_is_better(&plan->targets, best, worst)))
        return false;
    ten_plan_heap_pop(&plan->targets, &instance->rejected);
    uint32_t former = plan->targets.holders[best.target];
    if (former != TEN_PLAN_NONE)
        plan->instances[former].share--;
    if (full)
        put_out(plan, number, worst);
    take_in(plan, number, best);
    if (full)
        place(plan, worst.target, number, worst.weight);
    return !plan->failed;
}

/* Puts out the targets that exceed the quota. */
static bool shed(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    entry worst;
    bool any = false;
    while (instance->share > instance->quota && worst_kept(plan, number, &worst)) {
        put_out(plan, number, worst);
        place(plan, worst.target, number, worst.weight);
        any = true;
    }
    return any;
}

void ten_plan_empty(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    for (uint32_t t = 0; t < plan->targets.bound && instance->share > 0; t++) {
        if (plan->targets.holders[t] != number)
            continue;
        plan->targets.holders[t] = TEN_PLAN_NONE;
        instance->share--;
        ten_plan_touch(plan, t);
    }
    instance->kept.count = 0;
    instance->kept_up_to = UINT64_MAX;
    instance->rejected.count = 0;
}

/* ---- from scratch */

/* All targets ask their first choice at once; an instance that is asked by too many keeps the best, and the few that
 * are left go on one by one. */
static void match_from_scratch(ten_plan *plan) {
    struct ten_plan_targets *targets = &plan->targets;
    for (uint32_t i = 0; i < plan->instance_bound; i++) {
        plan->instances[i].share = plan->instances[i].rejected.count = 0;
        begin_kept(&plan->instances[i], plan->choice_count ? targets->count / plan->choice_count : 0);
    }
    for (uint32_t t = 0; t < targets->bound && !plan->failed; t++) {
        targets->holders[t] = TEN_PLAN_NONE;
        if (!targets->ids[t] || targets->aside[t] || plan->choice_count == 0)
            continue;
        uint64_t weight;
        uint32_t number = first_choice(plan, targets->hashes[t], &weight);
        targets->holders[t] = number;
        plan->instances[number].share++;
        collect_kept(plan, &plan->instances[number], (entry){.weight = weight, .target = t});
    }
    for (uint32_t i = 0; i < plan->instance_bound; i++)
        ten_plan_heap_order(targets, &plan->instances[i].kept);
    for (uint32_t i = 0; i < plan->instance_bound; i++)
        shed(plan, i);
    for (uint32_t i = 0; i < plan->instance_bound; i++) {
        ten_plan_heap_order(targets, &plan->instances[i].rejected);
        plan->instances[i].rejected_clean = plan->instances[i].rejected.count;
    }
}

/* ---- repair */

/* It has a quota, and no target has asked it yet. */
static bool is_new(const struct ten_plan_instance *instance) {
    return instance->quota > 0 && instance->former_quota == 0;
}

/* Lists all targets that prefer a new instance to their planned holder, in the order of numbers, in its `rejected`.
 * Targets without a planned holder are placed later and ask in their own order: they may prefer another instance. */
static void list_asking(ten_plan *plan, uint32_t number) {
    const struct ten_plan_targets *targets = &plan->targets;
    struct ten_plan_heap *asking = &plan->instances[number].rejected;
    uint64_t hash = plan->instances[number].hash;
    asking->count = 0;
    for (uint32_t t = 0; t < targets->bound; t++) {
        uint32_t holder = targets->holders[t];
        if (holder == TEN_PLAN_NONE)
            continue;
        if (asking->count == asking->room && !ten_plan_heap_grow(asking)) {
            plan->failed = true;
            return;
        }
        uint64_t weight = ten_plan_weigh(hash, targets->hashes[t]);
        uint64_t holder_weight = ten_plan_pair_weight(plan, holder, t);
        /* Written always, counted only if it is preferred: this avoids a branch that is hard to predict. */
        asking->entries[asking->count] = (entry){.weight = weight, .target = t};
        asking->count += weight > holder_weight;
        if (weight == holder_weight)
            asking->count += ten_plan_prefers(plan, number, weight, holder, holder_weight);
    }
}

/* All targets that prefer a new instance move there, up to its quota. A few too many do not matter, they are put out
 * later; if there are many too many, the best are selected first. */
static void introduce(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    struct ten_plan_heap *asking = &instance->rejected;
    const struct ten_plan_targets *targets = &plan->targets;
    TEN_INVARIANT(instance->share == 0);
    list_asking(plan, number);
    uint32_t taken = asking->count;
    if (taken / 16 * 15 > instance->quota)
        ten_plan_heap_select(targets, asking, taken = instance->quota);
    begin_kept(instance, taken);
    for (uint32_t i = 0; i < taken && !plan->failed; i++) {
        uint32_t *holder = &targets->holders[asking->entries[i].target];
        plan->instances[*holder].share--;
        *holder = number;
        instance->share++;
        collect_kept(plan, instance, asking->entries[i]);
        ten_plan_touch(plan, asking->entries[i].target);
    }
    ten_plan_heap_order(targets, &instance->kept);
    asking->count -= taken;
    for (uint32_t i = 0; i < asking->count; i++)
        asking->entries[i] = asking->entries[taken + i];
    ten_plan_heap_order(targets, asking);
    instance->rejected_clean = asking->count;
}

/* Removes outdated entries from the heaps once most may be outdated. */
static void clean(ten_plan *plan, uint32_t number) {
    struct ten_plan_instance *instance = &plan->instances[number];
    struct ten_plan_heap *rejected = &instance->rejected;
    if (instance->kept.count > 4 * (instance->kept_limit + KEPT_LEAST))
        collect_again(plan, number);
    if (rejected->count / 2 <= instance->rejected_clean + KEPT_LEAST)
        return;
    uint32_t count = rejected->count;
    rejected->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_rejected(plan, number, rejected->entries[i]))
            rejected->entries[rejected->count++] = rejected->entries[i];
    ten_plan_heap_drop_twins(&plan->targets, rejected);
    instance->rejected_clean = rejected->count;
}

/* Repairs what changed. New instances attract before others shed, so that targets move there directly. */
static void repair(ten_plan *plan) {
    for (uint32_t i = 0; i < plan->instance_bound; i++)
        if (plan->instances[i].quota == 0)
            ten_plan_empty(plan, i);
    uint32_t to_place = plan->touched_count;
    for (uint32_t i = 0; i < plan->instance_bound && !plan->failed; i++) {
        clean(plan, i);
        if (is_new(&plan->instances[i]))
            introduce(plan, i);
    }
    for (uint32_t i = 0; i < to_place && !plan->failed; i++) {
        uint32_t target = plan->touched[i];
        if (plan->targets.ids[target] && !plan->targets.aside[target] && plan->targets.holders[target] == TEN_PLAN_NONE)
            place(plan, target, TEN_PLAN_NONE, 0);
    }
    for (bool again = true; again && !plan->failed;) {
        again = false;
        for (uint32_t i = 0; i < plan->instance_bound; i++)
            while (attract_one(plan, i))
                again = true;
        for (uint32_t i = 0; i < plan->instance_bound; i++)
            again |= shed(plan, i);
    }
}

/* Introducing an instance computes two weights for each target; starting from scratch computes one for each target and
 * instance. After a time without instances it must be from scratch: then targets without a planned holder are not
 * touched. */
static bool are_many_new(const ten_plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->choice_count; i++)
        count += is_new(&plan->instances[plan->choices[i]]);
    return count > 0 && 2 * count >= plan->choice_count;
}

void ten_plan_match(ten_plan *plan) {
    plan->scratch |= are_many_new(plan);
    if (plan->scratch)
        match_from_scratch(plan);
    else
        repair(plan);
    for (uint32_t i = 0; i < plan->instance_bound; i++) {
        ten_plan_heap_trim(&plan->instances[i].kept);
        ten_plan_heap_trim(&plan->instances[i].rejected);
    }
}
