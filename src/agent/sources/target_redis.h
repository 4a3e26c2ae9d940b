/*
 * Target sources in a Redis. `redis-keys:PREFIX`: each key that starts with PREFIX is a target, its id is the rest of
 * the key, and its value a JSON object (see ten_target_file_session_parse()). `redis-set:KEY`: each member of the set is an
 * id, or a JSON object as a line of `file:`; with `redis-set:KEY,PREFIX` each member is an id whose JSON object is the
 * value of the key PREFIX + id. Members cost the same however many other keys there are; finding keys costs a walk over
 * all of them.
 *
 * A thread of its own reads them over and over and leaves the differences, so that a Redis that is slow or away never
 * holds up the agent's loop; what was read before stands meanwhile.
 */
#ifndef TEN_AGENT_TARGET_REDIS_H
#define TEN_AGENT_TARGET_REDIS_H

#include "agent/sources/source_feed.h"

extern const ten_source_ops ten_target_redis_ops;

#endif
