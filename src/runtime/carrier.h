/*
 * The carrier of a context: it makes the calls on the store that its tasks want, brings the answers back, and tells the
 * program what has happened. It decides nothing. A slow store delays it, but no deadline: those are in the beliefs,
 * which expire without any thread.
 *
 *  - A task is a part of the core with its engine (core/engine.h): the book of leases, the fleet member, an election, a
 *    guard. A channel is the store handle of one namespace; the tasks of that namespace share it.
 *  - A call is made by the thread that has the turn: one at a time, in the order in which they came. That is the
 *    carrier's thread, a thread inside tenure_process(), a thread that waits for an answer and makes the call itself,
 *    or a thread with a call of its own (ten_carrier_enter). So a caller that waits costs no change of threads.
 *  - The threaded form is a thread that loops over ten_carrier_next_ms(), poll() on poll_fd and ten_carrier_process().
 *    The driven form leaves that loop to the program. Any thread may process at any time: no thread has to know which
 *    others sleep, because poll_fd itself becomes readable when something is due.
 *  - What tasks know is kept under one lock, which is held for microseconds and never during a call on the store or on
 *    the program.
 */
#ifndef TEN_RUNTIME_CARRIER_H
#define TEN_RUNTIME_CARRIER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/engine.h"
#include "store/store.h"

typedef struct ten_carrier ten_carrier;

/* ---- channels and tasks */

typedef struct ten_channel {
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    ten_store *store; /* used with the turn */
    uint32_t users;
    uint32_t watchers; /* threads in ten_carrier_wait_notice() */
    uint64_t notices;  /* that have come */
    bool followed;     /* a task follows its feed, or a thread waits for a change */
    bool watched;      /* the store makes watch_fd readable */
    int watch_fd;      /* as the poll descriptor has it; -1: it does not */
    bool armed;        /* the poll descriptor waits for it */
    struct ten_channel *next;
} ten_channel;

/* What the owner of a task does. All may be NULL. */
typedef struct ten_task_hooks {
    /* With the lock: an apply has come back; its answer has not been taken yet. */
    void (*answered)(void *owner, const ten_call *call, uint64_t took_us, int error, const ten_result *results);
    /* With the lock: what is known may have changed, before a call is made and after its answer was taken. */
    void (*changed)(void *owner);
    /* With the turn, without the lock: after a row was taken. */
    void (*row)(void *owner, const ten_row *row);
    /* With the lock: whether there is something to tell the program. NULL: when there are events. */
    bool (*pending)(const void *owner);
    /* Without the lock: tells it. NULL: it is not told. */
    void (*tell)(void *owner);
} ten_task_hooks;

typedef struct ten_task {
    ten_carrier *carrier;
    ten_channel *channel;
    const ten_task_hooks *hooks;
    void *owner;
    ten_engine engine;
    ten_event_queue events;
    ten_result *results; /* of an apply */
    uint64_t timeout_ms; /* of one call; 0: the carrier's */
    ten_error error;     /* of the last call that failed */
    bool telling;        /* the program is being told */
    struct ten_task *next;
} ten_task;

typedef struct ten_turn {
    bool given;
    struct ten_turn *next;
} ten_turn;

struct ten_carrier {
    const ten_clock *clock;
    char *url;
    uint64_t timeout_ms; /* of one call */
    bool driven;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* something that a waiting thread may want to know */
    ten_channel *channels;
    ten_task *tasks;
    ten_turn *turns; /* the thread that has the turn, and those that wait for it */
    pthread_cond_t turned;
    int poll_fd;       /* of epoll: the wake-up, the timer and the watched channels; any number of threads poll it */
    int wake_fd;       /* for threads that wait: something has happened */
    int timer_fd;      /* makes poll_fd readable when something is due, however long those who poll want to sleep */
    uint64_t timer_ms; /* when it does; UINT64_MAX: it does not */
    _Atomic(bool) cancelled;
    bool polled; /* driven: one of those who wait polls for all of them */
    bool called; /* it has to come back: no other thread clears the wake-up */
    bool telling;
    uint64_t closes_ms; /* the context is being closed: calls end by then; UINT64_MAX: it is not */

    pthread_t thread;
    bool started;
    bool quit;
};

/* ---- its life. The clock, the time-out and the form are set before */

int ten_carrier_open(ten_carrier *carrier, const char *url, ten_error *error);
/* With the lock. The context is being closed, and has time until then: calls that begin from now on end by that. */
void ten_carrier_close_by(ten_carrier *carrier, uint64_t end_ms);
/* Ends the thread, and then tells the program what is left in the queues. No call is made from now on. */
void ten_carrier_stop(ten_carrier *carrier);
void ten_carrier_free(ten_carrier *carrier);
/* In a child of fork(): connections are the parent's, and what is inside may have been changing at that moment. */
void ten_carrier_abandon(ten_carrier *carrier);

static inline uint64_t ten_carrier_now_ms(const ten_carrier *carrier) {
    return ten_boot_ms(carrier->clock);
}

static inline void ten_carrier_lock(ten_carrier *carrier) {
    pthread_mutex_lock(&carrier->lock);
}

/* Also sets the timer, if something is due earlier than planned. */
void ten_carrier_unlock(ten_carrier *carrier);

/* ---- tasks; without the lock */

/* The channel of a namespace; opened if there is none. */
int ten_carrier_open_channel(ten_carrier *carrier, const char *namespace_name, ten_channel **ret_channel,
                             ten_error *error);
void ten_carrier_close_channel(ten_carrier *carrier, ten_channel *channel);

/* Prepares events, room for the results of requests of so many operations, and the channel of the namespace.
 * ten_task_free() cleans up, also after an error. ten_task_begin() makes its engine. */
int ten_task_open(ten_task *task, ten_carrier *carrier, size_t operations, const char *namespace_name,
                  ten_error *error);
/* Makes its engine; its events and seed are filled in. */
void ten_task_begin(ten_task *task, ten_engine_config config);
/* From now on its engine is asked. */
void ten_task_add(ten_task *task);
/* Waits until no call is made for it and the program is not being told, and closes its channel. It need not have been
 * added. */
void ten_task_remove(ten_task *task);
void ten_task_free(ten_task *task);
/* With the lock. A caller waits for its next request: it is tried at once, also after a failure. */
void ten_task_hurry(ten_task *task);
/* Takes the next event, with the lock taken meanwhile. */
bool ten_task_take_event(ten_task *task, tenure_event *ret_event);
/* Fills in the message of an event that was taken; with the lock. It is the calling thread's until its next one. */
void ten_task_describe(const ten_task *task, tenure_event *event);

/* ---- calls of a thread's own */

/* Takes the turn; TENURE_E_TIMEOUT: others had it for the whole time-out. */
int ten_carrier_enter(ten_carrier *carrier);
void ten_carrier_leave(ten_carrier *carrier);

/* ---- waiting. With the lock, which is released meanwhile */

/* Waits until done(arg), and makes the calls of the task that are due itself; in the driven form those of the others,
 * too. Returns TENURE_OK, or TENURE_E_TIMEOUT at end_ms (a call that was begun before is not cut short), or if others
 * have the turn for the whole time-out. */
int ten_carrier_await(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                      uint64_t end_ms);
/* The same, but tenure_cancel() ends it with TENURE_E_CANCELLED, and only end_ms with TENURE_E_TIMEOUT. */
int ten_carrier_wait(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                     uint64_t end_ms);
/* Waits until there is a notice after the one with this number, or the store cannot be watched and some time has
 * passed. The same results as ten_carrier_wait(). */
int ten_carrier_wait_notice(ten_carrier *carrier, ten_channel *channel, uint64_t seen, uint64_t end_ms);
/* In the threaded form, the thread runs from now on. Without the lock. */
int ten_carrier_start(ten_carrier *carrier, ten_error *error);

/* ---- driving; without the lock */

/* When ten_carrier_process() has something to do; UINT64_MAX: not before something happens. */
uint64_t ten_carrier_next_ms(ten_carrier *carrier);
void ten_carrier_process(ten_carrier *carrier);
/* Whether this thread is inside an on_... function of this context, also if it is inside one of another context, too.
 */
bool ten_carrier_is_telling(const ten_carrier *carrier);
/* Ends waits. Safe in a signal handler. */
void ten_carrier_cancel(ten_carrier *carrier);

/* ---- between carrier.c, carrier_loop.c and carrier_wait.c; with the lock */

/* False: others had it for that long. */
bool ten_carrier_take_turn_within(ten_carrier *carrier, ten_turn *turn, uint64_t wait_ms);
void ten_carrier_pass_turn(ten_carrier *carrier);
/* Sleeps until the condition is signalled or the time has passed, or less. */
void ten_carrier_sleep(ten_carrier *carrier, pthread_cond_t *condition, uint64_t wait_ms);
/* Makes the next call of the task, with the turn. False: there is none. */
bool ten_carrier_step(ten_carrier *carrier, ten_task *task);
/* Something has happened that those who wait may want to know. */
void ten_carrier_tell_waiting(ten_carrier *carrier);
/* When something is due; now: at once. */
uint64_t ten_carrier_due_ms(const ten_carrier *carrier, uint64_t now_ms);

/* Who processes, and for how long. */
typedef struct ten_round {
    ten_task *task;                   /* its calls go first, in turn with those of the others; NULL: no task does */
    bool (*is_over)(const void *arg); /* asked before each call; NULL: it is never over */
    const void *arg;
    uint64_t turn_ms; /* how long to wait for the turn */
    bool made;        /* result: a call was made */
} ten_round;
/* Takes notices, makes calls that are due, and tells the program. False: others have the turn. */
bool ten_carrier_run_round(ten_carrier *carrier, ten_round *round);
/* Sets the timer, if something is due earlier than planned. */
void ten_carrier_set_timer(ten_carrier *carrier);

#endif
