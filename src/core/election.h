/*
 * One candidate for one role, on top of the lease record (core/lease.h). Pure, like the fleet: it is told the time, the
 * store's answers and what happened, and says what to send and what to tell. A role is a target, usually of the
 * namespace `leader`; the leader is its holder.
 *
 *               campaign                 granted                    resign, asked, withdraw
 *      idle -------------> following -----------------> leading ----------------------------> stepping down
 *        ^                    ^                            |                                        |
 *        |                    +------ lost, expired -------+                         (work stopped) | release
 *        +-------------------------- withdrawn ---------------------------------------------- or -- + --> following
 *
 * A refused campaign says for how long the present leader's lease lasts: the next try is at that instant, with a little
 * jitter, or when the feed tells of a release. A candidate whose answer was lost recognises itself when it asks again,
 * because instance ids are never reused; but a token whose deadline has passed is never believed again.
 */
#ifndef TEN_CORE_ELECTION_H
#define TEN_CORE_ELECTION_H

#include "core/lease.h"
#include "core/op.h"
#include "core/timing.h"

typedef struct ten_election_config {
    const char *namespace_name; /* these three must outlive the election */
    const char *role;
    const char *instance;
    ten_timing timing; /* complete: see ten_timing_defaults() */
    /* The role is kept for at least this long from the start of a term, whatever becomes of the work and of this
     * process; 0: given back when the work is over. */
    uint64_t at_least_ms;
    uint64_t ttl_min_ms;     /* what the store can do */
    uint64_t expiry_late_ms; /* by how much it may end a lease too late */
    uint64_t seed;           /* of its jitter */
} ten_election_config;

enum ten_election_state {
    TEN_ELECTION_IDLE,
    TEN_ELECTION_FOLLOWING,
    TEN_ELECTION_LEADING,
    TEN_ELECTION_STEPPING_DOWN,
};

enum ten_election_event_kind {
    TEN_ELECTION_ELECTED,         /* token: the work may begin */
    TEN_ELECTION_STEP_DOWN,       /* token, reason: stop the work, then say so by ten_election_stopped() */
    TEN_ELECTION_DEMOTED,         /* token, reason: it is over (expired, taken, forced): the same, but at once */
    TEN_ELECTION_RELEASED,        /* token, reason: given back */
    TEN_ELECTION_KEPT,            /* token, remaining_ms: the work is over, and nobody gets the role before that */
    TEN_ELECTION_RENEWED,         /* token */
    TEN_ELECTION_RENEW_FAILED,    /* token, error: uncertain from now on */
    TEN_ELECTION_CAMPAIGN_FAILED, /* error, or other (who leads) and remaining_ms */
    TEN_ELECTION_RECOVERING,      /* remaining_ms: the store lets nobody in yet */
    TEN_ELECTION_STORE_DOWN,      /* error */
    TEN_ELECTION_STORE_UP,
    TEN_ELECTION_REFUSED, /* error: this instance was declared gone, or the tokens are used up. It goes no further */
};

typedef struct ten_election_event {
    enum ten_election_event_kind kind;
    enum ten_reason reason;
    int error;
    uint64_t token;
    uint64_t remaining_ms;
    char other[TENURE_HOLDER_MAX + 1];
} ten_election_event;

#define TEN_ELECTION_EVENTS 16u

typedef struct ten_election {
    ten_election_config config;
    enum ten_election_state state;
    ten_lease lease;
    bool campaigns; /* wants to lead again after this */
    bool working;   /* since it was told that it is elected, until it says that the work has stopped */
    bool unkept;    /* leads, but nobody was told: the role is not yet kept for as long as it has to be */
    bool in_flight; /* a request has not been answered */
    bool down;      /* the store did not answer last time */
    bool refused;
    enum ten_op_kind flight;
    bool giving_back;             /* the request in flight ends a term */
    bool keeping;                 /* and it in flight sets what is left of at_least_ms */
    enum ten_reason leave_reason; /* of stepping down */
    uint64_t leave_pause_ms;      /* after it: others go first */
    uint64_t sent_ms;
    uint64_t renew_ms;       /* when to renew */
    uint64_t try_ms;         /* when to campaign */
    uint64_t pause_until_ms; /* its work ended by itself: it does not campaign before this, whoever steps down */
    uint64_t retry_ms;       /* not before this: the store failed */
    uint64_t spent_token;    /* was given back, or its deadline passed: never believed again */
    uint64_t known_token;    /* the highest that was heard of */
    uint64_t keep_until_ms;  /* of the term with keep_token */
    uint64_t keep_token;
    uint64_t unreleased; /* a token whose release has not been answered; 0: none */
    enum ten_reason unreleased_reason;
    unsigned failures; /* in a row */
    uint64_t random;
    ten_election_event events[TEN_ELECTION_EVENTS];
    size_t event_first;
    size_t event_count;
} ten_election;

void ten_election_init(ten_election *election, const ten_election_config *config);

/* ---- what is wanted */

void ten_election_campaign(ten_election *election, uint64_t now_ms);
/* Steps down if it leads, and campaigns no more. */
void ten_election_withdraw(ten_election *election, enum ten_reason reason);
/* Steps down, and lets others go first: campaigns again after the pause, unless it is withdrawn. */
void ten_election_resign(ten_election *election, enum ten_reason reason, uint64_t pause_ms);
/* The work of the term has ended, by itself or because it was told to. Only now is the lease given back, if it is to
 * be, or a new term campaigned for: nobody leads while what it did before still runs. */
void ten_election_stopped(ten_election *election);

/* ---- what is to be done */

/* When to call ten_election_request() next, if nothing happens before; UINT64_MAX: never. */
uint64_t ten_election_next_ms(const ten_election *election, uint64_t now_ms);
/* Fills in the request to be sent now; false: nothing to send. One at a time. It also notices a deadline that passed.
 */
bool ten_election_request(ten_election *election, uint64_t now_ms, ten_op *ret_op);
/* The answer to it. `error`: what apply() returned; then the result is not looked at. */
void ten_election_answer(ten_election *election, uint64_t now_ms, int error, const ten_result *result);
/* What the feed brought about the role. */
void ten_election_change(ten_election *election, uint64_t now_ms, const ten_change *change);
/* Changes were missed: the next campaign finds out. */
void ten_election_resync(ten_election *election, uint64_t now_ms);

/* The next event, oldest first; false: none is left. */
bool ten_election_event_take(ten_election *election, ten_election_event *ret_event);

/* ---- looking */

/* Whether new work may start. */
bool ten_election_is_leader(const ten_election *election, uint64_t now_ms);

#endif
