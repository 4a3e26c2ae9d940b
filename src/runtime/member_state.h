/*
 * The insides of a fleet member, shared by member.c (its life, and what its task does) and member_targets.c (what the
 * program wants and asks).
 */
#ifndef TEN_RUNTIME_MEMBER_STATE_H
#define TEN_RUNTIME_MEMBER_STATE_H

#include "base/buf.h"
#include "core/checkpoints.h"
#include "core/fleet.h"
#include "runtime/context_state.h"
#include "runtime/member.h"

/* A caller that waits for the answer to a claim. */
struct ten_claim {
    const char *target;
    bool answered;
    bool acquired;
    int error;
    struct ten_claim *next;
};

struct tenure_member {
    ten_object object;
    ten_carrier *carrier;
    ten_task task;
    ten_task checkpoint_task; /* has a channel: it keeps checkpoints */
    ten_checkpoints checkpoints;
    ten_timing timing;
    bool targets_from_store;
    ten_member_extras extras;
    tenure_event_fn on_event;
    void *userdata;
    ten_beliefs own_beliefs;
    ten_beliefs *beliefs;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    const ten_buf *identity; /* the context's */
    ten_buf metadata;        /* JSON */

    /* Under the carrier's lock. */
    ten_fleet *fleet;
    struct ten_claim *claims;
    bool stopping; /* it was asked to stop */
    bool stopped;  /* the fleet has released everything */
};

static inline uint64_t ten_member_now_ms(const tenure_member *member) {
    return ten_carrier_now_ms(member->carrier);
}

/* Why the previous lease ended is for the measures only. */
static inline void ten_member_hide_reason(tenure_event *event) {
    if (event->kind == TENURE_EVENT_ACQUIRED)
        event->reason = "";
}

#endif
