/*
 * Edits of registrations over any backend: all of a step in one commit, each id once. Called through ten_store_ops.
 * What an edit does is rules/target_row.h's.
 */
#include "store/record_store.h"

#include <string.h>

#include "rules/target_row.h"
#include "store/apply.h"

#define EDIT_STEP 480u /* edits that are read and written at once */

struct edit {
    ten_known *known;
    size_t place;
    bool is_done;
};

static int plan_edit(ten_run *run, ten_target_edit *edit, struct edit *state, bool joins) {
    ten_record_store *store = run->store;
    TEN_CLEANUP(ten_buf_free) ten_buf pin = {0};
    ten_target_row row;
    ten_change change;
    ten_intent intent = {0};
    const ten_record *record = &state->known->record;
    if (!ten_target_row_read(record, &row, &store->decoded))
        return ten_apply_damaged(store, state->known);
    if (!ten_target_row_edit(&row, run->namespace_name, edit, run->wall_ms, &pin, &change)) {
        state->is_done = true;
        return TENURE_OK;
    }
    ten_intent_check(&intent, state->known, TEN_CHECK_EITHER);
    int r = TENURE_OK;
    if (!row.registered) {
        ten_intent_remove(&intent, state->known);
    } else {
        ten_buf_clear(&store->value);
        ten_target_row_write(&store->value, record->version ? record->value : NULL, &row);
        r = ten_intent_put(run, &intent, state->known, &store->value, "", 0, (ten_life){.kind = TEN_LIFE_ENDLESS});
    }
    if (r == TENURE_OK)
        r = ten_intent_tell(run, &intent, &change);
    return r < 0 ? r : ten_apply_add(run, &intent, joins, &state->place);
}

/* TEN_CHANGE_TARGETS of them are one change: all or none. */
static int plan_edits(ten_run *run, ten_target_edit *edits, struct edit *states, size_t count) {
    size_t planned = 0;
    int verdict = ten_apply_enter(run, true);
    if (verdict < 0 || verdict == TEN_VERDICT_AGAIN)
        return verdict;
    for (size_t i = 0; i < count; i++) {
        states[i].known = ten_apply_get(run, TEN_KIND_TARGET, edits[i].target.id);
        (void)ten_apply_knows_fresh(run, states[i].known);
    }
    if (run->wants || run->error)
        return run->error ? run->error : TEN_VERDICT_WAITS;
    for (size_t i = 0; i < count; i++) {
        if (states[i].is_done)
            continue;
        int r = plan_edit(run, &edits[i], &states[i], planned % TEN_CHANGE_TARGETS != 0);
        if (r < 0)
            return r;
        planned += !states[i].is_done;
    }
    return TEN_VERDICT_DONE;
}

static int settle(ten_run *run, struct edit *states, size_t count) {
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++)
        if (!states[i].is_done)
            states[i].is_done = ten_apply_change_went_well(run, states[i].place, &error);
    return error;
}

static int edit_step(ten_run *run, ten_target_edit *edits, size_t count) {
    struct edit states[EDIT_STEP] = {0};
    run->tries = 0;
    for (bool over = false; !over;) {
        int verdict = ten_apply_round_begin(run);
        verdict = verdict < 0 ? verdict : plan_edits(run, edits, states, count);
        if (verdict == TEN_VERDICT_WAITS)
            verdict = ten_apply_read(run);
        else if (verdict == TEN_VERDICT_DONE) {
            verdict = ten_apply_send(run);
            if (verdict == TENURE_OK)
                verdict = settle(run, states, count);
        }
        if (verdict < 0)
            return verdict;
        over = true;
        for (size_t i = 0; i < count; i++)
            over &= states[i].is_done;
    }
    return TENURE_OK;
}

/* How many of them, from the first on, are of different targets. */
static size_t count_distinct(ten_run *run, const ten_target_edit *edits, size_t count) {
    size_t distinct = 0;
    run->round++;
    for (; distinct < count && distinct < EDIT_STEP; distinct++) {
        ten_known *known = ten_apply_get(run, TEN_KIND_TARGET, edits[distinct].target.id);
        if (known && ten_apply_is_changed(run, known))
            break;
        if (known)
            ten_apply_reserve(run, known);
    }
    return distinct;
}

int ten_record_store_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                                  uint64_t timeout_ms) {
    ten_record_store *store = (ten_record_store *)base;
    ten_run run = ten_apply_run(store, namespace_name, timeout_ms);
    int r = TENURE_OK;
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        ten_record_cache_begin(&store->cache);
        some = count_distinct(&run, edits + at, count - at);
        r = edit_step(&run, edits + at, some);
    }
    return r;
}
