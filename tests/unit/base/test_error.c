/*
 * The error table: every code has a name, a message and a number that never changes, and the record that carries an
 * error cuts what is too long.
 */
#include "unit/unit.h"

#include <errno.h>

#include "base/error.h"

static const struct {
    const char *name;
    int code;
    bool retryable;
} expected[] = {
    {"TENURE_OK", 0, false},           {"TENURE_E_INVALID", -1, false},
    {"TENURE_E_NOMEM", -2, true},      {"TENURE_E_HELD", -3, true},
    {"TENURE_E_LOST", -4, false},      {"TENURE_E_UNKNOWN_TARGET", -5, false},
    {"TENURE_E_TIMEOUT", -6, true},    {"TENURE_E_UNREACHABLE", -7, true},
    {"TENURE_E_STORE", -8, true},      {"TENURE_E_FULL", -9, true},
    {"TENURE_E_SCHEMA", -10, false},   {"TENURE_E_UNSUPPORTED", -11, false},
    {"TENURE_E_TTL", -12, false},      {"TENURE_E_TOKEN", -13, false},
    {"TENURE_E_FORKED", -14, false},   {"TENURE_E_CANCELLED", -15, false},
    {"TENURE_E_RESYNC", -16, true},    {"TENURE_E_GONE", -17, false},
    {"TENURE_E_SYSTEM", -18, true},    {"TENURE_E_DENIED", -19, true},
    {"TENURE_E_STALE", -20, false},    {"TENURE_E_CLOSED", -21, false},
    {"TENURE_E_CALLBACK", -22, false}, {"TENURE_E_UNKNOWN_INSTANCE", -23, false},
    {"TENURE_E_TOO_MANY", -24, false},
};

/* The numbers are written down here a second time: a binding in another language has them, too. */
TEST(every_code_keeps_its_number_name_and_flag) {
    for (size_t i = 0; i < TEN_COUNT(expected); i++) {
        assert_string_equal(tenure_error_name(expected[i].code), expected[i].name);
        assert_int_equal(tenure_error_retryable(expected[i].code), expected[i].retryable);
    }
}

TEST(the_table_has_no_code_that_this_test_does_not_know) {
    static const int codes[] = {
#define X(name, code, retryable, message) code,
        TENURE_ERRORS(X)
#undef X
    };
    assert_int_equal(TEN_COUNT(codes) + 1, TEN_COUNT(expected));
}

TEST(every_code_has_a_message_of_its_own) {
    for (size_t i = 0; i < TEN_COUNT(expected); i++) {
        const char *message = tenure_strerror(expected[i].code);
        assert_true(message[0] != '\0');
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(message, tenure_strerror(expected[j].code));
            assert_string_not_equal(expected[i].name, expected[j].name);
            assert_int_not_equal(expected[i].code, expected[j].code);
        }
    }
}

TEST(an_unknown_code_has_a_name_and_a_message) {
    static const int unknown[] = {1, -25, -1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < TEN_COUNT(unknown); i++) {
        assert_string_equal(tenure_error_name(unknown[i]), "TENURE_E_UNKNOWN");
        assert_string_equal(tenure_strerror(unknown[i]), "unknown error");
        assert_false(tenure_error_retryable(unknown[i]));
    }
}

TEST(failing_returns_the_code_and_keeps_the_message) {
    ten_error error = {0};
    assert_int_equal(ten_fail(&error, TENURE_E_HELD, "%s is held by %s", "a", "b"), TENURE_E_HELD);
    assert_int_equal(error.code, TENURE_E_HELD);
    assert_string_equal(error.message, "a is held by b");
    assert_int_equal(ten_fail(NULL, TENURE_E_LOST, "%d", 1), TENURE_E_LOST);
    assert_int_equal(ten_fail_errno(NULL, TENURE_E_LOST, ENOENT, "%d", 1), TENURE_E_LOST);
}

TEST(a_failed_system_call_is_told_in_words) {
    ten_error error = {0};
    assert_int_equal(ten_fail_errno(&error, TENURE_E_SYSTEM, ENOENT, "cannot open %s", "x"), TENURE_E_SYSTEM);
    assert_string_equal(error.message, "cannot open x: No such file or directory");
}

TEST(a_message_that_is_too_long_is_cut) {
    ten_error error = {0};
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ten_fail(&error, TENURE_E_INVALID, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    ten_fail_errno(&error, TENURE_E_INVALID, ENOENT, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

TEST(the_version_is_the_headers) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TENURE_VERSION_MAJOR, TENURE_VERSION_MINOR, TENURE_VERSION_PATCH);
    assert_string_equal(tenure_version(), text);
}
