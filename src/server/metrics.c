/*
 * Metrics. Called by request.c.
 */
#include "server/metrics.h"

#include "base/metric.h"

static const unsigned codes[TEN_METRIC_CODES] = {200, 201, 204, 304, 308, 400, 401, 403, 404,
                                                 405, 409, 413, 415, 421, 429, 431, 500, 503};
static const uint64_t bounds_us[TEN_METRIC_BUCKETS] = {100,   250,   500,    1000,    2500,
                                                       10000, 50000, 250000, 1000000, 5000000};

void ten_metrics_count(ten_metrics *metrics, enum ten_route_kind route, unsigned status, uint64_t took_us) {
    for (size_t i = 0; i < TEN_METRIC_CODES; i++)
        if (codes[i] == status)
            metrics->requests[route][i]++;
    if (route != TEN_ROUTE_RENEW && route != TEN_ROUTE_BATCH)
        return;
    size_t bucket = 0;
    while (bucket < TEN_METRIC_BUCKETS && took_us > bounds_us[bucket])
        bucket++;
    metrics->renew_buckets[bucket]++;
    metrics->renew_sum_us += took_us;
}

static void write_requests(const ten_metrics *metrics, ten_buf *to) {
    ten_metric_head(to, "tenure_http_requests_total", "counter", "Requests answered, by kind and status.");
    for (size_t route = 0; route < TEN_ROUTE_COUNT; route++)
        for (size_t i = 0; i < TEN_METRIC_CODES; i++)
            if (metrics->requests[route][i])
                ten_buf_format(to, "tenure_http_requests_total{route=\"%s\",code=\"%u\"} %llu\n",
                               ten_route_name((enum ten_route_kind)route), codes[i],
                               (unsigned long long)metrics->requests[route][i]);
}

static void write_renewals(const ten_metrics *metrics, ten_buf *to) {
    uint64_t count = 0;
    ten_metric_head(to, "tenure_renew_seconds", "histogram", "Time from a renewal's arrival until its answer.");
    for (size_t i = 0; i < TEN_METRIC_BUCKETS; i++) {
        count += metrics->renew_buckets[i];
        ten_buf_format(to, "tenure_renew_seconds_bucket{le=\"%g\"} %llu\n", (double)bounds_us[i] / 1e6,
                       (unsigned long long)count);
    }
    count += metrics->renew_buckets[TEN_METRIC_BUCKETS];
    ten_buf_format(to,
                   "tenure_renew_seconds_bucket{le=\"+Inf\"} %llu\n"
                   "tenure_renew_seconds_sum %.6f\n"
                   "tenure_renew_seconds_count %llu\n",
                   (unsigned long long)count, (double)metrics->renew_sum_us / 1e6, (unsigned long long)count);
}

void ten_metrics_write(const ten_metrics *metrics, const char *store, uint64_t store_errors, bool store_up,
                       uint64_t readers, ten_buf *to) {
    write_requests(metrics, to);
    write_renewals(metrics, to);
    TEN_METRIC(to, "tenure_store_errors_total", "counter", "Calls on the store that failed.", "{store=\"%s\"} %llu",
               store, (unsigned long long)store_errors);
    TEN_METRIC(to, "tenure_store_up", "gauge", "Whether the store answered the last call.", " %d", store_up);
    TEN_METRIC(to, "tenure_http_connections", "gauge", "Open connections.", " %llu",
               (unsigned long long)metrics->connections);
    TEN_METRIC(to, "tenure_event_readers", "gauge", "Open event streams.", " %llu", (unsigned long long)readers);
    TEN_METRIC(to, "tenure_build_info", "gauge", "The version that runs.", "{version=\"%s\"} 1", tenure_version());
}
