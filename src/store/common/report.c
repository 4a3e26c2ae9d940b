/*
 * See report.h. Called by the stores' check functions.
 */
#include "store/common/report.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"

#define CLOCK_APART_MS 2000

void ten_report_tell(const ten_report *report, enum tenure_check_level level, const char *check, const char *found,
                     const char *advice) {
    report->each(level, check, found, level == TENURE_CHECK_OK ? "" : advice, report->userdata);
}

void ten_report_clock(const ten_report *report, int64_t apart_ms, const char *advice) {
    char found[96];
    snprintf(found, sizeof found, "%+lld ms from this host's", (long long)apart_ms);
    bool close = apart_ms < CLOCK_APART_MS && apart_ms > -CLOCK_APART_MS;
    ten_report_tell(report, close ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "server's clock", found, advice);
}

void ten_report_encryption(const ten_report *report, bool tls, const char *host, const char *advice) {
    char name[300];
    snprintf(name, sizeof name, "%.*s", host ? (int)strcspn(host, "/") : 0, host ? host : "");
    bool local = !host || ten_host_is_loopback(name);
    ten_report_tell(report, tls || local ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "encryption",
                    tls     ? "TLS, and the server's name is verified"
                    : local ? "not needed: the server is on this host"
                            : "leases and secrets go over the network in clear",
                    advice);
}
