/*
 * Names: they stay where they are, removed places are used again, and memory that runs out leaves everything as it was.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "base/names.h"
#include "base/util.h"

#define COUNT 10000u

static void make_text(char *text, unsigned number) {
    int length = snprintf(text, 320, "%u-", number);
    for (unsigned i = 0; i < number % 300; i++)
        text[length++] = (char)('a' + i % 26);
    text[length] = '\0';
}

TEST(names_stay_as_they_are) {
    static char *copies[COUNT];
    char text[400];
    ten_names names = {0};
    for (unsigned i = 0; i < COUNT; i++) {
        make_text(text, i);
        copies[i] = ten_names_add(&names, text);
        assert_string_equal(copies[i], text);
    }
    for (unsigned i = 0; i < COUNT; i += 3)
        ten_names_remove(&names, copies[i]);
    for (unsigned i = 0; i < COUNT; i += 3) {
        make_text(text, COUNT - i);
        copies[i] = ten_names_add(&names, text);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        make_text(text, i % 3 ? i : COUNT - i);
        assert_string_equal(copies[i], text);
    }
    ten_names_free(&names);
    assert_null(names.blocks);
}

TEST(a_removed_place_is_used_again) {
    ten_names names = {0};
    const char *texts[] = {"", "1234567", "12345678", "session-0001"};
    for (size_t i = 0; i < TEN_COUNT(texts); i++) {
        char *first = ten_names_add(&names, texts[i]);
        char *second = ten_names_add(&names, texts[i]);
        ten_names_remove(&names, first);
        ten_names_remove(&names, second);
        assert_ptr_equal(ten_names_add(&names, texts[i]), second);
        assert_ptr_equal(ten_names_add(&names, texts[i]), first);
        assert_ptr_not_equal(ten_names_add(&names, texts[i]), first);
    }
    ten_names_free(&names);
}

TEST(without_memory_nothing_is_added) {
    ten_names names = {0};
    ten_alloc_fail_after(0);
    assert_null(ten_names_add(&names, "session"));
    ten_alloc_fail_after(-1);
    assert_string_equal(ten_names_add(&names, "session"), "session");
    ten_names_free(&names);
}
