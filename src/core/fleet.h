/*
 * The fleet as one instance sees it: which targets it should hold, which it holds, and which it has to release. Pure:
 * the caller passes in the time, the store's answers and what happened; it returns what to send next, and events.
 * No clock, no I/O, no threads. It is a part of the engine (core/engine.h), which says when which call is made.
 *
 * How a fleet shares targets. Every instance announces itself and computes the same plan (core/plan.h). The planned
 * instance acquires a target at once; the others wait their turn by rank, and longer while the planned one is seen to
 * take something. So a target that its planned instance does not take goes to the next one, and the instances never ask
 * all at the same time. A holder that is no longer the planned one stops its work and then hands the target over to the
 * planned one, once that has been present for the settle time: no other instance can get it in between. Where the
 * store has sessions and all instances know them, leases hang on the session of their holder, and its heartbeat renews
 * them. Else they are renewed in batches, the oldest first, together with the heartbeat. A refused acquire says how
 * long the other lease lasts, and the next try is at that instant. When the store fails, no lease is believed beyond
 * its deadline, and requests back off.
 *
 * The life of each target is a holding (core/holding.h). The fleet decides when it is this instance's turn to acquire
 * one, when there is a reason to release one (then it is closing, and TENURE_EVENT_STOP is reported), and releases it
 * when the program says that the work has stopped.
 */
#ifndef TEN_CORE_FLEET_H
#define TEN_CORE_FLEET_H

#include "core/engine.h"
#include "core/holding.h"
#include "core/plan.h"
#include "core/timing.h"

/* How a fleet member is driven, and what it asks for at once. */
#define TEN_FLEET_BATCH     1000u /* operations of a request */
#define TEN_FLEET_PAGE      4000u /* rows of a listing */
#define TEN_FLEET_FEED      4000u /* changes */
#define TEN_FLEET_FEED_PART 480u  /* of a TTL: the feed is not read more often than this */
#define TEN_FLEET_SETTLE_MS 2000u

typedef struct ten_fleet ten_fleet;

typedef struct ten_fleet_config {
    const char *namespace_name; /* these two must outlive the fleet */
    const char *instance;
    ten_timing timing;      /* complete: see ten_timing_defaults() */
    uint64_t settle_ms;     /* how long an instance must be present before targets are handed over to it */
    uint64_t rank_delay_ms; /* between the turns of two ranks; 0: max(TTL / 60, 20 ms) */
    uint32_t weight;        /* of this instance */
    uint64_t seed;          /* of its jitter */
    const char *metadata;   /* announced with the heartbeat: JSON, or NULL; it must outlive the fleet */
    uint32_t batch_max;     /* operations in one request; 0: 1,000 */
    bool registry;          /* the targets are those of the store's registry */
    bool hands;             /* the store can hand a lease over (TEN_OP_HAND) */
    bool sessions;          /* the store has sessions: one heartbeat renews all leases (TEN_OP_SESSION) */
    uint32_t targets_max;   /* how many targets it may know; 0: no bound */
    bool checkpoints;       /* an acquire brings the checkpoint of its target along */
    /* Where to report, and to publish TEN_FACT_BELIEF (also of a target that is about to be released, and of one that
     * is forgotten) and TEN_FACT_GRANTED. It must outlive the fleet, which must not be called meanwhile, except for
     * reading. */
    ten_event_queue *events;
    /* Makes room for what the caller knows about the target of this number; NULL: nothing. False: out of memory. */
    bool (*make_room)(void *userdata, uint32_t target);
    void *userdata;
} ten_fleet_config;

/*
 * The events that a fleet reports: TENURE_EVENT_ACQUIRED (reason: how the previous lease ended, as far as is known),
 * _ACQUIRE_FAILED, _RENEWED (of a large request only a count, without a target), _RENEW_FAILED, _LOST, _STOP (start no
 * more work; the target is released when no work is left), _RELEASED, _JOINED, _LEFT, _PLAN_CHANGED, _RECOVERING,
 * _REFUSED (another TTL in the fleet, declared gone, or more registered targets than it may know; remaining_ms: the
 * fleet's TTL; count: how many it may know. Final), _STOPPED, _UNOWNED and
 * _TARGET_REMOVED (it is no longer registered).
 */

/* Targets without a holder, as of the last heartbeat. */
typedef struct ten_fleet_unowned {
    size_t count;
    uint64_t since_ms; /* when the first of them lost its holder; 0: there is none */
} ten_fleet_unowned;

/* NULL: out of memory. */
ten_fleet *ten_fleet_new(const ten_fleet_config *config, uint64_t now_ms);
void ten_fleet_free(ten_fleet *fleet);

/* ---- driving: a part of the engine (core/engine.h), whose clock does not go back. `fleet` is a ten_fleet */

void ten_fleet_step(void *fleet, const ten_engine_event *event, ten_part_update *update);
void ten_fleet_due(const void *fleet, uint64_t now_ms, ten_part_due *due);

/* ---- what the program wants */

/* Adds a target, or pauses or resumes one. Returns its number; TEN_PLAN_NONE: out of memory, or the fleet is full. */
uint32_t ten_fleet_put_target(ten_fleet *fleet, uint64_t now_ms, const char *id, bool paused);
/* Whether it has as many targets as it may. */
bool ten_fleet_is_full(const ten_fleet *fleet);
void ten_fleet_remove_target(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
/* Work on the target begins or ends. The target is not released before all work on it has ended. False: none was under
 * way. */
void ten_fleet_begin_work(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
bool ten_fleet_end_work(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
/* Call this after putting and removing targets: it brings the plan up to date. */
void ten_fleet_targets_settled(ten_fleet *fleet, uint64_t now_ms);
/* Acquires the target whatever the plan says, and keeps it until ten_fleet_unclaim(). A target that was not put has no
 * planned holder. Returns its number; TEN_PLAN_NONE: out of memory. */
uint32_t ten_fleet_claim(ten_fleet *fleet, uint64_t now_ms, const char *id);
void ten_fleet_unclaim(ten_fleet *fleet, uint64_t now_ms, uint32_t target);
void ten_fleet_set_weight(ten_fleet *fleet, uint64_t now_ms, uint32_t weight);
/* Asks for all work to stop, releases all leases, then leaves the fleet. */
void ten_fleet_stop(ten_fleet *fleet, uint64_t now_ms);

/* ---- reading */

const ten_plan *ten_fleet_plan(const ten_fleet *fleet);
/* Whether this is the number of a target. A number that was given up may become another target's. */
bool ten_fleet_knows(const ten_fleet *fleet, uint32_t target);
/* What may be believed about the target. */
ten_holding ten_fleet_holding(const ten_fleet *fleet, uint32_t target);
/* Whether new work on the target may start now. */
bool ten_fleet_may_work(const ten_fleet *fleet, uint32_t target, uint64_t now_ms);
size_t ten_fleet_owned_count(const ten_fleet *fleet);
/* Whether the store has confirmed a heartbeat: nothing is acquired before that. */
bool ten_fleet_is_announced(const ten_fleet *fleet);
/* Whether work on a target that is held is under way. */
bool ten_fleet_is_busy(const ten_fleet *fleet);
/* How many targets are planned for this instance. */
size_t ten_fleet_planned_count(const ten_fleet *fleet);
ten_fleet_unowned ten_fleet_get_unowned(const ten_fleet *fleet);
/* How much time is left until the first deadline; 0: nothing is held. */
uint64_t ten_fleet_margin_ms(const ten_fleet *fleet, uint64_t now_ms);
/* The holder of the target as far as this instance knows; NULL: none, or not known. */
const char *ten_fleet_holder_of(const ten_fleet *fleet, uint32_t target);

#endif
