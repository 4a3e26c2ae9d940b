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

TEST(random_steps_agree_with_a_naive_model) {
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

TEST(an_empty_map_has_nothing) {
    ten_map map = {0};
    size_t at = 0;
    assert_null(ten_map_get(&map, "a"));
    assert_null(ten_map_remove(&map, "a"));
    assert_null(ten_map_next(&map, &at));
    ten_map_free(&map);
}

TEST(a_key_is_copied_and_the_empty_text_is_one) {
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

TEST(putting_again_replaces_the_value) {
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

TEST(the_hash_is_fnv_1a) {
    assert_true(ten_hash_text("") == UINT64_C(0xcbf29ce484222325));
    assert_true(ten_hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(ten_hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

TEST(the_keyed_hash_is_siphash_1_3) {
    /* The key of the reference, 00 01 .. 0f. A machine with the other order of bytes has other values. */
    ten_hash_key key = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    assert_true(ten_hash_keyed("", key) == UINT64_C(0xabac0158050fc4dc));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    assert_true(ten_hash_keyed("a", key) == UINT64_C(0x1c2697ab786a6237));
    assert_true(ten_hash_keyed("12345678", key) == UINT64_C(0x11a8ebb5cd0da9ce));
    assert_true(ten_hash_keyed("scene-0123456789", key) == UINT64_C(0xad8afbbf81493bf6));
#endif
}

/* How far the entries of a map are from where they belong, altogether. */
static size_t displacement(const ten_map *map) {
    size_t sum = 0;
    for (size_t i = 0; i < map->room; i++)
        if (map->entries[i].key)
            sum += (i - (size_t)map->entries[i].hash) & (map->room - 1);
    return sum;
}

static void put_chosen(ten_map *map, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_true(ten_map_put(map, keys[i], map));
}

/* The last case: the secret stays. */
TEST(keys_chosen_to_collide_do_so_only_for_who_knows_the_secret) {
    enum { CHOSEN = 200, PLACES = 1024 };
    static char keys[CHOSEN][24];
    const char *chosen[CHOSEN];
    size_t found = 0;
    /* As a client would, who takes the secret for zero. */
    for (unsigned i = 0; found < CHOSEN; i++) {
        snprintf(keys[found], sizeof keys[found], "a-%x", i);
        if (ten_hash_keyed(keys[found], (ten_hash_key){{0, 0}}) % PLACES == 7) {
            chosen[found] = keys[found];
            found++;
        }
    }
    ten_map open = {0};
    put_chosen(&open, chosen, CHOSEN);
    assert_true(displacement(&open) > (size_t)CHOSEN * CHOSEN / 4);
    ten_map_free(&open);
    ten_hash_key_make_secret();
    ten_map secret = {0};
    put_chosen(&secret, chosen, CHOSEN);
    assert_true(displacement(&secret) < (size_t)CHOSEN * 10);
    for (size_t i = 0; i < CHOSEN; i++)
        assert_ptr_equal(ten_map_get(&secret, chosen[i]), &secret);
    ten_map_free(&secret);
}
