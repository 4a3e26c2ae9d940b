/*
 * One piece of work under a lease: a poll, a hook or a command. Pure: it gets the time, what is known of the lease
 * and how much of the work is left, and says what to do. It signals and starts nothing; the poller, the leader (through
 * core/term.h) and the simulator carry out what it says, and the warden uses its arithmetic of the grace.
 *
 *          start              its end is due, or           no time is left
 *                             only leftovers are there
 *   idle ---------> running -----------------------> asked ---------------> being killed
 *    ^                 |                               |                          |
 *    |                 +----------------+--------------+--------------------------+
 *    |                                  |
 *    |                                  | nothing of it is left, and
 *    +<-- it has no result, or it ------+
 *    |    is discarded                  |
 *    |                                  +---> withheld: the lease is uncertain
 *    +<---------- discarded -------------------- |
 *    |                                           |
 *    |                                           | published
 *    |                                           v
 *    +<--- its message has left, or was ----- sending: the message is on its way
 *          dropped
 *
 * Its target is busy in every state but idle: it may be released only when nothing of the work is left and its result
 * is discarded, or its message has left or was dropped. A message is dropped at the deadline that the lease had when
 * it was published, and as soon as the lease is lost: so a message that waits does not wait for longer than a TTL, and
 * none leaves after the release. While it waits, another piece of work on the same target may start: it is another
 * machine.
 */
#ifndef TEN_CORE_WORK_H
#define TEN_CORE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

#define TEN_WORK_KILL_LOST_AFTER_MS 50u /* from asking to killing, when there is nothing to wait for */
#define TEN_WORK_LOOK_MS            20u /* between two looks at work that is ending */

typedef struct ten_work_rules {
    uint64_t grace_ms;              /* before the deadline: ending starts; in the second half of it, killing */
    uint64_t kill_after_ms;         /* from asking to killing, when neither the lease nor a time-out presses */
    uint64_t kill_overdue_after_ms; /* the same, when its time-out is over */
    uint64_t flush_ms;              /* for the message to leave, when its program stops */
    bool stop_when_uncertain;       /* its end is due as soon as a renewal has failed */
    bool has_result;                /* which is published, or discarded */
} ten_work_rules;

/* What is known of the lease at this moment. The caller reads it before each look, and the clock after it. */
typedef struct ten_work_lease {
    uint64_t token;
    uint64_t ends_ms; /* the deadline; 0: not held any more */
    bool confirmed;   /* the last renewal was; else it is uncertain */
    bool closing;     /* about to be released: nothing new starts */
} ten_work_lease;

enum ten_work_state {
    TEN_WORK_IDLE,
    TEN_WORK_RUNNING,
    TEN_WORK_ASKED,
    TEN_WORK_KILLED,
    TEN_WORK_WITHHELD,
    TEN_WORK_SENDING, /* published, and the message has not left yet */
};

/* Why its end is due. */
enum ten_work_why {
    TEN_WORK_BY_ITSELF, /* it is not: the work has ended by itself, or runs */
    TEN_WORK_OVERDUE,   /* its time-out is over */
    TEN_WORK_CANCELLED, /* ten_work_end() */
    TEN_WORK_UNCERTAIN, /* a renewal failed, and the rules say stop */
    TEN_WORK_LATE,      /* a grace before the deadline, no renewal was confirmed */
    TEN_WORK_LOST,      /* the lease is held no more */
};

/* What is left of the work. What cannot be seen does not count as gone. Once it is published, this is
 * about its message: TEN_WORK_NONE when it has left, or will never leave. */
enum ten_work_left {
    TEN_WORK_ALL,       /* the process itself runs */
    TEN_WORK_LEFTOVERS, /* it has exited, but something that it started is there */
    TEN_WORK_NONE,
};

/* What to do now. */
enum ten_work_step {
    TEN_WORK_NOTHING,
    TEN_WORK_ASK,     /* everything of it to end */
    TEN_WORK_KILL,    /* everything of it */
    TEN_WORK_PUBLISH, /* its result, which has to leave before send_until_ms; then look again */
    TEN_WORK_DISCARD, /* its result; then its target is free */
    TEN_WORK_DROP,    /* its message, if it has not begun to leave; then its target is free */
};

typedef struct ten_work {
    const ten_work_rules *rules; /* must outlive it */
    enum ten_work_state state;
    enum ten_work_why why;
    uint64_t token;         /* of the lease under which it was started */
    uint64_t ends_ms;       /* the last deadline of that lease which was known */
    uint64_t timeout_ms;    /* the moment of its time-out */
    uint64_t kill_ms;       /* while it is asked or being killed: when asking ends; else 0 */
    uint64_t send_until_ms; /* while its message is on its way: when that is dropped; else 0 */
    bool cancelled;         /* ten_work_end() */
    bool hurried;
    bool stopping;  /* ten_work_flush() */
    bool flushing;  /* send_until_ms counts from that */
    bool discarded; /* whatever becomes of the lease, nothing of it is published */
} ten_work;

/* ---- the grace */

/* What a deadline demands at this moment: nothing, ask or kill. */
enum ten_work_step ten_work_pressure(uint64_t ends_ms, uint64_t grace_ms, uint64_t now_ms);
/* When it begins to demand something. */
uint64_t ten_work_ask_ms(uint64_t ends_ms, uint64_t grace_ms);
/* When it demands to kill. */
static inline uint64_t ten_work_kill_ms(uint64_t ends_ms, uint64_t grace_ms) {
    return ten_sub_saturating(ends_ms, grace_ms / 2);
}

/* ---- the life of one piece */

/* Whether new work may start: under a confirmed lease that is not about to be released, and not so near its deadline
 * that the work would have to end at once. */
bool ten_work_may_start(const ten_work_rules *rules, const ten_work_lease *lease, uint64_t now_ms);
/* It starts now; it may. timeout_ms: the moment of its time-out, UINT64_MAX: none. */
void ten_work_start(ten_work *work, const ten_work_rules *rules, const ten_work_lease *lease, uint64_t timeout_ms,
                    uint64_t now_ms);
/* Its program wants it to end, whatever the lease says. The next look says what to do. */
void ten_work_end(ten_work *work);
/* The same, without waiting for what does not end when asked, nor for a message to leave. */
void ten_work_hurry(ten_work *work);
/* Its program stops: its message, now or when it is published, has flush_ms to leave. */
void ten_work_flush(ten_work *work);
/* Its process has exited after the warden signalled it because of the lease. The work was cut short: nothing of it is
 * published, even if the lease is renewed now. Call this before the next look. */
void ten_work_ended_for_lease(ten_work *work);
/* To be called whenever something has happened, and at ten_work_next_ms(). */
enum ten_work_step ten_work_look(ten_work *work, const ten_work_lease *lease, enum ten_work_left left, uint64_t now_ms);
/* When to look next if nothing happens before; UINT64_MAX: never. */
uint64_t ten_work_next_ms(const ten_work *work, uint64_t now_ms);

/* ---- reading */

/* Whether its target may be released, as far as this piece of work is concerned. */
bool ten_work_is_free(const ten_work *work);
/* Whether another piece of work may start on its target: nothing of this one is left but, perhaps, its message. */
bool ten_work_is_over(const ten_work *work);
/* Whether it was made to end, by its lease or by its program, and not by a time-out. */
bool ten_work_is_cut_short(const ten_work *work);

#endif
