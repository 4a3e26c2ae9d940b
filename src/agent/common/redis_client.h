/*
 * The connection of a side thread to a Redis: which server it is, and how it is made, cut and made again. It knows
 * neither targets nor messages. Used by target_redis.c and sink_redis.c.
 */
#ifndef TEN_AGENT_REDIS_CLIENT_H
#define TEN_AGENT_REDIS_CLIENT_H

#include "agent/common/side_thread.h"
#include "agent/runner/agent.h"
#include "store/redis/redis_link.h"

typedef struct ten_redis_client {
    ten_side_thread *thread;
    ten_redis_settings *settings;
    uint64_t timeout_ms;  /* of a request */
    ten_redis_link *link; /* the thread's; it comes and goes under the thread's lock; NULL: not connected */
} ten_redis_client;

/* Finds out which server it is: that of --redis, else that of the store. `what` is the source or sink, for the message.
 * Close it with ten_redis_client_close() even if this fails. */
int ten_redis_client_open(ten_redis_client *client, ten_side_thread *thread, const ten_agent_config *config,
                          const char *what, ten_error *error);
void ten_redis_client_close(ten_redis_client *client);

/* ---- for the thread */

/* When a request that is made now is given up. */
uint64_t ten_redis_client_deadline_ms(ten_redis_client *client);
/* Makes a connection, unless there is one that is still good. */
int ten_redis_client_connect(ten_redis_client *client, ten_error *error);
void ten_redis_client_disconnect(ten_redis_client *client);

#endif
