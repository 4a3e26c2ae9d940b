/*
 * Bytes as text: percent-coding, base64 and digits, there and back.
 */
#include "unit/unit.h"

#include <stdlib.h>

#include "base/encode.h"

/* ---- base64 */

static void assert_base64(const char *data, size_t size, const char *text) {
    ten_buf out = {0};
    ten_base64_encode(&out, data, size);
    assert_string_equal(ten_buf_string(&out), text);
    ten_buf back = {0};
    assert_true(ten_base64_decode(&back, text));
    assert_int_equal(back.size, size);
    if (size > 0)
        assert_memory_equal(back.data, data, size);
    ten_buf_free(&out);
    ten_buf_free(&back);
}

TEST(base64_is_that_of_the_standard) {
    assert_base64("", 0, "");
    assert_base64("f", 1, "Zg==");
    assert_base64("fo", 2, "Zm8=");
    assert_base64("foo", 3, "Zm9v");
    assert_base64("foob", 4, "Zm9vYg==");
    assert_base64("fooba", 5, "Zm9vYmE=");
    assert_base64("foobar", 6, "Zm9vYmFy");
    assert_base64("\0\xff\xfe\xfb", 4, "AP/++w==");
    assert_base64("\0\0\0", 3, "AAAA");
}

TEST(every_byte_at_every_place_comes_back) {
    char data[300];
    ten_buf text = {0};
    ten_buf back = {0};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 256);
    for (size_t size = 0; size <= sizeof data; size++) {
        ten_buf_clear(&text);
        ten_base64_encode(&text, data, size);
        assert_int_equal(text.size, (size + 2) / 3 * 4);
        assert_true(ten_base64_decode(&back, ten_buf_string(&text)));
        assert_int_equal(back.size, size);
        assert_memory_equal(ten_buf_string(&back), data, size);
    }
    ten_buf_free(&text);
    ten_buf_free(&back);
}

TEST(what_is_not_base64_is_refused) {
    static const char *const bad[] = {
        "A", "AA", "AAA", "AAAAA", "AA=A", "A===", "====", "AA==AAAA", "AAA*", "A A=", "Zm9-"};
    ten_buf out = {0};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        if (ten_base64_decode(&out, bad[i]))
            fail_msg("'%s' was taken for base64", bad[i]);
    ten_buf_free(&out);
}

/* ---- percent-coding */

TEST(a_query_is_decoded_in_place) {
    char text[] = "a+b%2Bc%20d";
    assert_true(ten_percent_decode(text, true));
    assert_string_equal(text, "a b+c d");
    char plain[] = "a+b";
    assert_true(ten_percent_decode(plain, false));
    assert_string_equal(plain, "a+b");
    char nul[] = "a%00";
    assert_false(ten_percent_decode(nul, true));
}

TEST(what_is_encoded_comes_back) {
    char text[256];
    for (int i = 1; i < 256; i++)
        text[i - 1] = (char)i;
    text[255] = '\0';
    ten_buf all = {0};
    ten_buf some = {0};
    ten_percent_encode(&all, text, ":,");
    ten_percent_encode_only(&some, text, "%+");
    assert_null(strchr(ten_buf_string(&all), '/'));
    assert_non_null(strstr(ten_buf_string(&some), "%25"));
    assert_non_null(strchr(ten_buf_string(&some), '/'));
    assert_true(ten_percent_decode(all.data, true));
    assert_true(ten_percent_decode(some.data, true));
    assert_string_equal(all.data, text);
    assert_string_equal(some.data, text);
    ten_buf_free(&all);
    ten_buf_free(&some);
}

TEST(half_an_escape_is_refused) {
    static const char *const bad[] = {"%", "%2", "%g0", "%0g", "a%", "%%41"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++) {
        char text[8];
        snprintf(text, sizeof text, "%s", bad[i]);
        assert_int_equal(ten_percent_byte(strchr(bad[i], '%')), -1);
        assert_false(ten_percent_decode(text, false));
    }
}

/* ---- digits */

TEST(digits_are_those_of_printf) {
    static const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 4294967296u, (UINT64_C(1) << 53) - 1, UINT64_MAX};
    for (size_t i = 0; i < TEN_COUNT(numbers); i++) {
        char text[TEN_DIGITS_SIZE];
        char expected[TEN_DIGITS_SIZE];
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)numbers[i]);
        assert_string_equal(ten_digits(text, numbers[i]), expected);
    }
}

TEST(a_number_is_digits_alone_and_not_too_great) {
    static const char *const none[] = {NULL, "", "-1", "+1", " 1", "1 ", "1x", "x", "101", "18446744073709551616"};
    uint64_t number = 7;
    for (size_t i = 0; i < TEN_COUNT(none); i++)
        assert_false(ten_digits_parse(none[i], 100, &number));
    assert_int_equal(number, 7);
    assert_true(ten_digits_parse("100", 100, &number));
    assert_int_equal(number, 100);
    assert_true(ten_digits_parse("18446744073709551615", UINT64_MAX, &number));
    assert_true(number == UINT64_MAX);
}
