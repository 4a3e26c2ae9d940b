/*
 * The epoch of a namespace: its record is made when the namespace is first used, and an epoch begins when the store is
 * not the one that it was, or a renewal proves a loss. rules/namespace_row.h decides what that means. See apply.h.
 */
#include <string.h>

#include "store/apply.h"

static int put_space(ten_run *run, ten_intent *intent, const ten_namespace_row *row) {
    ten_record_store *store = run->store;
    bool exists = run->space->record.version != 0;
    ten_buf_clear(&store->value);
    ten_namespace_row_write(&store->value, exists ? run->space->record.value : NULL, row);
    ten_intent_check(intent, run->space, TEN_CHECK_EITHER);
    return ten_intent_put(run, intent, run->space, &store->value, store->backend->identity, row->epoch,
                          (ten_life){.kind = TEN_LIFE_ENDLESS});
}

/* covered_ms: see ten_quarantine_left_ms(). */
static int put_quarantine(ten_run *run, ten_intent *intent, uint64_t covered_ms, ten_life life) {
    ten_buf *value = &run->store->value;
    ten_buf_clear(value);
    ten_buf_text(value, "1");
    ten_intent_check(intent, run->quarantine, TEN_CHECK_EITHER);
    return ten_intent_put(run, intent, run->quarantine, value, "", covered_ms, life);
}

static ten_change recovering(const ten_run *run, const char *actor) {
    return (ten_change){.kind = TENURE_EVENT_RECOVERING,
                        .reason = actor ? TEN_REASON_FORCED : TEN_REASON_NONE,
                        .namespace_name = run->namespace_name,
                        .target = "",
                        .instance = "",
                        .actor = actor ? actor : ""};
}

/* The epoch's first write is confirmed: from now on the quarantine has an end. */
static int confirm(ten_run *run, uint64_t quarantine_ms) {
    ten_intent intent = {0};
    bool done;
    uint64_t covered_ms = run->quarantine->record.number ? quarantine_ms : 0;
    int r = put_quarantine(run, &intent, covered_ms, TEN_LIFE_FOR(quarantine_ms));
    r = r < 0 ? r : ten_apply_commit_alone(run, &intent, &done);
    return r < 0 ? r : TEN_VERDICT_AGAIN;
}

/* by: the record that proves the loss; NULL: it is another store. */
static int begin_epoch(ten_run *run, ten_known *by, uint64_t shown_ms) {
    const ten_backend *backend = run->store->backend;
    ten_intent intent = {0};
    ten_namespace_row row = run->row;
    ten_loss loss = {.wall_ms = run->wall_ms,
                     .lost_ms = by ? TEN_FOREVER : backend->lost_ms,
                     .least_ms = backend->ops->quarantine_min_ms,
                     .shown_ms = shown_ms};
    uint64_t quarantine_ms = ten_namespace_row_begin_epoch(&row, &loss);
    /* What was granted here is not even known by its longest TTL. */
    bool loses_all = loss.lost_ms == TEN_FOREVER && !run->row.exists;
    /* One that has not ended yet is not shortened. */
    bool is_open =
        quarantine_ms == 0 && loss.lost_ms == TEN_FOREVER; /* until somebody says how long a lease may last */
    ten_life life = {.kind = backend->ops->confirms || is_open ? TEN_LIFE_ENDLESS : TEN_LIFE_LATEST,
                     .ttl_ms = quarantine_ms,
                     .as_it_is = true};
    intent.least_number = row.first;
    int r = put_space(run, &intent, &row);
    if (r == TENURE_OK && by)
        ten_intent_check(&intent, by, TEN_CHECK_EITHER);
    if (r == TENURE_OK && (quarantine_ms > 0 || is_open))
        r = put_quarantine(run, &intent, loses_all ? ten_max_u64(quarantine_ms, 1) : 0, life);
    ten_change change = recovering(run, NULL);
    if (r == TENURE_OK)
        r = ten_intent_tell(run, &intent, &change);
    bool done = false;
    if (r == TENURE_OK)
        r = ten_apply_commit_alone(run, &intent, &done);
    if (r < 0)
        return r;
    return done && quarantine_ms > 0 && backend->ops->confirms ? confirm(run, quarantine_ms) : TEN_VERDICT_AGAIN;
}

/* The longest TTL is raised before the first grant that has it, not with it, so that no grant writes what all the
 * others check. That is as safe: within an epoch `longest` only grows, because every write of this record checks its
 * version; a grant that was prepared under it is carried out in the same epoch or not at all; and the next epoch takes
 * it over in a commit that checks the version once more. The same is true of `forgotten` (forgetting.c), which is
 * raised before anything is removed: a grant on an absent record checks the version of this one. */
static int write_space(ten_run *run, ten_namespace_row row) {
    ten_intent intent = {0};
    bool done;
    row.longest_ms = ten_max_u64(row.longest_ms, run->ttl_ms);
    const ten_record *quarantine = &run->quarantine->record;
    int r = put_space(run, &intent, &row);
    /* Where nobody knows what was lost, it may have been a lease of that length. */
    if (r == TENURE_OK && quarantine->alive && quarantine->left_ms != TEN_FOREVER &&
        run->store->backend->lost_ms == TEN_FOREVER)
        r = put_quarantine(run, &intent, quarantine->number ? ten_max_u64(quarantine->number, run->ttl_ms) : 0,
                           (ten_life){.kind = TEN_LIFE_LATEST, .ttl_ms = run->ttl_ms, .as_it_is = true});
    r = r < 0 ? r : ten_apply_commit_alone(run, &intent, &done);
    return r < 0 ? r : TEN_VERDICT_AGAIN;
}

/* How long a lease of this store may last that nobody has heard of; 0: that is not known. */
static uint64_t longest_ms(const ten_run *run) {
    return ten_max_u64(run->row.longest_ms, run->store->backend->ops->quarantine_min_ms);
}

/* Whoever began this epoch did not come back to say that it is confirmed; or the store's clock was set back since. A
 * write of ours tells. */
static int confirm_for_another(ten_run *run) {
    ten_intent intent = {0};
    bool done;
    ten_intent_check(&intent, run->quarantine, TEN_CHECK_ALIVE);
    ten_intent_raise(&intent, run->quarantine);
    int r = ten_apply_commit_alone(run, &intent, &done);
    if (r < 0 || !done)
        return r < 0 ? r : TEN_VERDICT_AGAIN;
    return confirm(run, longest_ms(run));
}

int ten_apply_enter(ten_run *run, bool writes) {
    const ten_record_store *store = run->store;
    run->entered = false;
    run->space = ten_apply_get(run, TEN_KIND_NAMESPACE, "");
    run->quarantine = ten_apply_get(run, TEN_KIND_QUARANTINE, "");
    bool known = ten_apply_knows(run, run->space);
    known &= ten_apply_knows(run, run->quarantine);
    if (run->error || !known)
        return run->error ? run->error : TEN_VERDICT_WAITS;
    if (!ten_namespace_row_read(&run->space->record, &run->row))
        return ten_apply_damaged(run->store, run->space);
    bool is_other = run->row.exists && strcmp(run->space->record.name, store->backend->identity) != 0;
    if ((is_other || !run->row.exists) && !ten_apply_knows_fresh(run, run->space))
        return TEN_VERDICT_WAITS;
    if (run->quarantine->record.alive && !ten_apply_knows_fresh(run, run->quarantine))
        return TEN_VERDICT_WAITS;
    if (is_other || (!run->row.exists && writes && store->backend->lost))
        return begin_epoch(run, NULL, run->ttl_ms);
    if (!run->row.exists && writes)
        return write_space(run, ten_namespace_row_new());
    if (!run->row.exists && store->backend->lost)
        run->row.token_floor = run->wall_ms + 1; /* as an epoch that begins now would have it */
    if (writes && run->ttl_ms > run->row.longest_ms)
        return write_space(run, run->row);
    const ten_record *quarantine = &run->quarantine->record;
    bool too_long = store->backend->ops->confirms && quarantine->left_ms > longest_ms(run);
    if (quarantine->alive && longest_ms(run) > 0 && (quarantine->left_ms == TEN_FOREVER || too_long))
        return confirm_for_another(run);
    run->entered = true;
    return TEN_VERDICT_DONE;
}

int ten_apply_prove_loss(ten_run *run, ten_known *by, uint64_t ttl_ms) {
    return begin_epoch(run, by, ttl_ms);
}

uint64_t ten_apply_recovering_ms(const ten_run *run, uint64_t ttl_ms) {
    return ten_quarantine_left_ms(&run->quarantine->record, ttl_ms);
}

static int look(ten_run *run, const char *actor, uint64_t *ret_left_ms) {
    const ten_backend *backend = run->store->backend;
    int verdict =
        ten_apply_enter(run, backend->lost && (actor || backend->lost_ms != TEN_FOREVER)); /* asking begins nothing */
    if (verdict == TEN_VERDICT_DONE && !ten_apply_knows_fresh(run, run->quarantine))
        verdict = TEN_VERDICT_WAITS;
    if (verdict != TEN_VERDICT_DONE)
        return verdict;
    *ret_left_ms = ten_apply_recovering_ms(run, run->ttl_ms);
    if (!actor || *ret_left_ms == 0)
        return TEN_VERDICT_DONE;
    ten_intent intent = {0};
    bool done = false;
    ten_change change = recovering(run, actor);
    int r = put_quarantine(run, &intent, 0, (ten_life){.kind = TEN_LIFE_ENDED});
    if (r == TENURE_OK)
        r = ten_intent_tell(run, &intent, &change);
    if (r == TENURE_OK)
        r = ten_apply_commit_alone(run, &intent, &done);
    return r < 0 ? r : done ? TEN_VERDICT_DONE : TEN_VERDICT_AGAIN;
}

int ten_apply_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                       uint64_t *ret_left_ms, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    ten_record_cache_begin(&store->cache);
    ten_record_cache_forget_all(&store->cache);
    ten_run run = ten_apply_run(store, namespace_name, timeout_ms);
    run.ttl_ms = ttl_ms;
    /* A store may look only when it writes whether it is the one that it was. */
    int looked = store->backend->ops->touch(store->backend, NULL, "", 0, NULL, 0, timeout_ms);
    if (looked < 0)
        return looked;
    for (;;) {
        int verdict = ten_apply_round_begin(&run);
        verdict = verdict < 0 ? verdict : look(&run, actor, ret_left_ms);
        if (verdict == TEN_VERDICT_WAITS)
            verdict = ten_apply_read(&run);
        else if (verdict == TEN_VERDICT_DONE)
            return TENURE_OK;
        if (verdict < 0)
            return verdict;
    }
}
