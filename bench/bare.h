/*
 * The reference: the same statements on the same tables with nothing but libsqlite3 around them. No queue, no epoch, no
 * notices, no names checked. It is as quick as we know how to make it (prepared statements, no mutex, texts not
 * copied), since a slow reference would flatter us.
 */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <sqlite3.h>
#include <stdbool.h>

#include "store/store.h"

enum bare_statement {
    BARE_BEGIN,
    BARE_COMMIT,
    BARE_RENEW,
    BARE_GET,
    BARE_PUT,
    BARE_RELEASE,
    BARE_FEED,
    BARE_COUNT,
};

typedef struct bare_db {
    sqlite3 *connection;
    sqlite3_stmt *statements[BARE_COUNT];
} bare_db;

/* Opens a database that a store has made. Waiting for a lock is SQLite's own busy_timeout. */
bool bare_open(bare_db *bare, const char *path, bool full);
void bare_close(bare_db *bare);

/* One transaction of renewals; ops as the store takes them. */
bool bare_renew(bare_db *bare, const ten_op *ops, size_t count);
/* Two transactions: acquire what `op` names, and release it; each also writes to the feed. */
bool bare_pair(bare_db *bare, const ten_op *op);

#endif
