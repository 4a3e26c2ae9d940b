/*
 * The state of a plan, shared by plan.c (targets, instances, settling, reading), plan_pin.c (targets that are pinned),
 * plan_quota.c (how many targets each instance gets) and plan_match.c (which ones).
 */
#ifndef TEN_CORE_PLAN_STATE_H
#define TEN_CORE_PLAN_STATE_H

#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "core/plan.h"
#include "core/plan_heap.h"
#include "core/plan_targets.h"

struct ten_plan_instance {
    const char *id; /* the key in instance_numbers; NULL: a free number */
    uint64_t hash;
    uint32_t weight;
    uint32_t quota;            /* without what is pinned to it */
    uint32_t former_quota;     /* before this settling */
    uint32_t share;            /* without what is pinned to it */
    uint32_t pinned;           /* targets that are pinned to it, with effect */
    bool closed;               /* while quotas are set: it gets nothing but what is pinned to it */
    struct ten_plan_heap kept; /* its targets that weigh at most kept_up_to, worst first, and some former ones */
    uint64_t kept_up_to;
    uint32_t kept_limit;
    struct ten_plan_heap rejected; /* targets that prefer this instance, best first, and some that no longer do */
    uint32_t rejected_clean;       /* how many were left when outdated entries were last removed */
};

struct ten_plan {
    struct ten_plan_targets targets;
    struct ten_plan_instance *instances;
    uint32_t instance_bound;
    uint32_t instance_room;
    uint32_t *order; /* all instances by their hashes, the largest first, then by their ids: decides equal weights */
    uint32_t order_count;
    uint32_t order_room;
    uint32_t *choices; /* those of them with a quota, and their hashes in one array for the innermost loop */
    uint32_t choice_room;
    uint64_t *choice_hashes;
    uint32_t choice_hash_room;
    uint32_t choice_count;
    uint32_t *touched; /* targets to be placed, or whose planned holder may differ from the one last reported */
    uint32_t touched_count;
    uint32_t touched_room;
    ten_map instance_numbers; /* id to number + 1 */
    ten_plan_pin *pins;       /* by the numbers of their targets */
    uint32_t pin_count;
    uint32_t pin_room;
    ten_plan_moved_fn moved;
    void *userdata;
    bool dirty;
    bool scratch; /* make the matching from scratch: it is the first, or the last settling ran out of memory */
    bool failed;  /* out of memory */
};

/* The weight of a pair. For one target, two weights are equal only if the hashes of the instances are equal, and the
 * other way round: mixing is one to one. */
static inline uint64_t ten_plan_weigh(uint64_t instance_hash, uint64_t target_hash) {
    return ten_hash_mix(instance_hash ^ target_hash);
}

static inline uint64_t ten_plan_pair_weight(const ten_plan *plan, uint32_t instance, uint32_t target) {
    return ten_plan_weigh(plan->instances[instance].hash, plan->targets.hashes[target]);
}

/* Whether a target prefers instance a (with that weight) to instance b. */
static inline bool ten_plan_prefers(const ten_plan *plan, uint32_t a, uint64_t a_weight, uint32_t b,
                                    uint64_t b_weight) {
    if (a_weight != b_weight)
        return a_weight > b_weight;
    return strcmp(plan->instances[a].id, plan->instances[b].id) < 0;
}

/* plan_pin.c */
/* Decides for each pin whom it gives its target to: before the quotas are set. */
void ten_plan_settle_pins(ten_plan *plan);
/* No target is pinned to the instance any more; those that were are touched. */
void ten_plan_release_pins(ten_plan *plan, uint32_t instance);
void ten_plan_free_pins(ten_plan *plan);

/* plan_quota.c: quotas, former quotas and choices. False: out of memory. */
bool ten_plan_set_quotas(ten_plan *plan);

/* plan_match.c */
/* Makes the matching from scratch or repairs it. After a repair, all targets that may have moved are touched; from
 * scratch, any target may have moved. Sets `failed` when out of memory. */
void ten_plan_match(ten_plan *plan);
/* Takes all targets from the instance and touches them. */
void ten_plan_empty(ten_plan *plan, uint32_t instance);
/* Remembers the target for the next settling. */
void ten_plan_touch(ten_plan *plan, uint32_t target);

#endif
