/*
 * The benchmarks of the guard: one thread checks the tokens of targets that the guard remembers. The ceiling is what no
 * guard can do without: the clock, and a look into the same hash map with the same ids.
 */
#include "guard.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "ground.h"

#define TARGETS  10000u
#define ROUNDS   15u
#define SLICE_MS 20u
#define GOAL_NS  1000

struct checker {
    const ground_leases *leases;
    tenure_guard *guard;
    ten_map map;
};

static bool check_turn(void *arg) {
    const struct checker *checker = arg;
    for (size_t i = 0; i < TARGETS; i++) {
        const ten_op *op = &checker->leases->ops[i];
        if (tenure_guard_check(checker->guard, op->target, op->token) == TENURE_OK)
            continue;
        fprintf(stderr, "bench: %s\n", tenure_message(checker->guard));
        return false;
    }
    return true;
}

static bool look_turn(void *arg) {
    const struct checker *checker = arg;
    bool found = true;
    for (size_t i = 0; i < TARGETS; i++) {
        const ten_op *op = &checker->leases->ops[i];
        const ten_op *known = ten_map_get(&checker->map, op->target);
        found &= ten_boot_ms(&ten_system_clock) > 0 && known && known->token == op->token;
    }
    return found;
}

static bool add_row(bench_report *report, bench_row head, const double *ours, const double *reference) {
    bench_row *row = bench_add(report, head, ours, reference, ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}

static bool race(bench_report *report, struct checker *checker) {
    bench_side sides[] = {{.turn = check_turn, .arg = checker, .per_turn = TARGETS},
                          {.turn = look_turn, .arg = checker, .per_turn = TARGETS}};
    double ours_ns[ROUNDS], bare_ns[ROUNDS];
    tenure_guard_totals before = {.size = sizeof before}, after = {.size = sizeof after};
    if (!check_turn(checker)) /* each target is read from the store */
        return false;
    if (tenure_guard_read(checker->guard, &before) < 0 || !bench_race(sides, TEN_COUNT(sides), ROUNDS, SLICE_MS) ||
        tenure_guard_read(checker->guard, &after) < 0)
        return false;
    if (after.reads != before.reads)
        fprintf(stderr, "bench: %llu targets were read from the store: not all was remembered\n",
                (unsigned long long)(after.reads - before.reads));
    for (size_t i = 0; i < ROUNDS; i++) {
        ours_ns[i] = 1e9 / sides[0].rates[i];
        bare_ns[i] = 1e9 / sides[1].rates[i];
    }
    return add_row(report,
                   (bench_row){.name = "guard", .against = "a clock read and a lookup in the map", .kind = BENCH_RATE},
                   sides[0].rates, sides[1].rates) &&
           add_row(
               report,
               (bench_row){.name = "guard/check", .against = "the same, a check", .kind = BENCH_NANO, .goal = GOAL_NS},
               ours_ns, bare_ns);
}

bool guard_measure(bench_report *report, const char *directory) {
    char path[GROUND_PATH_SIZE];
    char url[GROUND_PATH_SIZE + 16];
    tenure_context *context = NULL;
    ground_leases leases = {0};
    struct checker checker = {.leases = &leases};
    ground_path(path, directory, "guard");
    snprintf(url, sizeof url, "sqlite:%s", path);
    ten_store *store = ground_open(path);
    bool done = store && ground_acquire(store, 1, TARGETS, &leases);
    for (size_t i = 0; done && i < TARGETS; i++)
        done = ten_map_put(&checker.map, leases.targets[i], &leases.ops[i]);
    if (done && (tenure_open(url, NULL, &context) < 0 || tenure_guard_open(context, NULL, &checker.guard) < 0)) {
        fprintf(stderr, "bench: %s\n", tenure_message(NULL));
        done = false;
    }
    done = done && race(report, &checker);
    tenure_guard_close(checker.guard);
    tenure_close(context);
    ten_map_free(&checker.map);
    ground_free(&leases);
    ten_store_close(store);
    return done;
}
