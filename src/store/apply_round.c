/*
 * A round of a batch: the records that it needs, and what it asks of the backend. See apply.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "rules/feed.h"
#include "rules/value.h"
#include "store/apply.h"

#define FEW_ROUNDS  64u /* without looking at the time: each of them waits for the backend, which does */
#define MOST_ROUNDS 10000u

/* Arrays that grow, and stay for the next call. The pointers between them are set when all is there. */
#define VECTOR(type)                                                                                                   \
    struct {                                                                                                           \
        type *items;                                                                                                   \
        uint32_t count, room;                                                                                          \
    }

struct ten_apply_round {
    VECTOR(ten_known *) wanted;
    VECTOR(ten_record) records;
    VECTOR(ten_touch) touches;
    VECTOR(ten_known *) touch_known;
    VECTOR(ten_commit_change) changes;
    VECTOR(ten_check) checks;
    VECTOR(ten_known *) check_known;
    VECTOR(ten_write) writes;
    VECTOR(ten_known *) write_known;
    VECTOR(ten_entry) entries;
    uint64_t least_number;
};

#define ADD(vector, ...)                                                                                               \
    (TEN_GROW((vector).items, (vector).room, (vector).count + 1)                                                       \
         ? ((vector).items[(vector).count++] = (__VA_ARGS__), true)                                                    \
         : false)

struct ten_apply_round *ten_apply_round_new(void) {
    return ten_calloc(1, sizeof(struct ten_apply_round));
}

void ten_apply_round_free(ten_record_store *store) {
    struct ten_apply_round *round = store->round;
    if (!round)
        return;
    ten_free(round->wanted.items);
    ten_free(round->records.items);
    ten_free(round->touches.items);
    ten_free(round->touch_known.items);
    ten_free(round->changes.items);
    ten_free(round->checks.items);
    ten_free(round->check_known.items);
    ten_free(round->writes.items);
    ten_free(round->write_known.items);
    ten_free(round->entries.items);
    ten_free(round);
    store->round = NULL;
}

int ten_apply_no_memory(ten_record_store *store) {
    return ten_fail_memory(&store->base.error, "an answer of the %s store", store->base.ops->name);
}

int ten_apply_damaged(ten_record_store *store, ten_known *known) {
    store->damaged = known;
    ten_record_cache_forget(known); /* it may be restored: the next call reads it */
    return ten_apply_says_damaged(store, known->record.key.id);
}

int ten_apply_says_damaged(ten_record_store *store, const char *id) {
    return ten_fail(&store->base.error, TENURE_E_STORE,
                    "the record of %s in the %s store is damaged; restore a backup of it", id, store->base.ops->name);
}

/* ---- records -------------------------------------------------------------------------------------------- */

ten_known *ten_apply_get(ten_run *run, enum ten_kind kind, const char *id) {
    ten_known *known = ten_record_cache_get(&run->store->cache, run->namespace_name, kind, id);
    if (!known)
        run->error = ten_apply_no_memory(run->store);
    return known;
}

static void want(ten_run *run, ten_known *known) {
    run->wants = true;
    if (known->wanted)
        return;
    known->wanted = ADD(run->store->round->wanted, known);
    if (!known->wanted)
        run->error = ten_apply_no_memory(run->store);
}

bool ten_apply_knows(ten_run *run, ten_known *known) {
    if (known && ten_record_cache_is_known(&run->store->cache, known))
        return true;
    if (known)
        want(run, known);
    return false;
}

bool ten_apply_knows_fresh(ten_run *run, ten_known *known) {
    if (known && ten_record_cache_is_fresh(&run->store->cache, known))
        return true;
    if (known)
        want(run, known);
    return false;
}

uint64_t ten_apply_end_ms(const ten_run *run, const ten_known *known) {
    const ten_record *record = &known->record;
    if (record->alive && !ten_record_cache_is_fresh(&run->store->cache, known))
        return TEN_APPLY_NOW_MS + 1; /* so it was when it was last seen: the store checks it */
    if (record->alive)
        return ten_add_saturating(TEN_APPLY_NOW_MS, record->left_ms);
    return record->version && record->ended_ms < TEN_APPLY_NOW_MS ? TEN_APPLY_NOW_MS - record->ended_ms : 0;
}

const char *ten_apply_text(ten_run *run, const ten_buf *text) {
    const char *copy = text->failed ? NULL : ten_arena_text(&run->store->texts, ten_buf_string(text));
    if (!copy)
        run->error = ten_apply_no_memory(run->store);
    return copy;
}

int ten_apply_read(ten_run *run) {
    ten_record_store *store = run->store;
    struct ten_apply_round *round = store->round;
    round->records.count = 0;
    for (size_t i = 0; i < round->wanted.count; i++)
        if (!ADD(round->records, (ten_record){.key = round->wanted.items[i]->record.key}))
            return ten_apply_no_memory(store);
    ten_backend *backend = store->backend;
    int r = backend->ops->read(backend, run->namespace_name, round->records.items, round->records.count,
                               ten_apply_left_ms(run));
    if (r < 0)
        return r;
    ten_apply_answered(store);
    for (size_t i = 0; i < round->wanted.count; i++)
        if (!ten_record_cache_set(&store->cache, round->wanted.items[i], &round->records.items[i]))
            return ten_apply_no_memory(store);
    round->wanted.count = 0;
    return TENURE_OK;
}

/* ---- intents -------------------------------------------------------------------------------------------- */

void ten_intent_check(ten_intent *intent, ten_known *known, enum ten_check_life life) {
    TEN_INVARIANT(intent->check_count < TEN_INTENT_CHECKS);
    intent->checks[intent->check_count++] = (struct ten_intent_check){.known = known, .life = life};
}

static void add_write(ten_intent *intent, ten_known *known, ten_write write) {
    TEN_INVARIANT(intent->write_count < TEN_INTENT_WRITES);
    write.key = known->record.key;
    intent->writes[intent->write_count++] = (struct ten_intent_write){.known = known, .write = write};
}

int ten_intent_put(ten_run *run, ten_intent *intent, ten_known *known, const ten_buf *value, const char *name,
                   uint64_t number, ten_life life) {
    if (known->record.version && !ten_value_is_writable(known->record.value))
        return ten_fail(&run->store->base.error, TENURE_E_SCHEMA,
                        "the record of %s was written by a newer version of Tenure; upgrade this program",
                        known->record.key.id);
    ten_write write = {.kind = TEN_WRITE_PUT, .number = number, .life = life};
    write.value = ten_apply_text(run, value);
    write.name = ten_arena_text(&run->store->texts, name);
    if (life.with.id) /* it may point into a row that is gone by then */
        write.life.with.id = ten_arena_text(&run->store->texts, life.with.id);
    if (!write.value || !write.name || (life.with.id && !write.life.with.id))
        return ten_apply_no_memory(run->store);
    add_write(intent, known, write);
    return TENURE_OK;
}

void ten_intent_remove(ten_intent *intent, ten_known *known) {
    add_write(intent, known, (ten_write){.kind = TEN_WRITE_REMOVE, .name = ""});
}

void ten_intent_raise(ten_intent *intent, ten_known *known) {
    add_write(intent, known, (ten_write){.kind = TEN_WRITE_RAISE, .name = "", .life = TEN_LIFE_AS_IT_IS});
}

int ten_intent_tell(ten_run *run, ten_intent *intent, const ten_change *change) {
    ten_buf *text = &run->store->value;
    TEN_INVARIANT(intent->entry_count < TEN_LEASE_CHANGES_MAX);
    ten_buf_clear(text);
    ten_feed_write(text, change, run->wall_ms);
    const char *copy = ten_apply_text(run, text);
    const char *id = copy && ten_feed_is_of_lease(change) ? ten_arena_text(&run->store->texts, change->target) : NULL;
    if (!copy || (ten_feed_is_of_lease(change) && !id))
        return ten_apply_no_memory(run->store);
    intent->entries[intent->entry_count] = copy;
    intent->entry_ids[intent->entry_count++] = id;
    return TENURE_OK;
}

/* ---- what a round does with records ---------------------------------------------------------------------- */

static unsigned uses_of(const ten_run *run, const ten_known *known) {
    return known->round == run->round ? known->uses : 0;
}

static void use(const ten_run *run, ten_known *known, unsigned uses) {
    known->uses = uses_of(run, known) | uses;
    known->round = run->round;
}

void ten_apply_reserve(const ten_run *run, ten_known *known) {
    use(run, known, TEN_USE_WRITE);
}

bool ten_apply_is_changed(const ten_run *run, const ten_known *known) {
    return uses_of(run, known) & (TEN_USE_WRITE | TEN_USE_RAISE | TEN_USE_TOUCH);
}

/* Touches are sent first. So a change may follow a touch of the same record, but not the other way round. The checks of
 * a touch are what it was decided by; they are not sent. */
bool ten_apply_may(const ten_run *run, const ten_intent *intent) {
    if (intent->touched && (uses_of(run, intent->touched) & (TEN_USE_WRITE | TEN_USE_RAISE)))
        return false;
    for (size_t i = 0; i < intent->check_count; i++)
        if (uses_of(run, intent->checks[i].known) & TEN_USE_WRITE)
            return false;
    for (size_t i = 0; i < intent->write_count; i++) {
        unsigned others = uses_of(run, intent->writes[i].known);
        bool raises = intent->writes[i].write.kind == TEN_WRITE_RAISE;
        if (others & (raises ? TEN_USE_WRITE : TEN_USE_WRITE | TEN_USE_RAISE | TEN_USE_CHECK))
            return false;
    }
    return true;
}

static int add_touch(ten_run *run, const ten_intent *intent, size_t *ret_place) {
    struct ten_apply_round *round = run->store->round;
    const ten_record *record = &intent->touched->record;
    *ret_place = round->touches.count;
    use(run, intent->touched, TEN_USE_TOUCH);
    bool added = ADD(round->touches, (ten_touch){.key = record->key,
                                                 .version = intent->touch_any ? TEN_VERSION_ANY : record->version,
                                                 .name = record->name,
                                                 .ttl_ms = intent->touch_ms,
                                                 .seen = intent->touched->seen}) &&
                 ADD(round->touch_known, intent->touched);
    return added ? TENURE_OK : ten_apply_no_memory(run->store);
}

static bool add_check(ten_run *run, const struct ten_intent_check *check, uint64_t change) {
    struct ten_apply_round *round = run->store->round;
    ten_known *known = check->known;
    if (known->round == run->round && (known->uses & TEN_USE_CHECK) && known->change == change)
        return true; /* the operation before it in the same change checks the same */
    use(run, known, TEN_USE_CHECK);
    known->change = change;
    return ADD(round->checks, (ten_check){.key = known->record.key,
                                          .version = check->any ? TEN_VERSION_ANY : known->record.version,
                                          .name = check->any ? NULL : known->record.name,
                                          .life = check->life}) &&
           ADD(round->check_known, known);
}

int ten_apply_add(ten_run *run, const ten_intent *intent, bool joins, size_t *ret_place) {
    struct ten_apply_round *round = run->store->round;
    if (intent->touched)
        return add_touch(run, intent, ret_place);
    bool added = joins || ADD(round->changes, (ten_commit_change){0});
    *ret_place = round->changes.count - 1;
    for (size_t i = 0; added && i < intent->check_count; i++)
        added = add_check(run, &intent->checks[i], *ret_place);
    for (size_t i = 0; added && i < intent->write_count; i++) {
        bool raises = intent->writes[i].write.kind == TEN_WRITE_RAISE;
        use(run, intent->writes[i].known, raises ? TEN_USE_RAISE : TEN_USE_WRITE);
        added = ADD(round->writes, intent->writes[i].write) && ADD(round->write_known, intent->writes[i].known);
    }
    for (size_t i = 0; added && i < intent->entry_count; i++)
        added = ADD(round->entries, (ten_entry){.id = intent->entry_ids[i], .text = intent->entries[i]});
    if (!added)
        return ten_apply_no_memory(run->store);
    ten_commit_change *change = &round->changes.items[*ret_place];
    change->check_count = round->checks.count; /* for now: where it ends */
    change->write_count = round->writes.count;
    change->entry_count = round->entries.count;
    round->least_number = ten_max_u64(round->least_number, intent->least_number);
    return TENURE_OK;
}

/* ---- sending -------------------------------------------------------------------------------------------- */

int ten_apply_round_begin(ten_run *run) {
    struct ten_apply_round *round = run->store->round;
    run->round++;
    run->wants = false;
    run->wall_ms = run->store->backend->wall_ms + ten_boot_ms(run->store->base.clock) - run->store->answered_ms;
    for (size_t i = 0; i < round->wanted.count; i++)
        round->wanted.items[i]->wanted = false;
    round->wanted.count = round->touches.count = round->touch_known.count = 0;
    round->changes.count = round->checks.count = round->check_known.count = 0;
    round->writes.count = round->write_known.count = round->entries.count = 0;
    round->least_number = 0;
    ten_arena_reset(&run->store->texts);
    run->tries++;
    if (run->tries > MOST_ROUNDS || (run->tries > FEW_ROUNDS && ten_boot_us() >= run->end_us))
        return ten_fail(&run->store->base.error, TENURE_E_TIMEOUT,
                        "gave up after repeated conflicts with other clients of the store");
    return TENURE_OK;
}

uint64_t ten_apply_left_ms(const ten_run *run) {
    return ten_max_u64(ten_sub_saturating(run->end_us, ten_boot_us()) / 1000u, 1);
}

void ten_apply_answered(ten_record_store *store) {
    store->answered_ms = ten_boot_ms(store->base.clock);
}

static void point(struct ten_apply_round *round) {
    size_t checks = 0;
    size_t writes = 0;
    size_t entries = 0;
    for (size_t i = 0; i < round->changes.count; i++) {
        ten_commit_change *change = &round->changes.items[i];
        *change = (ten_commit_change){.checks = round->checks.items + checks,
                                      .check_count = change->check_count - checks,
                                      .writes = round->writes.items + writes,
                                      .write_count = change->write_count - writes,
                                      .entries = round->entries.items + entries,
                                      .entry_count = change->entry_count - entries};
        checks += change->check_count;
        writes += change->write_count;
        entries += change->entry_count;
    }
}

/* What the record is after that write. */
static void note_write(ten_run *run, ten_known *known, const ten_write *write) {
    ten_record record = known->record;
    uint64_t left_ms = 0;
    if (write->kind == TEN_WRITE_REMOVE) {
        record = (ten_record){.name = ""};
    } else if (write->kind == TEN_WRITE_PUT) {
        const ten_life *life = &write->life;
        if (life->as_it_is && record.alive)
            left_ms = record.left_ms;
        if (life->with.id) {
            const ten_known *other = ten_apply_get(run, life->with.kind, life->with.id);
            left_ms = ten_max_u64(left_ms, other && other->record.alive ? other->record.left_ms : 0);
        }
        left_ms = life->kind == TEN_LIFE_ENDLESS ? TEN_FOREVER : ten_max_u64(left_ms, life->ttl_ms);
        bool stays_dead = life->kind == TEN_LIFE_LATEST && left_ms == 0;
        record = (ten_record){.value = write->value,
                              .name = write->name,
                              .number = write->number,
                              .alive = life->kind != TEN_LIFE_ENDED && left_ms > 0,
                              .left_ms = left_ms,
                              .ended_ms = stays_dead ? record.ended_ms : 0};
    }
    record.version = write->version;
    if (write->kind == TEN_WRITE_RAISE && known->record.version == 0)
        return;
    if (!ten_record_cache_set(&run->store->cache, known, &record))
        run->error = ten_apply_no_memory(run->store);
    known->seen = write->version;
}

/* Every write is among the checks of its change, so after a conflict nothing is known but what that brought. */
static void note_changes(ten_run *run) {
    struct ten_apply_round *round = run->store->round;
    for (size_t i = 0; i < round->changes.count; i++) {
        const ten_commit_change *change = &round->changes.items[i];
        for (size_t j = 0; change->conflict && j < change->check_count; j++)
            if (!ten_record_cache_set(&run->store->cache,
                                      round->check_known.items[(size_t)(change->checks - round->checks.items) + j],
                                      &change->checks[j].present))
                run->error = ten_apply_no_memory(run->store);
        if (change->conflict || change->error)
            continue;
        run->store->entries += change->entry_count;
        for (size_t j = 0; j < change->write_count; j++)
            note_write(run, round->write_known.items[(size_t)(change->writes - round->writes.items) + j],
                       &change->writes[j]);
    }
}

/* Whether they came to pass is not known. */
static void forget_changes(struct ten_apply_round *round) {
    for (size_t i = 0; i < round->write_known.count; i++)
        ten_record_cache_forget(round->write_known.items[i]);
}

static int commit(ten_run *run) {
    struct ten_apply_round *round = run->store->round;
    ten_backend *backend = run->store->backend;
    point(round);
    ten_commit request = {.namespace_name = run->namespace_name,
                          .identity = run->space->record.name,
                          .epoch = run->row.epoch,
                          .least_number = round->least_number,
                          .changes = round->changes.items,
                          .count = round->changes.count};
    for (size_t i = 0; i < round->write_known.count; i++)
        if (round->write_known.items[i] == run->space)
            request.identity = round->writes.items[i].name;
    int r = backend->ops->commit(backend, &request, ten_apply_left_ms(run));
    if (r != TENURE_OK) {
        forget_changes(round);
        return r;
    }
    ten_apply_answered(run->store);
    note_changes(run);
    return run->error;
}

bool ten_apply_touch_went_well(const ten_run *run, size_t place) {
    return run->store->round->touches.items[place].extended;
}

static int touch(ten_run *run, bool *ret_as_expected) {
    struct ten_apply_round *round = run->store->round;
    ten_backend *backend = run->store->backend;
    *ret_as_expected = true;
    int r = backend->ops->touch(backend, run->namespace_name, run->space->record.name, run->row.epoch,
                                round->touches.items, round->touches.count, ten_apply_left_ms(run));
    if (r != TENURE_OK)
        return r;
    ten_apply_answered(run->store);
    for (size_t i = 0; i < round->touches.count; i++) {
        ten_touch *touched = &round->touches.items[i];
        ten_known *known = round->touch_known.items[i];
        bool is_same = touched->extended && touched->present == known->record.version;
        if (!is_same) {
            *ret_as_expected = false;
            ten_record_cache_forget(known);
        } else {
            bool fresh = ten_record_cache_is_fresh(&run->store->cache, known);
            known->record.left_ms = ten_max_u64(fresh ? known->record.left_ms : 0, touched->ttl_ms);
            known->fresh_in = run->store->cache.call;
            known->seen = touched->seen;
        }
        if (touched->extended)
            known->touched_in = run->store->cache.call;
        touched->extended = is_same; /* a change of the same round may give the record another version */
    }
    return TENURE_OK;
}

int ten_apply_send(ten_run *run) {
    struct ten_apply_round *round = run->store->round;
    bool as_expected = true;
    int r = round->touches.count > 0 ? touch(run, &as_expected) : TENURE_OK;
    if (r == TENURE_OK && !as_expected)
        for (size_t i = 0; i < round->changes.count; i++)
            round->changes.items[i].conflict = true; /* decided by what was not so: again */
    else if (r == TENURE_OK && round->changes.count > 0)
        r = commit(run);
    if (r == TEN_OTHER_EPOCH)
        ten_record_cache_forget_all(&run->store->cache);
    return r;
}

bool ten_apply_change_went_well(const ten_run *run, size_t place, int *ret_error) {
    const ten_commit_change *change = &run->store->round->changes.items[place];
    *ret_error = change->error;
    return !change->conflict;
}

int ten_apply_commit_alone(ten_run *run, const ten_intent *intent, bool *ret_done) {
    size_t place;
    int error = 0;
    run->store->round->changes.count = run->store->round->checks.count = run->store->round->check_known.count = 0;
    run->store->round->writes.count = run->store->round->write_known.count = run->store->round->entries.count = 0;
    run->round++;
    int r = ten_apply_add(run, intent, false, &place);
    if (r == TENURE_OK)
        r = commit(run);
    if (r == TEN_OTHER_EPOCH)
        ten_record_cache_forget_all(&run->store->cache);
    *ret_done = r == TENURE_OK && ten_apply_change_went_well(run, place, &error);
    return r < 0 ? r : error;
}

ten_run ten_apply_run(ten_record_store *store, const char *namespace_name, uint64_t timeout_ms) {
    return (ten_run){.store = store,
                     .namespace_name = namespace_name,
                     .end_us = ten_boot_us() + ten_min_u64(timeout_ms, TENURE_TTL_MAX_MS) * 1000u,
                     .round = store->cache.call << 20};
}
