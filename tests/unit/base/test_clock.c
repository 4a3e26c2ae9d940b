/*
 * Times as text, and what the system's clock promises.
 */
#include "unit/unit.h"

#include <time.h>

static void assert_time(uint64_t wall_ms, const char *expected) {
    char text[TEN_RFC3339_SIZE];
    ten_rfc3339(wall_ms, text);
    assert_string_equal(text, expected);
}

TEST(a_time_is_rfc_3339_in_utc_with_milliseconds) {
    setenv("TZ", "America/New_York", 1);
    tzset();
    assert_time(0, "1970-01-01T00:00:00.000Z");
    assert_time(1, "1970-01-01T00:00:00.001Z");
    assert_time(UINT64_C(1700000000123), "2023-11-14T22:13:20.123Z");
    assert_time(UINT64_C(1709164800999), "2024-02-29T00:00:00.999Z");
    assert_time(UINT64_C(4102444799000), "2099-12-31T23:59:59.000Z");
    assert_time(UINT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
}

TEST(a_time_beyond_all_calendars_still_fits) {
    char text[TEN_RFC3339_SIZE];
    ten_rfc3339(UINT64_MAX, text);
    assert_true(strlen(text) < TEN_RFC3339_SIZE);
    assert_int_equal(text[strlen(text) - 1], 'Z');
}

TEST(the_boot_clock_never_goes_back) {
    uint64_t last_ms = ten_boot_ms(&ten_system_clock);
    uint64_t last_us = ten_boot_us();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ms = ten_boot_ms(&ten_system_clock);
        uint64_t now_us = ten_boot_us();
        assert_true(now_ms >= last_ms && now_us >= last_us);
        last_ms = now_ms;
        last_us = now_us;
    }
    assert_in_range(last_us / 1000u, ten_sub_saturating(last_ms, 1), last_ms + 1000);
}

TEST(the_wall_clock_is_unix_time) {
    uint64_t now_ms = (uint64_t)time(NULL) * 1000u;
    assert_in_range(ten_wall_ms(&ten_system_clock), ten_sub_saturating(now_ms, 60000), now_ms + 60000);
}

TEST(the_boot_id_stays_the_same) {
    char first[TEN_BOOT_ID_SIZE];
    char second[TEN_BOOT_ID_SIZE];
    ten_system_clock.boot_id(ten_system_clock.arg, first);
    ten_system_clock.boot_id(ten_system_clock.arg, second);
    assert_string_equal(first, second);
    assert_null(strchr(first, '\n'));
    assert_int_equal(ten_system_clock.time_namespace(NULL), ten_system_clock.time_namespace(NULL));
}
