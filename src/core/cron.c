/*
 * Schedules: reading them, and the search for instants. See cron.h.
 */
#include "core/cron.h"

#include <stdarg.h>
#include <string.h>

#include "base/duration.h"
#include "base/util.h"

#define MINUTE_S    INT64_C(60)
#define HOUR_S      INT64_C(3600)
#define DAY_S       INT64_C(86400)
#define YEARS_MAX   40
#define SHIFT_MAX_S (26 * HOUR_S) /* no two offsets of a zone differ by more */

/* ---- reading */

struct reader {
    const char *start;
    const char *at;
    ten_cron_mistake *mistake;
};

bool ten_cron_fail(ten_cron_mistake *mistake, const char *start, const char *at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mistake->at = (size_t)(at - start);
    vsnprintf(mistake->reason, sizeof mistake->reason, format, args);
    va_end(args);
    return false;
}

#define fail(reader, ...) ten_cron_fail((reader)->mistake, (reader)->start, (reader)->at, __VA_ARGS__)

struct field {
    const char *name;
    unsigned least;
    unsigned most;
    const char *const *words; /* of least, least + 1...; NULL: none */
};

static const char *const month_words[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_words[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};
/* 7 is Sunday, too. */
static const struct field fields[] = {{"the minute", 0, 59, NULL},
                                      {"the hour", 0, 23, NULL},
                                      {"the day of the month", 1, 31, NULL},
                                      {"the month", 1, 12, month_words},
                                      {"the weekday", 0, 7, weekday_words}};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_end(char c) {
    return c == '\0' || c == ' ' || c == '\t';
}

static unsigned take_digits(struct reader *reader) {
    unsigned number = 0;
    while (is_digit(*reader->at) && number < 1000)
        number = number * 10 + (unsigned)(*reader->at++ - '0');
    return number;
}

/* The first three letters, in whatever case. */
static bool begins_with(const char *text, const char *word) {
    for (size_t i = 0; i < 3; i++)
        if ((text[i] | 0x20) != word[i])
            return false;
    return true;
}

static bool take_number(struct reader *reader, const struct field *field, unsigned *ret_number) {
    if (!is_digit(*reader->at)) {
        for (unsigned i = 0; field->words && field->words[i]; i++) {
            if (!begins_with(reader->at, field->words[i]))
                continue;
            reader->at += 3;
            *ret_number = field->least + i;
            return true;
        }
        return is_end(*reader->at) ? fail(reader, "%s is incomplete", field->name)
                                   : fail(reader, "%s has a '%c' where a number%s is expected", field->name,
                                          *reader->at, field->words ? " or a name" : "");
    }
    const char *start = reader->at;
    unsigned number = *ret_number = take_digits(reader);
    if (number >= field->least && number <= field->most)
        return true;
    reader->at = start;
    return fail(reader, "%s is %u to %u, not %.*s", field->name, field->least, field->most,
                (int)ten_min_u64(strspn(start, "0123456789"), 20), start);
}

/* A number, a range or `*`, each perhaps with a step. */
static bool take_part(struct reader *reader, const struct field *field, uint64_t *bits) {
    unsigned first = field->least;
    unsigned last = field->most;
    unsigned step = 1;
    bool ranged = true;
    const char *start = reader->at;
    if (*reader->at == '*') {
        reader->at++;
        last -= field->words == weekday_words; /* 7 is 0 */
    } else {
        if (!take_number(reader, field, &first))
            return false;
        last = first;
        ranged = *reader->at == '-';
        if (ranged) {
            reader->at++;
            if (!take_number(reader, field, &last))
                return false;
        }
        if (last < first) {
            reader->at = start;
            return fail(reader, "%s has the range %u-%u, which ends before it begins", field->name, first, last);
        }
    }
    if (*reader->at == '/') {
        reader->at++;
        if (!ranged)
            return fail(reader, "%s has a step without a range: write */N or A-B/N", field->name);
        if (!is_digit(*reader->at))
            return fail(reader, "%s has a step that is no number", field->name);
        step = take_digits(reader);
        if (step == 0)
            return fail(reader, "%s has a step of 0", field->name);
    }
    for (unsigned i = first; i <= last; i += step)
        *bits |= UINT64_C(1) << i;
    return true;
}

static bool take_field(struct reader *reader, const struct field *field, uint64_t *ret_bits) {
    *ret_bits = 0;
    while (*reader->at == ' ' || *reader->at == '\t')
        reader->at++;
    if (*reader->at == '\0')
        return fail(reader, "%s is missing: a schedule has five fields", field->name);
    do {
        if (!take_part(reader, field, ret_bits))
            return false;
    } while (*reader->at == ',' && reader->at++);
    return is_end(*reader->at) || fail(reader, "%s has a '%c' that means nothing there", field->name, *reader->at);
}

static bool take_fields(struct reader *reader, ten_cron_schedule *schedule) {
    uint64_t bits[TEN_COUNT(fields)];
    bool stars[TEN_COUNT(fields)];
    const char *start = reader->at;
    for (size_t i = 0; i < TEN_COUNT(fields); i++) {
        const char *at = reader->at + strspn(reader->at, " \t");
        stars[i] = *at == '*';
        if (!take_field(reader, &fields[i], &bits[i]))
            return false;
    }
    *schedule = (ten_cron_schedule){.minutes = bits[0],
                                    .hours = (uint32_t)bits[1],
                                    .days = (uint32_t)bits[2],
                                    .months = (uint32_t)bits[3],
                                    .weekdays = (uint32_t)((bits[4] | bits[4] >> 7) & 0x7f),
                                    .either_day = !stars[2] && !stars[4],
                                    .fixed = !stars[0] && !stars[1]};
    if (ten_cron_next(schedule, &ten_zone_utc, 0) != TEN_CRON_NEVER)
        return true;
    reader->at = start;
    return fail(reader, "this schedule never comes: no such month has such a day");
}

static bool take_every(struct reader *reader, ten_cron_schedule *schedule) {
    char text[32];
    reader->at += strspn(reader->at, " \t");
    size_t size = strcspn(reader->at, " \t");
    *schedule = (ten_cron_schedule){0};
    if (size == 0)
        return fail(reader, "@every needs a duration, such as 90s or 15m");
    if (size >= sizeof text)
        return fail(reader, "this is no duration: write 500ms, 30s, 5m, 2h or 1d");
    memcpy(text, reader->at, size);
    text[size] = '\0';
    ten_error error;
    if (ten_duration_parse(text, &schedule->every_ms, &error) < 0)
        return fail(reader, "%.100s", error.message);
    if (schedule->every_ms < TEN_CRON_EVERY_MIN_MS || schedule->every_ms > TENURE_TTL_MAX_MS)
        return fail(reader, "@every is 1s to 366d");
    reader->at += size;
    return true;
}

static bool take_word(struct reader *reader, ten_cron_schedule *schedule) {
    static const struct {
        const char *word;
        const char *fields;
    } words[] = {{"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                 {"@weekly", "0 0 * * 0"},  {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
                 {"@annually", "0 0 1 1 *"}};
    size_t size = strcspn(reader->at, " \t");
    if (size == 6 && strncmp(reader->at, "@every", 6) == 0) {
        reader->at += 6;
        return take_every(reader, schedule);
    }
    for (size_t i = 0; i < TEN_COUNT(words); i++) {
        if (strlen(words[i].word) != size || strncmp(reader->at, words[i].word, size) != 0)
            continue;
        struct reader inner = {words[i].fields, words[i].fields, reader->mistake};
        reader->at += size;
        return take_fields(&inner, schedule);
    }
    return fail(reader,
                "'%.*s' is no schedule: write five fields, @hourly, @daily, @weekly, @monthly, @yearly or @every D",
                (int)ten_min_u64(size, 20), reader->at);
}

bool ten_cron_parse(const char *text, ten_cron_schedule *ret_schedule, size_t *ret_size, ten_cron_mistake *mistake) {
    struct reader reader = {text, text, mistake};
    reader.at += strspn(reader.at, " \t");
    bool good = *reader.at == '@' ? take_word(&reader, ret_schedule) : take_fields(&reader, ret_schedule);
    if (good)
        *ret_size = (size_t)(reader.at - text);
    return good;
}

/* ---- searching; local time is counted in seconds as if the clock showed UTC */

static int64_t floor_to(int64_t value, int64_t unit) {
    int64_t rest = value % unit;
    return value - (rest < 0 ? rest + unit : rest);
}

static bool matches_day(const ten_cron_schedule *schedule, int64_t days, unsigned month, unsigned day) {
    int64_t weekday = ((days % 7) + 11) % 7;
    bool by_day = schedule->days >> day & 1;
    bool by_weekday = schedule->weekdays >> weekday & 1;
    return schedule->months >> month & 1 && (schedule->either_day ? by_day || by_weekday : by_day && by_weekday);
}

/* The first time of the day from that second on; -1: none. */
static int64_t next_in_day(const ten_cron_schedule *schedule, int64_t from_s) {
    for (int64_t hour = from_s / HOUR_S; hour < 24; hour++) {
        if (!(schedule->hours >> hour & 1))
            continue;
        int64_t minute = hour == from_s / HOUR_S ? (from_s % HOUR_S + 59) / 60 : 0;
        if (minute > 59)
            continue;
        uint64_t left = schedule->minutes >> minute;
        if (left)
            return hour * HOUR_S + (minute + __builtin_ctzll(left)) * MINUTE_S;
    }
    return -1;
}

/* The first local time that is not before `local_s`; TEN_CRON_NEVER: none. */
static int64_t next_local(const ten_cron_schedule *schedule, int64_t local_s) {
    int64_t start = floor_to(local_s, DAY_S) / DAY_S;
    int64_t from_s = local_s - start * DAY_S;
    int64_t last_year;
    unsigned month;
    unsigned day;
    int64_t year;
    ten_civil_from_days(start, &last_year, &month, &day);
    last_year += YEARS_MAX;
    for (int64_t days = start;; from_s = 0) {
        ten_civil_from_days(days, &year, &month, &day);
        if (year > last_year)
            return TEN_CRON_NEVER;
        if (!(schedule->months >> month & 1)) {
            days += (int64_t)ten_days_of_month(year, month) - (int64_t)day + 1;
            continue;
        }
        int64_t found = matches_day(schedule, days, month, day) ? next_in_day(schedule, from_s) : -1;
        if (found >= 0)
            return days * DAY_S + found;
        days++;
    }
}

/* Between two changes of a zone's clock local time goes on evenly. */
struct stretch {
    size_t number;
    int64_t start_s; /* INT64_MIN: there was no change before */
    int64_t end_s;   /* INT64_MAX: there is none after */
    int32_t offset_s;
};

static struct stretch stretch_of(const ten_zone *zone, size_t number) {
    bool first = number == 0;
    bool last = number == zone->count;
    return (struct stretch){.number = number,
                            .start_s = first ? INT64_MIN : zone->transitions[number - 1].at_s,
                            .end_s = last ? INT64_MAX : zone->transitions[number].at_s,
                            .offset_s = first ? zone->first_offset_s : zone->transitions[number - 1].offset_s};
}

/* What the clock had shown, or passed over, before it was changed to what this stretch begins with. Changes may
 * follow each other closely. */
static int64_t shown_before(const ten_zone *zone, const struct stretch *stretch) {
    int64_t shown_s = INT64_MIN;
    for (size_t i = stretch->number; i-- > 0;) {
        struct stretch before = stretch_of(zone, i);
        if (before.end_s < stretch->start_s - 2 * SHIFT_MAX_S)
            break;
        int64_t local_s = before.end_s + before.offset_s;
        shown_s = local_s > shown_s ? local_s : shown_s;
    }
    return shown_s;
}

/* The first instant after `after_s` in a stretch; TEN_CRON_NEVER: none, *ret_over if none can follow either. */
static int64_t next_in(const ten_cron_schedule *schedule, const ten_zone *zone, const struct stretch *stretch,
                       int64_t after_s, bool *ret_over) {
    bool begins = stretch->start_s > after_s;
    int64_t local_s = (begins ? stretch->start_s : after_s + 1) + stretch->offset_s;
    if (schedule->fixed && stretch->number > 0) {
        int64_t shown_s = shown_before(zone, stretch);
        /* What the clock passes over comes at the change, and what it shows again does not count. */
        if (begins && shown_s < local_s && next_local(schedule, shown_s) < local_s)
            return stretch->start_s;
        local_s = shown_s > local_s ? shown_s : local_s;
    }
    int64_t found_s = next_local(schedule, local_s);
    *ret_over = found_s == TEN_CRON_NEVER;
    return found_s != TEN_CRON_NEVER && found_s - stretch->offset_s < stretch->end_s ? found_s - stretch->offset_s
                                                                                     : TEN_CRON_NEVER;
}

static int64_t next_second(const ten_cron_schedule *schedule, const ten_zone *zone, int64_t after_s) {
    int64_t found_s = TEN_CRON_NEVER;
    bool over = false;
    for (size_t i = ten_zone_count_until(zone, after_s + 1); found_s == TEN_CRON_NEVER && i <= zone->count && !over;
         i++) {
        struct stretch stretch = stretch_of(zone, i);
        found_s = next_in(schedule, zone, &stretch, after_s, &over);
    }
    return found_s;
}

int64_t ten_cron_next(const ten_cron_schedule *schedule, const ten_zone *zone, int64_t after_ms) {
    if (schedule->every_ms) {
        int64_t every_ms = (int64_t)schedule->every_ms;
        return floor_to(after_ms, every_ms) + every_ms;
    }
    int64_t at_s = next_second(schedule, zone, floor_to(after_ms, 1000) / 1000);
    return at_s == TEN_CRON_NEVER ? TEN_CRON_NEVER : at_s * 1000;
}

int64_t ten_cron_last(const ten_cron_schedule *schedule, const ten_zone *zone, int64_t after_ms, int64_t at_ms) {
    int64_t window_ms = MINUTE_S * 1000;
    int64_t from_ms = at_ms;
    if (schedule->every_ms) {
        int64_t last_ms = floor_to(at_ms, (int64_t)schedule->every_ms);
        return last_ms > after_ms ? last_ms : TEN_CRON_NEVER;
    }
    /* Back by twice as much each time, until there is one; what is found is then gone through forwards. */
    int64_t found = TEN_CRON_NEVER;
    while (from_ms > after_ms) {
        from_ms = at_ms - window_ms > after_ms ? at_ms - window_ms : after_ms;
        found = ten_cron_next(schedule, zone, from_ms);
        if (found <= at_ms)
            break;
        window_ms *= 2;
    }
    if (found > at_ms)
        return TEN_CRON_NEVER;
    for (int64_t next; (next = ten_cron_next(schedule, zone, found)) <= at_ms;)
        found = next;
    return found;
}
