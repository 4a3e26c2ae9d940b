/*
 * The hash map: against a naive model over ten thousand random steps, and its edges. The steps come from a seed, which
 * a failure names.
 */
#include "unit/unit.h"

#include "base/hash.h"
#include "base/map.h"

enum { KEYS = 400, STEPS = 10000 };

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void compare_with_model(const ten_map *map, void *const *model, uint64_t seed) {
    size_t expected = 0;
    char key[16];
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key-%zu", i);
        expected += model[i] != NULL;
        if (ten_map_get(map, key) != model[i])
            fail_msg("seed %llu: %s differs from the model", (unsigned long long)seed, key);
    }
    assert_int_equal(map->count, expected);
    size_t seen = 0;
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(map, &at)); seen++) {
        size_t i = strtoul(entry->key + 4, NULL, 10);
        assert_ptr_equal(entry->value, model[i]);
    }
    assert_int_equal(seen, expected);
}

static void random_steps_agree_with_a_naive_model(void **state) {
    (void)state;
    static char values[STEPS];
    for (uint64_t first = 1; first <= 3; first++) {
        uint64_t seed = first * UINT64_C(0x9e3779b97f4a7c15);
        void *model[KEYS] = {0};
        ten_map map = {0};
        for (size_t step = 0; step < STEPS; step++) {
            size_t i = (size_t)(next_random(&seed) % KEYS);
            char key[16];
            snprintf(key, sizeof key, "key-%zu", i);
            /* Stretches of mostly putting and of mostly removing, so that it fills up and empties. */
            bool put = next_random(&seed) % 10 < (step / 1000 % 2 ? 3u : 7u);
            if (put) {
                assert_true(ten_map_put(&map, key, &values[step]));
                model[i] = &values[step];
            } else {
                assert_ptr_equal(ten_map_remove(&map, key), model[i]);
                model[i] = NULL;
            }
            if (step % 97 == 0)
                compare_with_model(&map, model, first);
        }
        compare_with_model(&map, model, first);
        ten_map_free(&map);
    }
}

static void an_empty_map_has_nothing(void **state) {
    (void)state;
    ten_map map = {0};
    size_t at = 0;
    assert_null(ten_map_get(&map, "a"));
    assert_null(ten_map_remove(&map, "a"));
    assert_null(ten_map_next(&map, &at));
    ten_map_free(&map);
}

static void a_key_is_copied_and_the_empty_text_is_one(void **state) {
    (void)state;
    ten_map map = {0};
    int value;
    char key[] = "abc";
    assert_true(ten_map_put(&map, key, &value));
    key[0] = 'x';
    assert_ptr_equal(ten_map_get(&map, "abc"), &value);
    assert_null(ten_map_get(&map, "xbc"));
    assert_null(ten_map_get(&map, ""));
    assert_true(ten_map_put(&map, "", &value));
    assert_ptr_equal(ten_map_get(&map, ""), &value);
    ten_map_free(&map);
}

static void putting_again_replaces_the_value(void **state) {
    (void)state;
    ten_map map = {0};
    int one;
    int two;
    assert_true(ten_map_put(&map, "a", &one));
    assert_true(ten_map_put(&map, "a", &two));
    assert_int_equal(map.count, 1);
    assert_ptr_equal(ten_map_remove(&map, "a"), &two);
    assert_null(ten_map_remove(&map, "a"));
    assert_int_equal(map.count, 0);
    ten_map_free(&map);
}

static void the_hash_is_fnv_1a(void **state) {
    (void)state;
    assert_true(ten_hash_text("") == UINT64_C(0xcbf29ce484222325));
    assert_true(ten_hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(ten_hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps_agree_with_a_naive_model),
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(a_key_is_copied_and_the_empty_text_is_one),
        cmocka_unit_test(putting_again_replaces_the_value),
        cmocka_unit_test(the_hash_is_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
