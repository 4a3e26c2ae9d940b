/*
 * The text buffer: it grows, stays NUL-terminated, keeps its memory over a clear, and remembers that it failed.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/buf.h"

TEST(an_empty_buffer_is_the_empty_text) {
    ten_buf buf = {0};
    assert_string_equal(ten_buf_string(&buf), "");
    ten_buf_text(&buf, "");
    assert_string_equal(ten_buf_string(&buf), "");
    ten_buf_free(&buf);
    ten_buf_free(&buf); /* again: nothing */
}

TEST(pieces_are_put_one_after_the_other) {
    ten_buf buf = {0};
    ten_buf_text(&buf, "ab");
    ten_buf_char(&buf, 'c');
    ten_buf_add(&buf, "defg", 2);
    ten_buf_format(&buf, "-%d-%s", 42, "x");
    assert_string_equal(ten_buf_string(&buf), "abcde-42-x");
    assert_int_equal(buf.size, 10);
    ten_buf_free(&buf);
}

TEST(a_buffer_grows_at_every_size) {
    ten_buf added = {0};
    ten_buf formatted = {0};
    for (size_t i = 0; i < 5000; i++) {
        char c = (char)('a' + i % 26);
        ten_buf_char(&added, c);
        ten_buf_format(&formatted, "%c", c);
        assert_int_equal(strlen(added.data), i + 1);
        assert_int_equal(strlen(formatted.data), i + 1);
    }
    assert_string_equal(added.data, formatted.data);
    ten_buf_free(&added);
    ten_buf_free(&formatted);
}

TEST(a_piece_may_be_larger_than_the_doubled_room) {
    char large[3000];
    memset(large, 'y', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    ten_buf buf = {0};
    ten_buf_char(&buf, 'x');
    ten_buf_format(&buf, "%s", large);
    assert_int_equal(buf.size, sizeof large);
    assert_string_equal(buf.data + 1, large);
    ten_buf_free(&buf);
}

TEST(a_cleared_buffer_keeps_its_memory) {
    ten_buf buf = {0};
    ten_buf_clear(&buf);
    ten_buf_text(&buf, "text");
    const char *memory = buf.data;
    ten_buf_clear(&buf);
    assert_string_equal(ten_buf_string(&buf), "");
    ten_buf_text(&buf, "other");
    assert_ptr_equal(buf.data, memory);
    ten_buf_free(&buf);
}

TEST(a_failed_buffer_takes_nothing_more_until_it_is_cleared) {
    ten_buf buf = {0};
    ten_buf_text(&buf, "kept");
    ten_alloc_fail_after(0);
    char large[200] = {0};
    ten_buf_add(&buf, large, sizeof large);
    ten_alloc_fail_after(-1);
    assert_true(buf.failed);
    ten_buf_text(&buf, "lost");
    ten_buf_format(&buf, "%s", "lost");
    assert_string_equal(ten_buf_string(&buf), "kept");
    ten_buf_clear(&buf);
    ten_buf_text(&buf, "again");
    assert_false(buf.failed);
    assert_string_equal(ten_buf_string(&buf), "again");
    ten_buf_free(&buf);
}

TEST(a_size_that_no_memory_has_is_a_failure) {
    ten_buf buf = {0};
    ten_buf_add(&buf, "x", SIZE_MAX - 1);
    assert_true(buf.failed);
    ten_buf_free(&buf);
}
