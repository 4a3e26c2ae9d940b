/*
 * See shares.h. The plan counts the targets that an agent would: those that are registered and not paused, and those
 * that an instance holds, because the targets of a file are registered nowhere.
 */
#include "server/shares.h"

#include <string.h>

#include "base/alloc.h"
#include "runtime/metadata.h"

#define PAGE_ROWS 10000u

static int add_instance(const ten_instance *instance, void *userdata) {
    const ten_shares *shares = userdata;
    ten_metadata_shown shown;
    ten_metadata_read(instance->metadata, &shown);
    bool is_candidate = shown.role[0] != '\0'; /* it has no share, and what it leads is not planned */
    ten_metadata_free(&shown);
    if (is_candidate)
        return 0;
    return ten_plan_set_instance(shares->plan, instance->instance, instance->weight) == TEN_PLAN_NONE ? TENURE_E_NOMEM
                                                                                                      : 0;
}

static bool note_holder(ten_shares *shares, uint32_t target, uint32_t holder) {
    uint32_t room = shares->room;
    if (!TEN_GROW(shares->holders, shares->room, target + 1))
        return false;
    while (room < shares->room)
        shares->holders[room++] = TEN_PLAN_NONE;
    shares->holders[target] = holder;
    return true;
}

static bool plan_row(ten_shares *shares, const ten_row *row) {
    uint32_t holder = row->holder ? ten_plan_find_instance(shares->plan, row->holder) : TEN_PLAN_NONE;
    if (row->registered ? row->target.paused : holder == TEN_PLAN_NONE)
        return true;
    uint32_t target = ten_plan_add_target(shares->plan, row->target.id);
    return target != TEN_PLAN_NONE && note_holder(shares, target, holder) &&
           ten_plan_pin_target(shares->plan, target, row->pin.instance, row->pin.away);
}

static int count_row(const ten_row *row, void *userdata) {
    ten_shares *shares = userdata;
    shares->count++;
    snprintf(shares->after, sizeof shares->after, "%s", row->target.id);
    if (shares->plan && !plan_row(shares, row))
        return TENURE_E_NOMEM;
    if (!row->holder)
        return 0;
    uintptr_t held = (uintptr_t)ten_map_get(&shares->held, row->holder);
    return ten_map_put(&shares->held, row->holder, (void *)(held + 1)) ? 0 : TENURE_E_NOMEM;
}

static int read_rows(ten_shares *shares, ten_store *store, uint64_t timeout_ms) {
    int r = TENURE_OK;
    do {
        char after[TENURE_TARGET_MAX + 1];
        memcpy(after, shares->after, sizeof after);
        ten_query query = {.namespace_name = shares->namespace_name,
                           .filter = shares->plan ? TENURE_ALL : TENURE_LEASED,
                           .after = after[0] ? after : NULL,
                           .limit = PAGE_ROWS};
        shares->count = 0;
        r = store->ops->list(store, &query, count_row, shares, timeout_ms);
    } while (r == TENURE_OK && shares->count == PAGE_ROWS);
    return r;
}

int ten_shares_read(ten_shares *shares, ten_store *store, const char *namespace_name, bool with_plan,
                    uint64_t timeout_ms) {
    *shares = (ten_shares){.namespace_name = namespace_name};
    int r = TENURE_OK;
    if (with_plan) {
        shares->plan = ten_plan_new(NULL, NULL);
        r = shares->plan ? store->ops->list_instances(store, namespace_name, add_instance, shares, timeout_ms)
                         : TENURE_E_NOMEM;
    }
    TEN_STEP(r, read_rows(shares, store, timeout_ms));
    if (r == TENURE_OK && with_plan && !ten_plan_settle(shares->plan))
        r = TENURE_E_NOMEM;
    return r;
}

void ten_shares_free(ten_shares *shares) {
    ten_map_free(&shares->held);
    ten_plan_free(shares->plan);
    ten_free(shares->holders);
    *shares = (ten_shares){0};
}

size_t ten_shares_held(const ten_shares *shares, const char *instance) {
    return (uintptr_t)ten_map_get(&shares->held, instance);
}

size_t ten_shares_planned(const ten_shares *shares, const char *instance) {
    uint32_t number = ten_plan_find_instance(shares->plan, instance);
    return number == TEN_PLAN_NONE ? 0 : ten_plan_share(shares->plan, number);
}

void ten_shares_moving(const ten_shares *shares, const char *instance,
                       void (*each)(const char *target, const char *planned, void *userdata), void *userdata) {
    uint32_t number = ten_plan_find_instance(shares->plan, instance);
    uint32_t bound = ten_plan_target_bound(shares->plan);
    for (uint32_t target = 0; number != TEN_PLAN_NONE && target < bound && target < shares->room; target++) {
        uint32_t planned = ten_plan_holder(shares->plan, target);
        if (shares->holders[target] == number && planned != number)
            each(ten_plan_target_id(shares->plan, target),
                 planned == TEN_PLAN_NONE ? "" : ten_plan_instance_id(shares->plan, planned), userdata);
    }
}
