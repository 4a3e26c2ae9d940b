/*
 * Schedules: what is read, what is refused and where, and which instants are meant, also where a clock is changed. The zone
 * of these tests is made here, as a file of zoneinfo has it.
 */
#include "unit/unit.h"

#include <time.h>

#include "core/crontab.h"

/* ---- help */

static int64_t at(const char *text) {
    int y, mo, d, h, mi, s = 0;
    assert_true(sscanf(text, "%d-%d-%d %d:%d:%d", &y, &mo, &d, &h, &mi, &s) >= 5);
    return (ten_days_from_civil(y, (unsigned)mo, (unsigned)d) * 86400 + h * 3600 + mi * 60 + s) * 1000;
}

static void put(unsigned char **to, uint64_t value, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;)
        *(*to)++ = (unsigned char)(value >> (8 * i));
}

/* A TZif file of version 2 with one type and a footer. */
static size_t make_file(unsigned char *file, int32_t offset_s, const char *footer) {
    unsigned char *to = file;
    for (unsigned version = 0; version < 2; version++) {
        memcpy(to, "TZif2", 5);
        memset(to + 5, 0, 15);
        to += 20;
        const uint64_t counts[] = {0, 0, 0, 0, 1, 4};
        for (size_t i = 0; i < TEN_COUNT(counts); i++)
            put(&to, counts[i], 4);
        put(&to, (uint32_t)offset_s, 4);
        put(&to, 0, 2);
        memcpy(to, "XXX", 4);
        to += 4;
    }
    return (size_t)(to - file) + (size_t)sprintf((char *)to, "\n%s\n", footer);
}

static ten_zone zone_of(const char *footer, int32_t offset_s) {
    unsigned char file[400];
    ten_zone zone;
    assert_true(ten_zone_parse(file, make_file(file, offset_s, footer), &zone));
    return zone;
}

static ten_cron_schedule read_schedule(const char *text) {
    ten_cron_schedule schedule;
    ten_cron_mistake mistake;
    size_t size;
    if (!ten_cron_parse(text, &schedule, &size, &mistake))
        fail_msg("%s: column %zu: %s", text, mistake.at + 1, mistake.reason);
    assert_int_equal(size, strlen(text));
    return schedule;
}

static void expect_next(const char *text, const ten_zone *zone, const char *after, const char *next) {
    ten_cron_schedule schedule = read_schedule(text);
    int64_t found = ten_cron_next(&schedule, zone, at(after));
    if (found != at(next))
        fail_msg("%s after %s: %lld instead of %lld", text, after, (long long)found / 1000, (long long)at(next) / 1000);
}

/* ---- the calendar and zones */

TEST(days_and_dates_are_each_others_opposite) {
    for (int64_t days = -200000; days < 200000; days += 7) {
        int64_t year;
        unsigned month, day;
        ten_civil_from_days(days, &year, &month, &day);
        assert_int_equal(ten_days_from_civil(year, month, day), days);
        assert_in_range(day, 1, ten_days_of_month(year, month));
    }
    assert_int_equal(ten_days_from_civil(2000, 3, 1), 11017);
}

TEST(the_footer_of_a_zone_tells_its_changes) {
    ten_zone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3", 3600);
    assert_int_equal(ten_zone_offset(&berlin, at("2026-03-29 00:59:59") / 1000), 3600);
    assert_int_equal(ten_zone_offset(&berlin, at("2026-03-29 01:00") / 1000), 7200);
    assert_int_equal(ten_zone_offset(&berlin, at("2026-10-25 00:59:59") / 1000), 7200);
    assert_int_equal(ten_zone_offset(&berlin, at("2026-10-25 01:00") / 1000), 3600);
    assert_int_equal(ten_zone_offset(&berlin, at("2150-07-01 00:00") / 1000), 7200);
    ten_zone_free(&berlin);
    /* The south, where summer is at the turn of the year; half an hour of it. */
    ten_zone lord_howe = zone_of("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 37800);
    assert_int_equal(ten_zone_offset(&lord_howe, at("2026-01-15 00:00") / 1000), 39600);
    assert_int_equal(ten_zone_offset(&lord_howe, at("2026-07-15 00:00") / 1000), 37800);
    ten_zone_free(&lord_howe);
    ten_zone fixed = zone_of("<-03>3", 0);
    assert_int_equal(ten_zone_offset(&fixed, at("2026-07-15 00:00") / 1000), -10800);
    ten_zone_free(&fixed);
}

TEST(bytes_that_are_no_zone_are_refused) {
    unsigned char file[400];
    ten_zone zone;
    size_t size = make_file(file, 0, "CET-1CEST,M3.5.0,M10.5.0/3");
    for (size_t i = 0; i < size - 1; i++)
        if (ten_zone_parse(file, i, &zone)) /* without a footer it is whole */
            ten_zone_free(&zone);
    static const char *const wrong[] = {"CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
                                        "C-1", "CET-1X,1,2"};
    for (size_t i = 0; i < TEN_COUNT(wrong); i++)
        assert_false(ten_zone_parse(file, make_file(file, 0, wrong[i]), &zone));
    assert_false(ten_zone_parse("TZif", 4, &zone));
    assert_false(ten_zone_parse("", 0, &zone));
}

/* ---- fields */

TEST(fields_have_names_ranges_steps_and_lists) {
    const ten_zone *utc = &ten_zone_utc;
    expect_next("* * * * *", utc, "2026-11-17 10:00", "2026-11-17 10:01");
    expect_next("*/15 * * * *", utc, "2026-11-17 10:46", "2026-11-17 11:00");
    expect_next("5-20/5 * * * *", utc, "2026-11-17 10:05", "2026-11-17 10:10");
    expect_next("0,30 9-17 * * mon-fri", utc, "2026-11-13 17:30", "2026-11-16 09:00");
    expect_next("0 0 1 jan *", utc, "2026-11-17 10:00", "2027-01-01 00:00");
    expect_next("0 0 * * sun", utc, "2026-11-17 10:00", "2026-11-22 00:00");
    expect_next("0 0 * * 7", utc, "2026-11-17 10:00", "2026-11-22 00:00");
    expect_next("0 0 * * 5-7", utc, "2026-11-21 10:00", "2026-11-22 00:00");
    expect_next("0 0 29 2 *", utc, "2026-11-17 10:00", "2028-02-29 00:00");
    expect_next("0 0 31 * *", utc, "2026-11-17 10:00", "2026-12-31 00:00");
    expect_next("59 23 31 12 *", utc, "2026-12-31 23:59", "2027-12-31 23:59");
    expect_next("@hourly", utc, "2026-11-17 10:00", "2026-11-17 11:00");
    expect_next("@daily", utc, "2026-11-17 00:00", "2026-11-18 00:00");
    expect_next("@midnight", utc, "2026-11-17 00:00", "2026-11-18 00:00");
    expect_next("@weekly", utc, "2026-11-17 00:00", "2026-11-22 00:00");
    expect_next("@monthly", utc, "2026-11-17 00:00", "2026-12-01 00:00");
    expect_next("@yearly", utc, "2026-11-17 00:00", "2027-01-01 00:00");
    expect_next("@annually", utc, "2026-11-17 00:00", "2027-01-01 00:00");
}

TEST(one_of_two_days_is_enough_if_both_are_given) {
    expect_next("0 0 13 * fri", &ten_zone_utc, "2026-11-10 00:00", "2026-11-13 00:00");
    expect_next("0 0 13 * fri", &ten_zone_utc, "2026-11-13 00:00", "2026-11-20 00:00");
    expect_next("0 0 */2 * fri", &ten_zone_utc, "2026-11-13 00:00", "2026-11-27 00:00"); /* both */
}

TEST(every_means_the_same_multiples_on_every_host) {
    expect_next("@every 90s", &ten_zone_utc, "1970-01-01 00:00", "1970-01-01 00:01:30");
    expect_next("@every 15m", &ten_zone_utc, "2026-11-17 10:07", "2026-11-17 10:15");
    expect_next("@every 1d", &ten_zone_utc, "2026-11-17 00:00", "2026-11-18 00:00");
}

TEST(a_mistake_has_its_place) {
    static const struct {
        const char *text;
        size_t at;
        const char *reason;
    } wrong[] = {{"60 * * * *", 0, "0 to 59"},      {"* 24 * * *", 2, "the hour is 0 to 23"},
                 {"* * 0 * *", 4, "1 to 31"},       {"* * * 13 *", 6, "1 to 12"},
                 {"* * * foo *", 6, "or a name"},   {"* * * * 8", 8, "0 to 7"},
                 {"5-1 * * * *", 0, "ends before"}, {"*/0 * * * *", 3, "step of 0"},
                 {"5/2 * * * *", 2, "without a"},   {"* * * *", 7, "the weekday is missing"},
                 {"1, * * * *", 2, "incomplete"},   {"1;2 * * * *", 1, "means nothing"},
                 {"0 0 30 2 *", 0, "never comes"},  {"0 0 31 4,6,9,11 *", 0, "never comes"},
                 {"@often", 0, "is no schedule"},   {"@every", 6, "needs a duration"},
                 {"@every 10", 7, "unit"},          {"@every 500ms", 7, "1s to 366d"}};
    for (size_t i = 0; i < TEN_COUNT(wrong); i++) {
        ten_cron_schedule schedule;
        ten_cron_mistake mistake;
        size_t size;
        assert_false(ten_cron_parse(wrong[i].text, &schedule, &size, &mistake));
        if (mistake.at != wrong[i].at || !strstr(mistake.reason, wrong[i].reason))
            fail_msg("%s: column %zu: %s", wrong[i].text, mistake.at + 1, mistake.reason);
    }
}

/* ---- where the clock is changed. Berlin: 2026-03-29 from 2:00 to 3:00, 2026-10-25 from 3:00 back to 2:00 */

TEST(a_fixed_time_that_is_left_out_comes_at_the_change) {
    ten_zone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3", 3600);
    expect_next("30 2 * * *", &berlin, "2026-03-28 01:30", "2026-03-29 01:00"); /* 3:00 in Berlin */
    expect_next("30 2 * * *", &berlin, "2026-03-29 01:00", "2026-03-30 00:30");
    expect_next("0 2,3 * * *", &berlin, "2026-03-28 02:00", "2026-03-29 01:00");
    expect_next("0 2,3 * * *", &berlin, "2026-03-29 01:00", "2026-03-30 00:00"); /* they are one */
    expect_next("30 1 * * *", &berlin, "2026-03-28 00:30", "2026-03-29 00:30");
    ten_zone_free(&berlin);
}

TEST(a_fixed_time_that_comes_twice_is_meant_once) {
    ten_zone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3", 3600);
    expect_next("30 2 * * *", &berlin, "2026-10-24 00:30", "2026-10-25 00:30");
    expect_next("30 2 * * *", &berlin, "2026-10-25 00:30", "2026-10-26 01:30");
    expect_next("0 3 * * *", &berlin, "2026-10-24 01:00", "2026-10-25 02:00");
    ten_zone_free(&berlin);
}

TEST(other_schedules_follow_the_clock_on_the_wall) {
    ten_zone berlin = zone_of("CET-1CEST,M3.5.0,M10.5.0/3", 3600);
    ten_cron_schedule quarter = read_schedule("*/15 * * * *");
    ten_cron_schedule half = read_schedule("30 * * * *");
    for (int64_t from = at("2026-03-28 20:00"), end = from + 12 * 3600000; from < end; from += 900000)
        assert_int_equal(ten_cron_next(&quarter, &berlin, from), from + 900000);
    for (int64_t from = at("2026-10-24 20:00"), end = from + 12 * 3600000; from < end; from += 900000)
        assert_int_equal(ten_cron_next(&quarter, &berlin, from), from + 900000);
    expect_next("30 * * * *", &berlin, "2026-03-29 00:30", "2026-03-29 01:30"); /* 1:30, then 3:30 */
    for (int64_t from = at("2026-10-24 20:30"), end = from + 12 * 3600000; from < end; from += 3600000)
        assert_int_equal(ten_cron_next(&half, &berlin, from), from + 3600000);
    /* What is left out of the clock is left out. */
    expect_next("* 2 * * *", &berlin, "2026-03-28 01:59", "2026-03-30 00:00");
    ten_zone_free(&berlin);
}

/* Through two years of zones, instants are strictly increasing, and the last one before any moment is the one before the
 * next. */
TEST(the_last_instant_is_the_one_before_the_next) {
    static const char *const texts[] = {"*/7 * * * *",    "30 2 * * *", "0 0 29 2 *",
                                        "15 1-4 * * sun", "@every 37m", "0 0 13 * fri"};
    ten_zone zones[] = {zone_of("CET-1CEST,M3.5.0,M10.5.0/3", 3600),
                        zone_of("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 37800), zone_of("UTC0", 0)};
    for (size_t t = 0; t < TEN_COUNT(texts); t++) {
        ten_cron_schedule schedule = read_schedule(texts[t]);
        for (size_t z = 0; z < TEN_COUNT(zones); z++) {
            int64_t last = ten_cron_next(&schedule, &zones[z], at("2026-03-20 00:00"));
            for (unsigned i = 0; i < 3000 && last < at("2028-03-10 00:00"); i++) {
                int64_t next = ten_cron_next(&schedule, &zones[z], last);
                assert_true(next > last);
                int64_t between = last + (next - last) / 2;
                assert_int_equal(ten_cron_last(&schedule, &zones[z], last - 1, between), last);
                assert_int_equal(ten_cron_last(&schedule, &zones[z], last, next - 1), TEN_CRON_NEVER);
                assert_int_equal(ten_cron_last(&schedule, &zones[z], INT64_C(0), next), next);
                last = next;
            }
        }
    }
    for (size_t z = 0; z < TEN_COUNT(zones); z++)
        ten_zone_free(&zones[z]);
}

/* ---- lines */

TEST(a_line_has_a_name_keys_a_schedule_and_a_command) {
    ten_crontab_line line;
    ten_cron_mistake mistake;
    assert_true(ten_crontab_parse("backup tz=Europe/Berlin missed=all max-late=2h overlap=wait jitter=30s timeout=1h "
                                  "30 2 * * *  pg_dump x=1 | gzip",
                                  &line, &mistake));
    assert_string_equal(line.name, "backup");
    assert_string_equal(line.zone, "Europe/Berlin");
    assert_int_equal(line.policy.missed, TEN_CRON_ALL);
    assert_int_equal(line.policy.overlap, TEN_CRON_OVERLAP_WAIT);
    assert_int_equal(line.policy.max_late_ms, 7200000);
    assert_int_equal(line.policy.jitter_ms, 30000);
    assert_int_equal(line.policy.timeout_ms, 3600000);
    assert_string_equal(line.command, "pg_dump x=1 | gzip");
    assert_true(ten_crontab_parse(" t\t@every 5m\ttrue", &line, &mistake));
    assert_string_equal(line.zone, "");
    assert_int_equal(line.policy.missed, TEN_CRON_LATEST);
    assert_int_equal(line.policy.overlap, TEN_CRON_OVERLAP_SKIP);
    assert_int_equal(line.policy.max_late_ms, 3600000);
    assert_int_equal(line.policy.timeout_ms, 0);
}

TEST(a_wrong_line_names_the_column_and_the_reason) {
    static const struct {
        const char *text;
        size_t at;
        const char *reason;
    } wrong[] = {{"*/5 * * * * true", 0, "begins with the name"},
                 {"job * * * * *", 13, "the command is missing"},
                 {"job 61 * * * * true", 4, "0 to 59"},
                 {"job tz=../etc/passwd * * * * * true", 7, "time zone"},
                 {"job missed=never * * * * * true", 11, "not one of"},
                 {"job max-late=5 * * * * * true", 13, "unit"},
                 {"job retries=5 * * * * * true", 4, "there is no key 'retries'"},
                 {"job daily true", 4, "neither a key=value nor a schedule"},
                 {"job", 3, "missing"},
                 {"a/../b @daily true", 0, "the name of the job"},
                 {"job @daily \xff", 0, "UTF-8"}};
    for (size_t i = 0; i < TEN_COUNT(wrong); i++) {
        ten_crontab_line line;
        ten_cron_mistake mistake;
        assert_false(ten_crontab_parse(wrong[i].text, &line, &mistake));
        if (mistake.at != wrong[i].at || !strstr(mistake.reason, wrong[i].reason))
            fail_msg("%s: column %zu: %s", wrong[i].text, mistake.at + 1, mistake.reason);
    }
}

TEST(a_users_crontab_is_taken_over_line_by_line) {
    char text[200];
    ten_cron_mistake mistake;
    assert_true(ten_crontab_import("*/5 * * * * date +\\%F", "date-1", text, sizeof text, &mistake));
    assert_string_equal(text, "date-1 */5 * * * * date +%F");
    assert_true(ten_crontab_import("@daily run", "run-2", text, sizeof text, &mistake));
    assert_string_equal(text, "run-2 @daily run");
    static const char *const others[] = {"MAILTO=root", "@reboot true", "* * * * *", "61 * * * * x", "* * * * * a % b"};
    for (size_t i = 0; i < TEN_COUNT(others); i++)
        assert_false(ten_crontab_import(others[i], "x", text, sizeof text, &mistake));
}
