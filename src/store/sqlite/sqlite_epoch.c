/*
 * Epochs of a SQLite store: does the database fit what it says of itself? After a reboot the times in it are counted
 * anew; when it is a copy, a backup, or a new file beside an old side file, an epoch begins, in which newcomers wait
 * until every lease that it may have forgotten has ended. Called at the start of each write transaction.
 */
#include <string.h>

#include "store/sqlite/sqlite_db.h"

#define RECOVERING_MIN_MS TENURE_TTL_DEFAULT_MS

struct store_row {
    bool exists;
    bool same_boot;
    bool same_file; /* at the same place, and not restored into it */
    uint64_t schema_cookie;
    uint64_t time_namespace;
    uint64_t recovering_until_ms;
    uint64_t token_floor;
    uint64_t cursor;
    uint64_t generation;
};

static int get_schema_cookie(ten_db *db, uint64_t *ret_cookie) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_SCHEMA_COOKIE);
    if (!statement)
        return db->error->code;
    int found = ten_db_step(db, statement);
    *ret_cookie = found > 0 ? ten_column_u64(statement, 0) : 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int get_store_row(ten_db *db, struct store_row *row) {
    *row = (struct store_row){0};
    int r = get_schema_cookie(db, &row->schema_cookie);
    if (r < 0)
        return r;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_STORE);
    if (!statement)
        return db->error->code;
    int found = ten_db_step(db, statement);
    if (found > 0) {
        const char *boot_id = ten_column_text(statement, 0);
        row->exists = true;
        row->same_boot = boot_id && strcmp(boot_id, db->boot_id) == 0;
        row->time_namespace = ten_column_u64(statement, 1);
        /* A device may have another number after a reboot. */
        row->same_file = ten_column_u64(statement, 7) == row->schema_cookie &&
                         ten_column_u64(statement, 3) == db->inode &&
                         (!row->same_boot || ten_column_u64(statement, 2) == db->device);
        row->recovering_until_ms = ten_column_u64(statement, 4);
        row->token_floor = ten_column_u64(statement, 5);
        row->cursor = ten_column_u64(statement, 6);
        row->generation = ten_column_u64(statement, 8);
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_store_row(ten_db *db, const struct store_row *row) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_PUT_STORE);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, db->boot_id);
    ten_bind_u64(statement, 2, db->time_namespace);
    ten_bind_u64(statement, 3, db->device);
    ten_bind_u64(statement, 4, db->inode);
    ten_bind_u64(statement, 5, row->recovering_until_ms);
    ten_bind_u64(statement, 6, row->token_floor);
    ten_bind_u64(statement, 7, row->schema_cookie);
    return ten_db_run(db, statement);
}

/* Every lease that the database may have forgotten has ended by then: the side file remembers the latest end; where it
 * does not, the longest TTL that is known, and at least the default one. */
static int recovering_end(ten_db *db, uint64_t *ret_until_ms) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_LONGEST_TTL);
    if (!statement)
        return db->error->code;
    int found = ten_db_step(db, statement);
    uint64_t longest_ms = found > 0 ? ten_column_u64(statement, 0) : 0;
    sqlite3_reset(statement);
    *ret_until_ms = db->context.now_ms + ten_max_u64(longest_ms, RECOVERING_MIN_MS);
    if (strcmp(db->memory.boot_id, db->boot_id) == 0)
        *ret_until_ms = ten_max_u64(db->memory.last_end_ms, db->context.now_ms + longest_ms);
    return found < 0 ? found : TENURE_OK;
}

/* The database is not the one that it was: a copy, a backup, or a new file beside an old side file. */
static int begin_epoch(ten_db *db, struct store_row *row) {
    row->token_floor = ten_max_u64(row->token_floor, ten_min_u64(db->context.wall_ms, TENURE_TOKEN_MAX / 2));
    int r = recovering_end(db, &row->recovering_until_ms);
    db->context.recovering_ms = 1; /* so that nothing is forgotten with the entry that follows */
    /* Above every cursor that was: the entry of the epoch makes all readers that are behind it start over. */
    db->cursor = ten_max_u64(row->cursor, db->memory.cursor) + 1;
    if (r == TENURE_OK)
        r = ten_db_add_change(
            db, &(ten_change){
                    .kind = TENURE_EVENT_RECOVERING, .namespace_name = "", .target = "", .instance = "", .actor = ""});
    return r;
}

static int end_recovery(ten_db *db, const char *actor) {
    int r = ten_db_run_plain(db, TEN_SQL_END_RECOVERY);
    return r < 0 ? r
                 : ten_db_add_change(db, &(ten_change){.kind = TENURE_EVENT_RECOVERING,
                                                       .reason = TEN_REASON_FORCED,
                                                       .namespace_name = "",
                                                       .target = "",
                                                       .instance = "",
                                                       .actor = actor});
}

int ten_db_recovery(ten_db *db, const char *actor, uint64_t *ret_left_ms, uint64_t timeout_ms) {
    int r = ten_db_begin_write(db, actor != NULL, timeout_ms);
    if (r < 0)
        return r;
    uint64_t left_ms = db->context.recovering_ms;
    if (actor && left_ms > 0)
        r = end_recovery(db, actor);
    r = ten_db_end(db, r);
    if (r == TENURE_OK)
        *ret_left_ms = left_ms;
    return r;
}

/* A holder has shown a token that the database never granted: neither it nor the side file knows what was lost. */
int ten_db_begin_proved_epoch(ten_db *db, uint64_t shown_ttl_ms) {
    struct store_row row;
    int r = get_store_row(db, &row);
    if (r == TENURE_OK)
        r = begin_epoch(db, &row);
    uint64_t least_ms = db->context.now_ms + ten_max_u64(shown_ttl_ms, RECOVERING_MIN_MS);
    row.recovering_until_ms = ten_max_u64(row.recovering_until_ms, least_ms);
    if (r == TENURE_OK)
        r = put_store_row(db, &row);
    db->context.token_floor = row.token_floor;
    db->epoch_ms = row.recovering_until_ms;
    db->context.recovering_ms = ten_sub_saturating(row.recovering_until_ms, db->context.now_ms);
    return r;
}

static int restart_times(ten_db *db, struct store_row *row) {
    row->recovering_until_ms = 0;
    int r = ten_db_run_number(db, TEN_SQL_RESTART_LEASES, db->context.now_ms);
    return r < 0 ? r : ten_db_run_number(db, TEN_SQL_RESTART_INSTANCES, db->context.now_ms);
}

/* Compares what the store says of itself with what is found. *ret_changed: it was brought up to date, which must last.
 */
int ten_db_check_epoch(ten_db *db, bool *ret_changed) {
    struct store_row row;
    int r = get_store_row(db, &row);
    if (r == TENURE_OK)
        r = ten_sqlite_side_read(&db->side, &db->memory, db->error);
    if (r < 0)
        return r;
    db->cursor = row.cursor;
    db->generation = row.generation;
    if (row.exists && row.same_boot && row.time_namespace != db->time_namespace)
        return ten_fail(db->error, TENURE_E_UNSUPPORTED,
                        "%s is used in another time namespace of this machine, whose boot clock may differ; run all of "
                        "them in the same one",
                        db->path);
    /* After a loss of power the side file may be ahead of the database by renewals that were not waited for. */
    bool generation_lost = strcmp(db->memory.boot_id, db->boot_id) == 0 && db->memory.generation > row.generation;
    bool data_lost = (row.exists && !row.same_file) || db->memory.cursor > row.cursor || generation_lost;
    *ret_changed = !row.exists || !row.same_boot || !row.same_file || data_lost;
    if (*ret_changed && !row.same_boot)
        r = restart_times(db, &row);
    if (r == TENURE_OK && data_lost)
        r = begin_epoch(db, &row);
    if (r == TENURE_OK && *ret_changed)
        r = put_store_row(db, &row);
    if (strcmp(db->memory.boot_id, db->boot_id) != 0)
        db->memory = (ten_side_memory){.cursor = db->memory.cursor};
    memcpy(db->memory.boot_id, db->boot_id, sizeof db->boot_id);
    db->context.token_floor = row.token_floor;
    db->epoch_ms = row.recovering_until_ms;
    db->context.recovering_ms = ten_sub_saturating(row.recovering_until_ms, db->context.now_ms);
    return r;
}
