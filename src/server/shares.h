/*
 * How many targets each instance of a namespace holds, and how many it should: the plan as every instance computes it,
 * beside what the store says. Called by instance_requests.c, in the thread of a lane.
 */
#ifndef TEN_SERVER_SHARES_H
#define TEN_SERVER_SHARES_H

#include "base/map.h"
#include "core/plan.h"
#include "store/store.h"

typedef struct ten_shares {
    ten_map held;      /* by holder; the number is the value itself */
    ten_plan *plan;    /* NULL: not asked for */
    uint32_t *holders; /* by the plan's number of a target: its holder's number, or TEN_PLAN_NONE */
    uint32_t room;     /* in holders */
    const char *namespace_name;
    char after[TENURE_TARGET_MAX + 1];
    size_t count; /* of the page */
} ten_shares;

/* Reads the whole namespace; `with_plan` also what is free. Freed by the caller, also after an error. */
int ten_shares_read(ten_shares *shares, ten_store *store, const char *namespace_name, bool with_plan,
                    uint64_t timeout_ms);
void ten_shares_free(ten_shares *shares);

size_t ten_shares_held(const ten_shares *shares, const char *instance);
size_t ten_shares_planned(const ten_shares *shares, const char *instance);
/* Calls `each` for what the instance holds, and another, or none (""), should. */
void ten_shares_moving(const ten_shares *shares, const char *instance,
                       void (*each)(const char *target, const char *planned, void *userdata), void *userdata);

#endif
