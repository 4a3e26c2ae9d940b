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
    ten_measures *measures; /* NULL: nobody counts */
    const char *isolation;  /* of its commands, announced with the heartbeat; NULL: it has none */
} ten_member_extras;

int ten_member_open(tenure_context *context, const tenure_member_options *options, const ten_member_extras *extras,
                    tenure_member **ret_member);

/* tenure_member_stop() without waiting: TENURE_EVENT_STOPPED tells when everything has been released. */
void ten_member_begin_stop(tenure_member *member);

/* The targets are listed again, and on_target hears of each of them. False: they do not come from the store. */
bool ten_member_list_again(tenure_member *member);

#endif
