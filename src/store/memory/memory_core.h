/*
 * What the memory backend keeps: targets with their leases, instances, and the feed. memory.c gives it the shape of a
 * store.
 */
#ifndef TEN_STORE_MEMORY_CORE_H
#define TEN_STORE_MEMORY_CORE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/map.h"
#include "rules/instance_row.h"
#include "rules/lease_row.h"
#include "store/store.h"

/* A target: its registration and its lease. The lease row is the token counter. */
struct ten_memory_entry {
    char *namespace_name;
    char *id;
    ten_lease_row lease; /* read it through ten_memory_lease() */
    bool registered;
    bool paused;
    uint64_t every_ms;
    char *url;
    char *exec;
    char *spec;
    char *pin;        /* as rules/pin.h has it; NULL: none */
    char *checkpoint; /* NULL: none */
    uint64_t checkpoint_token;
};

struct ten_memory_instance {
    char *namespace_name;
    char *id;
    ten_instance_row row;
    char *metadata;
};

struct ten_memory_feed_entry {
    ten_change change;
    char *texts; /* what the change points to */
};

struct ten_memory_store;

struct ten_memory_core {
    char *name; /* "": private */
    size_t references;
    pthread_mutex_t lock;
    ten_map entries; /* "namespace/target": a namespace has no slash */
    ten_map instances;
    struct ten_memory_entry **sorted; /* by namespace and id, when `in_order` */
    size_t sorted_room;
    bool in_order;
    struct ten_memory_feed_entry *feed; /* cursor c lies at c % feed_room */
    size_t feed_room;                   /* TEN_FEED_MAX; a test may want more, and sets it before the first entry */
    uint64_t last_cursor;
    ten_map forgotten;            /* namespace: the highest token that it forgot, as a pointer */
    uint64_t last_session;        /* the number of the last session that began */
    uint64_t token_floor;         /* new tokens are at least this; 0: no epoch has begun */
    uint64_t recovering_until_ms; /* boot clock: nobody new is let in before */
    struct ten_memory_store *handles;
    struct ten_memory_core *next;
};

struct ten_memory_store {
    ten_store base;
    struct ten_memory_core *core;
    ten_arena results;
    int watch_fd;
    struct ten_memory_store *next;
};

/* The core of that name, made if need be, with a reference more; "" is a new one each time. NULL: out of memory. */
struct ten_memory_core *ten_memory_core_get(const char *name);
void ten_memory_core_drop(struct ten_memory_core *core);

/* For the rest the core's lock is held. NULL from a `find`: not there; from a `make`: out of memory. */
struct ten_memory_entry *ten_memory_find(struct ten_memory_core *core, const char *namespace_name, const char *id);
struct ten_memory_entry *ten_memory_make(struct ten_memory_core *core, const char *namespace_name, const char *id);
/* The highest token that the namespace forgot; and removing an entry whose token is not above it. */
uint64_t ten_memory_forgotten(const struct ten_memory_core *core, const char *namespace_name);
bool ten_memory_set_forgotten(struct ten_memory_core *core, const char *namespace_name, uint64_t token);
void ten_memory_remove(struct ten_memory_core *core, struct ten_memory_entry *entry);
struct ten_memory_instance *ten_memory_find_instance(struct ten_memory_core *core, const char *namespace_name,
                                                     const char *id);
struct ten_memory_instance *ten_memory_make_instance(struct ten_memory_core *core, const char *namespace_name,
                                                     const char *id);
void ten_memory_remove_instance(struct ten_memory_core *core, struct ten_memory_instance *instance);
/* The lease of the entry, with the end that it has at this moment. */
ten_lease_row ten_memory_lease(struct ten_memory_core *core, const struct ten_memory_entry *entry);
/* Leases may have been forgotten that end by then: an epoch begins. False: out of memory for its entry of the feed. */
bool ten_memory_begin_epoch(struct ten_memory_core *core, uint64_t until_ms, uint64_t wall_ms);
/* Appends to the feed; false: out of memory. */
bool ten_memory_feed(struct ten_memory_core *core, const ten_change *event, uint64_t wall_ms);
/* Takes what the feed has of leases of targets that are not there out of it: an entry without a target stays, for the
 * cursors' sake. */
void ten_memory_feed_blank(struct ten_memory_core *core, const char *namespace_name);
void ten_memory_wake_all(struct ten_memory_core *core);

#endif
