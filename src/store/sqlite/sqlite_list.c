/*
 * What a SQLite store lists: targets with their leases, live instances, and the feed of changes. Called through
 * sqlite.c.
 */
#include <string.h>

#include "rules/pin.h"
#include "store/sqlite/sqlite_db.h"

/* ---- listings ------------------------------------------------------------------------------------------ */

/* Leases and registrations are two tables in the same order; a listing is their merge, read as far as the page goes. */
struct merge {
    sqlite3_stmt *leases;
    sqlite3_stmt *targets;
    const char *lease_id; /* NULL: at the end */
    const char *target_id;
};

static int advance(ten_db *db, sqlite3_stmt *statement, const char **ret_id) {
    int found = ten_db_step(db, statement);
    *ret_id = found > 0 ? ten_column_text(statement, 0) : NULL;
    return found < 0 ? found : TENURE_OK;
}

static int start_merge(ten_db *db, const ten_query *query, struct merge *merge) {
    merge->leases = ten_db_statement(db, TEN_SQL_LIST_LEASES);
    merge->targets = ten_db_statement(db, TEN_SQL_LIST_TARGETS);
    if (!merge->leases || !merge->targets)
        return db->error->code;
    sqlite3_stmt *both[] = {merge->leases, merge->targets};
    for (size_t i = 0; i < TEN_COUNT(both); i++) {
        ten_bind_text(both[i], 1, query->namespace_name);
        ten_bind_text(both[i], 2, query->after ? query->after : "");
    }
    ten_bind_u64(merge->leases, 3, query->current ? db->context.now_ms : 0);
    int r = advance(db, merge->leases, &merge->lease_id);
    return r < 0 ? r : advance(db, merge->targets, &merge->target_id);
}

static void read_lease_columns(sqlite3_stmt *leases, uint64_t now_ms, ten_row *row) {
    const char *holder = ten_column_text(leases, 1);
    uint64_t ends_ms = ten_column_u64(leases, 3);
    row->token = ten_column_u64(leases, 2);
    if (!holder || ends_ms <= now_ms)
        return;
    row->holder = holder;
    row->remaining_ms = ends_ms - now_ms;
    row->ttl_ms = ten_column_u64(leases, 4);
    row->acquired_at_ms = ten_column_u64(leases, 5);
    row->barred = ten_column_u64(leases, 6) != 0;
}

/* pin: where the row's texts are. */
static void read_target_columns(const ten_db *db, sqlite3_stmt *targets, ten_row *row, ten_pin_copy *pin) {
    row->registered = true;
    row->target.url = ten_column_text(targets, 1);
    row->target.exec = ten_column_text(targets, 2);
    row->target.spec = ten_column_text(targets, 3);
    row->target.every_ms = ten_column_u64(targets, 4);
    row->target.paused = ten_column_u64(targets, 5) != 0;
    ten_pin_read(ten_column_text(targets, 6), db->context.wall_ms, pin);
    row->pin = pin->pin;
}

static bool matches(const ten_row *row, enum tenure_filter filter) {
    switch (filter) {
    case TENURE_LEASED:
        return row->holder != NULL;
    case TENURE_FREE:
        return row->holder == NULL && !row->target.paused;
    case TENURE_REGISTERED:
        return row->registered;
    case TENURE_ALL:
        break;
    }
    return true;
}

/* A registered target whose lease has ended: its token is not in a listing of what is current. */
static int read_token(ten_db *db, const ten_query *query, ten_row *row) {
    sqlite3_stmt *lease = ten_db_statement(db, TEN_SQL_READ_LEASE);
    if (!lease)
        return db->error->code;
    ten_bind_text(lease, 1, query->namespace_name);
    ten_bind_text(lease, 2, row->target.id);
    int found = ten_db_step(db, lease);
    if (found > 0)
        row->token = ten_column_u64(lease, 2);
    sqlite3_reset(lease);
    return found < 0 ? found : TENURE_OK;
}

static int list_merged(ten_db *db, const ten_query *query, struct merge *merge, ten_row_fn each, void *userdata) {
    size_t given = 0;
    int r = TENURE_OK;
    while (r == TENURE_OK && given < query->limit && (merge->lease_id || merge->target_id)) {
        int order = !merge->lease_id ? 1 : !merge->target_id ? -1 : strcmp(merge->lease_id, merge->target_id);
        ten_row row = {.target = {.id = order <= 0 ? merge->lease_id : merge->target_id}};
        ten_pin_copy pin;
        if (order <= 0)
            read_lease_columns(merge->leases, db->context.now_ms, &row);
        if (order >= 0)
            read_target_columns(db, merge->targets, &row, &pin);
        if (order > 0 && query->current)
            r = read_token(db, query, &row);
        if (r == TENURE_OK && matches(&row, query->filter)) {
            r = each(&row, userdata);
            given++;
        }
        if (r == TENURE_OK && order <= 0)
            r = advance(db, merge->leases, &merge->lease_id);
        if (r == TENURE_OK && order >= 0)
            r = advance(db, merge->targets, &merge->target_id);
    }
    return r;
}

int ten_db_list(ten_db *db, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    struct merge merge = {0};
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    r = start_merge(db, query, &merge);
    if (r == TENURE_OK)
        r = list_merged(db, query, &merge, each, userdata);
    sqlite3_reset(merge.leases);
    sqlite3_reset(merge.targets);
    return ten_db_end(db, r);
}

/* 1: the statement has a row for the id. */
static int read_row(ten_db *db, sqlite3_stmt *statement, const char *namespace_name, const char *id) {
    ten_bind_text(statement, 1, namespace_name);
    ten_bind_text(statement, 2, id);
    return ten_db_step(db, statement);
}

static int read_one(ten_db *db, const char *namespace_name, const char *id, ten_row_fn each, void *userdata) {
    sqlite3_stmt *lease = ten_db_statement(db, TEN_SQL_READ_LEASE);
    sqlite3_stmt *target = ten_db_statement(db, TEN_SQL_READ_TARGET);
    if (!lease || !target)
        return db->error->code;
    ten_row row = {.target = {.id = id}};
    ten_pin_copy pin;
    int leased = read_row(db, lease, namespace_name, id);
    int registered = leased < 0 ? leased : read_row(db, target, namespace_name, id);
    if (leased > 0)
        read_lease_columns(lease, db->context.now_ms, &row);
    if (registered > 0)
        read_target_columns(db, target, &row, &pin);
    int r = registered < 0 ? registered : leased > 0 || registered > 0 ? each(&row, userdata) : TENURE_OK;
    sqlite3_reset(lease);
    sqlite3_reset(target);
    return r;
}

int ten_db_read_targets(ten_db *db, const char *namespace_name, const char *const *ids, size_t count, ten_row_fn each,
                        void *userdata, uint64_t timeout_ms) {
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = read_one(db, namespace_name, ids[i], each, userdata);
    return ten_db_end(db, r);
}

int ten_db_list_instances(ten_db *db, const char *namespace_name, ten_instance_fn each, void *userdata,
                          uint64_t timeout_ms) {
    int r = ten_db_begin_read(db, timeout_ms);
    sqlite3_stmt *statement = r == TENURE_OK ? ten_db_statement(db, TEN_SQL_LIST_INSTANCES) : NULL;
    if (!statement)
        return r < 0 ? r : ten_db_end(db, db->error->code);
    ten_bind_text(statement, 1, namespace_name);
    ten_bind_u64(statement, 2, db->context.now_ms);
    int stopped = 0;
    while (stopped == 0 && (r = ten_db_step(db, statement)) > 0) {
        const char *metadata = ten_column_text(statement, 2);
        ten_instance instance = {
            .instance = ten_column_text(statement, 0),
            .weight = (uint32_t)ten_column_u64(statement, 1),
            .metadata = metadata && metadata[0] ? metadata : NULL,
            .ttl_ms = ten_column_u64(statement, 3),
            .remaining_ms = ten_sub_saturating(ten_column_u64(statement, 4), db->context.now_ms),
            .since_ms = ten_column_u64(statement, 5),
            .ask = (enum ten_ask)ten_column_u64(statement, 6),
            .has_session = ten_column_u64(statement, 7) != 0,
        };
        stopped = each(&instance, userdata);
    }
    sqlite3_reset(statement);
    return ten_db_end(db, stopped ? stopped : r);
}

int ten_db_list_namespaces(ten_db *db, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    char name[TENURE_NAMESPACE_MAX + 1] = "";
    int r = ten_db_begin_read(db, timeout_ms);
    sqlite3_stmt *statement = r == TENURE_OK ? ten_db_statement(db, TEN_SQL_NEXT_NAMESPACE) : NULL;
    if (!statement)
        return r < 0 ? r : ten_db_end(db, db->error->code);
    for (bool more = true; r == TENURE_OK && more;) {
        ten_bind_text(statement, 1, name);
        r = ten_db_step(db, statement);
        const char *found = r > 0 ? ten_column_text(statement, 0) : NULL;
        more = found != NULL;
        char next[TENURE_NAMESPACE_MAX + 1];
        snprintf(next, sizeof next, "%s", found ? found : "");
        sqlite3_reset(statement);
        memcpy(name, next, sizeof name);
        r = r < 0 ? r : more ? each(name, userdata) : TENURE_OK;
    }
    return ten_db_end(db, r);
}

/* ---- changes ------------------------------------------------------------------------------------------- */

static int find_epoch_since(ten_db *db, uint64_t cursor, bool *ret_epoch) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_EPOCH_SINCE);
    if (!statement)
        return db->error->code;
    ten_bind_u64(statement, 1, cursor);
    int found = ten_db_step(db, statement);
    *ret_epoch = found > 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

/* Moves the cursor to where reading can start; TENURE_E_RESYNC when it had to be moved: *ret_epoch says because of what.
 * 1: there is nothing to read from there. */
static int place_cursor(ten_db *db, uint64_t *cursor, bool *ret_epoch) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_CHANGE_RANGE);
    if (!statement)
        return db->error->code;
    int found = ten_db_step(db, statement);
    uint64_t first = found > 0 ? ten_column_u64(statement, 0) : 1;
    uint64_t last = found > 0 ? ten_column_u64(statement, 1) : 0;
    sqlite3_reset(statement);
    if (found < 0)
        return found;
    if (*cursor == TEN_CURSOR_OLDEST) {
        *cursor = first - 1; /* the history: epochs are a part of it */
        return TENURE_OK;
    }
    bool missed = *cursor != TEN_CURSOR_NOW;
    int r = TENURE_OK;
    *ret_epoch = missed && *cursor > last;
    if (missed && *cursor < last)
        r = find_epoch_since(db, *cursor, ret_epoch);
    if (r < 0 || (missed && !*ret_epoch && *cursor + 1 >= first))
        return r;
    *cursor = last;
    return missed ? TENURE_E_RESYNC : 1;
}

static int read_changes(ten_db *db, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                        void *userdata) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_LIST_CHANGES);
    if (!statement)
        return db->error->code;
    ten_bind_u64(statement, 1, *cursor);
    ten_bind_text(statement, 2, namespace_name);
    ten_bind_u64(statement, 3, limit);
    int r;
    int stopped = 0;
    size_t given = 0;
    while (stopped == 0 && (r = ten_db_step(db, statement)) > 0) {
        ten_change change = {
            .cursor = ten_column_u64(statement, 0),
            .at_ms = ten_column_u64(statement, 1),
            .kind = (enum tenure_event_kind)ten_event_parse(ten_column_text(statement, 2)),
            .reason = ten_reason_parse(ten_column_text(statement, 3)),
            .namespace_name = ten_column_text(statement, 4),
            .target = ten_column_text(statement, 5),
            .instance = ten_column_text(statement, 6),
            .actor = ten_column_text(statement, 7),
            .token = ten_column_u64(statement, 8),
        };
        *cursor = change.cursor;
        given++;
        /* A kind that a newer version of this schema writes is nothing to this one. */
        if ((int)change.kind < TEN_EVENT_COUNT)
            stopped = each(&change, userdata);
    }
    sqlite3_reset(statement);
    if (stopped != 0 || r < 0)
        return stopped ? stopped : r;
    /* Read to the end: what other namespaces wrote need not be skipped again. */
    uint64_t last = TEN_CURSOR_NOW;
    bool epoch;
    if (given < limit && place_cursor(db, &last, &epoch) > 0)
        *cursor = ten_max_u64(*cursor, last);
    return TENURE_OK;
}

int ten_db_changes(ten_db *db, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                   void *userdata, uint64_t timeout_ms, bool *ret_epoch) {
    int r = ten_db_begin_read(db, timeout_ms);
    if (r < 0)
        return r;
    r = place_cursor(db, cursor, ret_epoch);
    if (r == TENURE_OK)
        r = read_changes(db, namespace_name, cursor, limit, each, userdata);
    else if (r > 0)
        r = TENURE_OK;
    return ten_db_end(db, r);
}
