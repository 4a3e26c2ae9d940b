/*
 * What the library costs where no store is in the way: the local check of a lease against a read of the clock, a check
 * of the guard against a clock read and a lookup in the same map, and the memory of a target that an instance knows or
 * holds, at a million of them. What needs a process to itself runs in a child.
 */
#include <malloc.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "child.h"
#include "ground.h"
#include "measures.h"

#define ROUNDS   21u
#define SLICE_MS 20u
#define CALLS    1000u

/* Two rows of one race: as a rate, and as nanoseconds for one. */
static bool race(bench_report *report, const char *names[2], const char *against, double goal_ns, bench_side sides[2]) {
    double ours_ns[ROUNDS], bare_ns[ROUNDS];
    if (!bench_race(sides, 2, ROUNDS, SLICE_MS))
        return false;
    for (size_t i = 0; i < ROUNDS; i++) {
        ours_ns[i] = 1e9 / sides[0].rates[i];
        bare_ns[i] = 1e9 / sides[1].rates[i];
    }
    return bench_add(report, (bench_row){.name = names[0], .against = against, .kind = BENCH_RATE}, sides[0].rates,
                     sides[1].rates, ROUNDS) &&
           bench_add(report,
                     (bench_row){.name = names[1], .against = "the same, a call", .kind = BENCH_NANO, .goal = goal_ns},
                     ours_ns, bare_ns, ROUNDS);
}

/* ---- the local check */

static bool check_lease(void *lease) {
    bool valid = true;
    for (unsigned i = 0; i < CALLS; i++)
        valid &= tenure_lease_valid(lease);
    return valid;
}

static bool read_clock(void *arg) {
    uint64_t sum = 0;
    (void)arg;
    for (unsigned i = 0; i < CALLS; i++) {
        struct timespec now;
        sum += clock_gettime(CLOCK_BOOTTIME, &now) == 0 ? (uint64_t)now.tv_nsec | 1u : 0;
    }
    return sum != 0;
}

bool library_measure_valid(bench_report *report, const char *directory) {
    tenure_lease *lease = NULL;
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .ttl_ms = GROUND_TTL_MS};
    (void)directory;
    bool done = tenure_open("memory:", &options, &context) == TENURE_OK &&
                tenure_acquire(context, "checked", 0, 0, &lease) == TENURE_OK;
    bench_side sides[] = {{.turn = check_lease, .arg = lease, .per_turn = CALLS},
                          {.turn = read_clock, .per_turn = CALLS}};
    done = done && race(report, (const char *[]){"lease-valid", "lease-valid/check"}, "clock_gettime(CLOCK_BOOTTIME)",
                        0, sides);
    tenure_lease_free(lease);
    (void)tenure_close(context);
    return done || bench_could_not("the check of a lease");
}

/* ---- the guard */

#define GUARDED 10000u
#define GOAL_NS 1000

struct checker {
    ground_leases leases;
    tenure_guard *guard;
    ten_map map;
};

static bool check_tokens(void *arg) {
    const struct checker *checker = arg;
    for (size_t i = 0; i < GUARDED; i++) {
        const ten_op *op = &checker->leases.ops[i];
        if (tenure_guard_check(checker->guard, op->target, op->token) != TENURE_OK)
            return bench_could_not(tenure_message(checker->guard));
    }
    return true;
}

static bool look_tokens_up(void *arg) {
    const struct checker *checker = arg;
    bool found = true;
    for (size_t i = 0; i < GUARDED; i++) {
        const ten_op *op = &checker->leases.ops[i];
        const ten_op *known = ten_map_get(&checker->map, op->target);
        found &= ten_boot_ms(&ten_system_clock) > 0 && known && known->token == op->token;
    }
    return found;
}

bool library_measure_guard(bench_report *report, const char *directory) {
    char path[GROUND_PATH_SIZE];
    char url[GROUND_PATH_SIZE + 16];
    tenure_context *context = NULL;
    struct checker checker = {0};
    bench_side sides[] = {{.turn = check_tokens, .arg = &checker, .per_turn = GUARDED},
                          {.turn = look_tokens_up, .arg = &checker, .per_turn = GUARDED}};
    ground_path(path, directory, "guard");
    snprintf(url, sizeof url, "sqlite:%s", path);
    ten_store *store = ground_open(path);
    bool done = store && ground_acquire(store, 1, GUARDED, &checker.leases);
    for (size_t i = 0; done && i < GUARDED; i++)
        done = ten_map_put(&checker.map, checker.leases.targets[i], &checker.leases.ops[i]);
    done =
        done && tenure_open(url, NULL, &context) == TENURE_OK &&
        tenure_guard_open(context, NULL, &checker.guard) == TENURE_OK && check_tokens(&checker) && /* read once */
        race(report, (const char *[]){"guard", "guard/check"}, "a clock read and a lookup in the map", GOAL_NS, sides);
    tenure_guard_close(checker.guard);
    tenure_close(context);
    ten_map_free(&checker.map);
    ground_free(&checker.leases);
    ten_store_close(store);
    return done || bench_could_not("the guard");
}

/* ---- the memory of targets */

#define MILLION 1000000u
#define ID_SIZE 48u
#define CALM_MS UINT64_C(3000)
#define HELD_MS UINT64_C(300000)

struct bytes {
    double target; /* beside the id */
    double id;
};

static const char *weighed_directory;

static size_t target_id(char id[ID_SIZE], unsigned i) {
    return (size_t)snprintf(id, ID_SIZE, "session-%07u-abcdef", i) + 1;
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Until all are held, and the listings that follow have ended. */
static bool wait_held(tenure_member *member, unsigned count) {
    uint64_t end_us = ten_boot_us() + HELD_MS * 1000u;
    char id[ID_SIZE];
    for (unsigned i = 0; i < count && ten_boot_us() < end_us;) {
        (void)target_id(id, i);
        if (tenure_member_is_held(member, id))
            i++;
        else
            ten_sleep_us(20000);
    }
    ten_sleep_us(CALM_MS * 1000u);
    return ten_boot_us() < end_us;
}

/* What a fleet member frees when it is closed: with weight 0 it knows the targets, and holds none. */
static bool weigh(unsigned count, uint32_t weight, struct bytes *answer) {
    tenure_options options = {.size = sizeof options, .instance_name = "bench"};
    tenure_context *context = NULL;
    tenure_member *member = NULL;
    char path[GROUND_PATH_SIZE];
    char url[GROUND_PATH_SIZE + 16];
    char id[ID_SIZE];
    size_t ids = 0;
    ground_path(path, weighed_directory, weight ? "held" : "known");
    snprintf(url, sizeof url, "sqlite:%s", path);
    bool done = tenure_open(url, &options, &context) == TENURE_OK &&
                tenure_member_open(context, NULL, &member) == TENURE_OK &&
                tenure_member_set_weight(member, weight) == TENURE_OK;
    for (unsigned i = 0; done && i < count; i++) {
        ids += target_id(id, i);
        done = tenure_member_put(member, id, 0) == TENURE_OK;
    }
    done = done && wait_held(member, weight ? count : 0);
    size_t before = allocated();
    tenure_member_close(member);
    tenure_close(context);
    *answer = (struct bytes){.target = (double)(before - allocated() - ids) / count, .id = (double)ids / count};
    return done;
}

static bool weigh_known(unsigned count, void *ret_answer) {
    return weigh(count, 0, ret_answer);
}

static bool weigh_held(unsigned count, void *ret_answer) {
    return weigh(count, 1, ret_answer);
}

static bool add_bytes(bench_report *report, const char *name, bench_child_fn weigh_one, double goal) {
    struct bytes bytes = {0};
    bench_child child;
    if (!bench_child_begin(&child, weigh_one, MILLION, &bytes, sizeof bytes) ||
        !bench_child_end(&child, &bytes, sizeof bytes))
        return bench_could_not(name);
    return bench_add(
        report,
        (bench_row){.name = name, .against = "the id itself; a million targets", .kind = BENCH_SIZE, .goal = goal},
        &bytes.target, &bytes.id, 1);
}

bool library_measure_bytes(bench_report *report, const char *directory) {
    weighed_directory = directory;
    return add_bytes(report, "target-bytes/known", weigh_known, 120) &&
           add_bytes(report, "target-bytes/held", weigh_held, 200);
}
