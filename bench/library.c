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
#include "ground.h"
#include "measures.h"

#define ROUNDS   21u
#define SLICE_MS 20u
#define CALLS    1000u

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
    static const bench_pairing row = {"lease-valid/check", "clock_gettime(CLOCK_BOOTTIME)", BENCH_NANO, 0, 0, 1};
    tenure_lease *lease = NULL;
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .ttl_ms = GROUND_TTL_MS};
    (void)directory;
    bool done = tenure_open("memory:", &options, &context) == TENURE_OK &&
                tenure_acquire(context, "checked", 0, 0, &lease) == TENURE_OK;
    bench_side sides[] = {{.turn = check_lease, .arg = lease, .per_turn = CALLS},
                          {.turn = read_clock, .per_turn = CALLS}};
    done = done && bench_race(report, sides, TEN_COUNT(sides), ROUNDS, SLICE_MS, &row, 1);
    tenure_lease_free(lease);
    (void)tenure_close(context);
    return done || bench_could_not("the check of a lease");
}

/* ---- the guard */

#define GUARDED 10000u

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
    static const bench_pairing row = {"guard/check", "a clock read and a lookup in the map", BENCH_NANO, 1000, 0, 1};
    char url[GROUND_PATH_SIZE];
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .namespace_name = GROUND_NAMESPACE};
    struct checker checker = {0};
    bench_side sides[] = {{.turn = check_tokens, .arg = &checker, .per_turn = GUARDED},
                          {.turn = look_tokens_up, .arg = &checker, .per_turn = GUARDED}};
    snprintf(url, sizeof url, "sqlite:%.400s/guard.db", directory);
    ten_store *store = ground_open("%s", url);
    bool done = store && ground_acquire(store, 1, GUARDED, &checker.leases);
    for (size_t i = 0; done && i < GUARDED; i++)
        done = ten_map_put(&checker.map, checker.leases.targets[i], &checker.leases.ops[i]);
    done = done && tenure_open(url, &options, &context) == TENURE_OK &&
           tenure_guard_open(context, NULL, &checker.guard) == TENURE_OK && check_tokens(&checker) && /* read once */
           bench_race(report, sides, TEN_COUNT(sides), ROUNDS, SLICE_MS, &row, 1);
    tenure_guard_close(checker.guard);
    tenure_close(context);
    ten_map_free(&checker.map);
    ground_free(&checker.leases);
    ten_store_close(store);
    return done || bench_could_not("the guard");
}

/* ---- the memory of targets */

#define MILLION 1000000u
#define CALM_MS UINT64_C(3000)
#define HELD_MS UINT64_C(300000)

struct bytes {
    double target; /* beside the id */
    double id;
};

struct weighing {
    const char *name, *directory;
    uint32_t weight; /* 0: it knows the targets, and holds none */
    double goal;
};

static size_t target_id(char id[GROUND_NAME_SIZE], unsigned i) {
    return (size_t)snprintf(id, GROUND_NAME_SIZE, "session-%07u-abcdef", i) + 1;
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Until all are held, and the listings that follow have ended. */
static bool wait_held(tenure_member *member, unsigned count) {
    uint64_t end_us = ten_boot_us() + HELD_MS * 1000u;
    char id[GROUND_NAME_SIZE];
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

/* What a fleet member frees when it is closed. */
static bool weigh(const void *what, void *ret_answer) {
    const struct weighing *it = what;
    tenure_options options = {.size = sizeof options, .instance_name = "bench"};
    tenure_context *context = NULL;
    tenure_member *member = NULL;
    char url[GROUND_PATH_SIZE];
    char id[GROUND_NAME_SIZE];
    size_t ids = 0;
    snprintf(url, sizeof url, "sqlite:%.400s/weight-%u.db", it->directory, it->weight);
    bool done = tenure_open(url, &options, &context) == TENURE_OK &&
                tenure_member_open(context, NULL, &member) == TENURE_OK &&
                tenure_member_set_weight(member, it->weight) == TENURE_OK;
    for (unsigned i = 0; done && i < MILLION; i++) {
        ids += target_id(id, i);
        done = tenure_member_put(member, id, 0) == TENURE_OK;
    }
    done = done && wait_held(member, it->weight ? MILLION : 0);
    size_t before = allocated();
    tenure_member_close(member);
    tenure_close(context);
    *(struct bytes *)ret_answer =
        (struct bytes){.target = (double)(before - allocated() - ids) / MILLION, .id = (double)ids / MILLION};
    return done;
}

bool library_measure_bytes(bench_report *report, const char *directory) {
    const struct weighing all[] = {{"target-bytes/known", directory, 0, 120}, {"target-bytes/held", directory, 1, 200}};
    for (size_t i = 0; i < TEN_COUNT(all); i++) {
        struct bytes bytes = {0};
        bench_row head = {.name = all[i].name,
                          .against = "the id itself; a million targets",
                          .kind = BENCH_SIZE,
                          .goal = all[i].goal};
        if (!bench_apart(weigh, &all[i], &bytes, sizeof bytes) || !bench_add_one(report, head, bytes.target, bytes.id))
            return bench_could_not(all[i].name);
    }
    return true;
}
