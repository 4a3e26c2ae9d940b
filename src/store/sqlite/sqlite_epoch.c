/*
 * The identity of a SQLite store: does the database fit what it says of itself? After a reboot the times in it are
 * counted anew; when it is a copy, a backup, or a new file beside an old side file, it is another store from then on,
 * and an epoch begins in each namespace (store/apply_epoch.c), in which newcomers wait until every lease that it may
 * have forgotten has ended. Called at the start of each transaction.
 */
#include <string.h>

#include "base/random.h"
#include "store/sqlite/sqlite_db.h"

#define LOST_MIN_MS TENURE_TTL_DEFAULT_MS

int ten_db_get_row(ten_db *db) {
    ten_db_row *row = &db->row;
    uint64_t *const numbers[] = {&row->time_namespace, &row->device, &row->inode, &row->schema_cookie,
                                 &row->generation,     &row->cursor, &row->lost,  &row->lost_until_ms};
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_STORE);
    *row = (ten_db_row){0};
    int found = ten_db_step(db, statement);
    if (found > 0) {
        const char *boot_id = ten_column_text(statement, 0);
        const char *identity = ten_column_text(statement, 1);
        row->exists = boot_id && identity;
        ten_copy_text(row->boot_id, sizeof row->boot_id, boot_id ? boot_id : "");
        ten_copy_text(row->identity, sizeof row->identity, identity ? identity : "");
        for (int i = 0; i < (int)TEN_COUNT(numbers); i++)
            *numbers[i] = ten_column_u64(statement, 2 + i);
        if (!row->exists)
            found = ten_fail_memory(db->base.error, "the store's own row");
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_row(ten_db *db, uint64_t schema_cookie) {
    const ten_db_row *row = &db->row;
    const uint64_t numbers[] = {db->time_namespace, db->device, db->inode,         schema_cookie,
                                row->cursor,        row->lost,  row->lost_until_ms};
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_PUT_STORE);
    ten_bind_text(statement, 1, db->boot_id);
    ten_bind_text(statement, 2, row->identity);
    for (int i = 0; i < (int)TEN_COUNT(numbers); i++)
        ten_bind_u64(statement, 3 + i, numbers[i]);
    return ten_db_run(db, statement);
}

int ten_db_get_last_end(ten_db *db, uint64_t *ret_end_ms, uint64_t *ret_longest_ms) {
    uint64_t numbers[2];
    int found = ten_db_numbers(db, ten_db_statement(db, TEN_SQL_LAST_END), numbers, 2);
    *ret_end_ms = numbers[0];
    *ret_longest_ms = numbers[1];
    return found < 0 ? found : TENURE_OK;
}

/* The database is not the one that it was. Every lease that it may have forgotten has ended by then: the side file
 * remembers the latest end; where it does not, the longest TTL that is known, and at least the default one. */
static int become_another(ten_db *db) {
    uint64_t end_ms;
    uint64_t longest_ms;
    int r = ten_db_get_last_end(db, &end_ms, &longest_ms);
    bool remembers = strcmp(db->memory.boot_id, db->boot_id) == 0;
    db->row.lost = 1;
    db->row.lost_until_ms = remembers ? ten_max_u64(db->memory.last_end_ms, db->now_ms + longest_ms)
                                      : db->now_ms + ten_max_u64(longest_ms, LOST_MIN_MS);
    db->row.identity[0] = '\0';
    /* Above every cursor that was: all readers that are behind start over. */
    db->row.cursor = ten_max_u64(db->row.cursor, db->memory.cursor) + 1;
    return r;
}

static int restart_times(ten_db *db) {
    uint64_t longest_ms;
    db->row.lost_until_ms = 0;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_RESTART_LIVES);
    ten_bind_u64(statement, 1, db->now_ms);
    int r = ten_db_run(db, statement);
    return r < 0 ? r : ten_db_get_last_end(db, &db->last_end_ms, &longest_ms);
}

/* Older content in the same files: this handle has seen both further on. */
static bool was_ahead(const ten_db *db) {
    return db->seen_generation > db->row.generation && db->seen_generation > db->memory.generation &&
           strcmp(db->seen_identity, db->row.identity) == 0;
}

int ten_db_check_epoch(ten_db *db, bool *ret_changed) {
    uint64_t cookie = 0;
    int found = ten_db_numbers(db, ten_db_statement(db, TEN_SQL_SCHEMA_COOKIE), &cookie, 1);
    int r = found < 0 ? found : ten_db_get_row(db);
    if (r == TENURE_OK)
        r = ten_sqlite_side_read(&db->side, db->boot_id, &db->memory, db->base.error);
    if (r < 0)
        return r;
    const ten_db_row *row = &db->row;
    bool same_boot = row->exists && strcmp(row->boot_id, db->boot_id) == 0;
    if (same_boot && row->time_namespace != db->time_namespace)
        return ten_fail(db->base.error, TENURE_E_UNSUPPORTED,
                        "%s is used in another time namespace of this machine, whose boot clock may differ; run all of "
                        "them in the same one",
                        db->path);
    if (was_ahead(db))
        db->memory = (ten_side_memory){.cursor = db->memory.cursor, .put_back = true};
    /* At the same place, and not restored into it. A device may have another number after a reboot. */
    bool same_file =
        row->schema_cookie == cookie && row->inode == db->inode && (!same_boot || row->device == db->device);
    bool remembers = strcmp(db->memory.boot_id, db->boot_id) == 0;
    /* After a loss of power the side file may be ahead of the database by renewals that were not waited for. */
    bool generation_lost = remembers && db->memory.generation > row->generation;
    bool data_lost =
        (row->exists && (!same_file || db->memory.put_back)) || db->memory.cursor > row->cursor || generation_lost;
    *ret_changed = !row->exists || !same_boot || !same_file || data_lost;
    if (*ret_changed && !same_boot)
        r = restart_times(db);
    if (r == TENURE_OK && data_lost)
        r = become_another(db);
    if (*ret_changed && db->row.identity[0] == '\0')
        snprintf(db->row.identity, sizeof db->row.identity, "sqlite-%016llx", (unsigned long long)ten_random_u64());
    if (r == TENURE_OK && *ret_changed)
        r = put_row(db, cookie);
    if (r == TENURE_OK) {
        memcpy(db->seen_identity, db->row.identity, sizeof db->seen_identity);
        db->seen_generation = db->row.generation;
    }
    if (!remembers)
        db->memory = (ten_side_memory){.cursor = db->memory.cursor};
    memcpy(db->memory.boot_id, db->boot_id, sizeof db->boot_id);
    return r;
}
