/*
 * TZif files and the calendar. See cron_zone.h.
 */
#include "core/cron_zone.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

#define LAST_YEAR   2199
#define DAY_S       INT64_C(86400)
#define HEADER_SIZE 44u
#define TYPES_MAX   256u
#define TIMES_MAX   100000u

const ten_zone ten_zone_utc = {0};

/* ---- the calendar: the days of 400 years repeat */

int64_t ten_days_from_civil(int64_t year, unsigned month, unsigned day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void ten_civil_from_days(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t of_era = days - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t part = (5 * of_year + 2) / 153;
    *ret_day = (unsigned)(of_year - (153 * part + 2) / 5 + 1);
    *ret_month = (unsigned)(part < 10 ? part + 3 : part - 9);
    *ret_year = year + era * 400 + (*ret_month <= 2);
}

unsigned ten_days_of_month(int64_t year, unsigned month) {
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* ---- looking up */

size_t ten_zone_count_until(const ten_zone *zone, int64_t at_s) {
    size_t low = 0;
    size_t high = zone->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (zone->transitions[middle].at_s <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t ten_zone_offset(const ten_zone *zone, int64_t at_s) {
    size_t count = ten_zone_count_until(zone, at_s);
    return count ? zone->transitions[count - 1].offset_s : zone->first_offset_s;
}

/* ---- building */

static bool add(ten_zone *zone, int64_t at_s, int32_t offset_s) {
    int32_t before = zone->count ? zone->transitions[zone->count - 1].offset_s : zone->first_offset_s;
    if (before == offset_s)
        return true;
    if (zone->count && zone->transitions[zone->count - 1].at_s >= at_s)
        return false;
    if (!TEN_GROW(zone->transitions, zone->room, zone->count + 1))
        return false;
    zone->transitions[zone->count++] = (ten_zone_transition){.at_s = at_s, .offset_s = offset_s};
    return true;
}

void ten_zone_free(ten_zone *zone) {
    ten_free(zone->transitions);
    *zone = (ten_zone){0};
}

/* ---- the footer: POSIX's TZ, such as CET-1CEST,M3.5.0,M10.5.0/3 */

struct text {
    const char *at;
    const char *end;
};

static bool take(struct text *text, char wanted) {
    if (text->at == text->end || *text->at != wanted)
        return false;
    text->at++;
    return true;
}

static bool take_number(struct text *text, int most, int *ret_number) {
    int number = 0;
    const char *start = text->at;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9' && number <= most)
        number = number * 10 + (*text->at++ - '0');
    *ret_number = number;
    return text->at > start && number <= most;
}

static bool take_name(struct text *text) {
    bool quoted = take(text, '<');
    const char *start = text->at;
    while (text->at < text->end &&
           (quoted ? *text->at != '>' : ((*text->at | 0x20) >= 'a' && (*text->at | 0x20) <= 'z')))
        text->at++;
    return text->at - start >= 3 && (!quoted || take(text, '>'));
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct text *text, int *ret_seconds) {
    int sign = take(text, '-') ? -1 : 1;
    int parts[3] = {0};
    if (sign > 0)
        (void)take(text, '+');
    if (!take_number(text, 167, &parts[0]))
        return false;
    for (size_t i = 1; i < 3 && take(text, ':'); i++)
        if (!take_number(text, 59, &parts[i]))
            return false;
    *ret_seconds = sign * (parts[0] * 3600 + parts[1] * 60 + parts[2]);
    return true;
}

/* When a change happens: Mm.w.d, Jn or n, and the time of that day. */
struct rule {
    char kind; /* M, J or 0 */
    int month;
    int week;
    int day;
    int time_s;
};

static bool take_rule(struct text *text, struct rule *rule) {
    *rule = (struct rule){.time_s = 7200};
    bool good;
    if (take(text, 'M')) {
        rule->kind = 'M';
        good = take_number(text, 12, &rule->month) && take(text, '.') && take_number(text, 5, &rule->week) &&
               take(text, '.') && take_number(text, 6, &rule->day) && rule->month > 0 && rule->week > 0;
    } else if (take(text, 'J')) {
        rule->kind = 'J';
        good = take_number(text, 365, &rule->day) && rule->day > 0;
    } else {
        good = take_number(text, 365, &rule->day);
    }
    return good && (!take(text, '/') || take_time(text, &rule->time_s));
}

/* Local time of the change in that year, as seconds since 1970 if the clock showed UTC. */
static int64_t rule_in(const struct rule *rule, int64_t year) {
    int64_t first = ten_days_from_civil(year, rule->kind == 'M' ? (unsigned)rule->month : 1, 1);
    int64_t day = first + rule->day;
    if (rule->kind == 'J') {
        bool leap = ten_days_of_month(year, 2) == 29;
        day = first + rule->day - 1 + (leap && rule->day >= 60);
    } else if (rule->kind == 'M') {
        int64_t weekday = ((first % 7) + 11) % 7; /* 1970-01-01 was a Thursday */
        day = first + (rule->day - weekday + 7) % 7 + (int64_t)(rule->week - 1) * 7;
        while (day >= first + (int64_t)ten_days_of_month(year, (unsigned)rule->month))
            day -= 7;
    }
    return day * DAY_S + rule->time_s;
}

static bool unroll(ten_zone *zone, int32_t standard_s, int32_t summer_s, const struct rule *starts,
                   const struct rule *ends) {
    int64_t last_s = zone->count ? zone->transitions[zone->count - 1].at_s : INT64_MIN;
    int64_t year = 1970;
    unsigned month;
    unsigned day;
    if (zone->count)
        ten_civil_from_days(last_s / DAY_S, &year, &month, &day);
    for (year -= 1; year <= LAST_YEAR; year++) {
        int64_t to_summer_s = rule_in(starts, year) - standard_s;
        int64_t to_standard_s = rule_in(ends, year) - summer_s;
        bool first_summer = to_summer_s < to_standard_s;
        for (unsigned i = 0; i < 2; i++) {
            bool summer = (i == 0) == first_summer;
            int64_t at_s = summer ? to_summer_s : to_standard_s;
            if (at_s > last_s && !add(zone, at_s, summer ? summer_s : standard_s))
                return false;
        }
    }
    return true;
}

static bool follow_footer(ten_zone *zone, struct text text) {
    int standard_s;
    int summer_s;
    struct rule starts;
    struct rule ends;
    if (text.at == text.end)
        return true;
    if (!take_name(&text) || !take_time(&text, &standard_s))
        return false;
    standard_s = -standard_s;
    if (text.at == text.end) {
        int64_t last_s = zone->count ? zone->transitions[zone->count - 1].at_s : INT64_MIN / 2;
        if (!zone->count)
            zone->first_offset_s = standard_s;
        return add(zone, last_s + 1, standard_s);
    }
    if (!take_name(&text))
        return false;
    summer_s = standard_s + 3600;
    if (text.at < text.end && *text.at != ',') {
        if (!take_time(&text, &summer_s))
            return false;
        summer_s = -summer_s;
    }
    if (!take(&text, ',') || !take_rule(&text, &starts) || !take(&text, ',') || !take_rule(&text, &ends) ||
        text.at != text.end)
        return false;
    return unroll(zone, standard_s, summer_s, &starts, &ends);
}

/* ---- the file */

static uint64_t read_big(const unsigned char *at, unsigned bytes) {
    uint64_t number = 0;
    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

struct counts {
    uint64_t utc, standard, leaps, times, types, letters;
};

static bool read_header(const unsigned char *data, size_t size, struct counts *counts) {
    if (size < HEADER_SIZE || memcmp(data, "TZif", 4) != 0)
        return false;
    uint64_t numbers[6];
    for (unsigned i = 0; i < 6; i++)
        numbers[i] = read_big(data + 20 + 4 * i, 4);
    *counts = (struct counts){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
    return counts->types > 0 && counts->types <= TYPES_MAX && counts->times <= TIMES_MAX &&
           counts->letters <= TIMES_MAX && counts->leaps <= TIMES_MAX && counts->utc <= TYPES_MAX &&
           counts->standard <= TYPES_MAX;
}

static size_t block_size(const struct counts *counts, unsigned width) {
    return (size_t)(counts->times * width + counts->times + counts->types * 6 + counts->letters +
                    counts->leaps * (width + 4) + counts->standard + counts->utc);
}

static bool read_block(const unsigned char *block, const struct counts *counts, unsigned width, ten_zone *zone) {
    const unsigned char *kinds = block + counts->times * width;
    const unsigned char *types = kinds + counts->times;
    zone->first_offset_s = (int32_t)read_big(types, 4);
    for (uint64_t i = 0; i < counts->times; i++) {
        uint64_t raw = read_big(block + i * width, width);
        int64_t at_s = width == 8 ? (int64_t)raw : (int32_t)raw;
        if (kinds[i] >= counts->types || !add(zone, at_s, (int32_t)read_big(types + kinds[i] * 6, 4)))
            return false;
    }
    return true;
}

static bool parse(const unsigned char *data, size_t size, ten_zone *zone) {
    struct counts counts;
    if (!read_header(data, size, &counts))
        return false;
    size_t first = block_size(&counts, 4);
    if (size - HEADER_SIZE < first)
        return false;
    if (data[4] < '2')
        return read_block(data + HEADER_SIZE, &counts, 4, zone);
    const unsigned char *second = data + HEADER_SIZE + first;
    size_t left = size - HEADER_SIZE - first;
    if (!read_header(second, left, &counts) || left - HEADER_SIZE < block_size(&counts, 8) ||
        !read_block(second + HEADER_SIZE, &counts, 8, zone))
        return false;
    const char *footer = (const char *)second + HEADER_SIZE + block_size(&counts, 8);
    const char *end = (const char *)data + size;
    if (footer == end || *footer != '\n')
        return footer == end;
    const char *line = memchr(footer + 1, '\n', (size_t)(end - footer - 1));
    return line && follow_footer(zone, (struct text){footer + 1, line});
}

bool ten_zone_parse(const void *data, size_t size, ten_zone *ret_zone) {
    *ret_zone = (ten_zone){0};
    if (parse(data, size, ret_zone))
        return true;
    ten_zone_free(ret_zone);
    return false;
}
