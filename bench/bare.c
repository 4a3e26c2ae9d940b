/*
 * The bare loop over libsqlite3. Called by sqlite.c and, in each of its processes, by crowd.c.
 */
#include "bare.h"

#include "bare_sql.h"

#define STOCK_BUSY_TIMEOUT_MS 10000 /* longer than a round: a call that starves waits, and does not fail */

static bool failed(const bare_db *bare) {
    fprintf(stderr, "bench: bare SQLite: %s\n", sqlite3_errmsg(bare->connection));
    return false;
}

static bool prepare(bare_db *bare) {
    static const char *const texts[BARE_COUNT] = {
        [BARE_BEGIN] = "BEGIN IMMEDIATE", [BARE_COMMIT] = "COMMIT",  [BARE_RENEW] = BARE_SQL_RENEW,
        [BARE_GET] = BARE_SQL_GET,        [BARE_PUT] = BARE_SQL_PUT, [BARE_RELEASE] = BARE_SQL_RELEASE,
        [BARE_FEED] = BARE_SQL_FEED,
    };
    for (size_t i = 0; i < BARE_COUNT; i++)
        if (sqlite3_prepare_v3(bare->connection, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &bare->statements[i], NULL) !=
            SQLITE_OK)
            return failed(bare);
    return true;
}

bool bare_open(bare_db *bare, const char *path, bool full) {
    *bare = (bare_db){0};
    const char *pragmas = full ? "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
                               : "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    if (sqlite3_open_v2(path, &bare->connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(bare->connection, STOCK_BUSY_TIMEOUT_MS) != SQLITE_OK ||
        sqlite3_exec(bare->connection, pragmas, NULL, NULL, NULL) != SQLITE_OK)
        return failed(bare);
    return prepare(bare);
}

void bare_close(bare_db *bare) {
    for (size_t i = 0; i < BARE_COUNT; i++)
        sqlite3_finalize(bare->statements[i]);
    sqlite3_close(bare->connection);
    *bare = (bare_db){0};
}

static bool run(bare_db *bare, enum bare_statement id) {
    int code = sqlite3_step(bare->statements[id]);
    sqlite3_reset(bare->statements[id]);
    return code == SQLITE_DONE || failed(bare);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static void bind_u64(sqlite3_stmt *statement, int at, uint64_t number) {
    sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
}

/* ---- renewals */

static bool renew_one(bare_db *bare, const ten_op *op, uint64_t now_ms) {
    sqlite3_stmt *statement = bare->statements[BARE_RENEW];
    bind_u64(statement, 1, now_ms + op->ttl_ms);
    bind_text(statement, 2, op->namespace_name);
    bind_text(statement, 3, op->target);
    bind_u64(statement, 4, op->token);
    bind_text(statement, 5, op->holder);
    bind_u64(statement, 6, op->ttl_ms);
    bind_u64(statement, 7, now_ms);
    if (!run(bare, BARE_RENEW))
        return false;
    if (sqlite3_changes(bare->connection) != 1) {
        fprintf(stderr, "bench: bare SQLite: %s is not held\n", op->target);
        return false;
    }
    return true;
}

bool bare_renew(bare_db *bare, const ten_op *ops, size_t count) {
    if (!run(bare, BARE_BEGIN))
        return false;
    uint64_t now_ms = ten_boot_us() / 1000u;
    for (size_t i = 0; i < count; i++)
        if (!renew_one(bare, &ops[i], now_ms))
            return false;
    return run(bare, BARE_COMMIT);
}

/* ---- pairs */

static bool feed(bare_db *bare, const ten_op *op, const char *event, uint64_t token) {
    sqlite3_stmt *statement = bare->statements[BARE_FEED];
    bind_u64(statement, 1, ten_boot_us() / 1000u);
    bind_text(statement, 2, event);
    bind_text(statement, 3, op->namespace_name);
    bind_text(statement, 4, op->target);
    bind_text(statement, 5, op->holder);
    bind_u64(statement, 6, token);
    return run(bare, BARE_FEED);
}

/* The last token of a free target; UINT64_MAX when it cannot be had. */
static uint64_t look(bare_db *bare, const ten_op *op) {
    sqlite3_stmt *statement = bare->statements[BARE_GET];
    bind_text(statement, 1, op->namespace_name);
    bind_text(statement, 2, op->target);
    int code = sqlite3_step(statement);
    uint64_t token = code == SQLITE_DONE ? 0 : UINT64_MAX;
    if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_NULL)
        token = (uint64_t)sqlite3_column_int64(statement, 1);
    sqlite3_reset(statement);
    if (token == UINT64_MAX)
        fprintf(stderr, "bench: bare SQLite: %s cannot be acquired\n", op->target);
    return token;
}

static bool put(bare_db *bare, const ten_op *op, uint64_t token, uint64_t now_ms) {
    sqlite3_stmt *statement = bare->statements[BARE_PUT];
    bind_text(statement, 1, op->namespace_name);
    bind_text(statement, 2, op->target);
    bind_text(statement, 3, op->holder);
    bind_u64(statement, 4, token);
    bind_u64(statement, 5, now_ms + op->ttl_ms);
    bind_u64(statement, 6, op->ttl_ms);
    bind_u64(statement, 7, now_ms);
    return run(bare, BARE_PUT);
}

static bool acquire(bare_db *bare, const ten_op *op, uint64_t *ret_token) {
    if (!run(bare, BARE_BEGIN))
        return false;
    uint64_t token = look(bare, op);
    if (token == UINT64_MAX || !put(bare, op, token + 1, ten_boot_us() / 1000u) ||
        !feed(bare, op, "lease_acquired", token + 1))
        return false;
    *ret_token = token + 1;
    return run(bare, BARE_COMMIT);
}

static bool release(bare_db *bare, const ten_op *op, uint64_t token) {
    sqlite3_stmt *statement = bare->statements[BARE_RELEASE];
    bind_text(statement, 1, op->namespace_name);
    bind_text(statement, 2, op->target);
    bind_u64(statement, 3, token);
    bind_text(statement, 4, op->holder);
    if (!run(bare, BARE_BEGIN) || !run(bare, BARE_RELEASE))
        return false;
    if (sqlite3_changes(bare->connection) != 1) {
        fprintf(stderr, "bench: bare SQLite: %s was not held\n", op->target);
        return false;
    }
    return feed(bare, op, "lease_released", token) && run(bare, BARE_COMMIT);
}

bool bare_pair(bare_db *bare, const ten_op *op) {
    uint64_t token = 0;
    return acquire(bare, op, &token) && release(bare, op, token);
}
