/*
 * The leases of a context that are neither a fleet's nor an election's: which to acquire, renew and release, and when.
 * Pure, like the fleet: the caller passes in the time and the store's answers; the book returns the next request and
 * reports events. It is a part of the engine (core/engine.h). The life of each lease is a holding (core/holding.h).
 *
 *  - Requests are batches: whatever is due goes together, what is due longest first.
 *  - A refused acquire says how long the other lease lasts. It is tried again at that instant, or when the feed reports
 *    the end of that lease, for as long as its callers wait.
 *  - A lease that was not renewed in time is released at once: if only the answers get lost, nothing keeps others out.
 *    Not so if its user renews it by hand: then the lease may be in use elsewhere under its token.
 *  - A release that is not answered is repeated until it is.
 *  - A lease that was forced is lost for its users, but keeps others out until it ends, or until one of its users
 *    releases it: then the work has stopped.
 *  - A lease that its users left without releasing it rests: it is neither renewed nor released, but remembered until
 *    the store must have ended it. So its token is not believed again once its deadline has passed.
 *  - The feed is followed only while a caller waits for a target, or wants to learn of the end of its lease at once.
 */
#ifndef TEN_CORE_LEASE_BOOK_H
#define TEN_CORE_LEASE_BOOK_H

#include "core/engine.h"
#include "core/holding.h"
#include "core/timing.h"

typedef struct ten_lease_book ten_lease_book;

enum ten_book_request { TEN_BOOK_ACQUIRE, TEN_BOOK_RENEW, TEN_BOOK_RELEASE };

enum ten_book_claim {
    TEN_BOOK_NO_CLAIM, /* it got no lease, or its lease has ended */
    TEN_BOOK_WAITING,  /* for the answer to its acquire */
    TEN_BOOK_HOLDING,  /* the present lease is its own */
};

/* A user of a lease: a handle of the program. It belongs to the caller. */
typedef struct ten_book_user {
    bool renewed;              /* set by the caller: the book renews its lease */
    bool attentive;            /* it wants to learn of the end of its lease at once */
    enum ten_book_claim claim; /* set by the book, like all that follows */
    bool patient;              /* its acquire is tried more than once */
    uint64_t until_ms;         /* of its acquire: a refusal after this is the answer */
    struct ten_book_user *next;
} ten_book_user;

/* A caller that waits for one answer about a lease. It belongs to the caller, who takes it back if it stays unanswered
 * (ten_lease_book_abandon). */
typedef struct ten_book_wait {
    enum ten_book_request kind;
    ten_book_user *user; /* of an acquire. Set by the book, like all that follows */
    bool answered;
    int error;                          /* TENURE_OK: granted, renewed, or not held any more */
    bool late;                          /* the answer came too late to be believed */
    bool spent;                         /* the store granted a token that must not be believed */
    ten_result result;                  /* of the answer, if there was one; `holder` points to the next member */
    char holder[TENURE_HOLDER_MAX + 1]; /* "": none */
    struct ten_book_wait *next;
} ten_book_wait;

typedef struct ten_book_lease {
    ten_holding holding;
    const char *target;
    ten_book_wait *waits;
    void *owner;       /* the caller's */
    uint64_t asked_ms; /* when the last request about it was sent */
    ten_book_user *users;
    uint32_t number;
    uint32_t renewed;   /* of the users with a claim, those for whom it is renewed */
    uint32_t attentive; /* of them, those who want to learn of its end at once */
    bool tried : 1;     /* the acquire got a spent token before */
    bool renew_now : 1; /* a caller asks for it, or the feed says that something happened to the lease */
    bool release : 1;   /* to be released */
    bool following : 1; /* the feed is followed for it */
    bool resting : 1;   /* it has no user any more, but the store may still have it */
    bool barred : 1;    /* it was lost because it was forced: others enter when it is released, or at its end */
    bool yield : 1;     /* ... and its user has stopped: to be released */
} ten_book_lease;

typedef struct ten_lease_book_config {
    const char *namespace_name; /* these two must outlive the book */
    const char *instance;
    ten_timing timing;  /* complete: see ten_timing_defaults() */
    uint32_t batch_max; /* operations in one request; 0: 1,000 */
    uint64_t seed;      /* of its jitter */
    /* Where to report, and to publish TEN_FACT_BELIEF, _FAILED and _LOST. It must outlive the book, which must not be
     * called meanwhile, except for reading. */
    ten_event_queue *events;
} ten_lease_book_config;

/*
 * The events that a book reports: TENURE_EVENT_ACQUIRED, _ACQUIRE_FAILED (when it stops trying), _RECOVERING, _RENEWED
 * (of a large request only a count), _RENEW_FAILED, _LOST and _RELEASED.
 */

/* NULL: out of memory. */
ten_lease_book *ten_lease_book_new(const ten_lease_book_config *config);
void ten_lease_book_free(ten_lease_book *book);

/* As a part of the engine. `book` is a ten_lease_book. */
void ten_lease_book_step(void *book, const ten_engine_event *event, ten_part_update *update);
void ten_lease_book_due(const void *book, uint64_t now_ms, ten_part_due *due);

/* ---- what the program wants. A `wait` may be NULL: no caller waits for the answer */

/* One more user of a lease on the target, which is acquired, or renewed if it is held. It is tried until until_ms, and
 * at least once. NULL: out of memory. */
ten_book_lease *ten_lease_book_acquire(ten_lease_book *book, uint64_t now_ms, const char *target, uint64_t until_ms,
                                       ten_book_user *user, ten_book_wait *wait);
/* Only while it is held. */
void ten_lease_book_renew(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait);
/* Ends the lease for all who hold it, or who held it until it was forced. A user that waits for it only withdraws its
 * own claim, and the others go on. */
void ten_lease_book_release(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_user *user,
                            ten_book_wait *wait);
/* The caller waits no longer. If it waited for a renewal, the lease becomes uncertain. */
void ten_lease_book_abandon(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_wait *wait);
/* A user wants to learn of its end at once, or no longer does. */
void ten_lease_book_attend(ten_lease_book *book, ten_book_lease *lease, ten_book_user *user, bool attentive);
/* One user less; without any, a lease that is held is not renewed and not released: it rests. The lease may be freed by
 * this. */
void ten_lease_book_leave(ten_lease_book *book, uint64_t now_ms, ten_book_lease *lease, ten_book_user *user);
/* Releases everything, and acquires nothing more. */
void ten_lease_book_stop(ten_lease_book *book, uint64_t now_ms);

/* ---- reading */

/* NULL: there is none. It may be resting. */
ten_book_lease *ten_lease_book_find(const ten_lease_book *book, const char *target);
/* Whether the store may have a lease of this book on the target, or (NULL) on any. */
bool ten_lease_book_has(ten_lease_book *book, uint64_t now_ms, const char *target);
/* Nothing is held or being released, apart from what rests. */
bool ten_lease_book_is_idle(const ten_lease_book *book);

#endif
