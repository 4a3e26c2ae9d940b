/*
 * The insides of a fleet member, shared by member.c (the C API) and member_loop.c (the thread).
 */
#ifndef TEN_RUNTIME_MEMBER_STATE_H
#define TEN_RUNTIME_MEMBER_STATE_H

#include <pthread.h>

#include "core/fleet.h"
#include "runtime/member.h"
#include "store/store.h"

/* Somebody who waits for the answer to a claim. */
struct ten_claim {
    uint32_t target;
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
    ten_store *store; /* used by the thread alone once it runs */
    const ten_clock *clock;
    uint64_t process;
    ten_timing timing;
    char instance[TENURE_HOLDER_MAX + 1];
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    bool targets_from_store;
    ten_member_extras extras;
    tenure_event_fn on_event;
    void *userdata;

    pthread_t thread;
    bool started;
    int wake_fd;

    pthread_mutex_t lock; /* around everything below; held for microseconds, never during a call on the store */
    pthread_cond_t changed;
    ten_fleet *fleet;
    ten_beliefs own_beliefs;
    ten_beliefs *beliefs;
    struct ten_claim *claims;
    struct ten_question *questions;
    tenure_event *events; /* a ring; for the callback, or to be pulled */
    size_t event_first;
    size_t event_count;
    size_t event_room;
    bool quit;    /* the thread is to end without further ado */
    bool stopped; /* the fleet has given everything back, or the thread has ended */

    /* The thread's own. */
    uint64_t cursor;
    uint64_t shrunk_ms;      /* since when the registry has looked smaller than it was heard to be; 0: it does not */
    uint64_t listing_due_ms; /* when everything is to be listed again; UINT64_MAX: not */
    bool feed_due;
    uint64_t feed_ms; /* it is not read before */
    ten_result *results;
    uint32_t *listed; /* by target: the number of the listing that last had it */
    uint32_t listed_room;
    uint32_t listing;
};

/* Called with the lock held: takes the fleet's events, brings the beliefs up to date, and keeps the events for whoever
 * wants them. */
void ten_member_absorb(tenure_member *member);
void ten_member_publish(tenure_member *member, uint32_t target);
void ten_member_wake(tenure_member *member);
uint64_t ten_member_now_ms(const tenure_member *member);

void *ten_member_run(void *member);

#endif
