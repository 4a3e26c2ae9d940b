/*
 * What a handle knows of the records of its store: from its own commits, from conflicts and from reads. It is a hint: a
 * write that is decided by it has the store check the version in the same step, so a wrong hint costs one more round
 * trip. An operation that writes nothing rests on records that were read in the same call
 * (ten_record_cache_is_fresh()).
 * Called by apply*.c.
 */
#ifndef TEN_STORE_RECORD_CACHE_H
#define TEN_STORE_RECORD_CACHE_H

#include "base/map.h"
#include "rules/record.h"

/* What a batch of operations does with a record in the round that is being prepared. */
enum ten_record_use {
    TEN_USE_CHECK = 1u << 0,
    TEN_USE_WRITE = 1u << 1,
    TEN_USE_RAISE = 1u << 2,
    TEN_USE_TOUCH = 1u << 3
};

typedef struct ten_known {
    ten_record record;   /* its texts belong to the cache */
    uint64_t known_in;   /* the generation of the cache in which it was learnt */
    uint64_t fresh_in;   /* the call in which it was read or written */
    uint64_t touched_in; /* the call in which its life was extended */
    uint64_t seen;       /* the backend's; see ten_touch */
    uint64_t round;      /* to which the uses belong */
    unsigned uses;
    uint64_t change; /* the last change that checks it */
    bool wanted;     /* this round needs it, and does not know it */
    char *texts;
    size_t room;
} ten_known;

typedef struct ten_record_cache {
    size_t room; /* a holder of so many leases renews each of them without reading it */
    ten_map recent;
    ten_map older;       /* what was not used since `recent` was begun */
    uint64_t call;       /* that is under way */
    uint64_t generation; /* what was learnt in a former one is not known any more */
} ten_record_cache;

/* Another call begins: nothing is fresh. What was not used for long is dropped. */
void ten_record_cache_begin(ten_record_cache *cache);
void ten_record_cache_free(ten_record_cache *cache);
/* The place of a record, which stays until the next call begins; NULL: out of memory. */
ten_known *ten_record_cache_get(ten_record_cache *cache, const char *namespace_name, enum ten_kind kind,
                                const char *id);
/* The record is this, at this moment. False: out of memory, and it is not known any more. */
bool ten_record_cache_set(ten_record_cache *cache, ten_known *known, const ten_record *record);
void ten_record_cache_forget(ten_known *known);
/* Nothing is known any more. */
void ten_record_cache_forget_all(ten_record_cache *cache);

static inline bool ten_record_cache_is_known(const ten_record_cache *cache, const ten_known *known) {
    return known->known_in == cache->generation;
}
static inline bool ten_record_cache_is_fresh(const ten_record_cache *cache, const ten_known *known) {
    return ten_record_cache_is_known(cache, known) && known->fresh_in == cache->call;
}

#endif
