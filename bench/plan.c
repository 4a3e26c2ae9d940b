/*
 * The benchmarks of the plan. In full: against a bare loop that computes every weight once and keeps the greatest.
 * After one target or one instance came or went: against the plan in full. All in the same round, one after the other.
 * Beside them, in print and in the JSON: bytes a target, and how many targets a join moves against how many it must.
 */
#include "plan.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "core/plan.h"

#define TARGETS        1000000u
#define INSTANCES_MAX  100u
#define ROUNDS         11u
#define TARGET_CHANGES 200u

struct ground {
    ten_plan *plan;
    unsigned instances;
    uint64_t *target_hashes; /* for the bare loop */
    uint64_t instance_hashes[INSTANCES_MAX];
    uint64_t greatest; /* what the bare loop found, so that it is not left out */
    size_t moves;
    double bytes; /* a target, beside its id */
};

/* What each took in each round, as a rate. */
struct rates {
    double bare[ROUNDS];
    double full[ROUNDS];
    double weights[ROUNDS]; /* of the plan in full: like `bare`, in weights a second */
    double target_added[ROUNDS];
    double target_removed[ROUNDS];
    double joined[ROUNDS];
    double left[ROUNDS];
    double moves; /* on the last join */
};

static void count_move(uint32_t target, uint32_t from, uint32_t to, void *userdata) {
    (void)target;
    (void)from;
    (void)to;
    ++*(size_t *)userdata;
}

static double rate_since(uint64_t start_us, double operations) {
    uint64_t now_us = ten_boot_us();
    return operations * 1e6 / (double)(now_us > start_us ? now_us - start_us : 1);
}

/* ---- the ground ---------------------------------------------------------------------------------------- */

static void target_id(char id[48], unsigned i) {
    snprintf(id, 48, "session-%07u-abcdef", i);
}

static void instance_id(char id[48], unsigned i) {
    snprintf(id, 48, "host-%u-17000000000%08u-%08x", i, i * 7919u, i * 2654435761u);
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static bool add_targets(struct ground *ground) {
    for (unsigned i = 0; i < TARGETS; i++) {
        char id[48];
        target_id(id, i);
        ground->target_hashes[i] = ten_hash_mix(ten_hash_text(id));
        if (ten_plan_add_target(ground->plan, id) == TEN_PLAN_NONE)
            return false;
    }
    return true;
}

/* Instances that leave and come back before anybody settles are new to the plan: it will start from scratch. */
static bool renew_instances(struct ground *ground) {
    for (unsigned i = 0; i < ground->instances; i++) {
        char id[48];
        instance_id(id, i);
        ground->instance_hashes[i] = ten_hash_text(id);
        uint32_t number = ten_plan_find_instance(ground->plan, id);
        if (number != TEN_PLAN_NONE)
            ten_plan_remove_instance(ground->plan, number);
        if (ten_plan_set_instance(ground->plan, id, 1) == TEN_PLAN_NONE)
            return false;
    }
    return true;
}

static void close_ground(struct ground *ground) {
    ten_plan_free(ground->plan);
    free(ground->target_hashes);
}

static bool open_ground(struct ground *ground, unsigned instances) {
    *ground = (struct ground){.instances = instances, .target_hashes = calloc(TARGETS, sizeof(uint64_t))};
    size_t before = allocated();
    ground->plan = ten_plan_new(count_move, &ground->moves);
    if (!ground->plan || !ground->target_hashes || !add_targets(ground) || !renew_instances(ground) ||
        !ten_plan_settle(ground->plan))
        return false;
    size_t ids = 0;
    for (uint32_t t = 0; t < ten_plan_target_bound(ground->plan); t++)
        ids += malloc_usable_size((void *)(uintptr_t)ten_plan_target_id(ground->plan, t)) + sizeof(size_t);
    ground->bytes = (double)(allocated() - before - ids) / TARGETS;
    return true;
}

/* ---- what is measured ---------------------------------------------------------------------------------- */

static double run_bare(struct ground *ground) {
    uint64_t start_us = ten_boot_us();
    for (unsigned t = 0; t < TARGETS; t++) {
        uint64_t greatest = 0;
        for (unsigned i = 0; i < ground->instances; i++) {
            uint64_t weight = ten_hash_mix(ground->instance_hashes[i] ^ ground->target_hashes[t]);
            greatest = weight > greatest ? weight : greatest;
        }
        ground->greatest += greatest;
    }
    return rate_since(start_us, (double)TARGETS * ground->instances);
}

static bool change_targets(struct ground *ground, bool add, double *ret_rate) {
    uint64_t start_us = ten_boot_us();
    for (unsigned i = 0; i < TARGET_CHANGES; i++) {
        char id[48];
        target_id(id, TARGETS + i);
        if (add)
            (void)ten_plan_add_target(ground->plan, id);
        else
            ten_plan_remove_target(ground->plan, ten_plan_find_target(ground->plan, id));
        if (!ten_plan_settle(ground->plan))
            return false;
    }
    *ret_rate = rate_since(start_us, TARGET_CHANGES);
    return true;
}

static bool change_instance(struct ground *ground, bool join, double *ret_rate) {
    uint64_t start_us = ten_boot_us();
    if (join)
        (void)ten_plan_set_instance(ground->plan, "newcomer", 1);
    else
        ten_plan_remove_instance(ground->plan, ten_plan_find_instance(ground->plan, "newcomer"));
    if (!ten_plan_settle(ground->plan))
        return false;
    *ret_rate = rate_since(start_us, 1);
    return true;
}

static bool run_round(struct ground *ground, struct rates *rates, size_t round) {
    if (!renew_instances(ground))
        return false;
    rates->bare[round] = run_bare(ground);
    uint64_t start_us = ten_boot_us();
    if (!ten_plan_settle(ground->plan))
        return false;
    rates->full[round] = rate_since(start_us, 1);
    rates->weights[round] = rates->full[round] * TARGETS * ground->instances;
    if (!change_targets(ground, true, &rates->target_added[round]) ||
        !change_targets(ground, false, &rates->target_removed[round]))
        return false;
    ground->moves = 0;
    if (!change_instance(ground, true, &rates->joined[round]))
        return false;
    rates->moves = (double)ground->moves;
    return change_instance(ground, false, &rates->left[round]);
}

/* A settled plan of that size; every draw has other ids. */
static ten_plan *draw_plan(unsigned targets, unsigned instances, unsigned draw, size_t *moves) {
    char id[48];
    ten_plan *plan = ten_plan_new(count_move, moves);
    bool done = plan != NULL;
    for (unsigned i = 0; done && i < instances; i++) {
        snprintf(id, sizeof id, "host-%u-%u", draw, i);
        done = ten_plan_set_instance(plan, id, 1) != TEN_PLAN_NONE;
    }
    for (unsigned i = 0; done && i < targets; i++) {
        snprintf(id, sizeof id, "session-%u-%u", draw, i);
        done = ten_plan_add_target(plan, id) != TEN_PLAN_NONE;
    }
    if (done && ten_plan_settle(plan))
        return plan;
    ten_plan_free(plan);
    return NULL;
}

/* How many times the minimum a join moves, on average over draws; below 0: out of memory. */
static double moves_on_join(unsigned targets, unsigned instances, unsigned draws) {
    double all = 0;
    for (unsigned draw = 0; draw < draws; draw++) {
        size_t moves = 0;
        ten_plan *plan = draw_plan(targets, instances, draw, &moves);
        moves = 0;
        bool done = plan && ten_plan_set_instance(plan, "newcomer", 1) != TEN_PLAN_NONE && ten_plan_settle(plan);
        ten_plan_free(plan);
        if (!done)
            return -1;
        all += (double)moves;
    }
    return all / draws / ((double)targets / (instances + 1));
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void tell_bytes(bench_row *row, const struct ground *ground) {
    printf("    %.1f bytes a target beside its id\n", ground->bytes);
    ten_buf_format(&row->more, ",\"bytes_per_target\":%.1f", ground->bytes);
}

static bool tell_moves(bench_row *row, const struct ground *ground, const struct rates *rates) {
    static const struct {
        unsigned targets, instances, draws;
    } sizes[] = {{10000, 10, 20}, {100, 10, 100}, {10000, 100, 10}};
    double ratio = rates->moves * (ground->instances + 1) / TARGETS;
    printf("    a join moves %.2f x what it must", ratio);
    ten_buf_format(&row->more, ",\"moves_on_join\":[{\"targets\":%u,\"instances\":%u,\"ratio\":%.3f}", TARGETS,
                   ground->instances, ratio);
    for (size_t i = 0; ground->instances == 10 && i < sizeof sizes / sizeof *sizes; i++) {
        ratio = moves_on_join(sizes[i].targets, sizes[i].instances, sizes[i].draws);
        if (ratio < 0)
            return false;
        printf("; %u targets on %u: %.2f x", sizes[i].targets, sizes[i].instances, ratio);
        ten_buf_format(&row->more, ",{\"targets\":%u,\"instances\":%u,\"ratio\":%.3f}", sizes[i].targets,
                       sizes[i].instances, ratio);
    }
    printf("\n");
    ten_buf_char(&row->more, ']');
    return true;
}

static bench_row *add_row(bench_report *report, const char *name, const char *against, double goal, const double *ours,
                          const double *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_RATE, .goal = goal};
    bench_row *row = bench_add(report, head, ours, reference, ROUNDS);
    if (row)
        bench_print_row(row);
    return row;
}

/* Names of the rows of one number of instances. */
struct names {
    const char *full, *target_added, *target_removed, *join, *leave;
};

static bool add_rows(bench_report *report, const struct names *names, const struct ground *ground,
                     const struct rates *rates) {
    bench_row *full =
        add_row(report, names->full, "each weight computed once, in a bare loop", 1 / 3.0, rates->weights, rates->bare);
    if (!full)
        return false;
    tell_bytes(full, ground);
    if (!add_row(report, names->target_added, "the plan in full", 1000, rates->target_added, rates->full) ||
        !add_row(report, names->target_removed, "the plan in full", 1000, rates->target_removed, rates->full))
        return false;
    bench_row *join = add_row(report, names->join, "the plan in full", 3, rates->joined, rates->full);
    return join && tell_moves(join, ground, rates) &&
           add_row(report, names->leave, "the plan in full", 3, rates->left, rates->full);
}

static bool measure(bench_report *report, const struct names *names, unsigned instances) {
    static struct rates rates;
    struct ground ground;
    bool done = open_ground(&ground, instances);
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = run_round(&ground, &rates, round);
    done = done && ground.greatest > 0 && add_rows(report, names, &ground, &rates);
    close_ground(&ground);
    if (!done)
        fprintf(stderr, "bench: the plan could not be measured\n");
    return done;
}

bool plan_measure_10(bench_report *report, const char *directory) {
    static const struct names names = {"plan-10", "plan-10/target-added", "plan-10/target-removed", "plan-10/join",
                                       "plan-10/leave"};
    (void)directory;
    return measure(report, &names, 10);
}

bool plan_measure_100(bench_report *report, const char *directory) {
    static const struct names names = {"plan-100", "plan-100/target-added", "plan-100/target-removed", "plan-100/join",
                                       "plan-100/leave"};
    (void)directory;
    return measure(report, &names, 100);
}
