/*
 * The insides of a fleet member, shared by member.c (opening and closing), member_carry.c (what its carrier does) and
 * member_targets.c (what the program wants and asks).
 */
#ifndef TEN_RUNTIME_MEMBER_STATE_H
#define TEN_RUNTIME_MEMBER_STATE_H

#include "core/fleet.h"
#include "runtime/carrier.h"
#include "runtime/last_error.h"
#include "runtime/member.h"

/* Somebody who waits for the answer to a claim. */
struct ten_claim {
    const char *target;
    bool answered;
    bool acquired;
    struct ten_claim *next;
};

/* Somebody who wants the store itself to be asked. */
struct ten_question {
    const char *target;
    uint64_t token;
    bool taken; /* the thread is asking: the question must stay where it is */
    bool answered;
    int answer;
    struct ten_question *next;
};

struct tenure_member {
    ten_carrier carrier;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    bool targets_from_store;
    ten_member_extras extras;
    tenure_event_fn on_event;
    void *userdata;
    ten_beliefs own_beliefs;
    ten_beliefs *beliefs;

    /* Under the carrier's lock. */
    ten_fleet *fleet;
    struct ten_claim *claims;
    struct ten_question *questions;
    bool quit;    /* the thread is to end without further ado */
    bool stopped; /* the fleet has released everything, or the thread has ended */
};

static inline uint64_t ten_member_now_ms(const tenure_member *member) {
    return ten_carrier_now_ms(&member->carrier);
}

static inline void ten_member_lock(tenure_member *member) {
    pthread_mutex_lock(&member->carrier.lock);
}

static inline void ten_member_unlock(tenure_member *member) {
    pthread_mutex_unlock(&member->carrier.lock);
}

/* member_carry.c */
extern const ten_carrier_hooks ten_member_hooks;
/* The fleet says that what may be believed about a target has changed. */
void ten_member_publish(void *member, uint32_t target);
/* Each event, as it happens. */
void ten_member_on_put(void *member, const tenure_event *event);
/* Why the previous lease ended is for the measures only. */
void ten_member_hide_reason(tenure_event *event);

#endif
