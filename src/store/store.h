/*
 * The store contract. This comment and the ones below are its specification; tests/conformance is the same in code, and
 * every backend passes all of it against the real server.
 *
 * A store keeps, for each namespace: leases (who holds which target, until when by the store's own clock, under which
 * token), the target registry, the live instances, and a bounded feed of changes. It decides nothing about who *should*
 * hold what.
 *
 * Batches. apply() takes n operations and gives each an outcome of its own. Operations of one batch take effect in
 * their order, as if one after the other; other callers see a prefix of them, usually all or none. A backend turns a
 * batch into the fewest round trips that its server allows: renewing a thousand leases costs about what renewing one
 * does.
 *
 * Leases. At any instant of the store's clock a target has at most one holder. A lease ends when its holder releases
 * it, when it is forced, or when its TTL has passed since the last successful acquire or renewal, judged when the store
 * executes the operation (after any lock that it had to wait for), never by the caller's clock. A lease that has ended
 * is not renewed, even if nobody took it meanwhile: the former holder acquires again, and gets a new token.
 *
 * Tokens. Each acquire that gives a target a new holder, or the same one after a gap, grants a token greater than every
 * token granted for that target before: over release, expiry, restart of the store, removal and re-adding of the
 * target, and forgetting. Tokens lie between 1 and 2^53 - 1; an acquire that would exceed that is refused with
 * TENURE_E_TOKEN. An acquire by the present holder returns the token it has, so a caller that never saw the answer to
 * its first try gets the same lease by acquiring again.
 *
 * Groups. Acquires that follow each other in a batch with the same `group` are one step: if one of them is refused,
 * none of them gives a target a new holder. They have namespace, holder, TTL and flags in common, and no target twice;
 * at most TEN_GROUP_MAX of them. What the holder has already is TEN_OK in any case: the caller learns of it and can
 * release it.
 *
 * Sessions. The heartbeat of an instance (TEN_OP_ANNOUNCE) with TEN_OP_SESSION begins a session, or goes on with it. An
 * acquire or a renewal by its holder with TEN_OP_SESSION hangs the lease on that session: it is held as long as the
 * session lives, and each heartbeat renews all of them in one step. What the result names as the session is on it; a
 * lease whose holder has no session gets an end of its own, and so does one that would end earlier on the session than
 * it does now.
 *  - A session lives until a TTL after the last heartbeat, by the store's clock, also if the instance leaves before.
 *  One
 *    that has ended never comes back, nor do its leases: the next heartbeat begins another one, with another number. A
 *    store may begin another one before that. Leases of the former one are held
 *    until its end, or until their holder renews them: then they are on the new one.
 *  - Whoever changes a lease of a session without being its holder (force, release, ask, a renewal without
 *    TEN_OP_SESSION, an acquire after the session has ended) raises the version of the session in the same step. The
 *    answer to a heartbeat has session and version. If both are the ones that the holder knows, all that it knows to be
 *    on the session is so, and its deadline counts from the sending of that heartbeat. If not, the holder reads its
 *    leases, which was after that heartbeat, before it believes in them for longer. A new epoch is another version,
 *    too.
 *  - A lease that is forced leaves the session with the end that the session has at that moment. So does one that is
 *    renewed without TEN_OP_SESSION, with the later of that and its new end. One that is handed over has an end of its
 *    own until its new holder acquires it.
 *  - All else that is said of leases is true of leases on a session.
 *
 * Epochs. Where a store can tell that it may have lost data or come back older than it was, it begins an epoch: until
 * every lease that may have been lost has ended, an acquire is TEN_HELD without a holder, with the time left and with
 * `recovering` set. This includes the holder that the store remembers: it may have released the lease since, and
 * another instance may hold it. No acquire gets back a lease under a token from before the epoch. A renewal that names
 * its holder and carries a token above the target's counter, or equal to it and the holder's own, puts that lease back.
 * The counter continues above the store's wall clock in milliseconds, so that tokens do not go down.
 * Such a token is also a proof of loss when the store has noticed nothing: a renewal that names holder and TTL and
 * carries a token above the counter, and not below the floor of the last epoch, begins an epoch, and is put back in it.
 * Tokens more than 366 days ahead of the store's wall clock in milliseconds, and of its floor, are mistakes: TEN_LOST.
 *
 * Failure. What a caller may assume:
 *  - apply() returned 0: every result is final. TEN_OK means that the store has made it as durable as
 *    docs/GUARANTEES.md says for this kind of store.
 *  - apply() returned an error: every result has the outcome TEN_ERROR. All, some or none of the operations may have
 *    taken effect; the same batch may be sent again without harm. Nothing may be believed that was not believed before,
 *    and a lease that was believed expires at the deadline that it had. In particular an acquire that failed is not
 *    held, but may keep others out for its TTL.
 *  - TENURE_E_TIMEOUT: the same. The backend has dropped the connection on which the late answer could still arrive, so
 *    that it is never taken for the answer to a later request.
 *  - A result counts from the moment at which its request was sent: the caller reads its clock before apply(), never
 *    after.
 *  - A handle recovers from any error by itself: it reconnects in the next call, within that call's time-out.
 *
 * Calls. Each call is bounded by its timeout_ms (a write that the operating system holds in fsync can exceed it; the
 * answer then counts from its sending as always). A handle is used by one thread at a time; the caller sees to that.
 * Pointers in results are valid until the next call on the same handle. Names have been checked by the caller
 * (base/id.h); a backend nevertheless treats them as data, never as part of a statement, a pattern or a path.
 */
#ifndef TEN_STORE_STORE_H
#define TEN_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/url.h"
#include "rules/op.h"

typedef struct ten_store ten_store;

/* ---- the backend --------------------------------------------------------------------------------------- */

typedef struct ten_capabilities {
    uint64_t ttl_min_ms;
    const char *ttl_min_reason;    /* for people: why not less; NULL: it is the common floor */
    uint64_t expiry_late_ms;       /* by how much a lease may outlive its TTL when it is not renewed */
    bool shared_between_processes; /* two processes that open the same URL see the same store */
    bool survives_restart;         /* what it acknowledged is there after its server, or the last process, has gone */
    bool hands;                    /* TEN_OP_HAND works; else it is refused with TENURE_E_UNSUPPORTED */
    bool sessions;                 /* leases hang on sessions; else TEN_OP_SESSION is ignored */
    bool watches_in_thread;        /* watch() starts a thread of its own */
    const char *expiry_clock;      /* for people: whose clock judges expiry */
    const char *change_notice;     /* for people: how changes arrive */
} ten_capabilities;

typedef struct ten_store_config {
    const ten_clock *clock; /* NULL: the system's */
    uint64_t timeout_ms;    /* bound of opening; 0: 5,000 */
} ten_store_config;

typedef struct ten_store_ops {
    const char *name; /* "sqlite" */
    size_t size;      /* of the backend's handle, which starts with a ten_store */
    ten_capabilities capabilities;
    /* Opens what the URL names, creating it when that is usual for the kind of store. The handle is zeroed but for its
     * base, which ten_store_open() has filled in. On failure store->error says why, and close() follows. */
    int (*open)(ten_store *store, const ten_url *url, uint64_t timeout_ms);
    /* Frees what the handle has, also after an open() that failed half-way; the handle itself is freed by the caller.
     */
    void (*close)(ten_store *store);
    int (*apply)(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
    /* Whether this store can carry the operation out at all, without asking the server; NULL: it can if it is
     * well-formed. */
    int (*check_op)(ten_store *store, const ten_op *op);
    /* In steps; after an error some may be done, and they may be sent again. Removing a target keeps its token counter
     * and its lease. */
    int (*edit_targets)(ten_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                        uint64_t timeout_ms);
    /* Forgets the counters of targets that are free and not registered: they are no longer known and no longer listed.
     * The namespace remembers the highest token that it forgot, and every target that has no counter starts above it.
     * Each id has an outcome of its own; of one that is not forgotten nothing changes. NULL: the store cannot.
     * A store also forgets by itself, in steps, what has been free and unregistered for TEN_FEED_AGE_MS, or is not in
     * the feed any more. */
    int (*forget)(ten_store *store, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms);
    /* ten_store_forget_unregistered(), where the store can do that by itself. NULL: with list() and forget(). */
    int (*forget_unregistered)(ten_store *store, const char *namespace_name, char after[TENURE_TARGET_MAX + 1],
                               size_t *ret_forgotten, uint64_t timeout_ms);
    /* One page: up to query->limit rows with ids after query->after. A caller that pages through sees every target that
     * was there throughout exactly once. */
    int (*list)(ten_store *store, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
    /* The rows of these ids, in their order. An id that is not registered and was never leased has no row. One request,
     * or a few where the server limits what a request may name. */
    int (*read_targets)(ten_store *store, const char *namespace_name, const char *const *ids, size_t count,
                        ten_row_fn each, void *userdata, uint64_t timeout_ms);
    int (*list_instances)(ten_store *store, const char *namespace_name, ten_instance_fn each, void *userdata,
                          uint64_t timeout_ms);
    /* The namespaces in which there is a target, a counter or an instance, in byte order. It may have to look at all
     * that the store has, in steps that keep nobody waiting; it is for people, not for every second. NULL: the store
     * cannot. */
    int (*list_namespaces)(ten_store *store, tenure_name_fn each, void *userdata, uint64_t timeout_ms);
    /* Up to `limit` changes of the namespace after *cursor, oldest first; moves *cursor past what was read. A cursor is
     * good for the namespace for which it was had. TEN_CURSOR_NOW sets it to this moment and reads nothing;
     * TEN_CURSOR_OLDEST reads from the oldest entry that is there, also from before an epoch, and misses nothing.
     * TENURE_E_RESYNC: *cursor is older than the feed, or from before an epoch; it has been set to this moment, and the
     * caller lists again. Only if an epoch has begun since that cursor is `each` called before, with an entry
     * TENURE_EVENT_RECOVERING: a reader that fell behind has lost nothing, and its store neither. */
    int (*changes)(ten_store *store, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                   void *userdata, uint64_t timeout_ms);
    /* A descriptor that becomes readable, in this and every other process, within 50 ms of a change in the namespace.
     * The caller polls it, then calls watch_clear() and then changes(), in this order, so that nothing is missed. It
     * belongs to the handle, which watches one namespace, the last that was named; it may wake for nothing. */
    int (*watch)(ten_store *store, const char *namespace_name, int *ret_fd);
    void (*watch_clear)(ten_store *store);
    /* One round trip of the kind that a renewal takes; leaves nothing that a user can see. */
    int (*ping)(ten_store *store, uint64_t timeout_ms);
    /* How long a newcomer with that TTL still has to wait because an epoch began; 0: not at all. With an actor, which
     * the feed names (TENURE_EVENT_RECOVERING with the reason `forced`), the quarantine is over from now on: of the
     * namespace, or of the whole store where it has one for all. NULL: it cannot be ended by hand. */
    int (*recovery)(ten_store *store, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                    uint64_t *ret_left_ms, uint64_t timeout_ms);
    /* What the backend knows about its own fitness, for `tenure doctor`. */
    int (*check)(ten_store *store, tenure_check_fn each, void *userdata, uint64_t timeout_ms);
    const struct ten_backend_ops *backend; /* of a store that is made of a backend (record_store.h); else NULL */
} ten_store_ops;

/* What every backend's handle starts with. Filled in by ten_store_open(). */
struct ten_store {
    const ten_store_ops *ops;
    const ten_clock *clock;
    ten_capabilities capabilities;
    uint64_t timeout_ms; /* `timeout` of the URL, the default for calls; 0: not given. Set by ten_store_open() */
    ten_error error;     /* of the last failed call */
};

/* Opens a store by its URL; NULL: the default. An unknown scheme is TENURE_E_INVALID, one that was left out of this
 * build TENURE_E_UNSUPPORTED. */
int ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);
void ten_store_close(ten_store *store);

/* For backends: changes() with this cursor misses entries. Calls `each` (unless it is NULL) if an epoch has begun since
 * the caller's cursor; returns TENURE_E_RESYNC, or what `each` has returned. */
int ten_store_missed(ten_store *store, const char *namespace_name, uint64_t cursor, bool epoch, ten_change_fn each,
                     void *userdata);

#define TEN_FORGET_STEP 250u /* ids that one call of forget() takes at most */
/* forget() of any number of ids, in steps, and what the feed has of them. Each step has the time-out. */
int ten_store_forget(ten_store *store, const char *namespace_name, ten_forget *items, size_t count,
                     uint64_t timeout_ms);
/* One step through the namespace: looks at up to TEN_FORGET_STEP free targets after `after` and forgets those that are
 * not registered. `after` moves on; "" afterwards: there are no more, and the feed has nothing of them. */
int ten_store_forget_unregistered(ten_store *store, const char *namespace_name, char after[TENURE_TARGET_MAX + 1],
                                  size_t *ret_forgotten, uint64_t timeout_ms);

/* Whether the operations can be carried out at all, without asking the store. One that cannot fails its whole batch. */
int ten_store_check_ops(ten_store *store, const ten_op *ops, size_t count);
/* apply() with what no backend has to repeat: on an error every result is TEN_ERROR with that error, whatever the
 * backend left there. */
int ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

#endif
