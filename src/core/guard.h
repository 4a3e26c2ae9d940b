/*
 * The guard, for receivers of what holders send: is this token current? Pure, like the rest of the core: it is given
 * the time, the store's answers and the entries of its feed, and decides. It does not read the store; it says when the
 * caller has to (TEN_GUARD_ASK), and is given the answer. Called by runtime/guard_reader.c.
 *
 *                        no target yet, or above the newest, or unconfirmed
 *      check ------------------------------------------------------------------> ask ---+--- answered ---+
 *        |                                                                              |                |
 *        +--- below the newest: stale                          no answer, or the store  |      below: stale
 *        +--- the newest, and confirmed: accept                forgot: unconfirmed,     |      the newest: accept
 *                                                              unless still confirmed --+      above: ungranted
 *
 * For each target it remembers the newest token that it read. That token never goes down while the target is
 * remembered; after an eviction the store is read again. A token is *confirmed* at a moment at which the store had no
 * newer one: when a read was sent that found none, or when the feed was read to its end without a gap since the target
 * was read. A confirmation is good for cache_ttl_ms: a stale holder passes for no longer than that.
 */
#ifndef TEN_CORE_GUARD_H
#define TEN_CORE_GUARD_H

#include "base/map.h"
#include "rules/op.h"

typedef struct ten_guard_config {
    uint64_t cache_ttl_ms;
    bool accept_expired; /* accept the newest known token also when it can no longer be confirmed */
    size_t max_targets;
} ten_guard_config;

enum ten_guard_verdict {
    TEN_GUARD_ACCEPT,
    TEN_GUARD_ACCEPT_EXPIRED, /* because of accept_expired */
    TEN_GUARD_ASK,            /* read the target from the store, then call ten_guard_answer() */
    TEN_GUARD_STALE,          /* older than the newest */
    TEN_GUARD_UNGRANTED,      /* newer than any token that the store has granted */
    TEN_GUARD_UNCONFIRMED,    /* the store is unreachable or lost data, and the cache does not confirm the token */
    TEN_GUARD_VERDICTS,
};

typedef struct ten_guard_entry {
    const char *target; /* the key in the map */
    uint64_t newest;
    uint64_t confirmed_ms;         /* by a read of this target */
    uint64_t stretch;              /* of the feed in which it was read; see ten_guard.stretch */
    struct ten_guard_entry *newer; /* by use */
    struct ten_guard_entry *older;
} ten_guard_entry;

typedef struct ten_guard {
    ten_guard_config config;
    ten_map entries;
    ten_guard_entry *first; /* the most recently used */
    ten_guard_entry *last;
    uint64_t stretch;       /* counts the stretches in which the feed was read without a gap; 0: not read yet */
    uint64_t fed_ms;        /* when the feed was last read to its end */
    uint64_t former_fed_ms; /* the same for the previous stretch */
    bool down;              /* the last request failed */
    bool forgetful;         /* a target that was read has been evicted */
} ten_guard;

void ten_guard_init(ten_guard *guard, const ten_guard_config *config);
void ten_guard_free(ten_guard *guard);

/* Judges a token; *ret_newest is the newest known token, 0: none. Never TEN_GUARD_ASK while the store is down. */
enum ten_guard_verdict ten_guard_check(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token,
                                       uint64_t *ret_newest);
/* The same after a read that was sent at sent_ms: `answer` is the store's answer, NULL if there was none. Never
 * TEN_GUARD_ASK. */
enum ten_guard_verdict ten_guard_answer(ten_guard *guard, uint64_t now_ms, uint64_t sent_ms, const char *target,
                                        uint64_t token, const ten_result *answer, uint64_t *ret_newest);

/* Whether the store answered the last request. */
void ten_guard_reached(ten_guard *guard, bool reached);

/* ---- the feed */

/* Begins a stretch, with a request that was sent at that moment: the first of the feed, or the first after a gap or a
 * loss. The stretch does not confirm what was read before. */
void ten_guard_follow(ten_guard *guard, uint64_t sent_ms);
/* One entry, in the order of the feed. */
void ten_guard_change(ten_guard *guard, const ten_change *change);
/* The feed had no more entries when this request was sent. */
void ten_guard_fed(ten_guard *guard, uint64_t sent_ms);

#endif
