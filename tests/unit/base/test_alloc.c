/*
 * The failing allocator: the call that is to fail fails, once, and it can be seen whether it came.
 */
#include "unit/unit.h"

#include "base/alloc.h"

TEST(nothing_fails_unless_it_is_asked_for) {
    ten_alloc_fail_after(-1);
    for (int i = 0; i < 100; i++) {
        void *memory = ten_malloc(16);
        assert_non_null(memory);
        ten_free(memory);
    }
    assert_false(ten_alloc_has_failed());
}

TEST(exactly_the_named_call_fails) {
    for (long skip = 0; skip < 5; skip++) {
        ten_alloc_fail_after(skip);
        for (long i = 0; i < 10; i++) {
            void *memory = ten_malloc(16);
            assert_int_equal(memory == NULL, i == skip);
            assert_int_equal(ten_alloc_has_failed() != 0, i >= skip);
            ten_free(memory);
        }
    }
    ten_alloc_fail_after(-1);
    assert_false(ten_alloc_has_failed());
}

TEST(every_kind_of_call_can_fail) {
    ten_alloc_fail_after(0);
    assert_null(ten_malloc(1));
    ten_alloc_fail_after(0);
    assert_null(ten_calloc(1, 1));
    ten_alloc_fail_after(0);
    assert_null(ten_strdup("x"));
    char *text = ten_strdup("kept");
    ten_alloc_fail_after(0);
    assert_null(ten_realloc(text, 100));
    assert_string_equal(text, "kept");
    ten_alloc_fail_after(-1);
    text = ten_realloc(text, 100);
    assert_string_equal(text, "kept");
    ten_free_string(&text);
    assert_null(text);
    ten_free_string(&text);
    ten_free(NULL);
}

TEST(cleared_memory_is_clear) {
    char *memory = ten_calloc(10, 10);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(memory[i], 0);
    ten_free(memory);
}
