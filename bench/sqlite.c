/*
 * Single operations on the SQLite store, each against a bare loop over libsqlite3 on the same tables: the same
 * statements with no queue, no epoch, no notices and no names checked around them. It is as quick as we know how to
 * make it (prepared statements, no mutex, texts not copied), since a slow reference would flatter us. Synchronous modes
 * are the store's: renewals NORMAL, acquire and release FULL (see src/store/sqlite/sqlite.c).
 */
#include <sqlite3.h>
#include <stdarg.h>

#include "bare_sql.h"
#include "ground.h"
#include "measures.h"

#define ROUNDS                41u /* short and many: a burst of other work then spoils a few and not the median */
#define SLICE_MS              60u
#define BATCH                 1000u
#define PAIR_TARGETS          100u
#define STOCK_BUSY_TIMEOUT_MS 10000 /* longer than a round: a call that starves waits, and does not fail */

enum statement { BEGIN, COMMIT, RENEW, GET, PUT, RELEASE, FEED, STATEMENTS };
static const char *const texts[STATEMENTS] = {"BEGIN IMMEDIATE", "COMMIT",         BARE_SQL_RENEW, BARE_SQL_GET,
                                              BARE_SQL_PUT,      BARE_SQL_RELEASE, BARE_SQL_FEED};

/* One side on a database of its own: the store, or the bare connection. */
struct runner {
    ground_leases leases;
    ten_store *store;
    sqlite3 *bare;
    sqlite3_stmt *statements[STATEMENTS];
    uint64_t token; /* the last that was read */
    size_t next;
};

/* ---- the bare statements ------------------------------------------------------------------------------- */

static bool failed(const struct runner *runner, const char *target) {
    fprintf(stderr, "bench: bare SQLite: %s: %s\n", target, sqlite3_errmsg(runner->bare));
    return false;
}

/* Binds what `types` says: s, a text; u, a uint64_t. False: it failed, or did not find or change one row. */
static bool run(struct runner *runner, enum statement id, const char *types, ...) {
    sqlite3_stmt *statement = runner->statements[id];
    va_list values;
    va_start(values, types);
    for (int at = 1; types[at - 1]; at++)
        if (types[at - 1] == 's')
            sqlite3_bind_text(statement, at, va_arg(values, const char *), -1, SQLITE_STATIC);
        else
            sqlite3_bind_int64(statement, at, (sqlite3_int64)va_arg(values, uint64_t));
    va_end(values);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        runner->token = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    bool done =
        id == GET ? code == SQLITE_ROW : code == SQLITE_DONE && (!types[0] || sqlite3_changes(runner->bare) == 1);
    return done || failed(runner, texts[id]);
}

static bool feed(struct runner *runner, const ten_op *op, const char *event, uint64_t token) {
    return run(runner, FEED, "ussssu", ten_boot_us() / 1000u, event, op->namespace_name, op->target, op->holder, token);
}

static bool open_bare(struct runner *runner, const char *path, bool full) {
    const char *pragmas = full ? "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"
                               : "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    bool done = sqlite3_open_v2(path, &runner->bare, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
                sqlite3_busy_timeout(runner->bare, STOCK_BUSY_TIMEOUT_MS) == SQLITE_OK &&
                sqlite3_exec(runner->bare, pragmas, NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; done && i < STATEMENTS; i++)
        done = sqlite3_prepare_v3(runner->bare, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &runner->statements[i],
                                  NULL) == SQLITE_OK;
    return done || failed(runner, path);
}

/* ---- what takes turns ---------------------------------------------------------------------------------- */

static bool renew(void *arg) {
    const struct runner *runner = arg;
    return ground_apply(runner->store, runner->leases.ops, runner->leases.results, runner->leases.count);
}

static bool renew_bare(void *arg) {
    struct runner *runner = arg;
    bool done = run(runner, BEGIN, "");
    uint64_t now_ms = ten_boot_us() / 1000u;
    for (const ten_op *op = runner->leases.ops; done && op < runner->leases.ops + runner->leases.count; op++)
        done = run(runner, RENEW, "ussusuu", now_ms + op->ttl_ms, op->namespace_name, op->target, op->token, op->holder,
                   op->ttl_ms, now_ms);
    return done && run(runner, COMMIT, "");
}

static ten_op *next_op(struct runner *runner) {
    runner->next = (runner->next + 1) % runner->leases.count;
    return &runner->leases.ops[runner->next];
}

static bool pair(void *arg) {
    struct runner *runner = arg;
    ten_op op = *next_op(runner);
    op.kind = TEN_OP_ACQUIRE;
    if (!ground_apply(runner->store, &op, runner->leases.results, 1))
        return false;
    op.kind = TEN_OP_RELEASE;
    op.token = runner->leases.results[0].token;
    return ground_apply(runner->store, &op, runner->leases.results, 1);
}

static bool pair_bare(void *arg) {
    struct runner *runner = arg;
    const ten_op *op = next_op(runner);
    uint64_t now_ms = ten_boot_us() / 1000u;
    if (!run(runner, BEGIN, "") || !run(runner, GET, "ss", op->namespace_name, op->target))
        return false;
    uint64_t token = runner->token + 1;
    return run(runner, PUT, "sssuuuu", op->namespace_name, op->target, op->holder, token, now_ms + op->ttl_ms,
               op->ttl_ms, now_ms) &&
           feed(runner, op, "lease_acquired", token) && run(runner, COMMIT, "") && run(runner, BEGIN, "") &&
           run(runner, RELEASE, "ssus", op->namespace_name, op->target, token, op->holder) &&
           feed(runner, op, "lease_released", token) && run(runner, COMMIT, "");
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* Makes the database and its leases; `held`: they stay held, to be renewed. */
static bool open_runner(struct runner *runner, const char *directory, bool bare, size_t count, bool held) {
    char path[GROUND_PATH_SIZE];
    snprintf(path, sizeof path, "%.400s/%zu-%s.db", directory, count, bare ? "bare" : "ours");
    runner->store = ground_open("sqlite:%s", path);
    if (!runner->store || !ground_acquire(runner->store, 1, count, &runner->leases))
        return false;
    for (size_t i = 0; !held && i < count; i++)
        runner->leases.ops[i].kind = TEN_OP_RELEASE;
    if (!ground_apply(runner->store, runner->leases.ops, runner->leases.results, count))
        return false;
    if (!bare)
        return true;
    ten_store_close(runner->store);
    runner->store = NULL;
    return open_bare(runner, path, !held);
}

static bool race(bench_report *report, const char *directory, bench_side sides[2], size_t count, bool held,
                 const bench_pairing *row) {
    struct runner runners[2] = {0};
    bool done = true;
    for (size_t i = 0; done && i < 2; i++) {
        sides[i].arg = &runners[i];
        done = open_runner(&runners[i], directory, i == 1, count, held);
    }
    done = done && bench_race(report, sides, 2, ROUNDS, SLICE_MS, row, 1);
    for (size_t i = 0; i < 2; i++) {
        ten_store_close(runners[i].store);
        for (size_t j = 0; j < STATEMENTS; j++)
            sqlite3_finalize(runners[i].statements[j]);
        sqlite3_close(runners[i].bare);
        ground_free(&runners[i].leases);
    }
    return done;
}

bool sqlite_measure_batch(bench_report *report, const char *directory) {
    static const bench_pairing row = {
        "renew-batch-1000", "bare UPDATEs in one transaction, NORMAL", BENCH_RATE, 0.8, 0, 1};
    bench_side sides[] = {{.turn = renew, .per_turn = BATCH}, {.turn = renew_bare, .per_turn = BATCH}};
    return race(report, directory, sides, BATCH, true, &row);
}

bool sqlite_measure_pairs(bench_report *report, const char *directory) {
    static const bench_pairing row = {
        "acquire-release", "the same SQL, bare: FULL, with the feed's INSERTs", BENCH_RATE, 0.8, 0, 1};
    bench_side sides[] = {{.turn = pair, .per_turn = 1}, {.turn = pair_bare, .per_turn = 1}};
    return race(report, directory, sides, PAIR_TARGETS, false, &row);
}
