/*
 * The fleet member's insides, for the agent: beliefs in memory of the caller's, and targets with their specifications.
 */
#ifndef TEN_RUNTIME_MEMBER_H
#define TEN_RUNTIME_MEMBER_H

#include "base/clock.h"
#include "base/error.h"
#include "runtime/beliefs.h"
#include "runtime/measures.h"

/* What the registry says of a target; `removed`: it is no longer there, and only the id counts. Called from the
 * fleet member's thread. */
typedef void (*ten_target_event_fn)(const tenure_target *target, bool removed, void *userdata);

typedef struct ten_member_extras {
    ten_beliefs *beliefs; /* NULL: the fleet member makes its own */
    ten_target_event_fn on_target;
    void *userdata;
    ten_measures *measures; /* NULL: nothing is counted */
    const char *isolation;  /* of its commands, announced with the heartbeat; NULL: it has none */
    /* Not NULL: the member keeps the checkpoints of what it holds, and tells so when a write has ended: 0;
     * TENURE_E_LOST: it was stale, and changed nothing; else the error. It must not call the member. */
    void (*on_checkpoint)(const char *target, uint64_t token, int error, void *userdata);
    /* What the store's clock showed when it granted a lease, as far as it tells (Unix time); NULL: no matter. The same.
     */
    void (*on_store_clock)(uint64_t store_ms, void *userdata);
} ten_member_extras;

int ten_member_open(tenure_context *context, const tenure_member_options *options, const ten_member_extras *extras,
                    tenure_member **ret_member);

/* tenure_member_stop() without waiting: TENURE_EVENT_STOPPED tells when everything has been released. */
void ten_member_begin_stop(tenure_member *member);

/* What is kept beside the lease of a target, as it came with the grant of that token, or was written since: its size,
 * or 0 when there is nothing. In the caller's buffer of TENURE_CHECKPOINT_MAX + 1 bytes. Only with on_checkpoint. */
size_t ten_member_checkpoint(tenure_member *member, const char *target, uint64_t token, char *buffer);
/* To be kept there from now on ("": nothing), if the target is held under that token. It does not wait: on_checkpoint
 * tells how it has ended. An error: it was not even begun. */
int ten_member_write_checkpoint(tenure_member *member, const char *target, uint64_t token, const char *value);

/* The targets are listed again, and on_target is called with each of them. False: they do not come from the store. */
bool ten_member_list_again(tenure_member *member);

#endif
