/*
 * Statements of a SQLite store: prepared once, bound, stepped, and SQLite's errors told in our words. Called by the
 * other sqlite_*.c files.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/sqlite/sqlite_db.h"

#include "store/sqlite/sqlite_sql.h"

static const char *const texts[TEN_SQL_COUNT] = {[TEN_SQL_BEGIN_READ] = "BEGIN",
                                                 [TEN_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
                                                 [TEN_SQL_COMMIT] = "COMMIT",
                                                 [TEN_SQL_ROLLBACK] = "ROLLBACK",
#define X(name) [TEN_SQL_##name] = SQL_##name,
                                                 TEN_SQL_STATEMENTS(X)
#undef X
};

void ten_bind_text(sqlite3_stmt *statement, int at, const char *text) {
    if (statement)
        sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

void ten_bind_u64(sqlite3_stmt *statement, int at, uint64_t number) {
    if (statement)
        sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
}

const char *ten_column_text(sqlite3_stmt *statement, int at) {
    return (const char *)sqlite3_column_text(statement, at);
}

uint64_t ten_column_u64(sqlite3_stmt *statement, int at) {
    return (uint64_t)sqlite3_column_int64(statement, at);
}

static const char *shown_path(const ten_db *db) {
    return db->path ? db->path : db->given_path;
}

static int error_code(int code) {
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TENURE_E_TIMEOUT;
    case SQLITE_FULL:
        return TENURE_E_FULL;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return TENURE_E_UNREACHABLE;
    case SQLITE_NOMEM:
        return TENURE_E_NOMEM;
    default:
        return TENURE_E_STORE;
    }
}

/* A WAL or its index that finds no room is an I/O error to SQLite, and "full" to whoever has to make room. */
static bool has_no_room(const ten_db *db, int code) {
    int reason = (code & 0xff) == SQLITE_IOERR && db->connection ? sqlite3_system_errno(db->connection) : 0;
    return reason == ENOSPC || reason == EDQUOT;
}

/* SQLite says only that it cannot open the file, or that it is read-only. */
static bool is_forbidden(const ten_db *db, int code) {
    const char *path = shown_path(db);
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX];
    if ((code & 0xff) != SQLITE_CANTOPEN && (code & 0xff) != SQLITE_READONLY)
        return false;
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return (access(path, R_OK | W_OK) != 0 && errno == EACCES) || (access(directory, W_OK) != 0 && errno == EACCES);
}

/* Tells what SQLite said. The connection is not closed here: a transaction may be open on it. */
int ten_db_failed(ten_db *db, int code) {
    int error = has_no_room(db, code) ? TENURE_E_FULL : error_code(code);
    switch (error) {
    case TENURE_E_TIMEOUT:
        return ten_fail(
            db->base.error, error,
            "%s was locked by another process for the whole time-out of %llu ms; 'fuser FILE' names those that use it",
            shown_path(db), (unsigned long long)((db->end_us - db->start_us) / 1000u));
    case TENURE_E_FULL:
        return ten_fail(db->base.error, error, "the disk of %s is full: free some space; nothing was changed",
                        shown_path(db));
    default:
        return ten_fail(db->base.error, error, "%s: %s", shown_path(db),
                        is_forbidden(db, code) ? "permission denied: this user must be able to read and write "
                                                 "the file, and to create files in its directory"
                        : (code & 0xff) == SQLITE_NOTADB ? "this is not a SQLite database; name another file"
                        : db->connection                 ? sqlite3_errmsg(db->connection)
                                                         : sqlite3_errstr(code));
    }
}

sqlite3_stmt *ten_db_statement(ten_db *db, enum ten_sql id) {
    if (!db->statements[id]) {
        int code =
            sqlite3_prepare_v3(db->connection, texts[id], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[id], NULL);
        if (code != SQLITE_OK)
            ten_db_failed(db, code);
    }
    return db->statements[id];
}

int ten_db_step(ten_db *db, sqlite3_stmt *statement) {
    if (!statement)
        return db->base.error->code;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return 1;
    return code == SQLITE_DONE ? 0 : ten_db_failed(db, code);
}

int ten_db_numbers(ten_db *db, sqlite3_stmt *statement, uint64_t *numbers, int count) {
    int found = ten_db_step(db, statement);
    for (int i = 0; i < count; i++)
        numbers[i] = found > 0 ? ten_column_u64(statement, i) : 0;
    sqlite3_reset(statement);
    return found;
}

int ten_db_run(ten_db *db, sqlite3_stmt *statement) {
    int r = ten_db_step(db, statement);
    sqlite3_reset(statement);
    return r < 0 ? r : TENURE_OK;
}

int ten_db_run_plain(ten_db *db, enum ten_sql id) {
    return ten_db_run(db, ten_db_statement(db, id));
}

int ten_db_execute(ten_db *db, const char *text) {
    int code = sqlite3_exec(db->connection, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TENURE_OK : ten_db_failed(db, code);
}
