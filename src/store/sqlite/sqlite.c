/*
 * The SQLite backend: the store contract on one database file, for processes of one host. A batch is one transaction.
 * The rules for leases and instances are lease_row.c's and instance_row.c's; the file, the clock and the epoch are
 * sqlite_db.c's.
 *
 * A transaction of plain renewals and heartbeats is committed without waiting for the disk. Losing it with the power is
 * harmless: every holder on this host is gone then, too, and after a reboot a lease is kept for its whole TTL.
 * Everything else waits for the disk, so that a token once granted is never granted again.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "rules/instance_row.h"
#include "rules/lease_row.h"
#include "rules/pin.h"
#include "store/sqlite/sqlite_db.h"

#define GONE_FOR_SESSION 2u /* instance.gone: it has left, and is kept until its session ends */

struct sqlite_store {
    ten_store base;
    ten_db db;
    ten_arena results;
};

static struct sqlite_store *self(ten_store *store) {
    return (struct sqlite_store *)store;
}

/* ---- leases -------------------------------------------------------------------------------------------- */

static void copy_holder(char *holder, const char *text) {
    snprintf(holder, TENURE_HOLDER_MAX + 1, "%s", text ? text : "");
}

static int get_lease(ten_db *db, const ten_op *op, ten_lease_row *row) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_LEASE);
    if (!statement)
        return db->error->code;
    *row = (ten_lease_row){0};
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->target);
    int found = ten_db_step(db, statement);
    if (found > 0) {
        const char *holder = ten_column_text(statement, 0);
        row->exists = true;
        copy_holder(row->holder, holder);
        row->token = ten_column_u64(statement, 1);
        /* A holder that could not be read must not pass for none; nor a token that no store grants for one to count on
         * from. */
        if (!holder && sqlite3_column_type(statement, 0) != SQLITE_NULL)
            found = ten_fail_memory(db->error, "the lease on %s", op->target);
        else if (row->token > TENURE_TOKEN_MAX)
            found = ten_fail(db->error, TENURE_E_STORE,
                             "%s: the token of %s is out of range: the database is damaged; restore a backup of it",
                             db->path, op->target);
        row->ends_ms = ten_column_u64(statement, 2);
        row->ttl_ms = ten_column_u64(statement, 3);
        row->acquired_at_ms = ten_column_u64(statement, 4);
        row->barred = ten_column_u64(statement, 5) != 0;
        row->ask = (enum ten_ask)ten_column_u64(statement, 6);
        row->session = ten_column_u64(statement, 7);
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_lease(ten_db *db, const ten_op *op, const ten_lease_row *row) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_PUT_LEASE);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->target);
    ten_bind_text(statement, 3, row->holder[0] ? row->holder : NULL);
    ten_bind_u64(statement, 4, row->token);
    ten_bind_u64(statement, 5, row->session ? TEN_ENDS_WITH_SESSION : row->ends_ms);
    ten_bind_u64(statement, 6, row->ttl_ms);
    ten_bind_u64(statement, 7, row->acquired_at_ms);
    ten_bind_u64(statement, 8, row->barred);
    ten_bind_u64(statement, 9, (uint64_t)row->ask);
    ten_bind_u64(statement, 10, (op->flags & TEN_OP_KEEP) != 0);
    ten_bind_u64(statement, 11, row->session);
    return ten_db_run(db, statement);
}

static int get_registration(ten_db *db, const char *namespace_name, const char *id, bool *ret_registered,
                            bool *ret_paused) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_TARGET);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, namespace_name);
    ten_bind_text(statement, 2, id);
    int found = ten_db_step(db, statement);
    *ret_registered = found > 0;
    *ret_paused = found > 0 && ten_column_u64(statement, 0) != 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int get_instance(ten_db *db, const ten_op *op, ten_instance_row *row, bool *ret_same_metadata) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_INSTANCE);
    if (!statement)
        return db->error->code;
    *row = (ten_instance_row){0};
    *ret_same_metadata = false;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->holder);
    ten_bind_text(statement, 3, op->metadata ? op->metadata : "");
    int found = ten_db_step(db, statement);
    if (found > 0) {
        row->exists = true;
        row->weight = (uint32_t)ten_column_u64(statement, 0);
        row->ttl_ms = ten_column_u64(statement, 1);
        row->ends_ms = ten_column_u64(statement, 2);
        row->since_ms = ten_column_u64(statement, 3);
        row->gone = ten_column_u64(statement, 4) != 0;
        row->ask = (enum ten_ask)ten_column_u64(statement, 5);
        *ret_same_metadata = ten_column_u64(statement, 6) != 0;
        row->session = ten_column_u64(statement, 7);
        row->session_ends_ms = ten_column_u64(statement, 8);
        row->session_version = ten_column_u64(statement, 9);
        if (ten_column_u64(statement, 4) == GONE_FOR_SESSION)
            row->ends_ms = 0;
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_checkpoint(ten_db *db, const ten_op *op) {
    bool removes = op->checkpoint[0] == '\0';
    sqlite3_stmt *statement = ten_db_statement(db, removes ? TEN_SQL_REMOVE_CHECKPOINT : TEN_SQL_PUT_CHECKPOINT);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->target);
    if (!removes) {
        ten_bind_u64(statement, 3, op->token);
        ten_bind_text(statement, 4, op->checkpoint);
    }
    return ten_db_run(db, statement);
}

static int get_checkpoint(struct sqlite_store *store, const ten_op *op, ten_result *result) {
    ten_db *db = &store->db;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_CHECKPOINT);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->target);
    int found = ten_db_step(db, statement);
    if (found > 0) {
        const char *value = ten_column_text(statement, 0);
        result->checkpoint = value ? ten_arena_text(&store->results, value) : NULL;
        result->checkpoint_token = ten_column_u64(statement, 1);
        if (!result->checkpoint)
            found = ten_fail_memory(db->error, "the checkpoint of %s", op->target);
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

/* One statement for nearly every renewal; 1 when it matched, 0 when the rules have to be asked. */
static int renew_plainly(ten_db *db, const ten_op *op, ten_result *result) {
    if (!op->holder || op->ttl_ms == 0 || (op->flags & (TEN_OP_KEEP | TEN_OP_SESSION)))
        return 0;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_RENEW);
    if (!statement)
        return db->error->code;
    uint64_t ends_ms = db->context.now_ms + op->ttl_ms;
    ten_bind_u64(statement, 1, ends_ms);
    ten_bind_text(statement, 2, op->namespace_name);
    ten_bind_text(statement, 3, op->target);
    ten_bind_u64(statement, 4, op->token);
    ten_bind_text(statement, 5, op->holder);
    ten_bind_u64(statement, 6, op->ttl_ms);
    ten_bind_u64(statement, 7, db->context.now_ms);
    int r = ten_db_run(db, statement);
    if (r < 0)
        return r;
    if (sqlite3_changes(db->connection) == 0)
        return 0;
    ten_db_note_end(db, ends_ms);
    *result = (ten_result){
        .outcome = TEN_OK, .token = op->token, .ttl_ms = op->ttl_ms, .remaining_ms = op->ttl_ms, .holder = op->holder};
    return 1;
}

/* Whether a lease may be handed over to the successor. */
static int look_at_successor(ten_db *db, const ten_op *op) {
    ten_op heartbeat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = op->namespace_name, .holder = op->successor};
    ten_instance_row successor;
    bool same_metadata;
    int r = get_instance(db, &heartbeat, &successor, &same_metadata);
    db->context.successor_ms = r == TENURE_OK ? ten_instance_row_ready_ms(&successor, db->context.now_ms) : 0;
    return r;
}

/* What an acquire, a read or a hand has to know beside the lease. 1: the result is settled. */
static int look_before(ten_db *db, const ten_op *op, const ten_lease_row *row, ten_result *result) {
    int r = TENURE_OK;
    if (op->kind == TEN_OP_READ || (op->flags & TEN_OP_REQUIRE_TARGET))
        r = get_registration(db, op->namespace_name, op->target, &result->registered, &result->paused);
    if (r == TENURE_OK && (op->flags & TEN_OP_REQUIRE_TARGET) && !result->registered && !row->exists) {
        result->outcome = TEN_UNKNOWN;
        return 1;
    }
    if (r == TENURE_OK && op->kind == TEN_OP_HAND)
        r = look_at_successor(db, op);
    db->context.session = (ten_session){0};
    bool on_session = (op->flags & TEN_OP_SESSION) && op->holder;
    if (r == TENURE_OK && (op->kind == TEN_OP_ACQUIRE || (op->kind == TEN_OP_RENEW && on_session))) {
        ten_instance_row instance;
        bool same_metadata;
        r = get_instance(db, op, &instance, &same_metadata);
        if (r == TENURE_OK && on_session)
            db->context.session = ten_instance_row_session(&instance, db->context.now_ms);
        if (r == TENURE_OK && op->kind == TEN_OP_ACQUIRE &&
            ten_instance_row_is_tombstone(&instance, db->context.now_ms)) {
            result->error = TENURE_E_GONE;
            return 1;
        }
    }
    return r;
}

static const ten_result no_room = {.outcome = TEN_ERROR, .error = TENURE_E_FULL};

/* Its holder learns with its next heartbeat that somebody has touched a lease of the session. */
static int touch_session(ten_db *db, const ten_op *op, const ten_lease_effect *effect) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_TOUCH_SESSION);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, effect->touched_holder);
    ten_bind_u64(statement, 3, effect->touched_session);
    return ten_db_run(db, statement);
}

static int apply_to_lease(struct sqlite_store *store, const ten_op *op, enum ten_group_pass pass, ten_result *result,
                          bool *must_last) {
    ten_db *db = &store->db;
    int r = op->kind == TEN_OP_RENEW ? renew_plainly(db, op, result) : 0;
    if (r != 0)
        return r < 0 ? r : TENURE_OK;
    ten_lease_row row;
    ten_lease_effect effect;
    r = get_lease(db, op, &row);
    if (r == TENURE_OK)
        r = look_before(db, op, &row, result);
    if (r != TENURE_OK)
        return r < 0 ? r : TENURE_OK;
    if (op->kind == TEN_OP_ACQUIRE && !row.exists && !ten_db_has_room(db)) {
        *result = no_room;
        return TENURE_OK;
    }
    if (!row.exists && (r = ten_db_get_forgotten(db, op->namespace_name)) < 0)
        return r;
    uint64_t ended_ms = row.ends_ms;
    bool was_on_session = row.session != 0;
    db->context.withheld = pass == TEN_GROUP_WITHHOLD;
    ten_lease_row_apply(&row, op, &db->context, result, &effect);
    if (pass == TEN_GROUP_JUDGE)
        return TENURE_OK;
    if (effect.proves_loss) {
        *must_last = true;
        r = ten_db_begin_proved_epoch(db, op->flags & TEN_OP_KEEP ? 0 : op->ttl_ms);
        if (r < 0)
            return r;
        ten_lease_row_apply(&row, op, &db->context, result, &effect);
    }
    if (effect.row_changed) {
        *must_last |= effect.must_last;
        /* What is only kept for others, nobody believes in: no epoch waits for it. Whoever asks for it, or bars it,
         * leaves its end as it is. */
        if (row.holder[0] == '\0' && !was_on_session)
            ten_db_note_released(db, ended_ms);
        else if (row.holder[0] != '\0' && !(op->flags & TEN_OP_KEEP) && row.ends_ms != ended_ms)
            ten_db_note_end(db, row.ends_ms);
        r = put_lease(db, op, &row);
        if (r == TENURE_OK && effect.touched_session)
            r = touch_session(db, op, &effect);
    }
    ten_change changes[TEN_LEASE_CHANGES_MAX];
    size_t count = ten_lease_row_changes(&row, op, &effect, changes);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_db_add_change(db, &changes[i]);
    if (r == TENURE_OK && effect.checkpointed)
        r = put_checkpoint(db, op);
    if (r == TENURE_OK && (op->flags & TEN_OP_WITH_CHECKPOINT) && result->outcome == TEN_OK)
        r = get_checkpoint(store, op, result);
    if (r == TENURE_OK && result->holder && !(result->holder = ten_arena_text(&store->results, result->holder)))
        r = ten_fail_memory(db->error, "the answer about %s", op->target);
    return r;
}

/* ---- instances ----------------------------------------------------------------------------------------- */

/* One statement for nearly every heartbeat; 1 when it matched. */
static int beat_plainly(ten_db *db, const ten_op *op, ten_result *result) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_BEAT);
    if (!statement)
        return db->error->code;
    ten_bind_u64(statement, 1, db->context.now_ms + op->ttl_ms);
    ten_bind_text(statement, 2, op->namespace_name);
    ten_bind_text(statement, 3, op->holder);
    ten_bind_u64(statement, 4, op->weight);
    ten_bind_text(statement, 5, op->metadata ? op->metadata : "");
    ten_bind_u64(statement, 6, op->ttl_ms);
    ten_bind_u64(statement, 7, db->context.now_ms);
    ten_bind_u64(statement, 8, (op->flags & TEN_OP_SESSION) != 0);
    int found = ten_db_step(db, statement);
    if (found > 0) {
        *result = (ten_result){.outcome = TEN_OK,
                               .ttl_ms = op->ttl_ms,
                               .remaining_ms = op->ttl_ms,
                               .session = ten_column_u64(statement, 0)};
        ten_instance_row row = {.session_version = ten_column_u64(statement, 1)};
        result->session_version = ten_instance_row_reported_version(&row, db->context.token_floor, db->epoch_ms);
        if (result->session)
            ten_db_note_end(db, db->context.now_ms + op->ttl_ms);
        else
            result->session_version = 0;
    }
    sqlite3_reset(statement);
    return found;
}

/* Marks the instances that have expired, and tells the feed. They are noticed when one joins; that is rare, and
 * must look at the others anyway. */
static int sweep_instances(ten_db *db, const ten_op *op) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_EXPIRED_INSTANCES);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->holder);
    ten_bind_u64(statement, 3, db->context.now_ms);
    int found;
    while ((found = ten_db_step(db, statement)) > 0) {
        ten_change change = {.kind = TENURE_EVENT_LEFT,
                             .reason = TEN_REASON_EXPIRED,
                             .namespace_name = op->namespace_name,
                             .target = "",
                             .instance = ten_column_text(statement, 0),
                             .actor = ""};
        found = ten_db_add_change(db, &change);
        if (found < 0)
            break;
    }
    sqlite3_reset(statement);
    sqlite3_stmt *removal = found < 0 ? NULL : ten_db_statement(db, TEN_SQL_REMOVE_INSTANCES);
    if (!removal)
        return found < 0 ? found : db->error->code;
    ten_bind_text(removal, 1, op->namespace_name);
    ten_bind_text(removal, 2, op->holder);
    ten_bind_u64(removal, 3, ten_sub_saturating(db->context.now_ms, TEN_INSTANCE_KEPT_MS));
    return ten_db_run(db, removal);
}

static int get_fleet_ttl(ten_db *db, const ten_op *op, uint64_t *ret_ttl_ms) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_FLEET_TTL);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->holder);
    ten_bind_u64(statement, 3, db->context.now_ms);
    int found = ten_db_step(db, statement);
    *ret_ttl_ms = found > 0 ? ten_column_u64(statement, 0) : 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_instance(ten_db *db, const ten_op *op, const ten_instance_row *row) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_PUT_INSTANCE);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->holder);
    ten_bind_u64(statement, 3, row->weight);
    ten_bind_text(statement, 4, op->kind != TEN_OP_ANNOUNCE ? NULL : op->metadata ? op->metadata : "");
    ten_bind_u64(statement, 5, row->ttl_ms);
    bool for_session = row->gone && row->session_ends_ms > row->ends_ms;
    ten_bind_u64(statement, 6, for_session ? row->session_ends_ms : row->ends_ms);
    ten_bind_u64(statement, 7, row->since_ms);
    ten_bind_u64(statement, 8, for_session ? GONE_FOR_SESSION : row->gone);
    ten_bind_u64(statement, 9, (uint64_t)row->ask);
    ten_bind_u64(statement, 10, row->session);
    ten_bind_u64(statement, 11, row->session_ends_ms);
    ten_bind_u64(statement, 12, row->session_version);
    return ten_db_run(db, statement);
}

static int remove_instance(ten_db *db, const ten_op *op) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_REMOVE_INSTANCE);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, op->namespace_name);
    ten_bind_text(statement, 2, op->holder);
    return ten_db_run(db, statement);
}

static int apply_to_instance(ten_db *db, const ten_op *op, ten_result *result, bool *must_last) {
    int r = op->kind == TEN_OP_ANNOUNCE ? beat_plainly(db, op, result) : 0;
    if (r != 0)
        return r < 0 ? r : TENURE_OK;
    ten_instance_row row;
    ten_instance_effect effect;
    bool same_metadata;
    uint64_t fleet_ttl_ms = 0;
    r = get_instance(db, op, &row, &same_metadata);
    bool joins = op->kind == TEN_OP_ANNOUNCE && !ten_instance_row_is_live(&row, db->context.now_ms);
    bool buries = op->kind == TEN_OP_LEAVE && !row.exists && op->ttl_ms > 0; /* a tombstone of one that was not there */
    if (r == TENURE_OK && (joins || buries) && !ten_db_has_room(db)) {
        *result = no_room;
        return TENURE_OK;
    }
    if (r == TENURE_OK && joins)
        r = sweep_instances(db, op);
    if (r == TENURE_OK && joins)
        r = get_fleet_ttl(db, op, &fleet_ttl_ms);
    if (r < 0)
        return r;
    ten_instance_row_apply(&row, op, db->context.now_ms, db->context.wall_ms, !same_metadata, fleet_ttl_ms,
                           db->generation + 1, result, &effect);
    if (result->session) {
        result->session_version = ten_instance_row_reported_version(&row, db->context.token_floor, db->epoch_ms);
        ten_db_note_end(db, row.session_ends_ms);
    }
    *must_last |= effect.must_last;
    if (effect.row_removed)
        r = remove_instance(db, op);
    else if (effect.row_changed)
        r = put_instance(db, op, &row);
    if (r == TENURE_OK && effect.changed)
        r = ten_db_add_change(db, &(ten_change){.kind = effect.change,
                                                .reason = effect.reason,
                                                .namespace_name = op->namespace_name,
                                                .target = "",
                                                .instance = op->holder,
                                                .actor = op->actor ? op->actor : ""});
    return r;
}

/* ---- batches ------------------------------------------------------------------------------------------- */

enum weight { ONLY_READS, ONLY_RENEWALS, CHANGES };

static enum weight weigh(const ten_op *ops, size_t count) {
    enum weight weight = ONLY_READS;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kind == TEN_OP_RENEW || ops[i].kind == TEN_OP_ANNOUNCE)
            weight = ONLY_RENEWALS;
        else if (ops[i].kind != TEN_OP_READ)
            return CHANGES;
    }
    return weight;
}

/* Whether the acquires of a group get their targets; of one operation by itself, nothing has to be known before. */
static int judge_group(struct sqlite_store *store, const ten_op *ops, size_t count, enum ten_group_pass *ret_pass) {
    int r = TENURE_OK;
    *ret_pass = TEN_GROUP_GRANT;
    for (size_t i = 0; r == TENURE_OK && ops[0].group && i < count; i++) {
        ten_result judged = {0};
        bool must_last;
        r = apply_to_lease(store, &ops[i], TEN_GROUP_JUDGE, &judged, &must_last);
        if (judged.outcome != TEN_OK)
            *ret_pass = TEN_GROUP_WITHHOLD;
    }
    return r;
}

static int apply_all(struct sqlite_store *store, const ten_op *ops, ten_result *results, size_t count,
                     bool *must_last) {
    int r = TENURE_OK;
    size_t refused = 0;
    enum ten_group_pass pass = TEN_GROUP_GRANT;
    ten_arena_reset(&store->results);
    for (size_t i = 0, judged = 0; r == TENURE_OK && i < count; i++) {
        if (i == judged) {
            judged += ten_op_group_length(&ops[i], count - i);
            r = judge_group(store, &ops[i], judged - i, &pass);
        }
        results[i] = (ten_result){0};
        if (r == TENURE_OK)
            r = ops[i].target ? apply_to_lease(store, &ops[i], pass, &results[i], must_last)
                              : apply_to_instance(&store->db, &ops[i], &results[i], must_last);
        refused += results[i].outcome == TEN_ERROR && results[i].error == TENURE_E_FULL;
    }
    return r == TENURE_OK && refused == count ? ten_db_say_full(&store->db) : r;
}

static int sqlite_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    struct sqlite_store *store = self(base);
    enum weight weight = weigh(ops, count);
    bool must_last = false;
    int r = weight == ONLY_READS ? ten_db_begin_read(&store->db, timeout_ms)
                                 : ten_db_begin_write(&store->db, weight == CHANGES, timeout_ms);
    if (r < 0)
        return r;
    r = apply_all(store, ops, results, count, &must_last);
    if (r < 0 || weight == CHANGES || !must_last)
        return ten_db_end(&store->db, r);
    /* A renewal turned out to be more than that (another TTL, a lease put back, a join): once more, to last. Nothing
     * was committed. */
    ten_error cancelled = {.code = TENURE_E_CANCELLED};
    (void)ten_db_end(&store->db, cancelled.code);
    r = ten_db_begin_write(&store->db, true, ten_sub_saturating(store->db.end_us, ten_boot_us()) / 1000u);
    return r < 0 ? r : ten_db_end(&store->db, apply_all(store, ops, results, count, &must_last));
}

/* ---- targets ------------------------------------------------------------------------------------------- */

static int run_edit(ten_db *db, const char *namespace_name, const ten_target_edit *edit) {
    static const enum ten_sql ids[] = {TEN_SQL_PUT_TARGET,   TEN_SQL_REMOVE_TARGET, TEN_SQL_PAUSE_TARGET,
                                       TEN_SQL_PAUSE_TARGET, TEN_SQL_PIN_TARGET,    TEN_SQL_PIN_TARGET};
    const tenure_target *target = &edit->target;
    sqlite3_stmt *statement = ten_db_statement(db, ids[edit->action]);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, namespace_name);
    ten_bind_text(statement, 2, target->id);
    if (edit->action == TEN_TARGET_PUT) {
        ten_bind_text(statement, 3, target->url);
        ten_bind_text(statement, 4, target->exec);
        ten_bind_text(statement, 5, target->spec);
        ten_bind_u64(statement, 6, target->every_ms);
        ten_bind_u64(statement, 7, target->paused);
    } else if (edit->action == TEN_TARGET_PAUSE || edit->action == TEN_TARGET_RESUME) {
        ten_bind_u64(statement, 3, edit->action == TEN_TARGET_PAUSE);
    }
    TEN_CLEANUP(ten_buf_free) ten_buf pin = {0};
    if (edit->action == TEN_TARGET_PIN) {
        ten_pin_write(&pin, &edit->pin);
        ten_bind_u64(statement, 4, db->context.wall_ms + edit->pin.left_ms);
    }
    if (edit->action == TEN_TARGET_PIN || edit->action == TEN_TARGET_UNPIN)
        ten_bind_text(statement, 3, pin.size ? ten_buf_string(&pin) : NULL);
    return pin.failed ? ten_fail_memory(db->error, "a pin") : ten_db_run(db, statement);
}

static int edit_target(ten_db *db, const char *namespace_name, ten_target_edit *edit) {
    bool paused;
    int r = get_registration(db, namespace_name, edit->target.id, &edit->found, &paused);
    if (r < 0 || (!edit->found && edit->action != TEN_TARGET_PUT))
        return r;
    if (edit->action == TEN_TARGET_PUT && !ten_db_has_room(db))
        return ten_db_say_full(db);
    r = run_edit(db, namespace_name, edit);
    if (r < 0)
        return r;
    enum tenure_event_kind kind = edit->action == TEN_TARGET_REMOVE ? TENURE_EVENT_TARGET_REMOVED
                                  : edit->found                     ? TENURE_EVENT_TARGET_CHANGED
                                                                    : TENURE_EVENT_TARGET_ADDED;
    ten_change change = {
        .kind = kind, .namespace_name = namespace_name, .target = edit->target.id, .instance = "", .actor = ""};
    ten_pin_tell(edit, &change);
    return ten_db_add_change(db, &change);
}

static int sqlite_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                               uint64_t timeout_ms) {
    ten_db *db = &self(base)->db;
    int r = ten_db_begin_write(db, true, timeout_ms);
    if (r < 0)
        return r;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = edit_target(db, namespace_name, &edits[i]);
    return ten_db_end(db, r);
}

static int forget_one(ten_db *db, const char *namespace_name, ten_forget *item) {
    ten_op op = {.namespace_name = namespace_name, .target = item->id};
    ten_lease_row row;
    bool registered = false;
    bool paused;
    uint64_t forgotten = 0;
    int r = get_lease(db, &op, &row);
    if (r == TENURE_OK)
        r = get_registration(db, namespace_name, item->id, &registered, &paused);
    if (r < 0)
        return r;
    item->outcome = ten_lease_row_forget(&row, registered, &db->context, &forgotten);
    return item->outcome == TEN_FORGET_DONE ? ten_db_forget(db, namespace_name, item->id, forgotten) : TENURE_OK;
}

static int sqlite_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                         uint64_t timeout_ms) {
    ten_db *db = &self(base)->db;
    int r = ten_db_begin_write(db, true, timeout_ms);
    if (r < 0)
        return r;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = forget_one(db, namespace_name, &items[i]);
    return ten_db_end(db, r);
}

static int sqlite_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms) {
    ten_db *db = &self(base)->db;
    uint64_t place = 0;
    int r;
    do {
        r = ten_db_begin_write(db, true, timeout_ms);
        if (r == TENURE_OK)
            r = ten_db_end(db, ten_db_forget_history(db, namespace_name, &place));
    } while (r == TENURE_OK && place > 0);
    return r;
}

/* ---- listings ------------------------------------------------------------------------------------------ */

static int sqlite_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    return ten_db_list(&self(base)->db, query, each, userdata, timeout_ms);
}

static int sqlite_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                               ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    return ten_db_read_targets(&self(base)->db, namespace_name, ids, count, each, userdata, timeout_ms);
}

static int sqlite_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                 uint64_t timeout_ms) {
    return ten_db_list_instances(&self(base)->db, namespace_name, each, userdata, timeout_ms);
}

static int sqlite_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    return ten_db_list_namespaces(&self(base)->db, each, userdata, timeout_ms);
}

static int sqlite_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                          ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    bool epoch = false;
    int r = ten_db_changes(&self(base)->db, namespace_name, cursor, limit, each, userdata, timeout_ms, &epoch);
    return r == TENURE_E_RESYNC ? ten_store_missed(base, namespace_name, *cursor, epoch, each, userdata) : r;
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static int sqlite_watch(ten_store *base, const char *namespace_name, int *ret_fd) {
    (void)namespace_name; /* a notice says that the file has changed, and no more */
    ten_db *db = &self(base)->db;
    int r = ten_sqlite_side_watch(&db->side, &base->error);
    if (r == TENURE_OK)
        *ret_fd = db->side.watch_fd;
    return r;
}

static void sqlite_watch_clear(ten_store *base) {
    ten_sqlite_side_watch_clear(&self(base)->db.side);
}

static int sqlite_ping(ten_store *base, uint64_t timeout_ms) {
    ten_db *db = &self(base)->db;
    int r = ten_db_begin_write(db, false, timeout_ms);
    if (r < 0)
        return r;
    return ten_db_end(db, TENURE_OK); /* every transaction writes */
}

static int sqlite_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                           uint64_t *ret_left_ms, uint64_t timeout_ms) {
    (void)namespace_name; /* it is of the whole file, */
    (void)ttl_ms;         /* and as long for everybody */
    return ten_db_recovery(&self(base)->db, actor, ret_left_ms, timeout_ms);
}

static int sqlite_check(ten_store *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    return ten_db_check(&self(base)->db, each, userdata, timeout_ms);
}

static void sqlite_close(ten_store *base) {
    struct sqlite_store *store = self(base);
    ten_db_close(&store->db);
    ten_arena_free(&store->results);
}

static int sqlite_open(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    static const char *const options[] = {"timeout", NULL};
    ten_db *db = &self(base)->db;
    ten_db_init(db, base->clock, &base->error);
    int r = ten_url_check_options(url, options, &base->error);
    if (r < 0)
        return r;
    if (url->hosts && url->hosts[0] != '\0')
        return ten_fail(&base->error, TENURE_E_INVALID,
                        "a sqlite: URL names a file on this host and no host: write sqlite:/%s%s", url->hosts,
                        url->path);
    if (url->path[0] == '\0')
        return ten_fail(&base->error, TENURE_E_INVALID,
                        "a sqlite: URL names a file: write sqlite:/var/lib/jobs.db or sqlite:jobs.db");
    return ten_db_open(db, url->path, timeout_ms);
}

const ten_store_ops ten_sqlite_ops = {
    .name = "sqlite",
    .size = sizeof(struct sqlite_store),
    .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                     .shared_between_processes = true,
                     .survives_restart = true,
                     .hands = true,
                     .sessions = true,
                     .expiry_clock = "this host's boot clock, read after the lock is had",
                     .change_notice = "inotify on the side file"},
    .open = sqlite_open,
    .close = sqlite_close,
    .apply = sqlite_apply,
    .edit_targets = sqlite_edit_targets,
    .forget = sqlite_forget,
    .forget_history = sqlite_forget_history,
    .list = sqlite_list,
    .read_targets = sqlite_read_targets,
    .list_instances = sqlite_list_instances,
    .list_namespaces = sqlite_list_namespaces,
    .changes = sqlite_changes,
    .watch = sqlite_watch,
    .watch_clear = sqlite_watch_clear,
    .ping = sqlite_ping,
    .recovery = sqlite_recovery,
    .check = sqlite_check,
};
