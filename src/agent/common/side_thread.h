/*
 * A thread beside the agent's loop, for a source or a sink whose server may be slow or away: how it is woken, how it
 * comes back after a failure (backoff with jitter), and an end that does not wait for a server that hangs. It knows
 * neither servers nor messages. Its owners have it as the first member of their own structures.
 */
#ifndef TEN_AGENT_SIDE_THREAD_H
#define TEN_AGENT_SIDE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ten_side_thread {
    unsigned failures;         /* in a row; the thread's */
    uint64_t backoff_max_ms;   /* 5,000 unless its owner says otherwise */
    int wake_fd;               /* something is to be done, or it is to end */
    int ended_fd;              /* it has ended */
    _Atomic(uint64_t) stop_ms; /* no request goes on for longer; UINT64_MAX until it is asked to end */
    pthread_mutex_t lock;      /* for its owner, too */
    unsigned owners;           /* the thread and its opener: the last one frees */
    void (*work)(struct ten_side_thread *thread);
    void (*free)(struct ten_side_thread *thread);
    void (*interrupt)(void *connection); /* under the lock: makes a call that hangs return; NULL: no way */
    void *connection;
} ten_side_thread;

void ten_side_thread_init(ten_side_thread *thread);
/* The end of its memory. */
void ten_side_thread_close(ten_side_thread *thread);

/* Starts it. `work` returns when ten_side_thread_is_over(); `free` frees everything, and calls ten_side_thread_close().
 * `name` is for the message. */
int ten_side_thread_start(ten_side_thread *thread, const char *name, void (*work)(ten_side_thread *),
                          void (*free)(ten_side_thread *), ten_error *error);
/* Asks it to end, and waits for that: patience_ms as long as it has something to do, then a moment more. It may still
 * be there afterwards, inside a call that does not return; the memory lives until both have let go. */
void ten_side_thread_stop(ten_side_thread *thread, uint64_t patience_ms);
void ten_side_thread_detach(ten_side_thread *thread);
/* Makes ten_side_thread_wait() return. */
void ten_side_thread_wake(ten_side_thread *thread);

/* ---- for the thread itself */

bool ten_side_thread_is_stopping(ten_side_thread *thread);
/* The time that it had for stopping has passed. */
bool ten_side_thread_is_over(ten_side_thread *thread);
/* When a request that is made now, and may take timeout_ms, is given up. */
uint64_t ten_side_thread_deadline_ms(ten_side_thread *thread, uint64_t timeout_ms);
/* Until it is woken, or that time of the boot clock. */
void ten_side_thread_wait(ten_side_thread *thread, uint64_t until_ms);
/* It was woken in another way than by the call above. */
void ten_side_thread_note_woken(ten_side_thread *thread);
/* Until that time, or until it is to stop, woken or not. */
void ten_side_thread_pause(ten_side_thread *thread, uint64_t until_ms);
/* Pauses after a failure: each time longer, and never two agents for the same time. */
void ten_side_thread_back_off(ten_side_thread *thread);

#endif
