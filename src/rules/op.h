/*
 * The types that the core and the stores share: operations and their outcomes, and the rows, instances and changes that
 * a store lists. Types and their names only; the store contract (store/store.h) specifies what they mean. Used by every
 * layer above base.
 */
#ifndef TEN_RULES_OP_H
#define TEN_RULES_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenure.h>

/* ---- operations on leases and heartbeats --------------------------------------------------------------- */

enum ten_op_kind {
    /* namespace, target, holder, ttl_ms; flags FRESH, REQUIRE_TARGET, SESSION */
    TEN_OP_ACQUIRE,
    /* namespace, target, token, [holder], [ttl_ms]: matches the token, and the holder if it is given. Token 0: matches
     * the holder alone. ttl_ms 0: the lease keeps its TTL. Without a holder the TTL is at least the one that the lease
     * has: only its holder may shorten it. Flags KEEP, SESSION */
    TEN_OP_RENEW,
    /* namespace, target, token, [holder], reason, [actor]: matches as a renewal does. With FORCE or FORCE_NOW it
     * matches any token, but only the holder if it is given */
    TEN_OP_RELEASE,
    /* namespace, target; flag REQUIRE_TARGET */
    TEN_OP_READ,
    /* namespace, holder (the instance), ttl_ms, weight, metadata: a heartbeat. It is sent with the renewals, so that an
     * instance and its leases expire together */
    TEN_OP_ANNOUNCE,
    /* namespace, holder (the instance). ttl_ms > 0 leaves a tombstone: acquires and heartbeats of that instance are
     * refused with TENURE_E_GONE for that long, because a request of a dead process may still be in flight */
    TEN_OP_LEAVE,
    /* namespace, ask, and a target, a holder or both: leaves a request for the holder of that lease (resign; if a
     * holder is given, only for that one) or for that instance (drain). It is returned with the answer to the next
     * renewal or heartbeat; an entry of the feed tells the holder of a lease to renew at once */
    TEN_OP_ASK,
    /* namespace, target, token, holder, successor, ttl_ms, reason: if the holder has it under that token, the successor
     * has it from now on, under the next token, and nobody can get in between. It ends after the TTL, or with the
     * successor's heartbeat, whichever comes first. The successor believes in it only after a request of its own: an
     * acquire, which finds that it has it. Refused (TEN_UNKNOWN), and nothing changes, if the successor is not
     * announced, is draining or was declared gone, if the lease was forced, and while the store is recovering: a late
     * request must not let anybody in */
    TEN_OP_HAND,
    /* namespace, target, token, [holder], checkpoint: if the target is held under that token (and by that holder), the
     * text is kept beside the lease in place of the one before; "" removes it. It stays when the lease ends, and goes
     * with the target's counter. Never TEN_OK for a lease that ended or was forced. While the store is recovering
     * nothing is written (TEN_HELD with `recovering`): the row may be that of a lease which was released before. It is
     * no change: the feed does not tell of it */
    TEN_OP_CHECKPOINT,
};

enum ten_op_flag {
    TEN_OP_FRESH = 1u << 0,          /* acquire: refused (TEN_HELD) also if the same holder has it already */
    TEN_OP_REQUIRE_TARGET = 1u << 1, /* TEN_UNKNOWN unless the target is registered or was leased before */
    TEN_OP_FORCE = 1u << 2,          /* release: bars the lease from renewal; the target is free when it ends */
    TEN_OP_FORCE_NOW = 1u << 3,      /* release: the target is free at once; G3 is suspended for it */
    /* renew: the TTL only keeps the others out. The holder does not believe in the lease for as long as that, so a new
     * epoch need not wait for it to end */
    TEN_OP_KEEP = 1u << 4,
    TEN_OP_WITH_CHECKPOINT = 1u << 5, /* acquire, read: the result brings the checkpoint along */
    /* Acquire, renew: the lease is to hang on the session of its holder, see store.h; a wish, the result says what it
     * has come to. Announce: the instance has a session. Release, hand: the holder itself sends it, and knows. */
    TEN_OP_SESSION = 1u << 6,
    /* renew: whoever sends it may not speak for other namespaces. Where an epoch concerns the whole store, a token that
     * it never granted is no proof of a loss, and the lease is lost: a client of one namespace could else keep
     * everybody out of all the others */
    TEN_OP_NO_PROOF = 1u << 10,
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
    TEN_REASON_CRASHED,
    TEN_REASON_PAUSED,
    TEN_REASON_PINNED, /* these three: of a change of a registration */
    TEN_REASON_PINNED_AWAY,
    TEN_REASON_UNPINNED,
    TEN_REASON_COUNT,
};

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
    const char *successor; /* hand */
    const char *actor;     /* who forced the release; NULL: not given */
    uint32_t weight;       /* announce; 0: draining */
    const char *metadata;  /* announce: JSON text, or NULL */
    enum ten_ask ask;
    const char *checkpoint; /* checkpoint: UTF-8 of at most TENURE_CHECKPOINT_MAX bytes; "": none from now on */
    uint32_t group;         /* acquire: the number of its group, see store.h; 0: it stands by itself */
} ten_op;

#define TEN_GROUP_MAX 24u /* acquires in a group: as many fit into one transaction of etcd */

/* How many of these operations, from the first on, are one group; 1: the first stands by itself. */
size_t ten_op_group_length(const ten_op *ops, size_t count);

enum ten_outcome {
    /* `error` says which; nothing may be believed */
    TEN_ERROR,
    /* Done. Acquire and renew: token, ttl_ms as granted, remaining_ms. Release: the target was held and no longer is.
     * Read: the lease as it is; if it is free, a NULL holder and the last token granted */
    TEN_OK,
    /* Acquire: another instance holds the target: holder, token, remaining_ms (at least 1); a NULL holder while the
     * store is recovering. In a group also, without a holder and with a remaining_ms of 0: it is free, but another
     * target of the group was refused (ten_result_is_withheld()) */
    TEN_HELD,
    /* Renew, release: not held under that token (and by that holder); holder and token describe the present lease.
     * Leave: the instance was not announced. Ask: the target has no holder, or not that one */
    TEN_LOST,
    /* A required target is not known. Hand: nothing can be handed over to that successor */
    TEN_UNKNOWN,
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
    /* Acquire: the store is recovering and grants nothing yet. Read: the target is free and its last token may have
     * been lost or forgotten; `token` is an upper bound of those, and none of this target's that is known */
    bool recovering;
    enum ten_ask ask; /* renew, announce: what is asked of this holder or instance */
    /* Announce: the session of the instance; 0: it has none. Acquire, renew, read: the session on which the lease
     * hangs; 0: it has an end of its own. */
    uint64_t session;
    uint64_t session_version; /* announce: another one than before: somebody has touched a lease of that session */
    /* With TEN_OP_WITH_CHECKPOINT, of an acquire or a read that is TEN_OK; NULL: there is none. And the token under
     * which it was written */
    const char *checkpoint;
    uint64_t checkpoint_token;
} ten_result;

static inline bool ten_result_is_withheld(const ten_result *result) {
    return result->outcome == TEN_HELD && !result->holder && !result->recovering && result->remaining_ms == 0;
}

/* ---- targets, instances, changes ----------------------------------------------------------------------- */

enum ten_target_action {
    TEN_TARGET_PUT, /* a pin stays as it is */
    TEN_TARGET_REMOVE,
    TEN_TARGET_PAUSE,
    TEN_TARGET_RESUME,
    TEN_TARGET_PIN,
    TEN_TARGET_UNPIN,
};

/* A registered target is to be held by an instance, or by any other one. It ends by the store's clock, and goes with
 * the registration. */
typedef struct ten_pin {
    const char *instance; /* NULL: there is none */
    bool away;            /* any but that instance */
    uint64_t left_ms;     /* until it ends. In an edit: from now on */
    uint64_t until_ms;    /* Unix time by the store's clock; not in an edit */
    const char *actor;    /* who pinned it, or makes another edit; NULL: not known */
    const char *reason;   /* NULL: none was given */
} ten_pin;

typedef struct ten_target_edit {
    enum ten_target_action action;
    tenure_target target; /* PUT: all of it; else the id */
    ten_pin pin;          /* PIN: all of it; else the actor */
    bool found;           /* result: it was registered before */
} ten_target_edit;

/* What has become of a target whose counter was to be forgotten. */
enum ten_forget_outcome {
    TEN_FORGET_DONE,
    TEN_FORGET_HELD,
    TEN_FORGET_REGISTERED,
    TEN_FORGET_UNKNOWN,    /* it was never leased, or is forgotten already */
    TEN_FORGET_RECOVERING, /* the store does not know yet what is held */
    TEN_FORGET_OUTCOMES,
};

typedef struct ten_forget {
    const char *id;
    enum ten_forget_outcome outcome; /* result */
} ten_forget;

typedef struct ten_query {
    const char *namespace_name;
    enum tenure_filter filter;
    const char *after; /* NULL: from the start. In byte order of ids */
    size_t limit;      /* at most; not 0 */
    bool current; /* leaves out what is free and not registered: ids that were leased once, which may be very many */
} ten_query;

/* One row of a listing: the registry's entry and the lease's state together. */
typedef struct ten_row {
    tenure_target target; /* url, exec, spec NULL when not registered */
    ten_pin pin;          /* of what is registered */
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
    bool has_session; /* it knows session leases */
} ten_instance;

/* The kinds of events and of entries of the feed are those of the C API (enum tenure_event_kind). In a feed,
 * TENURE_EVENT_LOST is written at once for a forced lease, and for an expired one when the target is acquired next.
 * TENURE_EVENT_UNOWNED and those of crontabs are never in a feed: core/history.h derives them from the other entries
 * and from the checkpoint of the job. */
#define TEN_EVENT_COUNT (TENURE_EVENT_UNANNOUNCED + 1)

#define TEN_FEED_MAX      10000u  /* entries that a backend keeps at least */
#define TEN_FEED_MOST     250000u /* and at most, if they are young: a start of a large fleet */
#define TEN_FEED_YOUNG_MS UINT64_C(60000)
#define TEN_FEED_AGE_MS   (UINT64_C(30) * 24 * 60 * 60 * 1000) /* older ones are removed when the feed is trimmed */
#define TEN_CURSOR_NOW    UINT64_MAX
#define TEN_CURSOR_OLDEST (UINT64_MAX - 1)

/* An entry of the feed. The feed is also the history of who held what. It is bounded; the oldest entries are removed
 * first. Renewals and heartbeats are not in it, and wake no reader. */
typedef struct ten_change {
    uint64_t cursor; /* strictly increasing within an epoch */
    uint64_t at_ms;  /* Unix time, for display. An expired lease: when it expired if the store knows that, else when the
                        store noticed */
    enum tenure_event_kind kind;
    enum ten_reason reason;
    const char *namespace_name;
    const char *target;   /* "" for instances */
    const char *instance; /* "" for targets, but for a pin */
    const char *actor;
    uint64_t token;
    /* Filled in by core/history.h; 0 in a feed, which means "not known". */
    uint64_t held_ms; /* released, lost: for how long that holder held it */
    uint64_t free_ms; /* acquired: for how long it was free before. Unowned: so far, or until it was acquired */
    /* The same, of the runs of a job; see tenure_change. */
    const char *result; /* in place of the reason; NULL: it is no run */
    uint64_t instant_ms;
    uint64_t late_ms;
    uint64_t duration_ms;
    uint64_t count;
    int exit_code;
} ten_change;

/* ---- words --------------------------------------------------------------------------------------------- */

/* What logs, the API, the stores' scripts and the wire call these things. Parsing takes NULL for an unknown word. */
/* An operation together with its flags in one word, as REST has it: "acquire", "acquire_fresh", "force_now".
 * TEN_OP_REQUIRE_TARGET is not part of it. */
const char *ten_op_word(const ten_op *op);
bool ten_op_word_parse(const char *word, enum ten_op_kind *ret_kind, unsigned *ret_flags);
const char *ten_outcome_name(enum ten_outcome outcome);
bool ten_outcome_parse(const char *word, enum ten_outcome *ret_outcome);
const char *ten_reason_name(enum ten_reason reason);     /* "" for none */
enum ten_reason ten_reason_parse(const char *word);      /* none when it is unknown */
const char *ten_change_reason(const ten_change *change); /* its reason, or the result of its run */
const char *ten_event_name(enum tenure_event_kind kind); /* "lease_acquired" */
int ten_event_parse(const char *word);                   /* TEN_EVENT_COUNT when it is unknown */
const char *ten_op_action_name(enum ten_target_action action);
bool ten_op_action_parse(const char *word, enum ten_target_action *ret_action);
const char *ten_forget_name(enum ten_forget_outcome outcome); /* "forgotten", "held"... */
bool ten_forget_parse(const char *word, enum ten_forget_outcome *ret_outcome);

/* ---- callbacks ----------------------------------------------------------------------------------------- */

/* Called for each row; the pointers are valid during the call, which must not use the store. Non-zero ends the listing
 * and is returned. */
typedef int (*ten_row_fn)(const ten_row *row, void *userdata);
typedef int (*ten_instance_fn)(const ten_instance *instance, void *userdata);
typedef int (*ten_change_fn)(const ten_change *change, void *userdata);

/* Why a store lets nobody in for a while, as far as a client can know. */
#define TEN_RECOVERING_WHY "is new, has lost data or has changed its leader"

#endif
