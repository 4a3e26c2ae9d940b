/*
 * Forgetting over any backend: the counters of targets that are free and not registered go, and the namespace remembers
 * the highest token among them. It is raised first: whatever is granted from then on is above. Called through
 * ten_store_ops, and by apply.c now and then for what nobody has used for long.
 */
#include "store/forgetting.h"

#include <string.h>

#include "base/alloc.h"
#include "store/apply.h"

/* What is known of one id. */
struct item {
    const char *id;
    ten_known *lease;
    ten_known *target;
    ten_known *session;
    ten_known *checkpoint;
    enum ten_forget_outcome outcome;
    bool is_of_unknown_age; /* it expired, and nothing says when */
    bool settled;
    size_t place;
};

static int look(ten_run *run, struct item *item, ten_lease_row *row) {
    item->lease = ten_apply_get(run, TEN_KIND_LEASE, item->id);
    item->target = ten_apply_get(run, TEN_KIND_TARGET, item->id);
    item->checkpoint = ten_apply_get(run, TEN_KIND_CHECKPOINT, item->id);
    item->session = NULL;
    bool known = ten_apply_knows_fresh(run, item->lease);
    known &= ten_apply_knows_fresh(run, item->target);
    known &= ten_apply_knows_fresh(run, item->checkpoint);
    if (run->error || !known)
        return run->error ? run->error : TEN_VERDICT_WAITS;
    if (!ten_lease_row_read(&item->lease->record, row))
        return ten_apply_damaged(run->store, item->lease);
    row->ends_ms = ten_apply_end_ms(run, item->lease);
    if (row->session == 0)
        return TEN_VERDICT_DONE;
    item->session = ten_apply_get(run, TEN_KIND_INSTANCE, row->holder);
    if (!ten_apply_knows_fresh(run, item->session))
        return run->error ? run->error : TEN_VERDICT_WAITS;
    ten_instance_row instance;
    const char *metadata;
    int r = ten_apply_instance_row(run, item->session, &instance, &metadata);
    row->ends_ms = ten_max_u64(row->ends_ms, ten_instance_row_session_end_ms(&instance, row->session));
    return r < 0 ? r : TEN_VERDICT_DONE;
}

static void remove_all(ten_run *run, const struct item *item, ten_intent *intent) {
    ten_intent_check(intent, item->lease, TEN_CHECK_DEAD);
    ten_intent_check(intent, item->target, TEN_CHECK_EITHER);
    ten_intent_check(intent, item->checkpoint, TEN_CHECK_EITHER);
    if (item->session)
        ten_intent_check(intent, item->session, TEN_CHECK_DEAD);
    ten_intent_check(intent, run->quarantine, TEN_CHECK_DEAD);
    intent->checks[intent->check_count - 1].any = true;
    ten_intent_remove(intent, item->lease);
    if (item->checkpoint->record.version)
        ten_intent_remove(intent, item->checkpoint);
}

/* It is not forgotten yet: its time as a free one begins. A session that nobody has noticed to be over is left to
 * whoever does, as in apply_lease.c. */
static int expire(ten_run *run, struct item *item, ten_lease_row *row, ten_intent *intent) {
    ten_lease_effect effect;
    ten_change changes[TEN_LEASE_CHANGES_MAX];
    ten_op op = {.namespace_name = run->namespace_name, .target = item->id};
    item->outcome = TEN_FORGET_HELD;
    item->settled = item->session && item->session->record.name[0] != '\0';
    if (item->settled)
        return TENURE_OK;
    ten_lease_row_expire(row, run->wall_ms, &effect);
    ten_buf_clear(&run->store->value);
    ten_lease_row_write(&run->store->value, item->lease->record.value, row);
    ten_intent_check(intent, item->lease, TEN_CHECK_DEAD);
    if (item->session)
        ten_intent_check(intent, item->session, TEN_CHECK_DEAD);
    int r = ten_intent_put(run, intent, item->lease, &run->store->value, "", row->token, effect.life);
    size_t count = ten_lease_row_changes(row, &op, &effect, changes);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_intent_tell(run, intent, &changes[i]);
    return r < 0 ? r : ten_apply_add(run, intent, false, &item->place);
}

/* Before anything is removed. */
static int raise_forgotten(ten_run *run, uint64_t forgotten) {
    ten_intent intent = {0};
    ten_namespace_row row = run->row;
    bool done;
    row.forgotten = forgotten;
    ten_buf_clear(&run->store->value);
    ten_namespace_row_write(&run->store->value, run->space->record.value, &row);
    ten_intent_check(&intent, run->space, TEN_CHECK_EITHER);
    int r = ten_intent_put(run, &intent, run->space, &run->store->value, run->space->record.name, row.epoch,
                           (ten_life){.kind = TEN_LIFE_ENDLESS});
    r = r < 0 ? r : ten_apply_commit_alone(run, &intent, &done);
    return r < 0 ? r : TEN_VERDICT_AGAIN;
}

static int plan_items(ten_run *run, struct item *items, size_t count) {
    uint64_t forgotten = run->row.forgotten;
    ten_lease_context context = {.now_ms = TEN_APPLY_NOW_MS, .recovering_ms = ten_apply_recovering_ms(run, 0)};
    for (size_t i = 0; i < count; i++) {
        struct item *item = &items[i];
        ten_lease_row row;
        ten_intent intent = {0};
        if (item->settled)
            continue;
        int verdict = look(run, item, &row);
        if (verdict < 0)
            return verdict;
        if (verdict == TEN_VERDICT_WAITS)
            continue;
        uint64_t highest = forgotten;
        item->outcome = ten_lease_row_forget(&row, item->target->record.version != 0, &context, &highest);
        item->settled = item->outcome != TEN_FORGET_DONE;
        if (item->settled)
            continue;
        int r = TENURE_OK;
        if (item->is_of_unknown_age) {
            r = expire(run, item, &row, &intent);
        } else {
            forgotten = highest;
            remove_all(run, item, &intent);
            r = ten_apply_add(run, &intent, false, &item->place);
        }
        if (r < 0)
            return r;
    }
    if (run->wants)
        return TEN_VERDICT_WAITS;
    return forgotten > run->row.forgotten ? raise_forgotten(run, forgotten) : TEN_VERDICT_DONE;
}

static bool is_settled(const struct item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!items[i].settled)
            return false;
    return true;
}

static int forget_round(ten_run *run, struct item *items, size_t count) {
    int verdict = ten_apply_round_begin(run);
    verdict = verdict < 0 ? verdict : ten_apply_enter(run, false);
    if (verdict == TEN_VERDICT_DONE)
        verdict = plan_items(run, items, count);
    if (verdict == TEN_VERDICT_WAITS)
        return ten_apply_read(run);
    if (verdict != TEN_VERDICT_DONE)
        return verdict < 0 ? verdict : TENURE_OK;
    int r = ten_apply_send(run);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        int error = 0;
        if (!items[i].settled)
            items[i].settled = ten_apply_change_went_well(run, items[i].place, &error);
    }
    return r == TEN_OTHER_EPOCH ? TENURE_OK : r;
}

static int forget_items(ten_run *run, struct item *items, size_t count) {
    int r = TENURE_OK;
    while (r == TENURE_OK && !is_settled(items, count))
        r = forget_round(run, items, count);
    return r;
}

/* What the feed has of those that are gone. */
static int forget_history(ten_run *run, const struct item *items, size_t count) {
    const char *ids[TEN_FORGET_STEP];
    size_t gone = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].outcome == TEN_FORGET_DONE)
            ids[gone++] = items[i].id;
    ten_backend *backend = run->store->backend;
    return gone ? backend->ops->unfeed(backend, run->namespace_name, ids, gone, ten_apply_left_ms(run)) : TENURE_OK;
}

int ten_forgetting_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                          uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    struct item found[TEN_FORGET_STEP];
    TEN_INVARIANT(count <= TEN_FORGET_STEP);
    for (size_t i = 0; i < count; i++)
        found[i] = (struct item){.id = items[i].id};
    ten_record_cache_begin(&store->cache);
    ten_run run = ten_apply_run(store, namespace_name, timeout_ms);
    int r = forget_items(&run, found, count);
    if (r == TENURE_OK)
        r = forget_history(&run, found, count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        items[i].outcome = found[i].outcome;
    return r;
}

/* ---- what nobody has used for long ---------------------------------------------------------------------- */

struct aged {
    ten_run *run;
    size_t seen;
    size_t count;
    struct item items[TEN_FORGET_STEP];
    char ids[TEN_FORGET_STEP][TENURE_TARGET_MAX + 1];
};

/* Released long ago, or expired long ago. Whether its session has ended, and is known to have, is looked at later: then
 * it may have been held until a moment ago. */
static int see_lease(const ten_record *record, void *userdata) {
    struct aged *aged = userdata;
    ten_record_store *store = aged->run->store;
    ten_lease_row row;
    aged->seen++;
    ten_copy_text(store->aged, sizeof store->aged, record->key.id);
    if (record->alive || !ten_lease_row_read(record, &row))
        return 0;
    bool expired = row.holder[0] != '\0';
    bool knows = expired && row.session == 0 && record->ended_ms != TEN_FOREVER;
    uint64_t free_ms = knows ? record->ended_ms : ten_sub_saturating(aged->run->wall_ms, row.acquired_at_ms);
    if (free_ms <= TEN_FEED_AGE_MS)
        return 0;
    ten_copy_text(aged->ids[aged->count], sizeof aged->ids[0], record->key.id);
    aged->items[aged->count] = (struct item){.id = aged->ids[aged->count], .is_of_unknown_age = expired && !knows};
    aged->count++;
    return 0;
}

void ten_forgetting_step(ten_run *run) {
    ten_record_store *store = run->store;
    ten_backend *backend = store->backend;
    struct aged *aged = ten_calloc(1, sizeof *aged);
    char after[TENURE_TARGET_MAX + 1];
    store->entries = 0;
    if (!aged)
        return;
    aged->run = run;
    memcpy(after, store->aged, sizeof after);
    ten_scan scan = {
        .namespace_name = run->namespace_name, .kind = TEN_KIND_LEASE, .after = after, .limit = TEN_FORGET_STEP};
    int r = backend->ops->scan(backend, &scan, see_lease, aged, ten_apply_left_ms(run));
    if (aged->seen < TEN_FORGET_STEP)
        store->aged[0] = '\0';
    if (r == TENURE_OK && aged->count > 0)
        (void)forget_items(run, aged->items, aged->count);
    run->error = TENURE_OK; /* a failure is left to the next */
    ten_free(aged);
}
