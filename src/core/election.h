/*
 * One candidate for one role, on top of its holding (core/holding.h). Pure, like the fleet: it is told the time, the
 * store's answers and what happened, and says what to send next and which events to report. A role is a target, usually
 * in the namespace `leader`; the leader is its holder.
 *
 *             campaign               granted             resign, asked to resign, withdraw
 *      idle -------------> following ---------> leading -----------------------------------> stepping down
 *      ^  ^                  |  ^  ^               |                                               |
 *      |  +---- withdraw ----+  |  +-- lost, ------+                                               |
 *      |                        |      expired                                                     |
 *      +---- if withdrawn ------+--- the work has stopped and the release is sent; lost, expired --+
 *
 * A refused campaign says how long the present leader's lease lasts: the next try is at that instant, with a little
 * jitter, or when the feed reports a release. If the answer to a campaign was lost, the next campaign gets the same
 * lease, because instance ids are never reused; but a token whose deadline has passed is never believed again.
 */
#ifndef TEN_CORE_ELECTION_H
#define TEN_CORE_ELECTION_H

#include "core/holding.h"
#include "core/op.h"
#include "core/timing.h"

typedef struct ten_election_config {
    const char *namespace_name; /* these three must outlive the election */
    const char *role;
    const char *instance;
    ten_timing timing; /* complete: see ten_timing_defaults() */
    /* No other instance gets the role for at least this long from the start of a term, even if the work or this process
     * ends earlier; 0: released when the work is over. */
    uint64_t at_least_ms;
    uint64_t ttl_min_ms;     /* the shortest TTL of the store */
    uint64_t expiry_late_ms; /* by how much the store may end a lease too late */
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
    TEN_ELECTION_STEP_DOWN,       /* token, reason: stop the work, then call ten_election_stopped() */
    TEN_ELECTION_DEMOTED,         /* token, reason (expired, taken, forced): the same, but at once */
    TEN_ELECTION_RELEASED,        /* token, reason */
    TEN_ELECTION_KEPT,            /* token, remaining_ms: the work is over, but the role is kept until then */
    TEN_ELECTION_RENEWED,         /* token */
    TEN_ELECTION_RENEW_FAILED,    /* token, error: the lease is uncertain from now on */
    TEN_ELECTION_CAMPAIGN_FAILED, /* error, or other (the leader) and remaining_ms */
    TEN_ELECTION_RECOVERING,      /* remaining_ms: the store is recovering and grants nothing yet */
    TEN_ELECTION_STORE_DOWN,      /* error */
    TEN_ELECTION_STORE_UP,
    TEN_ELECTION_REFUSED, /* error: this instance was declared gone, or the tokens are used up. Final */
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
    ten_holding holding;
    bool campaigns; /* it was not withdrawn */
    bool working;   /* from TEN_ELECTION_ELECTED until ten_election_stopped() */
    bool unkept;    /* leads, but not yet reported: the lease does not yet cover at_least_ms */
    bool down;      /* the last request failed */
    bool refused;
    enum ten_reason leave_reason; /* why it steps down */
    uint64_t leave_pause_ms;      /* how long it waits after that, so that others go first */
    uint64_t sent_ms;
    uint64_t renew_ms;       /* when to renew */
    uint64_t try_ms;         /* when to campaign */
    uint64_t pause_until_ms; /* its work ended by itself: no campaign before this, even if another leader steps down */
    uint64_t retry_ms;       /* after a failure: nothing is sent before this */
    uint64_t keep_until_ms;  /* of the term with keep_token */
    uint64_t keep_token;
    unsigned failures; /* in a row */
    uint64_t random;
    ten_election_event events[TEN_ELECTION_EVENTS];
    size_t event_first;
    size_t event_count;
} ten_election;

void ten_election_init(ten_election *election, const ten_election_config *config);

/* ---- what the program wants */

void ten_election_campaign(ten_election *election, uint64_t now_ms);
/* Steps down if it leads, and stops campaigning. */
void ten_election_withdraw(ten_election *election, enum ten_reason reason);
/* Steps down, and campaigns again after the pause, in which others go first; not if it was withdrawn. */
void ten_election_resign(ten_election *election, enum ten_reason reason, uint64_t pause_ms);
/* The work of the term has ended, by itself or because it was told to. Only now is the lease released, or is a new term
 * campaigned for: no term begins while the work of an earlier one still runs. */
void ten_election_stopped(ten_election *election);

/* ---- driving */

/* When to call ten_election_request() next if nothing happens before; UINT64_MAX: never. */
uint64_t ten_election_next_ms(const ten_election *election, uint64_t now_ms);
/* Fills in the request to be sent now; false: nothing to send. There is one request at a time. It also ends a term
 * whose deadline has passed. */
bool ten_election_request(ten_election *election, uint64_t now_ms, ten_op *ret_op);
/* The answer to the request. `error`: what apply() returned; the result is ignored if it is not 0. */
void ten_election_answer(ten_election *election, uint64_t now_ms, int error, const ten_result *result);
/* An entry of the feed. */
void ten_election_change(ten_election *election, uint64_t now_ms, const ten_change *change);
/* Entries of the feed were missed: campaigns or renews early, and learns the state from the answer. */
void ten_election_resync(ten_election *election, uint64_t now_ms);

/* The next event, oldest first; false: none is left. */
bool ten_election_event_take(ten_election *election, ten_election_event *ret_event);

/* ---- reading */

/* Whether new work may start. */
bool ten_election_is_leader(const ten_election *election, uint64_t now_ms);

#endif
