/*
 * The JSON writer: what it writes is JSON (jansson reads it back), on one line, whatever the text was.
 */
#include "unit/unit.h"

#include <jansson.h>

#include "base/json.h"

static void assert_string(const char *text, const char *expected) {
    ten_buf buf = {0};
    ten_json_string(&buf, text);
    assert_false(buf.failed);
    assert_string_equal(ten_buf_string(&buf), expected);
    ten_buf_free(&buf);
}

TEST(plain_text_is_quoted) {
    assert_string("", "\"\"");
    assert_string("abc", "\"abc\"");
    assert_string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(quotes_and_control_characters_are_escaped) {
    assert_string("a\"b\\c", "\"a\\\"b\\\\c\"");
    assert_string("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    assert_string("\x01\x1b\x7f", "\"\\u0001\\u001b\\u007f\"");
    assert_string("\xc2\x9b"
                  "31m",
                  "\"\\u009b31m\""); /* a terminal takes it for an escape sequence */
    assert_string("\xc2\xa0", "\"\xc2\xa0\"");
    assert_string("\xe2\x80\xae\xe2\x81\xa9\xe2\x80\xaf", "\"\\u202e\\u2069\xe2\x80\xaf\""); /* changes of direction */
}

TEST(what_is_not_utf8_becomes_the_replacement_character) {
    assert_string("a\xff"
                  "b",
                  "\"a\xef\xbf\xbd"
                  "b\"");
    assert_string("\xc3", "\"\xef\xbf\xbd\"");
    assert_string("\xc3\"", "\"\xef\xbf\xbd\\\"\"");
    assert_string("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(every_byte_comes_back_as_json) {
    for (int c = 1; c < 256; c++) {
        char text[4] = {'x', (char)c, 'y', '\0'};
        ten_buf buf = {0};
        ten_json_string(&buf, text);
        json_error_t error;
        json_t *found = json_loads(ten_buf_string(&buf), JSON_DECODE_ANY, &error);
        assert_non_null(found);
        assert_string_equal(json_string_value(found), c < 0x80 ? text : "x\xef\xbf\xbdy");
        assert_null(strpbrk(ten_buf_string(&buf), "\n\r\t\x1b"));
        json_decref(found);
        ten_buf_free(&buf);
    }
}

TEST(an_object_has_its_members_in_order) {
    ten_buf buf = {0};
    ten_json_open(&buf);
    ten_json_text(&buf, "a", "x");
    ten_json_text(&buf, "b", NULL);
    ten_json_number(&buf, "c", UINT64_C(9007199254740991));
    ten_json_bool(&buf, "d", true);
    ten_json_bool(&buf, "e", false);
    ten_json_raw(&buf, "f", "{\"g\":[1]}");
    ten_json_time(&buf, "h", UINT64_C(1700000000123));
    ten_json_time(&buf, "i", 0);
    ten_json_close(&buf);
    assert_string_equal(ten_buf_string(&buf),
                        "{\"a\":\"x\",\"b\":null,\"c\":9007199254740991,\"d\":true,\"e\":false,\"f\":{\"g\":[1]},"
                        "\"h\":\"2023-11-14T22:13:20.123Z\",\"i\":null}");
    ten_buf_free(&buf);
}

TEST(a_value_that_ends_in_a_brace_is_followed_by_a_comma) {
    ten_buf buf = {0};
    ten_json_open(&buf);
    ten_json_text(&buf, "a{", "{");
    ten_json_number(&buf, "b", 1);
    ten_json_close(&buf);
    assert_string_equal(ten_buf_string(&buf), "{\"a{\":\"{\",\"b\":1}");
    ten_buf_free(&buf);
}
