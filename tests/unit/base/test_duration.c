/*
 * Durations: what people may write, what is refused and why, and how a time is shown to them.
 */
#include "unit/unit.h"

#include "base/duration.h"

static void assert_parses(const char *text, uint64_t ms) {
    ten_error error = {0};
    uint64_t found = 12345;
    if (ten_duration_parse(text, &found, &error) != TENURE_OK)
        fail_msg("'%s' was refused: %s", text, error.message);
    assert_int_equal(found, ms);
}

static void assert_refused(const char *text, const char *why) {
    ten_error error = {0};
    uint64_t found = 12345;
    assert_int_equal(ten_duration_parse(text, &found, &error), TENURE_E_INVALID);
    assert_int_equal(error.code, TENURE_E_INVALID);
    assert_contains(error.message, why);
    assert_int_equal(found, 12345);
}

TEST(every_unit_is_understood) {
    assert_parses("500ms", 500);
    assert_parses("30s", 30000);
    assert_parses("5m", 300000);
    assert_parses("2h", 7200000);
    assert_parses("1d", 86400000);
    assert_parses("0s", 0);
    assert_parses("007s", 7000);
    assert_parses("366d", TENURE_TTL_MAX_MS);
}

TEST(a_duration_without_a_unit_is_refused) {
    assert_refused("30", "30s or 30ms");
}

TEST(a_unit_without_a_number_is_refused) {
    static const char *const texts[] = {"", "s", "ms", " 5s", "-5s", "+5s", ".5s", "nan", "NaNs", "infs"};
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        assert_refused(texts[i], "write a whole number and a unit");
}

TEST(an_unknown_unit_is_refused) {
    static const char *const texts[] = {"5x",  "5S",   "5 s",  "5s ",  "1.5s", "1h30m",
                                        "5us", "0x5s", "1e3s", "5s\n", "5\ns"};
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        assert_refused(texts[i], "one unit of ms, s, m, h, d");
}

TEST(a_number_that_does_not_fit_is_refused) {
    assert_parses("18446744073709551ms", UINT64_C(18446744073709551));
    assert_refused("18446744073709551616ms", "too large");
    assert_refused("99999999999999999999999999999999999999999999s", "too large");
    assert_refused("18446744073709552s", "too large");
    assert_refused("213503982335d", "too large");
    assert_parses("213503982334d", UINT64_C(213503982334) * 86400000u);
}

static void assert_shown(uint64_t ms, const char *expected) {
    char text[TEN_DURATION_SIZE];
    ten_duration_show(ms, text);
    assert_string_equal(text, expected);
}

TEST(a_time_is_shown_in_the_unit_that_fits_it) {
    assert_shown(0, "0ms");
    assert_shown(850, "850ms");
    assert_shown(999, "999ms");
    assert_shown(1000, "1.0s");
    assert_shown(12345, "12.3s");
    assert_shown(59999, "59.9s");
    assert_shown(60000, "1m00s");
    assert_shown(245000, "4m05s");
    assert_shown(3600000, "1h00m");
    assert_shown(12000000, "3h20m");
    assert_shown(86400000, "1d00h");
    assert_shown(187200000, "2d04h");
    assert_shown(UINT64_MAX, "213503982334d14h");
}
