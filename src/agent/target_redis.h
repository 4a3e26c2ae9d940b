/*
 * Target sources in a Redis. `redis-keys:PREFIX`: each key that starts with PREFIX is a target, its id is the rest of
 * the key, and its value a JSON object (see ten_target_session_parse()). `redis-set:KEY`: each member of the set is an
 * id, or a JSON object as a line of `file:`; with `redis-set:KEY,PREFIX` each member is an id whose JSON object is the
 * value of the key PREFIX + id. Members cost the same however many other keys there are; finding keys costs a walk over
 * all of them.
 *
 * A thread of its own reads them over and over and leaves the differences, so that a Redis that is slow or away never
 * holds up the agent's loop; what was read before stands meanwhile. Which targets count as gone: see target_list.h.
 */
#ifndef TEN_AGENT_TARGET_REDIS_H
#define TEN_AGENT_TARGET_REDIS_H

#include "agent/agent.h"
#include "agent/target_file.h"

typedef struct ten_target_redis ten_target_redis;

enum ten_source_news_kind {
    TEN_SOURCE_PUT,      /* new or changed: target */
    TEN_SOURCE_GONE,     /* target.id */
    TEN_SOURCE_BAD,      /* cannot be used, told once: entry (the key or member) and problem */
    TEN_SOURCE_MORE_BAD, /* count more of them */
    TEN_SOURCE_FAILED,   /* problem; told when it begins */
    TEN_SOURCE_OK        /* it can be read again: count of targets */
};

typedef struct ten_source_news {
    enum ten_source_news_kind kind;
    tenure_target target;
    ten_target_line *storage; /* of the target's texts; NULL: only the id, in entry */
    char *entry;
    char *problem;
    uint64_t count;
    struct ten_source_news *next;
} ten_source_news;

typedef void (*ten_source_news_fn)(const ten_source_news *news, void *userdata);

/* What can be said without asking the server. */
int ten_target_redis_check(const ten_agent_config *config, ten_error *error);

/* Starts reading config->targets. A server that is not there is not an error. */
int ten_target_redis_open(const ten_agent_config *config, ten_target_redis **ret_source, ten_error *error);
void ten_target_redis_close(ten_target_redis *source);
/* Readable when there is news. */
int ten_target_redis_fd(const ten_target_redis *source);
/* Hands out what there is, up to `limit`; the rest makes the descriptor readable again. */
void ten_target_redis_take(ten_target_redis *source, size_t limit, ten_source_news_fn each, void *userdata);

#endif
