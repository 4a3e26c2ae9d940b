/*
 * Time behind an interface, so that a test or the simulator can be the clock. Belief and expiry are counted on the boot
 * clock (CLOCK_BOOTTIME: it counts suspend, and cannot be set). The wall clock is for display and for
 * nothing else. The boot id and the time namespace say between which readings of the boot clock a comparison means
 * anything.
 */
#ifndef TEN_BASE_CLOCK_H
#define TEN_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define TEN_BOOT_ID_SIZE 40u /* a UUID as text, with its NUL */

typedef struct ten_clock {
    uint64_t (*boot_ms)(void *arg);
    uint64_t (*wall_ms)(void *arg);
    /* Fills in the boot id as text; "" when the system has none. */
    void (*boot_id)(void *arg, char id[TEN_BOOT_ID_SIZE]);
    /* A number that differs between time namespaces; 0 when the system has none. */
    uint64_t (*time_namespace)(void *arg);
    void *arg;
} ten_clock;

extern const ten_clock ten_system_clock;
#define TEN_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

static inline uint64_t ten_boot_ms(const ten_clock *clock) {
    return clock->boot_ms(clock->arg);
}

/* The system's boot clock, where no test stands in for it: time-outs of connections, pauses between tries. */
static inline uint64_t ten_now_ms(void) {
    return ten_boot_ms(&ten_system_clock);
}

static inline uint64_t ten_wall_ms(const ten_clock *clock) {
    return clock->wall_ms(clock->arg);
}

/* The system's boot clock in microseconds, for measuring how long a call took. */
uint64_t ten_boot_us(void);

/* The moment that long from now on CLOCK_MONOTONIC, for pthread_cond_timedwait(); without end means a year. */
struct timespec ten_monotonic_end(uint64_t wait_ms);

#define TEN_RFC3339_SIZE 32u
/* Unix milliseconds as RFC 3339 in UTC: 2026-11-15T04:41:00.123Z */
void ten_rfc3339(uint64_t wall_ms, char text[TEN_RFC3339_SIZE]);

#endif
