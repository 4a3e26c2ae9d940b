/*
 * Sinks: where the messages of polls go. Each is a bounded queue (outbox.h) and a thread that empties it, so none can
 * hold up the agent: a message that finds no room is dropped and counted. The receipt of a message says what has become
 * of it (receipt.h). sink.c has what all kinds share; each kind, a file of its own, has one step of the thread.
 */
#ifndef TEN_AGENT_SINK_H
#define TEN_AGENT_SINK_H

#include "agent/common/side_thread.h"
#include "agent/runner/agent.h"
#include "agent/sinks/outbox.h"

typedef struct ten_sink ten_sink;

/* One kind of sink. */
typedef struct ten_sink_ops {
    size_t size; /* of its struct, which begins with a ten_sink */
    /* Reads its settings from the text. A server is not asked yet. */
    int (*open)(ten_sink *sink, const char *text, const ten_agent_config *config, ten_error *error);
    /* What open() has made, whatever came of it. */
    void (*free)(ten_sink *sink);
    /* Appends the key, channel or topic that a message goes to. NULL: it goes to one place, as a line. */
    void (*name)(const ten_sink *sink, const ten_message *message, ten_buf *name);
    /* In its thread: sends something, or waits until there is something to do. An error: what was not confirmed is sent
     * again, after a pause. */
    int (*step)(ten_sink *sink, ten_error *error);
    /* In its thread, after an error: ends the connection. NULL: there is none. */
    void (*cut)(ten_sink *sink, int error);
    void (*reopen)(ten_sink *sink); /* NULL: there is nothing to reopen */
} ten_sink_ops;

struct ten_sink {
    ten_side_thread thread;
    const ten_sink_ops *ops;
    ten_outbox outbox;
};

/* `-` is standard output, `file:PATH` appends to a file, both a JSON line a message. A line is written as a whole or
 * not at all, in the time of its lease: while the reader of a pipe hangs, lines wait, and are dropped when their
 * leases end. A line that was written in part when its lease ended (only one over 4,096 bytes can be, or one that a
 * file system or a terminal does not take) is finished when the reader goes on, because a line without its end would
 * spoil the next one, too; it is counted as late. */
extern const ten_sink_ops ten_sink_lines_ops;

/* `redis-stream:KEY` appends each message to a stream (XADD, cut to about 100,000 entries) with the fields target,
 * instance, _version (the token) and message (the JSON); `redis-channel:NAME` publishes the JSON. In KEY and NAME
 * {target} and {namespace} stand for the message's own, and {{ for a brace. */
extern const ten_sink_ops ten_sink_redis_ops;

/* mqtt://[user@]host[:port]/topic/{target}, and mqtts:// with TLS, always verified: each message is published with
 * QoS 1, not retained (mqtt_settings.h has the URL). A broker of MQTT 3.1.1 does not report that a topic is
 * forbidden.
 *
 * This sink and those of a Redis send a message at least once while its lease lasts: when a connection breaks, what
 * was not confirmed is sent again, in the same order. What cannot be sent before the lease ends is dropped, never
 * sent late: bytes that are still on this side then are lost with their connection. What has reached the machine of
 * a server that hangs can still come into effect when it goes on; receivers that must not take it compare tokens, as
 * always. */
extern const ten_sink_ops ten_sink_mqtt_ops;

/* TENURE_E_INVALID when there is no such kind of sink. */
int ten_sink_open(const char *text, const ten_agent_config *config, ten_sink **ret_sink, ten_error *error);
/* Waits up to flush_ms for what has not been written yet. *ret_event is the last of it. */
void ten_sink_close(ten_sink *sink, uint64_t flush_ms, ten_sink_event *ret_event);
/* A message and its line, the newline included. A sink that cannot write it before `ends_ms` of the boot clock, the end
 * of its lease, drops it. False: it was dropped at once, and its receipt is not about this sink. */
bool ten_sink_put(ten_sink *sink, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                  size_t size);
/* Opens a file anew, after it was rotated. */
void ten_sink_reopen(ten_sink *sink);

#endif
