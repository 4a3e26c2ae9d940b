/*
 * The plan: which instance should hold which target. Bounded, weighted rendezvous: each pair of a target and an
 * instance has a weight that every process computes alike. Each instance has a quota: its part of the targets by its
 * own weight, rounded so that the quotas sum to the number of targets. Pairs are matched by weight within the quotas.
 * Since both sides rank by the same weights, there is exactly one matching in which no target and instance prefer each
 * other to what they have. So every process that sees the same fleet computes the same plan, in whatever order it
 * learned of it.
 *
 * A target that is pinned has no part in the matching, but counts for the quota of the instance that it is pinned to.
 * An instance with more pins than its quota keeps them all; the quotas of the others then cover what is left.
 *
 * Pure: no clock, no I/O. When a target or an instance is added or removed, the matching is repaired in place; the
 * result is the same as from scratch. The plan does not know who really holds what: its "holder" of a target is the
 * planned holder.
 */
#ifndef TEN_CORE_PLAN_H
#define TEN_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No target or no instance. Functions that add something return it only when out of memory. */
#define TEN_PLAN_NONE UINT32_MAX
/* What an instance announces as "plan": the rules by which it plans. A fleet of mixed versions uses the lowest. */
#define TEN_PLAN_VERSION 1

typedef struct ten_plan ten_plan;

/* Called for each target whose planned holder changed, with the numbers of the instances (TEN_PLAN_NONE: none). It must
 * not change the plan. */
typedef void (*ten_plan_moved_fn)(uint32_t target, uint32_t from, uint32_t to, void *userdata);

/* NULL: out of memory. */
ten_plan *ten_plan_new(ten_plan_moved_fn moved, void *userdata);
void ten_plan_free(ten_plan *plan);

/* Adds a target or an instance, or changes an instance's weight (0: it gets no targets). Ids are copied. Returns a
 * number that is valid until the target or the instance is removed, and may then be reused; TEN_PLAN_NONE: out of
 * memory. Adding what is there returns its number. Nothing moves before ten_plan_settle(), except that the targets of a
 * removed instance lose their planned holder at once: their next move is reported as coming from TEN_PLAN_NONE. */
uint32_t ten_plan_add_target(ten_plan *plan, const char *id);
void ten_plan_remove_target(ten_plan *plan, uint32_t target);
/* A target that is set aside keeps its number, but has no planned holder and counts for no quota. */
void ten_plan_set_aside(ten_plan *plan, uint32_t target, bool aside);
/* A target that is pinned. The times are the caller's. */
typedef struct ten_plan_pin {
    uint32_t target;
    char *instance;
    uint32_t holder; /* to whom it gives the target, as of the last settling; TEN_PLAN_NONE: it has no effect */
    bool away;
    uint64_t until_ms; /* by the store's clock: two pins of a target differ in it */
    uint64_t ends_ms;  /* by this instance's clock, as far as is known */
    uint64_t look_ms;  /* when to read its registration again */
} ten_plan_pin;

/* Pins a target to an instance, or with `away` keeps it away from that one: then its planned holder is the instance
 * that it ranks first among the others. A pin to what is not there or has no weight has no effect, nor has one away
 * from the only instance, or from one that is not there. NULL: it is not pinned. False: out of memory; nothing has
 * changed. */
bool ten_plan_pin_target(ten_plan *plan, uint32_t target, const char *instance, bool away);
/* The pin of a target; NULL: none. All of them, by the numbers of their targets. Valid until the next change. */
ten_plan_pin *ten_plan_find_pin(const ten_plan *plan, uint32_t target);
ten_plan_pin *ten_plan_pins(const ten_plan *plan, uint32_t *ret_count);
uint32_t ten_plan_set_instance(ten_plan *plan, const char *id, uint32_t weight);
void ten_plan_remove_instance(ten_plan *plan, uint32_t instance);

/* Brings the matching up to date and reports the moves. False: out of memory; nothing has moved, try again. */
bool ten_plan_settle(ten_plan *plan);

uint32_t ten_plan_find_target(const ten_plan *plan, const char *id);   /* TEN_PLAN_NONE: not there */
uint32_t ten_plan_find_instance(const ten_plan *plan, const char *id); /* TEN_PLAN_NONE: not there */
const char *ten_plan_target_id(const ten_plan *plan, uint32_t target);
const char *ten_plan_instance_id(const ten_plan *plan, uint32_t instance);
/* All numbers are below these; some may be unused (their id is NULL). */
uint32_t ten_plan_target_bound(const ten_plan *plan);
uint32_t ten_plan_instance_bound(const ten_plan *plan);
size_t ten_plan_target_count(const ten_plan *plan);   /* those that are not set aside */
size_t ten_plan_instance_count(const ten_plan *plan); /* those with a weight above 0 */

/* The planned holder of the target, as of the last settling; TEN_PLAN_NONE: none. */
uint32_t ten_plan_holder(const ten_plan *plan, uint32_t target);
/* How many targets an instance should get, and how many are planned for it now; with those pinned to it. */
size_t ten_plan_quota(const ten_plan *plan, uint32_t instance);
size_t ten_plan_share(const ten_plan *plan, uint32_t instance);
/* An instance's turn for a target: 0 for the planned holder, then 1, 2, ... in the order of the pairs' weights for the
 * other instances with a weight above 0. One that the target is kept away from comes last. */
size_t ten_plan_rank(const ten_plan *plan, uint32_t target, uint32_t instance);

#endif
