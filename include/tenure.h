/*
 * tenure.h - leases with fencing tokens: at most one instance believes that it holds a target.
 *
 * This header is the reference of the C API. A program opens a context on a store. On the context it acquires leases,
 * joins a fleet, campaigns for roles, and opens guards. The context renews what is held. The work checks its lease
 * before each step, and everything that it sends carries the lease's token, so that receivers can refuse what a stale
 * holder still sends.
 *
 *     tenure_context *context;
 *     tenure_lease *lease;
 *     if (tenure_open("redis://localhost", NULL, &context) < 0)
 *         die(tenure_message(NULL));
 *     if (tenure_acquire(context, "report", 5000, 0, &lease) < 0)
 *         die(tenure_message(context));
 *     while (more() && tenure_lease_valid(lease))
 *         step(tenure_lease_token(lease));
 *     tenure_release(lease);
 *     tenure_lease_free(lease);
 *     tenure_close(context);
 *
 * What is guaranteed (docs/GUARANTEES.md has the details for each store)
 *
 *  - Tokens of one target strictly increase: across release, expiry, restart, removal and re-adding.
 *  - tenure_lease_valid() is true only until the moment at which the last successful request was *sent* plus the TTL
 *    minus a margin, on CLOCK_BOOTTIME. That is before the store lets any other instance in, provided that clock rates
 *    differ by less than 10 %, the store's clock does not jump forward, no hypervisor froze the whole machine, and the
 *    lease was not forced. It is a local read: no thread has to run and no store has to answer for it to turn false.
 *  - No answer, a late answer or half an answer never means "held". No failed call makes a lease more valid than it
 *    was.
 *
 * What is not guaranteed
 *
 *  - That an effect under way stops when a lease ends. A process can be paused between the check and the effect. Only
 *    a receiver that compares tokens closes that gap (see the guard, below).
 *  - That two leases are acquired together, or that waiters get a lease in the order of arrival.
 *  - Anything when the store's files are deleted, a lease is forced with TENURE_NOW, or a clock is set back inside a
 *    virtual machine snapshot.
 *
 * Conventions
 *
 *  - Functions that can fail return 0 (TENURE_OK) or a negative TENURE_E_... code. Out-parameters come last and are
 *    left alone on failure. tenure_message() describes the failure: which target, which rule, what to do.
 *  - Strings passed in are copied. Strings passed out belong to the handle and are valid as long as it is, unless the
 *    function says otherwise. Durations are milliseconds in uint64_t; UINT64_MAX waits without end.
 *  - Structs that the caller allocates begin with `size`: set it to sizeof the struct, also for those that a function
 *    fills in (TENURE_E_INVALID otherwise). A library that is newer or older than the program then uses the fields
 *    that both have. A field that the library does not know must be 0 (TENURE_E_UNSUPPORTED otherwise). The items of
 *    tenure_guard_check_many() take a stride instead, and a tenure_handle does not grow.
 *  - Flags are an unsigned word, 0 for none. A bit that the library does not know is TENURE_E_UNSUPPORTED.
 *  - Threads. Every function may be called from any thread. Calls that need the store wait for each other, each
 *    bounded by its own time-out. tenure_lease_valid(), tenure_handle_is_held(), tenure_election_leads() and the other
 *    local reads never wait. A handle must not be freed while another thread uses it.
 *  - Callbacks. `each` functions, and the function of tenure_election_run(), run in the calling thread, without a
 *    lock. They may call every function, but not close the handle that their own call is about, nor its context:
 *    TENURE_E_CALLBACK, and nothing is closed. on_... functions run in the context's thread, or inside
 *    tenure_process() and inside calls that wait. There, tenure_acquire() with TENURE_ASYNC, tenure_lease_drop(),
 *    tenure_lease_free(), tenure_lease_on_lost(), tenure_election_resign(), tenure_cancel(), the local reads, and the
 *    functions of a fleet member that only change or read its own state (put, remove, release, begin, end, set_weight,
 *    read, list) are allowed. What waits for the store or closes a handle returns TENURE_E_CALLBACK and does nothing.
 *    Nothing is renewed while an on_... function runs, so it must return in a fraction of the TTL.
 *  - Handles. A call on a handle that was closed or freed, or whose context was closed, is TENURE_E_CLOSED with a
 *    message; closing or freeing twice does nothing. This is noticed until another 1,024 handles have been freed:
 *    after that, a new handle may have the same address. The local reads do not check it: on a handle that was freed
 *    they are undefined, and after tenure_close() they say "not held".
 *  - fork(). The child holds nothing. In the child every lease is invalid, every call on a handle of the parent
 *    returns TENURE_E_FORKED, and the close and free functions only free the handle. The child opens its own context.
 *    A SQLite file that the parent had open can be opened by the child only after exec.
 *  - The library never prints, exits, changes the locale or installs a signal handler. The one exception is a defect
 *    of the library itself: if its state contradicts itself, it writes one line to standard error and calls abort(),
 *    rather than continue with leases that may not be held.
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
#define TENURE_VERSION_MINOR 3
#define TENURE_VERSION_PATCH 0
#define TENURE_VERSION       "0.3.0"

#if defined(__GNUC__)
#define TENURE_API __attribute__((visibility("default")))
#else
#define TENURE_API
#endif

/*
 * Errors: X(name, code, retryable, message). This table is the only place where they are listed; names, messages and
 * the retryable flag all come from it. "Retryable" means that the same call may succeed later although the caller
 * changes nothing. Codes never change their number.
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
    X(TENURE_E_SCHEMA, -10, false, "the store was written by another version")                                         \
    X(TENURE_E_UNSUPPORTED, -11, false, "not supported")                                                               \
    X(TENURE_E_TTL, -12, false, "this TTL cannot be used")                                                             \
    X(TENURE_E_TOKEN, -13, false, "token out of range")                                                                \
    X(TENURE_E_FORKED, -14, false, "used in a child of fork()")                                                        \
    X(TENURE_E_CANCELLED, -15, false, "cancelled")                                                                     \
    X(TENURE_E_RESYNC, -16, true, "changes were missed; read everything again")                                        \
    X(TENURE_E_GONE, -17, false, "this instance was declared gone")                                                    \
    X(TENURE_E_SYSTEM, -18, true, "the operating system refused")                                                      \
    X(TENURE_E_DENIED, -19, true, "the store refused the credentials")                                                 \
    X(TENURE_E_STALE, -20, false, "the token is stale")                                                                \
    X(TENURE_E_CLOSED, -21, false, "the handle was closed")                                                            \
    X(TENURE_E_CALLBACK, -22, false, "not allowed in a callback")                                                      \
    X(TENURE_E_UNKNOWN_INSTANCE, -23, false, "unknown instance")                                                       \
    X(TENURE_E_TOO_MANY, -24, false, "too many targets")

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
#define TENURE_CHECKPOINT_MAX 4096u                      /* bytes of a checkpoint */
#define TENURE_PIN_REASON_MAX 200u                       /* bytes of the reason of a pin */
#define TENURE_PIN_DEFAULT_MS UINT64_C(3600000)          /* how long a pin lasts unless told otherwise: an hour */

TENURE_API const char *tenure_version(void);
TENURE_API const char *tenure_strerror(int error);   /* "held by another"; never NULL */
TENURE_API const char *tenure_error_name(int error); /* "TENURE_E_HELD"; never NULL */
TENURE_API bool tenure_error_retryable(int error);

/* ---- events --------------------------------------------------------------------------------------------- */

/*
 * What happens to leases, instances, targets and the store. One list for what is reported to a program (tenure_event),
 * for the store's feed (tenure_change) and for the log. Those with * are also in the feed.
 */
enum tenure_event_kind {
    TENURE_EVENT_ACQUIRED = 0,          /* lease_acquired *: target, token */
    TENURE_EVENT_ACQUIRE_FAILED = 1,    /* lease_acquire_failed: target, error, instance (its holder), remaining_ms */
    TENURE_EVENT_RENEWED = 2,           /* lease_renewed: target and token, or in large batches only a count */
    TENURE_EVENT_RENEW_FAILED = 3,      /* lease_renew_failed: target, token, error; start no work until a renewal */
    TENURE_EVENT_LOST = 4,              /* lease_lost *: target, token, reason; end the work at once */
    TENURE_EVENT_STOP = 5,              /* lease_closing: target, token; finish the work, then tenure_member_end() */
    TENURE_EVENT_RELEASED = 6,          /* lease_released *: target, token, reason */
    TENURE_EVENT_JOINED = 7,            /* instance_joined *: instance */
    TENURE_EVENT_LEFT = 8,              /* instance_left *: instance */
    TENURE_EVENT_PLAN_CHANGED = 9,      /* plan_changed: count of targets that moved */
    TENURE_EVENT_STORE_DOWN = 10,       /* store_down: error */
    TENURE_EVENT_STORE_UP = 11,         /* store_up */
    TENURE_EVENT_RECOVERING = 12,       /* store_recovering *: target, remaining_ms */
    TENURE_EVENT_REFUSED = 13,          /* instance_refused: error; another TTL or setting in the fleet, or gone */
    TENURE_EVENT_STOPPED = 14,          /* instance_stopped: everything has been released */
    TENURE_EVENT_KEPT = 15,             /* lease_kept: target, token, remaining_ms; only the work is over */
    TENURE_EVENT_UNOWNED = 16,          /* target_unowned: target, token and reason of its last lease, free_ms; free for
                                           longer than the TTL. One instance of the fleet reports it, once */
    TENURE_EVENT_INSTANCE_CHANGED = 17, /* instance_changed *: another weight or other metadata */
    TENURE_EVENT_TARGET_ADDED = 18,     /* target_added * */
    TENURE_EVENT_TARGET_CHANGED = 19,   /* target_changed *: paused and resumed, too */
    TENURE_EVENT_TARGET_REMOVED = 20,   /* target_removed * */
    TENURE_EVENT_ASKED = 21,            /* lease_asked *: something is asked of the holder */
    /* Of a job of `tenure cron`, in the history of that target: */
    TENURE_EVENT_CRON_STARTED = 22, /* cron_started: the run that is under way, as far as the store knows */
    TENURE_EVENT_CRON_ENDED = 23,   /* cron_ended: a run; reason is exited, signal, timed_out or not_started */
    TENURE_EVENT_CRON_LOST = 24,    /* cron_lost: its runner died or lost the lease; how it ended is not known */
    TENURE_EVENT_CRON_MISSED = 25,  /* cron_missed: instants that did not run; reason is missed or overlap */
    /* instance_unannounced: target, error, remaining_ms. The instances of its namespace use another TTL, remaining_ms:
     * the election goes on, but no other candidate gets to know of this one, and it has no turn. */
    TENURE_EVENT_UNANNOUNCED = 26
};

/* The word for the log, as in the comments above: "lease_acquired"; never NULL. */
TENURE_API const char *tenure_event_name(enum tenure_event_kind kind);

typedef struct tenure_lease tenure_lease;

typedef struct tenure_event {
    size_t size;
    enum tenure_event_kind kind;
    int error;
    uint64_t token;
    uint64_t remaining_ms;
    uint64_t count;
    uint64_t free_ms;   /* target_unowned: for how long it has been free */
    const char *reason; /* shutdown, rebalance, drain, removed, forced, resigned, done, expired, taken, store, crashed,
                           paused, or "" */
    char target[TENURE_TARGET_MAX + 1];   /* "" when it is about none */
    char instance[TENURE_HOLDER_MAX + 1]; /* the other instance, or "" */
    const char *message; /* with an error: the store's own words, which name its address and the cause, or those of
                            tenure_strerror(); else "". Valid until this thread takes its next event */
    tenure_lease *lease; /* of a context's events: the handle that it is about, the newest of several; NULL: none is
                            left */
} tenure_event;

typedef void (*tenure_event_fn)(const tenure_event *event, void *userdata);

/* ---- contexts ------------------------------------------------------------------------------------------- */

/*
 * A context is one instance on one store: one instance id, one connection for each namespace in use (stores may need
 * more), and at most one thread, which starts when it is first needed.
 */
typedef struct tenure_context tenure_context;

enum tenure_open_flag {
    TENURE_DRIVEN = 1 /* no thread: the program calls tenure_process() */
};

/* Zero or NULL means the default. */
typedef struct tenure_options {
    size_t size;                /* sizeof(tenure_options) */
    unsigned flags;             /* enum tenure_open_flag */
    const char *namespace_name; /* "poll" */
    const char *instance_name;  /* first part of the instance id; the host's name */
    uint64_t ttl_ms;            /* 30,000; between 100 ms and 366 days, and what the store can do */
    uint64_t renew_ms;          /* ttl / 3: between renewals; at most (ttl - margin) / 2 */
    /* How long before its expiry in the store a holder treats a lease as over. Default: ttl / 8; 20 to ttl / 2. */
    uint64_t margin_ms;
    /* The longest time of one call to the store. Default: ttl / 6, between 50 and 5,000. At most 366 days. */
    uint64_t timeout_ms;
    tenure_event_fn on_event; /* what happens to the context's leases; NULL: pull with tenure_next_event() */
    void *userdata;           /* for on_event */
    /* Sent with the heartbeat, for `tenure owner` and others: where the instance can be reached, HOST:PORT, and up to
     * 16 labels, NAME=VALUE. NULL and 0: nothing. A context without a fleet member has no heartbeat. */
    const char *address;
    const char *const *labels;
    size_t label_count;
} tenure_options;

/*
 * Opens a context on a store. `url` names the store: `sqlite:PATH`, `redis://HOST`, `rediss://HOST`,
 * `postgres://USER@HOST/DATABASE`, `etcd://HOST:PORT`, `etcds://HOST:PORT`, or `http://HOST:PORT` and
 * `https://HOST:PORT` for a `tenure serve`; tenure-stores(7) lists their options. `memory:NAME` is a store inside one
 * process, for tests. NULL is `sqlite:` with $XDG_STATE_HOME/tenure/tenure.db. The context gets its own instance id,
 * `name-startNanoseconds-8hex`, which is never reused. It is the holder of everything that is acquired on the context.
 * A wrong URL or an unusable store is an error here, except that a store behind `etcd`, `etcds`, `http` or `https` is
 * connected to when it is first used. On failure tenure_message(NULL) describes the error.
 */
TENURE_API int tenure_open(const char *url, const tenure_options *options, tenure_context **ret_context);

/*
 * Ends everything that was started on the context: the fleet member and elections stop, leases that are held are
 * released, guards close, and the thread ends. The work must have stopped. It waits for the store's answers, but not
 * much longer than two time-outs: TENURE_E_TIMEOUT if something could not be released, which then expires. The
 * context is freed in any case. Leases, members, elections and guards are freed by their own functions, before or
 * after. NULL is ignored.
 */
TENURE_API int tenure_close(tenure_context *context);

/* What the calling thread's last failed call said, if that was a call on this handle (a context, or something opened
 * on it); else "". With NULL: the last failed call of the thread. Valid until the thread's next failing call. */
TENURE_API const char *tenure_message(const void *handle);

TENURE_API const char *tenure_instance_id(const tenure_context *context);

/* Ends calls on this context that wait for something to happen (an acquire with a wait, a watch, an event) with
 * TENURE_E_CANCELLED, now and from now on. Calls that wait only for the store's answer, and those that end something,
 * continue. A cancelled context stays cancelled. May be called in a signal handler. The handle is not checked: do not
 * call it after tenure_close(). */
TENURE_API void tenure_cancel(tenure_context *context);

/* The next event of the context's leases, if there is no on_event; waits up to wait_ms. TENURE_E_TIMEOUT: none came.
 * The newest 4,096 events are kept until they are taken. */
TENURE_API int tenure_next_event(tenure_context *context, uint64_t wait_ms, tenure_event *ret_event);

/*
 * The driven form: with TENURE_DRIVEN the library starts no thread (etcd and http stores, which need a thread for
 * their stream of changes, are then read several times a second while a call waits for a change). The program waits
 * until tenure_fd() is readable, for at most tenure_timeout_ms(), and then calls tenure_process(), which makes the
 * calls to the store that are due and calls the on_... functions. It makes up to 16 calls: each blocks for no longer
 * than the context's time-out, and usually for one round trip. A store that does not answer is an event, not an error
 * of tenure_process(). It may be called at any time, by any thread, and without TENURE_DRIVEN, too: the threaded form
 * is a loop over these three.
 *
 * Functions that wait (tenure_acquire() with a wait, tenure_election_wait()) do the same work while they wait. To
 * never wait, acquire with TENURE_ASYNC.
 */
/* For poll(), epoll (level-triggered) or libuv: the same for the life of the context. Negative: an error. */
TENURE_API int tenure_fd(tenure_context *context);
/* As poll() takes it: milliseconds, rounded up; 0: something is due, or the context cannot be used, and
 * tenure_process() says why; -1: nothing before the descriptor is readable. */
TENURE_API int tenure_timeout_ms(tenure_context *context);
TENURE_API int tenure_process(tenure_context *context);

/* ---- leases --------------------------------------------------------------------------------------------- */

enum tenure_acquire_flag {
    TENURE_MANUAL = 1, /* the caller renews it, with tenure_renew() */
    /* Returns a handle at once. TENURE_EVENT_ACQUIRED or TENURE_EVENT_ACQUIRE_FAILED follows, and tenure_lease_wait()
     * waits for it. wait_ms is how long it keeps trying. */
    TENURE_ASYNC = 2
};

/*
 * Acquires a lease on `target`. With wait_ms 0 it tries once. Otherwise it tries again when the store reports a change
 * and when the current lease expires, until wait_ms have passed. A target that this context holds already is granted
 * again, with the same token and a fresh TTL; handles on the same grant end together when one of them is released. The
 * namespace of a fleet member, and the roles of elections, of this context are refused (TENURE_E_INVALID).
 * TENURE_E_HELD: another instance holds it; tenure_message() names it and the time left. A store that is new, or has
 * lost data, grants nothing for one TTL, because an earlier holder may still be at work: the call waits, or returns
 * TENURE_E_HELD with a message that says so. A retryable error of the store ends an acquire with wait_ms 0 at once;
 * otherwise it tries again, and returns the last error when wait_ms have passed. tenure_acquire_any() does
 * the same.
 */
TENURE_API int tenure_acquire(tenure_context *context, const char *target, uint64_t wait_ms, unsigned flags,
                              tenure_lease **ret_lease);
/* Acquires the first of the targets that is free, in their order; tenure_lease_target() says which. Not with
 * TENURE_ASYNC. */
TENURE_API int tenure_acquire_any(tenure_context *context, const char *const *targets, size_t count, uint64_t wait_ms,
                                  unsigned flags, tenure_lease **ret_lease);
/* Waits up to wait_ms for the outcome of an acquire with TENURE_ASYNC. TENURE_OK: it is held; TENURE_E_LOST: it was
 * acquired, but has been released or lost since; TENURE_E_TIMEOUT: it is not known yet. Any other error is the
 * outcome. */
TENURE_API int tenure_lease_wait(tenure_lease *lease, uint64_t wait_ms);

/*
 * Renews the lease for its TTL now. On TENURE_E_LOST it is over: another instance may hold the target. On any other
 * error the lease becomes uncertain: tenure_lease_valid() is false at once, a later successful renewal makes it valid
 * again, and without one it ends at its old deadline.
 */
TENURE_API int tenure_renew(tenure_lease *lease);

/*
 * Releases the lease. Stop the work first. The lease is invalid from the moment of the call, whatever the store
 * answers; after an error the context repeats the release until the lease has ended. Releasing what is no longer held
 * is TENURE_OK. A lease that was forced, or whose local deadline has passed, keeps others out until the store ends it:
 * releasing it says that the work has stopped, and lets them in. The handle remains; free it.
 */
TENURE_API int tenure_release(tenure_lease *lease);

/*
 * How a lease ends: tenure_release() releases it and waits for the answer; the handle stays. tenure_lease_drop()
 * releases it and frees the handle, and does not wait: the context sends the release. tenure_lease_free() frees the
 * handle and does not release: a lease that is held is no longer renewed, and expires.
 */
TENURE_API void tenure_lease_free(tenure_lease *lease);
TENURE_API void tenure_lease_drop(tenure_lease *lease);

/* The local check: true while this process may rely on its lease. It costs one clock read. Call it before each step of
 * the work and before each message. */
TENURE_API bool tenure_lease_valid(const tenure_lease *lease);
TENURE_API uint64_t tenure_lease_token(const tenure_lease *lease); /* 0 before it was granted (TENURE_ASYNC) */
/* Milliseconds until the local deadline; 0 when it has passed or the lease was lost or released. While the lease is
 * uncertain it counts down to the last confirmed deadline. */
TENURE_API uint64_t tenure_lease_remaining_ms(const tenure_lease *lease);
TENURE_API uint64_t tenure_lease_ttl_ms(const tenure_lease *lease);
TENURE_API const char *tenure_lease_target(const tenure_lease *lease);

/* Calls fn once when the lease ends without having been released: `reason` is expired, taken, forced or store. The
 * context then follows the store's feed, so that it learns of a forced release at once, and not at its next renewal.
 * A lease that has ended already is reported at once, from the context's thread. fn NULL: no more calls. */
typedef void (*tenure_lost_fn)(tenure_lease *lease, const char *reason, void *userdata);
TENURE_API int tenure_lease_on_lost(tenure_lease *lease, tenure_lost_fn fn, void *userdata);

/*
 * Renewing and releasing without a handle, for a caller that kept only the target and the token (a script). They match
 * the token, whoever the holder is. ttl_ms 0 keeps the TTL of the lease. So does a shorter one, because the holder
 * would not learn of it and would rely on its lease for too long. tenure_token_release() returns TENURE_OK also when
 * nothing was held under that token; *ret_released, which may be NULL, says which.
 */
TENURE_API int tenure_token_renew(tenure_context *context, const char *target, uint64_t token, uint64_t ttl_ms);
TENURE_API int tenure_token_release(tenure_context *context, const char *target, uint64_t token, bool *ret_released);

/*
 * A checkpoint is what a holder keeps beside its lease for the next one, such as how far its work has come. It is text
 * (UTF-8 without a NUL) of up to TENURE_CHECKPOINT_MAX bytes; an empty one removes it. The store writes it only if the
 * lease is held under its token at that moment, in one atomic step: a stale holder changes nothing (TENURE_E_LOST). So
 * it may also be written and read while the lease is uncertain (see tenure_renew()), which does not make it valid. It
 * remains when the lease is released or expires, and is deleted when the target is forgotten. TENURE_E_HELD: the store
 * is recovering from a loss of data; try again. TENURE_E_UNSUPPORTED: the server at the other end is too old.
 */
TENURE_API int tenure_checkpoint_write(tenure_lease *lease, const char *value, size_t size);
/* What this holder, or an earlier one, has written: *ret_size bytes and a NUL are written to `buffer`, which has
 * room for TENURE_CHECKPOINT_MAX + 1. *ret_size 0: there is none. TENURE_E_LOST: the lease is no longer held. */
TENURE_API int tenure_checkpoint_read(tenure_lease *lease, char *buffer, size_t *ret_size);
/* The same without a handle. Writing matches the token. Everyone may read; *ret_token, which may be NULL: the token
 * under which it was written; 0: there is none. TENURE_E_UNKNOWN_TARGET: never registered or leased. */
TENURE_API int tenure_token_checkpoint(tenure_context *context, const char *target, uint64_t token, const char *value,
                                       size_t size);
TENURE_API int tenure_target_checkpoint(tenure_context *context, const char *target, char *buffer, size_t *ret_size,
                                        uint64_t *ret_token);

enum tenure_force_flag {
    TENURE_NOW = 1 /* free at once; no guarantee for this target until the old lease would have expired */
};

/*
 * Takes a lease away from its holder; with `instance`, only if that one holds it (NULL: whoever does). Its renewal is
 * barred, and it is free when it expires, so that a live holder notices first. *ret_released, which may be NULL: a
 * lease was held.
 */
TENURE_API int tenure_force_release(tenure_context *context, const char *target, const char *instance, unsigned flags,
                                    bool *ret_released);

/* ---- reading targets and instances ---------------------------------------------------------------------- */

typedef struct tenure_info {
    size_t size;
    uint64_t token; /* of the holder; when free, the last one granted; 0: never leased */
    uint64_t ttl_ms;
    uint64_t remaining_ms;   /* by the store's clock; 0 when free */
    uint64_t acquired_at_ms; /* Unix time, for display; 0 when free */
    uint64_t renewed_at_ms;  /* Unix time, for display; 0 when free */
    uint64_t expires_at_ms;  /* Unix time, for display; 0 when free */
    bool registered;         /* in the target registry */
    bool paused;             /* in the registry, and paused */
    bool barred;             /* forced: cannot be renewed */
    char target[TENURE_TARGET_MAX + 1];
    char holder[TENURE_HOLDER_MAX + 1]; /* "" when free */
    /* The pin of a registered target, see tenure_registry_pin(). Only in a listing: tenure_target_read() leaves it
     * empty. */
    char pin_instance[TENURE_HOLDER_MAX + 1]; /* "": it is not pinned */
    uint64_t pin_remaining_ms;
    bool pin_away;
} tenure_info;

/* One target, or TENURE_E_UNKNOWN_TARGET when it was neither registered nor ever leased. */
TENURE_API int tenure_target_read(tenure_context *context, const char *target, tenure_info *ret_info);

enum tenure_filter {
    TENURE_ALL = 0,       /* every target that is registered or was ever leased */
    TENURE_LEASED = 1,    /* held now */
    TENURE_FREE = 2,      /* not held and not paused */
    TENURE_REGISTERED = 3 /* in the registry */
};

/* Calls `each` for every matching target, in byte order of their ids, until it returns non-zero, which is then
 * returned. The listing is read page by page. */
typedef int (*tenure_info_fn)(const tenure_info *info, void *userdata);
TENURE_API int tenure_target_list(tenure_context *context, enum tenure_filter filter, tenure_info_fn each,
                                  void *userdata);

typedef struct tenure_instance {
    size_t size;
    const char *instance; /* the strings are valid during the call of `each` */
    const char *metadata; /* sent with its heartbeat: JSON, with its "version"; NULL: none */
    uint64_t ttl_ms;
    uint64_t remaining_ms; /* until its last heartbeat expires */
    uint64_t since_ms;     /* Unix time, for display */
    uint32_t weight;       /* 0: draining */
    bool draining;         /* it was asked to drain */
} tenure_instance;
/* The live instances of the namespace. */
typedef int (*tenure_instance_fn)(const tenure_instance *instance, void *userdata);
TENURE_API int tenure_instance_list(tenure_context *context, tenure_instance_fn each, void *userdata);
/* The namespaces of the store in which there is a target, a token counter or an instance, in byte order: not only that
 * of the context. `each` is called until it returns non-zero, which is then returned. It may read the whole keyspace
 * of the store (Redis), so call it for people, not in a loop. */
typedef int (*tenure_name_fn)(const char *name, void *userdata);
TENURE_API int tenure_namespace_list(tenure_context *context, tenure_name_fn each, void *userdata);
/* Asks a live instance to hand over everything that it holds, and to take nothing; undrain takes that back. A candidate
 * resigns. TENURE_E_UNKNOWN_INSTANCE: there is no such instance. TENURE_E_INVALID: it has a lock of `tenure lock` or
 * waits for it, and cannot be drained. */
TENURE_API int tenure_instance_drain(tenure_context *context, const char *instance);
TENURE_API int tenure_instance_undrain(tenure_context *context, const char *instance);

/* Forgets a target that is free and not registered: its token counter and history are deleted; it is no longer listed.
 * The namespace remembers the highest token that it forgot, so that tokens do not go down if the target is used again.
 * TENURE_E_HELD: it is held, or the store recovers; TENURE_E_INVALID: it is registered; TENURE_E_UNKNOWN_TARGET. */
TENURE_API int tenure_target_forget(tenure_context *context, const char *target);
/* Forgets every target of the namespace that is free and not registered, in steps. *ret_count, which may be NULL: how
 * many they were, also when an error ended it. */
TENURE_API int tenure_target_forget_unregistered(tenure_context *context, size_t *ret_count);

/* ---- the target registry -------------------------------------------------------------------------------- */

typedef struct tenure_target {
    size_t size;
    const char *id;
    const char *url;   /* NULL: none */
    const char *exec;  /* NULL: none */
    const char *spec;  /* NULL, or a JSON value as text (TENURE_E_INVALID otherwise), for the target's own poller */
    uint64_t every_ms; /* 0: the agent's default */
    bool paused;
} tenure_target;

/* Registers or changes targets. The first one's `size` is the distance between two. *ret_added, which may be NULL: how
 * many were new. All are checked before the first is written; after a failure of the store some may be registered, and
 * all can be sent again. */
TENURE_API int tenure_registry_put(tenure_context *context, const tenure_target *targets, size_t count,
                                   size_t *ret_added);
/* Removes a target from the registry. Its token counter and its lease stay. TENURE_E_UNKNOWN_TARGET: not registered. */
TENURE_API int tenure_registry_remove(tenure_context *context, const char *id);
TENURE_API int tenure_registry_pause(tenure_context *context, const char *id);
TENURE_API int tenure_registry_resume(tenure_context *context, const char *id);

typedef struct tenure_pin {
    size_t size;
    uint64_t remaining_ms; /* until it ends, by the store's clock. To pin: for how long; 0: TENURE_PIN_DEFAULT_MS */
    uint64_t until_ms;     /* Unix time, for display; only read */
    bool away;             /* any instance but this one */
    char instance[TENURE_HOLDER_MAX + 1];
    char reason[TENURE_PIN_REASON_MAX + 1]; /* "": none */
    char actor[TENURE_HOLDER_MAX + 1];      /* who pinned it; only read */
} tenure_pin;

/*
 * Pins a registered target to an instance: while that instance is alive and not draining, the plan names it, and the
 * holder hands the target over to it as in a rebalance. With `away` the plan names any other instance. In place of a
 * pin that is there. The pin has no effect while the instance is not there, while it drains, and if there is no other
 * one (`away`). It ends by itself, and goes when the target is removed. TENURE_E_UNKNOWN_TARGET: not registered.
 */
TENURE_API int tenure_registry_pin(tenure_context *context, const char *id, const tenure_pin *pin);
TENURE_API int tenure_registry_unpin(tenure_context *context, const char *id);
/* The pin of a target; instance "": it is not pinned. TENURE_E_UNKNOWN_TARGET: not registered. */
TENURE_API int tenure_registry_pin_read(tenure_context *context, const char *id, tenure_pin *ret_pin);
/* As tenure_target_list(), for the registry. The strings are valid during the call of `each`. */
typedef int (*tenure_target_fn)(const tenure_target *target, void *userdata);
TENURE_API int tenure_registry_list(tenure_context *context, tenure_target_fn each, void *userdata);

/* ---- changes -------------------------------------------------------------------------------------------- */

typedef struct tenure_change {
    size_t size;
    enum tenure_event_kind kind; /* in a history also TENURE_EVENT_UNOWNED and those of tenure cron */
    uint64_t cursor;             /* grows with time; pass the last one seen to continue */
    uint64_t at_ms;              /* Unix time, for display */
    uint64_t token;              /* 0 for instances and targets */
    const char *target;          /* "" for instances; the strings are valid during the call of `each` */
    const char *instance;
    /* Of lease_released, lease_lost, cron_ended and cron_missed, and of target_changed if it was pinned; else "" */
    const char *reason;
    const char *actor; /* who forced it or pinned it; else "" */
    /* In a history only; 0: not known, because it began before what is kept, or less than a millisecond. */
    uint64_t held_ms; /* lease_released, lease_lost: how long that holder had it */
    uint64_t free_ms; /* lease_acquired: how long it was free before; target_unowned: so far, or until it was taken */
    /* Of cron_...; else 0. at_ms is when the run ended, or when it was known that an instant did not run. */
    uint64_t instant_ms;  /* Unix time: the instant; cron_missed: the first of them */
    uint64_t late_ms;     /* cron_ended: from the instant to the start of the command */
    uint64_t duration_ms; /* cron_ended: how long the command ran */
    uint64_t count;       /* cron_missed: how many instants */
    int exit_code;        /* cron_ended; 128 + N: signal N */
} tenure_change;

typedef int (*tenure_change_fn)(const tenure_change *change, void *userdata);

/* The cursor of this moment: only later changes follow it. */
TENURE_API int tenure_watch_start(tenure_context *context, uint64_t *ret_cursor);
/*
 * Waits up to wait_ms for changes after *cursor, passes them to `each` (NULL: skips them) in order and moves *cursor.
 * TENURE_OK also when none came in time. `each` ends it by returning non-zero, which is then returned; *cursor is that
 * change. TENURE_E_RESYNC: *cursor is older than what the store keeps; list again, *cursor has been set to this
 * moment. A lease that expires is reported when the target is acquired next.
 */
TENURE_API int tenure_watch_wait(tenure_context *context, uint64_t *cursor, uint64_t wait_ms, tenure_change_fn each,
                                 void *userdata);

/*
 * What has happened in the context's namespace, to one target or (NULL) to all: oldest first, up to `limit` of the
 * newest (SIZE_MAX: all), no older than for_ms (0: as far back as the store keeps, which is 10,000 changes, and
 * 30 days), until `each` returns non-zero, which is then returned. A target that its holder lost, or left to others,
 * and that stayed free for longer than the fleet's TTL (without instances: 30 s) is a target_unowned, at the moment at
 * which that time had passed. With a target that is a job of `tenure cron`, its last 200 or so runs are in it, too.
 */
TENURE_API int tenure_history_read(tenure_context *context, const char *target, uint64_t for_ms, size_t limit,
                                   tenure_change_fn each, void *userdata);

/* ---- the fleet member ----------------------------------------------------------------------------------- */

/*
 * A fleet member announces its instance, sees the others, computes the same plan as they do, acquires what is planned
 * for it, renews, hands over, and takes over from instances that died. The program adds targets (or lets them come
 * from the store's registry), checks a target before each step of work on it, and reports when work begins and ends. A
 * context has at most one member in a namespace, and no leases or elections of its own there. An instance that has
 * left a fleet is gone: for a TTL, its context gets nothing more in that namespace (TENURE_E_GONE), and a new member
 * of it gets no targets. Open another context.
 */
typedef struct tenure_member tenure_member;

enum tenure_member_flag {
    TENURE_TARGETS_FROM_STORE = 1 /* the targets are those of the registry, and follow it */
};

/* Zero or NULL means the default. */
typedef struct tenure_member_options {
    size_t size;                /* sizeof(tenure_member_options) */
    unsigned flags;             /* enum tenure_member_flag */
    uint32_t weight;            /* 1: the share of the targets that this instance gets, relative to the others */
    const char *namespace_name; /* the context's */
    uint64_t settle_ms;         /* 2,000: how long an instance must be present before targets are handed to it */
    tenure_event_fn on_event;   /* NULL: pull with tenure_member_next_event() */
    void *userdata;             /* for on_event */
    /* 4,000,000: how many targets the member is willing to know, about 120 bytes each. If more are registered when it
     * joins, it takes none: TENURE_EVENT_REFUSED with TENURE_E_TOO_MANY. Those that come later and are too many are
     * left to others: TENURE_EVENT_ACQUIRE_FAILED with that error. */
    uint32_t max_targets;
} tenure_member_options;

/* Joins the fleet. */
TENURE_API int tenure_member_open(tenure_context *context, const tenure_member_options *options,
                                  tenure_member **ret_member);
/* Lets work stop, releases everything and leaves; waits up to wait_ms for work that is still busy. TENURE_E_TIMEOUT:
 * something was still busy, or the store did not answer. A target that is busy stays held and is renewed until its
 * tenure_member_end(), and is released then; call tenure_member_stop() again to wait for it. tenure_member_close() and
 * tenure_close() do not wait for it: its lease then ends by its TTL. */
TENURE_API int tenure_member_stop(tenure_member *member, uint64_t wait_ms);
/* Stops without waiting for work that is busy, unless it was stopped before, and frees. NULL is ignored. */
TENURE_API void tenure_member_close(tenure_member *member);

enum tenure_target_flag {
    TENURE_PAUSED = 1 /* known, but not held by anybody */
};
/* The fleet member's own list of targets, unless they come from the store. */
TENURE_API int tenure_member_put(tenure_member *member, const char *target, unsigned flags);
TENURE_API int tenure_member_remove(tenure_member *member, const char *target);

/* Takes a target whatever the plan says, and keeps it until it is released. The target need not have been put.
 * TENURE_E_HELD: another instance holds it. Waits for the store's answer, not for the lease. */
TENURE_API int tenure_member_acquire(tenure_member *member, const char *target);
/* Releases a target once it is not busy. If the plan names this instance, it acquires the target again: to get rid of
 * it, use tenure_member_remove(), TENURE_PAUSED, or a weight of 0. */
TENURE_API int tenure_member_release(tenure_member *member, const char *target);

/* Whether this instance may work on the target now: held, confirmed, before its deadline, and not about to be
 * released. A short lock. */
TENURE_API bool tenure_member_is_held(tenure_member *member, const char *target);

/*
 * The same by handle: a wait-free read. A handle is a value: copy it freely; there is nothing to free. After its
 * target was removed it is never held again, even if the same or another target is put later. It must not be used
 * after tenure_member_close().
 */
typedef struct tenure_handle {
    const void *belief;
    uint64_t generation;
    uint64_t process; /* it is held only in the process that made it, not in a child of fork() */
} tenure_handle;
TENURE_API int tenure_member_handle(tenure_member *member, const char *target, tenure_handle *ret_handle);
TENURE_API bool tenure_handle_is_held(tenure_handle handle);
TENURE_API uint64_t tenure_handle_token(tenure_handle handle); /* 0: not held */
/* Milliseconds until the local deadline, even while uncertain or about to be released; 0: none. */
TENURE_API uint64_t tenure_handle_remaining_ms(tenure_handle handle);

/*
 * Work on a target begins or ends. A target is not released while it is busy. Several pieces of work may be under way
 * at the same time: each begin needs its own end, and the target is busy until the last one. TENURE_E_LOST: this
 * instance does not hold it, so no work may start. TENURE_E_UNKNOWN_TARGET: it is not a target of this member.
 * TENURE_E_INVALID: an end without a begin.
 */
TENURE_API int tenure_member_begin(tenure_member *member, const char *target, uint64_t *ret_token);
TENURE_API int tenure_member_end(tenure_member *member, const char *target);

/* Asks the store whether this instance holds the target at this moment: TENURE_OK, TENURE_E_LOST, or an error. */
TENURE_API int tenure_member_confirm(tenure_member *member, const char *target);

enum tenure_member_state {
    TENURE_STATE_UNKNOWN = 0,
    TENURE_STATE_HELD = 1,
    TENURE_STATE_OTHER = 2,
    TENURE_STATE_UNCERTAIN = 3
};
typedef struct tenure_member_info {
    size_t size;
    enum tenure_member_state state; /* as seen from this instance */
    uint64_t token;                 /* of its lease; when not held, the newest that this instance knows; or 0 */
    uint64_t acquired_at_ms;        /* Unix time; 0 unless held or uncertain */
    uint64_t renewed_at_ms;         /* Unix time */
    char target[TENURE_TARGET_MAX + 1];
    char holder[TENURE_HOLDER_MAX + 1];  /* as far as this instance knows; or "" */
    char planned[TENURE_HOLDER_MAX + 1]; /* the instance that the plan names; "": none */
} tenure_member_info;
TENURE_API int tenure_member_read(tenure_member *member, const char *target, tenure_member_info *ret_info);

/* Calls `each` for the targets that are held, or for the live instances, as they were at the time of the call, until
 * it returns non-zero, which is then returned. */
TENURE_API int tenure_member_list_held(tenure_member *member, tenure_name_fn each, void *userdata);
TENURE_API int tenure_member_list_instances(tenure_member *member, tenure_name_fn each, void *userdata);
/* 0 hands everything over and gets nothing more: draining. */
TENURE_API int tenure_member_set_weight(tenure_member *member, uint32_t weight);

/* The next event, if there is no on_event; waits up to wait_ms. TENURE_E_TIMEOUT: none came. The newest 4,096
 * events are kept until they are taken. */
TENURE_API int tenure_member_next_event(tenure_member *member, uint64_t wait_ms, tenure_event *ret_event);

/* ---- elections ------------------------------------------------------------------------------------------ */

/*
 * A role is a target, by default of the namespace `leader`, and its holder is the leader. An election campaigns: it
 * tries again when the leader's lease expires or is released, renews while it leads, and treats the role as lost
 * before the store lets any other instance in. It cannot stop work that is under way: check tenure_election_leads()
 * before each step, and send the token with everything, so that receivers can refuse what a former leader still sends.
 * A context has at most one election for a role.
 * While it waits for the role it is announced as an instance of weight 0, so that the candidates take turns: a release
 * makes the one that has waited longest try, and not all. A context is announced once in a namespace: its first
 * election there takes part, further ones try without a turn.
 */
typedef struct tenure_election tenure_election;

enum tenure_election_flag {
    TENURE_WORK_ELSEWHERE = 1 /* the work may still run when on_demoted returns: see tenure_election_work_over() */
};

/* Zero or NULL means the default. */
typedef struct tenure_election_options {
    size_t size;                /* sizeof(tenure_election_options) */
    unsigned flags;             /* enum tenure_election_flag */
    const char *namespace_name; /* "leader" */
    /* For work that must not be repeated soon: from the start of a term the role is kept at least this long, even if
     * the work is over before, or this process has died. 0: it is released when the work is over. At most 366 days
     * less the TTL. */
    uint64_t at_least_ms;
    /* Start the work elsewhere and return. */
    void (*on_elected)(tenure_election *election, uint64_t token, void *userdata);
    /* The term is over or about to end: `reason` is resigned, shutdown, expired, taken, forced or store. The work must
     * have stopped when it returns (unless TENURE_WORK_ELSEWHERE is set): only then is the lease released, if there
     * still is one. */
    void (*on_demoted)(tenure_election *election, uint64_t token, const char *reason, void *userdata);
    tenure_event_fn on_event; /* for a log; NULL: not reported */
    void *userdata;
    /* A role with this many slots, at most 1,000: this many instances lead at a time, each in another slot. The slots
     * are the targets ROLE/0, ROLE/1 and so on; each has its own token. All candidates of a role must use the same
     * count. 0: the role is a target itself. */
    uint32_t count;
} tenure_election_options;

/* Starts to campaign. */
TENURE_API int tenure_election_open(tenure_context *context, const char *role, const tenure_election_options *options,
                                    tenure_election **ret_election);
/* Steps down, releases the role and frees the election. NULL is ignored. */
TENURE_API void tenure_election_close(tenure_election *election);

/* Whether this instance leads at this moment: a wait-free local read, which turns false without help. */
TENURE_API bool tenure_election_leads(const tenure_election *election);
/* The token of the term; 0 when it does not lead. */
TENURE_API uint64_t tenure_election_token(const tenure_election *election);
/* The number of the slot that it leads, from 0 on; -1 when it does not lead. */
TENURE_API int tenure_election_slot(const tenure_election *election);
/* Milliseconds until the local deadline, even while uncertain or stepping down; 0: none. */
TENURE_API uint64_t tenure_election_remaining_ms(const tenure_election *election);
/* Waits up to wait_ms until tenure_election_leads() is true. on_elected may run before or after it returns.
 * TENURE_E_HELD: another instance leads; TENURE_E_TIMEOUT: this one does not, and no other leader is known yet;
 * TENURE_E_GONE, TENURE_E_TOKEN: this one never will. */
TENURE_API int tenure_election_wait(tenure_election *election, uint64_t wait_ms);
/* Steps down and lets others go first: it campaigns again after one TTL. It returns at once, before the role is
 * released, and may be called in an on_... function. */
TENURE_API int tenure_election_resign(tenure_election *election);
/* With TENURE_WORK_ELSEWHERE: the work of the term has stopped. Call it once after each on_demoted, in it or later.
 * Only then is the role released, if it is still held, or campaigned for again; until then it is renewed. So an event
 * loop need not wait in on_demoted. tenure_election_close() waits for this no longer than two time-outs. */
TENURE_API int tenure_election_work_over(tenure_election *election);

/*
 * Runs fn on the leader only: campaigns for up to wait_ms, calls fn with the election (renewed meanwhile; fn checks
 * tenure_election_leads() to notice a loss), and releases the role. In the driven form fn must call tenure_process().
 * Returns what fn returns (it should be 0 or more); TENURE_E_HELD when another instance leads, or TENURE_E_TIMEOUT
 * when no leader is known: fn was not called; TENURE_E_LOST when fn was called and the leadership was lost before it
 * returned.
 */
TENURE_API int tenure_election_run(tenure_context *context, const char *role, const tenure_election_options *options,
                                   uint64_t wait_ms, int (*fn)(tenure_election *election, void *arg), void *arg);

/* Roles seen from outside. namespace_name is that of the elections; NULL: `leader`. */
typedef struct tenure_leader {
    size_t size;
    uint64_t token;
    uint64_t remaining_ms;                /* by the store's clock; 0 if the leader is known from a change */
    uint64_t since_ms;                    /* Unix time, for display; 0: not known */
    char instance[TENURE_HOLDER_MAX + 1]; /* "": there is no leader */
} tenure_leader;

TENURE_API int tenure_leader_read(tenure_context *context, const char *namespace_name, const char *role,
                                  tenure_leader *ret_leader);
/* Calls `each` for the current leader, and for every change, until it returns non-zero, which is then returned, or
 * tenure_cancel() is called. An error of the store ends it: call it again. */
typedef int (*tenure_leader_fn)(const tenure_leader *leader, void *userdata);
TENURE_API int tenure_leader_observe(tenure_context *context, const char *namespace_name, const char *role,
                                     tenure_leader_fn each, void *userdata);
/* Asks that instance to step down: it ends its work, releases the role, and lets others go first. Returns when it was
 * asked, not when it has stepped down. TENURE_E_HELD: another instance leads; TENURE_E_LOST: there is no leader. */
TENURE_API int tenure_leader_resign(tenure_context *context, const char *namespace_name, const char *role,
                                    const char *instance);

/* ---- guards --------------------------------------------------------------------------------------------- */

/*
 * For receivers of what holders send. A message carries the token of the lease under which it was made; a guard says
 * whether that token is current; if it is not, the program drops the message. docs/FENCING.md explains this, and what
 * to do without a guard where the data is in SQL or Redis.
 *
 *  - A token below the highest that the guard has accepted or read for its target is never accepted.
 *  - The store is read before the first token of a target is accepted, and before a higher one is. A token that was
 *    never granted is refused.
 *  - What was read is remembered, and confirmed by the store's feed of changes. So a check is a read of memory (a
 *    short lock, some 100 ns), and a change of holder is known within milliseconds. While the store cannot be reached,
 *    the newest known token is accepted for cache_ttl_ms after it was last confirmed. A stale holder can pass for at
 *    most that long.
 */
typedef struct tenure_guard tenure_guard;

enum tenure_guard_flag {
    TENURE_ACCEPT_EXPIRED = 1 /* the newest known token is still accepted when it can no longer be confirmed */
};

/* Zero or NULL means the default. */
typedef struct tenure_guard_options {
    size_t size;                /* sizeof(tenure_guard_options) */
    unsigned flags;             /* enum tenure_guard_flag */
    const char *namespace_name; /* the context's */
    uint64_t cache_ttl_ms;      /* 30,000; between 100 ms and 366 days */
    size_t max_targets;         /* 100,000: what is remembered; the least used are evicted, and read again */
    tenure_event_fn on_event;   /* store_down, store_up, store_recovering; NULL: not reported */
    void *userdata;             /* for on_event */
} tenure_guard_options;

TENURE_API int tenure_guard_open(tenure_context *context, const tenure_guard_options *options,
                                 tenure_guard **ret_guard);
/* NULL is ignored. No check may be under way. */
TENURE_API void tenure_guard_close(tenure_guard *guard);

/*
 * TENURE_OK: the token is current: no newer one has been granted. The lease itself may have been released or have
 * expired. TENURE_E_STALE: a newer one has been granted. TENURE_E_TOKEN: it was never granted.
 * TENURE_E_UNREACHABLE: it cannot be confirmed, because the store does not answer, or has lost data and is recovering,
 * and what is remembered is too old. Waits only if the store must be read, for no longer than two time-outs; while
 * the store is known to be down it does not wait.
 */
TENURE_API int tenure_guard_check(tenure_guard *guard, const char *target, uint64_t token);

typedef struct tenure_guard_item {
    const char *target;
    uint64_t token;
    uint64_t newest; /* result: the newest known token; 0: none */
    int verdict;     /* result: as tenure_guard_check() */
} tenure_guard_item;
/* The same for many items: what must be read is read together. stride is sizeof(tenure_guard_item). TENURE_OK: every
 * item has its verdict. */
TENURE_API int tenure_guard_check_many(tenure_guard *guard, tenure_guard_item *items, size_t count, size_t stride);

typedef struct tenure_guard_totals {
    size_t size;
    uint64_t accepted;
    uint64_t accepted_expired; /* of them, by TENURE_ACCEPT_EXPIRED */
    uint64_t stale;
    uint64_t ungranted;
    uint64_t unconfirmed;
    uint64_t reads;   /* of targets in the store */
    uint64_t targets; /* remembered now */
} tenure_guard_totals;
TENURE_API int tenure_guard_read(tenure_guard *guard, tenure_guard_totals *ret_totals);

/* ---- health --------------------------------------------------------------------------------------------- */

/* One round trip of the kind that a renewal takes; changes nothing that a user can see. */
TENURE_API int tenure_store_ping(tenure_context *context, uint64_t *ret_elapsed_us);

enum tenure_check_level { TENURE_CHECK_OK = 0, TENURE_CHECK_WARN = 1, TENURE_CHECK_FAIL = 2 };
/* Checks of the store's state and settings: the name of the check, what was found, and what to do ("" if ok). */
typedef void (*tenure_check_fn)(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                                void *userdata);
TENURE_API int tenure_store_check(tenure_context *context, tenure_check_fn each, void *userdata);

#ifdef __cplusplus
}
#endif

#endif
