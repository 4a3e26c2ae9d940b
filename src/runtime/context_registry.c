/*
 * The target registry of a context's namespace.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/utf8.h"
#include "runtime/context_state.h"
#include "runtime/copies.h"
#include "store/common/json_value.h"

#define PAGE_SIZE 256u

static int check_target(const tenure_context *context, const tenure_target *target) {
    int r = ten_context_check_target(context, target->id);
    if (r == TENURE_OK && target->every_ms > TENURE_TTL_MAX_MS)
        r = ten_last_error_say(context, TENURE_E_INVALID, "target %s: an interval is at most 366 days", target->id);
    ten_error error;
    if (r == TENURE_OK && target->spec && ten_json_value_check(target->spec, &error) < 0)
        r = ten_last_error_say(context, TENURE_E_INVALID, "target %s: spec is %s", target->id, error.message);
    return r;
}

static int edit(tenure_context *context, ten_target_edit *edits, size_t count) {
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    return ten_context_leave(
        context, NULL,
        store->ops->edit_targets(store, context->namespace_name, edits, count, context->timing.timeout_ms));
}

/* The program's targets, whose version of the struct may be another. */
static int read_targets(const tenure_context *context, const tenure_target *targets, size_t count,
                        ten_target_edit *edits) {
    int r = TENURE_OK;
    const char *at = (const char *)targets;
    for (size_t i = 0; i < count && r == TENURE_OK; i++, at += targets->size) {
        edits[i].action = TEN_TARGET_PUT;
        r = ten_struct_read(context, "tenure_target", at, &edits[i].target, sizeof edits[i].target);
        if (r == TENURE_OK && edits[i].target.size != targets->size)
            r = ten_last_error_say(context, TENURE_E_INVALID,
                                   "tenure_target.size of target number %zu is another than that of the first", i);
        if (r == TENURE_OK)
            r = check_target(context, &edits[i].target);
    }
    return r;
}

int tenure_registry_put(tenure_context *context, const tenure_target *targets, size_t count, size_t *ret_added) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && count > 0)
        r = ten_struct_check(context, "tenure_target", targets);
    if (r < 0)
        return r;
    ten_target_edit *edits = ten_calloc(count ? count : 1, sizeof *edits);
    if (!edits)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for %zu targets", count);
    r = read_targets(context, targets, count, edits);
    if (r == TENURE_OK)
        r = edit(context, edits, count);
    size_t added = 0;
    for (size_t i = 0; i < count; i++)
        added += !edits[i].found;
    if (r == TENURE_OK && ret_added)
        *ret_added = added;
    ten_free(edits);
    return r;
}

static int not_registered(const tenure_context *context, const char *id) {
    return ten_last_error_say(context, TENURE_E_UNKNOWN_TARGET,
                              "there is no target %s in the registry of the namespace %s", id, context->namespace_name);
}

static int edit_known(tenure_context *context, enum ten_target_action action, const char *id, ten_pin pin) {
    int r = ten_context_check_named(context, id);
    ten_target_edit change = {.action = action, .target = {.id = id}, .pin = pin};
    if (r == TENURE_OK)
        r = edit(context, &change, 1);
    if (r == TENURE_OK && !change.found)
        r = not_registered(context, id);
    return r;
}

int tenure_registry_remove(tenure_context *context, const char *id) {
    return edit_known(context, TEN_TARGET_REMOVE, id, (ten_pin){0});
}

int tenure_registry_pause(tenure_context *context, const char *id) {
    return edit_known(context, TEN_TARGET_PAUSE, id, (ten_pin){0});
}

int tenure_registry_resume(tenure_context *context, const char *id) {
    return edit_known(context, TEN_TARGET_RESUME, id, (ten_pin){0});
}

/* ---- pins */

static int check_pin(const tenure_context *context, const tenure_pin *pin) {
    ten_error error;
    if (ten_id_check_holder(pin->instance, &error) < 0)
        return ten_last_error_say(context, TENURE_E_INVALID, "%s", error.message);
    if (pin->remaining_ms > TENURE_TTL_MAX_MS)
        return ten_last_error_say(context, TENURE_E_INVALID, "a pin lasts at most 366 days");
    if (!ten_utf8_is_printable(pin->reason, strlen(pin->reason)))
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "the reason of a pin must be UTF-8 without control characters");
    return TENURE_OK;
}

int tenure_registry_pin(tenure_context *context, const char *id, const tenure_pin *pin) {
    tenure_pin given;
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_struct_read(context, "tenure_pin", pin, &given, sizeof given);
    given.instance[TENURE_HOLDER_MAX] = given.reason[TENURE_PIN_REASON_MAX] = '\0';
    if (r == TENURE_OK)
        r = check_pin(context, &given);
    if (r < 0)
        return r;
    return edit_known(context, TEN_TARGET_PIN, id,
                      (ten_pin){.instance = given.instance,
                                .away = given.away,
                                .left_ms = given.remaining_ms ? given.remaining_ms : TENURE_PIN_DEFAULT_MS,
                                .actor = ten_context_actor(context),
                                .reason = given.reason[0] ? given.reason : NULL});
}

int tenure_registry_unpin(tenure_context *context, const char *id) {
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    return r < 0 ? r : edit_known(context, TEN_TARGET_UNPIN, id, (ten_pin){.actor = ten_context_actor(context)});
}

struct pin_reading {
    tenure_pin pin;
    bool registered;
};

static int take_pin(const ten_row *row, void *userdata) {
    struct pin_reading *reading = userdata;
    tenure_pin *pin = &reading->pin;
    reading->registered = row->registered;
    if (!row->pin.instance)
        return 0;
    pin->remaining_ms = row->pin.left_ms;
    pin->until_ms = row->pin.until_ms;
    pin->away = row->pin.away;
    snprintf(pin->instance, sizeof pin->instance, "%s", row->pin.instance);
    snprintf(pin->reason, sizeof pin->reason, "%s", row->pin.reason ? row->pin.reason : "");
    snprintf(pin->actor, sizeof pin->actor, "%s", row->pin.actor ? row->pin.actor : "");
    return 0;
}

int tenure_registry_pin_read(tenure_context *context, const char *id, tenure_pin *ret_pin) {
    ten_store *store;
    struct pin_reading reading = {.pin = {.size = sizeof reading.pin}};
    int r = ten_context_check_named(context, id);
    if (r == TENURE_OK)
        r = ten_struct_check(context, "tenure_pin", ret_pin);
    if (r == TENURE_OK)
        r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    r = ten_context_leave(context, NULL,
                          store->ops->read_targets(store, context->namespace_name, &id, 1, take_pin, &reading,
                                                   context->timing.timeout_ms));
    if (r == TENURE_OK && !reading.registered)
        return not_registered(context, id);
    if (r == TENURE_OK)
        ten_struct_write(ret_pin, &reading.pin, sizeof reading.pin);
    return r;
}

/* ---- forgetting */

static int forgotten(tenure_context *context, const char *id, enum ten_forget_outcome outcome) {
    switch (outcome) {
    case TEN_FORGET_HELD:
        return ten_last_error_say(context, TENURE_E_HELD,
                                  "cannot forget %s: it is held; release it first, or wait until its lease ends", id);
    case TEN_FORGET_REGISTERED:
        return ten_last_error_say(context, TENURE_E_INVALID,
                                  "cannot forget %s: it is registered; remove it first ('tenure target rm %s')", id,
                                  id);
    case TEN_FORGET_RECOVERING:
        return ten_last_error_say(context, TENURE_E_HELD,
                                  "cannot forget %s: the store is recovering and does not know yet what is held; try "
                                  "again in a TTL",
                                  id);
    case TEN_FORGET_UNKNOWN:
        return ten_last_error_say(context, TENURE_E_UNKNOWN_TARGET, "there is no target %s in the namespace %s", id,
                                  context->namespace_name);
    default:
        return TENURE_OK;
    }
}

int tenure_target_forget(tenure_context *context, const char *target) {
    ten_store *store;
    int r = ten_context_check_named(context, target);
    if (r == TENURE_OK)
        r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    ten_forget item = {.id = target};
    r = ten_context_leave(context, NULL,
                          ten_store_forget(store, context->namespace_name, &item, 1, context->timing.timeout_ms));
    return r < 0 ? r : forgotten(context, target, item.outcome);
}

int tenure_target_forget_unregistered(tenure_context *context, size_t *ret_count) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r < 0)
        return r;
    char after[TENURE_TARGET_MAX + 1] = "";
    size_t count = 0;
    ten_object_use use;
    ten_object_use_begin(&use, context);
    do {
        ten_store *store;
        size_t some = 0;
        r = ten_context_enter(context, NULL, &store);
        if (r == TENURE_OK)
            r = ten_context_leave(context, NULL,
                                  ten_store_forget_unregistered(store, context->namespace_name, after, &some,
                                                                context->timing.timeout_ms));
        count += some;
    } while (r == TENURE_OK && after[0]);
    ten_object_use_end(&use);
    if (ret_count)
        *ret_count = count;
    return r;
}

/* ---- listing */

static int keep_target(const ten_row *row, void *userdata) {
    ten_copies *copies = userdata;
    tenure_target target = row->target;
    target.size = sizeof target;
    bool kept = ten_copies_keep(copies, &target.id) && ten_copies_keep(copies, &target.url) &&
                ten_copies_keep(copies, &target.exec) && ten_copies_keep(copies, &target.spec) &&
                ten_copies_add(copies, &target, sizeof target);
    return kept ? 0 : TENURE_E_NOMEM;
}

static int read_page(tenure_context *context, const char *after, ten_copies *copies) {
    ten_query query = {
        .namespace_name = context->namespace_name, .filter = TENURE_REGISTERED, .after = after, .limit = PAGE_SIZE};
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    return ten_context_leave(context, NULL,
                             store->ops->list(store, &query, keep_target, copies, context->timing.timeout_ms));
}

int tenure_registry_list(tenure_context *context, tenure_target_fn each, void *userdata) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !each)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no function was given");
    if (r < 0)
        return r;
    char after[TENURE_TARGET_MAX + 1] = "";
    size_t count;
    ten_object_use use;
    ten_object_use_begin(&use, context);
    do {
        ten_copies copies = {0};
        r = read_page(context, after, &copies);
        count = copies.count;
        for (size_t i = 0; r == 0 && i < count; i++) {
            const tenure_target *target = ten_copies_at(&copies, i, sizeof *target);
            snprintf(after, sizeof after, "%s", target->id);
            r = each(target, userdata);
        }
        ten_copies_free(&copies);
    } while (r == 0 && count == PAGE_SIZE);
    ten_object_use_end(&use);
    return r;
}
