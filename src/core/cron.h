/*
 * Schedules as crontabs have them: which instants they mean. Pure: text, offsets of a zone and times in, instants out.
 * Called by core/cron_job.h and by `tenure cron`.
 *
 * A schedule is five fields (minute, hour, day of the month, month, weekday) with names, ranges, steps and lists, one
 * of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, or `@every D`. Fields mean local time of the
 * zone; if both days are given (neither begins with `*`) one of them is enough. `@every D` are the multiples of D since
 * 1970-01-01 00:00 UTC, so that every host means the same ones.
 *
 * Where the clock is changed:
 *  - A fixed time of the day (neither the minute nor the hour begins with `*`) that is left out comes at the moment
 *    of the change, and one that comes twice is meant the first time alone.
 *  - Otherwise a schedule follows the clock on the wall: what is left out does not come, what comes twice comes twice.
 */
#ifndef TEN_CORE_CRON_H
#define TEN_CORE_CRON_H

#include "base/util.h"
#include "core/cron_zone.h"

typedef struct ten_cron_schedule {
    uint64_t minutes;  /* bit 0 to 59 */
    uint32_t hours;    /* bit 0 to 23 */
    uint32_t days;     /* bit 1 to 31 */
    uint32_t months;   /* bit 1 to 12 */
    uint32_t weekdays; /* bit 0 (Sunday) to 6 */
    bool either_day;   /* one of days and weekdays is enough */
    bool fixed;        /* a fixed time of the day */
    uint64_t every_ms; /* @every; 0: the fields */
} ten_cron_schedule;

/* What is wrong with a text, and where. */
typedef struct ten_cron_mistake {
    size_t at; /* bytes from the start of the text */
    char reason[120];
} ten_cron_mistake;

/* Says what is wrong in the text, and where. Returns false. */
bool ten_cron_fail(ten_cron_mistake *mistake, const char *start, const char *at, const char *format, ...)
    TEN_PRINTF(4, 5);

#define TEN_CRON_EVERY_MIN_MS UINT64_C(1000)

/* Reads a schedule from the start of the text; *ret_size: how much of it that was. False: *mistake says why. A schedule
 * that never comes (30 February) is a mistake. */
bool ten_cron_parse(const char *text, ten_cron_schedule *ret_schedule, size_t *ret_size, ten_cron_mistake *mistake);

#define TEN_CRON_NEVER INT64_MAX
/* The first instant after that one, in ms of Unix time; TEN_CRON_NEVER: there is none within 40 years. */
int64_t ten_cron_next(const ten_cron_schedule *schedule, const ten_zone *zone, int64_t after_ms);
/* The last one that is not after `at_ms`, but after `after_ms`; TEN_CRON_NEVER: there is none. */
int64_t ten_cron_last(const ten_cron_schedule *schedule, const ten_zone *zone, int64_t after_ms, int64_t at_ms);

#endif
