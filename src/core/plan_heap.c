/*
 * Heaps of targets by weight. Called by plan_match.c.
 */
#include "core/plan_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

static bool is_better_by_id(const struct ten_plan_targets *targets, uint32_t a, uint32_t b) {
    const char *first = targets->ids[a];
    const char *second = targets->ids[b];
    return strcmp(first ? first : "", second ? second : "") < 0;
}

bool ten_plan_is_better(const struct ten_plan_targets *targets, struct ten_plan_entry a, struct ten_plan_entry b) {
    return a.weight != b.weight ? a.weight > b.weight : is_better_by_id(targets, a.target, b.target);
}

static inline bool goes_above(const struct ten_plan_targets *targets, const struct ten_plan_heap *heap,
                              struct ten_plan_entry a, struct ten_plan_entry b) {
    return heap->worst_first ? ten_plan_is_better(targets, b, a) : ten_plan_is_better(targets, a, b);
}

/* ---- room */

bool ten_plan_heap_grow(struct ten_plan_heap *heap) {
    if (heap->count < heap->room)
        return true;
    uint32_t room = heap->room + heap->room / 2 + 16;
    struct ten_plan_entry *entries = ten_realloc(heap->entries, room * sizeof *entries);
    if (!entries)
        return false;
    heap->entries = entries;
    heap->room = room;
    return true;
}

void ten_plan_heap_trim(struct ten_plan_heap *heap) {
    uint32_t room = heap->count + heap->count / 2 + 16;
    if (heap->room / 2 <= room)
        return;
    struct ten_plan_entry *entries = ten_realloc(heap->entries, room * sizeof *entries);
    if (!entries)
        return; /* it keeps what it has */
    heap->entries = entries;
    heap->room = room;
}

/* ---- order */

static void sift_down(const struct ten_plan_targets *targets, struct ten_plan_heap *heap, uint32_t at) {
    struct ten_plan_entry moving = heap->entries[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && goes_above(targets, heap, heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!goes_above(targets, heap, heap->entries[child], moving))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = moving;
}

bool ten_plan_heap_push(const struct ten_plan_targets *targets, struct ten_plan_heap *heap,
                        struct ten_plan_entry entry) {
    if (!ten_plan_heap_grow(heap))
        return false;
    uint32_t at = heap->count++;
    while (at > 0 && goes_above(targets, heap, entry, heap->entries[(at - 1) / 2])) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = entry;
    return true;
}

void ten_plan_heap_pop(const struct ten_plan_targets *targets, struct ten_plan_heap *heap) {
    heap->entries[0] = heap->entries[--heap->count];
    if (heap->count > 0)
        sift_down(targets, heap, 0);
}

void ten_plan_heap_order(const struct ten_plan_targets *targets, struct ten_plan_heap *heap) {
    for (uint32_t at = heap->count / 2; at-- > 0;)
        sift_down(targets, heap, at);
}

/* Hoare's partition of entries[low..high]: afterwards no entry up to the returned place belongs below one after it. */
static uint32_t divide(const struct ten_plan_targets *targets, struct ten_plan_heap *heap, uint32_t low,
                       uint32_t high) {
    struct ten_plan_entry *entries = heap->entries;
    struct ten_plan_entry pivot = entries[low + (high - low) / 2];
    for (;; low++, high--) {
        while (goes_above(targets, heap, entries[low], pivot))
            low++;
        while (goes_above(targets, heap, pivot, entries[high]))
            high--;
        if (low >= high)
            return high;
        struct ten_plan_entry swapped = entries[low];
        entries[low] = entries[high];
        entries[high] = swapped;
    }
}

void ten_plan_heap_select(const struct ten_plan_targets *targets, struct ten_plan_heap *heap, uint32_t wanted) {
    TEN_INVARIANT(wanted <= heap->count);
    uint32_t low = 0;
    uint32_t high = heap->count ? heap->count - 1 : 0;
    while (wanted > 0 && low < high) {
        uint32_t last = divide(targets, heap, low, high);
        if (wanted - 1 <= last)
            high = last;
        else
            low = last + 1;
    }
}

struct order {
    const struct ten_plan_targets *targets;
    const struct ten_plan_heap *heap;
};

static int compare(const void *left, const void *right, void *userdata) {
    const struct ten_plan_entry *a = left;
    const struct ten_plan_entry *b = right;
    const struct order *order = userdata;
    if (goes_above(order->targets, order->heap, *a, *b))
        return -1;
    return goes_above(order->targets, order->heap, *b, *a);
}

void ten_plan_heap_drop_twins(const struct ten_plan_targets *targets, struct ten_plan_heap *heap) {
    if (heap->count == 0)
        return;
    struct order order = {.targets = targets, .heap = heap};
    qsort_r(heap->entries, heap->count, sizeof *heap->entries, compare, &order);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < heap->count; i++)
        if (heap->entries[i].target != heap->entries[kept - 1].target)
            heap->entries[kept++] = heap->entries[i];
    heap->count = kept;
}
