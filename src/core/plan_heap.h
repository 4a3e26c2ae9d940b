/*
 * Heaps of targets with what they weigh for one instance. On top is the best, or, in a heap that is `worst_first`, the
 * worst. Part of the plan. Entries are not taken out when they cease to be true; who takes one from the top looks.
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

/* Whether an instance prefers a to b. Equal weights are as good as impossible, unless somebody makes ids that collide:
 * then the ids decide, so that all decide alike. */
bool ten_plan_is_better(const struct ten_plan_targets *targets, struct ten_plan_entry a, struct ten_plan_entry b);

/* Room for one more. False: out of memory. */
bool ten_plan_heap_grow(struct ten_plan_heap *heap);
/* Gives back room that is far more than it needs. */
void ten_plan_heap_trim(struct ten_plan_heap *heap);

bool ten_plan_heap_push(const struct ten_plan_targets *targets, struct ten_plan_heap *heap,
                        struct ten_plan_entry entry);
void ten_plan_heap_pop(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);

/* Writes it at the end, without order. False: out of memory. */
static inline bool ten_plan_heap_append(struct ten_plan_heap *heap, struct ten_plan_entry entry) {
    if (heap->count == heap->room && !ten_plan_heap_grow(heap))
        return false;
    heap->entries[heap->count++] = entry;
    return true;
}

/* For entries that were written without order: makes a heap of them; or brings those `wanted` that belong on top to
 * the front, the last of them at wanted - 1, without any order else. */
void ten_plan_heap_order(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);
void ten_plan_heap_select(const struct ten_plan_targets *targets, struct ten_plan_heap *heap, uint32_t wanted);
/* Sorts the heap, which leaves it a heap, and drops what is in it twice. */
void ten_plan_heap_drop_twins(const struct ten_plan_targets *targets, struct ten_plan_heap *heap);

#endif
