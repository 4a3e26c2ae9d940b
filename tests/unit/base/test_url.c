/*
 * Store URLs: how they are taken apart, what is refused, and that a password never comes out again, not even of text
 * that is no URL at all.
 */
#include "unit/unit.h"

#include "base/url.h"

static void parse(const char *text, ten_url *url) {
    ten_error error = {0};
    if (ten_url_parse(text, url, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
}

static void assert_refused(const char *text, const char *rule) {
    ten_error error = {0};
    ten_url url;
    if (ten_url_parse(text, &url, &error) != TENURE_E_INVALID)
        fail_msg("'%s' was accepted", text);
    assert_contains(error.message, rule);
    assert_null(url.scheme);
    assert_null(url.path);
    assert_int_equal(url.option_count, 0);
}

static void assert_redacted(const char *text, const char *expected) {
    char shown[300];
    ten_url_redact(text, shown, sizeof shown);
    assert_string_equal(shown, expected);
}

TEST(a_path_url_has_a_scheme_and_a_path) {
    ten_url url;
    parse("sqlite:/var/lib/jobs.db", &url);
    assert_string_equal(url.scheme, "sqlite");
    assert_string_equal(url.path, "/var/lib/jobs.db");
    assert_null(url.hosts);
    assert_null(url.user);
    assert_null(url.password);
    ten_url_free(&url);
    parse("memory:", &url);
    assert_string_equal(url.path, "");
    ten_url_free(&url);
}

TEST(a_scheme_is_lower_case_whatever_was_typed) {
    ten_url url;
    parse("Redis+Sentinel:x", &url);
    assert_string_equal(url.scheme, "redis+sentinel");
    ten_url_free(&url);
}

TEST(a_server_url_has_user_password_hosts_path_and_options) {
    ten_url url;
    parse("postgres://me:s%40cr%3Aet@h1:1,h2:2/db%20name?a=1&b=%2Fx%3Dy&c=", &url);
    assert_string_equal(url.scheme, "postgres");
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "s@cr:et");
    assert_string_equal(url.hosts, "h1:1,h2:2");
    assert_string_equal(url.path, "/db name");
    assert_int_equal(url.option_count, 3);
    assert_string_equal(ten_url_option(&url, "a"), "1");
    assert_string_equal(ten_url_option(&url, "b"), "/x=y");
    assert_string_equal(ten_url_option(&url, "c"), "");
    assert_null(ten_url_option(&url, "d"));
    ten_url_free(&url);
}

TEST(a_user_needs_no_password_and_a_password_no_user) {
    ten_url url;
    parse("redis://me@h", &url);
    assert_string_equal(url.user, "me");
    assert_null(url.password);
    assert_string_equal(url.path, "");
    ten_url_free(&url);
    parse("redis://:pw@h/0", &url);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "pw");
    ten_url_free(&url);
    parse("redis://u:p@q@h", &url); /* the last at sign counts */
    assert_string_equal(url.password, "p@q");
    assert_string_equal(url.hosts, "h");
    ten_url_free(&url);
    parse("redis://u:p:q@h", &url); /* the first colon counts */
    assert_string_equal(url.password, "p:q");
    ten_url_free(&url);
    parse("redis://[::1]:6379", &url);
    assert_string_equal(url.hosts, "[::1]:6379");
    assert_null(url.password);
    ten_url_free(&url);
    parse("redis:///0", &url);
    assert_string_equal(url.hosts, "");
    ten_url_free(&url);
}

TEST(text_without_a_scheme_is_refused) {
    static const char *const bad[] = {"", ":", "/var/lib/jobs.db", "jobs.db", "//host", "a b:c", "sq\nlite:x"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(bad[i], "starts with a scheme and a colon");
}

TEST(a_broken_escape_is_refused) {
    static const char *const bad[] = {"m:%",    "m:%4",   "m:%4g",     "m:%g4", "m:a%%",
                                      "m:?a=%", "m:?%=1", "r://%zz@h", "r://h%"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(bad[i], "two hexadecimal digits");
}

/* An escape must not reach over the end of its part. */
TEST(an_escape_does_not_reach_into_the_next_part) {
    assert_refused("m:a%4?1=2", "two hexadecimal digits");
    assert_refused("m:?a=%4&1=2", "two hexadecimal digits");
    assert_refused("r://u%4:1@h", "two hexadecimal digits");
}

TEST(a_control_character_is_refused_written_or_escaped) {
    static const char *const bad[] = {"m:a\nb", "m:a%0ab", "m:%00", "m:%7f", "m:?a=%1b", "r://u:%0d@h", "m:\x7f"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(bad[i], "control character");
}

TEST(a_refusal_is_one_line) {
    ten_error error;
    ten_url url;
    assert_int_equal(ten_url_parse("m:a\nb\x1b[2J", &url, &error), TENURE_E_INVALID);
    assert_contains(error.message, "'m:a?b?[2J'");
}

TEST(an_option_is_a_key_and_a_value) {
    static const char *const bad[] = {"m:?", "m:?a", "m:?=1", "m:?a=1&", "m:?&a=1", "m:?a=1&&b=2"};
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(bad[i], "key=value");
}

TEST(an_option_given_twice_is_refused) {
    assert_refused("m:?a=1&b=2&a=1", "given twice");
    assert_refused("m:?a=1&%61=1", "given twice");
}

TEST(sixteen_options_are_allowed_and_seventeen_are_not) {
    char text[300] = "m:?a0=0";
    for (int i = 1; i < 16; i++)
        sprintf(text + strlen(text), "&a%d=%d", i, i);
    ten_url url;
    parse(text, &url);
    assert_int_equal(url.option_count, TEN_URL_OPTIONS_MAX);
    assert_string_equal(ten_url_option(&url, "a15"), "15");
    ten_url_free(&url);
    strcat(text, "&a16=16");
    assert_refused(text, "more than 16 options");
}

TEST(an_unknown_option_is_refused_with_what_was_perhaps_meant) {
    static const char *const known[] = {"timeout", "ca_file", NULL};
    static const char *const none[] = {NULL};
    ten_url url;
    ten_error error = {0};
    parse("m:?timeout=1s&ca_file=x", &url);
    assert_int_equal(ten_url_check_options(&url, known, &error), TENURE_OK);
    assert_int_equal(ten_url_check_options(&url, none, &error), TENURE_E_INVALID);
    ten_url_free(&url);
    parse("m:?timeuot=1s", &url);
    assert_int_equal(ten_url_check_options(&url, known, &error), TENURE_E_INVALID);
    assert_string_equal(error.message, "the m: URL has no option 'timeuot'; did you mean 'timeout'?");
    ten_url_free(&url);
    parse("m:?zebra=1s", &url);
    assert_int_equal(ten_url_check_options(&url, known, &error), TENURE_E_INVALID);
    assert_string_equal(error.message, "the m: URL has no option 'zebra'");
    ten_url_free(&url);
}

TEST(a_password_is_not_shown) {
    assert_redacted("redis://me:secret@h:1/0", "redis://me:***@h:1/0");
    assert_redacted("postgres://h/d?listen_url=postgres%3A%2F%2Fu%3Asecret%40h&timeout=1s",
                    "postgres://h/d?listen_url=***&timeout=1s");
    assert_redacted("redis://:secret@h", "redis://:***@h");
    assert_redacted("redis://u:p@ss@h", "redis://u:***@h");
    assert_redacted("redis://u:p:q@h/a?b=c", "redis://u:***@h/a?b=c");
    assert_redacted("redis://me@h", "redis://me@h");
    assert_redacted("redis://h:6379/0", "redis://h:6379/0");
    assert_redacted("sqlite:/a/b.db?timeout=1s", "sqlite:/a/b.db?timeout=1s");
    assert_redacted("sqlite:///a/b:c@d.db", "sqlite:///a/b:c@d.db");
}

TEST(an_option_that_names_a_secret_is_not_shown) {
    assert_redacted("m:?password=x&a=1&sslpassword=y&token=z&t=2", "m:?password=***&a=1&sslpassword=***&token=***&t=2");
    assert_redacted("m:?Password=x&API_TOKEN=y", "m:?Password=***&API_TOKEN=***");
    assert_redacted("m:?password_file=/x&token_file=/y", "m:?password_file=/x&token_file=/y");
    assert_redacted("m:?password", "m:?password");
    assert_redacted("m:?password=", "m:?password=***");
    assert_redacted("redis://u:p@h?password=a=b?c&x=1", "redis://u:***@h?password=***&x=1");
}

/* Somebody forgot to escape a slash or a question mark: the URL means something else then, but the password is one. */
TEST(a_password_with_an_unescaped_mark_is_not_shown) {
    assert_redacted("redis://:se/cret@h/0", "redis://:***@h/0");
    assert_redacted("redis://u:se?cret@h/0", "redis://u:***@h/0");
    assert_redacted("redis://u:se//cret@h", "redis://u:***@h");
}

TEST(text_that_is_no_url_is_redacted_too) {
    assert_redacted("", "");
    assert_redacted("//u:secret@h", "//u:***@h");
    assert_redacted("re dis://u:secret@", "re dis://u:***@");
    assert_redacted("redis://u:secret%zz@h", "redis://u:***@h");
    ten_error error;
    ten_url url;
    assert_int_equal(ten_url_parse("redis://u:secret%zz@h", &url, &error), TENURE_E_INVALID);
    assert_lacks(error.message, "secret");
    assert_int_equal(ten_url_parse("redis://u:x@h?password=secret&%", &url, &error), TENURE_E_INVALID);
    assert_lacks(error.message, "secret");
}

TEST(a_port_is_between_1_and_65535) {
    static const char *const good[] = {"x://h", "x://h:1", "x://h:65535,[::1]:2,::1", "x://u:99999@h:3/p:0"};
    static const char *const bad[] = {"x://h:",   "x://h:0", "x://h:65536", "x://h:port", "x://h:1,[::1]:99999",
                                      "x://h:-1", "x://h:1x"};
    for (size_t i = 0; i < TEN_COUNT(good); i++) {
        ten_url url;
        parse(good[i], &url);
        ten_url_free(&url);
    }
    for (size_t i = 0; i < TEN_COUNT(bad); i++)
        assert_refused(bad[i], "a port is a number between 1 and 65535");
}

TEST(a_url_is_cut_to_the_room_that_there_is) {
    char shown[8];
    ten_url_redact("redis://u:secret@h", shown, sizeof shown);
    assert_string_equal(shown, "redis:/");
}
