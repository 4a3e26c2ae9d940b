/*
 * The rules for names and tokens: what is let in at the doors, what is refused, and that the refusal names the value,
 * harmlessly, and the rule. Instance ids are new each time.
 */
#include "unit/unit.h"

#include "base/id.h"

typedef int (*check_fn)(const char *, ten_error *);

static void assert_accepted(check_fn check, const char *value) {
    ten_error error = {0};
    if (check(value, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", value, error.message);
}

static void assert_refused(check_fn check, const char *value, const char *rule) {
    ten_error error = {0};
    if (check(value, &error) != TENURE_E_INVALID)
        fail_msg("'%s' was accepted", value);
    assert_contains(error.message, rule);
    for (const char *at = error.message; *at; at++)
        assert_true((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x7f);
}

static const char *text_of(char *text, size_t size) {
    memset(text, 'a', size);
    text[size] = '\0';
    return text;
}

TEST(a_namespace_is_a_short_plain_word) {
    char text[300];
    assert_accepted(ten_id_check_namespace, "poll");
    assert_accepted(ten_id_check_namespace, "A.b_C-9");
    assert_accepted(ten_id_check_namespace, "tenure2");
    assert_accepted(ten_id_check_namespace, text_of(text, 63));
    assert_refused(ten_id_check_namespace, text_of(text, 64), "1 to 63 bytes");
    assert_refused(ten_id_check_namespace, "", "1 to 63 bytes");
    static const char *const bad[] = {"a/b", "a:b", "a b", "a\n", "a*", "{a}", "\xc3\xa4", "a%2e", "~a"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(ten_id_check_namespace, bad[i], "A-Z a-z 0-9 . _ -");
}

TEST(the_namespace_tenure_is_kept_for_tenure) {
    assert_refused(ten_id_check_namespace, "tenure", "kept for Tenure itself");
}

TEST(a_target_may_have_slashes_and_marks) {
    char text[300];
    assert_accepted(ten_id_check_target, "a");
    assert_accepted(ten_id_check_target, "site/room-1/cam.2~x:8080@+_");
    assert_accepted(ten_id_check_target, "...");
    assert_accepted(ten_id_check_target, "a/..b/.c/d.");
    assert_accepted(ten_id_check_target, text_of(text, 255));
    assert_refused(ten_id_check_target, text_of(text, 256), "1 to 255 bytes");
    assert_refused(ten_id_check_target, "", "1 to 255 bytes");
}

TEST(a_target_that_could_be_a_path_elsewhere_is_refused) {
    static const char *const bad[] = {"..",    ".",  "../a", "a/..", "a/../b", "./a", "a/.",
                                      "a/./b", "/a", "a/",   "a//b", "/",      "//"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(ten_id_check_target, bad[i], "empty, '.' or '..'");
}

TEST(a_target_with_a_foreign_byte_is_refused) {
    static const char *const bad[] = {"%2e%2e",   "a\nb", "a\r",       "a\tb", "a b",
                                      "a'b",      "a\"b", "a;b",       "a*",   "a?b",
                                      "a#b",      "a\\b", "a{b}",      "a[1]", "a\x7f",
                                      "\xc3\xa4", "\xff", "a\x1b[31m", "$a",   "`a`",
                                      "a|b",      "a&b",  "a,b",       "a=b",  "\xc0\xae\xc0\xae"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(ten_id_check_target, bad[i], "A-Z a-z 0-9 . _ ~ : @ + - /");
}

TEST(a_holder_is_printable_utf8) {
    char text[300];
    assert_accepted(ten_id_check_holder, "host-1700000000000000000-0123abcd");
    assert_accepted(ten_id_check_holder, "a holder with spaces, 'quotes' and \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_accepted(ten_id_check_holder, text_of(text, 255));
    assert_refused(ten_id_check_holder, text_of(text, 256), "1 to 255 bytes");
    assert_refused(ten_id_check_holder, "", "1 to 255 bytes");
    static const char *const bad[] = {"a\n", "\x01", "a\x7f", "\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xc2\x85"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(ten_id_check_holder, bad[i], "UTF-8 without control characters");
}

TEST(an_instance_name_is_what_a_host_may_be_called) {
    char text[300];
    assert_accepted(ten_id_check_instance_name, "host-1.example_com");
    assert_accepted(ten_id_check_instance_name, text_of(text, 64));
    assert_refused(ten_id_check_instance_name, text_of(text, 65), "1 to 64 bytes");
    assert_refused(ten_id_check_instance_name, "", "1 to 64 bytes");
    assert_refused(ten_id_check_instance_name, "a/b", "A-Z a-z 0-9 . _ -");
    assert_refused(ten_id_check_instance_name, "a\nb", "A-Z a-z 0-9 . _ -");
}

TEST(a_refusal_shows_control_characters_as_hexadecimal) {
    ten_error error;
    assert_int_equal(ten_id_check_target("a\x1b[31m\n\xff", &error), TENURE_E_INVALID);
    assert_contains(error.message, "target 'a\\x1b[31m\\x0a\\xff' is not valid");
}

TEST(a_refusal_cuts_a_long_value) {
    char text[4001];
    ten_error error;
    memset(text, '\n', 4000);
    text[4000] = '\0';
    assert_int_equal(ten_id_check_target(text, &error), TENURE_E_INVALID);
    assert_contains(error.message, "\\x0a...'");
    assert_contains(error.message, "1 to 255 bytes");
    assert_true(strlen(error.message) < 200);
}

static void assert_token(const char *text, uint64_t token) {
    ten_error error = {0};
    uint64_t found = 0;
    if (ten_id_parse_token(text, &found, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    assert_int_equal(found, token);
}

TEST(a_token_goes_from_1_to_2_to_the_53_less_1) {
    assert_token("1", 1);
    assert_token("9007199254740991", TENURE_TOKEN_MAX);
    assert_token("42", 42);
    static const char *const bad[] = {"0",
                                      "",
                                      "9007199254740992",
                                      "9007199254740993",
                                      "9999999999999999",
                                      "10000000000000000",
                                      "-1",
                                      "+1",
                                      "18446744073709551615",
                                      "18446744073709551617",
                                      " 1",
                                      "1 ",
                                      "x1",
                                      "1x",
                                      "0x1",
                                      "1.0",
                                      "1e3",
                                      "nan",
                                      "1\n",
                                      "0000",
                                      "99999999999999999999999999999999999999999999"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++) {
        ten_error error = {0};
        uint64_t found = 77;
        if (ten_id_parse_token(bad[i], &found, &error) != TENURE_E_INVALID)
            fail_msg("token '%s' was accepted", bad[i]);
        assert_int_equal(found, 77);
        assert_contains(error.message, "1 to 9007199254740991");
        assert_lacks(error.message, "\n");
    }
}

/* name-nanoseconds-8hex */
static void assert_instance_id(const char *id, const char *name) {
    size_t size = strlen(name);
    assert_int_equal(strncmp(id, name, size), 0);
    assert_int_equal(id[size], '-');
    const char *digits = id + size + 1;
    size_t count = strspn(digits, "0123456789");
    assert_in_range(count, 19, 20);
    assert_int_equal(digits[count], '-');
    assert_int_equal(strspn(digits + count + 1, "0123456789abcdef"), 8);
    assert_int_equal(strlen(digits + count + 1), 8);
    assert_accepted(ten_id_check_holder, id);
}

TEST(an_instance_id_is_name_nanoseconds_and_8_hexadecimal_digits) {
    char id[TENURE_HOLDER_MAX + 1];
    char longest[65];
    ten_error error;
    uint64_t before_ms = ten_wall_ms(&ten_system_clock);
    assert_int_equal(ten_id_make_instance("node-1", id, &error), TENURE_OK);
    assert_instance_id(id, "node-1");
    uint64_t nanoseconds = strtoull(id + strlen("node-1-"), NULL, 10);
    assert_in_range(nanoseconds / 1000000u, before_ms, before_ms + 60000);
    assert_int_equal(ten_id_make_instance(text_of(longest, 64), id, &error), TENURE_OK);
    assert_instance_id(id, longest);
}

TEST(an_instance_without_a_name_is_called_as_its_host) {
    char id[TENURE_HOLDER_MAX + 1];
    ten_error error;
    assert_int_equal(ten_id_make_instance(NULL, id, &error), TENURE_OK);
    char *hex = strrchr(id, '-');
    *hex = '\0';
    *strrchr(id, '-') = '\0';
    assert_accepted(ten_id_check_instance_name, id);
}

TEST(an_instance_with_a_bad_name_gets_no_id) {
    char id[TENURE_HOLDER_MAX + 1] = "untouched";
    ten_error error;
    assert_int_equal(ten_id_make_instance("a/b", id, &error), TENURE_E_INVALID);
    assert_string_equal(id, "untouched");
}

static int compare_ids(const void *a, const void *b) {
    return strcmp(a, b);
}

TEST(ten_thousand_instance_ids_are_all_different) {
    enum { COUNT = 10000, SIZE = TENURE_HOLDER_MAX + 1 };
    char(*ids)[SIZE] = calloc(COUNT, SIZE);
    ten_error error;
    assert_non_null(ids);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(ten_id_make_instance("n", ids[i], &error), TENURE_OK);
    qsort(ids, COUNT, SIZE, compare_ids);
    for (size_t i = 1; i < COUNT; i++)
        assert_string_not_equal(ids[i - 1], ids[i]);
    free(ids);
}
