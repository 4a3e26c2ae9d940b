/*
 * Heaps of targets with their weights for one instance. On top is the best or, in a heap that is `worst_first`, the
 * worst. Part of the plan. Entries that become outdated are not removed; the reader of the top checks it.
 */
#ifndef TEN_CORE_PLAN_HEAP_H
#define TEN_CORE_PLAN_HEAP_H

#include "core/plan_targets.h"

struct ten_plan_entry {
    uint64_t weight;
    uint32_t target;
};

struct ten_plan_heap {
    struct ten_plan_entry *entries;
    uint32_t count;
    uint32_t room;
    bool worst_first;
};

/* Whether an instance prefers a to b. Equal weights are practically impossible unless ids are made to collide: then the
 * ids decide, so that every process decides alike. */
bool ten_plan_is_better(const struct ten_plan_targets *targets, struct ten_plan_entry a, struct ten_plan_entry b);

/* Room for one more. False: out of memory. */
bool ten_plan_heap_grow(struct ten_plan_heap *heap);
/* Frees memory if the heap has far more than it needs. */
void ten_plan_heap_trim(struct ten_plan_heap *heap);

bool ten_plan_heap_push(const struct ten_plan_targets *targets, struct ten_plan_heap *heap,
                        struct ten_plan_entry entry);
void ten_plan_heap_pop(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);

/* Appends an entry without ordering. False: out of memory. */
static inline bool ten_plan_heap_append(struct ten_plan_heap *heap, struct ten_plan_entry entry) {
    if (heap->count == heap->room && !ten_plan_heap_grow(heap))
        return false;
    heap->entries[heap->count++] = entry;
    return true;
}

/* For entries that were appended without ordering: order() makes a heap of them; select() moves the `wanted` entries
 * that belong on top to the front, the last of them to wanted - 1, otherwise unordered. */
void ten_plan_heap_order(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);
void ten_plan_heap_select(const struct ten_plan_targets *targets, struct ten_plan_heap *heap, uint32_t wanted);
/* Sorts the heap, which leaves it a heap, and removes duplicates. */
void ten_plan_heap_drop_twins(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);

#endif
