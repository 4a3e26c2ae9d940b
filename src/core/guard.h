/*
 * The guard of whoever receives what holders send: is this token current? Pure, like the rest of the core: it is told
 * the time, what the store answered and what its feed said, and decides. It does not ask the store; it says when
 * somebody has to (TEN_GUARD_ASK), and is told the answer. Called by runtime/guard_reader.c.
 *
 *                        no target yet, or above the newest, or unconfirmed
 *      check ------------------------------------------------------------------> ask ---+--- answered ---+
 *        |                                                                              |                |
 *        +--- below the newest: stale                          no answer, or the store  |      below: stale
 *        +--- the newest, and confirmed: accept                forgot: unconfirmed,     |      the newest: accept
 *                                                              unless still confirmed --+      above: ungranted
 *
 * For each target it remembers the newest token that it read. That number never goes down while the target is
 * remembered; when it is evicted the store is asked again. It is *confirmed* at a moment at which the store had nothing
 * newer: when a read was sent that found nothing newer, or when the feed was read to its end without a gap since the
 * target was read. A confirmation serves for cache_ttl_ms: a stale holder passes no longer than that.
 */
#ifndef TEN_CORE_GUARD_H
#define TEN_CORE_GUARD_H

#include "base/map.h"
#include "core/op.h"

typedef struct ten_guard_config {
    uint64_t cache_ttl_ms;
    bool accept_expired; /* the newest token known is accepted, too, when it can no longer be confirmed */
    size_t max_targets;
} ten_guard_config;

enum ten_guard_verdict {
    TEN_GUARD_ACCEPT,
    TEN_GUARD_ACCEPT_EXPIRED, /* by the policy */
    TEN_GUARD_ASK,            /* read the target from the store, then ten_guard_answer() */
    TEN_GUARD_STALE,          /* older than the newest */
    TEN_GUARD_UNGRANTED,      /* newer than any that the store has granted */
    TEN_GUARD_UNCONFIRMED,    /* the store cannot be asked, or has forgotten, and nothing that is cached will do */
    TEN_GUARD_VERDICTS,
};

typedef struct ten_guard_entry {
    const char *target; /* the map's */
    uint64_t newest;
    uint64_t confirmed_ms;         /* by a read of its own */
    uint64_t stretch;              /* of the feed, in which it was read; see ten_guard.stretch */
    struct ten_guard_entry *newer; /* by use */
    struct ten_guard_entry *older;
} ten_guard_entry;

typedef struct ten_guard {
    ten_guard_config config;
    ten_map entries;
    ten_guard_entry *first; /* the most recently used */
    ten_guard_entry *last;
    uint64_t stretch;       /* number of the stretch in which the feed has been followed without a gap; 0: not yet */
    uint64_t fed_ms;        /* when the feed was last read to its end */
    uint64_t former_fed_ms; /* the same of the stretch before */
    bool down;              /* the store did not answer last time */
    bool forgetful;         /* a target that was read is no longer remembered */
} ten_guard;

void ten_guard_init(ten_guard *guard, const ten_guard_config *config);
void ten_guard_free(ten_guard *guard);

/* Judges a token; *ret_newest is the newest token known, 0: none. Never TEN_GUARD_ASK while the store is down. */
enum ten_guard_verdict ten_guard_check(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token,
                                       uint64_t *ret_newest);
/* The same after asking: `answer` is what the store said to a read that was sent at sent_ms; NULL: nothing. Never
 * TEN_GUARD_ASK. */
enum ten_guard_verdict ten_guard_answer(ten_guard *guard, uint64_t now_ms, uint64_t sent_ms, const char *target,
                                        uint64_t token, const ten_result *answer, uint64_t *ret_newest);

/* The store answered last time, or not. */
void ten_guard_reached(ten_guard *guard, bool reached);

/* ---- the feed */

/* A stretch begins with a request sent at that moment: the feed's first, or the first after a gap or a loss. What was
 * read before is not covered by it. */
void ten_guard_follow(ten_guard *guard, uint64_t sent_ms);
/* One change, in the order of the feed. */
void ten_guard_change(ten_guard *guard, const ten_change *change);
/* There was nothing more when this was asked. */
void ten_guard_fed(ten_guard *guard, uint64_t sent_ms);

#endif
