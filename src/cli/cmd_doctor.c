/*
 * tenure doctor: is the store there, is the clock sane, can commands be ended, and does the TTL leave room for the
 * latency that is measured?
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/url.h"
#include "cli/commands.h"
#include "cli/fleet_check.h"
#include "cli/host_check.h"
#include "runtime/context.h"

#define PINGS                 20u
#define EARLIEST_SANE_WALL_MS UINT64_C(1735689600000) /* 2025-01-01: this program did not exist before */

struct report {
    const ten_arguments *arguments;
    int worst;
    uint64_t fleet_ttl_ms; /* 0: there is no fleet */
    bool has_failure;      /* the report names the error that ends the command */
};

static void print_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                        void *userdata) {
    static const char *const words[] = {"ok", "warn", "FAIL"};
    static const char *const keys[] = {"ok", "warn", "fail"};
    struct report *report = userdata;
    if ((int)level > report->worst)
        report->worst = (int)level;
    if (!report->arguments->json) {
        printf("%-5s %-22s ", words[level], check);
        ten_print_visible(stdout, found);
        if (advice[0]) {
            printf("\n      %-22s -> ", "");
            ten_print_visible(stdout, advice);
        }
        printf("\n");
        return;
    }
    TEN_PRINT_ROW(true, {NULL, "check", .text = check}, {NULL, "level", .text = keys[level]},
                  {NULL, "found", .text = found}, {NULL, "advice", .text = ten_or_null(advice)});
}

static void check_clock(struct report *report) {
    char wall[TEN_RFC3339_SIZE];
    char found[128];
    uint64_t wall_ms = ten_wall_ms(&ten_system_clock);
    ten_rfc3339(wall_ms, wall);
    snprintf(found, sizeof found, "wall clock %s (for display only; leases run on CLOCK_BOOTTIME)", wall);
    bool sane = wall_ms >= EARLIEST_SANE_WALL_MS;
    print_check(sane ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "clock", found,
                sane ? "" : "set the clock: leases are not harmed, but times in logs and instance ids are wrong",
                report);
}

/* It is moved out of sight at the start (secrets.h), but was there, and may be in a shell's history. */
static void check_password(struct report *report) {
    const char *authority = report->arguments->store ? strstr(report->arguments->store, "://") : NULL;
    const char *at = authority ? memrchr(authority + 3, '@', strcspn(authority + 3, "/?#")) : NULL;
    if (at && memchr(authority + 3, ':', (size_t)(at - authority - 3)))
        print_check(TENURE_CHECK_WARN, "password", "the URL of the store has a password in it",
                    "put it into a file that only this user can read, and name that: password_file=PATH", report);
}

/* Files with secrets that the URL names. */
static void check_secret_files(struct report *report) {
    static const char *const options[] = {"password_file", "token_file", "key_file"};
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    ten_error error;
    if (!report->arguments->store || ten_url_parse(report->arguments->store, &url, &error) < 0)
        return;
    for (size_t i = 0; i < TEN_COUNT(options); i++) {
        struct stat about;
        const char *path = ten_url_option(&url, options[i]);
        if (!path || stat(path, &about) != 0)
            continue;
        bool exposed = about.st_mode & (S_IROTH | S_IWOTH);
        print_check(exposed ? TENURE_CHECK_WARN : TENURE_CHECK_OK, options[i],
                    exposed ? "every user can read the file, or change it" : "only its user or group can read the file",
                    exposed ? "chmod o-rw the file" : "", report);
    }
}

static int compare(const void *a, const void *b) {
    uint64_t first = *(const uint64_t *)a;
    uint64_t second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static int check_latency(struct report *report) {
    uint64_t elapsed_us[PINGS];
    for (size_t i = 0; i < PINGS; i++) {
        int r = tenure_store_ping(report->arguments->context, &elapsed_us[i]);
        if (r < 0)
            return r;
    }
    qsort(elapsed_us, PINGS, sizeof elapsed_us[0], compare);
    uint64_t worst_us = elapsed_us[PINGS - 1];
    char found[128];
    snprintf(found, sizeof found, "renewal round trip: median %.2f ms, worst of %u %.2f ms",
             (double)elapsed_us[PINGS / 2] / 1000, PINGS, (double)worst_us / 1000);
    print_check(TENURE_CHECK_OK, "latency", found, "", report);

    ten_timing timing = report->arguments->timing;
    if (timing.ttl_ms == 0) /* not asked about another: what the fleet uses */
        timing.ttl_ms = report->fleet_ttl_ms;
    ten_timing_defaults(&timing);
    char ttl[TEN_DURATION_SIZE];
    char room[TEN_DURATION_SIZE];
    /* What is left after two renewal intervals is what a renewal that had to be repeated may take. */
    uint64_t room_ms = timing.ttl_ms - timing.margin_ms - 2 * timing.renew_ms;
    ten_duration_show(timing.ttl_ms, ttl);
    ten_duration_show(room_ms, room);
    snprintf(found, sizeof found, "TTL %s leaves %s for a renewal that fails once", ttl, room);
    enum tenure_check_level level = worst_us > room_ms * 1000  ? TENURE_CHECK_FAIL
                                    : worst_us > room_ms * 250 ? TENURE_CHECK_WARN
                                                               : TENURE_CHECK_OK;
    print_check(level, "TTL", found,
                level == TENURE_CHECK_OK ? "" : "use a longer --ttl, or a shorter --renew, for this store's latency",
                report);
    return TENURE_OK;
}

static int end_recovery(struct report *report) {
    char name[TENURE_HOLDER_MAX + 1];
    char left[TEN_DURATION_SIZE];
    char found[TENURE_HOLDER_MAX + TEN_DURATION_SIZE + 64];
    uint64_t left_ms = 0;
    if (!ten_arguments_actor(name))
        snprintf(name, sizeof name, "unknown");
    int r = ten_context_recovery(report->arguments->context, name, &left_ms);
    if (r < 0)
        return r;
    ten_duration_show(left_ms, left);
    snprintf(found, sizeof found, "ended %s early by %s", left, name);
    print_check(TENURE_CHECK_OK, "end of recovery", left_ms > 0 ? found : "newcomers did not have to wait", "", report);
    return TENURE_OK;
}

/* What helps against an error of the store, where its message does not say so itself. */
static const char *advice_for(const ten_arguments *arguments, int error) {
    bool is_file = !arguments->store || strncmp(arguments->store, "sqlite:", strlen("sqlite:")) == 0;
    switch (error) {
    case TENURE_E_TIMEOUT:
    case TENURE_E_UNREACHABLE:
        return is_file ? "correct --store or TENURE_STORE, or let this user write to the file and its directory"
                       : "start the store, or correct --store or TENURE_STORE";
    case TENURE_E_FULL:
        return "make room for the store";
    case TENURE_E_DENIED:
        return "give this user the rights that the store's page in docs/stores lists";
    default:
        return "";
    }
}

static void report_store(struct report *report, int error, const char *why) {
    char shown[300];
    char found[sizeof shown + sizeof((ten_error *)0)->message];
    ten_url_redact(report->arguments->store ? report->arguments->store : "(the default)", shown, sizeof shown);
    snprintf(found, sizeof found, "%s%s%s", shown, why[0] ? ": " : "", why);
    print_check(error ? TENURE_CHECK_FAIL : TENURE_CHECK_OK, "store", found, advice_for(report->arguments, error),
                report);
    report->has_failure = error != TENURE_OK;
}

/* Whether standard output and standard error go to the same place, so that the error is already visible. */
static bool is_seen_twice(const struct report *report) {
    struct stat out;
    struct stat err;
    return report->has_failure && fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* What needs no store is checked all the same. */
static int report_unopened(struct report *report, int exit_code) {
    const ten_error *failure = &report->arguments->failure;
    bool is_of_store = exit_code == TEN_EXIT_STORE || exit_code == TEN_EXIT_FAILED;
    report->has_failure = is_of_store;
    if (failure->code != TENURE_E_CANCELLED && !is_seen_twice(report))
        ten_say(failure->message);
    if (is_of_store) {
        report_store(report, failure->code, failure->message);
        check_clock(report);
        ten_host_check(print_check, report);
    }
    return exit_code;
}

/* Some stores connect only when they are asked something. */
static int check_store(struct report *report) {
    uint64_t elapsed_us;
    int r = tenure_store_check(report->arguments->context, print_check, report);
    TEN_STEP(r, tenure_store_ping(report->arguments->context, &elapsed_us));
    report_store(report, r, r < 0 ? tenure_message(report->arguments->context) : "");
    return r;
}

static bool migrates; /* opening does it, where the role may; an administrator says so, to see that it is meant */
static bool ends;
static const ten_option options[] = {
    TEN_OPT_FLAG("migrate", &migrates, "create the store's schema, as a role that may"),
    TEN_OPT_FLAG("end-recovery", &ends,
                 "let newcomers in at once after a loss of data; no holder from before may be alive"),
    TEN_OPT_END,
};

static int run(ten_arguments *arguments) {
    struct report report = {.arguments = arguments};
    int exit_code;
    arguments->needs_store = !migrates;
    if (!ten_arguments_try_open(arguments, &exit_code))
        return report_unopened(&report, exit_code);
    check_clock(&report);
    check_password(&report);
    check_secret_files(&report);
    ten_host_check(print_check, &report);
    int r = ends ? end_recovery(&report) : TENURE_OK;
    TEN_STEP(r, check_store(&report));
    TEN_STEP(r, ten_fleet_check(arguments, print_check, &report, &report.fleet_ttl_ms));
    TEN_STEP(r, check_latency(&report));
    if (r < 0 && !report.has_failure) {
        print_check(TENURE_CHECK_FAIL, "access", tenure_message(arguments->context), advice_for(arguments, r), &report);
        report.has_failure = true;
    }
    exit_code = r < 0 && is_seen_twice(&report)     ? ten_exit_code(r)
                : r < 0                             ? ten_arguments_error(arguments, r)
                : report.worst == TENURE_CHECK_FAIL ? TEN_EXIT_FAILED
                                                    : TEN_EXIT_DONE;
    return ten_arguments_close(arguments, exit_code);
}

const ten_command ten_cmd_doctor = {TEN_HELP_doctor, .options = options, .takes = TEN_TAKES_NOTHING, .run = run};
