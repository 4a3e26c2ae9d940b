/*
 * The insides of a lease handle, shared by context_lease.c and context_acquire.c.
 */
#ifndef TEN_RUNTIME_LEASE_STATE_H
#define TEN_RUNTIME_LEASE_STATE_H

#include "runtime/beliefs.h"
#include "runtime/context_state.h"

struct tenure_lease {
    ten_object object;
    const ten_clock *clock;
    ten_belief belief; /* of this handle's grant: the local reads need nothing else */
    _Atomic(uint64_t) ttl_ms;

    /* Under the carrier's lock. */
    ten_book_lease *entry;       /* NULL: its context was closed */
    struct tenure_lease *sharer; /* the next handle on the same entry */
    bool pending;                /* its acquire has no outcome yet */
    int outcome;                 /* of the acquire */
    char *holder;                /* why it failed: who holds it, or NULL, and for how long */
    uint64_t remaining_ms;
    bool recovering;
    ten_book_user user;
    const char *reason; /* why it was lost; NULL: it was not */
    tenure_lost_fn on_lost;
    void *userdata;
    struct tenure_lease *next_lost;    /* of the queue of on_lost calls */
    struct tenure_lease **before_lost; /* what points to it there; NULL: it is not in the queue */
    char target[];
};

/* `wait` is a ten_book_wait. */
static inline bool ten_lease_is_answered(const void *wait) {
    return ((const ten_book_wait *)wait)->answered;
}

/* A handle on the target, entered on the context; the caller acquires. */
int ten_context_lease_new(tenure_context *context, const char *target, unsigned flags, tenure_lease **ret_lease);
/* Links it to its entry, which has it as a user; with the lock. */
void ten_context_lease_link(tenure_lease *lease, ten_book_lease *entry);
/* Whether its grant is the present one, and was neither released nor lost; with the lock. */
bool ten_context_lease_is_held(const tenure_lease *lease);
/* Takes it off its entry and out of the context, and frees it. */
void ten_context_lease_discard(tenure_context *context, tenure_lease *lease);
/* Makes sure that a thread renews and tells the program. */
int ten_context_start(tenure_context *context);

#endif
