/*
 * Slots: what may be believed about each target of a manager, as atomics that any thread, and a warden in another
 * process, can read without waiting. The manager's thread writes them; a handle of the C API is a slot.
 */
#ifndef TEN_RUNTIME_SLOTS_H
#define TEN_RUNTIME_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One target. Times are of the boot clock. */
typedef struct tenure_handle {
    _Atomic(uint64_t) work_until_ms; /* new work may start before this; 0: it may not */
    _Atomic(uint64_t) ends_ms;       /* the deadline, also while uncertain or closing; 0: not owned */
    _Atomic(uint64_t) token;
    _Atomic(uint64_t) process; /* of its manager; see base/fork.h */
} ten_slot;

/* All of them, by the number of the target; reserved once, touched when used, shared with child processes. */
typedef struct ten_slots {
    ten_slot *slots;
    uint32_t room;
    _Atomic(uint64_t) *last_end_ms; /* the latest deadline of any target; 0: none is owned */
} ten_slots;

/* False: the kernel refused the memory. */
bool ten_slots_make(ten_slots *slots, uint32_t room);
void ten_slots_free(ten_slots *slots);

#endif
