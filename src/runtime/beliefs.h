/*
 * Beliefs: what may be believed about each target of a fleet member, as atomics that any thread, and a warden in
 * another process, can read without waiting. The carrier writes them; a handle of the C API points to one.
 */
#ifndef TEN_RUNTIME_BELIEFS_H
#define TEN_RUNTIME_BELIEFS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One target: 24 bytes, also for one that is not held. Times are of the boot clock. */
typedef struct ten_belief {
    _Atomic(uint64_t) deadline; /* see below; one word, so that no reader sees half of a change */
    _Atomic(uint64_t) token;
    _Atomic(uint64_t) generation; /* how many targets have had this place: a handle is about one of them */
} ten_belief;

#define TEN_BELIEF_MAY_WORK UINT64_C(1) /* the rest, halved, is when the lease ends */

static inline void ten_belief_set(ten_belief *belief, uint64_t ends_ms, bool may_work) {
    atomic_store_explicit(&belief->deadline, ends_ms << 1 | (ends_ms && may_work ? TEN_BELIEF_MAY_WORK : 0),
                          memory_order_release);
}

/* The deadline, also while uncertain or closing; 0: not held. */
static inline uint64_t ten_belief_ends_ms(const ten_belief *belief) {
    return atomic_load_explicit(&belief->deadline, memory_order_acquire) >> 1;
}

/* New work may start before this; 0: it may not. */
static inline uint64_t ten_belief_work_until_ms(const ten_belief *belief) {
    uint64_t deadline = atomic_load_explicit(&belief->deadline, memory_order_acquire);
    return deadline & TEN_BELIEF_MAY_WORK ? deadline >> 1 : 0;
}

#define TEN_BELIEFS_MAX (UINT32_C(4) << 20) /* targets of one fleet member */

#define TEN_BELIEFS_PART                                                                                               \
    4096u /* beliefs of a program's own are allocated in parts: handles point to them, so they stay */

/* All of them, by the number of the target. */
typedef struct ten_beliefs {
    ten_belief *beliefs; /* shared with child processes: reserved once, touched when used; NULL: they are in parts */
    ten_belief **parts;
    uint32_t room;
    int fd;                         /* of the shared memory, if it is shared; -1: it has none */
    _Atomic(uint64_t) *last_end_ms; /* the latest deadline of any target; 0: none is held */
    _Atomic(uint64_t) own_end_ms;   /* that is here, unless it is shared */
} ten_beliefs;

/* In memory that child processes share. False: the kernel refused the memory. */
bool ten_beliefs_share(ten_beliefs *beliefs, uint32_t room);
/* In memory of this process, which grows. The struct must not be moved. False: out of memory. */
bool ten_beliefs_open(ten_beliefs *beliefs, uint32_t room);
/* Makes the place of this number, which is below the room. False: out of memory. */
bool ten_beliefs_reserve(ten_beliefs *beliefs, uint32_t number);
void ten_beliefs_free(ten_beliefs *beliefs);

/* NULL: there is no such place. */
static inline ten_belief *ten_beliefs_at(const ten_beliefs *beliefs, uint32_t number) {
    if (number >= beliefs->room)
        return NULL;
    if (beliefs->beliefs)
        return &beliefs->beliefs[number];
    ten_belief *part = beliefs->parts[number / TEN_BELIEFS_PART];
    return part ? &part[number % TEN_BELIEFS_PART] : NULL;
}

#endif
