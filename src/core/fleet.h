/*
 * The fleet, seen from one instance: which targets it should hold, holds, and has to give up. Pure: it is told the
 * time, the store's answers and what happened, and says what to send and what to tell. No clock, no I/O, no threads.
 * Whoever drives it (src/runtime, or the simulator) carries requests to a store and answers back.
 *
 * How a fleet shares targets. Every instance announces itself and computes the same plan (core/plan.h). The planned
 * instance acquires at once; the others wait their turn by rank, so that a target whose planned instance does not take
 * it is taken by the next, and there is never a herd. A holder that is no longer planned lets its work stop, then
 * releases, once the planned one has been there for the settle time. Leases are renewed in batches, the oldest first,
 * and the heartbeat travels with them. A refused acquire says for how long: the next try is at that instant. When the
 * store fails, nothing is believed beyond its deadline, and tries back off.
 *
 * A target's life:
 *
 *      idle --(its turn)--> acquiring --ok--> owned --(not mine to keep)--> closing --(work stopped)--> releasing -->
 * idle ^                      |                |                              |
 *       +-------- held --------+                +------- lost, expired --------+--> idle
 *
 * What may be believed is core/lease.h's business; this file only asks it.
 */
#ifndef TEN_CORE_FLEET_H
#define TEN_CORE_FLEET_H

#include "core/lease.h"
#include "core/op.h"
#include "core/plan.h"
#include "core/timing.h"

typedef struct ten_fleet ten_fleet;

typedef struct ten_fleet_config {
    const char *namespace_name; /* copied */
    const char *instance;       /* copied */
    ten_timing timing;          /* complete: see ten_timing_defaults() */
    uint64_t settle_ms;         /* how long an instance has to be there before targets are handed to it */
    uint64_t rank_delay_ms;     /* between the turns of two ranks; 0: max(TTL / 60, 20 ms) */
    uint32_t weight;            /* of this instance */
    uint64_t seed;              /* of its jitter */
    const char *metadata;       /* what is announced with it: JSON, or NULL; it must outlive the fleet */
    uint32_t batch_max;         /* operations of one request; 0: 1,000 */
} ten_fleet_config;

enum ten_fleet_event_kind {
    TEN_FLEET_ACQUIRED,       /* target, token; reason: how the lease before it ended, as far as is known */
    TEN_FLEET_ACQUIRE_FAILED, /* target, error or other (who holds it) */
    TEN_FLEET_RENEWED,        /* target, token; of a large request only a count, without a target */
    TEN_FLEET_RENEW_FAILED,   /* target, token, error: uncertain from now on */
    TEN_FLEET_LOST,           /* target, token, reason: expired, taken */
    TEN_FLEET_STOP,           /* target, token: start no more work; when there is none, it will be released */
    TEN_FLEET_RELEASED,       /* target, token, reason */
    TEN_FLEET_JOINED,         /* other */
    TEN_FLEET_LEFT,           /* other */
    TEN_FLEET_PLAN_CHANGED,   /* count: how many targets moved */
    TEN_FLEET_STORE_DOWN,     /* error */
    TEN_FLEET_STORE_UP,
    TEN_FLEET_RECOVERING, /* remaining_ms */
    TEN_FLEET_REFUSED, /* error (another TTL in the fleet, or declared gone), remaining_ms: the fleet's TTL. It goes no
                          further */
    TEN_FLEET_STOPPED, /* everything has been given back after ten_fleet_stop() */
    TEN_FLEET_UNOWNED, /* target, token and reason of its last lease, free_ms: nobody has it for longer than the TTL */
};

typedef struct ten_fleet_event {
    enum ten_fleet_event_kind kind;
    uint32_t target; /* number; TEN_PLAN_NONE: none */
    uint64_t token;
    enum ten_reason reason;
    int error;
    size_t count;
    uint64_t remaining_ms;
    uint64_t free_ms;
    char other[TENURE_HOLDER_MAX + 1]; /* an instance */
} ten_fleet_event;

/* Targets that are nobody's, as of the last heartbeat. */
typedef struct ten_fleet_unowned {
    size_t count;
    uint64_t since_ms; /* of the one that is so for the longest; 0: there is none */
} ten_fleet_unowned;

/* NULL: out of memory. */
ten_fleet *ten_fleet_new(const ten_fleet_config *config, uint64_t now_ms);
void ten_fleet_free(ten_fleet *fleet);

/* ---- what is to be done: call these, in a loop, with a clock that does not go back */

/* When to call ten_fleet_request() next, if nothing happens before; UINT64_MAX: never. */
uint64_t ten_fleet_next_ms(const ten_fleet *fleet, uint64_t now_ms);

/* The next request, to be sent now: up to *ret_count operations, valid until the answer. NULL: nothing to send. There
 * is one at a time: until ten_fleet_answer() has been called, the next is NULL. It also notices deadlines that have
 * passed. */
const ten_op *ten_fleet_request(ten_fleet *fleet, uint64_t now_ms, size_t *ret_count);
/* The target of the request's operation at that place; TEN_PLAN_NONE: it is the instance's own. Valid until the next
 * request. */
uint32_t ten_fleet_request_target(const ten_fleet *fleet, size_t at);
/* The answer to it. `error`: what apply() returned; then the results are not looked at. */
void ten_fleet_answer(ten_fleet *fleet, uint64_t now_ms, int error, const ten_result *results);

/* Whether the list of instances is wanted, and it. Call begin, then one for each live instance, then end. An error: not
 * end, but failed. */
bool ten_fleet_wants_instances(const ten_fleet *fleet, uint64_t now_ms);
void ten_fleet_instances_begin(ten_fleet *fleet, uint64_t now_ms);
void ten_fleet_instance(ten_fleet *fleet, uint64_t now_ms, const ten_instance *instance);
void ten_fleet_instances_end(ten_fleet *fleet, uint64_t now_ms);
void ten_fleet_instances_failed(ten_fleet *fleet, uint64_t now_ms, int error);

/* What the feed brought. */
void ten_fleet_change(ten_fleet *fleet, uint64_t now_ms, const ten_change *change);
/* Changes were missed: everything has to be read again. */
void ten_fleet_resync(ten_fleet *fleet, uint64_t now_ms);
/* What a listing says of a target that is known here: its holder (NULL: free) and for how long. */
void ten_fleet_holder(ten_fleet *fleet, uint64_t now_ms, const char *target, const char *holder, uint64_t token,
                      uint64_t remaining_ms);

/* The next event, oldest first; false: none is left. */
bool ten_fleet_event_take(ten_fleet *fleet, ten_fleet_event *ret_event);

/* ---- what the owner of this fleet wants */

/* A target appears, or changes between active and paused. Its number; TEN_PLAN_NONE: out of memory. */
uint32_t ten_fleet_put_target(ten_fleet *fleet, uint64_t now_ms, const char *id, bool paused);
void ten_fleet_remove_target(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
/* Whether work on the target is under way. It is not released before it has stopped. */
void ten_fleet_busy(ten_fleet *fleet, uint64_t now_ms, uint32_t target, bool busy);
/* Call it when some targets have been put or removed: the plan follows then. */
void ten_fleet_targets_settled(ten_fleet *fleet, uint64_t now_ms);
/* Asks for the target whatever the plan says, and keeps it until ten_fleet_unclaim(). One that was not put before is
 * nobody's by the plan. Its number; TEN_PLAN_NONE: out of memory. */
uint32_t ten_fleet_claim(ten_fleet *fleet, uint64_t now_ms, const char *id);
void ten_fleet_unclaim(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
void ten_fleet_set_weight(ten_fleet *fleet, uint64_t now_ms, uint32_t weight);
/* Stops all work, gives everything back, leaves. */
void ten_fleet_stop(ten_fleet *fleet, uint64_t now_ms);

/* ---- looking */

const ten_plan *ten_fleet_plan(const ten_fleet *fleet);
/* What may be believed about the target; the record is the fleet's. */
const ten_lease *ten_fleet_lease(const ten_fleet *fleet, uint32_t target);
/* Whether new work may start on it now. */
bool ten_fleet_may_work(const ten_fleet *fleet, uint32_t target, uint64_t now_ms);
size_t ten_fleet_owned_count(const ten_fleet *fleet);
/* How many the plan gives to this instance. */
size_t ten_fleet_planned_count(const ten_fleet *fleet);
ten_fleet_unowned ten_fleet_get_unowned(const ten_fleet *fleet);
/* How long the lease that ends first would still last; 0: nothing is owned. */
uint64_t ten_fleet_margin_ms(const ten_fleet *fleet, uint64_t now_ms);
/* Who holds the target as far as this instance has heard; NULL: nobody, or not known. */
const char *ten_fleet_holder_of(const ten_fleet *fleet, uint32_t target);
/* When this instance got the target and last renewed it, on the clock that it was told; 0: it does not have it. */
void ten_fleet_times(const ten_fleet *fleet, uint32_t target, uint64_t *ret_acquired_ms, uint64_t *ret_renewed_ms);

#endif
