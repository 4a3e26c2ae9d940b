/*
 * The system's clock, and times as text. Called by the runtime, the stores and the commands; never by the core.
 */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/io.h"
#include "base/util.h"

#define WAIT_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000)

static uint64_t read_ms(clockid_t id) {
    struct timespec now;
    /* Cannot fail for a clock that the kernel has had since 2.6.39; without it nothing may be believed. */
    TEN_INVARIANT(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static uint64_t system_boot_ms(void *arg) {
    (void)arg;
    return read_ms(CLOCK_BOOTTIME);
}

static uint64_t system_wall_ms(void *arg) {
    (void)arg;
    return read_ms(CLOCK_REALTIME);
}

static void system_boot_id(void *arg, char id[TEN_BOOT_ID_SIZE]) {
    (void)arg;
    if (ten_read_line(TEN_BOOT_ID_PATH, id, TEN_BOOT_ID_SIZE) < 0)
        id[0] = '\0';
}

static uint64_t system_time_namespace(void *arg) {
    struct stat info;
    (void)arg;
    return stat("/proc/self/ns/time", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

const ten_clock ten_system_clock = {
    .boot_ms = system_boot_ms,
    .wall_ms = system_wall_ms,
    .boot_id = system_boot_id,
    .time_namespace = system_time_namespace,
};

uint64_t ten_boot_us(void) {
    struct timespec now;
    TEN_INVARIANT(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

void ten_rfc3339(uint64_t wall_ms, char text[TEN_RFC3339_SIZE]) {
    time_t seconds = (time_t)(wall_ms / 1000u);
    struct tm parts;
    char date[TEN_RFC3339_SIZE - 5];
    if (!gmtime_r(&seconds, &parts) || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        snprintf(date, sizeof date, "0000-00-00T00:00:00");
    snprintf(text, TEN_RFC3339_SIZE, "%.20s.%03uZ", date, (unsigned)(wall_ms % 1000u));
}

struct timespec ten_monotonic_end(uint64_t wait_ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    wait_ms = ten_min_u64(wait_ms, WAIT_MAX_MS);
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + wait_ms % 1000u * 1000000u;
    end.tv_sec += (time_t)(wait_ms / 1000u + nanoseconds / 1000000000u);
    end.tv_nsec = (long)(nanoseconds % 1000000000u);
    return end;
}
