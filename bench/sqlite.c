/*
 * The benchmarks as a program: `bench [--json FILE] [--ids N] [NAME-PREFIX]`; and those of the SQLite store, of which each row is
 * what the store does against a bare loop over libsqlite3 on the same tables (bare.h). context.c, plan.c, fleet.c and redis.c have
 * the others. Ends with 1 when a goal is missed by the median, with 2 when it could not measure.
 *
 * Synchronous modes are the store's: renewals NORMAL, acquire and release FULL (see src/store/sqlite/sqlite.c).
 */
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bare.h"
#include "base/alloc.h"
#include "bench.h"
#include "context.h"
#include "cron.h"
#include "crowd.h"
#include "elections.h"
#include "endings.h"
#include "etcd.h"
#include "fleet.h"
#include "ground.h"
#include "growth.h"
#include "guard.h"
#include "handover.h"
#include "peers.h"
#include "plan.h"
#include "postgres.h"
#include "redis.h"
#include "server.h"
#include "start.h"

#define ROUNDS       41u /* short and many: a burst of other work then spoils a few and not the median */
#define CROWD_ROUNDS 3u
#define CROWD_RUN_MS UINT64_C(1800)
#define BATCH        1000u
#define PAIR_TARGETS 100u

/* ---- what takes turns ---------------------------------------------------------------------------------- */

/* One side on a database of its own. Which of the handles it uses depends on its turn function. */
struct runner {
    char path[GROUND_PATH_SIZE];
    ground_leases leases;
    ten_store *store;
    ten_store *watcher; /* another handle on the same database, so that changes have to be told */
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

static bool bare_pair_alone(void *arg) {
    struct runner *runner = arg;
    return bare_pair(&runner->bare, next_op(runner), false);
}

static bool bare_pair_with_feed(void *arg) {
    struct runner *runner = arg;
    return bare_pair(&runner->bare, next_op(runner), true);
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

static bool add_watcher(struct runner *runner) {
    int fd;
    runner->watcher = ground_open(runner->path);
    return runner->watcher && runner->watcher->ops->watch(runner->watcher, "poll", &fd) == TENURE_OK;
}

static void close_runner(struct runner *runner) {
    ten_store_close(runner->store);
    ten_store_close(runner->watcher);
    (void)tenure_close(runner->context);
    if (runner->bare.connection)
        bare_close(&runner->bare);
    ground_free(&runner->leases);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bool add_rate(bench_report *report, const char *name, const char *against, double goal, const bench_side *ours,
                     const bench_side *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_RATE, .goal = goal};
    const bench_row *row = bench_add(report, head, ours->rates, reference->rates, ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

static bool measure_renew_batch(bench_report *report, const char *directory) {
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

static bool measure_renew_one(bench_report *report, const char *directory) {
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

static bool measure_pairs(bench_report *report, const char *directory) {
    struct runner ours = {0}, public = {0}, alone = {0}, feed = {0}, watched = {0};
    bench_side sides[] = {{.turn = pair, .arg = &ours, .per_turn = 1},
                          {.turn = bare_pair_alone, .arg = &alone, .per_turn = 1},
                          {.turn = bare_pair_with_feed, .arg = &feed, .per_turn = 1},
                          {.turn = public_pair, .arg = &public, .per_turn = 1},
                          {.turn = pair, .arg = &watched, .per_turn = 1}};
    bool done = open_runner(&ours, directory, "pair-ours", STORE, PAIR_TARGETS, false) &&
                open_runner(&public, directory, "pair-public", CONTEXT, PAIR_TARGETS, false) &&
                open_runner(&alone, directory, "pair-bare", BARE_FULL, PAIR_TARGETS, false) &&
                open_runner(&feed, directory, "pair-feed", BARE_FULL, PAIR_TARGETS, false) &&
                open_runner(&watched, directory, "pair-watched", STORE, PAIR_TARGETS, false) && add_watcher(&watched) &&
                bench_race(sides, TEN_COUNT(sides), ROUNDS, 60) &&
                add_rate(report, "acquire-release", "the same SQL, bare: FULL, with the feed's INSERTs", 0.8, &sides[0],
                         &sides[2]) &&
                add_rate(report, "acquire-release/least", "bare SQL, FULL, without a feed", 0, &sides[0], &sides[1]) &&
                add_rate(report, "acquire-release/public", "tenure_acquire and tenure_release against the first", 0,
                         &sides[3], &sides[2]) &&
                add_rate(report, "acquire-release/watched", "the store with somebody watching, against the first", 0,
                         &sides[4], &sides[2]);
    close_runner(&ours);
    close_runner(&public);
    close_runner(&alone);
    close_runner(&feed);
    close_runner(&watched);
    return done;
}

/* ---- three processes ----------------------------------------------------------------------------------- */

struct crowd_side {
    const char *title;
    const char *key;
    bool stock;
    char path[GROUND_PATH_SIZE];
    crowd_team *team;
    double worst_ms[CROWD_ROUNDS]; /* over the members */
    crowd_member members[CROWD_ROUNDS][CROWD_SIZE];
};

static bool run_crowd_round(struct crowd_side *side, size_t round, size_t batch) {
    crowd_plan plan = {.path = side->path, .stock = side->stock, .batch = batch, .run_ms = CROWD_RUN_MS};
    if (!crowd_run(side->team, &plan, side->members[round]))
        return false;
    for (size_t i = 0; i < CROWD_SIZE; i++)
        if (side->members[round][i].worst_ms > side->worst_ms[round])
            side->worst_ms[round] = side->members[round][i].worst_ms;
    return true;
}

/* Each member of each round, so that one that starved can be seen. */
static void print_crowd(const struct crowd_side *side) {
    for (size_t round = 0; round < CROWD_ROUNDS; round++) {
        printf("    %-5s round %zu:", side->title, round + 1);
        for (size_t i = 0; i < CROWD_SIZE; i++) {
            const crowd_member *member = &side->members[round][i];
            printf("  %6llu turns, p50 %.2f p99 %.2f worst %.1f ms%s", (unsigned long long)member->turns,
                   member->p50_ms, member->p99_ms, member->worst_ms, i + 1 < CROWD_SIZE ? ";" : "\n");
        }
    }
}

static void tell_crowd(ten_buf *json, const struct crowd_side *side) {
    ten_buf_format(json, ",\"%s\":[", side->key);
    for (size_t round = 0; round < CROWD_ROUNDS; round++) {
        for (size_t i = 0; i < CROWD_SIZE; i++) {
            const crowd_member *member = &side->members[round][i];
            ten_buf_format(json,
                           "%s{\"round\":%zu,\"process\":%zu,\"turns\":%llu,\"p50_ms\":%.3f,\"p99_ms\":%.3f,"
                           "\"worst_ms\":%.3f}",
                           round + i ? "," : "", round + 1, i + 1, (unsigned long long)member->turns, member->p50_ms,
                           member->p99_ms, member->worst_ms);
        }
    }
    ten_buf_char(json, ']');
}

static bool measure_crowd(bench_report *report, const char *directory, const char *name, size_t batch) {
    struct crowd_side sides[] = {{.title = "ours", .key = "ours_processes"},
                                 {.title = "stock", .key = "reference_processes", .stock = true}};
    char file[64];
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(sides); i++) {
        snprintf(file, sizeof file, "%s-%s", name, sides[i].title);
        ground_path(sides[i].path, directory, file);
        sides[i].team = crowd_prepare(sides[i].path);
        done = sides[i].team != NULL;
    }
    for (size_t round = 0; round < CROWD_ROUNDS; round++)
        for (size_t i = 0; done && i < TEN_COUNT(sides); i++)
            done = run_crowd_round(&sides[i], round, batch);
    bench_row head = {
        .name = name, .against = "bare SQL with sqlite3_busy_timeout, three processes", .kind = BENCH_WAIT, .goal = 50};
    bench_row *row = done ? bench_add(report, head, sides[0].worst_ms, sides[1].worst_ms, CROWD_ROUNDS) : NULL;
    if (row)
        bench_print_row(row);
    for (size_t i = 0; i < TEN_COUNT(sides); i++) {
        if (row) {
            print_crowd(&sides[i]);
            tell_crowd(&row->more, &sides[i]);
        }
        crowd_free(sides[i].team);
    }
    return row != NULL;
}

static bool measure_crowd_100(bench_report *report, const char *directory) {
    return measure_crowd(report, directory, "worst-wait-100", 100);
}

static bool measure_crowd_1(bench_report *report, const char *directory) {
    return measure_crowd(report, directory, "worst-wait-1", 1);
}

/* ---- the program --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*measure)(bench_report *report, const char *directory);
} groups[] = {
    {"renew-batch-1000", measure_renew_batch},
    {"renew-one", measure_renew_one},
    {"acquire-release", measure_pairs},
    {"context-open", context_measure_open},
    {"context-pair", context_measure_pairs},
    {"context-rest", context_measure_rest},
    {"lease-valid", context_measure_valid},
    {"worst-wait-100", measure_crowd_100},
    {"worst-wait-1", measure_crowd_1},
    {"plan-10", plan_measure_10},
    {"plan-100", plan_measure_100},
    {"is-owned", fleet_measure_owned},
    {"target-bytes", fleet_measure_bytes},
    {"renewal-allocations", fleet_measure_allocations},
    {"idle", fleet_measure_idle},
    {"guard", guard_measure},
    {"start", start_measure},
    {"endings", endings_measure},
    {"growth/sqlite", growth_measure_sqlite},
#ifdef TEN_STORE_REDIS
    {"redis-renew", redis_measure_renew},
    {"redis-acquire", redis_measure_acquire},
    {"redis-single", redis_measure_single},
    {"redis-takeover", redis_measure_takeover},
    {"redis-discovery", redis_measure_discovery},
    {"handover/redis", handover_measure_redis},
    {"growth/redis", growth_measure_redis},
    {"cron", cron_measure},
    {"elections", elections_measure},
    {"peers", peers_measure},
#endif
#ifdef TEN_STORE_POSTGRES
    {"postgres-renew", postgres_measure_renew},
    {"handover/postgres", handover_measure_postgres},
    {"growth/postgres", growth_measure_postgres},
#endif
#ifdef TEN_STORE_ETCD
    {"etcd", etcd_measure},
    {"handover/etcd", handover_measure_etcd},
    {"growth/etcd", growth_measure_etcd},
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP && defined TEN_STORE_REDIS
    {"server", server_measure},
    {"growth/http", growth_measure_http},
#endif
};

static void describe_machine(bench_report *report, const char *directory) {
    struct utsname system = {0};
    struct statfs disk = {0};
    double load = 0;
    (void)uname(&system);
    (void)getloadavg(&load, 1);
    bool memory = statfs(directory, &disk) == 0 && disk.f_type == TMPFS_MAGIC;
    snprintf(report->machine, sizeof report->machine, "%ld cores, load %.1f, %s %s, libsqlite3 %s, tenure %s%s",
             sysconf(_SC_NPROCESSORS_ONLN), load, system.sysname, system.release, sqlite3_libversion(),
             tenure_version(), memory ? ", TMPDIR IS IN MEMORY: fsync costs nothing there, name a disk" : "");
}

/* How many rows missed their goal; -1 when something could not be measured. */
static int measure_all(bench_report *report, const char *prefix) {
    char directory[GROUND_PATH_SIZE];
    if (!ground_make(directory))
        return -1;
    describe_machine(report, directory);
    bench_print_head(report);
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(groups); i++)
        if (strncmp(groups[i].name, prefix, strlen(prefix)) == 0)
            done = groups[i].measure(report, directory);
    ground_remove(directory);
    int missed = 0;
    for (size_t i = 0; i < report->count; i++) {
        if (!bench_is_met(&report->rows[i])) {
            fprintf(stderr, "bench: %s missed its goal\n", report->rows[i].name);
            missed++;
        }
    }
    return done ? missed : -1;
}

static int usage(void) {
    fprintf(stderr, "usage: bench [--json FILE] [--ids N] [NAME-PREFIX]\nrows:");
    for (size_t i = 0; i < TEN_COUNT(groups); i++)
        fprintf(stderr, " %s", groups[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *json = NULL;
    const char *prefix = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--ids") == 0 && i + 1 < argc && (growth_ids = strtoul(argv[i + 1], NULL, 10)) > 0)
            i++;
        else if (argv[i][0] != '-' && i + 1 == argc)
            prefix = argv[i];
        else
            return usage();
    }
    bench_report report = {0};
    int missed = measure_all(&report, prefix);
    if (missed >= 0 && report.count == 0)
        return usage();
    if (missed >= 0 && json && !bench_write_json(&report, json))
        missed = -1;
    bench_free(&report);
    return missed < 0 ? 2 : missed > 0;
}
