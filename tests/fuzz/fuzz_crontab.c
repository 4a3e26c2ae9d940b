/*
 * Lines of crontabs and the bytes of time zones. Whatever is read has instants that only increase, and its name and command
 * are parts of the line.
 */
#include <string.h>

#include "core/crontab.h"
#include "fuzz.h"

static void look_at_instants(const ten_cron_schedule *schedule, const ten_zone *zone) {
    int64_t at_ms = INT64_C(1774700000000);
    for (unsigned i = 0; i < 5; i++) {
        int64_t next_ms = ten_cron_next(schedule, zone, at_ms);
        FUZZ_CHECK(next_ms > at_ms);
        if (next_ms == TEN_CRON_NEVER)
            return;
        FUZZ_CHECK(ten_cron_last(schedule, zone, at_ms, next_ms) == next_ms);
        at_ms = next_ms;
    }
}

static int look_at_run(const ten_cron_run *run, void *userdata) {
    (void)userdata;
    FUZZ_CHECK((unsigned)run->end < TEN_CRON_ENDS && run->instant_ms >= 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char line[4096];
    char text[8192];
    ten_crontab_line job;
    ten_cron_mistake mistake = {0};
    ten_zone zone = {0};
    if (size >= sizeof line)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    if (ten_zone_parse(data, size, &zone))
        for (int64_t at_s = -3000000000; at_s < 9000000000; at_s += 86399 * 31)
            (void)ten_zone_offset(&zone, at_s);
    if (ten_crontab_parse(line, &job, &mistake)) {
        FUZZ_CHECK(job.command > line && job.command < line + strlen(line));
        FUZZ_CHECK(strstr(line, job.name) != NULL);
        look_at_instants(&job.schedule, &ten_zone_utc);
    } else {
        FUZZ_CHECK(mistake.at <= strlen(line) && mistake.reason[0] != '\0');
    }
    if (ten_crontab_import(line, "name", text, sizeof text, &mistake))
        FUZZ_CHECK(ten_crontab_parse(text, &job, &mistake));
    ten_cron_log log = {0};
    ten_cron_log_read(&log, line);
    ten_cron_log_pass_on(&log, 7);
    ten_cron_log_add(&log, &(ten_cron_run){.instant_ms = 1});
    ten_cron_log_cut(&log);
    ten_cron_log_write(&log, text, sizeof text);
    (void)ten_cron_log_each(line, look_at_run, &log);
    ten_cron_memory memory;
    if (ten_cron_memory_read(line, &memory)) {
        char again[TEN_CRON_MEMORY_SIZE];
        ten_cron_memory_write(&memory, again);
        FUZZ_CHECK(ten_cron_memory_read(again, &memory));
    }
    ten_zone_free(&zone);
    return 0;
}
