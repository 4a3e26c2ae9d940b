/*
 * The plan: against a naive matching, against itself from scratch over random histories, its quotas, its moves, and
 * what memory that runs out does to it. Histories come from a seed, which a failure names.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "core/plan.h"

enum { TARGETS_MAX = 3000, INSTANCES_MAX = 24 };

/* Two texts with the same FNV-1a; what is added to both leaves them equal. */
#define TWIN_A "8yn0iYCKYHlIj4-BwPqk"
#define TWIN_B "GReLUrM4wMqfg9yzV3KQ"

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static unsigned below(uint64_t *seed, unsigned limit) {
    return (unsigned)(next_random(seed) >> 33) % limit;
}

/* ---- a plan and what is known of it */

struct world {
    ten_plan *plan;
    uint64_t seed;
    bool twins; /* ids come in colliding pairs */
    unsigned target_limit;
    unsigned instance_limit;
    bool targets[TARGETS_MAX];
    bool pinning;                    /* the history has pins */
    int pins[TARGETS_MAX];           /* the instance + 1, negative: away from it; 0: none */
    uint64_t weights[INSTANCES_MAX]; /* + 1; 0: not there */
    uint32_t told[TARGETS_MAX];      /* by the plan's number, as the moves say */
    size_t moves;
};

static const char *name(const struct world *world, const char *kind, unsigned i) {
    static char text[64];
    if (world->twins)
        snprintf(text, sizeof text, "%s-%s-%u", i % 2 ? TWIN_A : TWIN_B, kind, i / 2);
    else
        snprintf(text, sizeof text, "%s-%03u", kind, i);
    return text;
}

static uint32_t target_number(const struct world *world, unsigned i) {
    return ten_plan_find_target(world->plan, name(world, "target", i));
}

static uint32_t instance_number(const struct world *world, unsigned i) {
    return ten_plan_find_instance(world->plan, name(world, "instance", i));
}

static const char *owner_name(const ten_plan *plan, uint32_t target) {
    uint32_t holder = ten_plan_holder(plan, target);
    return holder == TEN_PLAN_NONE ? "nobody" : ten_plan_instance_id(plan, holder);
}

static void on_moved(uint32_t target, uint32_t from, uint32_t to, void *userdata) {
    struct world *world = userdata;
    assert_int_not_equal(from, to);
    assert_int_equal(world->told[target], from);
    world->told[target] = to;
    world->moves++;
}

static void world_open(struct world *world, uint64_t seed, unsigned targets, unsigned instances) {
    *world = (struct world){
        .seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1, .target_limit = targets, .instance_limit = instances};
    memset(world->told, 0xff, sizeof world->told);
    while (!(world->plan = ten_plan_new(on_moved, world)))
        assert_true(ten_alloc_has_failed());
}

static void world_close(struct world *world) {
    ten_plan_free(world->plan);
}

/* An allocation that fails on purpose fails once: the second try must do. */
static void put_target(struct world *world, unsigned i) {
    const char *id = name(world, "target", i);
    uint32_t number = ten_plan_add_target(world->plan, id);
    if (number == TEN_PLAN_NONE) {
        assert_true(ten_alloc_has_failed());
        assert_int_equal(ten_plan_find_target(world->plan, id), TEN_PLAN_NONE);
        number = ten_plan_add_target(world->plan, id);
    }
    assert_int_not_equal(number, TEN_PLAN_NONE);
    assert_int_equal(ten_plan_find_target(world->plan, id), number);
    assert_string_equal(ten_plan_target_id(world->plan, number), id);
    world->targets[i] = true;
}

static void drop_target(struct world *world, unsigned i) {
    if (!world->targets[i])
        return;
    uint32_t number = target_number(world, i);
    ten_plan_remove_target(world->plan, number);
    assert_int_equal(target_number(world, i), TEN_PLAN_NONE);
    world->told[number] = TEN_PLAN_NONE;
    world->targets[i] = false;
    world->pins[i] = 0;
}

static void put_instance(struct world *world, unsigned i, uint32_t weight) {
    const char *id = name(world, "instance", i);
    uint32_t number = ten_plan_set_instance(world->plan, id, weight);
    if (number == TEN_PLAN_NONE) {
        assert_true(ten_alloc_has_failed());
        number = ten_plan_set_instance(world->plan, id, weight);
    }
    assert_int_not_equal(number, TEN_PLAN_NONE);
    assert_string_equal(ten_plan_instance_id(world->plan, number), id);
    world->weights[i] = (uint64_t)weight + 1;
}

static void drop_instance(struct world *world, unsigned i) {
    if (!world->weights[i])
        return;
    uint32_t number = instance_number(world, i);
    ten_plan_remove_instance(world->plan, number);
    for (size_t t = 0; t < TARGETS_MAX; t++)
        if (world->told[t] == number)
            world->told[t] = TEN_PLAN_NONE;
    world->weights[i] = 0;
}

static void pin_target(struct world *world, unsigned i, int pin) {
    if (!world->targets[i])
        return;
    char instance[64];
    snprintf(instance, sizeof instance, "%s", name(world, "instance", (unsigned)(pin < 0 ? -pin : pin) - 1));
    for (unsigned try = 0; !ten_plan_pin_target(world->plan, target_number(world, i), pin ? instance : NULL, pin < 0);
         try++)
        assert_true(try == 0 && ten_alloc_has_failed());
    world->pins[i] = pin;
}

static void settle(struct world *world) {
    if (ten_plan_settle(world->plan))
        return;
    assert_true(ten_alloc_has_failed());
    assert_true(ten_plan_settle(world->plan));
}

/* ---- what must be true */

/* What was reported is what is asked. */
static void check_reports(const struct world *world) {
    for (unsigned i = 0; i < world->target_limit; i++)
        if (world->targets[i])
            assert_int_equal(world->told[target_number(world, i)],
                             ten_plan_holder(world->plan, target_number(world, i)));
}

static void check_shares(const struct world *world) {
    uint64_t all = 0, quotas = 0, targets = ten_plan_target_count(world->plan);
    for (unsigned i = 0; i < world->instance_limit; i++)
        all += world->weights[i] ? world->weights[i] - 1 : 0;
    for (unsigned i = 0; i < world->instance_limit; i++) {
        if (!world->weights[i])
            continue;
        size_t quota = ten_plan_quota(world->plan, instance_number(world, i));
        double exact = all ? (double)targets * (double)(world->weights[i] - 1) / (double)all : 0;
        assert_true(world->pinning || ((double)quota - exact < 1 && exact - (double)quota < 1));
        assert_true(world->weights[i] > 1 || quota == 0);
        assert_int_equal(ten_plan_share(world->plan, instance_number(world, i)), quota);
        quotas += quota;
    }
    assert_int_equal(quotas, all ? targets : 0);
}

/* The same fleet, heard of in the opposite order and settled once, has the same plan. */
static void check_against_scratch(const struct world *world, uint64_t seed) {
    ten_plan *fresh = ten_plan_new(NULL, NULL);
    assert_non_null(fresh);
    for (unsigned i = world->instance_limit; i-- > 0;)
        if (world->weights[i])
            ten_plan_set_instance(fresh, name(world, "instance", i), (uint32_t)(world->weights[i] - 1));
    for (unsigned i = world->target_limit; i-- > 0;)
        if (world->targets[i])
            ten_plan_add_target(fresh, name(world, "target", i));
    for (unsigned i = world->target_limit; i-- > 0;) {
        uint32_t number = world->pins[i] ? ten_plan_find_target(fresh, name(world, "target", i)) : TEN_PLAN_NONE;
        if (number != TEN_PLAN_NONE)
            ten_plan_pin_target(fresh, number, name(world, "instance", (unsigned)abs(world->pins[i]) - 1),
                                world->pins[i] < 0);
    }
    assert_true(ten_plan_settle(fresh));
    for (unsigned i = 0; i < world->target_limit; i++) {
        if (!world->targets[i])
            continue;
        const char *id = name(world, "target", i);
        const char *repaired = owner_name(world->plan, ten_plan_find_target(world->plan, id));
        const char *expected = owner_name(fresh, ten_plan_find_target(fresh, id));
        if (strcmp(repaired, expected) != 0)
            fail_msg("seed %llu: %s is planned for %s, from scratch for %s", (unsigned long long)seed, id, repaired,
                     expected);
    }
    ten_plan_free(fresh);
}

static void random_step(struct world *world) {
    unsigned kind = below(&world->seed, 100);
    unsigned target = below(&world->seed, world->target_limit);
    unsigned instance = below(&world->seed, world->instance_limit);
    if (world->pinning && below(&world->seed, 4) == 0) {
        int pin = (int)instance + 1;
        pin_target(world, target, below(&world->seed, 4) == 0 ? 0 : below(&world->seed, 3) ? pin : -pin);
    } else if (kind < 60)
        put_target(world, target);
    else if (kind < 82)
        drop_target(world, target);
    else if (kind < 94)
        put_instance(world, instance, below(&world->seed, 3) ? 1 : below(&world->seed, 5));
    else
        drop_instance(world, instance);
}

static void random_history(struct world *world, unsigned steps, unsigned between_settlings) {
    for (unsigned step = 0; step < steps; step++) {
        random_step(world);
        if (below(&world->seed, between_settlings) == 0)
            settle(world);
    }
    settle(world);
}

/* ---- one matching */

static void run_histories(uint64_t first, unsigned rounds, unsigned targets, unsigned instances, unsigned steps,
                          bool twins) {
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        static struct world world;
        world_open(&world, seed, targets, instances);
        world.twins = twins;
        random_history(&world, 1 + below(&world.seed, steps), 1 + below(&world.seed, 4));
        check_reports(&world);
        check_shares(&world);
        check_against_scratch(&world, seed);
        world_close(&world);
    }
}

TEST(a_repaired_plan_is_the_plan_from_scratch_in_another_order) {
    run_histories(1, 1000, 60, 8, 120, false);
    run_histories(2000, 300, 200, INSTANCES_MAX, 500, false);
}

/* ---- pins */

/* What each pin asks for. */
static void check_pins(const struct world *world) {
    for (unsigned i = 0; i < world->target_limit; i++) {
        if (!world->targets[i] || world->pins[i] == 0)
            continue;
        unsigned named = (unsigned)abs(world->pins[i]) - 1;
        uint32_t holder = ten_plan_holder(world->plan, target_number(world, i));
        if (world->weights[named] <= 1) /* not there, or without weight */
            assert_true(holder == TEN_PLAN_NONE || holder != instance_number(world, named));
        else if (world->pins[i] > 0)
            assert_int_equal(holder, instance_number(world, named));
        else
            assert_true(holder != instance_number(world, named) || ten_plan_instance_count(world->plan) == 1);
    }
}

/* The shares of instances of weight 1 differ by at most one, but for those with more pins than that. */
static void check_balance(const struct world *world) {
    size_t pinned[INSTANCES_MAX] = {0};
    for (unsigned i = 0; i < world->target_limit; i++) {
        uint32_t holder =
            world->targets[i] && world->pins[i] ? ten_plan_holder(world->plan, target_number(world, i)) : TEN_PLAN_NONE;
        for (unsigned n = 0; n < world->instance_limit && holder != TEN_PLAN_NONE; n++)
            pinned[n] += world->weights[n] && instance_number(world, n) == holder;
    }
    size_t least = SIZE_MAX;
    for (unsigned n = 0; n < world->instance_limit; n++) {
        size_t share = world->weights[n] == 2 ? ten_plan_share(world->plan, instance_number(world, n)) : SIZE_MAX;
        least = share < least ? share : least;
    }
    for (unsigned n = 0; n < world->instance_limit; n++) {
        size_t share = world->weights[n] == 2 ? ten_plan_share(world->plan, instance_number(world, n)) : 0;
        assert_true(share <= least + 1 || share == pinned[n]);
    }
}

TEST(pinned_targets_are_where_their_pins_say_and_the_rest_is_balanced) {
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        static struct world world;
        world_open(&world, seed, seed % 3 ? 60 : 400, seed % 5 ? 6 : INSTANCES_MAX);
        world.pinning = true;
        world.twins = seed % 7 == 0;
        random_history(&world, 1 + below(&world.seed, 300), 1 + below(&world.seed, 4));
        check_reports(&world);
        check_shares(&world);
        check_against_scratch(&world, seed);
        check_pins(&world);
        check_balance(&world);
        world_close(&world);
    }
}

TEST(a_pinned_target_that_is_set_aside_is_planned_for_nobody) {
    static struct world world;
    world_open(&world, 12, 12, 3);
    for (unsigned i = 0; i < 3; i++)
        put_instance(&world, i, 1);
    for (unsigned i = 0; i < 12; i++)
        put_target(&world, i);
    pin_target(&world, 5, 2);
    settle(&world);
    uint32_t target = target_number(&world, 5);
    assert_int_equal(ten_plan_holder(world.plan, target), instance_number(&world, 1));
    assert_int_equal(ten_plan_rank(world.plan, target, instance_number(&world, 1)), 0);
    ten_plan_set_aside(world.plan, target, true);
    settle(&world);
    assert_int_equal(ten_plan_holder(world.plan, target), TEN_PLAN_NONE);
    ten_plan_set_aside(world.plan, target, false);
    settle(&world);
    assert_int_equal(ten_plan_holder(world.plan, target), instance_number(&world, 1));
    pin_target(&world, 5, -2);
    settle(&world);
    assert_int_equal(ten_plan_rank(world.plan, target, instance_number(&world, 1)), 2);
    world_close(&world);
}

/* Shares so large that an instance remembers only its worst targets. */
TEST(that_holds_for_large_shares_too) {
    run_histories(3000, 12, TARGETS_MAX, 3, 12000, false);
    run_histories(4000, 8, TARGETS_MAX, 10, 12000, false);
}

TEST(ids_decide_where_hashes_collide) {
    assert_true(ten_hash_text(TWIN_A "-target-1") == ten_hash_text(TWIN_B "-target-1"));
    run_histories(5000, 500, 60, 8, 200, true);
    run_histories(6000, 6, TARGETS_MAX, 4, 8000, true);
}

TEST(large_weight_changes_are_repaired_to_the_same_plan) {
    static struct world world;
    world_open(&world, 7, TARGETS_MAX, 10);
    for (unsigned i = 0; i < TARGETS_MAX; i++)
        put_target(&world, i);
    for (unsigned i = 0; i < 9; i++)
        put_instance(&world, i, 1);
    settle(&world);
    for (unsigned step = 0; step < 40; step++) {
        static const uint32_t weights[] = {0, 1, 1, 3, 20, 1000, UINT32_MAX};
        put_instance(&world, below(&world.seed, 10), weights[below(&world.seed, TEN_COUNT(weights))]);
        settle(&world);
        check_reports(&world);
        check_shares(&world);
        check_against_scratch(&world, step);
    }
    world_close(&world);
}

struct pair {
    uint64_t weight;
    uint32_t target;
    uint32_t instance;
};

static int heavier_first(const void *left, const void *right) {
    const struct pair *a = left;
    const struct pair *b = right;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

/* Takes all pairs from the heaviest on, within the quotas. The weight is that of docs/ARCHITECTURE.md, written anew. */
static void naive_matching(const struct world *world, uint32_t *holders) {
    static struct pair pairs[200 * INSTANCES_MAX];
    size_t count = 0;
    size_t shares[INSTANCES_MAX] = {0};
    for (uint32_t t = 0; t < ten_plan_target_bound(world->plan); t++) {
        holders[t] = TEN_PLAN_NONE;
        const char *target = ten_plan_target_id(world->plan, t);
        for (uint32_t i = 0; target && i < ten_plan_instance_bound(world->plan); i++) {
            const char *instance = ten_plan_instance_id(world->plan, i);
            if (instance)
                pairs[count++] =
                    (struct pair){ten_hash_mix(ten_hash_text(instance) ^ ten_hash_mix(ten_hash_text(target))), t, i};
        }
    }
    qsort(pairs, count, sizeof *pairs, heavier_first);
    for (size_t p = 0; p < count; p++) {
        uint32_t i = pairs[p].instance;
        if (holders[pairs[p].target] != TEN_PLAN_NONE || shares[i] == ten_plan_quota(world->plan, i))
            continue;
        holders[pairs[p].target] = i;
        shares[i]++;
    }
}

TEST(the_plan_is_the_one_that_takes_pairs_from_the_heaviest_on) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        static struct world world;
        uint32_t holders[200];
        world_open(&world, seed, 200, INSTANCES_MAX);
        random_history(&world, 300, 10);
        naive_matching(&world, holders);
        for (uint32_t t = 0; t < ten_plan_target_bound(world.plan); t++)
            if (ten_plan_target_id(world.plan, t) && ten_plan_holder(world.plan, t) != holders[t])
                fail_msg("seed %llu: %s is planned for %s", (unsigned long long)seed, ten_plan_target_id(world.plan, t),
                         owner_name(world.plan, t));
        world_close(&world);
    }
}

/* Instances of different versions share targets: whatever is done to the code, it must plan as it always has. */
TEST(the_plan_of_a_known_fleet_never_changes) {
    static struct world world;
    uint64_t digest = 0;
    world_open(&world, 1, 1000, 7);
    for (unsigned i = 0; i < 7; i++)
        put_instance(&world, i, i < 4 ? 1 : i);
    for (unsigned i = 0; i < 1000; i++)
        put_target(&world, i);
    settle(&world);
    for (unsigned i = 0; i < 1000; i++)
        digest = ten_hash_mix(digest ^ ten_hash_text(owner_name(world.plan, target_number(&world, i))));
    assert_true(digest == UINT64_C(0xd24da8f137cd1afc));
    world_close(&world);
}

/* ---- shares */

static void fill(struct world *world, uint64_t seed, unsigned targets, unsigned instances) {
    world_open(world, seed, targets, instances);
    for (unsigned i = 0; i < instances; i++)
        put_instance(world, i, 1);
    for (unsigned i = 0; i < targets; i++)
        put_target(world, i);
    settle(world);
}

TEST(equal_weights_differ_by_at_most_one_target) {
    static const unsigned counts[] = {0, 1, 2, 3, 5, 9, 10, 17, 64, 100, 333, 1000, 2999};
    for (unsigned instances = 1; instances <= INSTANCES_MAX; instances++) {
        for (size_t i = 0; i < TEN_COUNT(counts); i++) {
            static struct world world;
            size_t least = SIZE_MAX, most = 0;
            fill(&world, instances, counts[i], instances);
            for (unsigned n = 0; n < instances; n++) {
                size_t share = 0;
                for (uint32_t t = 0; t < counts[i]; t++)
                    share += ten_plan_holder(world.plan, t) == instance_number(&world, n);
                assert_int_equal(share, ten_plan_share(world.plan, instance_number(&world, n)));
                least = share < least ? share : least;
                most = share > most ? share : most;
            }
            assert_true(most - least <= 1);
            world_close(&world);
        }
    }
}

TEST(nine_scenes_on_three_instances_are_three_each) {
    ten_plan *plan = ten_plan_new(NULL, NULL);
    static const char *const instances[] = {"tracker-a", "tracker-b", "tracker-c"};
    for (size_t i = 0; i < 3; i++)
        ten_plan_set_instance(plan, instances[i], 1);
    for (unsigned i = 1; i <= 9; i++) {
        char id[16];
        snprintf(id, sizeof id, "scene-%02u", i);
        ten_plan_add_target(plan, id);
    }
    assert_true(ten_plan_settle(plan));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ten_plan_share(plan, ten_plan_find_instance(plan, instances[i])), 3);
    ten_plan_free(plan);
}

TEST(an_instance_of_weight_0_gets_nothing) {
    static struct world world;
    fill(&world, 1, 30, 3);
    put_instance(&world, 1, 0);
    settle(&world);
    assert_int_equal(ten_plan_instance_count(world.plan), 2);
    assert_int_equal(ten_plan_share(world.plan, instance_number(&world, 1)), 0);
    for (uint32_t t = 0; t < 30; t++)
        assert_int_not_equal(ten_plan_holder(world.plan, t), instance_number(&world, 1));
    check_shares(&world);
    put_instance(&world, 1, 1);
    settle(&world);
    assert_int_equal(ten_plan_share(world.plan, instance_number(&world, 1)), 10);
    check_against_scratch(&world, 1);
    world_close(&world);
}

TEST(without_instances_targets_are_planned_for_nobody) {
    static struct world world;
    fill(&world, 1, 10, 0);
    assert_int_equal(world.moves, 0);
    for (uint32_t t = 0; t < 10; t++)
        assert_int_equal(ten_plan_holder(world.plan, t), TEN_PLAN_NONE);
    world.instance_limit = 2;
    put_instance(&world, 0, 1);
    settle(&world);
    assert_int_equal(world.moves, 10);
    drop_instance(&world, 0);
    settle(&world);
    for (uint32_t t = 0; t < 10; t++)
        assert_int_equal(ten_plan_holder(world.plan, t), TEN_PLAN_NONE);
    put_instance(&world, 0, 0);
    put_instance(&world, 1, 1);
    settle(&world);
    check_shares(&world);
    check_reports(&world);
    world_close(&world);
}

/* ---- moves */

static double moves_on_join(unsigned targets, unsigned instances, unsigned draws) {
    size_t moves = 0;
    for (unsigned draw = 0; draw < draws; draw++) {
        char id[48];
        ten_plan *plan = ten_plan_new(NULL, NULL);
        for (unsigned i = 0; i < instances; i++) {
            snprintf(id, sizeof id, "host-%u-%u", draw, i);
            ten_plan_set_instance(plan, id, 1);
        }
        uint32_t *before = calloc(targets, sizeof *before);
        for (unsigned i = 0; i < targets; i++) {
            snprintf(id, sizeof id, "session-%u-%u", draw, i);
            ten_plan_add_target(plan, id);
        }
        assert_true(ten_plan_settle(plan));
        for (uint32_t t = 0; t < targets; t++)
            before[t] = ten_plan_holder(plan, t);
        ten_plan_set_instance(plan, "newcomer", 1);
        assert_true(ten_plan_settle(plan));
        for (uint32_t t = 0; t < targets; t++)
            moves += ten_plan_holder(plan, t) != before[t];
        free(before);
        ten_plan_free(plan);
    }
    return (double)moves / draws / ((double)targets / (instances + 1));
}

TEST(a_join_moves_few_more_targets_than_it_must) {
    assert_true(moves_on_join(10000, 10, 20) <= 1.15);
    assert_true(moves_on_join(100, 10, 100) <= 1.7);
    assert_true(moves_on_join(10000, 100, 8) <= 2.0);
}

TEST(a_move_is_reported_once_and_nothing_else_is) {
    static struct world world;
    fill(&world, 3, 300, 5);
    assert_int_equal(world.moves, 300);
    world.moves = 0;
    settle(&world);
    assert_int_equal(world.moves, 0);
    for (unsigned step = 0; step < 300; step++) {
        uint32_t before[TARGETS_MAX];
        random_step(&world);
        memcpy(before, world.told, sizeof before);
        world.moves = 0;
        settle(&world);
        size_t differences = 0;
        for (uint32_t t = 0; t < ten_plan_target_bound(world.plan); t++)
            differences += ten_plan_target_id(world.plan, t) && ten_plan_holder(world.plan, t) != before[t];
        assert_int_equal(world.moves, differences);
        check_reports(&world);
    }
    world_close(&world);
}

TEST(nothing_moves_before_settling) {
    static struct world world;
    fill(&world, 4, 20, 2);
    world.instance_limit = 3;
    world.moves = 0;
    put_instance(&world, 2, 5);
    drop_target(&world, 7);
    assert_int_equal(world.moves, 0);
    check_reports(&world);
    settle(&world);
    assert_true(world.moves > 0);
    check_against_scratch(&world, 4);
    world_close(&world);
}

/* ---- turns */

TEST(ranks_are_a_permutation_with_the_planned_instance_first) {
    static struct world world;
    for (unsigned twins = 0; twins < 2; twins++) {
        world_open(&world, 5, 100, 12);
        world.twins = twins;
        random_history(&world, 200, 5);
        put_instance(&world, 0, 0);
        put_instance(&world, 1, 1);
        settle(&world);
        size_t live = ten_plan_instance_count(world.plan);
        for (uint32_t t = 0; t < ten_plan_target_bound(world.plan); t++) {
            bool seen[INSTANCES_MAX] = {0};
            for (unsigned i = 0; ten_plan_target_id(world.plan, t) && i < 12; i++) {
                if (world.weights[i] < 2)
                    continue;
                size_t rank = ten_plan_rank(world.plan, t, instance_number(&world, i));
                assert_true(rank < live && !seen[rank]);
                assert_int_equal(rank == 0, ten_plan_holder(world.plan, t) == instance_number(&world, i));
                seen[rank] = true;
            }
        }
        world_close(&world);
    }
}

/* ---- memory that runs out */

/* Each allocation of a history fails once, then the next; after the one retry all is as if nothing had been. */
TEST(an_allocation_that_fails_changes_nothing_in_the_end) {
    bool failed = true;
    for (long skip = 0; failed; skip++) {
        static struct world world;
        ten_alloc_fail_after(skip);
        world_open(&world, 11, 40, 6);
        random_history(&world, 150, 3);
        failed = ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        check_reports(&world);
        check_shares(&world);
        check_against_scratch(&world, (uint64_t)skip);
        world_close(&world);
    }
}

/* Nobody tries again at once: the fleet changes on while a settling is due. */
TEST(a_fleet_may_change_between_a_failed_settling_and_the_next) {
    for (uint64_t seed = 1; seed <= 400; seed++) {
        static struct world world;
        world_open(&world, seed, 400, 5);
        random_history(&world, 400, 20);
        for (unsigned step = 0; step < 40; step++) {
            random_step(&world);
            ten_alloc_fail_after((long)below(&world.seed, 6));
            uint32_t told[TARGETS_MAX];
            memcpy(told, world.told, sizeof told);
            if (!ten_plan_settle(world.plan))
                assert_memory_equal(told, world.told, sizeof told);
            ten_alloc_fail_after(-1);
            check_reports(&world);
        }
        settle(&world);
        check_reports(&world);
        check_shares(&world);
        check_against_scratch(&world, seed);
        world_close(&world);
    }
}

TEST(an_instance_can_be_removed_without_memory) {
    static struct world world;
    fill(&world, 12, 300, 3);
    ten_alloc_fail_after(0);
    drop_instance(&world, 1);
    assert_true(ten_alloc_has_failed());
    ten_alloc_fail_after(-1);
    check_reports(&world);
    settle(&world);
    check_reports(&world);
    check_shares(&world);
    check_against_scratch(&world, 12);
    world_close(&world);
}

/* `world.targets` says which take part; all have their numbers throughout. */
static void toggle_aside(struct world *world, unsigned i) {
    world->targets[i] = !world->targets[i];
    ten_plan_set_aside(world->plan, target_number(world, i), !world->targets[i]);
}

TEST(targets_set_aside_count_for_nothing_and_come_back_as_if_new) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        static struct world world;
        world_open(&world, seed, 120, 8);
        for (unsigned i = 0; i < 120; i++)
            put_target(&world, i);
        for (unsigned step = 0; step < 150; step++) {
            unsigned kind = below(&world.seed, 10);
            if (kind < 7)
                toggle_aside(&world, below(&world.seed, 120));
            else if (kind < 9)
                put_instance(&world, below(&world.seed, 8), 1);
            else
                drop_instance(&world, below(&world.seed, 8));
            if (below(&world.seed, 3) == 0)
                settle(&world);
        }
        settle(&world);
        check_against_scratch(&world, seed);
        for (unsigned i = 0; i < 120; i++)
            if (!world.targets[i])
                assert_int_equal(ten_plan_holder(world.plan, target_number(&world, i)), TEN_PLAN_NONE);
        world_close(&world);
    }
}
