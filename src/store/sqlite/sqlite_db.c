/*
 * The connection of a SQLite store: its transactions. Called by sqlite.c.
 *
 * Why a transaction here is more than BEGIN and COMMIT: it waits for its turn (sqlite_side.h); it reads the clock only
 * when it has the lock, so that a lease cannot be renewed after a wait in which it ended; it makes sure that the file
 * is still the one at the path; and it looks whether an epoch has to begin (sqlite_epoch.c).
 */
#include "store/sqlite/sqlite_db.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

#define TRIM_EVERY 256u

uint64_t ten_db_patience_end_us(const ten_db *db) {
    return db->start_us + ten_max_u64((db->end_us - db->start_us) / 4, 20000);
}

void ten_db_disconnect(ten_db *db) {
    for (size_t i = 0; i < TEN_SQL_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close_v2(db->connection);
    ten_db_forget_file(db);
    db->connection = NULL;
    db->path = NULL;
}

/* ---- transactions -------------------------------------------------------------------------------------- */

static void set_bounds(ten_db *db, uint64_t timeout_ms) {
    db->start_us = ten_boot_us();
    db->end_us = db->start_us + ten_min_u64(timeout_ms, TENURE_TTL_MAX_MS) * 1000u;
}

/* The path leads elsewhere now. SQLite compares the name that the path was resolved to, and does not notice that a
 * symbolic link on the way was changed. */
static bool has_moved(ten_db *db) {
    int moved = 0;
    struct stat info;
    if (sqlite3_file_control(db->connection, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved)
        return true;
    return stat(db->given_path, &info) == 0 &&
           ((uint64_t)info.st_ino != db->inode || (uint64_t)info.st_dev != db->device);
}

static void read_clocks(ten_db *db) {
    db->now_ms = ten_boot_ms(db->base.clock);
    db->base.wall_ms = ten_wall_ms(db->base.clock);
}

static void tell_identity(ten_db *db) {
    memcpy(db->base.identity, db->row.identity, sizeof db->row.identity);
    db->base.lost = db->row.lost != 0;
    db->base.lost_ms = ten_sub_saturating(db->row.lost_until_ms, db->now_ms);
}

static int set_lasting(ten_db *db, bool lasting) {
    if (db->lasting == lasting)
        return TENURE_OK;
    int r = ten_db_execute(db, lasting ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    if (r == TENURE_OK)
        db->lasting = lasting;
    return r;
}

/* After an error that may be the connection's fault the next call opens a new one. */
static void undo(ten_db *db, int r) {
    if (db->connection && !sqlite3_get_autocommit(db->connection) && ten_db_run_plain(db, TEN_SQL_ROLLBACK) < 0)
        r = TENURE_E_STORE;
    db->writing = false;
    ten_sqlite_side_leave(&db->side);
    if (r == TENURE_E_STORE || r == TENURE_E_UNREACHABLE)
        ten_db_disconnect(db);
}

/* Rolls back and keeps the error that led to it. */
static int give_up(ten_db *db, int r) {
    ten_error first = *db->base.error;
    undo(db, r);
    *db->base.error = first;
    return r;
}

bool ten_db_has_room(ten_db *db) {
    struct statvfs about;
    if (db->room_at_ms == db->now_ms && db->room_at_ms != 0)
        return !db->little_room;
    db->room_at_ms = db->now_ms;
    db->little_room =
        db->path && statvfs(db->path, &about) == 0 &&
        about.f_bavail * about.f_frsize < ten_min_u64(TEN_DB_RESERVE, about.f_blocks * about.f_frsize / 8);
    return !db->little_room;
}

int ten_db_say_full(ten_db *db) {
    return ten_fail(db->base.error, TENURE_E_FULL,
                    "low disk space for %s: new targets, leases and instances are refused, existing leases can be "
                    "renewed; free some space",
                    db->path);
}

enum { AGAIN = 1 }; /* the file was replaced, or the epoch's change must last: once more */

static int try_begin_write(ten_db *db, bool *lasting) {
    int r = ten_db_connect(db);
    if (r < 0)
        return r;
    ten_sqlite_side_enter(&db->side, ten_db_patience_end_us(db));
    r = set_lasting(db, *lasting);
    if (r == TENURE_OK)
        r = ten_db_run_plain(db, TEN_SQL_BEGIN_WRITE);
    if (r < 0)
        return give_up(db, r);
    db->writing = true;
    db->last_end_ms = 0;
    db->recount = false;
    if (has_moved(db)) {
        undo(db, TENURE_OK);
        ten_db_disconnect(db);
        return AGAIN;
    }
    read_clocks(db);
    r = ten_db_check_epoch(db, &db->has_changed);
    if (r < 0)
        return give_up(db, r);
    if (db->has_changed && !*lasting) {
        undo(db, TENURE_OK);
        *lasting = true;
        return AGAIN;
    }
    tell_identity(db);
    return TENURE_OK;
}

int ten_db_begin_write(ten_db *db, bool lasting, uint64_t timeout_ms) {
    set_bounds(db, timeout_ms);
    for (int tries = 0; tries < 4; tries++) {
        int r = try_begin_write(db, &lasting);
        if (r != AGAIN)
            return r;
    }
    return ten_fail(
        db->base.error, TENURE_E_STORE,
        "%s was replaced several times during one call: stop what replaces it (a backup or a synchronization), and "
        "try again",
        db->given_path);
}

int ten_db_begin_read(ten_db *db, uint64_t timeout_ms) {
    set_bounds(db, timeout_ms);
    if (db->connection && has_moved(db))
        ten_db_disconnect(db);
    if (!db->connection) {
        /* A new connection looks at the epoch first; that needs the lock. */
        int r = ten_db_begin_write(db, false, timeout_ms);
        if (r == TENURE_OK)
            r = ten_db_end(db, TENURE_OK);
        if (r < 0)
            return r;
    }
    int r = ten_db_run_plain(db, TEN_SQL_BEGIN_READ);
    if (r == TENURE_OK)
        r = ten_db_get_row(db);
    if (r < 0)
        return give_up(db, r);
    read_clocks(db);
    tell_identity(db);
    return TENURE_OK;
}

static int commit_write(ten_db *db) {
    uint64_t known_ms = db->memory.last_end_ms;
    uint64_t last_end_ms = ten_max_u64(known_ms, db->last_end_ms);
    uint64_t longest_ms;
    bool changed = db->row.cursor > db->memory.cursor;
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_RAISE_GENERATION);
    ten_bind_u64(statement, 1, db->row.generation + 1);
    ten_bind_u64(statement, 2, db->row.cursor);
    int r = ten_db_run(db, statement);
    if (r == TENURE_OK && last_end_ms > known_ms) {
        /* Before the commit: a lease that is granted but not remembered could be forgotten with the database. */
        db->memory.last_end_ms = last_end_ms;
        r = ten_sqlite_side_write(&db->side, &db->memory, db->base.error);
    }
    if (r == TENURE_OK && db->recount)
        r = ten_db_get_last_end(db, &last_end_ms, &longest_ms);
    if (r == TENURE_OK)
        r = ten_db_run_plain(db, TEN_SQL_COMMIT);
    if (r < 0)
        return give_up(db, r);
    /* After the commit: a cursor or a generation that the database never had would look like lost data. */
    ten_error ignored;
    db->memory.cursor = ten_max_u64(db->memory.cursor, db->row.cursor);
    db->memory.generation = db->row.generation + 1;
    db->memory.last_end_ms = last_end_ms;
    if (changed) /* first: it may change the file's times, which are those of the last write */
        ten_sqlite_side_notify(&db->side);
    (void)ten_sqlite_side_write(&db->side, &db->memory, &ignored);
    db->writing = false;
    ten_sqlite_side_leave(&db->side);
    return TENURE_OK;
}

int ten_db_end(ten_db *db, int r) {
    if (r < 0)
        return give_up(db, r);
    if (db->writing)
        return commit_write(db);
    int ended = ten_db_run_plain(db, TEN_SQL_COMMIT);
    return ended < 0 ? give_up(db, ended) : r;
}

void ten_db_note_end(ten_db *db, uint64_t ends_ms) {
    db->last_end_ms = ten_max_u64(db->last_end_ms, ends_ms);
}

void ten_db_note_released(ten_db *db, uint64_t ends_ms) {
    db->recount |= ends_ms >= ten_max_u64(db->memory.last_end_ms, db->last_end_ms);
}

static int trim_changes(ten_db *db) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_TRIM_CHANGES);
    ten_bind_u64(statement, 1, TEN_FEED_MAX);
    ten_bind_u64(statement, 2, ten_sub_saturating(db->base.wall_ms, TEN_FEED_AGE_MS));
    ten_bind_u64(statement, 3, TEN_FEED_MOST);
    ten_bind_u64(statement, 4, ten_sub_saturating(db->base.wall_ms, TEN_FEED_YOUNG_MS));
    return ten_db_run(db, statement);
}

int ten_db_add_change(ten_db *db, const char *namespace_name, const ten_entry *entry, uint64_t least_number) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_ADD_CHANGE);
    db->row.cursor = ten_max_u64(db->row.cursor, least_number) + 1;
    ten_bind_u64(statement, 1, db->row.cursor);
    ten_bind_u64(statement, 2, db->base.wall_ms);
    ten_bind_text(statement, 3, namespace_name);
    ten_bind_text(statement, 4, entry->id);
    ten_bind_text(statement, 5, entry->text);
    int r = ten_db_run(db, statement);
    return r < 0 || db->row.cursor % TRIM_EVERY != 0 ? r : trim_changes(db);
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

/* The program may change its directory before the file is opened again. */
static int make_absolute(ten_db *db, const char *path) {
    char directory[4096] = "";
    if (path[0] != '/' && !getcwd(directory, sizeof directory))
        return ten_fail_errno(db->base.error, TENURE_E_SYSTEM, errno, "cannot open %s", path);
    ten_buf text = {0};
    ten_buf_format(&text, "%s%s%s", directory, directory[0] ? "/" : "", path);
    db->given_path = text.data;
    return text.failed ? ten_fail_memory(db->base.error, "%s", path) : TENURE_OK;
}

int ten_db_open(ten_db *db, const char *path, uint64_t timeout_ms) {
    int r = make_absolute(db, path);
    if (r == TENURE_OK)
        r = ten_db_begin_write(db, false, timeout_ms);
    return r < 0 ? r : ten_db_end(db, TENURE_OK);
}

void ten_db_close(ten_backend *base) {
    ten_db *db = (ten_db *)base;
    ten_db_disconnect(db);
    ten_sqlite_side_close(&db->side);
    ten_free(db->given_path);
    ten_arena_free(&db->texts);
}
