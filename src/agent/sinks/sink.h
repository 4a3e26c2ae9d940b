/*
 * Sinks: where the messages of polls go. `-` is standard output, `file:PATH` appends to a file, both a JSON line a
 * message (sink_lines.h); `redis-stream:KEY` and `redis-channel:NAME` go to a Redis (sink_redis.h), `mqtt://HOST/TOPIC` to a broker
 * (sink_mqtt.h). None can hold up the agent: a message that finds no room is dropped and counted.
 * What has become of a message its receipt says (receipt.h).
 */
#ifndef TEN_AGENT_SINK_H
#define TEN_AGENT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/message.h"
#include "agent/poller/agent.h"
#include "agent/sinks/receipt.h"

typedef struct ten_sink ten_sink;

/* What became known of a sink since it was last asked. */
typedef struct ten_sink_event {
    uint64_t dropped;  /* messages that were taken, and then could not be sent in time */
    uint64_t late;     /* messages that had begun to leave, and could not be finished before their lease ended */
    ten_error problem; /* it has begun to fail; code 0: it has not */
    bool works_again;
} ten_sink_event;

/* One kind of sink. `self` is what its open() has made. */
typedef struct ten_sink_ops {
    int (*open)(const char *text, const ten_agent_config *config, void **ret_self, ten_error *error);
    void (*close)(void *self, uint64_t flush_ms, ten_sink_event *ret_event);
    bool (*put)(void *self, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                size_t size);
    void (*reopen)(void *self);                                /* NULL: there is nothing to reopen */
    void (*take_event)(void *self, ten_sink_event *ret_event); /* NULL: there never is any */
} ten_sink_ops;

/* TENURE_E_INVALID when there is no such kind of sink. */
int ten_sink_open(const char *text, const ten_agent_config *config, ten_sink **ret_sink, ten_error *error);
/* Waits up to flush_ms for what has not been written yet. *ret_event is the last of it. */
void ten_sink_close(ten_sink *sink, uint64_t flush_ms, ten_sink_event *ret_event);
/* A message and its line, the newline included. A sink that cannot write it before `ends_ms` of the boot clock, the end
 * of its lease, drops it. False: it was dropped at once, and its receipt is not about this sink. */
bool ten_sink_put(ten_sink *sink, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                  size_t size);
/* Opens a file anew, for whoever rotates it. */
void ten_sink_reopen(ten_sink *sink);
void ten_sink_take_event(ten_sink *sink, ten_sink_event *ret_event);

#endif
