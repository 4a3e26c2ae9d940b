/*
 * The engine: one door between an instance and its store. A carrier (src/runtime, or the simulator) hands in one event
 * (the time has come, a notice, what a call brings, its end), and gets one update out: the call to make now, and when
 * to come back. It is pure: the time is passed in. What may be believed and what has happened is published on the way,
 * through the event queue of the part (core/event_queue.h).
 *
 * A part is who decides about leases: the fleet, the lease book, an election, checkpoints, a guard's questions. The
 * engine makes its requests, and decides for all of them alike
 *  - The order. A request that is urgent (a heartbeat or a renewal is due) goes before everything else. All other work
 *    is cut into bounded steps (one page, one batch, some registrations), which take turns, so that none starves
 *    another: whatever others write into the store, a renewal waits for one step at most.
 *  - The feed. It keeps the cursor, reads after a notice, after an urgent request (a notice can be lost), and until
 *    there is no more; but on average not more often than every feed_gap_ms.
 *  - Reading everything again, at the start and after entries were missed: first the cursor, then the listing page by
 *    page. What changes in between is read twice rather than never. At the start, while nothing is held, the cursor
 *    comes before any request. A listing that is under way is never begun anew: it is read to its end, and then once
 *    more. So it ends, however often the feed is overrun.
 *  - What a listing lacks. The feed is read once more before that is believed: if it shows no epoch, the store had lost
 *    nothing when the listing ended.
 *  - Failures. After a request without an answer nothing is sent until a backoff is over; deadlines are still noticed.
 */
#ifndef TEN_CORE_ENGINE_H
#define TEN_CORE_ENGINE_H

#include "core/backoff.h"
#include "core/event_queue.h"
#include "rules/op.h"

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

/* ---- events */

enum ten_engine_event_kind {
    /* From the carrier; the part sees them too. */
    TEN_ON_TIMER,    /* something is due, or was asked for: deadlines are noticed */
    TEN_ON_NOTICE,   /* something in the store has changed */
    TEN_ON_ROW,      /* what the call under way brings, item by item */
    TEN_ON_INSTANCE, /* the same */
    TEN_ON_CHANGE,   /* the same */
    TEN_ON_ANSWER,   /* the call has ended. The part: its request has been answered, or not */
    /* From the carrier, for the engine alone. */
    TEN_ON_WATCHED, /* whether the store sends notices. Without them the feed is read several times a second */
    TEN_ON_CALLER,  /* a caller waits for the next request: it is tried at once, also after a failure */
    TEN_ON_RELIST,  /* registrations are listed again, from the start, after a listing that is under way */
    /* What the engine makes of them, for the part. */
    TEN_ON_REQUEST,       /* the part says what to apply now */
    TEN_ON_INSTANCES,     /* the instances are listed from now on */
    TEN_ON_INSTANCES_END, /* all have come, or there was an error */
    TEN_ON_LISTING,       /* everything is listed from now on */
    TEN_ON_LISTING_END,   /* the listing is complete */
    TEN_ON_CHECKED,       /* it lacked something, and since then the feed was read once more */
    TEN_ON_REREAD,        /* the part names one registration to be read again although the feed says nothing */
    TEN_ON_ABSENT,        /* a target whose registration had changed was read: it is registered no more */
    TEN_ON_READ_END,      /* all registrations that had changed have been read */
    TEN_ON_FED,           /* the feed had no more entries when this call was sent */
    /* The feed is followed from the moment at which this call was sent; what happened before may have been missed. If
     * an epoch has begun meanwhile, TENURE_EVENT_RECOVERING came before this. */
    TEN_ON_FOLLOW,
};

typedef struct ten_engine_event {
    enum ten_engine_event_kind kind;
    uint64_t now_ms;
    bool watched;
    int error;                 /* of an answer: what the store returned */
    uint64_t cursor;           /* of an answer: where the feed goes on */
    const ten_result *results; /* of an apply */
    const ten_row *row;
    const ten_instance *instance;
    const ten_change *change;
    const char *target; /* TEN_ON_ABSENT */
} ten_engine_event;

/* ---- what is driven */

/* What a part makes of an event. */
typedef struct ten_part_update {
    const ten_op *ops;  /* TEN_ON_REQUEST: what to apply now, valid until the answer; NULL: nothing */
    size_t count;       /* of them */
    const char *target; /* TEN_ON_REREAD; NULL: no more */
    bool lacks;         /* TEN_ON_LISTING_END: it lacks something that an earlier one had */
    /* TEN_ON_NOTICE: when to read the feed. TEN_ON_CHECKED: when to list everything again; UINT64_MAX: not. Now, unless
     * the part says otherwise. */
    uint64_t at_ms;
} ten_part_update;

/* When a part wants something; UINT64_MAX, which is set before: not before something happens. */
typedef struct ten_part_due {
    uint64_t next_ms;      /* it has a request */
    uint64_t urgent_ms;    /* ... that goes before everything else; 0: all of its requests do */
    uint64_t deadline_ms;  /* of the first lease that is believed */
    uint64_t instances_ms; /* to list the instances */
    uint64_t reread_ms;    /* it can name registrations to be read again */
    bool follows;          /* it wants the feed at present; set before */
} ten_part_due;

typedef void (*ten_part_step_fn)(void *part, const ten_engine_event *event, ten_part_update *update);
typedef void (*ten_part_due_fn)(const void *part, uint64_t now_ms, ten_part_due *due);

typedef struct ten_engine_config {
    ten_part_step_fn step;
    ten_part_due_fn due;
    void *part;              /* the fleet, the election...; it and the events must outlive the engine */
    ten_event_queue *events; /* for TENURE_EVENT_STORE_DOWN and _UP */
    uint64_t seed;           /* of its jitter */
    uint64_t backoff_max_ms;
    uint64_t feed_gap_ms; /* between two readings of the feed, on average; after a quiet time a few come at once */
    uint64_t feed_max_ms; /* the feed is read so often even if nothing happens; 0: only after notices and requests */
    uint32_t feed_size;   /* entries of one reading */
    uint32_t page_size;   /* rows of one page */
    bool lists;           /* the part wants everything to be listed when the feed is followed anew */
    bool registrations;   /* targets come from the store's registry */
    bool feed_is_pulse;   /* a reading of the feed that fails counts like a request that fails */
    bool feed_in_turns;   /* after a reading the next notice is waited for; else it is read until there is no more */
} ten_engine_config;

typedef struct ten_engine {
    ten_engine_config config;
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
    char (*changed)[TENURE_TARGET_MAX + 1]; /* targets whose registrations have to be read */
    uint32_t changed_count;
    uint32_t changed_room;
    uint32_t changed_at;
    const char *reading[TEN_CALL_READ_MAX]; /* the registrations in flight */
    bool found[TEN_CALL_READ_MAX];          /* they are registered */
} ten_engine;

/* ---- the door */

typedef struct ten_update {
    ten_call call;    /* to be made now, and then nothing else is said; TEN_CALL_NONE: none, or one is under way */
    uint64_t next_ms; /* when to hand in TEN_ON_TIMER if nothing happens before; UINT64_MAX: never */
    bool urgent;      /* a request is due that goes before everything else */
    bool follows;     /* the feed is followed at present */
    bool listens;     /* notices are wanted: not if the feed is not followed, or is going to be read anyway */
} ten_update;

void ten_engine_init(ten_engine *engine, const ten_engine_config *config, uint64_t now_ms);
void ten_engine_free(ten_engine *engine);

/* Only TEN_ON_TIMER leads to a call. `update` may be NULL for the other events. */
void ten_engine_step(ten_engine *engine, const ten_engine_event *event, ten_update *update);
/* The same without an event, and without a call: the program may have asked the part for something. */
ten_update ten_engine_look(const ten_engine *engine, uint64_t now_ms);

#endif
