/*
 * One candidate for one role, on top of its holding (core/holding.h). It is pure, like the fleet: the caller passes in
 * the time, the store's answers and what happened; it returns the next request and reports events. A role is a target,
 * usually in the namespace `leader`; the leader is its holder. A lock is the same thing in the namespace `lock`.
 *
 *             campaign               granted             resign, asked to resign or to drain, withdraw
 *      idle -------------> following ---------> leading -----------------------------------> stepping down
 *      ^  ^                  |  ^  ^               |                                               |
 *      |  +---- withdraw ----+  |  +-- lost, ------+                                               |
 *      |                        |      expired                                                     |
 *      +---- if withdrawn ------+--- the work has stopped and the release is sent; lost, expired --+
 *
 * A refused campaign says how long the present leader's lease lasts: the next try is at that instant, or when the feed
 * reports a release; candidates take turns then (core/turns.h). If the answer to a campaign was lost, the next campaign
 * gets the same lease, because instance ids are never reused; but a token whose deadline has passed is never believed
 * again.
 *
 * Drain. An instance that is asked to drain stays announced, but steps down and does not campaign until that is undone.
 * It learns of both from the answers to its heartbeats.
 *
 * Slots. A role can have several numbered slots, each a target of its own: the candidate wants any one of them (a
 * semaphore), or all of them together. It looks at all of them first. With `any` it then tries one that is free. It
 * stays with that slot until the store has answered, so it never has two. With `all` one batch acquires all of them
 * when they are free; up to TEN_GROUP_MAX of them as a group (store.h), of which the store grants all or none. Where
 * some were granted nevertheless, they are released at once: nothing is held while it waits. The term ends when the
 * first of them is lost.
 */
#ifndef TEN_CORE_ELECTION_H
#define TEN_CORE_ELECTION_H

#include "core/engine.h"
#include "core/holding.h"
#include "core/timing.h"
#include "core/turns.h"

#define TEN_ELECTION_SLOTS_MAX 1000u

enum ten_election_wants { TEN_ELECTION_ANY, TEN_ELECTION_ALL };

/* One target that the candidate wants. */
typedef struct ten_election_slot {
    const char *target;
    ten_holding holding;
    uint64_t try_ms;            /* when to campaign for it */
    uint64_t holder;            /* ten_hash of the other instance that has it, as far as is known; 0: none */
    enum ten_reason end_reason; /* how the last known term ended */
    bool heard_of_leader;       /* another instance has led */
    bool barred;                /* its lease was forced: it is not renewed, and released when the work is over */
} ten_election_slot;

/* Whether the other candidates of the role get to know this one: it announces itself in the namespace. */
enum ten_election_announces {
    TEN_ELECTION_SILENT,  /* never */
    TEN_ELECTION_WAITING, /* from its first refusal on: a candidate that gets the role at once need not */
    TEN_ELECTION_ALWAYS,
};

typedef struct ten_election_config {
    const char *namespace_name; /* these three must outlive the election */
    const char *role;           /* as people name it; without slots it is also the target */
    const char *instance;
    ten_timing timing; /* complete: see ten_timing_defaults() */
    /* No other instance gets the role for at least this long from the start of a term, even if the work or this process
     * ends earlier; 0: released when the work is over. At most ten_election_at_least_max_ms(). */
    uint64_t at_least_ms;
    uint64_t ttl_min_ms;     /* the shortest TTL of the store */
    uint64_t expiry_late_ms; /* by how much the store may end a lease too late */
    uint64_t seed;           /* of its jitter */
    ten_event_queue *events; /* where to report; it must outlive the election */
    /* Slots, whose targets are set, and room for slot_count + 1 operations; both must outlive the election. NULL and 0:
     * the role is its only target. */
    ten_election_slot *slots;
    ten_op *ops;
    uint32_t slot_count;
    enum ten_election_wants wants;
    enum ten_election_announces announces;
    const char *metadata; /* announced: see core/turns.h. It must outlive the election */
    bool has_turns;       /* candidates take turns, by what they announce */
    int64_t priority;     /* as announced: the highest leads when the role becomes free */
    bool is_lock;         /* kept until the work is over: a drain does not concern it */
    /* For how long a candidate with a higher priority must have been there before this leader steps down for it, but at
     * least a TTL from the beginning of the term: if the better one does not take the role, it does not go to and fro.
     * UINT64_MAX: it does not. */
    uint64_t failback_ms;
} ten_election_config;

enum ten_election_state {
    TEN_ELECTION_IDLE,
    TEN_ELECTION_FOLLOWING,
    TEN_ELECTION_LEADING,
    TEN_ELECTION_STEPPING_DOWN,
};

/*
 * The events that an election reports: TENURE_EVENT_ACQUIRED (elected: the work may begin; reason: how the previous
 * term ended, as far as is known), _STOP (step down: stop the work, then call ten_election_stopped()), _LOST (the same,
 * but at once), _RELEASED, _KEPT (the work is over, but the role is kept), _RENEWED, _RENEW_FAILED, _ACQUIRE_FAILED,
 * _RECOVERING, _UNANNOUNCED (the namespace has another TTL, remaining_ms; once) and _REFUSED (this instance was
 * declared gone, or the tokens are used up. Final).
 */
typedef struct ten_election {
    ten_election_config config;
    enum ten_election_state state;
    ten_election_slot own; /* without slots: the only one */
    ten_op own_ops[2];     /* the same: its operation, and a heartbeat */
    size_t op_count;       /* in flight */
    uint32_t at;           /* any: the slot that it has, or tries */
    bool looked;           /* it is known until when the slots are held, or there is only one that was not tried yet */
    bool unsure;           /* any: a campaign for this slot was not answered */
    ten_turns turns;       /* of the candidates */
    uint64_t beat_ms;      /* when to announce it */
    bool unfit;            /* it is not able to do the work */
    bool drained;          /* an operator wants it to release the role, and not to campaign */
    bool waits;            /* it was refused once */
    bool announced;        /* or may be */
    bool announce_refused; /* the namespace has another TTL: the others do not know of this candidate */
    bool campaigns;        /* it was not withdrawn */
    bool working;          /* from TENURE_EVENT_ACQUIRED until ten_election_stopped() */
    bool unkept;           /* leads, but not yet reported: the lease does not yet cover at_least_ms */
    bool answered;         /* a request of it was, at least once */
    bool refused;
    enum ten_reason leave_reason; /* why it steps down */
    uint64_t leave_pause_ms;      /* how long it waits after that, so that others go first */
    uint64_t sent_ms;
    uint64_t renew_ms;       /* when to renew */
    uint64_t began_ms;       /* when the term began */
    uint64_t pause_until_ms; /* its work ended by itself: no campaign before this, even if another leader steps down */
    uint64_t keep_until_ms;  /* of the term with keep_token */
    uint64_t keep_token;
    uint64_t random;
} ten_election;

/* The longest time for which a role can be kept: the lease that keeps it lasts for a TTL more. */
uint64_t ten_election_at_least_max_ms(const ten_timing *timing);
void ten_election_init(ten_election *election, const ten_election_config *config);
void ten_election_free(ten_election *election);

/* ---- what the program wants */

void ten_election_campaign(ten_election *election, uint64_t now_ms);
/* Steps down if it leads, and stops campaigning. */
void ten_election_withdraw(ten_election *election, enum ten_reason reason);
/* Steps down, and campaigns again after the pause, in which others go first; not if it was withdrawn. */
void ten_election_resign(ten_election *election, enum ten_reason reason, uint64_t pause_ms);
/* Whether it is able to do the work. While it is not, it steps down and is no candidate. It is at the start. */
void ten_election_set_fit(ten_election *election, bool is_fit, uint64_t now_ms);
/* The work of the term has ended, by itself or because it had to. Only now is the lease released, or is a new term
 * campaigned for: no term begins while the work of an earlier one still runs. */
void ten_election_stopped(ten_election *election);
/* The work of this term never began: its least time is not kept, so that another instance can do the work. */
void ten_election_keep_nothing(ten_election *election);

/* ---- as a part of the engine (core/engine.h). `election` is a ten_election */

void ten_election_step(void *election, const ten_engine_event *event, ten_part_update *update);
void ten_election_due(const void *election, uint64_t now_ms, ten_part_due *due);

/* ---- reading */

/* Whether new work may start. */
bool ten_election_is_leader(const ten_election *election, uint64_t now_ms);
/* Until when the role is believed to be held; 0: it is not. Of several slots: the earliest. */
uint64_t ten_election_deadline_ms(const ten_election *election);
/* The slot that it has, or had or tries last. With `all`: the first. */
const ten_election_slot *ten_election_slot_at(const ten_election *election);
/* Nothing of it is left in the store: it was withdrawn, and its releases and its leave were answered. */
bool ten_election_is_gone(const ten_election *election);

/* A term of a role with slots has this identity: tokens of two slots can be equal. Tokens are below 2^53. */
#define TEN_TERM_ID(token, slot) ((token) | (uint64_t)(slot) << 53)
#define TEN_TERM_TOKEN(id)       ((id) & ((UINT64_C(1) << 53) - 1))
#define TEN_TERM_SLOT(id)        ((uint32_t)((id) >> 53))

#endif
