/*
 * Reading targets and instances, operations by token, forcing, draining, and health: calls on the store of a context,
 * and copies of what comes back in the public structures.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/duration.h"
#include "base/id.h"
#include "runtime/context.h"
#include "runtime/context_state.h"
#include "runtime/copies.h"

#define PAGE_SIZE 256u

/* ---- targets */

static void copy_text(char *to, size_t size, const char *text) {
    snprintf(to, size, "%s", text ? text : "");
}

/* Times for display are counted back and forth from now: the store keeps what decides on its own clock. */
static void fill_times(tenure_info *info, uint64_t wall_ms) {
    if (info->holder[0] == '\0')
        return;
    info->expires_at_ms = wall_ms + info->remaining_ms;
    info->renewed_at_ms = info->ttl_ms ? ten_sub_saturating(info->expires_at_ms, info->ttl_ms) : 0; /* else not known */
}

static void info_from_row(const ten_row *row, uint64_t wall_ms, tenure_info *info) {
    *info = (tenure_info){.size = sizeof *info,
                          .token = row->token,
                          .ttl_ms = row->ttl_ms,
                          .remaining_ms = row->remaining_ms,
                          .acquired_at_ms = row->acquired_at_ms,
                          .registered = row->registered,
                          .paused = row->registered && row->target.paused,
                          .barred = row->barred};
    copy_text(info->target, sizeof info->target, row->target.id);
    copy_text(info->holder, sizeof info->holder, row->holder);
    copy_text(info->pin_instance, sizeof info->pin_instance, row->pin.instance);
    info->pin_away = row->pin.away;
    info->pin_remaining_ms = row->pin.instance ? row->pin.left_ms : 0;
    fill_times(info, wall_ms);
}

int tenure_target_read(tenure_context *context, const char *target, tenure_info *ret_info) {
    int r = ten_context_check_named(context, target);
    if (r == TENURE_OK)
        r = ten_struct_check(context, "tenure_info", ret_info);
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_READ, .flags = TEN_OP_REQUIRE_TARGET, .target = target};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    r = ten_context_apply(context, NULL, &op, &result, holder);
    if (r < 0)
        return r;
    if (result.outcome == TEN_UNKNOWN)
        return ten_context_say_unknown(context, target);
    ten_row row = {.target = {.id = target, .paused = result.paused},
                   .registered = result.registered,
                   .barred = result.barred,
                   .holder = result.holder,
                   .token = result.token,
                   .ttl_ms = result.ttl_ms,
                   .remaining_ms = result.remaining_ms,
                   .acquired_at_ms = result.acquired_at_ms};
    tenure_info info;
    info_from_row(&row, ten_wall_ms(context->carrier.clock), &info);
    ten_struct_write(ret_info, &info, sizeof info);
    return TENURE_OK;
}

/* A page is copied before the program sees it, so that its function may use the context. */
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

static int read_page(tenure_context *context, enum tenure_filter filter, const char *after, struct page *page) {
    ten_query query = {.namespace_name = context->namespace_name, .filter = filter, .after = after, .limit = PAGE_SIZE};
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    page->count = 0;
    page->wall_ms = ten_wall_ms(context->carrier.clock);
    return ten_context_leave(context, NULL,
                             store->ops->list(store, &query, add_to_page, page, context->timing.timeout_ms));
}

int tenure_target_list(tenure_context *context, enum tenure_filter filter, tenure_info_fn each, void *userdata) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && (!each || (unsigned)filter > TENURE_REGISTERED))
        r = ten_last_error_say(context, TENURE_E_INVALID, each ? "there is no filter %d" : "no function was given",
                               (int)filter);
    if (r < 0)
        return r;
    struct page *page = ten_malloc(sizeof *page);
    if (!page)
        return ten_last_error_say(context, TENURE_E_NOMEM, "out of memory for a listing");
    char after[TENURE_TARGET_MAX + 1] = "";
    ten_object_use use;
    ten_object_use_begin(&use, context);
    do {
        r = read_page(context, filter, after, page);
        for (size_t i = 0; r == 0 && i < page->count; i++)
            r = each(&page->infos[i], userdata);
        if (r == 0 && page->count > 0)
            memcpy(after, page->infos[page->count - 1].target, sizeof after);
    } while (r == 0 && page->count == PAGE_SIZE);
    ten_object_use_end(&use);
    ten_free(page);
    return r;
}

/* ---- instances */

static int keep_instance(const ten_instance *instance, void *userdata) {
    ten_copies *copies = userdata;
    tenure_instance shown = {.size = sizeof shown,
                             .instance = instance->instance,
                             .metadata = instance->metadata,
                             .ttl_ms = instance->ttl_ms,
                             .remaining_ms = instance->remaining_ms,
                             .since_ms = instance->since_ms,
                             .weight = instance->weight,
                             .draining = instance->ask == TEN_ASK_DRAIN};
    bool kept = ten_copies_keep(copies, &shown.instance) && ten_copies_keep(copies, &shown.metadata) &&
                ten_copies_add(copies, &shown, sizeof shown);
    return kept ? 0 : TENURE_E_NOMEM;
}

static int begin_listing(tenure_context *context, bool has_function, ten_store **ret_store) {
    int r = ten_object_check_waiting(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !has_function)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no function was given");
    return r == TENURE_OK ? ten_context_enter(context, NULL, ret_store) : r;
}

int tenure_instance_list(tenure_context *context, tenure_instance_fn each, void *userdata) {
    ten_copies copies = {0};
    ten_store *store;
    int r = begin_listing(context, each != NULL, &store);
    if (r < 0)
        return r;
    r = store->ops->list_instances(store, context->namespace_name, keep_instance, &copies, context->timing.timeout_ms);
    r = ten_context_leave(context, NULL, r);
    ten_object_use use;
    ten_object_use_begin(&use, context);
    for (size_t i = 0; r == 0 && i < copies.count; i++)
        r = each(ten_copies_at(&copies, i, sizeof(tenure_instance)), userdata);
    ten_object_use_end(&use);
    ten_copies_free(&copies);
    return r;
}

static int keep_name(const char *name, void *userdata) {
    ten_copies *copies = userdata;
    bool kept = ten_copies_keep(copies, &name) && ten_copies_add(copies, &name, sizeof name);
    return kept ? 0 : TENURE_E_NOMEM;
}

int tenure_namespace_list(tenure_context *context, tenure_name_fn each, void *userdata) {
    ten_copies copies = {0};
    ten_store *store;
    int r = begin_listing(context, each != NULL, &store);
    if (r < 0)
        return r;
    r = store->ops->list_namespaces ? store->ops->list_namespaces(store, keep_name, &copies, context->timing.timeout_ms)
                                    : ten_fail(&store->error, TENURE_E_UNSUPPORTED,
                                               "a store on %s cannot list its namespaces", store->ops->name);
    r = ten_context_leave(context, NULL, r);
    ten_object_use use;
    ten_object_use_begin(&use, context);
    for (size_t i = 0; r == 0 && i < copies.count; i++)
        r = each(*(const char *const *)ten_copies_at(&copies, i, sizeof(const char *)), userdata);
    ten_object_use_end(&use);
    ten_copies_free(&copies);
    return r;
}

static int check_instance(const tenure_context *context, const char *instance) {
    ten_error error;
    int r = ten_object_check(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK && !instance)
        r = ten_last_error_say(context, TENURE_E_INVALID, "no instance was given");
    if (r == TENURE_OK && ten_id_check_holder(instance, &error) < 0)
        r = ten_last_error_set(context, &error);
    return r;
}

static int ask_instance(tenure_context *context, const char *instance, enum ten_ask ask) {
    int r = check_instance(context, instance);
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_ASK, .holder = instance, .ask = ask, .actor = ten_context_actor(context)};
    ten_result result;
    r = ten_context_apply(context, NULL, &op, &result, NULL);
    if (r == TENURE_OK && result.outcome != TEN_OK)
        r = ten_last_error_say(context, TENURE_E_UNKNOWN_INSTANCE, "there is no live instance %s in the namespace %s",
                               instance, context->namespace_name);
    return r;
}

int tenure_instance_drain(tenure_context *context, const char *instance) {
    return ask_instance(context, instance, TEN_ASK_DRAIN);
}

int tenure_instance_undrain(tenure_context *context, const char *instance) {
    return ask_instance(context, instance, TEN_ASK_UNDO);
}

/* ---- by token */

int ten_context_check_token(const tenure_context *context, const char *target, uint64_t token) {
    int r = ten_context_check_named(context, target);
    if (r == TENURE_OK && (token == 0 || token > TENURE_TOKEN_MAX))
        r = ten_last_error_say(context, TENURE_E_INVALID,
                               "token %llu is not valid: it is a whole number from 1 to 9007199254740991",
                               (unsigned long long)token);
    return r;
}

int tenure_token_renew(tenure_context *context, const char *target, uint64_t token, uint64_t ttl_ms) {
    int r = ten_context_check_token(context, target, token);
    if (r < 0)
        return r;
    ten_op op = {.kind = TEN_OP_RENEW, .target = target, .token = token, .ttl_ms = ttl_ms};
    ten_result result;
    char holder[TENURE_HOLDER_MAX + 1];
    r = ten_context_apply(context, NULL, &op, &result, holder);
    return r < 0 || result.outcome == TEN_OK ? r : ten_context_say_lost(context, target, token, &result);
}

static int release(tenure_context *context, const ten_op *op, bool *ret_released) {
    ten_result result;
    int r = ten_context_apply(context, NULL, op, &result, NULL);
    if (r == TENURE_OK && ret_released)
        *ret_released = result.outcome == TEN_OK;
    return r;
}

int tenure_token_release(tenure_context *context, const char *target, uint64_t token, bool *ret_released) {
    int r = ten_context_check_token(context, target, token);
    return r < 0
               ? r
               : release(context,
                         &(ten_op){.kind = TEN_OP_RELEASE, .target = target, .token = token, .reason = TEN_REASON_DONE},
                         ret_released);
}

int tenure_force_release(tenure_context *context, const char *target, const char *instance, unsigned flags,
                         bool *ret_released) {
    int r = instance ? check_instance(context, instance) : ten_object_check(context, TEN_OBJECT_CONTEXT);
    if (r == TENURE_OK)
        r = ten_flags_check(context, flags, TENURE_NOW);
    if (r == TENURE_OK)
        r = ten_context_check_target(context, target);
    return r < 0 ? r
                 : release(context,
                           &(ten_op){.kind = TEN_OP_RELEASE,
                                     .flags = flags & TENURE_NOW ? TEN_OP_FORCE_NOW : TEN_OP_FORCE,
                                     .target = target,
                                     .holder = instance,
                                     .reason = TEN_REASON_FORCED,
                                     .actor = ten_context_actor(context)},
                           ret_released);
}

/* ---- health */

int tenure_store_ping(tenure_context *context, uint64_t *ret_elapsed_us) {
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    if (r < 0)
        return r;
    uint64_t start_us = ten_boot_us();
    r = store->ops->ping(store, context->timing.timeout_ms);
    if (r == TENURE_OK && ret_elapsed_us)
        *ret_elapsed_us = ten_boot_us() - start_us;
    return ten_context_leave(context, NULL, r);
}

static int ask_recovery(const tenure_context *context, ten_store *store, const char *actor, uint64_t *ret_left_ms) {
    if (store->ops->recovery)
        return store->ops->recovery(store, context->namespace_name, context->timing.ttl_ms, actor, ret_left_ms,
                                    context->timing.timeout_ms);
    if (strcmp(store->ops->name, "http") == 0)
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED,
                        "a recovery cannot be ended through a server: name the store behind it (--store)");
    return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "%s: this kind of store has no recovery to be ended by hand",
                    store->ops->name);
}

int ten_context_recovery(tenure_context *context, const char *actor, uint64_t *ret_left_ms) {
    ten_store *store;
    int r = ten_context_enter(context, NULL, &store);
    return r < 0 ? r : ten_context_leave(context, NULL, ask_recovery(context, store, actor, ret_left_ms));
}

static void check_recovery(const tenure_context *context, ten_store *store, tenure_check_fn each, void *userdata) {
    uint64_t left_ms = 0;
    char left[TEN_DURATION_SIZE];
    char found[128];
    if (!store->ops->recovery || ask_recovery(context, store, NULL, &left_ms) < 0)
        return;
    ten_duration_show(left_ms, left);
    snprintf(found, sizeof found, "the store may have lost data; newcomers wait for %s", left);
    each(left_ms > 0 ? TENURE_CHECK_WARN : TENURE_CHECK_OK, "recovery", left_ms > 0 ? found : "nothing is waited for",
         left_ms > 0
             ? "wait: living holders go on, and everybody else enters when their leases have ended. If no "
               "holder from before lives, `tenure doctor --end-recovery` ends the wait; a holder that does live "
               "would then work beside its successor"
             : "",
         userdata);
}

/* What a check found. */
struct finding {
    enum tenure_check_level level;
    const char *check;
    const char *found;
    const char *advice;
};

static void keep_finding(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                         void *userdata) {
    ten_copies *copies = userdata;
    struct finding finding = {.level = level, .check = check, .found = found, .advice = advice};
    if (ten_copies_keep(copies, &finding.check) && ten_copies_keep(copies, &finding.found) &&
        ten_copies_keep(copies, &finding.advice))
        (void)ten_copies_add(copies, &finding, sizeof finding); /* without memory, one less is reported */
}

int tenure_store_check(tenure_context *context, tenure_check_fn each, void *userdata) {
    ten_copies copies = {0};
    ten_store *store;
    int r = begin_listing(context, each != NULL, &store);
    if (r < 0)
        return r;
    r = store->ops->check(store, keep_finding, &copies, context->timing.timeout_ms);
    if (r == TENURE_OK)
        check_recovery(context, store, keep_finding, &copies);
    r = ten_context_leave(context, NULL, r);
    ten_object_use use;
    ten_object_use_begin(&use, context);
    for (size_t i = 0; i < copies.count; i++) {
        const struct finding *finding = ten_copies_at(&copies, i, sizeof *finding);
        each(finding->level, finding->check, finding->found, finding->advice, userdata);
    }
    ten_object_use_end(&use);
    ten_copies_free(&copies);
    return r;
}
