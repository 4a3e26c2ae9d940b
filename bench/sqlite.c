/*
 * The benchmarks of the SQLite store, of which each row is what the store does against a bare loop over libsqlite3 on
 * the same tables (bare.h). Synchronous modes are the store's: renewals NORMAL, acquire and release FULL (see
 * src/store/sqlite/sqlite.c).
 */
#include "bare.h"
#include "base/alloc.h"
#include "ground.h"
#include "measures.h"

#define ROUNDS       41u /* short and many: a burst of other work then spoils a few and not the median */
#define BATCH        1000u
#define PAIR_TARGETS 100u

/* ---- what takes turns ---------------------------------------------------------------------------------- */

/* One side on a database of its own. Which of the handles it uses depends on its turn function. */
struct runner {
    char path[GROUND_PATH_SIZE];
    ground_leases leases;
    ten_store *store;
    tenure_context *context;
    bare_db bare;
    size_t next;
};

static const ten_op *next_op(struct runner *runner) {
    runner->next = (runner->next + 1) % runner->leases.count;
    return &runner->leases.ops[runner->next];
}

static bool renew_batch(void *arg) {
    struct runner *runner = arg;
    return ground_apply(runner->store, runner->leases.ops, runner->leases.results, runner->leases.count);
}

static bool bare_renew_batch(void *arg) {
    struct runner *runner = arg;
    return bare_renew(&runner->bare, runner->leases.ops, runner->leases.count);
}

static bool renew_one(void *arg) {
    struct runner *runner = arg;
    return ground_apply(runner->store, next_op(runner), runner->leases.results, 1);
}

static bool bare_renew_one(void *arg) {
    struct runner *runner = arg;
    return bare_renew(&runner->bare, next_op(runner), 1);
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

static bool public_pair(void *arg) {
    struct runner *runner = arg;
    tenure_lease *lease = NULL;
    bool done = tenure_acquire(runner->context, next_op(runner)->target, 0, 0, &lease) == TENURE_OK &&
                tenure_release(lease) == TENURE_OK;
    tenure_lease_free(lease);
    if (!done)
        fprintf(stderr, "bench: %s\n", tenure_message(runner->context));
    return done;
}

static bool bare_pair_turn(void *arg) {
    struct runner *runner = arg;
    return bare_pair(&runner->bare, next_op(runner));
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

enum handle { STORE, CONTEXT, BARE_NORMAL, BARE_FULL };

static bool open_context(struct runner *runner) {
    char url[GROUND_PATH_SIZE + 16];
    tenure_options options = {.size = sizeof options, .ttl_ms = GROUND_TTL_MS, .instance_name = "bench"};
    snprintf(url, sizeof url, "sqlite:%s", runner->path);
    if (tenure_open(url, &options, &runner->context) == TENURE_OK)
        return true;
    fprintf(stderr, "bench: %s\n", tenure_message(NULL));
    return false;
}

/* Makes the database and its leases; `held`: they stay held, to be renewed. Then opens the handle. */
static bool open_runner(struct runner *runner, const char *directory, const char *name, enum handle handle,
                        size_t count, bool held) {
    *runner = (struct runner){0};
    ground_path(runner->path, directory, name);
    runner->store = ground_open(runner->path);
    if (!runner->store || !ground_acquire(runner->store, 1, count, &runner->leases))
        return false;
    for (size_t i = 0; i < count; i++)
        runner->leases.ops[i].kind = TEN_OP_RELEASE;
    if (!held && !ground_apply(runner->store, runner->leases.ops, runner->leases.results, count))
        return false;
    for (size_t i = 0; i < count; i++)
        runner->leases.ops[i].kind = TEN_OP_RENEW;
    if (handle == STORE)
        return true;
    ten_store_close(runner->store);
    runner->store = NULL;
    return handle == CONTEXT ? open_context(runner) : bare_open(&runner->bare, runner->path, handle == BARE_FULL);
}

static void close_runner(struct runner *runner) {
    ten_store_close(runner->store);
    (void)tenure_close(runner->context);
    if (runner->bare.connection)
        bare_close(&runner->bare);
    ground_free(&runner->leases);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bool add_rate(bench_report *report, const char *name, const char *against, double goal, const bench_side *ours,
                     const bench_side *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_RATE, .goal = goal};
    return bench_add(report, head, ours->rates, reference->rates, ROUNDS) != NULL;
}

bool sqlite_measure_batch(bench_report *report, const char *directory) {
    struct runner ours = {0}, normal = {0}, full = {0};
    bench_side sides[] = {{.turn = renew_batch, .arg = &ours, .per_turn = BATCH},
                          {.turn = bare_renew_batch, .arg = &normal, .per_turn = BATCH},
                          {.turn = bare_renew_batch, .arg = &full, .per_turn = BATCH}};
    bool done =
        open_runner(&ours, directory, "batch-ours", STORE, BATCH, true) &&
        open_runner(&normal, directory, "batch-normal", BARE_NORMAL, BATCH, true) &&
        open_runner(&full, directory, "batch-full", BARE_FULL, BATCH, true) &&
        bench_race(sides, TEN_COUNT(sides), ROUNDS, 60) &&
        add_rate(report, "renew-batch-1000", "bare UPDATEs in one transaction, NORMAL", 0.8, &sides[0], &sides[1]) &&
        add_rate(report, "renew-batch-1000/full", "the same, FULL", 0, &sides[0], &sides[2]);
    close_runner(&ours);
    close_runner(&normal);
    close_runner(&full);
    return done;
}

bool sqlite_measure_one(bench_report *report, const char *directory) {
    struct runner ours = {0}, normal = {0};
    bench_side sides[] = {{.turn = renew_one, .arg = &ours, .per_turn = 1},
                          {.turn = bare_renew_one, .arg = &normal, .per_turn = 1}};
    bool done = open_runner(&ours, directory, "one-ours", STORE, BATCH, true) &&
                open_runner(&normal, directory, "one-normal", BARE_NORMAL, BATCH, true) &&
                bench_race(sides, TEN_COUNT(sides), ROUNDS, 40) &&
                add_rate(report, "renew-one", "one bare UPDATE in a transaction, NORMAL", 0, &sides[0], &sides[1]);
    close_runner(&ours);
    close_runner(&normal);
    return done;
}

bool sqlite_measure_pairs(bench_report *report, const char *directory) {
    struct runner ours = {0}, public = {0}, bare = {0};
    bench_side sides[] = {{.turn = pair, .arg = &ours, .per_turn = 1},
                          {.turn = bare_pair_turn, .arg = &bare, .per_turn = 1},
                          {.turn = public_pair, .arg = &public, .per_turn = 1}};
    bool done = open_runner(&ours, directory, "pair-ours", STORE, PAIR_TARGETS, false) &&
                open_runner(&public, directory, "pair-public", CONTEXT, PAIR_TARGETS, false) &&
                open_runner(&bare, directory, "pair-feed", BARE_FULL, PAIR_TARGETS, false) &&
                bench_race(sides, TEN_COUNT(sides), ROUNDS, 60) &&
                add_rate(report, "acquire-release", "the same SQL, bare: FULL, with the feed's INSERTs", 0.8, &sides[0],
                         &sides[1]) &&
                add_rate(report, "acquire-release/public", "tenure_acquire and tenure_release against the first", 0,
                         &sides[2], &sides[1]);
    close_runner(&ours);
    close_runner(&public);
    close_runner(&bare);
    return done;
}
