/*
 * What the worker shows its warden: memory that both see. The deadlines of targets are in the beliefs
 * (runtime/beliefs.h); here is which process works on which of them.
 */
#ifndef TEN_AGENT_SHARED_H
#define TEN_AGENT_SHARED_H

#include <stdatomic.h>
#include <tenure.h>

#include "runtime/beliefs.h"

#define TEN_SHARED_TARGETS (UINT32_C(4) << 20)
#define TEN_SHARED_POLLS   4096u

/* A process at work. `belief` is set before the process is made, `pid` by the process itself before it becomes the
 * command, and both are cleared after its whole tree is gone. So there is no moment at which something runs that nobody
 * would end. */
struct ten_shared_poll {
    _Atomic(uint32_t) belief; /* the number of the target's belief + 1; 0: the place is free; or TEN_SHARED_UNBOUND */
    _Atomic(int32_t) pid;     /* 0: not there yet */
    _Atomic(uint64_t) poll;   /* its mark */
    atomic_int exec_error;    /* errno, when the command could not even be run */
    atomic_int status; /* how the command ended, as waitpid() says it; set by the first process of its namespace */
};

#define TEN_SHARED_UNBOUND UINT32_MAX /* its process may outlive every deadline, but not the worker */

struct ten_shared_state {
    char instance[TENURE_HOLDER_MAX + 1]; /* "" until the worker has one; complete once `ready` is set */
    atomic_bool ready;
    _Atomic(uint64_t) keep_until_ms; /* boot clock: before this nobody gives its leases back, not even when it died */
    atomic_uint poll_places;         /* places that have ever been used */
    struct ten_shared_poll polls[TEN_SHARED_POLLS];
};

typedef struct ten_shared {
    struct ten_shared_state *state;
    ten_beliefs beliefs;
} ten_shared;

#endif
