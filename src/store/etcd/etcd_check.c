/*
 * What an etcd store knows about its own fitness, for `tenure doctor`. Called through the store's check().
 */
#include <string.h>

#include "store/common/report.h"
#include "store/etcd/etcd_state.h"

#define SLOW_US 50000u

struct report {
    ten_etcd_store *store;
    ten_report to;
};

static bool is_old(const char *version) {
    unsigned major = 0;
    unsigned minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) != 2 || major < 3 || (major == 3 && minor < 4);
}

/* 3.4 before 3.4.31, and 3.5 before 3.5.13. */
static bool revokes_late(const char *version) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    return sscanf(version, "%u.%u.%u", &major, &minor, &patch) == 3 && major == 3 &&
           ((minor == 4 && patch < 31) || (minor == 5 && patch < 13));
}

static void tell_member(const struct report *report, const char *endpoint, const json_t *status) {
    char check[80];
    char found[200];
    const char *version = json_string_value(json_object_get(status, "version"));
    version = version ? version : "of unknown version";
    bool leads = ten_etcd_number(status, "leader") == ten_etcd_number(json_object_get(status, "header"), "member_id");
    bool led = ten_etcd_number(status, "leader") != 0;
    snprintf(check, sizeof check, "member %.60s", strstr(endpoint, "//") + 2);
    snprintf(found, sizeof found, "etcd %.40s, %s, database of %llu KiB", version,
             leads ? "the leader"
             : led ? "a follower"
                   : "without a leader",
             (unsigned long long)(ten_etcd_number(status, "dbSize") / 1024));
    ten_report_tell(&report->to, led ? TENURE_CHECK_OK : TENURE_CHECK_FAIL, check, found,
                    "the cluster has no quorum: start the members that are down");
    if (is_old(version))
        ten_report_tell(&report->to, TENURE_CHECK_FAIL, "version", version,
                        "etcd 3.4 is the oldest that works: upgrade the member");
    else if (revokes_late(version))
        ten_report_tell(
            &report->to, TENURE_CHECK_OK, "version",
            "a stopped leader that goes on can end leases early (mended in 3.4.31 and 3.5.13); Tenure allows for it",
            "");
}

/* Each member is asked by itself: a cluster works as long as a majority of them does. */
static void check_members(const struct report *report) {
    ten_etcd_store *store = report->store;
    size_t count = store->settings.endpoint_count;
    size_t down = 0;
    for (size_t i = 0; i < count; i++) {
        ten_error error = {0};
        ten_etcd_call call = {.path = "/v3/maintenance/status", .body = "{}", .once = true};
        const char *endpoint = ten_etcd_endpoint(store->link);
        uint64_t deadline_ms = ten_min_u64(store->deadline_ms, ten_now_ms() + 1000);
        int r = ten_etcd_perform_here(store->link, &call, deadline_ms, &error);
        if (r == TENURE_OK) {
            tell_member(report, endpoint, call.answer);
        } else if (call.head.cluster) {
            ten_report_tell(&report->to, TENURE_CHECK_FAIL, "member", error.message,
                            "name the members of one cluster in the URL: leases of two know nothing of each other");
        } else {
            down++;
            ten_report_tell(
                &report->to, TENURE_CHECK_WARN, "member", error.message,
                "start it, or remove it from the URL; a cluster works as long as a majority of its members does");
        }
        ten_etcd_calls_free(&call, 1);
        ten_etcd_next_endpoint(store->link);
    }
    if (count == 1 && down == 0)
        ten_report_tell(&report->to, TENURE_CHECK_OK, "members", "one is named: when it fails, no other is tried", "");
}

/* etcd checks the permissions of a transaction even if its comparison never holds. */
static int check_rights(const struct report *report) {
    ten_etcd_store *store = report->store;
    ten_etcd_key key = ten_etcd_top_key(store->settings.prefix, "doctor");
    char found[300];
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_txn_compare(&store->txn, key.text, UINT64_C(1) << 60);
    ten_etcd_txn_put(&store->txn, key.text, "{}", 0);
    ten_etcd_get(&store->txn.otherwise, key.text);
    int r = ten_etcd_send_only(store, false);
    if (r == TENURE_E_DENIED && ten_etcd_is_known(store->link)) {
        char advice[300];
        snprintf(found, sizeof found, "%.280s", store->base.error->message);
        snprintf(advice, sizeof advice,
                 "etcdctl role grant-permission ROLE --prefix=true readwrite %s/, and grant that role to the user",
                 store->settings.prefix);
        ten_report_tell(&report->to, TENURE_CHECK_FAIL, "permissions", found, advice);
        return TENURE_OK;
    }
    if (r == TENURE_OK) {
        snprintf(found, sizeof found, "may read and write below %s/", store->settings.prefix);
        ten_report_tell(&report->to, TENURE_CHECK_OK, "permissions", found, "");
    }
    return r;
}

static int check_alarms(const struct report *report) {
    json_t *answer = NULL;
    int r = ten_etcd_ask(report->store, "/v3/maintenance/alarm", "{\"action\":\"GET\"}", false, &answer);
    if (r < 0)
        return r == TENURE_E_DENIED ? TENURE_OK : r;
    bool none = json_array_size(json_object_get(answer, "alarms")) == 0;
    ten_report_tell(&report->to, none ? TENURE_CHECK_OK : TENURE_CHECK_FAIL, "alarms",
                    none ? "none" : "the cluster has raised one",
                    "etcdctl alarm list; for NOSPACE: compact, defragment, then etcdctl alarm disarm");
    json_decref(answer);
    return TENURE_OK;
}

/* How long the round trip of a renewal takes, and how far the member's clock is from ours. */
static int check_latency(const struct report *report) {
    ten_etcd_store *store = report->store;
    char found[120];
    ten_etcd_txn_clear(&store->txn);
    ten_etcd_get(&store->txn.operations, ten_etcd_store_key(store).text);
    uint64_t began_us = ten_boot_us();
    int r = ten_etcd_send_only(store, false);
    uint64_t took_us = ten_boot_us() - began_us;
    if (r < 0)
        return r == TENURE_E_DENIED ? TENURE_OK : r;
    snprintf(found, sizeof found, "%.1f ms for a linearizable read", (double)took_us / 1000);
    ten_report_tell(&report->to, took_us < SLOW_US ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "latency", found,
                    "a renewal takes two of these: keep the TTL at 30 times as much, and the members on fast disks");
    int64_t apart_ms = (int64_t)store->base.wall_ms - (int64_t)ten_wall_ms(store->base.clock);
    ten_report_clock(&report->to, apart_ms, TEN_REPORT_CLOCK_LOGS);
    return TENURE_OK;
}

int ten_etcd_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    ten_etcd_store *store = (ten_etcd_store *)base;
    struct report report = {.store = store, .to = {each, userdata}};
    (void)ten_etcd_begin(store, NULL, timeout_ms);
    check_members(&report);
    int r = check_rights(&report);
    if (r == TENURE_OK)
        r = check_alarms(&report);
    if (r == TENURE_OK)
        r = check_latency(&report);
    const char *endpoint = store->settings.endpoints[0];
    const char *host = strstr(endpoint, "://");
    if (host)
        ten_report_encryption(&report.to, strncmp(endpoint, "https:", 6) == 0, host + 3, "use etcds://");
    return r;
}
