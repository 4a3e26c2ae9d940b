/*
 * The carrier: the one kind of thread that the runtime has. It makes the calls on the store that a driver
 * (core/driver.h) wants, one at a time, brings the answers back, tells the program what has happened, and sleeps until
 * something is due or happens. It decides nothing. A slow store delays it, but no deadline: those are in the beliefs
 * (runtime/beliefs.h), which expire without any thread.
 *
 * A fleet member, an election and a guard each own one, and keep what they know under its lock.
 */
#ifndef TEN_RUNTIME_CARRIER_H
#define TEN_RUNTIME_CARRIER_H

#include <pthread.h>

#include "core/driver.h"
#include "store/store.h"

/* What the owner does. All but is_over() may be NULL. */
typedef struct ten_carrier_hooks {
    /* With the lock. */
    bool (*is_over)(void *owner);
    /* An apply has come back; its answer has not been taken yet. */
    void (*answered)(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results);
    /* What is known may have changed: before a call is made, after its answer was taken, and before the program is
     * told of an event. */
    void (*changed)(void *owner);
    /* Without the lock. */
    void (*row)(void *owner, const ten_row *row); /* after it was taken */
    bool (*deliver)(void *owner);                 /* tells the program; true: there was something to tell */
    bool (*serve)(void *owner);                   /* makes a call of the owner's own; true: it did */
} ten_carrier_hooks;

typedef struct ten_carrier {
    ten_store *store; /* used by the thread alone once it runs */
    const ten_clock *clock;
    uint64_t process; /* see base/fork.h */
    uint64_t timeout_ms;
    const char *namespace_name; /* these three are set before the thread starts */
    const ten_carrier_hooks *hooks;
    void *owner;
    ten_result *results; /* of an apply */

    pthread_t thread;
    bool started;
    int wake_fd;

    pthread_mutex_t lock; /* around all that the owner knows; held for microseconds, never during a call on the store */
    pthread_cond_t changed;
    uint64_t end_ms; /* is_over() is asked then, whatever else happens; UINT64_MAX: not */
    ten_event_queue events;
    ten_driver driver;
} ten_carrier;

/* Prepares lock, events and descriptor. On an error, ten_carrier_free() cleans up. */
int ten_carrier_open(ten_carrier *carrier, const ten_clock *clock, ten_error *error);
/* Room for the results of requests of so many operations. */
int ten_carrier_reserve(ten_carrier *carrier, size_t operations, ten_error *error);
/* Starts the thread; the store, the driver and the hooks are set. Returns 0, or an errno. */
int ten_carrier_start(ten_carrier *carrier);
/* Waits for the thread, whose owner says that it is over. */
void ten_carrier_join(ten_carrier *carrier);
void ten_carrier_free(ten_carrier *carrier);

uint64_t ten_carrier_now_ms(const ten_carrier *carrier);
void ten_carrier_wake(const ten_carrier *carrier);
/* Takes the next event, with the lock taken meanwhile. */
bool ten_carrier_take_event(ten_carrier *carrier, tenure_event *ret_event);

#endif
