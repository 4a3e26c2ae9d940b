/*
 * The queue of events: what the parts and the engine report, in order, until the program takes it; and the way out for
 * facts, which the carrier of the part has to know at once: a belief that has ended must not wait in a queue.
 * Nothing that matters depends on an event: what is held can always be read. So there is one rule for a program that
 * does not take them, and for memory that runs out: the oldest goes.
 */
#ifndef TEN_CORE_EVENT_QUEUE_H
#define TEN_CORE_EVENT_QUEUE_H

#include "rules/op.h"

#define TEN_EVENT_QUEUE_MIN 16u   /* there is always room for so many */
#define TEN_EVENT_QUEUE_MAX 4096u /* unless it is unbounded */

enum ten_fact_kind {
    TEN_FACT_EVENT,   /* an event was put */
    TEN_FACT_BELIEF,  /* what may be believed about a target, or a lease, has changed */
    TEN_FACT_GRANTED, /* a target of a fleet was acquired; the answer brings its checkpoint along */
    TEN_FACT_FAILED,  /* users that waited for a lease have no claim any more. result: NULL, there was no answer */
    TEN_FACT_LOST,    /* a lease has ended, and was not released */
    TEN_FACT_WRITTEN, /* the write of a checkpoint was answered: see core/checkpoints.h */
};

typedef struct ten_fact {
    enum ten_fact_kind kind;
    const tenure_event *event;
    uint32_t target;              /* of a fleet */
    struct ten_book_lease *lease; /* of a lease book */
    enum ten_reason reason;       /* lost */
    int error;                    /* failed, written */
    const ten_result *result;     /* granted, failed */
    const char *id;               /* written: the target */
    uint64_t token;               /* written */
} ten_fact;

typedef struct ten_event_queue {
    void (*publish)(void *userdata, const ten_fact *fact); /* NULL: facts are not wanted */
    void *userdata;
    tenure_event *ring;
    size_t first;
    size_t count;
    size_t room;
    bool unbounded; /* the program takes them as they come */
} ten_event_queue;

/* False: out of memory. */
bool ten_event_queue_open(ten_event_queue *events);
void ten_event_queue_free(ten_event_queue *events);

static inline void ten_event_queue_publish(const ten_event_queue *events, const ten_fact *fact) {
    if (events->publish)
        events->publish(events->userdata, fact);
}

/* Adds an event; its size is filled in. */
void ten_event_queue_put(ten_event_queue *events, tenure_event event);
/* The same about an instance, which may be NULL. */
void ten_event_queue_put_about(ten_event_queue *events, tenure_event event, const char *target, const char *instance);
/* The oldest; false: there is none. */
bool ten_event_queue_take(ten_event_queue *events, tenure_event *ret_event);

#endif
