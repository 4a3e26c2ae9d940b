/*
 * The page of metrics: names and units by Prometheus' conventions. Called by exporter.c.
 */
#include <string.h>

#include "agent/common/exporter.h"
#include "agent/warden/isolation.h"
#include "base/clock.h"

static void head(ten_buf *to, const char *name, const char *type, const char *help) {
    ten_buf_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(const ten_exporter_config *config, ten_buf *to, const char *name, const char *type, const char *help,
                uint64_t value) {
    head(to, name, type, help);
    ten_buf_format(to, "%s{namespace=\"%s\"} %llu\n", name, config->namespace_name, (unsigned long long)value);
}

static void write_histogram(const ten_exporter_config *config, ten_buf *to, const char *name, const char *help,
                            const ten_histogram *histogram, const uint64_t bounds_us[TEN_MEASURE_BUCKETS]) {
    uint64_t count = 0;
    head(to, name, "histogram", help);
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

static void write_renewals(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    write_histogram(config, to, "tenure_renew_seconds",
                    "Time from the sending of a request with renewals to its answer.", &measures->renew,
                    ten_renew_bounds_us);
    write_histogram(config, to, "tenure_renew_margin_seconds",
                    "How long the first of the leases that were renewed would still have lasted.", &measures->margin,
                    ten_margin_bounds_us);
    one(config, to, "tenure_renewals_failed_total", "counter", "Requests with renewals that were not answered in time.",
        ten_measure_get(&measures->renewals_failed));
}

static void write_takeovers(const ten_exporter_config *config, ten_buf *to) {
    head(to, "tenure_takeovers_total", "counter", "Leases taken after another, by how that one ended.");
    for (unsigned i = TEN_REASON_NONE + 1; i < TEN_REASON_COUNT; i++)
        ten_buf_format(to, "tenure_takeovers_total{namespace=\"%s\",reason=\"%s\"} %llu\n", config->namespace_name,
                       ten_reason_name((enum ten_reason)i),
                       (unsigned long long)ten_measure_get(&config->measures->takeovers[i]));
}

static void write_fleet(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    uint64_t since_ms = ten_measure_get(&measures->unowned_since_ms);
    uint64_t unowned_ms = since_ms ? ten_sub_saturating(ten_now_ms(), since_ms) : 0;
    one(config, to, "tenure_leases_held", "gauge", "Leases that this instance holds.",
        ten_measure_get(&measures->held));
    one(config, to, "tenure_leases_planned", "gauge", "Leases that the plan gives to this instance.",
        ten_measure_get(&measures->planned));
    one(config, to, "tenure_targets_unowned", "gauge", "Targets that nobody holds, as far as this instance has heard.",
        ten_measure_get(&measures->unowned));
    head(to, "tenure_targets_unowned_seconds_max", "gauge", "How long the longest unowned of them has been so.");
    ten_buf_format(to, "tenure_targets_unowned_seconds_max{namespace=\"%s\"} %.3f\n", config->namespace_name,
                   (double)unowned_ms / 1e3);
}

struct result {
    const char *name;
    uint64_t count;
};

static void write_results(const ten_exporter_config *config, ten_buf *to, const char *metric, const char *label,
                          const struct result *results, size_t count) {
    for (size_t i = 0; i < count; i++)
        ten_buf_format(to, "%s{namespace=\"%s\",%s=\"%s\"} %llu\n", metric, config->namespace_name, label,
                       results[i].name, (unsigned long long)results[i].count);
}

static void write_polls(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    const struct result polls[] = {{"ok", ten_measure_get(&measures->polls_ok)},
                                   {"failed", ten_measure_get(&measures->polls_failed)},
                                   {"discarded", ten_measure_get(&measures->polls_discarded)}};
    head(to, "tenure_polls_total", "counter", "Polls, by what became of them.");
    write_results(config, to, "tenure_polls_total", "result", polls, TEN_COUNT(polls));
    one(config, to, "tenure_messages_dropped_total", "counter", "Messages that did not get to a sink.",
        ten_measure_get(&measures->dropped));
}

static void write_cron(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    const struct result runs[] = {{"ok", ten_measure_get(&measures->cron_ok)},
                                  {"failed", ten_measure_get(&measures->cron_failed)},
                                  {"timed_out", ten_measure_get(&measures->cron_timed_out)},
                                  {"not_started", ten_measure_get(&measures->cron_not_started)},
                                  {"lost", ten_measure_get(&measures->cron_lost)}};
    const struct result skipped[] = {{"missed", ten_measure_get(&measures->cron_missed)},
                                     {"overlap", ten_measure_get(&measures->cron_overlapped)}};
    head(to, "tenure_cron_runs_total", "counter", "Runs of jobs, by how they ended.");
    write_results(config, to, "tenure_cron_runs_total", "result", runs, TEN_COUNT(runs));
    head(to, "tenure_cron_skipped_total", "counter", "Instants that did not run, by the reason.");
    write_results(config, to, "tenure_cron_skipped_total", "reason", skipped, TEN_COUNT(skipped));
    write_histogram(config, to, "tenure_cron_late_seconds", "Time from an instant to the start of its command.",
                    &measures->cron_late, ten_late_bounds_us);
    config->write_jobs(to, config->jobs);
}

static void write_role(const ten_exporter_config *config, ten_buf *to) {
    head(to, "tenure_leader_status", "gauge", "Whether this instance leads the role.");
    ten_buf_format(to, "tenure_leader_status{namespace=\"%s\",role=\"%s\",kind=\"%s\"} %d\n", config->namespace_name,
                   config->role, config->role_kind, config->leads(config->userdata) ? 1 : 0);
    head(to, "tenure_leader_slots", "gauge", "How many may lead the role at a time, as this instance was told.");
    ten_buf_format(to, "tenure_leader_slots{namespace=\"%s\",role=\"%s\"} %u\n", config->namespace_name, config->role,
                   config->slots);
    head(to, "tenure_leader_last_renewal_timestamp_seconds", "gauge",
         "When this instance last renewed the role; 0 if it never led.");
    ten_buf_format(to, "tenure_leader_last_renewal_timestamp_seconds{namespace=\"%s\",role=\"%s\"} %.3f\n",
                   config->namespace_name, config->role, (double)ten_measure_get(&config->measures->led_at_ms) / 1e3);
}

static void write_isolation(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    enum ten_isolation found = (enum ten_isolation)atomic_load(&measures->isolation);
    head(to, "tenure_isolation", "gauge", "How commands are isolated: 1 for the form that is in force.");
    for (unsigned i = TEN_ISOLATION_NONE; i <= TEN_ISOLATION_PID_NAMESPACE; i++)
        ten_buf_format(to, "tenure_isolation{namespace=\"%s\",form=\"%s\"} %d\n", config->namespace_name,
                       ten_isolation_name((enum ten_isolation)i), i == found);
    one(config, to, "tenure_commands_not_isolated_total", "counter",
        "Commands that could not be isolated in that form. They ran without, or not at all if it is required.",
        ten_measure_get(&measures->commands_not_isolated));
}

static void write_guard(const ten_exporter_config *config, ten_buf *to) {
    const ten_measures *measures = config->measures;
    one(config, to, "tenure_messages_passed_total", "counter", "Messages whose token was current.",
        ten_measure_get(&measures->passed));
    one(config, to, "tenure_stale_refused_total", "counter", "Messages with an older token than the newest.",
        ten_measure_get(&measures->refused_stale));
    one(config, to, "tenure_messages_refused_total", "counter",
        "Messages refused for another reason: never granted, not confirmed, incomplete, malformed.",
        ten_measure_get(&measures->refused_other));
}

/* ---- who it is */

#define LABEL_SIZE 128u

/* A label's name as Prometheus allows it: whatever else is in it becomes an underscore. */
static void label_name(const char *label, char name[LABEL_SIZE]) {
    snprintf(name, LABEL_SIZE, "label_%.*s", (int)strcspn(label, "="), label);
    for (char *at = name; *at; at++)
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

static void write_label(ten_buf *to, const char *name, const char *value) {
    ten_buf_format(to, ",%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            ten_buf_char(to, '\\');
        ten_buf_char(to, *value);
    }
    ten_buf_char(to, '"');
}

static void write_identity(const ten_exporter_config *config, ten_buf *to) {
    const tenure_options *identity = config->identity;
    head(to, "tenure_instance_info", "gauge", "The instance that this is, and what it says of itself.");
    ten_buf_format(to, "tenure_instance_info{id=\"%s\"", config->instance);
    if (identity && identity->address)
        write_label(to, "address", identity->address);
    for (size_t i = 0; identity && i < identity->label_count; i++) {
        char name[LABEL_SIZE];
        label_name(identity->labels[i], name);
        if (is_shown(identity, i))
            write_label(to, name, strchr(identity->labels[i], '=') + 1);
    }
    ten_buf_text(to, "} 1\n");
}

static void write_store(const ten_exporter_config *config, ten_buf *to) {
    char store[24] = "sqlite";
    if (config->store && config->store[0])
        snprintf(store, sizeof store, "%.*s", (int)ten_min_u64(strcspn(config->store, ":"), 20), config->store);
    head(to, "tenure_store_errors_total", "counter", "Calls on the store that failed.");
    ten_buf_format(to, "tenure_store_errors_total{store=\"%s\"} %llu\n", store,
                   (unsigned long long)ten_measure_get(&config->measures->store_errors));
    head(to, "tenure_store_up", "gauge", "Whether the store answered the last call.");
    ten_buf_format(to, "tenure_store_up %d\n",
                   atomic_load_explicit(&config->measures->store_up, memory_order_relaxed) ? 1 : 0);
    head(to, "tenure_build_info", "gauge", "The version that runs.");
    ten_buf_format(to, "tenure_build_info{version=\"%s\"} 1\n", tenure_version());
    write_identity(config, to);
}

void ten_exporter_write(const ten_exporter_config *config, ten_buf *to) {
    if (config->kind == TEN_EXPORTS_FLEET || config->kind == TEN_EXPORTS_CRON)
        write_fleet(config, to);
    if (config->kind == TEN_EXPORTS_FLEET)
        write_polls(config, to);
    else if (config->kind == TEN_EXPORTS_CRON)
        write_cron(config, to);
    else if (config->kind == TEN_EXPORTS_ROLE)
        write_role(config, to);
    else
        write_guard(config, to);
    if (config->kind != TEN_EXPORTS_GUARD) {
        write_isolation(config, to);
        write_renewals(config, to);
        write_takeovers(config, to);
    }
    write_store(config, to);
}
