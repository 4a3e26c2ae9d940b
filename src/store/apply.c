/*
 * A batch of operations over any backend. See apply.h for how it goes, store.h for what it promises.
 */
#include "store/apply.h"

#include <string.h>

#include "base/alloc.h"

#define AGE_EVERY 400u /* entries of the feed, until what can be forgotten is looked for */

enum cell_state { OPEN, TOUCHES, CHANGES, DONE };

struct cell {
    enum cell_state state;
    bool is_withheld; /* another target of its group was refused */
    bool is_believed; /* it wrote nothing, and its holder believes in the lease that was read */
    size_t place;     /* of its touch or change in this round */
};

struct batch {
    ten_run run;
    const ten_op *ops;
    ten_result *results;
    size_t count;
    struct cell *cells;
};

static bool is_mine(const struct batch *batch, size_t at) {
    return batch->cells[at].state != DONE && strcmp(batch->ops[at].namespace_name, batch->run.namespace_name) == 0;
}

static int look_at(ten_run *run, const ten_op *op, bool withheld, ten_result *result, ten_intent *intent) {
    ten_op known = *op;
    if (!run->store->base.capabilities.sessions)
        known.flags &= ~(unsigned)TEN_OP_SESSION;
    const ten_known *damaged = run->store->damaged;
    run->store->damaged = NULL;
    int verdict = op->target ? ten_apply_to_lease(run, &known, withheld, result, intent)
                             : ten_apply_to_instance(run, &known, result, intent);
    if (verdict >= 0 || !run->store->damaged) {
        run->store->damaged = damaged;
        return verdict;
    }
    run->error = 0;
    *result = (ten_result){.outcome = TEN_ERROR, .error = verdict};
    return TEN_VERDICT_DONE;
}

/* It waits, and so does whatever behind it meets the same record. */
static int wait_for(struct batch *batch, size_t at) {
    const ten_op *op = &batch->ops[at];
    ten_known *known = ten_apply_get(&batch->run, op->target ? TEN_KIND_LEASE : TEN_KIND_INSTANCE,
                                     op->target ? op->target : op->holder);
    if (known && op->kind != TEN_OP_READ)
        ten_apply_reserve(&batch->run, known);
    return known ? TEN_VERDICT_WAITS : batch->run.error;
}

static int plan_one(struct batch *batch, size_t at) {
    ten_intent intent;
    struct cell *cell = &batch->cells[at];
    int verdict = look_at(&batch->run, &batch->ops[at], cell->is_withheld, &batch->results[at], &intent);
    if (verdict == TEN_VERDICT_DONE) {
        cell->state = DONE;
        cell->is_believed = batch->ops[at].kind != TEN_OP_READ && batch->results[at].outcome == TEN_OK;
    }
    if (verdict == TEN_VERDICT_WAITS || (verdict == TEN_VERDICT_PLANNED && !ten_apply_may(&batch->run, &intent)))
        return wait_for(batch, at);
    if (verdict != TEN_VERDICT_PLANNED)
        return verdict;
    int r = ten_apply_add(&batch->run, &intent, false, &cell->place);
    cell->state = intent.touched ? TOUCHES : CHANGES;
    return r < 0 ? r : TEN_VERDICT_PLANNED;
}

/* A lease of the group that the holder already has is only extended. */
static int add_group(struct batch *batch, const size_t *open, size_t count, const ten_intent *intents) {
    bool joins = false;
    for (size_t i = 0; i < count; i++)
        if (!ten_apply_may(&batch->run, &intents[i]))
            return wait_for(batch, open[i]);
    int r = TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        struct cell *cell = &batch->cells[open[i]];
        cell->state = intents[i].touched ? TOUCHES : CHANGES;
        r = ten_apply_add(&batch->run, &intents[i], joins && !intents[i].touched, &cell->place);
        joins |= !intents[i].touched;
    }
    return r < 0 ? r : TEN_VERDICT_PLANNED;
}

/* The acquires of a group are judged first. If one of them is refused, none of the others grants anything, for good.
 * What is granted is one change. */
static int plan_group(struct batch *batch, size_t at, size_t length) {
    ten_intent intents[TEN_GROUP_MAX];
    size_t open[TEN_GROUP_MAX];
    size_t count = 0;
    int worst = TEN_VERDICT_DONE;
    bool refused = false;
    for (size_t i = at; i < at + length; i++) {
        if (batch->cells[i].state == DONE || batch->cells[i].is_withheld)
            continue;
        int verdict = look_at(&batch->run, &batch->ops[i], false, &batch->results[i], &intents[count]);
        if (verdict < 0 || verdict == TEN_VERDICT_AGAIN)
            return verdict;
        if (verdict == TEN_VERDICT_WAITS)
            worst = wait_for(batch, i);
        refused |= verdict == TEN_VERDICT_DONE && batch->results[i].outcome != TEN_OK;
        if (verdict == TEN_VERDICT_PLANNED)
            open[count++] = i;
    }
    if (worst != TEN_VERDICT_DONE)
        return worst;
    for (size_t i = at; i < at + length; i++)
        batch->cells[i].is_withheld |= refused;
    if (!refused && count > 0)
        worst = add_group(batch, open, count, intents);
    /* The rest has its result, or only extends what is the holder's own. */
    for (size_t i = at; i < at + length && worst >= 0; i++)
        if (batch->cells[i].state == OPEN && (batch->cells[i].is_withheld || worst != TEN_VERDICT_WAITS)) {
            int verdict = plan_one(batch, i);
            worst = verdict < 0 || verdict == TEN_VERDICT_WAITS ? verdict : worst;
        }
    return worst;
}

/* Plans as much of the batch as can go together. */
static int plan_round(struct batch *batch) {
    bool writes = false;
    for (size_t i = 0; i < batch->count; i++)
        writes |= is_mine(batch, i) && batch->ops[i].kind != TEN_OP_READ;
    int verdict = ten_apply_enter(&batch->run, writes);
    if (verdict < 0 || verdict == TEN_VERDICT_AGAIN)
        return verdict;
    for (size_t i = 0, length; i < batch->count; i += length) {
        length = ten_op_group_length(&batch->ops[i], batch->count - i);
        bool is_open = false;
        for (size_t j = i; j < i + length; j++)
            is_open |= is_mine(batch, j);
        if (!is_open)
            continue;
        verdict = length > 1 ? plan_group(batch, i, length) : plan_one(batch, i);
        if (verdict < 0 || verdict == TEN_VERDICT_AGAIN)
            return verdict;
        /* One that waits for a record lets others say what they want; one that waits for its turn ends the round. */
        if (verdict == TEN_VERDICT_WAITS && !batch->run.wants)
            break;
    }
    return batch->run.error;
}

/* What was sent has come to pass, or is decided again. */
static void settle(struct batch *batch, bool sent) {
    for (size_t i = 0; i < batch->count; i++) {
        struct cell *cell = &batch->cells[i];
        int error = 0;
        if (cell->state != TOUCHES && cell->state != CHANGES)
            continue;
        bool went_well =
            sent && (cell->state == TOUCHES ? ten_apply_touch_went_well(&batch->run, cell->place)
                                            : ten_apply_change_went_well(&batch->run, cell->place, &error));
        cell->state = went_well ? DONE : OPEN;
        if (went_well && error)
            batch->results[i] = (ten_result){.outcome = TEN_ERROR, .error = error};
    }
}

/* The version of a session that this batch began or changed is known only now. */
static void report_sessions(struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        ten_result *result = &batch->results[i];
        if (batch->cells[i].state != CHANGES || batch->ops[i].kind != TEN_OP_ANNOUNCE || result->session == 0)
            continue;
        const ten_known *known = ten_apply_get(&batch->run, TEN_KIND_INSTANCE, batch->ops[i].holder);
        ten_instance_row row = {.session_version = known ? known->record.version : 0};
        result->session_version =
            ten_instance_row_reported_version(&row, batch->run.row.token_floor, batch->run.row.epoch);
    }
}

static bool is_over(const struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++)
        if (is_mine(batch, i))
            return false;
    return true;
}

static int run_round(struct batch *batch) {
    ten_run *run = &batch->run;
    int r = ten_apply_round_begin(run);
    r = r < 0 ? r : plan_round(batch);
    if (r != TENURE_OK || run->wants) {
        settle(batch, false);
        return r < 0 ? r : r == TENURE_OK ? ten_apply_read(run) : TENURE_OK;
    }
    r = ten_apply_send(run);
    if (r == TENURE_OK)
        report_sessions(batch);
    settle(batch, r == TENURE_OK);
    return r == TEN_OTHER_EPOCH ? TENURE_OK : r;
}

/* Belief rests on what cannot be lost any more. A touch of the namespace's record, which has no end, changes nothing,
 * and returns when that is so. In another epoch all is decided again. */
static int confirm_reads(struct batch *batch) {
    const ten_run *run = &batch->run;
    ten_backend *backend = run->store->backend;
    bool believed = false;
    for (size_t i = 0; i < batch->count; i++)
        believed |= batch->cells[i].is_believed;
    if (!believed || !backend->ops->confirms_reads || !run->row.exists)
        return TENURE_OK;
    const ten_record *space = &run->space->record;
    ten_touch touch = {.key = space->key, .version = space->version, .name = space->name, .ttl_ms = 1};
    int r = backend->ops->touch(backend, run->namespace_name, space->name, run->row.epoch, &touch, 1,
                                ten_apply_left_ms(run));
    for (size_t i = 0; i < batch->count; i++) {
        struct cell *cell = &batch->cells[i];
        cell->state = cell->is_believed && r == TEN_OTHER_EPOCH ? OPEN : cell->state;
        cell->is_believed = false;
    }
    if (r == TEN_OTHER_EPOCH)
        ten_record_cache_forget_all(&run->store->cache);
    return r < 0 ? r : TENURE_OK;
}

static int run_namespace(struct batch *batch) {
    int r = TENURE_OK;
    batch->run.ttl_ms = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (is_mine(batch, i) && !(batch->ops[i].flags & TEN_OP_KEEP) && batch->ops[i].kind != TEN_OP_LEAVE)
            batch->run.ttl_ms = ten_max_u64(batch->run.ttl_ms, batch->ops[i].ttl_ms);
    batch->run.tries = 0;
    while (r == TENURE_OK && !is_over(batch)) {
        r = run_round(batch);
        if (r == TENURE_OK && is_over(batch))
            r = confirm_reads(batch);
    }
    if (r == TENURE_OK && batch->run.store->entries >= AGE_EVERY)
        ten_forgetting_step(&batch->run);
    return r;
}

/* Operations of different namespaces meet in no record. */
static int run_batch(struct batch *batch) {
    int r = TENURE_OK;
    size_t full = 0;
    for (size_t i = 0; r == TENURE_OK && i < batch->count; i++) {
        if (batch->cells[i].state == DONE)
            continue;
        batch->run.namespace_name = batch->ops[i].namespace_name;
        r = run_namespace(batch);
    }
    for (size_t i = 0; i < batch->count; i++)
        full += batch->results[i].outcome == TEN_ERROR && batch->results[i].error == TENURE_E_FULL;
    const ten_known *damaged = batch->run.store->damaged;
    if (r == TENURE_OK && damaged)
        (void)ten_apply_says_damaged(batch->run.store, damaged->record.key.id); /* other calls came after it */
    return r == TENURE_OK && full == batch->count ? TENURE_E_FULL : r;          /* the backend has said why */
}

int ten_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    struct cell few[16] = {0};
    struct batch batch = {.ops = ops, .results = results, .count = count, .cells = few};
    if (count > TEN_COUNT(few))
        batch.cells = ten_calloc(count, sizeof *batch.cells);
    if (!batch.cells)
        return ten_apply_no_memory(store);
    store->damaged = NULL;
    ten_arena_reset(&store->results);
    ten_record_cache_begin(&store->cache);
    batch.run = ten_apply_run(store, "", timeout_ms);
    int r = run_batch(&batch);
    if (batch.cells != few)
        ten_free(batch.cells);
    return r;
}
