/*
 * The arena: copies stay where they are until a reset, and a steady load allocates nothing after the first rounds.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/arena.h"

TEST(copies_stay_valid_while_others_follow) {
    ten_arena arena = {0};
    const char *copies[5000];
    char text[32];
    for (size_t i = 0; i < TEN_COUNT(copies); i++) {
        snprintf(text, sizeof text, "text number %zu", i);
        copies[i] = ten_arena_text(&arena, text);
        assert_non_null(copies[i]);
        assert_ptr_not_equal(copies[i], text);
    }
    for (size_t i = 0; i < TEN_COUNT(copies); i++) {
        snprintf(text, sizeof text, "text number %zu", i);
        assert_string_equal(copies[i], text);
    }
    ten_arena_free(&arena);
}

TEST(a_text_may_be_larger_than_a_block) {
    ten_arena arena = {0};
    size_t size = 100000;
    char *large = malloc(size);
    assert_non_null(large);
    memset(large, 'x', size - 1);
    large[size - 1] = '\0';
    const char *small = ten_arena_text(&arena, "small");
    const char *copy = ten_arena_text(&arena, large);
    assert_string_equal(copy, large);
    assert_string_equal(small, "small");
    ten_arena_free(&arena);
    free(large);
}

static void fill(ten_arena *arena) {
    for (int i = 0; i < 2000; i++)
        assert_non_null(ten_arena_text(arena, "a text of some length, as a holder's name may have"));
}

TEST(a_steady_load_allocates_nothing) {
    ten_arena arena = {0};
    for (int round = 0; round < 3; round++) {
        fill(&arena);
        ten_arena_reset(&arena);
    }
    ten_alloc_fail_after(0);
    for (int round = 0; round < 3; round++) {
        fill(&arena);
        ten_arena_reset(&arena);
    }
    assert_false(ten_alloc_has_failed());
    ten_alloc_fail_after(-1);
    ten_arena_free(&arena);
}

TEST(an_empty_arena_can_be_reset_and_freed) {
    ten_arena arena = {0};
    ten_arena_reset(&arena);
    ten_arena_free(&arena);
    ten_arena_free(&arena);
    assert_string_equal(ten_arena_text(&arena, ""), "");
    ten_arena_free(&arena);
}
