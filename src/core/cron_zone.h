/*
 * Offsets of a time zone from UTC, read from the bytes of a TZif file (RFC 8536, what /usr/share/zoneinfo has). Pure:
 * the caller reads the file. Times behind the last transition of the file follow its footer rule, which is unrolled up
 * to the year 2199; after that the last offset stays. Used by core/cron.h.
 */
#ifndef TEN_CORE_CRON_ZONE_H
#define TEN_CORE_CRON_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From `at_s` (Unix time) on, local time is UTC + offset_s. */
typedef struct ten_zone_transition {
    int64_t at_s;
    int32_t offset_s;
} ten_zone_transition;

typedef struct ten_zone {
    int32_t first_offset_s; /* before the first transition */
    ten_zone_transition *transitions;
    uint32_t count;
    uint32_t room;
} ten_zone;

/* UTC. */
extern const ten_zone ten_zone_utc;

/* False: these are not the bytes of a TZif file, or there is no memory; then the zone is empty. */
bool ten_zone_parse(const void *data, size_t size, ten_zone *ret_zone);
void ten_zone_free(ten_zone *zone);

/* How far local time is ahead of UTC at that moment. */
int32_t ten_zone_offset(const ten_zone *zone, int64_t at_s);
/* How many transitions lie at or before that moment. */
size_t ten_zone_count_until(const ten_zone *zone, int64_t at_s);

/* ---- the calendar */

/* Days since 1970-01-01 of a date; months are 1 to 12. */
int64_t ten_days_from_civil(int64_t year, unsigned month, unsigned day);
void ten_civil_from_days(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day);
unsigned ten_days_of_month(int64_t year, unsigned month);

#endif
