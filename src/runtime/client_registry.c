/*
 * The rest of the C API: looking at leases, the target registry, the feed of changes, and health. It carries calls to
 * the store and copies what comes back into the public structures.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/io.h"
#include "runtime/client.h"
#include "runtime/client_history.h"

#define PAGE_SIZE  256u
#define EVENT_SIZE 256u

/* ---- looking */

static void copy_text(char *to, size_t size, const char *text) {
    snprintf(to, size, "%s", text ? text : "");
}

/* Times for display are counted back and forth from now: the store keeps what decides on its own clock. */
static void fill_times(tenure_info *info, uint64_t wall_ms) {
    if (info->holder[0] == '\0')
        return;
    info->expires_at_ms = wall_ms + info->remaining_ms;
    info->renewed_at_ms = ten_sub_saturating(info->expires_at_ms, info->ttl_ms);
}

static void info_from_row(const ten_row *row, uint64_t wall_ms, tenure_info *info) {
    *info = (tenure_info){.token = row->token,
                          .ttl_ms = row->ttl_ms,
                          .remaining_ms = row->remaining_ms,
                          .acquired_at_ms = row->acquired_at_ms,
                          .registered = row->registered,
                          .paused = row->registered && row->target.paused,
                          .barred = row->barred};
    copy_text(info->target, sizeof info->target, row->target.id);
    copy_text(info->holder, sizeof info->holder, row->holder);
    fill_times(info, wall_ms);
}

int tenure_get_info(tenure_client *client, const char *target, tenure_info *ret_info) {
    int r = ten_client_check_target(client, target);
    if (r < 0)
        return r;
    r = ten_client_enter(client);
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_READ,
                 .flags = TEN_OP_REQUIRE_TARGET,
                 .namespace_name = client->namespace_name,
                 .target = target};
    ten_result result;
    r = ten_store_apply(client->store, &op, &result, 1, client->timing.timeout_ms);
    if (r == TENURE_OK && result.outcome == TEN_UNKNOWN)
        r = ten_fail(&client->store->error, TENURE_E_UNKNOWN_TARGET,
                     "there is no target %s in the namespace %s: it was neither registered nor ever leased", target,
                     client->namespace_name);
    if (r == TENURE_OK) {
        ten_row row = {.target = {.id = target, .paused = result.paused},
                       .registered = result.registered,
                       .barred = result.barred,
                       .holder = result.holder,
                       .token = result.token,
                       .ttl_ms = result.ttl_ms,
                       .remaining_ms = result.remaining_ms,
                       .acquired_at_ms = result.acquired_at_ms};
        info_from_row(&row, ten_wall_ms(client->store->clock), ret_info);
    }
    return ten_client_leave(client, r);
}

/* A page is copied before the caller sees it, so that its function may use the client. */
struct page {
    tenure_info infos[PAGE_SIZE];
    size_t count;
    uint64_t wall_ms;
};

static int add_to_page(const ten_row *row, void *userdata) {
    struct page *page = userdata;
    info_from_row(row, page->wall_ms, &page->infos[page->count++]);
    return 0;
}

static int read_page(tenure_client *client, const ten_query *query, ten_row_fn each, void *userdata) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    return ten_client_leave(client,
                            client->store->ops->list(client->store, query, each, userdata, client->timing.timeout_ms));
}

int tenure_list(tenure_client *client, enum tenure_filter filter, tenure_info_fn each, void *userdata) {
    struct page *page = ten_malloc(sizeof *page);
    if (!page)
        return ten_last_error_say(client, TENURE_E_NOMEM, "out of memory for a listing");
    char after[TENURE_TARGET_MAX + 1] = "";
    int r = TENURE_OK;
    do {
        page->count = 0;
        page->wall_ms = ten_wall_ms(client->store->clock);
        r = read_page(
            client,
            &(ten_query){
                .namespace_name = client->namespace_name, .filter = filter, .after = after, .limit = PAGE_SIZE},
            add_to_page, page);
        for (size_t i = 0; r == 0 && i < page->count; i++)
            r = each(&page->infos[i], userdata);
        if (page->count > 0)
            memcpy(after, page->infos[page->count - 1].target, sizeof after);
    } while (r == 0 && page->count == PAGE_SIZE);
    ten_free(page);
    return r;
}

/* ---- instances */

struct roll_call {
    tenure_instance_fn each;
    void *userdata;
};

static int hand_out_instance(const ten_instance *instance, void *userdata) {
    struct roll_call *call = userdata;
    tenure_instance shown = {.instance = instance->instance,
                             .weight = instance->weight,
                             .draining = instance->ask == TEN_ASK_DRAIN,
                             .ttl_ms = instance->ttl_ms,
                             .remaining_ms = instance->remaining_ms,
                             .since_ms = instance->since_ms,
                             .metadata = instance->metadata};
    return call->each(&shown, call->userdata);
}

int tenure_instances_list(tenure_client *client, tenure_instance_fn each, void *userdata) {
    struct roll_call call = {.each = each, .userdata = userdata};
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    return ten_client_leave(client,
                            client->store->ops->list_instances(client->store, client->namespace_name, hand_out_instance,
                                                               &call, client->timing.timeout_ms));
}

int tenure_drain(tenure_client *client, const char *instance, bool undo) {
    ten_error error;
    if (!instance || ten_id_check_holder(instance, &error) < 0)
        return instance ? ten_last_error_set(client, &error)
                        : ten_last_error_say(client, TENURE_E_INVALID, "no instance was given");
    ten_op op = {.kind = TEN_OP_ASK,
                 .namespace_name = client->namespace_name,
                 .holder = instance,
                 .ask = undo ? TEN_ASK_UNDO : TEN_ASK_DRAIN,
                 .actor = client->instance};
    ten_result result;
    int r = ten_client_apply(client, &op, &result);
    if (r == TENURE_OK && result.outcome != TEN_OK)
        r = ten_last_error_say(client, TENURE_E_UNKNOWN_TARGET, "there is no live instance %s in the namespace %s",
                               instance, client->namespace_name);
    return r;
}

/* ---- the registry */

static int check_target(const tenure_client *client, const tenure_target *target) {
    int r = ten_client_check_target(client, target->id);
    if (r == TENURE_OK && target->every_ms > TENURE_TTL_MAX_MS)
        r = ten_last_error_say(client, TENURE_E_INVALID, "target %s: an interval is at most 366 days", target->id);
    return r;
}

static int edit(tenure_client *client, ten_target_edit *edits, size_t count) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    return ten_client_leave(client, client->store->ops->edit_targets(client->store, client->namespace_name, edits,
                                                                     count, client->timing.timeout_ms));
}

int tenure_targets_put(tenure_client *client, const tenure_target *targets, size_t count, size_t *ret_added) {
    for (size_t i = 0; i < count; i++) {
        int checked = check_target(client, &targets[i]);
        if (checked < 0)
            return checked;
    }
    ten_target_edit *edits = ten_calloc(count ? count : 1, sizeof *edits);
    if (!edits)
        return ten_last_error_say(client, TENURE_E_NOMEM, "out of memory for %zu targets", count);
    for (size_t i = 0; i < count; i++)
        edits[i] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = targets[i]};
    int r = edit(client, edits, count);
    size_t added = 0;
    for (size_t i = 0; i < count; i++)
        added += !edits[i].found;
    if (r == TENURE_OK && ret_added)
        *ret_added = added;
    ten_free(edits);
    return r;
}

static int edit_known(tenure_client *client, enum ten_target_action action, const char *id) {
    int r = ten_client_check_target(client, id);
    ten_target_edit change = {.action = action, .target = {.id = id}};
    if (r == TENURE_OK)
        r = edit(client, &change, 1);
    if (r == TENURE_OK && !change.found)
        r = ten_last_error_say(client, TENURE_E_UNKNOWN_TARGET,
                               "there is no target %s in the registry of the namespace %s", id, client->namespace_name);
    return r;
}

int tenure_target_remove(tenure_client *client, const char *id) {
    return edit_known(client, TEN_TARGET_REMOVE, id);
}

int tenure_target_pause(tenure_client *client, const char *id, bool paused) {
    return edit_known(client, paused ? TEN_TARGET_PAUSE : TEN_TARGET_RESUME, id);
}

struct target_page {
    tenure_target_fn each;
    void *userdata;
    size_t count;
    char last[TENURE_TARGET_MAX + 1];
};

static int hand_out_target(const ten_row *row, void *userdata) {
    struct target_page *page = userdata;
    page->count++;
    copy_text(page->last, sizeof page->last, row->target.id);
    return page->each(&row->target, page->userdata);
}

int tenure_targets_list(tenure_client *client, tenure_target_fn each, void *userdata) {
    struct target_page page = {.each = each, .userdata = userdata};
    char after[TENURE_TARGET_MAX + 1] = "";
    int r;
    do {
        page.count = 0;
        r = read_page(client,
                      &(ten_query){.namespace_name = client->namespace_name,
                                   .filter = TENURE_REGISTERED,
                                   .after = after,
                                   .limit = PAGE_SIZE},
                      hand_out_target, &page);
        memcpy(after, page.last, sizeof after);
    } while (r == 0 && page.count == PAGE_SIZE);
    return r;
}

/* ---- changes */

int tenure_watch_start(tenure_client *client, uint64_t *ret_cursor) {
    uint64_t cursor = UINT64_MAX;
    int fd;
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    /* From here on a change makes the descriptor readable, so none between this and the first wait is slept through. */
    (void)client->store->ops->watch(client->store, client->namespace_name, &fd);
    r = client->store->ops->changes(client->store, client->namespace_name, &cursor, 1, NULL, NULL,
                                    client->timing.timeout_ms);
    if (r == TENURE_OK)
        *ret_cursor = cursor;
    return ten_client_leave(client, r);
}

struct events {
    tenure_change_fn each;
    void *userdata;
    size_t count;
};

static int hand_out_change(const ten_change *change, void *userdata) {
    struct events *events = userdata;
    tenure_change shown = {.cursor = change->cursor,
                           .at_ms = change->at_ms,
                           .event = ten_event_name(change->kind),
                           .target = change->target,
                           .instance = change->instance,
                           .reason = ten_reason_name(change->reason),
                           .actor = change->actor,
                           .token = change->token,
                           .held_ms = change->held_ms,
                           .free_ms = change->free_ms};
    events->count++;
    if (events->each)
        events->each(&shown, events->userdata);
    return 0;
}

/* Hands out what there is. */
static int look(tenure_client *client, uint64_t *cursor, struct events *events, ten_waiter *waiter) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    ten_waiter_add(client, waiter);
    ten_waiter_clear(client, waiter);
    r = client->store->ops->changes(client->store, client->namespace_name, cursor, EVENT_SIZE, hand_out_change, events,
                                    client->timing.timeout_ms);
    return ten_client_leave(client, r);
}

int tenure_watch_wait(tenure_client *client, uint64_t *cursor, uint64_t wait_ms, tenure_change_fn each,
                      void *userdata) {
    struct events events = {.each = each, .userdata = userdata};
    ten_waiter waiter = {0};
    uint64_t end_ms = ten_add_saturating(ten_boot_ms(client->store->clock), wait_ms);
    int r;
    do {
        r = look(client, cursor, &events, &waiter);
        uint64_t left_ms = ten_sub_saturating(end_ms, ten_boot_ms(client->store->clock));
        if (r < 0 || events.count > 0 || left_ms == 0)
            break;
        r = ten_waiter_sleep(client, &waiter, left_ms, "changes");
    } while (r == TENURE_OK);
    ten_waiter_remove(client, &waiter);
    return r;
}

int tenure_history(tenure_client *client, const char *target, uint64_t for_ms, size_t limit, tenure_change_fn each,
                   void *userdata) {
    struct events events = {.each = each, .userdata = userdata};
    ten_error error = {0};
    int r = target ? ten_id_check_target(target, &error) : TENURE_OK;
    if (r < 0)
        return ten_last_error_say(client, r, "%s", error.message);
    r = ten_client_enter(client);
    if (r < 0)
        return r;
    r = ten_client_history_list(
        client->store, client->namespace_name,
        &(ten_history_query){.target = target, .for_ms = for_ms, .limit = limit ? limit : SIZE_MAX}, hand_out_change,
        &events, client->timing.timeout_ms);
    return ten_client_leave(client, r);
}

/* ---- health */

int tenure_ping(tenure_client *client, uint64_t *ret_elapsed_us) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    uint64_t start_us = ten_boot_us();
    r = client->store->ops->ping(client->store, client->timing.timeout_ms);
    if (r == TENURE_OK)
        *ret_elapsed_us = ten_boot_us() - start_us;
    return ten_client_leave(client, r);
}

int tenure_check(tenure_client *client, tenure_check_fn each, void *userdata) {
    int r = ten_client_enter(client);
    if (r < 0)
        return r;
    return ten_client_leave(client,
                            client->store->ops->check(client->store, each, userdata, client->timing.timeout_ms));
}
