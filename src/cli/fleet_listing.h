/*
 * The fleet as a command sees it: every target with its holder and its planned holder, every instance with its share.
 * Read from the store in one go; the plan is computed here as every instance computes it.
 */
#ifndef TEN_CLI_FLEET_VIEW_H
#define TEN_CLI_FLEET_VIEW_H

#include "cli/arguments.h"
#include "core/plan.h"
#include "runtime/metadata.h"

typedef struct ten_view_instance {
    char id[TENURE_HOLDER_MAX + 1];
    uint32_t weight;
    bool draining;
    uint64_t remaining_ms;
    uint64_t since_ms;
    size_t held;
    ten_metadata_shown metadata; /* as its heartbeat says */
} ten_view_instance;

typedef struct ten_view {
    tenure_info *targets; /* every registered or leased target, in order */
    size_t target_count;
    uint32_t target_room;
    ten_view_instance *instances; /* in order */
    size_t instance_count;
    uint32_t instance_room;
    ten_plan *plan; /* of the targets that are registered and not paused, or held by a fleet member */
} ten_view;

/* TENURE_OK, or an error that ten_arguments_error() can tell. */
int ten_view_read(const ten_arguments *arguments, ten_view *view);
void ten_view_free(ten_view *view);

/* The planned holder of a target; "": none. */
const char *ten_view_planned(const ten_view *view, const char *target);
ten_view_instance *ten_view_instance_find(const ten_view *view, const char *id);

/* Whether its holder hands it over, or is gone while the plan names another. */
bool ten_view_is_moving(const ten_view *view, const tenure_info *info);

/* Whether the target is the role, or a slot of it. */
bool ten_view_is_of_role(const char *target, const char *role);

/* What its announced candidates say of a target. */
typedef struct ten_view_role_found {
    bool is_lock;
    size_t waiting;
} ten_view_role_found;

/* False: it has none, so it is not known to be a role. */
bool ten_view_role(const ten_view *view, const tenure_info *info, ten_view_role_found *ret_found);

#endif
