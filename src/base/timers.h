/*
 * Timers: for each of many numbered things one time at which it is to be looked at. Setting, clearing and taking the
 * earliest cost the logarithm of how many are set.
 */
#ifndef TEN_BASE_TIMERS_H
#define TEN_BASE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ten_timers {
    struct ten_timer *heap;
    uint32_t count;
    uint32_t heap_room;
    uint32_t *places; /* by number: place in the heap + 1, or 0 */
    uint32_t places_room;
} ten_timers;

void ten_timers_free(ten_timers *timers);
/* Makes room for numbers below `count`, so that setting them cannot fail. False: out of memory. */
bool ten_timers_reserve(ten_timers *timers, uint32_t count);
/* Sets or moves the time of a number. */
void ten_timers_set(ten_timers *timers, uint32_t number, uint64_t at_ms);
void ten_timers_clear(ten_timers *timers, uint32_t number);
/* The earliest time; UINT64_MAX when none is set. */
uint64_t ten_timers_next(const ten_timers *timers);
/* Takes out the earliest number whose time is not after now_ms; false: there is none. */
bool ten_timers_take(ten_timers *timers, uint64_t now_ms, uint32_t *ret_number);

#endif
