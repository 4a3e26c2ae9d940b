/*
 * Timers: against a naive model over random steps, and their edges. The steps come from a seed, which a failure names.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/timers.h"

enum { NUMBERS = 300, STEPS = 20000 };

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* The model: a time for each number, UINT64_MAX when none is set. */
static uint64_t earliest(const uint64_t *model) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < NUMBERS; i++)
        least = model[i] < least ? model[i] : least;
    return least;
}

static void take_all_until(ten_timers *timers, uint64_t *model, uint64_t now_ms, uint64_t seed) {
    uint32_t number;
    while (ten_timers_take(timers, now_ms, &number)) {
        if (number >= NUMBERS || model[number] != earliest(model) || model[number] > now_ms)
            fail_msg("seed %llu: %u was not the next at %llu", (unsigned long long)seed, number,
                     (unsigned long long)now_ms);
        model[number] = UINT64_MAX;
    }
    assert_true(earliest(model) > now_ms);
}

TEST(random_steps_agree_with_a_naive_model) {
    for (uint64_t first = 1; first <= 5; first++) {
        uint64_t seed = first * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t model[NUMBERS];
        uint64_t now_ms = 0;
        ten_timers timers = {0};
        memset(model, 0xff, sizeof model);
        for (size_t step = 0; step < STEPS; step++) {
            uint32_t number = (uint32_t)(next_random(&seed) % NUMBERS);
            unsigned kind = (unsigned)(next_random(&seed) >> 33) % 10;
            if (kind < 6) {
                assert_true(ten_timers_reserve(&timers, number + 1));
                /* Few different times, so that many are equal; some have passed. */
                model[number] = now_ms + next_random(&seed) % (kind < 3 ? 20 : 2000) - (now_ms > 10 ? 5 : 0);
                ten_timers_set(&timers, number, model[number]);
            } else if (kind < 8) {
                ten_timers_clear(&timers, number);
                model[number] = UINT64_MAX;
            } else {
                now_ms += next_random(&seed) % 50;
                take_all_until(&timers, model, now_ms, first);
            }
            assert_true(ten_timers_next(&timers) == earliest(model));
        }
        take_all_until(&timers, model, UINT64_MAX - 1, first);
        assert_int_equal(timers.count, 0);
        ten_timers_free(&timers);
    }
}

TEST(nothing_is_due_when_nothing_is_set) {
    ten_timers timers = {0};
    uint32_t number = 7;
    assert_true(ten_timers_next(&timers) == UINT64_MAX);
    assert_false(ten_timers_take(&timers, UINT64_MAX, &number));
    ten_timers_clear(&timers, 3);
    assert_int_equal(number, 7);
    ten_timers_free(&timers);
}

TEST(a_timer_is_due_at_its_time_and_not_before) {
    ten_timers timers = {0};
    uint32_t number = 0;
    assert_true(ten_timers_reserve(&timers, 3));
    ten_timers_set(&timers, 2, 100);
    assert_false(ten_timers_take(&timers, 99, &number));
    assert_true(ten_timers_take(&timers, 100, &number));
    assert_int_equal(number, 2);
    assert_false(ten_timers_take(&timers, UINT64_MAX, &number));
    ten_timers_free(&timers);
}

TEST(setting_again_moves_a_timer_both_ways) {
    ten_timers timers = {0};
    uint32_t number;
    assert_true(ten_timers_reserve(&timers, 100));
    for (uint32_t i = 0; i < 100; i++)
        ten_timers_set(&timers, i, 1000 + i);
    ten_timers_set(&timers, 99, 1);
    ten_timers_set(&timers, 0, 5000);
    assert_int_equal(timers.count, 100);
    assert_true(ten_timers_take(&timers, 1, &number));
    assert_int_equal(number, 99);
    assert_true(ten_timers_next(&timers) == 1001);
    for (uint32_t i = 0; i < 98; i++)
        assert_true(ten_timers_take(&timers, 4999, &number));
    assert_false(ten_timers_take(&timers, 4999, &number));
    assert_true(ten_timers_next(&timers) == 5000);
    ten_timers_free(&timers);
}

TEST(room_that_cannot_be_had_leaves_the_timers_as_they_were) {
    for (long skip = 0; skip < 2; skip++) {
        ten_timers timers = {0};
        uint32_t number;
        assert_true(ten_timers_reserve(&timers, 10));
        ten_timers_set(&timers, 9, 50);
        ten_alloc_fail_after(skip);
        assert_false(ten_timers_reserve(&timers, 1000));
        ten_alloc_fail_after(-1);
        assert_true(ten_timers_next(&timers) == 50);
        assert_true(ten_timers_reserve(&timers, 1000));
        ten_timers_set(&timers, 999, 20);
        assert_true(ten_timers_take(&timers, 100, &number));
        assert_int_equal(number, 999);
        assert_true(ten_timers_take(&timers, 100, &number));
        assert_int_equal(number, 9);
        ten_timers_free(&timers);
    }
}

static void set_without_room(void *arg) {
    ten_timers_set(arg, 16, 1);
}

TEST(a_number_without_room_is_a_broken_invariant) {
    ten_timers timers = {0};
    assert_true(ten_timers_reserve(&timers, 16));
    assert_aborts(set_without_room, &timers);
    ten_timers_free(&timers);
}
