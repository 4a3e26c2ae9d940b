/*
 * Sinks in a Redis. `redis-stream:KEY` appends each message to a stream (XADD, cut to about 100,000 entries) with the
 * fields target, instance, _version (the token) and message (the JSON); `redis-channel:NAME` publishes the JSON. In KEY
 * and NAME {target} and {namespace} stand for the message's own, and {{ for a brace.
 *
 * A message is sent at least once while its lease lasts: when a connection breaks, what was not confirmed is sent
 * again, in the same order. What cannot be sent before the lease ends is dropped, never sent late. What was written to
 * the connection of a server that hangs can still come into effect when it goes on; receivers that must not take it
 * compare tokens, as always.
 */
#ifndef TEN_AGENT_SINK_REDIS_H
#define TEN_AGENT_SINK_REDIS_H

#include "agent/sinks/sink.h"

extern const ten_sink_ops ten_sink_redis_ops;

#endif
