/*
 * The driver chooses the next call on the store, for a fleet, an election or a guard. It is pure: the caller passes in
 * the time and the answers. A carrier (src/runtime, or the simulator) makes one call at a time and returns its result.
 *
 * What it decides:
 *  - The order. A request that is urgent (a heartbeat or a renewal is due) goes before everything else. All other work
 *    is cut into bounded steps (one page, one batch, some registrations), which take turns, so that none starves
 *    another: whatever others write into the store, a renewal waits for one step at most.
 *  - The feed. It keeps the cursor, reads after a notice, after an urgent request (a notice can be lost), and until
 *    there is no more; but on average not more often than every feed_gap_ms.
 *  - Reading everything again, at the start and after entries were missed: first the cursor, then the listing page by
 *    page. What changes in between is heard of twice rather than never. At the start, while nothing is held, the cursor
 *    comes before any request. A listing that is under way is never begun anew: it is read to its end, and then once
 *    more. So it ends, however often the feed is overrun.
 *  - What a listing lacks. The feed is read once more before that is believed: if it shows no epoch, the store had lost
 *    nothing when the listing ended.
 *  - Failures. After a request without an answer nothing is sent until a backoff is over; deadlines are still noticed.
 */
#ifndef TEN_CORE_DRIVER_H
#define TEN_CORE_DRIVER_H

#include "core/backoff.h"
#include "core/event_queue.h"
#include "rules/op.h"

/* ---- what is driven */

/* Functions that may be NULL: urgent_ms (every request is urgent), follows (always), feed_ms (at once), fed, and those
 * of instances and of the listing (the part does not list). */
typedef struct ten_driver_part {
    /* What to apply now; NULL: nothing. Valid until answer(). Notices deadlines. */
    const ten_op *(*request)(void *part, uint64_t now_ms, size_t *ret_count);
    void (*answer)(void *part, uint64_t now_ms, int error, const ten_result *results);
    void (*expire)(void *part, uint64_t now_ms); /* notices deadlines only */
    /* When request() has something next, and when expire() has; UINT64_MAX: not before something happens. */
    uint64_t (*next_ms)(const void *part, uint64_t now_ms);
    uint64_t (*deadline_ms)(const void *part);
    uint64_t (*urgent_ms)(const void *part);

    bool (*follows)(const void *part); /* whether it wants the feed at present */
    /* The feed is followed from the moment at which this call was sent; what happened before may have been missed. If an
     * epoch has begun meanwhile, change() with TENURE_EVENT_RECOVERING came before this. */
    void (*follow)(void *part, uint64_t now_ms);
    void (*change)(void *part, uint64_t now_ms, const ten_change *change);
    /* A notice has come: when to read the feed. Such a part waits for the next notice after each reading; others read
     * until there is no more. */
    uint64_t (*feed_ms)(void *part, uint64_t now_ms);
    void (*fed)(void *part); /* it had no more entries when this call was sent */

    uint64_t (*instances_ms)(const void *part); /* when to list the instances */
    void (*instances_begin)(void *part, uint64_t now_ms);
    void (*instance)(void *part, uint64_t now_ms, const ten_instance *instance);
    void (*instances_end)(void *part, uint64_t now_ms, int error);

    void (*listing_begin)(void *part);
    void (*row)(void *part, uint64_t now_ms, const ten_row *row);
    /* The listing is complete. True: it lacks something that an earlier one had. */
    bool (*listing_end)(void *part, uint64_t now_ms);
    /* After a listing that lacked something the feed was read once more. Returns when everything has to be listed again;
     * UINT64_MAX: not. */
    uint64_t (*listing_checked)(void *part, uint64_t now_ms);
    /* A target whose registration had changed was read: it is registered no more. */
    void (*unregistered)(void *part, uint64_t now_ms, const char *target);
    void (*registrations_end)(void *part, uint64_t now_ms);
    /* When registrations are due to be read again although the feed says nothing, and the next of them; false: no more. */
    uint64_t (*reread_ms)(const void *part);
    bool (*reread)(void *part, uint64_t now_ms, char target[TENURE_TARGET_MAX + 1]);
} ten_driver_part;

typedef struct ten_driver_config {
    const ten_driver_part *part;
    void *self;              /* the fleet, the election or the guard; it and the events must outlive the driver */
    ten_event_queue *events; /* for TENURE_EVENT_STORE_DOWN and _UP */
    uint64_t seed;           /* of its jitter */
    uint64_t backoff_max_ms;
    uint64_t feed_gap_ms; /* between two readings of the feed, on average; after a quiet time a few come at once */
    uint64_t feed_max_ms; /* the feed is read so often even if nothing happens; 0: only after notices and requests */
    uint32_t feed_size;   /* entries of one reading */
    uint32_t page_size;   /* rows of one page */
    bool registrations;   /* targets come from the store's registry */
    bool feed_is_pulse;   /* a reading of the feed that fails counts like a request that fails */
} ten_driver_config;

/* ---- calls */

enum ten_call_kind {
    TEN_CALL_NONE,
    TEN_CALL_APPLY,
    TEN_CALL_CHANGES,
    TEN_CALL_INSTANCES,
    TEN_CALL_LIST,
    TEN_CALL_READ, /* the registrations of certain targets */
    TEN_CALL_COUNT,
};

typedef struct ten_call {
    enum ten_call_kind kind;
    const ten_op *ops;      /* apply */
    size_t count;           /* of operations, or of ids */
    uint64_t cursor;        /* changes: after this one; TEN_CURSOR_NOW: only get the present cursor */
    uint32_t limit;         /* changes, list */
    const char *after;      /* list: after this id. Valid until the answer, as are the ids */
    const char *const *ids; /* read: `count` of them */
} ten_call;

#define TEN_CALL_READ_MAX 250u /* ids of one call */

typedef struct ten_driver {
    ten_driver_config config;
    uint64_t random;
    ten_call call;                   /* in flight */
    uint64_t sent_ms;                /* of that call */
    uint64_t due_ms[TEN_CALL_COUNT]; /* changes and list: when to make it; UINT64_MAX: not */
    enum ten_call_kind last;         /* of the calls that take turns */
    bool urgent;                     /* the request in flight, or the last one, was */
    uint64_t retry_ms;               /* after a failure: nothing is sent before this */
    ten_backoff backoff;
    bool down;
    unsigned unread; /* readings of the feed, the instances or the targets in a row that failed */
    bool blind;      /* there are no notices */

    uint64_t cursor;
    bool followed; /* the cursor is set */
    uint64_t fed_ms;
    uint64_t feed_paid_ms; /* until then the readings so far are enough */
    bool moved;            /* the reading in flight has brought an entry */
    bool noticed;          /* since the last reading began */

    size_t rows;     /* of the page, or of the reading of the feed, in flight */
    bool list_again; /* a listing begins soon: what changes before that need not be remembered one by one */
    bool lacking;    /* the last listing lacked something, and the feed has not been read since */
    char after[TENURE_TARGET_MAX + 1];
    char (*changed)[TENURE_TARGET_MAX + 1]; /* targets whose registrations are to be read */
    size_t changed_count;
    size_t changed_room;
    size_t changed_at;
    const char *reading[TEN_CALL_READ_MAX]; /* the registrations in flight */
    bool found[TEN_CALL_READ_MAX];          /* they are registered */
} ten_driver;

void ten_driver_init(ten_driver *driver, const ten_driver_config *config, uint64_t now_ms);
void ten_driver_free(ten_driver *driver);

/* The call to make now; TEN_CALL_NONE: none, or one is in flight. Notices deadlines in any case. */
ten_call ten_driver_next(ten_driver *driver, uint64_t now_ms);
/* When to call ten_driver_next() if nothing happens before; UINT64_MAX: never. */
uint64_t ten_driver_next_ms(const ten_driver *driver, uint64_t now_ms);

/* What a call brings, item by item, and then its end. `error` is what the store returned. */
void ten_driver_row(ten_driver *driver, uint64_t now_ms, const ten_row *row);
void ten_driver_instance(ten_driver *driver, uint64_t now_ms, const ten_instance *instance);
void ten_driver_change(ten_driver *driver, uint64_t now_ms, const ten_change *change);
/* results: of an apply. cursor: of changes, where the feed goes on. */
void ten_driver_answer(ten_driver *driver, uint64_t now_ms, int error, const ten_result *results, uint64_t cursor);

/* Whether a request is due that goes before everything else. */
bool ten_driver_is_urgent(const ten_driver *driver, uint64_t now_ms);
/* A caller waits for the next request: it is tried at once, also after a failure. */
void ten_driver_hurry(ten_driver *driver);

/* The registrations are listed again, from the start, after a listing that is under way. */
void ten_driver_list(ten_driver *driver, uint64_t now_ms);

/* Whether the feed is followed at present. */
bool ten_driver_follows(const ten_driver *driver);
/* Whether notices of changes are wanted: not if the feed is not followed, or is going to be read anyway. */
bool ten_driver_listens(const ten_driver *driver);
/* Something in the store has changed. */
void ten_driver_notice(ten_driver *driver, uint64_t now_ms);
/* Whether the store sends notices at all. Without them the feed is read several times a second. */
void ten_driver_watched(ten_driver *driver, uint64_t now_ms, bool watched);

#endif
