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
 * token granted for that target before: over release, expiry, restart of the store, and removal and re-adding of the
 * target. Tokens lie between 1 and 2^53 - 1; an acquire that would exceed that is refused with TENURE_E_TOKEN. An
 * acquire by the present holder returns the token it has, so a caller that never saw the answer to its first try
 * recognises itself by asking again.
 *
 * Epochs. Where a store can tell that it may have lost data or come back older than it was, it begins an epoch: until
 * every lease that may have been forgotten has ended, an acquire is TEN_HELD without a holder, with the time left, and
 * `recovering` set, also for the holder that the store remembers: it may have given the lease up
 * since, and another may have it. Nobody recognises itself by a token from before the epoch. A renewal that names its
 * holder and shows a token above the target's counter, or equal to it and the holder's own, puts that lease back. The
 * counter continues above the store's wall clock in milliseconds, so that tokens do not go down.
 *
 * Failure. What a caller may assume:
 *  - apply() returned 0: every result is final. TEN_OK means that the store has made it durable as far as
 * docs/GUARANTEES.md says for it.
 *  - apply() returned an error: every result has the outcome TEN_ERROR. The operations may have taken effect, all, some
 * or none; the same batch may be sent again without harm. Nothing may be believed that was not believed before, and
 * what was believed ends at the deadline that it had. In particular an acquire that failed is not held, but may block
 * others for its TTL.
 *  - TENURE_E_TIMEOUT: the same; the backend has dropped the connection on which the late answer could still come, so
 * that an answer is never taken for that of a later request.
 *  - A result counts from the moment at which its request was sent: the caller reads its clock before apply(), never
 * after. A store handle works again by itself after any error: it reconnects in the next call, within that call's
 * time-out.
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

typedef struct ten_store ten_store;

/* ---- operations on leases and heartbeats --------------------------------------------------------------- */

enum ten_op_kind {
    TEN_OP_ACQUIRE, /* namespace, target, holder, ttl_ms; flags FRESH, REQUIRE_TARGET */
    TEN_OP_RENEW,   /* namespace, target, token, [holder], [ttl_ms]: matches the token, and the holder when it is given;
                       token 0: the holder alone; ttl_ms 0 keeps the lease's own */
    TEN_OP_RELEASE, /* namespace, target, token, [holder], reason, [actor]; with FORCE or FORCE_NOW whatever the token,
                       but the holder's when it is given */
    TEN_OP_READ,    /* namespace, target; flag REQUIRE_TARGET */
    TEN_OP_ANNOUNCE, /* namespace, holder (the instance), ttl_ms, weight, metadata: a heartbeat. Travels with the
                        renewals, so that an instance and its leases expire together */
    TEN_OP_LEAVE,    /* namespace, holder; ttl_ms > 0 leaves a tombstone: acquires and heartbeats of that instance are
                        refused with    TENURE_E_GONE for that long, because a request of a dead process may still be under
                        way */
    TEN_OP_ASK, /* namespace, target or holder or both, ask: leaves a request for whoever holds that lease (resign; only
                   for that holder when it is given), or for that instance (drain); it comes back in the answer to their
                   next renewal or heartbeat, and a lease's holder is told by the feed to look */
};

enum ten_op_flag {
    TEN_OP_FRESH = 1u << 0,          /* acquire: refuse (TEN_HELD) also when the holder itself has it */
    TEN_OP_REQUIRE_TARGET = 1u << 1, /* TEN_UNKNOWN unless the target is registered or was leased before */
    TEN_OP_FORCE = 1u << 2,     /* release: bar the renewal of whatever lease there is; others enter when it ends */
    TEN_OP_FORCE_NOW = 1u << 3, /* release: others enter at once; G3 is suspended for the target */
    TEN_OP_KEEP = 1u << 4, /* renew: the TTL is kept for others' sake, longer than its holder believes: an epoch need
                              not wait for it to end */
};

enum ten_reason {
    TEN_REASON_NONE,
    TEN_REASON_SHUTDOWN,
    TEN_REASON_REBALANCE,
    TEN_REASON_DRAIN,
    TEN_REASON_REMOVED,
    TEN_REASON_FORCED,
    TEN_REASON_RESIGNED,
    TEN_REASON_DONE,
    TEN_REASON_EXPIRED,
    TEN_REASON_TAKEN,
    TEN_REASON_STORE,
    TEN_REASON_COUNT,
};
const char *ten_reason_name(enum ten_reason reason); /* "" for none */

enum ten_ask { TEN_ASK_NOTHING = 0, TEN_ASK_RESIGN = 1, TEN_ASK_DRAIN = 2, TEN_ASK_UNDO = 3 };

typedef struct ten_op {
    enum ten_op_kind kind;
    unsigned flags;
    const char *namespace_name;
    const char *target;
    const char *holder; /* NULL on renew and release: the token alone decides */
    uint64_t token;
    uint64_t ttl_ms;
    enum ten_reason reason;
    const char *actor;    /* who forced it; NULL: nobody */
    uint32_t weight;      /* announce; 0: draining */
    const char *metadata; /* announce: JSON text, or NULL */
    enum ten_ask ask;
    /* Kept for later, 0 until a backend's capabilities name them (else TENURE_E_UNSUPPORTED): how many may hold the
     * target at once (0 and 1: one), and the number of the scheduled slot that this acquire wants to run. */
    uint32_t seats;
    uint64_t slot;
} ten_op;

enum ten_outcome {
    TEN_ERROR, /* `error` says which; nothing may be believed */
    TEN_OK,   /* done. Acquire and renew: token, ttl_ms as granted, remaining_ms. Release: it was held and no longer is.
                 Read: the   lease as it is; a NULL holder when free, with the last token granted */
    TEN_HELD, /* acquire: another holds it: holder, token, remaining_ms (at least 1); a NULL holder while recovering */
    TEN_LOST, /* renew, release: not held under that token (and holder); holder and token say what is there now. Leave:
                 it was not announced. Ask: nobody holds it, or not that holder */
    TEN_UNKNOWN, /* a required target is not known */
};

typedef struct ten_result {
    enum ten_outcome outcome;
    int error; /* of TEN_ERROR */
    uint64_t token;
    uint64_t ttl_ms;
    uint64_t remaining_ms;
    uint64_t acquired_at_ms; /* read: Unix time, for display */
    const char *holder;      /* NULL: none */
    bool registered;         /* read */
    bool paused;             /* read */
    bool barred;
    bool recovering;  /* acquire: nobody is let in yet. Read: the target is free and its last token may have been
                         forgotten; `token` is a bound that no forgotten one exceeds, and was granted to nobody */
    enum ten_ask ask; /* renew, announce: what somebody asks of this holder or instance */
} ten_result;

/* ---- targets, instances, changes ----------------------------------------------------------------------- */

enum ten_target_action { TEN_TARGET_PUT, TEN_TARGET_REMOVE, TEN_TARGET_PAUSE, TEN_TARGET_RESUME };

typedef struct ten_target_edit {
    enum ten_target_action action;
    tenure_target target; /* PUT: all of it; else the id */
    bool found;           /* result: it was registered before */
} ten_target_edit;

typedef struct ten_query {
    const char *namespace_name;
    enum tenure_filter filter;
    const char *after; /* NULL: from the start. In byte order of ids */
    size_t limit;      /* at most; not 0 */
} ten_query;

/* One row of a listing: the registry's entry and the lease's state together. */
typedef struct ten_row {
    tenure_target target; /* url, exec, spec NULL when not registered */
    bool registered;
    bool barred;
    const char *holder; /* NULL: free */
    uint64_t token;
    uint64_t ttl_ms;
    uint64_t remaining_ms;
    uint64_t acquired_at_ms;
} ten_row;

typedef struct ten_instance {
    const char *instance;
    uint32_t weight;
    const char *metadata; /* NULL: none */
    uint64_t ttl_ms;
    uint64_t remaining_ms;
    uint64_t since_ms; /* Unix time, for display */
    enum ten_ask ask;
} ten_instance;

enum ten_change_kind {
    TEN_LEASE_ACQUIRED,
    TEN_LEASE_RELEASED,
    TEN_LEASE_LOST, /* forced, at once; expired, when the target is acquired next */
    TEN_INSTANCE_JOINED,
    TEN_INSTANCE_CHANGED, /* another weight or other metadata */
    TEN_INSTANCE_LEFT,
    TEN_TARGET_ADDED,
    TEN_TARGET_CHANGED, /* paused and resumed too */
    TEN_TARGET_REMOVED,
    TEN_STORE_RECOVERING, /* an epoch began */
    TEN_LEASE_ASKED,      /* something is asked of the lease's holder, which its next renewal brings */
    TEN_TARGET_UNOWNED,   /* in no feed: core/history.h finds it between the entries */
    TEN_CHANGE_COUNT,
};
const char *ten_change_name(enum ten_change_kind kind); /* the log's and the API's word: "lease_acquired" */

#define TEN_FEED_MAX      10000u /* entries that a backend keeps at least, and not many more */
#define TEN_FEED_AGE_MS   (UINT64_C(30) * 24 * 60 * 60 * 1000) /* older ones go when the feed is trimmed */
#define TEN_CURSOR_NOW    UINT64_MAX
#define TEN_CURSOR_OLDEST (UINT64_MAX - 1)

/* An entry of the feed. The feed is also the history of changes of hands: bounded, the oldest go first. Renewals and
 * heartbeats are not in it, and wake nobody. */
typedef struct ten_change {
    uint64_t cursor; /* strictly increasing within an epoch */
    uint64_t at_ms;  /* Unix time, for display. Of a lease that expired: when it ended, where the store knows that, else
                        when it was noticed */
    enum ten_change_kind kind;
    enum ten_reason reason;
    const char *namespace_name;
    const char *target;   /* "" for instances */
    const char *instance; /* "" for targets */
    const char *actor;
    uint64_t token;
    /* What a reader of the history finds out (core/history.h); in a feed they are 0, which is "not known". */
    uint64_t held_ms; /* released, lost: for how long that holder had it */
    uint64_t free_ms; /* acquired: how long nobody had it before. Unowned: so far, or until it was taken */
} ten_change;

/* Called for each row; the pointers are valid during the call, which must not use the store. Non-zero ends the listing
 * and is returned. */
typedef int (*ten_row_fn)(const ten_row *row, void *userdata);
typedef int (*ten_instance_fn)(const ten_instance *instance, void *userdata);
typedef int (*ten_change_fn)(const ten_change *change, void *userdata);

/* ---- the backend --------------------------------------------------------------------------------------- */

typedef struct ten_capabilities {
    uint64_t ttl_min_ms;
    const char *ttl_min_reason;    /* for people: why not less; NULL: it is the common floor */
    uint64_t expiry_late_ms;       /* by how much a lease may outlive its TTL when it is not renewed */
    bool shared_between_processes; /* two processes that open the same URL see the same store */
    bool survives_restart;         /* what it acknowledged is there after its server, or the last process, has gone */
    bool seats;                    /* ten_op.seats above 1 */
    bool slots;                    /* ten_op.slot */
    const char *expiry_clock;      /* for people: whose clock judges expiry */
    const char *change_notice;     /* for people: how changes arrive */
} ten_capabilities;

typedef struct ten_store_config {
    const ten_clock *clock; /* NULL: the system's */
    uint64_t timeout_ms;    /* bound of opening; 0: 5,000 */
} ten_store_config;

typedef struct ten_store_ops {
    const char *name; /* "sqlite" */
    const char *const *schemes;
    /* Opens what the URL names, creating it when that is usual for the kind of store. */
    int (*open)(const ten_url *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);
    void (*close)(ten_store *store);
    int (*apply)(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
    /* All edits or none; after an error, unknown, and they may be sent again. Removing a target keeps its token counter
     * and its lease. */
    int (*edit_targets)(ten_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                        uint64_t timeout_ms);
    /* One page: up to query->limit rows with ids after query->after. A caller that pages through sees every target that
     * was there throughout exactly once. */
    int (*list)(ten_store *store, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms);
    int (*list_instances)(ten_store *store, const char *namespace_name, ten_instance_fn each, void *userdata,
                          uint64_t timeout_ms);
    /* Up to `limit` changes of the namespace after *cursor, oldest first; moves *cursor past what was read. A cursor is
     * good for the namespace for which it was had. TEN_CURSOR_NOW sets it to this moment and reads nothing;
     * TEN_CURSOR_OLDEST reads from the oldest entry that is there, also from before an epoch, and misses nothing.
     * TENURE_E_RESYNC: *cursor is older than the feed, or from before an epoch; it has been set to this moment, and the
     * caller lists again. */
    int (*changes)(ten_store *store, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                   void *userdata, uint64_t timeout_ms);
    /* A descriptor that becomes readable, in this and every other process, within 50 ms of a change in the namespace.
     * The caller polls it, then calls watch_clear() and then changes(), in this order, so that nothing is missed. It
     * belongs to the handle, which watches one namespace, the last that was named; it may wake for nothing. */
    int (*watch)(ten_store *store, const char *namespace_name, int *ret_fd);
    void (*watch_clear)(ten_store *store);
    /* One round trip of the kind that a renewal takes; leaves nothing that a user can see. */
    int (*ping)(ten_store *store, uint64_t timeout_ms);
    /* What the backend knows about its own fitness, for `tenure doctor`. */
    int (*check)(ten_store *store, tenure_check_fn each, void *userdata, uint64_t timeout_ms);
} ten_store_ops;

/* What every backend's handle starts with. */
struct ten_store {
    const ten_store_ops *ops;
    const ten_clock *clock;
    ten_capabilities capabilities;
    uint64_t timeout_ms; /* the URL's `timeout`, for calls whose caller has no other idea; 0: not given. Set by
                            ten_store_open */
    ten_error error;     /* of the last failed call */
};

/* Opens a store by its URL; NULL: the default. An unknown scheme is TENURE_E_INVALID, one that was left out of this
 * build TENURE_E_UNSUPPORTED. */
int ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);
void ten_store_close(ten_store *store);

/* The default URL, `sqlite:` with $XDG_STATE_HOME/tenure/tenure.db, in memory that the caller frees. */
int ten_store_default_url(char **ret_url, ten_error *error);

/* The backends of this build. */
const ten_store_ops *const *ten_store_backends(size_t *ret_count);

/* list() of one target by its id; `each` is called once, or not at all. */
int ten_store_list_one(ten_store *store, const char *namespace_name, const char *id, ten_row_fn each, void *userdata,
                       uint64_t timeout_ms);

/* apply() with what no backend has to repeat: on an error every result is TEN_ERROR with that error, whatever the
 * backend left there. */
int ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

#endif
