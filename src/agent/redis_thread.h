/*
 * A thread of the agent that talks to a Redis: which server it is, its one connection, how it comes back after a
 * failure (backoff with jitter), and an end that does not wait for a server that hangs. It knows neither targets nor
 * messages. target_redis.c and sink_redis.c have it as the first member of their own structures.
 */
#ifndef TEN_AGENT_REDIS_THREAD_H
#define TEN_AGENT_REDIS_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "store/redis_link.h"

typedef struct ten_redis_thread {
    ten_redis_settings *settings;
    uint64_t timeout_ms;       /* of a request */
    ten_redis_link *link;      /* the thread's; NULL: not connected */
    unsigned failures;         /* in a row; the thread's */
    uint64_t backoff_max_ms;   /* 5,000 unless its owner says otherwise */
    int wake_fd;               /* something is to be done, or it is to end */
    int ended_fd;              /* it has ended */
    _Atomic(uint64_t) stop_ms; /* no request goes on for longer; UINT64_MAX until it is told to end */
    pthread_mutex_t lock;      /* around the link's coming and going, and whatever its owner puts under it */
    unsigned owners;           /* the thread and whoever opened it: the last one frees */
    void (*free)(struct ten_redis_thread *thread);
} ten_redis_thread;

/* Finds out which server it is: that of --redis, else that of the store. `what` is the source or sink, for the message.
 * It is to be closed with ten_redis_thread_close() whatever comes of it. */
int ten_redis_thread_open(ten_redis_thread *thread, const ten_agent_config *config, const char *what, ten_error *error);
/* For whoever is not going to start it. */
void ten_redis_thread_close(ten_redis_thread *thread);

/* Starts it. `run` returns when ten_redis_thread_is_over(); `free` frees everything, and calls
 * ten_redis_thread_close(). */
int ten_redis_thread_start(ten_redis_thread *thread, void *(*run)(void *), void (*free)(ten_redis_thread *),
                           ten_error *error);
/* Asks it to end, and waits for that: patience_ms as long as it has something to do, then a moment more. It may still
 * be there afterwards, inside a call that does not return; the memory lives until both have let go. */
void ten_redis_thread_stop(ten_redis_thread *thread, uint64_t patience_ms);
void ten_redis_thread_let_go(ten_redis_thread *thread);
/* Makes ten_redis_thread_wait() return. */
void ten_redis_thread_wake(ten_redis_thread *thread);

/* ---- for the thread itself */

/* What `run` ends with. */
void ten_redis_thread_end(ten_redis_thread *thread);
bool ten_redis_thread_is_stopping(ten_redis_thread *thread);
/* The time that it had for stopping has passed. */
bool ten_redis_thread_is_over(ten_redis_thread *thread);
/* When a request that is made now is given up. */
uint64_t ten_redis_thread_deadline_ms(ten_redis_thread *thread);
/* Makes a connection, unless there is one that is still good. */
int ten_redis_thread_connect(ten_redis_thread *thread, ten_error *error);
void ten_redis_thread_disconnect(ten_redis_thread *thread);
/* Until it is woken, or that time of the boot clock. */
void ten_redis_thread_wait(ten_redis_thread *thread, uint64_t until_ms);
/* Until that time, or until it is to stop, woken or not. */
void ten_redis_thread_pause(ten_redis_thread *thread, uint64_t until_ms);
/* Disconnects and pauses: each time longer, and never two agents for the same time. */
void ten_redis_thread_back_off(ten_redis_thread *thread);

#endif
