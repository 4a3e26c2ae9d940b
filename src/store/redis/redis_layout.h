/*
 * Which key is whose: the patterns of the URL, and for each namespace the names that follow from them. Pure text; the
 * rest of the Redis backend asks it for every key that it uses.
 */
#ifndef TEN_STORE_REDIS_LAYOUT_H
#define TEN_STORE_REDIS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/url.h"

#define TEN_REDIS_OWN_PREFIX "tenure:"

/* Our own keys of a namespace: redis.lua says what is in them. */
enum ten_redis_own {
    TEN_REDIS_RECORDS,
    TEN_REDIS_IDS,
    TEN_REDIS_FEED,
    TEN_REDIS_EPOCH, /* of an earlier layout */
    TEN_REDIS_OWN_COUNT,
};

/* What stands before and after the id in a key. */
typedef struct ten_redis_pattern {
    const char *before;
    const char *after;
} ten_redis_pattern;

typedef struct ten_redis_space {
    const char *own[TEN_REDIS_OWN_COUNT]; /* "tenure:poll:records"... */
    ten_redis_pattern lease;
    ten_redis_pattern node;
    const char *node_glob; /* for SCAN: matches every heartbeat's key */
    bool overlaps;         /* a lease's key may look like a heartbeat's: of roles, whose keys are those of the seeds */
} ten_redis_space;

typedef struct ten_redis_layout {
    const char *lease_key;  /* "{ns}:lease:{id}" */
    const char *node_key;   /* "{ns}:node:{instance}" */
    const char *leader_key; /* "{ns}:{role}": in place of lease_key in the namespace of elections */
    ten_map spaces;
    ten_arena texts; /* all of these, and those of the spaces */
} ten_redis_layout;

#define TEN_REDIS_LAYOUT_OPTIONS "lease_key", "node_key", "leader_key"

/* Takes the patterns from the URL's options, or the defaults, and checks them. */
int ten_redis_layout_make(const ten_url *url, ten_redis_layout *layout, ten_error *error);
void ten_redis_layout_free(ten_redis_layout *layout);
/* The names of a namespace; they live as long as the layout. */
int ten_redis_space_get(ten_redis_layout *layout, const char *namespace_name, const ten_redis_space **ret_space,
                        ten_error *error);
/* Whether the lease of this target has a key that no instance's heartbeat can have. */
int ten_redis_space_check(const ten_redis_space *space, const char *target, ten_error *error);

#endif
