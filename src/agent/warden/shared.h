/*
 * What the worker shows its warden: memory that both see. The deadlines of targets are in the beliefs
 * (runtime/beliefs.h); here is which process works on which of them.
 */
#ifndef TEN_AGENT_SHARED_H
#define TEN_AGENT_SHARED_H

#include <stdatomic.h>
#include <tenure.h>

#include "agent/warden/isolation.h"
#include "runtime/beliefs.h"

#define TEN_SHARED_TARGETS (UINT32_C(4) << 20)
#define TEN_SHARED_POLLS   4096u

/* A process at work. `belief` is set before the process is made, and cleared after its whole tree is gone. `pid` is set
 * before it becomes the command, and cleared before its number can become another's. So there is no moment at which
 * something runs that is never ended, and none at which a stranger would be. */
struct ten_shared_poll {
    _Atomic(uint32_t) belief; /* the number of the target's belief + 1; 0: the place is free; or TEN_SHARED_UNBOUND */
    _Atomic(int32_t) pid;     /* 0: not there yet, or no longer */
    _Atomic(uint64_t) poll;   /* its mark */
    _Atomic(uint64_t) generation; /* of the belief: if that has another, it is another target's */
    atomic_int form;              /* enum ten_isolation */
    atomic_int exec_error;        /* errno, when the command could not even be run */
    atomic_int isolation_error;   /* errno, when that was because it could not be isolated */
    atomic_int command;           /* its number in its own PID namespace; set by the first process of that */
    atomic_int status; /* how the command ended, as waitpid() says it; set by the first process of its namespace */
    /* The mark of the command that was signalled, or not started, because of its lease; set before that is done. Not by
     * the worker, which knows what it does. */
    _Atomic(uint64_t) ended_for_lease;
    _Atomic(uint64_t) ended_at_deadline; /* the same by the first process of a namespace, without being asked */
};

#define TEN_SHARED_UNBOUND UINT32_MAX /* its process may outlive every deadline, but not the worker */

struct ten_shared_state {
    char instance[TENURE_HOLDER_MAX + 1]; /* "" until the worker has one; complete once `ready` is set */
    atomic_bool ready;
    atomic_bool begun;               /* the worker is in its loop, or was */
    _Atomic(uint64_t) keep_until_ms; /* boot clock: before this its leases are not released, not even when it died */
    _Atomic(uint64_t) turns; /* of the worker's loop: while they go on, it does not hang; 0: it is not in its loop */
    char cgroup[TEN_CGROUP_PATH_SIZE]; /* of the commands' groups; complete before a place is of that form */
    atomic_int first_error;            /* errno, when the first process of a namespace remained a copy of the worker */
    atomic_uint poll_places;           /* places that have ever been used */
    struct ten_shared_poll polls[TEN_SHARED_POLLS];
};

typedef struct ten_shared {
    struct ten_shared_state *state;
    int state_fd; /* of that memory; -1: it has none */
    ten_beliefs beliefs;
} ten_shared;

/* When the lease of a place ends; 0: it has none any more. The place is bound. */
static inline uint64_t ten_shared_ends_ms(const ten_shared *shared, const struct ten_shared_poll *place) {
    uint32_t number = atomic_load(&place->belief);
    const ten_belief *belief = number ? ten_beliefs_at(&shared->beliefs, number - 1) : NULL;
    uint64_t ends_ms = belief ? ten_belief_ends_ms(belief) : 0;
    return belief && atomic_load(&belief->generation) == atomic_load(&place->generation) ? ends_ms : 0;
}

/* Whether a command has this mark, running or with something left of it. */
static inline bool ten_shared_has_mark(const ten_shared *shared, uint64_t mark) {
    const struct ten_shared_state *state = shared->state;
    unsigned places = atomic_load(&state->poll_places);
    for (unsigned i = 0; i < places; i++)
        if (atomic_load(&state->polls[i].poll) == mark && atomic_load(&state->polls[i].belief) != 0)
            return true;
    return false;
}

#endif
