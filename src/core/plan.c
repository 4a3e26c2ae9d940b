/*
 * The plan. Called by the fleet, and by the command that shows a dry run.
 *
 * How the matching is kept. Each instance has two heaps: `kept`, its targets with the least wanted on top, and
 * `rejected`, the targets that would rather be here than where they are, with the most wanted on top. The matching is
 * right when no instance is over its quota, and none with room, or with a kept target that weighs less, has somebody in
 * `rejected`. Every repair makes such a pair happy; the sorted list of matched weights only grows by that, so it ends,
 * and it ends in the one matching that there is.
 *
 * Entries of heaps are not taken out when a target moves away: an entry says what it weighs, and whoever takes it from
 * the top looks whether that still holds.
 */
#include "core/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/util.h"
#include "core/mutant.h"

struct entry {
    uint64_t weight;
    uint32_t target;
};

struct heap {
    struct entry *entries;
    uint32_t count;
    uint32_t room;
    uint32_t clean; /* how many were left when it was last rid of what no longer holds */
};

struct target {
    const char *id; /* the key in target_numbers; NULL: a free number */
    uint64_t hash;  /* mixed */
    uint32_t owner;
    uint32_t settled_owner; /* as last reported */
    uint32_t mark;          /* for finding duplicates */
};

struct instance {
    const char *id; /* the key in instance_numbers; NULL: a free number */
    uint64_t hash;
    uint32_t weight;
    uint32_t quota;
    uint32_t former_quota;
    uint32_t share;
    bool joined; /* nobody has asked it yet */
    struct heap kept;
    struct heap rejected;
};

struct ten_plan {
    struct target *targets;
    uint32_t target_slots;
    uint32_t target_room;
    uint32_t target_count;
    struct instance *instances;
    uint32_t instance_slots;
    uint32_t instance_room;
    uint32_t *touched; /* targets to be placed, or whose owner may be another than the one last reported */
    uint32_t touched_count;
    uint32_t touched_room;
    uint32_t *choices; /* numbers of the instances with a quota, and their hashes, close together: the innermost loop
                          reads them */
    uint64_t *choice_hashes;
    uint32_t choice_count;
    uint32_t choice_room;
    uint32_t choice_hash_room;
    uint32_t mark;
    uint32_t *free_targets; /* numbers to use again */
    uint32_t free_count;
    uint32_t free_room;
    ten_map target_numbers; /* id to number + 1 */
    ten_map instance_numbers;
    ten_plan_moved_fn moved;
    void *userdata;
    bool dirty;
    bool scratch; /* the next settling starts from scratch: it is the first, or memory ran out in the last */
    bool failed;  /* memory has run out in this settling */
};

/* ---- growing arrays */

static bool grow(void **array, uint32_t *room, uint32_t needed, size_t size) {
    if (needed <= *room)
        return true;
    uint32_t larger = *room ? *room : 16;
    while (larger < needed)
        larger *= 2;
    void *memory = ten_realloc(*array, larger * size);
    if (!memory)
        return false;
    *array = memory;
    *room = larger;
    return true;
}

#define GROW(array, room, needed) grow((void **)&(array), &(room), (needed), sizeof *(array))

/* ---- weights and order */

static inline uint64_t weigh(uint64_t instance_hash, uint64_t target_hash) {
    return TEN_MUTANT(RAW_HASH) ? instance_hash ^ target_hash : ten_hash_mix(instance_hash ^ target_hash);
}

static uint64_t pair_weight(const ten_plan *plan, uint32_t instance, uint32_t target) {
    return weigh(plan->instances[instance].hash, plan->targets[target].hash);
}

/* Whether an instance prefers entry a to entry b. Equal weights are as good as impossible, unless somebody makes ids
 * that collide: then the ids decide, so that all decide alike. */
static bool is_better(const ten_plan *plan, struct entry a, struct entry b) {
    if (a.weight != b.weight)
        return a.weight > b.weight;
    const char *first = plan->targets[a.target].id;
    const char *second = plan->targets[b.target].id;
    return strcmp(first ? first : "", second ? second : "") < 0;
}

/* Whether a target prefers instance a (with that weight) to instance b. */
static bool prefers(const ten_plan *plan, uint32_t a, uint64_t a_weight, uint32_t b, uint64_t b_weight) {
    if (a_weight != b_weight)
        return a_weight > b_weight;
    return strcmp(plan->instances[a].id, plan->instances[b].id) < 0;
}

/* ---- heaps: the top is the best, or, in `kept`, the worst */

static bool goes_above(const ten_plan *plan, bool worst_first, struct entry a, struct entry b) {
    return worst_first ? is_better(plan, b, a) : is_better(plan, a, b);
}

static void sift_down(const ten_plan *plan, struct heap *heap, bool worst_first, uint32_t at) {
    struct entry moving = heap->entries[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && goes_above(plan, worst_first, heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!goes_above(plan, worst_first, heap->entries[child], moving))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = moving;
}

static bool push(ten_plan *plan, struct heap *heap, bool worst_first, struct entry entry) {
    if (plan->failed)
        return false;
    if (!GROW(heap->entries, heap->room, heap->count + 1)) {
        plan->failed = true;
        return false;
    }
    uint32_t at = heap->count++;
    while (at > 0 && goes_above(plan, worst_first, entry, heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = entry;
    return true;
}

static void pop(const ten_plan *plan, struct heap *heap, bool worst_first) {
    heap->entries[0] = heap->entries[--heap->count];
    if (heap->count > 0)
        sift_down(plan, heap, worst_first, 0);
}

static void heapify(const ten_plan *plan, struct heap *heap, bool worst_first) {
    for (uint32_t at = heap->count / 2; at-- > 0;)
        sift_down(plan, heap, worst_first, at);
}

static bool still_means(const ten_plan *plan, uint32_t instance, struct entry entry) {
    return plan->targets[entry.target].id && pair_weight(plan, instance, entry.target) == entry.weight;
}

/* The least wanted of the instance's targets; false: it has none. */
static bool worst_kept(ten_plan *plan, uint32_t number, struct entry *ret_entry) {
    struct heap *kept = &plan->instances[number].kept;
    while (kept->count > 0) {
        *ret_entry = kept->entries[0];
        if (plan->targets[ret_entry->target].owner == number && still_means(plan, number, *ret_entry))
            return true;
        pop(plan, kept, true);
    }
    return false;
}

/* The most wanted of those who would rather be here. */
static bool best_rejected(ten_plan *plan, uint32_t number, struct entry *ret_entry) {
    struct heap *rejected = &plan->instances[number].rejected;
    while (rejected->count > 0) {
        *ret_entry = rejected->entries[0];
        if (still_means(plan, number, *ret_entry)) {
            uint32_t owner = plan->targets[ret_entry->target].owner;
            if (owner == TEN_PLAN_NOBODY || (owner != number && prefers(plan, number, ret_entry->weight, owner,
                                                                        pair_weight(plan, owner, ret_entry->target))))
                return true;
        }
        pop(plan, rejected, false);
    }
    return false;
}

/* ---- moving */

static void touch(ten_plan *plan, uint32_t target) {
    if (!GROW(plan->touched, plan->touched_room, plan->touched_count + 1))
        plan->failed = true;
    else
        plan->touched[plan->touched_count++] = target;
}

static void take_in(ten_plan *plan, uint32_t number, struct entry entry) {
    plan->targets[entry.target].owner = number;
    plan->instances[number].share++;
    push(plan, &plan->instances[number].kept, true, entry);
    touch(plan, entry.target);
}

static void put_out(ten_plan *plan, uint32_t number, struct entry entry) {
    plan->targets[entry.target].owner = TEN_PLAN_NOBODY;
    plan->instances[number].share--;
    push(plan, &plan->instances[number].rejected, false, entry);
    touch(plan, entry.target);
}

/* The instance that a target likes best among those that it likes less than `after` (TEN_PLAN_NOBODY: among all). */
static uint32_t next_choice(const ten_plan *plan, uint32_t target, uint32_t after, uint64_t after_weight,
                            uint64_t *ret_weight) {
    uint64_t hash = plan->targets[target].hash;
    uint32_t best = TEN_PLAN_NOBODY;
    uint64_t best_weight = 0;
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        uint64_t weight = weigh(plan->choice_hashes[i], hash);
        if (weight < best_weight || (after != TEN_PLAN_NOBODY && weight > after_weight))
            continue;
        uint32_t number = plan->choices[i];
        if (after != TEN_PLAN_NOBODY && (number == after || !prefers(plan, after, after_weight, number, weight)))
            continue;
        if (best == TEN_PLAN_NOBODY || prefers(plan, number, weight, best, best_weight)) {
            best = number;
            best_weight = weight;
        }
    }
    *ret_weight = best_weight;
    return best;
}

/* Lets a target without an owner ask one instance after the other, in its order, and whoever is put out for it do the
 * same. */
static void place(ten_plan *plan, uint32_t target, uint32_t after, uint64_t after_weight) {
    for (;;) {
        uint64_t weight;
        uint32_t number = next_choice(plan, target, after, after_weight, &weight);
        if (number == TEN_PLAN_NOBODY || plan->failed)
            return;
        struct instance *instance = &plan->instances[number];
        struct entry asking = {.weight = weight, .target = target};
        struct entry worst;
        if (instance->share < instance->quota) {
            take_in(plan, number, asking);
            return;
        }
        if (worst_kept(plan, number, &worst) && is_better(plan, asking, worst)) {
            put_out(plan, number, worst);
            take_in(plan, number, asking);
            target = worst.target;
            after_weight = worst.weight;
        } else {
            push(plan, &instance->rejected, false, asking);
            after_weight = weight;
        }
        after = number;
    }
}

/* An instance that has room, or a worse target than one that would rather be here, takes the better one. False: it can
 * do no better. */
static bool attract_one(ten_plan *plan, uint32_t number) {
    struct instance *instance = &plan->instances[number];
    struct entry best;
    struct entry worst;
    if (instance->quota == 0 || !best_rejected(plan, number, &best))
        return false;
    bool full = instance->share >= instance->quota;
    if (full && (!worst_kept(plan, number, &worst) || !is_better(plan, best, worst)))
        return false;
    pop(plan, &instance->rejected, false);
    uint32_t former = plan->targets[best.target].owner;
    if (former != TEN_PLAN_NOBODY)
        plan->instances[former].share--;
    if (full)
        put_out(plan, number, worst);
    take_in(plan, number, best);
    if (full)
        place(plan, worst.target, number, worst.weight);
    return !plan->failed;
}

/* Puts out what is over the quota. */
static bool shed(ten_plan *plan, uint32_t number) {
    struct instance *instance = &plan->instances[number];
    struct entry worst;
    bool any = false;
    while (!plan->failed && instance->share > instance->quota && worst_kept(plan, number, &worst)) {
        put_out(plan, number, worst);
        place(plan, worst.target, number, worst.weight);
        any = true;
    }
    return any;
}

/* ---- quotas */

/* By the largest remainder; equal remainders by hash, so that all round alike. */
static bool rounds_up_before(const struct instance *a, uint64_t a_rest, const struct instance *b, uint64_t b_rest) {
    if (a_rest != b_rest)
        return a_rest > b_rest;
    if (a->hash != b->hash)
        return a->hash > b->hash;
    return strcmp(a->id, b->id) < 0;
}

static void set_quotas(ten_plan *plan) {
    uint64_t all = 0;
    uint64_t given = 0;
    for (uint32_t i = 0; i < plan->instance_slots; i++)
        all += plan->instances[i].id ? plan->instances[i].weight : 0;
    for (uint32_t i = 0; i < plan->instance_slots; i++) {
        struct instance *instance = &plan->instances[i];
        instance->former_quota = instance->quota;
        instance->quota = all && instance->id ? (uint32_t)((uint64_t)plan->target_count * instance->weight / all) : 0;
        given += instance->quota;
    }
    for (uint64_t rest = all ? plan->target_count - given : 0; rest > 0; rest--) {
        uint32_t best = TEN_PLAN_NOBODY;
        uint64_t best_rest = 0;
        for (uint32_t i = 0; i < plan->instance_slots; i++) {
            const struct instance *instance = &plan->instances[i];
            if (!instance->id || instance->weight == 0)
                continue;
            uint64_t floor = (uint64_t)plan->target_count * instance->weight / all;
            uint64_t remainder = (uint64_t)plan->target_count * instance->weight % all;
            if (instance->quota > floor)
                continue; /* has had its one more */
            if (best == TEN_PLAN_NOBODY || rounds_up_before(instance, remainder, &plan->instances[best], best_rest)) {
                best = i;
                best_rest = remainder;
            }
        }
        plan->instances[best].quota++;
    }
    for (uint32_t i = 0; TEN_MUTANT(NO_QUOTA) && i < plan->instance_slots; i++)
        plan->instances[i].quota = plan->instances[i].weight ? plan->target_count : 0;
}

/* An instance without a quota is asked by nobody; when it gets one, everybody has to be asked anew. */
static bool list_choices(ten_plan *plan) {
    plan->choice_count = 0;
    for (uint32_t i = 0; i < plan->instance_slots; i++) {
        struct instance *instance = &plan->instances[i];
        if (instance->quota == 0)
            continue;
        instance->joined |= instance->former_quota == 0;
        if (!GROW(plan->choices, plan->choice_room, plan->choice_count + 1) ||
            !GROW(plan->choice_hashes, plan->choice_hash_room, plan->choice_count + 1))
            return false;
        plan->choices[plan->choice_count] = i;
        plan->choice_hashes[plan->choice_count++] = instance->hash;
    }
    return true;
}

/* ---- settling */

static void report(ten_plan *plan, uint32_t target) {
    struct target *record = &plan->targets[target];
    if (!record->id || record->owner == record->settled_owner)
        return;
    uint32_t from = record->settled_owner;
    record->settled_owner = record->owner;
    if (plan->moved)
        plan->moved(target, from, record->owner, plan->userdata);
}

/* Takes out of a heap what no longer holds, once that may be most of it. */
static void clean(ten_plan *plan, uint32_t number, struct heap *heap, bool worst_first) {
    if (heap->count / 2 <= heap->clean + 64)
        return;
    uint32_t count = heap->count;
    heap->count = 0;
    plan->mark++;
    for (uint32_t i = 0; i < count; i++) {
        struct entry entry = heap->entries[i];
        struct target *target = &plan->targets[entry.target];
        bool here = target->owner == number;
        if (target->mark == plan->mark || !still_means(plan, number, entry) || here != worst_first)
            continue;
        target->mark = plan->mark;
        heap->entries[heap->count++] = entry;
    }
    heapify(plan, heap, worst_first);
    heap->clean = heap->count;
}

/* Everybody asks its first choice, all at once; an instance that is asked by too many keeps the best, and the few who
 * are left go on one by one. */
static void settle_from_scratch(ten_plan *plan) {
    for (uint32_t i = 0; i < plan->instance_slots; i++) {
        struct instance *instance = &plan->instances[i];
        instance->share = instance->kept.count = instance->rejected.count = 0;
        instance->joined = false;
    }
    for (uint32_t t = 0; t < plan->target_slots; t++) {
        struct target *target = &plan->targets[t];
        uint64_t weight;
        target->owner = target->id ? next_choice(plan, t, TEN_PLAN_NOBODY, 0, &weight) : TEN_PLAN_NOBODY;
        if (target->owner == TEN_PLAN_NOBODY)
            continue;
        struct instance *instance = &plan->instances[target->owner];
        struct heap *kept = &instance->kept;
        if (!GROW(kept->entries, kept->room, kept->count + 1)) {
            plan->failed = true;
            return;
        }
        kept->entries[kept->count++] = (struct entry){.weight = weight, .target = t};
        instance->share++;
    }
    for (uint32_t i = 0; i < plan->instance_slots; i++) {
        heapify(plan, &plan->instances[i].kept, true);
        plan->instances[i].kept.clean = plan->instances[i].kept.count;
    }
    for (uint32_t i = 0; i < plan->instance_slots; i++)
        shed(plan, i);
}

/* Everybody who would rather be with a new instance is written down as asking it. */
static void introduce(ten_plan *plan, uint32_t number) {
    struct heap *rejected = &plan->instances[number].rejected;
    plan->instances[number].joined = false;
    rejected->count = 0;
    for (uint32_t t = 0; t < plan->target_slots; t++) {
        const struct target *target = &plan->targets[t];
        if (!target->id || target->owner == number)
            continue;
        uint64_t weight = pair_weight(plan, number, t);
        if (target->owner != TEN_PLAN_NOBODY &&
            !prefers(plan, number, weight, target->owner, pair_weight(plan, target->owner, t)))
            continue;
        if (!GROW(rejected->entries, rejected->room, rejected->count + 1)) {
            plan->failed = true;
            return;
        }
        rejected->entries[rejected->count++] = (struct entry){.weight = weight, .target = t};
    }
    heapify(plan, rejected, false);
    rejected->clean = rejected->count;
}

/* Works off what changed. New instances attract before others shed, so that what has to move goes there directly. */
static void repair(ten_plan *plan) {
    for (uint32_t i = 0; i < plan->instance_slots && !plan->failed; i++) {
        struct instance *instance = &plan->instances[i];
        clean(plan, i, &instance->kept, true);
        clean(plan, i, &instance->rejected, false);
        if (instance->joined && instance->quota > 0)
            introduce(plan, i);
    }
    for (uint32_t i = 0; i < plan->touched_count && !plan->failed; i++) {
        uint32_t target = plan->touched[i];
        if (plan->targets[target].id && plan->targets[target].owner == TEN_PLAN_NOBODY)
            place(plan, target, TEN_PLAN_NOBODY, 0);
    }
    bool again = true;
    while (again && !plan->failed) {
        again = false;
        for (uint32_t i = 0; i < plan->instance_slots; i++)
            while (attract_one(plan, i))
                again = true;
        for (uint32_t i = 0; i < plan->instance_slots; i++)
            again |= shed(plan, i);
    }
}

bool ten_plan_settle(ten_plan *plan) {
    if (!plan->dirty)
        return true;
    set_quotas(plan);
    plan->failed = !list_choices(plan);
    bool scratch = plan->scratch;
    if (!plan->failed && scratch)
        settle_from_scratch(plan);
    else if (!plan->failed)
        repair(plan);
    plan->scratch = plan->failed;
    if (plan->failed)
        return false;
    plan->dirty = false;
    for (uint32_t i = 0; i < (scratch ? plan->target_slots : plan->touched_count); i++)
        report(plan, scratch ? i : plan->touched[i]);
    plan->touched_count = 0;
    return true;
}

/* ---- targets and instances */

static uint32_t number_of(const ten_map *numbers, const char *id) {
    uintptr_t value = (uintptr_t)ten_map_get(numbers, id);
    return value ? (uint32_t)(value - 1) : TEN_PLAN_NOBODY;
}

/* Puts the id in and returns the map's own copy of it, which lives as long as the entry. */
static const char *keep_id(ten_map *numbers, const char *id, uint32_t number) {
    return ten_map_put(numbers, id, (void *)((uintptr_t)number + 1)) ? ten_map_key(numbers, id) : NULL;
}

uint32_t ten_plan_add_target(ten_plan *plan, const char *id) {
    uint32_t number = number_of(&plan->target_numbers, id);
    if (number != TEN_PLAN_NOBODY)
        return number;
    /* Room for the touched list and for a later removal is had now, so that removing cannot fail. */
    if (!GROW(plan->targets, plan->target_room, plan->target_slots + 1) ||
        !GROW(plan->free_targets, plan->free_room, plan->target_slots + 1) ||
        !GROW(plan->touched, plan->touched_room, plan->touched_count + 1))
        return TEN_PLAN_NOBODY;
    number = plan->free_count > 0 ? plan->free_targets[plan->free_count - 1] : plan->target_slots;
    const char *kept_id = keep_id(&plan->target_numbers, id, number);
    if (!kept_id)
        return TEN_PLAN_NOBODY;
    if (plan->free_count > 0)
        plan->free_count--;
    else
        plan->target_slots++;
    plan->targets[number] =
        (struct target){.id = kept_id,
                        .hash = TEN_MUTANT(RAW_HASH) ? ten_hash_text(id) : ten_hash_mix(ten_hash_text(id)),
                        .owner = TEN_PLAN_NOBODY,
                        .settled_owner = TEN_PLAN_NOBODY};
    plan->target_count++;
    plan->touched[plan->touched_count++] = number;
    plan->dirty = true;
    return number;
}

void ten_plan_remove_target(ten_plan *plan, uint32_t number) {
    struct target *target = &plan->targets[number];
    TEN_INVARIANT(number < plan->target_slots && target->id);
    if (target->owner != TEN_PLAN_NOBODY)
        plan->instances[target->owner].share--;
    (void)ten_map_remove(&plan->target_numbers, target->id);
    *target = (struct target){.owner = TEN_PLAN_NOBODY, .settled_owner = TEN_PLAN_NOBODY};
    plan->free_targets[plan->free_count++] = number;
    plan->target_count--;
    plan->dirty = true;
}

static uint32_t add_instance(ten_plan *plan, const char *id) {
    uint32_t number = 0;
    while (number < plan->instance_slots && plan->instances[number].id)
        number++;
    if (!GROW(plan->instances, plan->instance_room, number + 1))
        return TEN_PLAN_NOBODY;
    const char *kept_id = keep_id(&plan->instance_numbers, id, number);
    if (!kept_id)
        return TEN_PLAN_NOBODY;
    if (number == plan->instance_slots)
        plan->instance_slots++;
    plan->instances[number] = (struct instance){.id = kept_id, .hash = ten_hash_text(id), .joined = true};
    return number;
}

uint32_t ten_plan_set_instance(ten_plan *plan, const char *id, uint32_t weight) {
    uint32_t number = number_of(&plan->instance_numbers, id);
    if (number == TEN_PLAN_NOBODY)
        number = add_instance(plan, id);
    if (number == TEN_PLAN_NOBODY)
        return number;
    plan->dirty |= plan->instances[number].weight != weight;
    plan->instances[number].weight = weight;
    return number;
}

void ten_plan_remove_instance(ten_plan *plan, uint32_t number) {
    struct instance *instance = &plan->instances[number];
    TEN_INVARIANT(number < plan->instance_slots && instance->id);
    for (uint32_t i = 0; i < instance->kept.count; i++) {
        struct target *target = &plan->targets[instance->kept.entries[i].target];
        if (target->owner != number)
            continue;
        target->owner = TEN_PLAN_NOBODY;
        touch(plan, instance->kept.entries[i].target);
        /* Its number may soon be another's: a move from here is a move from nobody. */
        target->settled_owner = TEN_PLAN_NOBODY;
    }
    plan->scratch |= plan->failed;
    (void)ten_map_remove(&plan->instance_numbers, instance->id);
    ten_free(instance->kept.entries);
    ten_free(instance->rejected.entries);
    *instance = (struct instance){0};
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
    for (uint32_t i = 0; i < plan->instance_slots; i++) {
        ten_free(plan->instances[i].kept.entries);
        ten_free(plan->instances[i].rejected.entries);
    }
    ten_map_free(&plan->target_numbers);
    ten_map_free(&plan->instance_numbers);
    ten_free(plan->targets);
    ten_free(plan->instances);
    ten_free(plan->touched);
    ten_free(plan->choices);
    ten_free(plan->choice_hashes);
    ten_free(plan->free_targets);
    ten_free(plan);
}

/* ---- looking */

uint32_t ten_plan_find_target(const ten_plan *plan, const char *id) {
    return number_of(&plan->target_numbers, id);
}

uint32_t ten_plan_find_instance(const ten_plan *plan, const char *id) {
    return number_of(&plan->instance_numbers, id);
}

const char *ten_plan_target_id(const ten_plan *plan, uint32_t target) {
    return plan->targets[target].id;
}

const char *ten_plan_instance_id(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].id;
}

size_t ten_plan_target_count(const ten_plan *plan) {
    return plan->target_count;
}

size_t ten_plan_instance_count(const ten_plan *plan) {
    size_t count = 0;
    for (uint32_t i = 0; i < plan->instance_slots; i++)
        count += plan->instances[i].id && plan->instances[i].weight > 0;
    return count;
}

uint32_t ten_plan_owner(const ten_plan *plan, uint32_t target) {
    return plan->targets[target].settled_owner;
}

size_t ten_plan_quota(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].quota;
}

size_t ten_plan_share(const ten_plan *plan, uint32_t instance) {
    return plan->instances[instance].share;
}

size_t ten_plan_rank(const ten_plan *plan, uint32_t target, uint32_t instance) {
    uint32_t owner = plan->targets[target].settled_owner;
    if (instance == owner)
        return 0;
    size_t rank = owner != TEN_PLAN_NOBODY;
    uint64_t weight = pair_weight(plan, instance, target);
    for (uint32_t i = 0; i < plan->instance_slots; i++)
        if (i != instance && i != owner && plan->instances[i].id && plan->instances[i].weight > 0)
            rank += prefers(plan, i, pair_weight(plan, i, target), instance, weight);
    return rank;
}
