/*
 * The page of metrics: names and units by Prometheus' conventions. Called by exporter.c.
 */
#include <stddef.h>
#include <string.h>

#include "agent/common/exporter.h"
#include "agent/warden/isolation.h"
#include "base/clock.h"
#include "base/metric.h"

static void write_histogram(const ten_exporter_config *config, ten_buf *to, const char *name, const char *help,
                            const ten_histogram *histogram, const uint64_t bounds_us[TEN_MEASURE_BUCKETS]) {
    uint64_t count = 0;
    ten_metric_head(to, name, "histogram", help);
    for (size_t i = 0; i < TEN_MEASURE_BUCKETS; i++) {
        count += ten_measure_get(&histogram->buckets[i]);
        ten_buf_format(to, "%s_bucket{namespace=\"%s\",le=\"%g\"} %llu\n", name, config->namespace_name,
                       (double)bounds_us[i] / 1e6, (unsigned long long)count);
    }
    count += ten_measure_get(&histogram->buckets[TEN_MEASURE_BUCKETS]);
    ten_buf_format(to, "%s_bucket{namespace=\"%s\",le=\"+Inf\"} %llu\n", name, config->namespace_name,
                   (unsigned long long)count);
    ten_buf_format(to, "%s_sum{namespace=\"%s\"} %.6f\n", name, config->namespace_name,
                   (double)ten_measure_get(&histogram->sum_us) / 1e6);
    ten_buf_format(to, "%s_count{namespace=\"%s\"} %llu\n", name, config->namespace_name, (unsigned long long)count);
}

/* ---- counters and gauges of one number, or of one for each value of a label */

#define BIT(kind) (1u << (kind))
#define FLEET     BIT(TEN_EXPORTS_FLEET)
#define CRON      BIT(TEN_EXPORTS_CRON)
#define GUARD     BIT(TEN_EXPORTS_GUARD)
#define FLEETS    (FLEET | CRON)
#define WORKERS   (FLEETS | BIT(TEN_EXPORTS_ROLE))
#define NUMBER(kinds, name, field, help)                                                                               \
    { kinds, name, help, offsetof(ten_measures, field), NULL, NULL }
#define BY(kinds, name, field, label, value, help)                                                                     \
    { kinds, name, help, offsetof(ten_measures, field), label, value }

static const struct number {
    unsigned kinds; /* of exporters that have it */
    const char *name;
    const char *help; /* NULL: as above, with another value of the label */
    size_t at;
    const char *label; /* NULL: it has none */
    const char *value;
} numbers[] = {
    NUMBER(FLEETS, "tenure_leases_held", held, "Leases that this instance holds."),
    NUMBER(FLEETS, "tenure_leases_planned", planned, "Leases that the plan gives to this instance."),
    NUMBER(FLEETS, "tenure_targets_unowned", unowned, "Targets that no instance holds, as far as this one knows."),
    BY(FLEET, "tenure_polls_total", polls_ok, "result", "ok", "Polls, by what became of them."),
    BY(FLEET, "tenure_polls_total", polls_failed, "result", "failed", NULL),
    BY(FLEET, "tenure_polls_total", polls_discarded, "result", "discarded", NULL),
    NUMBER(FLEET, "tenure_messages_dropped_total", dropped, "Messages that did not get to a sink."),
    BY(CRON, "tenure_cron_runs_total", cron_ok, "result", "ok", "Runs of jobs, by how they ended."),
    BY(CRON, "tenure_cron_runs_total", cron_failed, "result", "failed", NULL),
    BY(CRON, "tenure_cron_runs_total", cron_timed_out, "result", "timed_out", NULL),
    BY(CRON, "tenure_cron_runs_total", cron_not_started, "result", "not_started", NULL),
    BY(CRON, "tenure_cron_runs_total", cron_lost, "result", "lost", NULL),
    BY(CRON, "tenure_cron_skipped_total", cron_missed, "reason", "missed", "Instants that did not run, by the reason."),
    BY(CRON, "tenure_cron_skipped_total", cron_overlapped, "reason", "overlap", NULL),
    NUMBER(GUARD, "tenure_messages_passed_total", passed, "Messages whose token was current."),
    NUMBER(GUARD, "tenure_stale_refused_total", refused_stale, "Messages with an older token than the newest."),
    NUMBER(GUARD, "tenure_messages_refused_total", refused_other,
           "Messages refused for another reason: never granted, not confirmed, incomplete, malformed."),
    NUMBER(WORKERS, "tenure_commands_not_isolated_total", commands_not_isolated,
           "Commands that could not be isolated in that form. They ran without, or not at all if it is required."),
    NUMBER(WORKERS, "tenure_renewals_failed_total", renewals_failed,
           "Requests with renewals that were not answered in time."),
};

static bool is_counter(const char *name) {
    return strcmp(name + strlen(name) - strlen("_total"), "_total") == 0;
}

static void write_numbers(const ten_exporter_config *config, ten_buf *to) {
    for (size_t i = 0; i < TEN_COUNT(numbers); i++) {
        const struct number *number = &numbers[i];
        if (!(number->kinds & BIT(config->kind)))
            continue;
        if (number->help)
            ten_metric_head(to, number->name, is_counter(number->name) ? "counter" : "gauge", number->help);
        ten_buf_format(to, "%s{namespace=\"%s\"", number->name, config->namespace_name);
        if (number->label)
            ten_buf_format(to, ",%s=\"%s\"", number->label, number->value);
        const _Atomic(uint64_t) *value = (const void *)((const char *)config->measures + number->at);
        ten_buf_format(to, "} %llu\n", (unsigned long long)ten_measure_get(value));
    }
}

/* ---- the others */

static void write_renewals(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    write_histogram(config, to, "tenure_renew_seconds",
                    "Time from the sending of a request with renewals to its answer.", &measures->renew,
                    ten_renew_bounds_us);
    write_histogram(config, to, "tenure_renew_margin_seconds",
                    "How long the first of the leases that were renewed would still have lasted.", &measures->margin,
                    ten_margin_bounds_us);
}

static void write_takeovers(const ten_exporter_config *config, ten_buf *to) {
    ten_metric_head(to, "tenure_takeovers_total", "counter", "Leases taken after another, by how that one ended.");
    for (unsigned i = TEN_REASON_NONE + 1; i < TEN_REASON_COUNT; i++)
        ten_buf_format(to, "tenure_takeovers_total{namespace=\"%s\",reason=\"%s\"} %llu\n", config->namespace_name,
                       ten_reason_name((enum ten_reason)i),
                       (unsigned long long)ten_measure_get(&config->measures->takeovers[i]));
}

static void write_unowned(const ten_exporter_config *config, ten_buf *to) {
    uint64_t since_ms = ten_measure_get(&config->measures->unowned_since_ms);
    uint64_t unowned_ms = since_ms ? ten_sub_saturating(ten_now_ms(), since_ms) : 0;
    TEN_METRIC(to, "tenure_targets_unowned_seconds_max", "gauge", "How long the longest unowned of them has been so.",
               "{namespace=\"%s\"} %.3f", config->namespace_name, (double)unowned_ms / 1e3);
}

static void write_cron(const ten_exporter_config *config, ten_buf *to) {
    write_histogram(config, to, "tenure_cron_late_seconds", "Time from an instant to the start of its command.",
                    &config->measures->cron_late, ten_late_bounds_us);
    config->write_jobs(to, config->jobs);
}

static void write_role(const ten_exporter_config *config, ten_buf *to) {
    const char *where = config->namespace_name;
    const char *role = config->role;
    TEN_METRIC(to, "tenure_leader_status", "gauge", "Whether this instance leads the role.",
               "{namespace=\"%s\",role=\"%s\",kind=\"%s\"} %d", where, role, config->role_kind,
               config->leads(config->userdata) ? 1 : 0);
    TEN_METRIC(to, "tenure_leader_slots", "gauge", "How many may lead the role at a time, as this instance was told.",
               "{namespace=\"%s\",role=\"%s\"} %u", where, role, config->slots);
    TEN_METRIC(to, "tenure_leader_last_renewal_timestamp_seconds", "gauge",
               "When this instance last renewed the role; 0 if it never led.", "{namespace=\"%s\",role=\"%s\"} %.3f",
               where, role, (double)ten_measure_get(&config->measures->led_at_ms) / 1e3);
}

static void write_isolation(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    enum ten_isolation found = (enum ten_isolation)atomic_load(&measures->isolation);
    ten_metric_head(to, "tenure_isolation", "gauge", "How commands are isolated: 1 for the form that is in force.");
    for (unsigned i = TEN_ISOLATION_NONE; i <= TEN_ISOLATION_PID_NAMESPACE; i++)
        ten_buf_format(to, "tenure_isolation{namespace=\"%s\",form=\"%s\"} %d\n", config->namespace_name,
                       ten_isolation_name((enum ten_isolation)i), i == found);
}

/* ---- who it is */

#define LABEL_SIZE 129u

/* A comma, and a label's name as Prometheus allows it: other characters become underscores. */
static void label_name(const char *label, char name[LABEL_SIZE]) {
    snprintf(name, LABEL_SIZE, ",label_%.*s", (int)strcspn(label, "="), label);
    for (char *at = name + 1; *at; at++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", *at))
            *at = '_';
}

/* Two labels can have the same name there: the first of them is shown. Twice the same would spoil the whole page. */
static bool is_shown(const tenure_options *identity, size_t number) {
    char name[LABEL_SIZE];
    char other[LABEL_SIZE];
    label_name(identity->labels[number], name);
    for (size_t i = 0; i < number; i++) {
        label_name(identity->labels[i], other);
        if (strcmp(name, other) == 0)
            return false;
    }
    return true;
}

static void write_identity(const ten_exporter_config *config, ten_buf *to) {
    const tenure_options *identity = config->identity;
    ten_metric_head(to, "tenure_instance_info", "gauge", "The instance that this is, and what it says of itself.");
    ten_buf_format(to, "tenure_instance_info{id=\"%s\"", config->instance);
    if (identity && identity->address)
        ten_metric_label(to, ",address", identity->address);
    for (size_t i = 0; identity && i < identity->label_count; i++) {
        char name[LABEL_SIZE];
        label_name(identity->labels[i], name);
        if (is_shown(identity, i))
            ten_metric_label(to, name, strchr(identity->labels[i], '=') + 1);
    }
    ten_buf_text(to, "} 1\n");
}

static void write_store(const ten_exporter_config *config, ten_buf *to) {
    char store[24] = "sqlite";
    if (config->store && config->store[0])
        snprintf(store, sizeof store, "%.*s", (int)ten_min_u64(strcspn(config->store, ":"), 20), config->store);
    TEN_METRIC(to, "tenure_store_errors_total", "counter", "Calls on the store that failed.", "{store=\"%s\"} %llu",
               store, (unsigned long long)ten_measure_get(&config->measures->store_errors));
    TEN_METRIC(to, "tenure_store_up", "gauge", "Whether the store answered the last call.", " %d",
               atomic_load(&config->measures->store_up) ? 1 : 0);
    TEN_METRIC(to, "tenure_build_info", "gauge", "The version that runs.", "{version=\"%s\"} 1", tenure_version());
    write_identity(config, to);
}

void ten_exporter_write(const ten_exporter_config *config, ten_buf *to) {
    write_numbers(config, to);
    if (BIT(config->kind) & FLEETS)
        write_unowned(config, to);
    if (config->kind == TEN_EXPORTS_CRON)
        write_cron(config, to);
    if (config->kind == TEN_EXPORTS_ROLE)
        write_role(config, to);
    if (BIT(config->kind) & WORKERS) {
        write_isolation(config, to);
        write_renewals(config, to);
        write_takeovers(config, to);
    }
    write_store(config, to);
}
