/*
 * What a store's check() finds, handed to `tenure doctor` one finding at a time. Shared by all stores.
 */
#ifndef TEN_STORE_REPORT_H
#define TEN_STORE_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <tenure.h>

typedef struct ten_report {
    tenure_check_fn each;
    void *userdata;
} ten_report;

/* One finding; the advice is for those that are not TENURE_CHECK_OK. */
void ten_report_tell(const ten_report *report, enum tenure_check_level level, const char *check, const char *found,
                     const char *advice);
/* How far the server's clock is from this host's: a warning from 2 s on. */
void ten_report_clock(const ten_report *report, int64_t apart_ms, const char *advice);

/* Whether others can read what goes to the server. host: "cache-1:6379", and what follows after a slash; NULL: a socket
 * of this host. */
void ten_report_encryption(const ten_report *report, bool tls, const char *host, const char *advice);

#define TEN_REPORT_CLOCK_LOGS                                                                                          \
    "leases do not mind (each side counts by itself), but logs will not match: let NTP steer it"
#define TEN_REPORT_CLOCK_JUMPS                                                                                         \
    "leases do not mind (each side counts by itself), but a server's clock that jumps forward ends them early: "       \
    "let NTP steer it"

#endif
