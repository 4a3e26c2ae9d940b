/*
 * Who tries first when a role is free: the candidates of a role take turns, so that a release makes one of them try,
 * and not all. Pure: the caller passes in which instances are announced and which have led; it says how long this
 * candidate leaves the role to those before it. Called by the election (core/election.h).
 *
 * Candidates announce themselves with "role" and "priority" in their metadata, before "labels". In the line stand those
 * with the higher priority first, then those that have waited longer; one that has led goes to its end. Each place
 * costs one step of delay, so a first candidate that is dead and not yet known to be so costs one step. A delay only
 * spares requests: a try out of turn is refused by the store, and nothing depends on it.
 *
 * The feed is read with the same delay after a notice. So those who stand behind read the release together with the
 * acquire that followed it, once.
 */
#ifndef TEN_CORE_TURNS_H
#define TEN_CORE_TURNS_H

#include "rules/op.h"

#define TEN_TURNS_MAX 4096u /* candidates that are remembered */

typedef struct ten_turns_place {
    uint64_t instance; /* ten_hash of its id */
    int64_t priority;
    uint64_t since_ms; /* by the store's clock */
    uint64_t seen_ms;  /* when this candidate first saw it */
    uint64_t ttl_ms;   /* that it announces, and takes leases for */
    uint64_t served;   /* it has led, as the how manyth; 0: it has not */
} ten_turns_place;

typedef struct ten_turns {
    const char *role;
    uint64_t self; /* ten_hash of this instance's id */
    uint64_t step_ms;
    ten_turns_place *places;
    uint32_t count;
    uint32_t room;
    ten_turns_place *old; /* those of the last listing, while a new one is read */
    uint32_t old_count;
    uint64_t served;     /* known terms */
    uint64_t list_ms;    /* when to list the instances; UINT64_MAX: not */
    uint64_t noticed_ms; /* when the notice came after which the feed is read; 0: there was none */
    bool listed;         /* the line is known, and this candidate stands in it */
} ten_turns;

/* The role must outlive it. */
void ten_turns_init(ten_turns *turns, const char *role, const char *self, uint64_t ttl_ms);
void ten_turns_free(ten_turns *turns);

/* ---- what happens */

void ten_turns_list_begin(ten_turns *turns);
void ten_turns_list(ten_turns *turns, const ten_instance *instance, uint64_t now_ms);
/* False: the listing failed. */
void ten_turns_list_end(ten_turns *turns, bool complete);
/* It is no longer announced. */
void ten_turns_left(ten_turns *turns, const char *instance);
/* It has led, and does not any more. */
void ten_turns_served(ten_turns *turns, const char *instance);

/* ---- what to do */

/* How many stand before this candidate; `is_holder` says of an instance that it leads already. SIZE_MAX: not known. */
size_t ten_turns_rank(const ten_turns *turns, bool (*is_holder)(const void *arg, uint64_t instance), const void *arg);
/* Since when another candidate with a higher priority has been there, as far as is known; UINT64_MAX: there is none. */
uint64_t ten_turns_better_ms(const ten_turns *turns, int64_t priority);
/* The TTL of an instance in the line; 0: it does not stand there. */
uint64_t ten_turns_ttl_ms(const ten_turns *turns, uint64_t instance);
/* How long a candidate of this rank leaves the role to others. */
uint64_t ten_turns_delay_ms(const ten_turns *turns, size_t rank);

/* What the metadata of an instance says: whether it is a candidate for the role, and its priority. */
bool ten_turns_read_metadata(const char *metadata, const char *role, int64_t *ret_priority);
/* Whether its role is a lock: kept until its work is over, which no drain ends. */
#define TEN_TURNS_LOCK "lock" /* the member "kind" of such a one */
bool ten_turns_is_lock(const char *metadata);

#endif
