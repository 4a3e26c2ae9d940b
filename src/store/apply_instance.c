/*
 * One operation on an instance: a heartbeat, a leave or a request; and the look at the fleet when one joins. The rules
 * are rules/instance_row.h's. See apply.h.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "store/apply.h"

#define SCAN_PAGE 256u

int ten_apply_instance_row(ten_run *run, ten_known *known, ten_instance_row *row, const char **ret_metadata) {
    ten_record record = known->record;
    if (record.alive && !ten_record_cache_is_fresh(&run->store->cache, known))
        record.left_ms = 1; /* so it was when it was last seen: the store checks it */
    return ten_instance_row_read(&record, TEN_APPLY_NOW_MS, run->wall_ms, row, ret_metadata, &run->store->decoded)
               ? TENURE_OK
               : ten_apply_damaged(run->store, known);
}

static ten_change change_of(const ten_run *run, const char *instance, enum tenure_event_kind kind,
                            enum ten_reason reason) {
    return (ten_change){.kind = kind,
                        .reason = reason,
                        .namespace_name = run->namespace_name,
                        .target = "",
                        .instance = instance,
                        .actor = ""};
}

/* The name says whether it is announced: then others find it, and only then a heartbeat extends it. */
static int put_instance(ten_run *run, ten_intent *intent, ten_known *known, const ten_instance_row *row,
                        const char *metadata, ten_life life) {
    ten_buf *value = &run->store->value;
    ten_buf_clear(value);
    ten_instance_row_write(value, known->record.version ? known->record.value : NULL, row, TEN_APPLY_NOW_MS,
                           run->wall_ms, metadata);
    return ten_intent_put(run, intent, known, value, row->gone ? "" : known->record.key.id, row->weight, life);
}

int ten_apply_bury(ten_run *run, ten_known *known, ten_intent *intent) {
    ten_instance_row row;
    const char *metadata;
    int r = ten_apply_instance_row(run, known, &row, &metadata);
    ten_intent_check(intent, known, TEN_CHECK_DEAD);
    ten_instance_row_expire(&row);
    if (r == TENURE_OK)
        r = put_instance(run, intent, known, &row, metadata, (ten_life){.kind = TEN_LIFE_ENDED});
    ten_change change = change_of(run, known->record.key.id, TENURE_EVENT_LEFT, TEN_REASON_EXPIRED);
    return r < 0 ? r : ten_intent_tell(run, intent, &change);
}

/* ---- the fleet ------------------------------------------------------------------------------------------ */

/* Those that have expired are noticed when one joins; that is rare, and must look at the others anyway. */
struct fleet {
    ten_run *run;
    const char *joining;
    uint64_t ttl_ms; /* of one that is there; 0: there is none */
    size_t seen;
    char last[TENURE_HOLDER_MAX + 1];
    ten_known *over[SCAN_PAGE]; /* expired, or dead for so long that nobody asks any more */
    size_t over_count;
};

static int see_instance(const ten_record *record, void *userdata) {
    struct fleet *fleet = userdata;
    ten_instance_row row;
    const char *metadata;
    ten_run *run = fleet->run;
    fleet->seen++;
    ten_copy_text(fleet->last, sizeof fleet->last, record->key.id);
    if (record->foreign || strcmp(record->key.id, fleet->joining) == 0)
        return 0;
    if (!ten_instance_row_read(record, TEN_APPLY_NOW_MS, run->wall_ms, &row, &metadata, &run->store->decoded))
        return 0;
    if (ten_instance_row_is_live(&row, TEN_APPLY_NOW_MS)) {
        fleet->ttl_ms = row.ttl_ms;
        return 0;
    }
    if (record->alive || (row.gone && !ten_instance_row_is_over(&row, TEN_APPLY_NOW_MS)))
        return 0;
    ten_known *known = ten_apply_get(run, TEN_KIND_INSTANCE, record->key.id);
    if (!known || !ten_record_cache_set(&run->store->cache, known, record))
        return ten_apply_no_memory(run->store);
    fleet->over[fleet->over_count++] = known;
    return 0;
}

static int end_one(ten_run *run, ten_known *known) {
    ten_intent intent = {0};
    ten_instance_row row;
    const char *metadata;
    size_t place;
    int r = ten_apply_instance_row(run, known, &row, &metadata);
    if (r == TENURE_OK && !row.gone) {
        r = ten_apply_bury(run, known, &intent);
    } else if (r == TENURE_OK) {
        ten_intent_check(&intent, known, TEN_CHECK_DEAD);
        ten_intent_remove(&intent, known);
    }
    return r == TENURE_OK && ten_apply_may(run, &intent) ? ten_apply_add(run, &intent, false, &place) : r;
}

static int look_at_fleet(ten_run *run, const char *joining, uint64_t *ret_ttl_ms) {
    ten_backend *backend = run->store->backend;
    struct fleet *fleet = ten_calloc(1, sizeof *fleet);
    if (!fleet)
        return ten_apply_no_memory(run->store);
    fleet->run = run;
    fleet->joining = joining;
    int r = TENURE_OK;
    do {
        char after[TENURE_HOLDER_MAX + 1];
        memcpy(after, fleet->last, sizeof after);
        fleet->seen = fleet->over_count = 0;
        ten_scan scan = {
            .namespace_name = run->namespace_name, .kind = TEN_KIND_INSTANCE, .after = after, .limit = SCAN_PAGE};
        r = backend->ops->scan(backend, &scan, see_instance, fleet, ten_apply_left_ms(run));
        for (size_t i = 0; r == TENURE_OK && i < fleet->over_count; i++)
            r = end_one(run, fleet->over[i]);
    } while (r == TENURE_OK && fleet->seen == SCAN_PAGE);
    *ret_ttl_ms = fleet->ttl_ms;
    ten_free(fleet);
    return r;
}

/* ---- the operation -------------------------------------------------------------------------------------- */

/* A number that never comes again, so that no lease of a former session is revived; a JSON number. */
static uint64_t new_session(void) {
    return (ten_random_u64() >> 12) + 1;
}

/* The record is as it is in this call, and nobody before in this round changes it. */
static bool rests_on_reads(ten_run *run, ten_known *known) {
    bool fresh = ten_apply_knows_fresh(run, known);
    return fresh && !ten_apply_is_changed(run, known);
}

/* The first of a fleet says which TTL it has. Who joins with another one while nobody else is there sees to it that no
 * other joins at the same time with the former. */
static int check_fleet(ten_run *run, const ten_op *op, ten_intent *intent) {
    ten_namespace_row row = run->row;
    ten_intent_check(intent, run->space, TEN_CHECK_EITHER);
    uint64_t keyed = !run->store->base.capabilities.sessions;
    if (row.fleet_ttl_ms == op->ttl_ms && row.fleet_keyed == keyed)
        return TENURE_OK;
    row.fleet_ttl_ms = op->ttl_ms;
    row.fleet_keyed = keyed;
    ten_buf_clear(&run->store->value);
    ten_namespace_row_write(&run->store->value, run->space->record.value, &row);
    return ten_intent_put(run, intent, run->space, &run->store->value, run->space->record.name, row.epoch,
                          (ten_life){.kind = TEN_LIFE_ENDLESS});
}

/* The leases of a fleet are kept in one way: to one that knows no sessions those of the others would be free. */
static int check_ways(ten_run *run) {
    ten_backend *backend = run->store->backend;
    bool sessions = run->store->base.capabilities.sessions;
    ten_record record = {.key = {TEN_KIND_NAMESPACE, ""}};
    ten_namespace_row row = run->row;
    if (sessions == !row.fleet_keyed)
        return TENURE_OK;
    /* The first of the fleet may have joined since it was read. */
    int r = backend->ops->read(backend, run->namespace_name, &record, 1, ten_apply_left_ms(run));
    if (r < 0)
        return r;
    ten_apply_answered(run->store);
    if (!ten_namespace_row_read(&record, &row) || sessions == !row.fleet_keyed)
        return TENURE_OK; /* what is damaged is told by who reads it next */
    return ten_fail(&run->store->base.error, TENURE_E_INVALID,
                    "the instances of namespace %s use leases=%s, but this URL says leases=%s%s; use one setting for a "
                    "namespace",
                    run->namespace_name, sessions ? "key" : "session", sessions ? "session" : "key",
                    sessions ? "" : " (the default)");
}

static bool is_same(const ten_instance_row *row, const ten_instance_row *other) {
    return row->exists == other->exists && row->gone == other->gone && row->weight == other->weight &&
           row->ttl_ms == other->ttl_ms && row->since_ms == other->since_ms && row->ask == other->ask &&
           row->session == other->session;
}

static void report_session(const ten_run *run, const ten_known *known, ten_result *result) {
    ten_instance_row row = {.session_version = known->record.version};
    result->session_version =
        result->session ? ten_instance_row_reported_version(&row, run->row.token_floor, run->row.epoch) : 0;
}

/* Everything as it was: nearly every heartbeat. Whatever others did to the leases of its session, it is alive; the
 * version that comes back tells its holder. */
static int beat(ten_run *run, ten_known *known, const ten_op *op, ten_result *result, ten_intent *intent) {
    bool fresh = ten_record_cache_is_fresh(&run->store->cache, known) && !ten_apply_is_changed(run, known);
    bool touched = known->touched_in == run->store->cache.call; /* in a round before, and then it was read */
    report_session(run, known, result);
    if (fresh && (touched || known->record.left_ms > op->ttl_ms))
        return TEN_VERDICT_DONE;
    intent->touched = known;
    intent->touch_ms = op->ttl_ms;
    intent->touch_any = true;
    return TEN_VERDICT_PLANNED;
}

int ten_apply_to_instance(ten_run *run, const ten_op *op, ten_result *result, ten_intent *intent) {
    ten_known *known = ten_apply_get(run, TEN_KIND_INSTANCE, op->holder);
    ten_instance_row before;
    ten_instance_effect effect;
    const char *metadata;
    uint64_t fleet_ttl_ms = 0;
    *result = (ten_result){0};
    *intent = (ten_intent){0};
    if (!ten_apply_knows(run, known) || !run->entered)
        return run->error ? run->error : TEN_VERDICT_WAITS;
    int r = ten_apply_instance_row(run, known, &before, &metadata);
    bool is_beat = op->kind == TEN_OP_ANNOUNCE;
    bool joins = is_beat && !ten_instance_row_is_live(&before, TEN_APPLY_NOW_MS);
    if (r == TENURE_OK && joins && !rests_on_reads(run, known))
        return TEN_VERDICT_WAITS;
    if (r == TENURE_OK && joins && !ten_instance_row_is_tombstone(&before, TEN_APPLY_NOW_MS)) {
        const char *kept = ten_arena_text(&run->store->texts, metadata); /* the fleet's are read into the same place */
        r = kept ? look_at_fleet(run, op->holder, &fleet_ttl_ms) : ten_apply_no_memory(run->store);
        metadata = kept;
    }
    if (r == TENURE_OK && fleet_ttl_ms != 0 && fleet_ttl_ms == op->ttl_ms)
        r = check_ways(run);
    if (r < 0)
        return r;
    const char *said = is_beat && op->metadata ? op->metadata : "";
    bool differs = is_beat && strcmp(metadata, said) != 0;
    ten_instance_row row = before;
    bool begins = (op->flags & TEN_OP_SESSION) && ten_instance_row_session(&before, TEN_APPLY_NOW_MS).id == 0;
    ten_instance_row_apply(&row, op, TEN_APPLY_NOW_MS, run->wall_ms, differs, fleet_ttl_ms, begins ? new_session() : 0,
                           result, &effect);
    if (!effect.row_changed && !effect.row_removed)
        return rests_on_reads(run, known) ? TEN_VERDICT_DONE : TEN_VERDICT_WAITS;
    /* No life is as long as that: the store's clock was set back. */
    bool is_unheard_of =
        ten_record_cache_is_fresh(&run->store->cache, known) && known->record.left_ms > run->row.longest_ms;
    if (is_beat && !effect.changed && is_same(&before, &row) && !is_unheard_of)
        return beat(run, known, op, result, intent);
    effect.life.as_it_is &= !is_unheard_of;
    /* What it comes to depends on whether it is alive. */
    ten_intent_check(intent, known, known->record.alive ? TEN_CHECK_ALIVE : TEN_CHECK_DEAD);
    if (joins)
        r = check_fleet(run, op, intent);
    if (r == TENURE_OK && effect.row_removed)
        ten_intent_remove(intent, known);
    else if (r == TENURE_OK)
        r = put_instance(run, intent, known, &row, is_beat ? said : metadata, effect.life);
    if (r == TENURE_OK && effect.changed) {
        ten_change change = change_of(run, op->holder, effect.change, effect.reason);
        change.actor = op->actor ? op->actor : "";
        r = ten_intent_tell(run, intent, &change);
    }
    return r < 0 ? r : TEN_VERDICT_PLANNED;
}
