/*
 * UTF-8: exactly the well-formed sequences have a length, by the table of the Unicode standard.
 */
#include "unit/unit.h"

#include "base/utf8.h"

static void assert_step(const char *text, size_t expected) {
    size_t found = ten_utf8_step(text, strlen(text));
    if (found != expected)
        fail_msg("%02x %02x...: step %zu, expected %zu", (unsigned char)text[0], text[0] ? (unsigned char)text[1] : 0u,
                 found, expected);
}

TEST(well_formed_sequences_have_their_length) {
    assert_step("a", 1);
    assert_step("\x7f", 1);
    assert_step("\xc2\x80", 2);
    assert_step("\xdf\xbf", 2);
    assert_step("\xe0\xa0\x80", 3);
    assert_step("\xed\x9f\xbf", 3);
    assert_step("\xee\x80\x80", 3);
    assert_step("\xef\xbf\xbf", 3);
    assert_step("\xf0\x90\x80\x80", 4);
    assert_step("\xf4\x8f\xbf\xbf", 4);
    assert_step("ab", 1);
}

TEST(overlong_sequences_have_none) {
    assert_step("\xc0\x80", 0);
    assert_step("\xc0\xae", 0);
    assert_step("\xc1\xbf", 0);
    assert_step("\xe0\x80\xae", 0);
    assert_step("\xe0\x9f\xbf", 0);
    assert_step("\xf0\x8f\xbf\xbf", 0);
    assert_step("\xf8\x88\x80\x80\x80", 0);
}

TEST(surrogates_and_what_is_too_large_have_none) {
    assert_step("\xed\xa0\x80", 0);
    assert_step("\xed\xbf\xbf", 0);
    assert_step("\xf4\x90\x80\x80", 0);
    assert_step("\xf5\x80\x80\x80", 0);
    assert_step("\xff", 0);
    assert_step("\xfe", 0);
}

TEST(truncated_sequences_have_none) {
    assert_step("\xc3", 0);
    assert_step("\xe2\x82", 0);
    assert_step("\xf0\x9f\x98", 0);
    assert_step("\x80", 0);
    assert_step("\xc3(", 0);
    assert_step("\xe2(\xac", 0);
    assert_step("\xe2\x82(", 0);
    assert_step("\xf0\x9f\x98(", 0);
    assert_int_equal(ten_utf8_step("", 0), 0);
    assert_int_equal(ten_utf8_step("\xe2\x82\xac", 2), 0); /* the rest is there, but not ours */
}

/* Every number of up to 21 bits, encoded by hand: all but the surrogates have a length, and no other. */
TEST(every_code_point_but_the_surrogates_is_well_formed) {
    for (uint32_t point = 1; point < 0x200000; point++) {
        char text[5] = {0};
        size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = size; i-- > 1;)
            text[i] = (char)(0x80 | (point >> (6 * (size - 1 - i)) & 0x3f));
        text[0] = (char)(lead[size] | (point >> (6 * (size - 1))));
        bool good = point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
        if (ten_utf8_step(text, size) != (good ? size : 0))
            fail_msg("U+%X", point);
    }
}

static void assert_printable(const char *text, bool expected) {
    assert_int_equal(ten_utf8_is_printable(text, strlen(text)), expected);
}

TEST(control_characters_are_not_printable) {
    assert_printable("", true);
    assert_printable("plain \xc3\xa4 \xe2\x82\xac", true);
    assert_printable("\xc2\xa0", true);
    assert_printable("a\nb", false);
    assert_printable("\x1b[31m", false);
    assert_printable("\x7f", false);
    assert_printable("\xc2\x80", false);
    assert_printable("\xc2\x9b"
                     "31m",
                     false);
    assert_printable("a\xff", false);
    assert_printable("a\xc3", false);
    assert_int_equal(ten_utf8_is_printable("a\0b", 3), false);
}

TEST(what_changes_the_direction_of_text_is_not_printable) {
    assert_printable("a-\xe2\x80\xaenimda", false); /* reads as a-admin */
    for (char last = '\xa8'; last <= '\xaf'; last++)
        assert_printable((char[]){'\xe2', '\x80', last, '\0'}, last < '\xaa' || last > '\xae');
    for (char last = '\xa5'; last <= '\xaa'; last++)
        assert_printable((char[]){'\xe2', '\x81', last, '\0'}, last < '\xa6' || last > '\xa9');
    assert_printable("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", true); /* right to left by itself */
    assert_int_equal(ten_utf8_hidden("\xe2\x80\xae", 3), 0x202e);
    assert_int_equal(ten_utf8_hidden("\xe2\x81\xa6", 3), 0x2066);
}

TEST(a_text_is_cut_between_characters) {
    assert_int_equal(ten_utf8_cut("", 5), 0);
    assert_int_equal(ten_utf8_cut("abc", 5), 3);
    assert_int_equal(ten_utf8_cut("abc", 2), 2);
    assert_int_equal(ten_utf8_cut("a\xe2\x82\xac", 4), 4);
    assert_int_equal(ten_utf8_cut("a\xe2\x82\xac", 3), 1);
    assert_int_equal(ten_utf8_cut("a\xe2\x82\xac", 2), 1);
    assert_int_equal(ten_utf8_cut("\xff\xff", 1), 1);
}
