/*
 * The feed of changes and the history, for the program.
 */
#include <string.h>

#include "base/id.h"
#include "runtime/context_history.h"
#include "runtime/context_state.h"
#include "runtime/copies.h"

#define PAGE_SIZE 256u

int ten_context_watch_start(tenure_context *context, ten_channel *channel, uint64_t *ret_cursor) {
    uint64_t cursor = TEN_CURSOR_NOW;
    ten_store *store;
    int r = ten_context_enter(context, channel, &store);
    if (r < 0)
        return r;
    r = store->ops->changes(store, channel->namespace_name, &cursor, 1, NULL, NULL, context->timing.timeout_ms);
    if (r == TENURE_OK)
        *ret_cursor = cursor;
    return ten_context_leave(context, channel, r);
}

int tenure_watch_start(tenure_context *context, uint64_t *ret_cursor) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !ret_cursor)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no place for the cursor");
    return r < 0 ? r : ten_context_watch_start(context, context->channel, ret_cursor);
}

static int keep_change(const ten_change *change, void *userdata) {
    ten_copies *copies = userdata;
    tenure_change shown = {.size = sizeof shown,
                           .kind = change->kind,
                           .cursor = change->cursor,
                           .at_ms = change->at_ms,
                           .token = change->token,
                           .target = change->target,
                           .instance = change->instance,
                           .reason = ten_change_reason(change),
                           .actor = change->actor ? change->actor : "",
                           .held_ms = change->held_ms,
                           .free_ms = change->free_ms,
                           .instant_ms = change->instant_ms,
                           .late_ms = change->late_ms,
                           .duration_ms = change->duration_ms,
                           .count = change->count,
                           .exit_code = change->exit_code};
    bool kept = ten_copies_keep(copies, &shown.target) && ten_copies_keep(copies, &shown.instance) &&
                ten_copies_keep(copies, &shown.actor) && ten_copies_add(copies, &shown, sizeof shown);
    return kept ? 0 : TENURE_E_NOMEM;
}

/* Without the turn: `each` may use the context. */
static int hand_out(const ten_copies *copies, uint64_t *cursor, tenure_change_fn each, void *userdata) {
    for (size_t i = 0; each && i < copies->count; i++) {
        const tenure_change *change = ten_copies_at(copies, i, sizeof *change);
        int stopped = each(change, userdata);
        if (stopped != 0) {
            if (cursor)
                *cursor = change->cursor;
            return stopped;
        }
    }
    return TENURE_OK;
}

static int read_changes(tenure_context *context, ten_channel *channel, uint64_t *cursor, ten_copies *copies,
                        uint64_t *ret_notices) {
    ten_store *store;
    int r = ten_context_enter(context, channel, &store);
    if (r < 0)
        return r;
    ten_carrier_lock(&context->carrier);
    *ret_notices = channel->notices;
    ten_carrier_unlock(&context->carrier);
    r = store->ops->changes(store, channel->namespace_name, cursor, PAGE_SIZE, keep_change, copies,
                            context->timing.timeout_ms);
    return ten_context_leave(context, channel, r);
}

/* TENURE_OK: a notice came, or it is time to read again. */
static int wait_for_notice(tenure_context *context, ten_channel *channel, uint64_t seen, uint64_t end_ms) {
    ten_carrier_lock(&context->carrier);
    int r = ten_carrier_wait_notice(&context->carrier, channel, seen, end_ms);
    ten_carrier_unlock(&context->carrier);
    return r == TENURE_E_CANCELLED ? ten_last_error_say(context, r, "waiting for changes was cancelled") : r;
}

int ten_context_watch_wait(tenure_context *context, ten_channel *channel, uint64_t *cursor, uint64_t wait_ms,
                           tenure_change_fn each, void *userdata) {
    ten_error error;
    int r = TENURE_OK;
    if (wait_ms > 0 && ten_carrier_start(&context->carrier, &error) < 0)
        return ten_last_error_set(context, &error);
    uint64_t end_ms = ten_add_saturating(ten_carrier_now_ms(&context->carrier), wait_ms);
    /* It counts as a watcher from before the first look on, so that no change between the two is missed. */
    ten_carrier_lock(&context->carrier);
    channel->watchers++;
    ten_carrier_unlock(&context->carrier);
    ten_object_use use;
    ten_object_use_begin(&use, context);
    for (;;) {
        ten_copies copies = {0};
        uint64_t seen = 0;
        r = read_changes(context, channel, cursor, &copies, &seen);
        bool any = copies.count > 0;
        if (r == TENURE_OK)
            r = hand_out(&copies, cursor, each, userdata);
        ten_copies_free(&copies);
        if (r != 0 || any || ten_carrier_now_ms(&context->carrier) >= end_ms)
            break;
        r = wait_for_notice(context, channel, seen, end_ms);
        if (r < 0 && r != TENURE_E_TIMEOUT)
            break;
    }
    ten_object_use_end(&use);
    ten_carrier_lock(&context->carrier);
    channel->watchers--;
    ten_carrier_unlock(&context->carrier);
    return r;
}

int tenure_watch_wait(tenure_context *context, uint64_t *cursor, uint64_t wait_ms, tenure_change_fn each,
                      void *userdata) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !cursor)
        r = ten_last_error_say(context, TENURE_E_INVALID, "there is no cursor: tenure_watch_start() gives one");
    return r < 0 ? r : ten_context_watch_wait(context, context->channel, cursor, wait_ms, each, userdata);
}

int tenure_history_read(tenure_context *context, const char *target, uint64_t for_ms, size_t limit,
                        tenure_change_fn each, void *userdata) {
    ten_copies copies = {0};
    ten_store *store;
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && target)
        r = ten_context_check_target(context, target);
    if (r == TENURE_OK && (!each || limit == 0))
        r = ten_last_error_say(context, TENURE_E_INVALID,
                               each ? "a limit of 0 changes is none: SIZE_MAX is all" : "no function was given");
    if (r == TENURE_OK)
        r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    r = ten_context_history_list(store, context->namespace_name,
                                 &(ten_history_query){.target = target, .for_ms = for_ms, .limit = limit}, keep_change,
                                 &copies, context->timing.timeout_ms);
    r = ten_context_leave(context, NULL, r);
    ten_object_use use;
    ten_object_use_begin(&use, context);
    if (r == TENURE_OK)
        r = hand_out(&copies, NULL, each, userdata);
    ten_object_use_end(&use);
    ten_copies_free(&copies);
    return r;
}
