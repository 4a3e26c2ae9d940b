/*
 * The memory backend: a store inside one process, for tests and the simulator. `memory:NAME` is shared by all handles
 * of the process that name it, as long as one of them is open; `memory:` alone is private. Nothing survives the last
 * close.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "rules/pin.h"
#include "store/memory/memory_core.h"

/* ---- operations ---------------------------------------------------------------------------------------- */

static int feed(struct ten_memory_store *store, const ten_change *change) {
    return ten_memory_feed(store->core, change, ten_wall_ms(store->base.clock))
               ? TENURE_OK
               : ten_fail_memory(&store->base.error, "the memory store");
}

static bool is_tombstone(struct ten_memory_core *core, const ten_op *op, uint64_t now_ms) {
    const struct ten_memory_instance *instance =
        op->kind == TEN_OP_ACQUIRE ? ten_memory_find_instance(core, op->namespace_name, op->holder) : NULL;
    return instance && ten_instance_row_is_tombstone(&instance->row, now_ms);
}

static ten_lease_context context_now(const struct ten_memory_store *store) {
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    return (ten_lease_context){.now_ms = now_ms,
                               .wall_ms = ten_wall_ms(store->base.clock),
                               .token_floor = store->core->token_floor,
                               .recovering_ms = ten_sub_saturating(store->core->recovering_until_ms, now_ms)};
}

/* A renewal has proved that leases were forgotten. None of them is known to be longer than those that are there. */
static int begin_epoch(struct ten_memory_store *store, const ten_op *op, ten_lease_context *context) {
    uint64_t longest_ms = op->ttl_ms;
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(&store->core->entries, &at));) {
        ten_lease_row lease = ten_memory_lease(store->core, found->value);
        if (ten_lease_row_is_held(&lease, context->now_ms))
            longest_ms = ten_max_u64(longest_ms, lease.ttl_ms);
    }
    bool done = ten_memory_begin_epoch(store->core, context->now_ms + longest_ms, context->wall_ms);
    uint64_t forgotten = context->forgotten;
    ten_session session = context->session;
    *context = context_now(store);
    context->forgotten = forgotten;
    context->session = session;
    return done ? TENURE_OK : ten_fail_memory(&store->base.error, "the memory store");
}

/* Whoever holds a lease of the session learns with its next heartbeat that somebody has touched it. */
static void touch_session(struct ten_memory_core *core, const ten_op *op, const ten_lease_effect *effect) {
    struct ten_memory_instance *holder =
        effect->touched_session ? ten_memory_find_instance(core, op->namespace_name, effect->touched_holder) : NULL;
    if (holder)
        (void)ten_instance_row_touch(&holder->row, effect->touched_session);
}

static int put_checkpoint(struct ten_memory_store *store, struct ten_memory_entry *entry, const ten_op *op) {
    char *copy = op->checkpoint[0] ? ten_strdup(op->checkpoint) : NULL;
    if (op->checkpoint[0] && !copy)
        return ten_fail_memory(&store->base.error, "the memory store");
    ten_free(entry->checkpoint);
    entry->checkpoint = copy;
    entry->checkpoint_token = op->token;
    return TENURE_OK;
}

static int get_checkpoint(struct ten_memory_store *store, const struct ten_memory_entry *entry, ten_result *result) {
    if (!entry || !entry->checkpoint)
        return TENURE_OK;
    result->checkpoint = ten_arena_text(&store->results, entry->checkpoint);
    result->checkpoint_token = entry->checkpoint_token;
    return result->checkpoint ? TENURE_OK : ten_fail_memory(&store->base.error, "the memory store");
}

static int apply_to_lease(struct ten_memory_store *store, const ten_op *op, enum ten_group_pass pass,
                          ten_result *result) {
    static ten_lease_row none;
    struct ten_memory_core *core = store->core;
    struct ten_memory_entry *entry = ten_memory_find(core, op->namespace_name, op->target);
    bool known = entry && (entry->registered || entry->lease.exists);
    ten_lease_context context = context_now(store);
    if ((op->flags & TEN_OP_REQUIRE_TARGET) && !known) {
        result->outcome = TEN_UNKNOWN;
        return TENURE_OK;
    }
    if (is_tombstone(core, op, context.now_ms)) {
        result->error = TENURE_E_GONE;
        return TENURE_OK;
    }
    if (op->kind == TEN_OP_HAND) {
        const struct ten_memory_instance *successor = ten_memory_find_instance(core, op->namespace_name, op->successor);
        context.successor_ms = successor ? ten_instance_row_ready_ms(&successor->row, context.now_ms) : 0;
    }
    if ((op->flags & TEN_OP_SESSION) && op->holder) {
        const struct ten_memory_instance *holder = ten_memory_find_instance(core, op->namespace_name, op->holder);
        context.session = holder ? ten_instance_row_session(&holder->row, context.now_ms) : (ten_session){0};
    }
    int r = TENURE_OK;
    ten_lease_effect effect;
    ten_lease_row row = entry ? ten_memory_lease(core, entry) : none;
    context.forgotten = ten_memory_forgotten(core, op->namespace_name);
    context.withheld = pass == TEN_GROUP_WITHHOLD;
    ten_lease_row_apply(&row, op, &context, result, &effect);
    if (pass == TEN_GROUP_JUDGE)
        return TENURE_OK;
    if (effect.proves_loss) {
        r = begin_epoch(store, op, &context);
        ten_lease_row_apply(&row, op, &context, result, &effect);
    }
    if (r == TENURE_OK && !entry && effect.row_changed) {
        entry = ten_memory_make(core, op->namespace_name, op->target);
        r = entry ? TENURE_OK : ten_fail_memory(&store->base.error, "the memory store");
    }
    if (result->holder && !(result->holder = ten_arena_text(&store->results, result->holder)))
        return ten_fail_memory(&store->base.error, "the memory store");
    result->registered = entry && entry->registered;
    result->paused = entry && entry->registered && entry->paused;
    ten_change changes[TEN_LEASE_CHANGES_MAX];
    size_t count = ten_lease_row_changes(&row, op, &effect, changes);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = feed(store, &changes[i]);
    if (r == TENURE_OK && effect.row_changed) {
        entry->lease = row;
        touch_session(core, op, &effect);
    }
    if (r == TENURE_OK && effect.checkpointed)
        r = put_checkpoint(store, entry, op);
    if (r == TENURE_OK && (op->flags & TEN_OP_WITH_CHECKPOINT) && result->outcome == TEN_OK)
        r = get_checkpoint(store, entry, result);
    return r;
}

/* Instances that have expired are noticed when one joins; a join is rare, and must look at the others anyway. */
static int look_at_fleet(struct ten_memory_store *store, const ten_op *op, uint64_t now_ms,
                         uint64_t *ret_fleet_ttl_ms) {
    struct ten_memory_core *core = store->core;
    *ret_fleet_ttl_ms = 0;
    for (size_t at = 0;;) {
        const ten_map_entry *found = ten_map_next(&core->instances, &at);
        if (!found)
            return TENURE_OK;
        struct ten_memory_instance *instance = found->value;
        if (strcmp(instance->namespace_name, op->namespace_name) != 0 || strcmp(instance->id, op->holder) == 0)
            continue;
        if (ten_instance_row_is_live(&instance->row, now_ms)) {
            *ret_fleet_ttl_ms = instance->row.ttl_ms;
            continue;
        }
        int r = TENURE_OK;
        if (!instance->row.gone && instance->row.ends_ms <= now_ms)
            r = feed(store, &(ten_change){.kind = TENURE_EVENT_LEFT,
                                          .reason = TEN_REASON_EXPIRED,
                                          .namespace_name = op->namespace_name,
                                          .target = "",
                                          .instance = instance->id,
                                          .actor = ""});
        if (r < 0)
            return r;
        instance->row.gone = true;
        if (!ten_instance_row_is_over(&instance->row, now_ms))
            continue;
        ten_memory_remove_instance(core, instance);
        at = 0; /* removal moves entries */
    }
}

static int apply_to_instance(struct ten_memory_store *store, const ten_op *op, ten_result *result) {
    static ten_instance_row none;
    uint64_t now_ms = ten_boot_ms(store->base.clock);
    uint64_t fleet_ttl_ms = 0;
    struct ten_memory_instance *instance = ten_memory_find_instance(store->core, op->namespace_name, op->holder);
    bool joins = op->kind == TEN_OP_ANNOUNCE && !(instance && ten_instance_row_is_live(&instance->row, now_ms));
    int r = joins ? look_at_fleet(store, op, now_ms, &fleet_ttl_ms) : TENURE_OK;
    if (r < 0)
        return r;
    instance = ten_memory_find_instance(store->core, op->namespace_name, op->holder);
    const char *old = instance && instance->metadata ? instance->metadata : "";
    bool differs = op->kind == TEN_OP_ANNOUNCE && strcmp(old, op->metadata ? op->metadata : "") != 0;
    ten_instance_row row = instance ? instance->row : none;
    ten_instance_effect effect;
    ten_instance_row_apply(&row, op, now_ms, ten_wall_ms(store->base.clock), differs, fleet_ttl_ms,
                           store->core->last_session + 1, result, &effect);
    if (result->session)
        result->session_version =
            ten_instance_row_reported_version(&row, store->core->token_floor, store->core->recovering_until_ms);
    if (row.session > store->core->last_session)
        store->core->last_session = row.session;
    if (effect.changed)
        r = feed(store, &(ten_change){.kind = effect.change,
                                      .reason = effect.reason,
                                      .namespace_name = op->namespace_name,
                                      .target = "",
                                      .instance = op->holder,
                                      .actor = op->actor ? op->actor : ""});
    if (r < 0)
        return r;
    if (effect.row_removed)
        ten_memory_remove_instance(store->core, instance);
    if (!effect.row_changed)
        return TENURE_OK;
    instance = ten_memory_make_instance(store->core, op->namespace_name, op->holder);
    char *metadata = differs && op->metadata ? ten_strdup(op->metadata) : NULL;
    if (!instance || (differs && op->metadata && !metadata)) {
        ten_free(metadata);
        return ten_fail_memory(&store->base.error, "the memory store");
    }
    if (differs) {
        ten_free(instance->metadata);
        instance->metadata = metadata;
    }
    instance->row = row;
    return TENURE_OK;
}

/* One operation, or a group. */
static int apply_group(struct ten_memory_store *store, const ten_op *ops, ten_result *results, size_t count) {
    enum ten_group_pass pass = TEN_GROUP_GRANT;
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && ops[0].group && i < count; i++) {
        ten_result judged = {0};
        r = apply_to_lease(store, &ops[i], TEN_GROUP_JUDGE, &judged);
        pass = judged.outcome == TEN_OK ? pass : TEN_GROUP_WITHHOLD;
    }
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ops[i].target ? apply_to_lease(store, &ops[i], pass, &results[i])
                          : apply_to_instance(store, &ops[i], &results[i]);
    return r;
}

static int memory_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms; /* nothing here waits but for a lock that is held for microseconds */
    int r = TENURE_OK;
    ten_arena_reset(&store->results);
    pthread_mutex_lock(&store->core->lock);
    uint64_t before = store->core->last_cursor;
    for (size_t i = 0, length; r == TENURE_OK && i < count; i += length) {
        length = ten_op_group_length(&ops[i], count - i);
        r = apply_group(store, &ops[i], &results[i], length);
    }
    if (store->core->last_cursor != before)
        ten_memory_wake_all(store->core);
    pthread_mutex_unlock(&store->core->lock);
    return r;
}

/* ---- targets ------------------------------------------------------------------------------------------- */

static bool copy_text(const char *text, char **ret_copy) {
    *ret_copy = text ? ten_strdup(text) : NULL;
    return !text || *ret_copy;
}

static int put_target(struct ten_memory_store *store, const char *namespace_name, const tenure_target *target) {
    struct ten_memory_entry *entry = ten_memory_make(store->core, namespace_name, target->id);
    char *url = NULL;
    char *exec = NULL;
    char *spec = NULL;
    if (!entry || !copy_text(target->url, &url) || !copy_text(target->exec, &exec) || !copy_text(target->spec, &spec)) {
        ten_free(url);
        ten_free(exec);
        return ten_fail_memory(&store->base.error, "the memory store");
    }
    ten_free(entry->url);
    ten_free(entry->exec);
    ten_free(entry->spec);
    entry->url = url;
    entry->exec = exec;
    entry->spec = spec;
    entry->every_ms = target->every_ms;
    entry->paused = target->paused;
    entry->registered = true;
    return TENURE_OK;
}

/* Without a pin in the edit: it is not pinned from now on. */
static int pin_target(struct ten_memory_store *store, struct ten_memory_entry *entry, const ten_target_edit *edit) {
    ten_buf text = {0};
    if (edit->action == TEN_TARGET_PIN) {
        ten_buf_format(&text, "%llu ", (unsigned long long)(ten_wall_ms(store->base.clock) + edit->pin.left_ms));
        ten_pin_write(&text, &edit->pin);
    }
    char *pin = text.size && !text.failed ? ten_strdup(ten_buf_string(&text)) : NULL;
    ten_buf_free(&text);
    if (edit->action == TEN_TARGET_PIN && !pin)
        return ten_fail_memory(&store->base.error, "the memory store");
    ten_free(entry->pin);
    entry->pin = pin;
    return TENURE_OK;
}

static int edit_target(struct ten_memory_store *store, const char *namespace_name, ten_target_edit *edit) {
    struct ten_memory_entry *entry = ten_memory_find(store->core, namespace_name, edit->target.id);
    edit->found = entry && entry->registered;
    int r = TENURE_OK;
    ten_change change = {.kind = TENURE_EVENT_TARGET_CHANGED,
                         .namespace_name = namespace_name,
                         .target = edit->target.id,
                         .instance = "",
                         .actor = ""};
    if (edit->action == TEN_TARGET_PUT) {
        r = put_target(store, namespace_name, &edit->target);
        if (!edit->found)
            change.kind = TENURE_EVENT_TARGET_ADDED;
    } else if (!edit->found) {
        return TENURE_OK;
    } else if (edit->action == TEN_TARGET_REMOVE) {
        entry->registered = false;
        change.kind = TENURE_EVENT_TARGET_REMOVED;
        r = pin_target(store, entry, edit);
    } else if (edit->action == TEN_TARGET_PIN || edit->action == TEN_TARGET_UNPIN) {
        r = pin_target(store, entry, edit);
    } else {
        entry->paused = edit->action == TEN_TARGET_PAUSE;
    }
    ten_pin_tell(edit, &change);
    return r < 0 ? r : feed(store, &change);
}

static int memory_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                               uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms;
    int r = TENURE_OK;
    pthread_mutex_lock(&store->core->lock);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = edit_target(store, namespace_name, &edits[i]);
    ten_memory_wake_all(store->core);
    pthread_mutex_unlock(&store->core->lock);
    return r;
}

static int forget_one(struct ten_memory_store *store, const char *namespace_name, ten_forget *item) {
    static ten_lease_row none;
    ten_lease_context context = context_now(store);
    struct ten_memory_entry *entry = ten_memory_find(store->core, namespace_name, item->id);
    uint64_t forgotten = ten_memory_forgotten(store->core, namespace_name);
    ten_lease_row lease = entry ? ten_memory_lease(store->core, entry) : none;
    item->outcome = ten_lease_row_forget(entry ? &lease : &none, entry && entry->registered, &context, &forgotten);
    if (item->outcome != TEN_FORGET_DONE)
        return TENURE_OK;
    if (!ten_memory_set_forgotten(store->core, namespace_name, forgotten))
        return ten_fail_memory(&store->base.error, "the memory store");
    ten_memory_remove(store->core, entry);
    return TENURE_OK;
}

static int memory_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                         uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms;
    int r = TENURE_OK;
    pthread_mutex_lock(&store->core->lock);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = forget_one(store, namespace_name, &items[i]);
    pthread_mutex_unlock(&store->core->lock);
    return r;
}

static int memory_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms;
    pthread_mutex_lock(&store->core->lock);
    ten_memory_feed_blank(store->core, namespace_name);
    pthread_mutex_unlock(&store->core->lock);
    return TENURE_OK;
}

/* ---- listings ------------------------------------------------------------------------------------------ */

static int compare_entries(const void *a, const void *b) {
    const struct ten_memory_entry *first = *(struct ten_memory_entry *const *)a;
    const struct ten_memory_entry *second = *(struct ten_memory_entry *const *)b;
    int order = strcmp(first->namespace_name, second->namespace_name);
    return order ? order : strcmp(first->id, second->id);
}

static bool matches(const struct ten_memory_entry *entry, enum tenure_filter filter, bool held) {
    switch (filter) {
    case TENURE_LEASED:
        return held;
    case TENURE_FREE:
        return !held && !(entry->registered && entry->paused) && (entry->registered || entry->lease.exists);
    case TENURE_REGISTERED:
        return entry->registered;
    case TENURE_ALL:
        break;
    }
    return entry->registered || entry->lease.exists;
}

/* lease: with the end that it has now. pin: where the row's texts are. */
static ten_row make_row(const ten_clock *clock, const struct ten_memory_entry *entry, const ten_lease_row *lease,
                        uint64_t now_ms, ten_pin_copy *pin) {
    bool held = ten_lease_row_is_held(lease, now_ms);
    ten_row row = {.target = {.id = entry->id}, .registered = entry->registered, .token = lease->token};
    if (entry->registered)
        row.target = (tenure_target){.id = entry->id,
                                     .url = entry->url,
                                     .exec = entry->exec,
                                     .spec = entry->spec,
                                     .every_ms = entry->every_ms,
                                     .paused = entry->paused};
    ten_pin_read(entry->pin, ten_wall_ms(clock), pin);
    row.pin = pin->pin;
    if (held) {
        row.holder = entry->lease.holder;
        row.barred = lease->barred;
        row.ttl_ms = lease->ttl_ms;
        row.remaining_ms = lease->ends_ms - now_ms;
        row.acquired_at_ms = lease->acquired_at_ms;
    }
    return row;
}

static size_t first_after(const struct ten_memory_core *core, const ten_query *query) {
    size_t low = 0;
    size_t high = core->entries.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct ten_memory_entry *entry = core->sorted[middle];
        int order = strcmp(entry->namespace_name, query->namespace_name);
        if (order < 0 || (order == 0 && query->after && strcmp(entry->id, query->after) <= 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int memory_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    struct ten_memory_core *core = store->core;
    (void)timeout_ms;
    int stopped = 0;
    pthread_mutex_lock(&core->lock);
    if (!core->in_order && core->entries.count > 0)
        qsort(core->sorted, core->entries.count, sizeof *core->sorted, compare_entries);
    core->in_order = true;
    uint64_t now_ms = ten_boot_ms(base->clock);
    size_t given = 0;
    for (size_t i = first_after(core, query); !stopped && given < query->limit && i < core->entries.count; i++) {
        const struct ten_memory_entry *entry = core->sorted[i];
        if (strcmp(entry->namespace_name, query->namespace_name) != 0)
            break;
        ten_lease_row lease = ten_memory_lease(core, entry);
        bool held = ten_lease_row_is_held(&lease, now_ms);
        if (!matches(entry, query->filter, held) || (query->current && !held && !entry->registered))
            continue;
        ten_pin_copy pin;
        ten_row row = make_row(base->clock, entry, &lease, now_ms, &pin);
        stopped = each(&row, userdata);
        given++;
    }
    pthread_mutex_unlock(&core->lock);
    return stopped;
}

static int memory_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                               ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    struct ten_memory_core *core = ((struct ten_memory_store *)base)->core;
    (void)timeout_ms;
    int stopped = 0;
    pthread_mutex_lock(&core->lock);
    uint64_t now_ms = ten_boot_ms(base->clock);
    for (size_t i = 0; !stopped && i < count; i++) {
        const struct ten_memory_entry *entry = ten_memory_find(core, namespace_name, ids[i]);
        if (!entry || !matches(entry, TENURE_ALL, false))
            continue;
        ten_lease_row lease = ten_memory_lease(core, entry);
        ten_pin_copy pin;
        ten_row row = make_row(base->clock, entry, &lease, now_ms, &pin);
        stopped = each(&row, userdata);
    }
    pthread_mutex_unlock(&core->lock);
    return stopped;
}

static int memory_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                 uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms;
    int stopped = 0;
    pthread_mutex_lock(&store->core->lock);
    uint64_t now_ms = ten_boot_ms(base->clock);
    const ten_map_entry *found;
    for (size_t at = 0; !stopped && (found = ten_map_next(&store->core->instances, &at));) {
        const struct ten_memory_instance *kept = found->value;
        if (strcmp(kept->namespace_name, namespace_name) != 0 || !ten_instance_row_is_live(&kept->row, now_ms))
            continue;
        ten_instance instance = {.instance = kept->id,
                                 .weight = kept->row.weight,
                                 .metadata = kept->metadata,
                                 .ttl_ms = kept->row.ttl_ms,
                                 .remaining_ms = kept->row.ends_ms - now_ms,
                                 .since_ms = kept->row.since_ms,
                                 .ask = kept->row.ask,
                                 .has_session = kept->row.session != 0};
        stopped = each(&instance, userdata);
    }
    pthread_mutex_unlock(&store->core->lock);
    return stopped;
}

static void find_next(const char *name, const char *after, const char **next) {
    if (strcmp(name, after) > 0 && (!*next || strcmp(name, *next) < 0))
        *next = name;
}

static int memory_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    struct ten_memory_core *core = ((struct ten_memory_store *)base)->core;
    (void)timeout_ms;
    int stopped = 0;
    pthread_mutex_lock(&core->lock);
    for (const char *name = "", *next; !stopped; name = next) {
        const ten_map_entry *found;
        next = NULL;
        for (size_t at = 0; (found = ten_map_next(&core->entries, &at));)
            find_next(((const struct ten_memory_entry *)found->value)->namespace_name, name, &next);
        for (size_t at = 0; (found = ten_map_next(&core->instances, &at));)
            find_next(((const struct ten_memory_instance *)found->value)->namespace_name, name, &next);
        if (!next)
            break;
        stopped = each(next, userdata);
    }
    pthread_mutex_unlock(&core->lock);
    return stopped;
}

/* An epoch's entry is among the last ones. */
static bool has_epoch_since(const struct ten_memory_core *core, uint64_t cursor) {
    bool found = cursor > core->last_cursor;
    for (size_t i = 0; !found && i < ten_min_u64(core->last_cursor - cursor, core->feed_room); i++)
        found = core->feed[(core->last_cursor - i) % core->feed_room].change.kind == TENURE_EVENT_RECOVERING;
    return found;
}

static int memory_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                          ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    struct ten_memory_core *core = store->core;
    (void)timeout_ms;
    int result = TENURE_OK;
    pthread_mutex_lock(&core->lock);
    uint64_t oldest = ten_sub_saturating(core->last_cursor, core->feed_room);
    if (*cursor == TEN_CURSOR_NOW) {
        *cursor = core->last_cursor;
    } else if (*cursor == TEN_CURSOR_OLDEST) {
        *cursor = oldest;
    } else if (*cursor > core->last_cursor || *cursor < oldest) {
        bool epoch = has_epoch_since(core, *cursor);
        *cursor = core->last_cursor;
        result = ten_store_missed(base, namespace_name, *cursor, epoch, each, userdata);
    }
    for (size_t given = 0; result == 0 && given < limit && *cursor < core->last_cursor;) {
        const ten_change *change = &core->feed[++*cursor % core->feed_room].change;
        if (!change->target)
            continue; /* it was forgotten */
        bool all = !namespace_name || change->namespace_name[0] == '\0';
        if (!all && strcmp(change->namespace_name, namespace_name) != 0)
            continue;
        result = each(change, userdata);
        given++;
    }
    pthread_mutex_unlock(&core->lock);
    return result;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static int memory_watch(ten_store *base, const char *namespace_name, int *ret_fd) {
    (void)namespace_name; /* whatever changes wakes everybody */
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    pthread_mutex_lock(&store->core->lock);
    if (store->watch_fd < 0)
        store->watch_fd = ten_eventfd_open();
    int failed = store->watch_fd < 0 ? errno : 0;
    pthread_mutex_unlock(&store->core->lock);
    if (failed)
        return ten_fail_errno(&base->error, TENURE_E_SYSTEM, failed, "cannot watch the memory store");
    *ret_fd = store->watch_fd;
    return TENURE_OK;
}

static void memory_watch_clear(ten_store *base) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    if (store->watch_fd >= 0)
        ten_eventfd_clear(store->watch_fd);
}

static int memory_ping(ten_store *base, uint64_t timeout_ms) {
    (void)base;
    (void)timeout_ms;
    return TENURE_OK;
}

static int memory_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    (void)base;
    (void)timeout_ms;
    each(TENURE_CHECK_WARN, "durability", "this store lives inside one process and ends with it",
         "use it in tests only; sqlite:PATH is the embedded store", userdata);
    return TENURE_OK;
}

static int memory_open(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {"timeout", NULL};
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    (void)timeout_ms;
    store->watch_fd = -1;
    int r = ten_url_check_options(url, options, &base->error);
    if (r < 0)
        return r;
    struct ten_memory_core *core = ten_memory_core_get(url->path);
    if (!core)
        return ten_fail_memory(&base->error, "the memory store");
    store->core = core;
    pthread_mutex_lock(&core->lock);
    store->next = core->handles;
    core->handles = store;
    pthread_mutex_unlock(&core->lock);
    return TENURE_OK;
}

static void leave_core(struct ten_memory_store *store) {
    pthread_mutex_lock(&store->core->lock);
    for (struct ten_memory_store **at = &store->core->handles; *at; at = &(*at)->next) {
        if (*at == store) {
            *at = store->next;
            break;
        }
    }
    pthread_mutex_unlock(&store->core->lock);
    ten_memory_core_drop(store->core);
}

static void memory_close(ten_store *base) {
    struct ten_memory_store *store = (struct ten_memory_store *)base;
    if (store->core)
        leave_core(store);
    ten_close_fd(&store->watch_fd);
    ten_arena_free(&store->results);
}

const ten_store_ops ten_memory_ops = {
    .name = "memory",
    .size = sizeof(struct ten_memory_store),
    .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                     .hands = true,
                     .sessions = true,
                     .expiry_clock = "this process's boot clock",
                     .change_notice = "direct"},
    .open = memory_open,
    .close = memory_close,
    .apply = memory_apply,
    .edit_targets = memory_edit_targets,
    .forget = memory_forget,
    .forget_history = memory_forget_history,
    .list = memory_list,
    .read_targets = memory_read_targets,
    .list_instances = memory_list_instances,
    .list_namespaces = memory_list_namespaces,
    .changes = memory_changes,
    .watch = memory_watch,
    .watch_clear = memory_watch_clear,
    .ping = memory_ping,
    .check = memory_check,
};
