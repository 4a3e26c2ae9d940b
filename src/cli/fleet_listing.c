/*
 * The fleet as a command sees it. Called by status, nodes and plan.
 */
#include "cli/fleet_listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static int take_target(const tenure_info *info, void *userdata) {
    ten_view *view = userdata;
    if (!TEN_GROW(view->targets, view->target_room, (uint32_t)view->target_count + 1))
        return TENURE_E_NOMEM;
    view->targets[view->target_count++] = *info;
    return 0;
}

static int take_instance(const tenure_instance *instance, void *userdata) {
    ten_view *view = userdata;
    if (!TEN_GROW(view->instances, view->instance_room, (uint32_t)view->instance_count + 1))
        return TENURE_E_NOMEM;
    ten_view_instance *taken = &view->instances[view->instance_count++];
    *taken = (ten_view_instance){.weight = instance->weight,
                                 .draining = instance->draining,
                                 .remaining_ms = instance->remaining_ms,
                                 .since_ms = instance->since_ms};
    snprintf(taken->id, sizeof taken->id, "%s", instance->instance);
    ten_metadata_read(instance->metadata, &taken->metadata);
    return 0;
}

static int by_id(const void *left, const void *right) {
    return strcmp(((const ten_view_instance *)left)->id, ((const ten_view_instance *)right)->id);
}

ten_view_instance *ten_view_instance_find(const ten_view *view, const char *id) {
    for (size_t i = 0; i < view->instance_count; i++)
        if (strcmp(view->instances[i].id, id) == 0)
            return &view->instances[i];
    return NULL;
}

/* It has no weight, and no share of a plan: it leads a role, or waits for it. */
static bool is_candidate(const ten_view_instance *instance) {
    return instance->metadata.role[0] != '\0';
}

static bool add_to_plan(ten_plan *plan, const tenure_info *info) {
    uint32_t number = ten_plan_add_target(plan, info->target);
    return number != TEN_PLAN_NONE &&
           ten_plan_pin_target(plan, number, info->pin_instance[0] ? info->pin_instance : NULL, info->pin_away);
}

static bool make_plan(ten_view *view) {
    view->plan = ten_plan_new(NULL, NULL);
    bool made = view->plan != NULL;
    for (size_t i = 0; made && i < view->instance_count; i++)
        if (!is_candidate(&view->instances[i]))
            made = ten_plan_set_instance(view->plan, view->instances[i].id, view->instances[i].weight) != TEN_PLAN_NONE;
    for (size_t i = 0; made && i < view->target_count; i++) {
        const tenure_info *info = &view->targets[i];
        ten_view_instance *holder = info->holder[0] ? ten_view_instance_find(view, info->holder) : NULL;
        if (holder)
            holder->held++;
        /* Targets of a file are nowhere registered: that an instance holds them is how they show. */
        if ((info->registered && !info->paused) || (!info->registered && holder && !is_candidate(holder)))
            made = add_to_plan(view->plan, info);
    }
    return made && ten_plan_settle(view->plan);
}

int ten_view_read(const ten_arguments *arguments, ten_view *view) {
    *view = (ten_view){0};
    int r = tenure_target_list(arguments->context, TENURE_ALL, take_target, view);
    TEN_STEP(r, tenure_instance_list(arguments->context, take_instance, view));
    if (view->instance_count > 1) /* a store lists them in the order that is cheapest for it */
        qsort(view->instances, view->instance_count, sizeof *view->instances, by_id);
    if (r == TENURE_OK && !make_plan(view))
        r = TENURE_E_NOMEM;
    if (r < 0)
        ten_view_free(view);
    return r;
}

void ten_view_free(ten_view *view) {
    for (size_t i = 0; i < view->instance_count; i++)
        ten_metadata_free(&view->instances[i].metadata);
    ten_free(view->targets);
    ten_free(view->instances);
    ten_plan_free(view->plan);
    *view = (ten_view){0};
}

const char *ten_view_planned(const ten_view *view, const char *target) {
    uint32_t number = ten_plan_find_target(view->plan, target);
    uint32_t holder = number == TEN_PLAN_NONE ? TEN_PLAN_NONE : ten_plan_holder(view->plan, number);
    return holder == TEN_PLAN_NONE ? "" : ten_plan_instance_id(view->plan, holder);
}

bool ten_view_is_moving(const ten_view *view, const tenure_info *info) {
    const ten_view_instance *holder = info->holder[0] ? ten_view_instance_find(view, info->holder) : NULL;
    const char *planned = ten_view_planned(view, info->target);
    if (info->holder[0] == '\0' || strcmp(planned, info->holder) == 0)
        return false;
    if (holder && is_candidate(holder))
        return holder->draining;
    return holder || planned[0];
}

/* The role itself, or one of its slots: ROLE/0, ROLE/1... */
bool ten_view_is_of_role(const char *target, const char *role) {
    size_t size = strlen(role);
    if (size == 0 || strncmp(target, role, size) != 0)
        return false;
    const char *slot = target + size;
    return *slot == '\0' || (*slot == '/' && slot[1] != '\0' && strspn(slot + 1, "0123456789") == strlen(slot + 1));
}

bool ten_view_role(const ten_view *view, const tenure_info *info, ten_view_role_found *ret_found) {
    bool found = false;
    *ret_found = (ten_view_role_found){0};
    for (size_t i = 0; i < view->instance_count; i++) {
        const ten_view_instance *instance = &view->instances[i];
        if (!ten_view_is_of_role(info->target, instance->metadata.role))
            continue;
        found = true;
        ret_found->is_lock |= instance->metadata.is_lock;
        ret_found->waiting += instance->held == 0;
    }
    return found;
}
