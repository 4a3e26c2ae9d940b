/*
 * A thread of the agent that talks to a Redis: which server it is, and its one connection. It knows neither targets nor
 * messages. target_redis.c and sink_redis.c have it as the first member of their own structures.
 */
#ifndef TEN_AGENT_REDIS_THREAD_H
#define TEN_AGENT_REDIS_THREAD_H

#include "agent/common/side_thread.h"
#include "agent/poller/agent.h"
#include "store/redis/redis_link.h"

typedef struct ten_redis_thread {
    ten_side_thread side;
    ten_redis_settings *settings;
    uint64_t timeout_ms;  /* of a request */
    ten_redis_link *link; /* the thread's; it comes and goes under the lock; NULL: not connected */
} ten_redis_thread;

/* Finds out which server it is: that of --redis, else that of the store. `what` is the source or sink, for the message.
 * It is to be closed with ten_redis_thread_close() whatever comes of it. */
int ten_redis_thread_open(ten_redis_thread *thread, const ten_agent_config *config, const char *what, ten_error *error);
void ten_redis_thread_close(ten_redis_thread *thread);
/* As ten_side_thread_start(). */
int ten_redis_thread_start(ten_redis_thread *thread, void *(*run)(void *), void (*free)(ten_side_thread *),
                           ten_error *error);

/* ---- for the thread itself */

/* When a request that is made now is given up. */
uint64_t ten_redis_thread_deadline_ms(ten_redis_thread *thread);
/* Makes a connection, unless there is one that is still good. */
int ten_redis_thread_connect(ten_redis_thread *thread, ten_error *error);
/* Disconnects, and pauses as ten_side_thread_back_off(). */
void ten_redis_thread_back_off(ten_redis_thread *thread);

#endif
