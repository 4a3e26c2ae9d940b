/*
 * The queue of events: what the fleet, the election and the driver report, in order, until the program takes it.
 * Nothing that matters depends on an event: what is held can always be read. So there is one rule for a program that
 * does not take them, and for memory that runs out: the oldest goes.
 */
#ifndef TEN_CORE_EVENT_QUEUE_H
#define TEN_CORE_EVENT_QUEUE_H

#include "rules/op.h"

#define TEN_EVENT_QUEUE_MIN 16u   /* there is always room for so many */
#define TEN_EVENT_QUEUE_MAX 4096u /* unless it is unbounded */

typedef struct ten_event_queue {
    void (*seen)(void *userdata, const tenure_event *event); /* called for each as it is put; NULL: not */
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

/* Adds an event; its size is filled in. */
void ten_event_queue_put(ten_event_queue *events, tenure_event event);
/* The same about an instance, which may be NULL. */
void ten_event_queue_put_about(ten_event_queue *events, tenure_event event, const char *target, const char *instance);
/* The oldest; false: there is none. */
bool ten_event_queue_take(ten_event_queue *events, tenure_event *ret_event);

#endif
