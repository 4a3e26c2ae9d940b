/*
 * Timers: a heap of times with an index by number. Called by the fleet and the agent's schedule.
 */
#include "base/timers.h"

#include <stddef.h>

#include "base/alloc.h"
#include "base/util.h"

/* Packed: with a million targets the padding would be 4 MB. */
struct ten_timer {
    uint64_t at_ms;
    uint32_t number;
} __attribute__((packed, aligned(4)));

void ten_timers_free(ten_timers *timers) {
    ten_free(timers->heap);
    ten_free(timers->places);
    *timers = (ten_timers){0};
}

bool ten_timers_reserve(ten_timers *timers, uint32_t count) {
    uint32_t before = timers->places_room;
    if (!TEN_GROW(timers->heap, timers->heap_room, count) || !TEN_GROW(timers->places, timers->places_room, count))
        return false;
    for (uint32_t i = before; i < timers->places_room; i++)
        timers->places[i] = 0;
    return true;
}

static void put(ten_timers *timers, uint32_t at, struct ten_timer timer) {
    timers->heap[at] = timer;
    timers->places[timer.number] = at + 1;
}

static void sift_up(ten_timers *timers, uint32_t at, struct ten_timer timer) {
    while (at > 0 && timers->heap[(at - 1) / 2].at_ms > timer.at_ms) {
        put(timers, at, timers->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(timers, at, timer);
}

static void sift_down(ten_timers *timers, uint32_t at, struct ten_timer timer) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= timers->count)
            break;
        if (child + 1 < timers->count && timers->heap[child + 1].at_ms < timers->heap[child].at_ms)
            child++;
        if (timers->heap[child].at_ms >= timer.at_ms)
            break;
        put(timers, at, timers->heap[child]);
        at = child;
    }
    put(timers, at, timer);
}

static void put_in_order(ten_timers *timers, uint32_t at, struct ten_timer timer) {
    if (at > 0 && timers->heap[(at - 1) / 2].at_ms > timer.at_ms)
        sift_up(timers, at, timer);
    else
        sift_down(timers, at, timer);
}

void ten_timers_set(ten_timers *timers, uint32_t number, uint64_t at_ms) {
    TEN_INVARIANT(number < timers->places_room);
    struct ten_timer timer = {.at_ms = at_ms, .number = number};
    uint32_t place = timers->places[number];
    if (place)
        put_in_order(timers, place - 1, timer);
    else
        sift_up(timers, timers->count++, timer);
}

void ten_timers_clear(ten_timers *timers, uint32_t number) {
    uint32_t place = number < timers->places_room ? timers->places[number] : 0;
    if (!place)
        return;
    timers->places[number] = 0;
    struct ten_timer last = timers->heap[--timers->count];
    if (last.number != number)
        put_in_order(timers, place - 1, last);
}

uint64_t ten_timers_next(const ten_timers *timers) {
    return timers->count ? timers->heap[0].at_ms : UINT64_MAX;
}

bool ten_timers_take(ten_timers *timers, uint64_t now_ms, uint32_t *ret_number) {
    if (timers->count == 0 || timers->heap[0].at_ms > now_ms)
        return false;
    *ret_number = timers->heap[0].number;
    ten_timers_clear(timers, *ret_number);
    return true;
}
