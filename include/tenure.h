/*
 * tenure.h - leases with fencing tokens: every piece of work has exactly one owner.
 *
 * This header is the manual of the C API. A program opens a client on a store, acquires a lease on a
 * target, checks the lease before each step of its work, renews it, and releases it when the work has
 * stopped. Everything that the work sends carries the lease's token, so that whoever receives it can
 * refuse what a stale holder still sends.
 *
 * What is guaranteed (docs/GUARANTEES.md has it in full, store by store)
 *
 *  - Tokens of one target strictly increase: over release, expiry, restart, removal and re-adding.
 *  - tenure_lease_valid() is true only until the moment at which the last successful request was *sent*
 *    plus the TTL minus a margin, on CLOCK_BOOTTIME. That is before the store lets anybody else in,
 *    provided that clock rates differ by less than 10 %, the store's clock does not jump forward, no
 *    hypervisor froze the whole machine, and nobody forced the lease. It is a local read: no thread has
 *    to run, and no store has to answer, for it to turn false.
 *  - No answer, a late answer or half an answer is never "held". Every error of a call on a lease leaves
 *    the lease no more valid than it was.
 *
 * What is not guaranteed
 *
 *  - That work already under way stops when a lease ends. A process can be paused between the check and
 *    the effect: only a receiver that compares tokens closes that gap (see the guard, below).
 *  - That two leases are taken together, or that waiters are served in order.
 *  - Anything when somebody deletes the store's files, forces a lease with "now", or sets a clock back
 *    inside a virtual machine snapshot.
 *
 * Conventions
 *
 *  - Functions that can fail return 0 (TENURE_OK) or a negative TENURE_E... code. Out-parameters come last
 *    and are left alone on failure. tenure_message() says what happened in words: which target, which rule,
 *    what to do.
 *  - Strings are copied in. Strings handed out belong to the handle and live as long as it does, unless the
 *    function says otherwise. Durations are milliseconds in uint64_t.
 *  - Threads: every function may be called from any thread. Calls that talk to the store wait for each other
 *    on one client, each bounded by its own time-out. tenure_lease_valid(), tenure_lease_token() and
 *    tenure_lease_remaining_ms() never wait. A handle must not be freed while another thread uses it.
 *  - fork(): the child holds nothing. In the child every lease is invalid, every call on a client of the
 *    parent returns TENURE_E_FORKED, and tenure_close() frees memory only. The child opens its own client; a SQLite
 *    file that the parent had open it can open only after exec (TENURE_E_FORKED): SQLite cannot have it on both sides.
 *  - The library never prints, exits, changes the locale or installs a signal handler.
 */
#ifndef TENURE_H
#define TENURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_VERSION_MAJOR 0
#define TENURE_VERSION_MINOR 1
#define TENURE_VERSION_PATCH 0
#define TENURE_VERSION       "0.1.0"

#if defined(__GNUC__)
#define TENURE_API __attribute__((visibility("default")))
#else
#define TENURE_API
#endif

/*
 * Errors: X(name, code, retryable, message). This table is the only place where they are listed; names,
 * messages and the retryable flag all come from it. "Retryable" means that the same call may succeed
 * later without anybody changing anything. Codes never change their number.
 */
#define TENURE_ERRORS(X)                                                                                               \
    X(TENURE_E_INVALID, -1, false, "invalid argument")                                                                 \
    X(TENURE_E_NOMEM, -2, true, "out of memory")                                                                       \
    X(TENURE_E_HELD, -3, true, "held by another")                                                                      \
    X(TENURE_E_LOST, -4, false, "lease lost")                                                                          \
    X(TENURE_E_UNKNOWN_TARGET, -5, false, "unknown target")                                                            \
    X(TENURE_E_TIMEOUT, -6, true, "the store did not answer in time")                                                  \
    X(TENURE_E_UNREACHABLE, -7, true, "the store is out of reach")                                                     \
    X(TENURE_E_STORE, -8, true, "the store failed")                                                                    \
    X(TENURE_E_FULL, -9, true, "the store is full")                                                                    \
    X(TENURE_E_SCHEMA, -10, false, "the store was written by a newer version")                                         \
    X(TENURE_E_UNSUPPORTED, -11, false, "not supported")                                                               \
    X(TENURE_E_TTL, -12, false, "this TTL cannot be used")                                                             \
    X(TENURE_E_TOKEN, -13, false, "token out of range")                                                                \
    X(TENURE_E_FORKED, -14, false, "used in a child of fork()")                                                        \
    X(TENURE_E_CANCELLED, -15, true, "cancelled")                                                                      \
    X(TENURE_E_RESYNC, -16, true, "changes were missed; read everything again")                                        \
    X(TENURE_E_GONE, -17, false, "this instance was declared gone")                                                    \
    X(TENURE_E_SYSTEM, -18, true, "the operating system refused")                                                      \
    X(TENURE_E_DENIED, -19, true, "the store refused the credentials")                                                 \
    X(TENURE_E_STALE, -20, false, "the token is stale")

enum tenure_error {
    TENURE_OK = 0,
#define TENURE_X(name, code, retryable, message) name = (code),
    TENURE_ERRORS(TENURE_X)
#undef TENURE_X
};

#define TENURE_TARGET_MAX     255u                  /* bytes of a target id */
#define TENURE_NAMESPACE_MAX  63u                   /* bytes of a namespace */
#define TENURE_HOLDER_MAX     255u                  /* bytes of a holder (an instance id, usually) */
#define TENURE_TTL_MIN_MS     UINT64_C(100)         /* a store may ask for more */
#define TENURE_TTL_MAX_MS     UINT64_C(31622400000) /* 366 days */
#define TENURE_TTL_DEFAULT_MS UINT64_C(30000)
#define TENURE_TOKEN_MAX      UINT64_C(9007199254740991) /* 2^53 - 1: exact in JSON everywhere */

TENURE_API const char *tenure_version(void);
TENURE_API const char *tenure_strerror(int error);   /* "held by another"; never NULL */
TENURE_API const char *tenure_error_name(int error); /* "TENURE_E_HELD"; never NULL */
TENURE_API bool tenure_error_retryable(int error);

/* ---- clients ------------------------------------------------------------------------------------------ */

typedef struct tenure_client tenure_client;

/*
 * Options of a client. Zero or NULL means the default. Set `size` to sizeof(tenure_options): a library that
 * is newer than the caller then knows which fields the caller has.
 */
typedef struct tenure_options {
    size_t size;
    const char *namespace_name; /* "poll" */
    const char *instance_name;  /* first part of the instance id; the host's name */
    uint64_t ttl_ms;            /* 30,000; between 100 ms and 366 days, and what the store can do */
    uint64_t margin_ms;         /* max(ttl / 8, 20): how much earlier than the store a holder stops believing */
    uint64_t timeout_ms;        /* ttl / 6, between 50 and 5,000: bound of one call to the store */
} tenure_options;

/*
 * Opens a client on a store. `url` names the store: `sqlite:PATH`, `redis://HOST`, `rediss://HOST`,
 * `postgres://USER@HOST/DATABASE`, `etcd://HOST:PORT`, `etcds://HOST:PORT`, or `http://HOST:PORT` and
 * `https://HOST:PORT` for a `tenure serve`; tenure-stores(7) has their options. `memory:NAME` is a store inside one
 * process, for tests. NULL is `sqlite:` with $XDG_STATE_HOME/tenure/tenure.db. The client gets an instance id of its
 * own, `name-startNanoseconds-8hex`, which is never reused; it is the holder of the client's leases. A wrong URL or an
 * unusable store is an error here, except that a store behind `http` and `https` is connected to when it is first used.
 */
TENURE_API int tenure_open(const char *url, const tenure_options *options, tenure_client **ret_client);

/* Closes a client. Leases must be freed first. Leases that are still held stay held until their TTL ends. */
TENURE_API void tenure_close(tenure_client *client);

/* What the calling thread's last failed call said, if that was a call on this client; else "". With NULL: the same for
 * tenure_open(). The text is valid until the thread's next failing call. */
TENURE_API const char *tenure_message(const tenure_client *client);

TENURE_API const char *tenure_instance_id(const tenure_client *client);

/* Ends waiting calls of this client (tenure_acquire, tenure_watch_wait) with TENURE_E_CANCELLED, now and from
 * now on. Safe in a signal handler. */
TENURE_API void tenure_cancel(tenure_client *client);

/* ---- leases ------------------------------------------------------------------------------------------- */

typedef struct tenure_lease tenure_lease;

/*
 * Acquires a lease on `target` for the client's instance. tenure_try_acquire() asks once; tenure_acquire()
 * waits up to wait_ms for it: it tries again when the store says that something changed and at the instant
 * when the present lease ends, not at ticks. A target that this instance holds already is granted again with
 * the same token and a fresh TTL (so a lost reply is harmless); handles on the same grant end together when one of
 * them is released.
 * Returns TENURE_E_HELD when another instance holds it; tenure_message() names it and the time left.
 */
TENURE_API int tenure_try_acquire(tenure_client *client, const char *target, tenure_lease **ret_lease);
TENURE_API int tenure_acquire(tenure_client *client, const char *target, uint64_t wait_ms, tenure_lease **ret_lease);

/*
 * Renews the lease for its TTL. On TENURE_E_LOST it is over: somebody else may own the target. On any other
 * error the lease becomes uncertain: tenure_lease_valid() is false at once, a later successful renewal
 * makes it valid again, and without one it ends at its old deadline.
 */
TENURE_API int tenure_renew(tenure_lease *lease);

/*
 * Gives the lease back. Stop the work first. The lease is invalid from the moment of the call, whatever the
 * store answers; on an error it ends by its TTL. Releasing what is no longer held is 0.
 */
TENURE_API int tenure_release(tenure_lease *lease);

/* Frees the handle. It does not release: a lease that is held then ends by its TTL. */
TENURE_API void tenure_lease_free(tenure_lease *lease);

/* The local check: true while this process may believe in its lease. It costs one clock read. Call it before each
 * step of the work and before each message. */
TENURE_API bool tenure_lease_valid(const tenure_lease *lease);
TENURE_API uint64_t tenure_lease_token(const tenure_lease *lease);
/* Milliseconds until the local deadline; 0 when it has passed or the lease was lost or released. While the lease
 * is uncertain it counts down to the last confirmed deadline. */
TENURE_API uint64_t tenure_lease_remaining_ms(const tenure_lease *lease);
TENURE_API uint64_t tenure_lease_ttl_ms(const tenure_lease *lease);
TENURE_API const char *tenure_lease_target(const tenure_lease *lease);

/*
 * Renewing and releasing without a handle, for a caller that kept only the target and the token (a script).
 * They match the token; the holder is whoever holds that token. ttl_ms 0 keeps the lease's own TTL.
 * tenure_release_token() returns 0 also when nothing was held under that token; *ret_released says which.
 */
TENURE_API int tenure_renew_token(tenure_client *client, const char *target, uint64_t token, uint64_t ttl_ms);
TENURE_API int tenure_release_token(tenure_client *client, const char *target, uint64_t token, bool *ret_released);

/*
 * Takes a lease away from its holder. Without `now` its renewal is barred and others enter when it expires, so
 * that a living holder notices first. With `now` others enter at once, and the guarantee that nobody else believes
 * is suspended for this target until the old lease would have ended. *ret_released: a lease was held.
 */
TENURE_API int tenure_force_release(tenure_client *client, const char *target, bool now, bool *ret_released);

/* ---- looking ------------------------------------------------------------------------------------------ */

typedef struct tenure_info {
    char target[TENURE_TARGET_MAX + 1];
    char holder[TENURE_HOLDER_MAX + 1]; /* "" when free */
    uint64_t token;                     /* of the holder; when free, the last one granted; 0: never leased */
    uint64_t ttl_ms;
    uint64_t remaining_ms;   /* by the store's clock; 0 when free */
    uint64_t acquired_at_ms; /* Unix time, for display; 0 when free */
    uint64_t renewed_at_ms;  /* Unix time, for display; 0 when free */
    uint64_t expires_at_ms;  /* Unix time, for display; 0 when free */
    bool registered;         /* in the target registry */
    bool paused;             /* in the registry, and paused */
    bool barred;             /* forced: cannot be renewed */
} tenure_info;

/* One target, or TENURE_E_UNKNOWN_TARGET when it was neither registered nor ever leased. */
TENURE_API int tenure_get_info(tenure_client *client, const char *target, tenure_info *ret_info);

enum tenure_filter {
    TENURE_ALL = 0,        /* every target that is registered or was ever leased */
    TENURE_LEASED = 1,     /* held now */
    TENURE_FREE = 2,       /* not held and not paused */
    TENURE_REGISTERED = 3, /* in the registry */
};

/* Calls `each` for every matching target, in byte order of their ids, until it returns non-zero, which is then
 * returned. The listing is read page by page: `each` may call other functions of this client. */
typedef int (*tenure_info_fn)(const tenure_info *info, void *userdata);
TENURE_API int tenure_list(tenure_client *client, enum tenure_filter filter, tenure_info_fn each, void *userdata);

typedef struct tenure_instance {
    const char *instance;
    uint32_t weight; /* 0: draining */
    bool draining;   /* somebody asked it to drain */
    uint64_t ttl_ms;
    uint64_t remaining_ms; /* until its heartbeat ends unless it is renewed */
    uint64_t since_ms;     /* Unix time, for display */
    const char *metadata;  /* what it says of itself: JSON, with its "version"; NULL: nothing */
} tenure_instance;
/* The live instances of the namespace. The strings are valid during the call of `each`, which must not use this client.
 */
typedef int (*tenure_instance_fn)(const tenure_instance *instance, void *userdata);
TENURE_API int tenure_instances_list(tenure_client *client, tenure_instance_fn each, void *userdata);
/* Asks a live instance to hand over everything that it holds, or takes that back. TENURE_E_UNKNOWN_TARGET: there is no
 * such instance. */
TENURE_API int tenure_drain(tenure_client *client, const char *instance, bool undo);

/* ---- the target registry ------------------------------------------------------------------------------ */

typedef struct tenure_target {
    const char *id;
    const char *url;   /* NULL: none */
    const char *exec;  /* NULL: none */
    const char *spec;  /* NULL, or a JSON value as text, for the target's own poller */
    uint64_t every_ms; /* 0: the agent's default */
    bool paused;
} tenure_target;

/* Registers or changes targets, all or none. *ret_added: how many were new. */
TENURE_API int tenure_targets_put(tenure_client *client, const tenure_target *targets, size_t count, size_t *ret_added);
/* Removes a target from the registry. Its token counter and its lease stay. TENURE_E_UNKNOWN_TARGET: not registered. */
TENURE_API int tenure_target_remove(tenure_client *client, const char *id);
TENURE_API int tenure_target_pause(tenure_client *client, const char *id, bool paused);
/* As tenure_list, for the registry. The strings are valid during the call of `each`, which must not use this client. */
typedef int (*tenure_target_fn)(const tenure_target *target, void *userdata);
TENURE_API int tenure_targets_list(tenure_client *client, tenure_target_fn each, void *userdata);

/* ---- changes ------------------------------------------------------------------------------------------ */

typedef struct tenure_change {
    uint64_t cursor;    /* grows by time; pass the last one seen to go on */
    uint64_t at_ms;     /* Unix time, for display */
    const char *event;  /* lease_acquired, lease_released, lease_lost, instance_joined, instance_changed, instance_left,
                           target_added, target_changed, target_removed, store_recovering, lease_asked; in a history also
                           target_unowned */
    const char *target; /* "" for instances */
    const char *instance;
    const char *reason; /* of lease_released and lease_lost; else "" */
    const char *actor;  /* who forced it; else "" */
    uint64_t token;     /* 0 for instances and targets */
    /* In a history only; 0: not known, because it began before what is kept, or less than a millisecond. */
    uint64_t held_ms; /* lease_released, lease_lost: how long that holder had it */
    uint64_t free_ms; /* lease_acquired: how long nobody had it before; target_unowned: so far, or until it was taken */
} tenure_change;

typedef void (*tenure_change_fn)(const tenure_change *change, void *userdata);

/* The cursor of this moment: only later changes follow it. */
TENURE_API int tenure_watch_start(tenure_client *client, uint64_t *ret_cursor);
/*
 * Waits up to wait_ms (UINT64_MAX: without end) for changes after *cursor, hands them to `each` (NULL: to nobody) in
 * order and moves *cursor. 0 also when nothing came in time. TENURE_E_RESYNC: *cursor is older than what the store
 * keeps; list again, *cursor has been set to this moment. A lease that expires is reported when the target is acquired
 * next.
 */
TENURE_API int tenure_watch_wait(tenure_client *client, uint64_t *cursor, uint64_t wait_ms, tenure_change_fn each,
                                 void *userdata);

/*
 * What has happened in the client's namespace, to one target or (NULL) to all: in the order of time, up to `limit` of
 * the newest, no older than for_ms (0: as far back as the store keeps, which is 10,000 changes, and 30 days). A target
 * that its holder lost, or left to others, and that nobody took for longer than the fleet's TTL (without instances:
 * 30 s) is a target_unowned, told for the moment at which that time had passed.
 */
TENURE_API int tenure_history(tenure_client *client, const char *target, uint64_t for_ms, size_t limit,
                              tenure_change_fn each, void *userdata);

/* ---- the fleet member: one instance of a fleet --------------------------------------------------------------- */

/*
 * A fleet member is one instance of a fleet: it announces itself, sees the others, computes the same plan as they do,
 * acquires what is planned for it, renews, hands over, and takes over from the dead, in a thread of its own. The
 * program adds targets (or lets them come from the store's registry), checks a target before each step of work on it,
 * and says when work begins and ends. The conventions above hold; fork() too.
 */
typedef struct tenure_member tenure_member;

/* What happens to leases, instances, targets and the store. The first ones are reported to the instance that they are
 * about; those that are marked with * also stand in the store's feed (tenure_change.event has their names). */
enum tenure_event_kind {
    TENURE_EVENT_ACQUIRED = 0,       /* lease_acquired *: target, token */
    TENURE_EVENT_ACQUIRE_FAILED = 1, /* lease_acquire_failed: target, error, instance (its holder), remaining_ms */
    TENURE_EVENT_RENEWED = 2,        /* lease_renewed: target and token, or in large batches only a count */
    TENURE_EVENT_RENEW_FAILED = 3,   /* lease_renew_failed: target, token, error; start no work until the next one */
    TENURE_EVENT_LOST = 4,           /* lease_lost *: target, token, reason; end the work at once */
    TENURE_EVENT_STOP = 5,           /* lease_closing: target, token; finish the work, then say that it is not busy */
    TENURE_EVENT_RELEASED = 6,       /* lease_released *: target, token, reason */
    TENURE_EVENT_JOINED = 7,         /* instance_joined *: instance */
    TENURE_EVENT_LEFT = 8,           /* instance_left *: instance */
    TENURE_EVENT_PLAN_CHANGED = 9,   /* plan_changed: count of targets that moved */
    TENURE_EVENT_STORE_DOWN = 10,    /* store_down: error */
    TENURE_EVENT_STORE_UP = 11,      /* store_up */
    TENURE_EVENT_RECOVERING = 12,    /* store_recovering *: target, remaining_ms */
    TENURE_EVENT_REFUSED = 13,       /* instance_refused: error; another TTL in the fleet, or declared gone */
    TENURE_EVENT_STOPPED = 14,       /* instance_stopped: everything has been released */
    TENURE_EVENT_KEPT = 15,          /* lease_kept: target, token, remaining_ms; the work is over, the lease is not */
    TENURE_EVENT_UNOWNED = 16,       /* target_unowned: target, token and reason of its last lease, free_ms; no holder
                                           for longer than the TTL. One instance of the fleet reports it, once */
    TENURE_EVENT_INSTANCE_CHANGED = 17, /* instance_changed *: another weight or other metadata */
    TENURE_EVENT_TARGET_ADDED = 18,     /* target_added * */
    TENURE_EVENT_TARGET_CHANGED = 19,   /* target_changed *: paused and resumed, too */
    TENURE_EVENT_TARGET_REMOVED = 20,   /* target_removed * */
    TENURE_EVENT_ASKED = 21             /* lease_asked *: something is asked of the holder */
};

typedef struct tenure_event {
    enum tenure_event_kind kind;
    const char *name;                     /* the word for the log: "lease_acquired" */
    char target[TENURE_TARGET_MAX + 1];   /* "" when it is about none */
    char instance[TENURE_HOLDER_MAX + 1]; /* the other instance, or "" */
    const char *reason; /* shutdown, rebalance, drain, removed, forced, resigned, done, expired, taken, store, or "" */
    uint64_t token;
    uint64_t remaining_ms;
    uint64_t count;
    int error;
    uint64_t free_ms; /* target_unowned: since when, so far */
} tenure_event;

typedef void (*tenure_event_fn)(const tenure_event *event, void *userdata);

/* Zero or NULL means the default, as in tenure_options. */
typedef struct tenure_member_options {
    size_t size; /* sizeof(tenure_member_options) */
    const char *namespace_name;
    const char *instance_name;
    uint64_t ttl_ms;
    uint64_t renew_ms; /* ttl / 3 */
    uint64_t margin_ms;
    uint64_t timeout_ms;
    uint64_t settle_ms;       /* 2,000: how long an instance has to be there before targets are handed to it */
    uint32_t weight;          /* 1: the part of the targets that this instance gets, relative to the others */
    bool targets_from_store;  /* the targets are those of the registry, and follow it */
    tenure_event_fn on_event; /* called from the fleet member's thread, which must not call tenure_member_stop() or
                                 _close(); NULL: pull events */
    void *userdata;
} tenure_member_options;

/* Opens the store and makes the instance; nothing is announced before start. On failure,
 * tenure_member_message(NULL) describes the error. */
TENURE_API int tenure_member_open(const char *url, const tenure_member_options *options, tenure_member **ret_member);
TENURE_API int tenure_member_start(tenure_member *member);
/* Lets work stop, releases everything, leaves, and ends the thread; waits up to wait_ms for work that is still busy.
 * TENURE_E_TIMEOUT: something was still busy; its leases end by their TTL. */
TENURE_API int tenure_member_stop(tenure_member *member, uint64_t wait_ms);
TENURE_API void tenure_member_close(tenure_member *member);
TENURE_API const char *tenure_member_message(const tenure_member *member);
TENURE_API const char *tenure_member_instance_id(const tenure_member *member);

/* The fleet member's own list of targets, unless they come from the store. */
TENURE_API int tenure_member_put_target(tenure_member *member, const char *target, bool paused);
TENURE_API int tenure_member_remove_target(tenure_member *member, const char *target);

/* Takes a target whatever the plan says, and keeps it until it is released. True in *ret_acquired when it was acquired
 * or is held already; waits for the store's answer, not for the lease. */
TENURE_API int tenure_member_try_acquire(tenure_member *member, const char *target, bool *ret_acquired);
/* Releases a target once it is not busy. */
TENURE_API int tenure_member_release(tenure_member *member, const char *target);

/* Whether this instance may work on the target now: held, confirmed, before its deadline, and not about to be
 * released. A short lock. */
TENURE_API bool tenure_member_is_held(tenure_member *member, const char *target);
/* The same by handle: a wait-free read. The handle is valid until the target is removed or the fleet member closed.
 * NULL: not a target. */
typedef struct tenure_handle tenure_handle;
TENURE_API const tenure_handle *tenure_member_handle(tenure_member *member, const char *target);
TENURE_API bool tenure_handle_is_held(const tenure_handle *handle);
TENURE_API uint64_t tenure_handle_token(const tenure_handle *handle);
/* Milliseconds until the local deadline, also while uncertain or about to be released; 0: none. */
TENURE_API uint64_t tenure_handle_remaining_ms(const tenure_handle *handle);

/* Work on a target begins or ends. A target is not released while it is busy. TENURE_E_LOST: it may not be worked on.
 */
TENURE_API int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token);
TENURE_API void tenure_member_end(tenure_member *member, const char *target);

/* Asks the store whether this instance holds the target at this moment: TENURE_OK, TENURE_E_LOST, or an error. */
TENURE_API int tenure_member_strict_check(tenure_member *member, const char *target);

enum tenure_lease_state {
    TENURE_STATE_UNKNOWN = 0,
    TENURE_STATE_OWNED = 1,
    TENURE_STATE_OTHER = 2,
    TENURE_STATE_UNCERTAIN = 3
};
typedef struct tenure_lease_info {
    char target[TENURE_TARGET_MAX + 1];
    char holder[TENURE_HOLDER_MAX + 1];  /* as far as this instance has heard; "" */
    char planned[TENURE_HOLDER_MAX + 1]; /* whom the plan names; "" */
    enum tenure_lease_state state;       /* as seen from this instance */
    uint64_t token;
    uint64_t acquired_at_ms;     /* Unix time; 0 unless owned or uncertain */
    uint64_t last_renewed_at_ms; /* Unix time */
} tenure_lease_info;
TENURE_API int tenure_member_lease_info(tenure_member *member, const char *target, tenure_lease_info *ret_info);

typedef int (*tenure_name_fn)(const char *name, void *userdata);
/* Each calls `each` for a copy of the list, until it returns non-zero, which is then returned. */
TENURE_API int tenure_member_held(tenure_member *member, tenure_name_fn each, void *userdata);
TENURE_API int tenure_member_live_instances(tenure_member *member, tenure_name_fn each, void *userdata);
/* The instance that the plan names; TENURE_E_UNKNOWN_TARGET, or "" when nobody is there. */
TENURE_API int tenure_member_planned_holder(tenure_member *member, const char *target,
                                            char ret_instance[TENURE_HOLDER_MAX + 1]);
/* 0 hands everything over and gets nothing more: draining. */
TENURE_API int tenure_member_set_weight(tenure_member *member, uint32_t weight);

/* Pulls the next event, when there is no on_event: waits up to wait_ms. TENURE_E_TIMEOUT: none came. */
TENURE_API int tenure_member_next_event(tenure_member *member, uint64_t wait_ms, tenure_event *ret_event);

/* ---- elections: one leader for a role ------------------------------------------------------------------- */

/*
 * A role is a target, of the namespace `leader` unless told otherwise, and its holder is the leader. An election
 * campaigns in a thread of its own: it asks again at the instant when the present leader's lease ends, or when that
 * leader releases it; it renews while it leads; and it stops believing before the store lets anybody else in. What it
 * cannot do is to stop work that is under way: check tenure_is_leader() before each step, and send the token with
 * everything, so that receivers can refuse what a former leader still sends.
 */
typedef struct tenure_election tenure_election;

/* Zero or NULL means the default, as in tenure_options. */
typedef struct tenure_election_options {
    size_t size;                /* sizeof(tenure_election_options) */
    const char *namespace_name; /* "leader" */
    const char *instance_name;
    uint64_t ttl_ms;
    uint64_t renew_ms; /* ttl / 3 */
    uint64_t margin_ms;
    uint64_t timeout_ms;
    /* Both are called from the election's thread, which must not call tenure_election_stop(), and which renews nothing
     * while they run: start the work elsewhere and return. */
    void (*on_elected)(tenure_election *election, uint64_t token, void *userdata);
    /* The term is over, or is to end: `reason` is resigned, shutdown, expired, taken, forced or store. The work must
     * have stopped when it returns: only then is the lease released, if there still is one. Renewals go on no longer
     * than until then, so it returns in a fraction of the TTL, or lets the lease end by itself. */
    void (*on_demoted)(tenure_election *election, uint64_t token, const char *reason, void *userdata);
    tenure_event_fn on_event; /* what the log would say; the same events as a fleet member's */
    void *userdata;
    /* For work that is not to be repeated soon: from the start of a term the role is kept at least this long, also when
     * the work is over before, or this process has died. 0: it is released when the work is over. */
    uint64_t at_least_ms;
} tenure_election_options;

/* Opens the store and starts to campaign. On failure, tenure_message(NULL) describes the error. */
TENURE_API int tenure_election_start(const char *url, const char *role, const tenure_election_options *options,
                                     tenure_election **ret_election);
/* Steps down, releases the role, ends the thread and frees the election. NULL is ignored. */
TENURE_API void tenure_election_stop(tenure_election *election);

/* Whether this instance leads at this moment: a wait-free local read, which turns false by itself. */
TENURE_API bool tenure_is_leader(const tenure_election *election);
/* The token of the term; 0 when it does not lead. */
TENURE_API uint64_t tenure_election_token(const tenure_election *election);
/* Milliseconds until the local deadline, also while uncertain or stepping down; 0: none. */
TENURE_API uint64_t tenure_election_remaining_ms(const tenure_election *election);
TENURE_API const char *tenure_election_instance_id(const tenure_election *election);
/* Waits up to wait_ms (UINT64_MAX: without end) until this instance leads. TENURE_E_HELD: another does; TENURE_E_GONE,
 * TENURE_E_TOKEN: it never will. */
TENURE_API int tenure_election_wait(tenure_election *election, uint64_t wait_ms);
/* Steps down and lets others go first: it campaigns again after one TTL. */
TENURE_API int tenure_election_resign(tenure_election *election);

/*
 * Runs fn on the leader only: campaigns for up to wait_ms, calls fn with the election (renewed meanwhile; fn checks
 * tenure_is_leader() to notice a loss), and releases the role. Returns what fn returns (0 or more is meant);
 * TENURE_E_HELD when another leads: fn was not called; TENURE_E_LOST when fn was called and the leadership was lost
 * before it returned.
 */
TENURE_API int tenure_leader_only(const char *url, const char *role, const tenure_election_options *options,
                                  uint64_t wait_ms, int (*fn)(tenure_election *election, void *arg), void *arg);

/* ---- looking at roles from outside; the client's namespace is that of the roles, usually `leader` */

typedef struct tenure_leader {
    char instance[TENURE_HOLDER_MAX + 1]; /* "": nobody leads */
    uint64_t token;
    uint64_t remaining_ms; /* by the store's clock; 0 when it is told by a change */
    uint64_t since_ms;     /* Unix time, for display; 0: not known */
} tenure_leader;

TENURE_API int tenure_leader_get(tenure_client *client, const char *role, tenure_leader *ret_leader);
/*
 * Calls `each` for the present leader, and for every change, until it returns non-zero, which is then returned, or
 * tenure_cancel() is called. An error of the store ends it: call it again. `each` must not use this client.
 */
typedef int (*tenure_leader_fn)(const tenure_leader *leader, void *userdata);
TENURE_API int tenure_observe(tenure_client *client, const char *role, tenure_leader_fn each, void *userdata);
/* Asks that instance to step down: it ends its work, releases the role, and lets others go first. Returns when it is
 * asked, not when it has. TENURE_E_HELD: another leads; TENURE_E_LOST: nobody does. */
TENURE_API int tenure_resign(tenure_client *client, const char *role, const char *instance);
/* tenure_force_release(), but only if that instance holds the lease. */
TENURE_API int tenure_force_release_from(tenure_client *client, const char *target, const char *instance, bool now,
                                         bool *ret_released);

/* ---- the guard: is this token current? -------------------------------------------------------------------- */

/*
 * For whoever receives what holders send. A message carries the token of the lease under which it was made; a guard
 * says whether that token is current, and its owner drops the message otherwise. docs/FENCING.md tells more, also how
 * to do without a guard where the data lies in SQL or Redis.
 *
 *  - A token below the highest that the guard has accepted or read for its target is never accepted.
 *  - The store is read before the first token of a target is accepted, and before a higher one is believed. A token
 *    that was never granted is refused.
 *  - What was read is remembered, and confirmed by the store's feed of changes, in a thread of the guard's own: so a
 *    check is a look at memory (a short lock, some 100 ns), and a change of hands is known within milliseconds. While
 *    the store cannot be reached, the newest token known is accepted for cache_ttl_ms after it was last confirmed. A
 *    stale holder can pass for at most that long.
 */
typedef struct tenure_guard tenure_guard;

/* Zero or NULL means the default, as in tenure_options. */
typedef struct tenure_guard_options {
    size_t size;                /* sizeof(tenure_guard_options) */
    const char *namespace_name; /* "poll" */
    uint64_t cache_ttl_ms;      /* 30,000; between 100 ms and 366 days */
    uint64_t timeout_ms;        /* cache_ttl / 6, between 50 and 5,000: bound of one call to the store */
    size_t max_targets;         /* 100,000: what is remembered; the least used are forgotten, and asked for again */
    bool on_expired_accept;     /* the newest token known goes on being accepted when it can no longer be confirmed */
    tenure_event_fn
        on_event; /* store_down, store_up, store_recovering; from the guard's thread, which must not use it */
    void *userdata;
} tenure_guard_options;

/* Opens the store, as tenure_open() does, and starts the thread. On failure,
 * tenure_guard_message(NULL) describes the error. */
TENURE_API int tenure_guard_open(const char *url, const tenure_guard_options *options, tenure_guard **ret_guard);
/* NULL is ignored. No check may be under way. In a child of fork() it frees memory only. */
TENURE_API void tenure_guard_close(tenure_guard *guard);
/* What the calling thread's last failed call said, if that was a call on this guard; else "". */
TENURE_API const char *tenure_guard_message(const tenure_guard *guard);

/*
 * TENURE_OK: the token is current. TENURE_E_STALE: a newer one has been granted. TENURE_E_TOKEN: it was never granted.
 * TENURE_E_UNREACHABLE: nobody can tell, because the store does not answer, or has lost data and is recovering, and
 * what is remembered is too old. TENURE_E_INVALID, TENURE_E_FORKED. Waits only when the store has to be asked, for no
 * longer than two time-outs; while the store is known to be down it does not wait.
 */
TENURE_API int tenure_guard_check(tenure_guard *guard, const char *target, uint64_t token);

typedef struct tenure_guard_item {
    const char *target;
    uint64_t token;
    uint64_t newest; /* result: the newest token known; 0: none */
    int verdict;     /* result: as tenure_guard_check() */
} tenure_guard_item;
/* The same for many: what has to be asked is asked together. TENURE_OK: every item has its verdict. */
TENURE_API int tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count);

typedef struct tenure_guard_counts {
    uint64_t accepted;
    uint64_t accepted_expired; /* of them, by on_expired_accept */
    uint64_t stale;
    uint64_t ungranted;
    uint64_t unconfirmed;
    uint64_t asked;   /* questions that went to the store */
    uint64_t targets; /* remembered now */
} tenure_guard_counts;
TENURE_API void tenure_guard_get_counts(tenure_guard *guard, tenure_guard_counts *ret_counts);

/* ---- health ------------------------------------------------------------------------------------------- */

/* One round trip of the kind that a renewal takes; changes nothing that a user can see. */
TENURE_API int tenure_ping(tenure_client *client, uint64_t *ret_elapsed_us);

enum tenure_check_level { TENURE_CHECK_OK = 0, TENURE_CHECK_WARN = 1, TENURE_CHECK_FAIL = 2 };
/* What the store knows about its own fitness: name of the check, what was found, and what to do ("" when ok). */
typedef void (*tenure_check_fn)(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                                void *userdata);
TENURE_API int tenure_check(tenure_client *client, tenure_check_fn each, void *userdata);

#ifdef __cplusplus
}
#endif

#endif
