/*
 * Counters of the server, as Prometheus reads them. Written by the HTTP thread alone.
 */
#ifndef TEN_SERVER_METRICS_H
#define TEN_SERVER_METRICS_H

#include "base/buf.h"
#include "server/route.h"

#define TEN_METRIC_CODES   18u
#define TEN_METRIC_BUCKETS 10u

typedef struct ten_metrics {
    uint64_t requests[TEN_ROUTE_COUNT][TEN_METRIC_CODES];
    uint64_t renew_buckets[TEN_METRIC_BUCKETS + 1]; /* the last one is for all that took longer */
    uint64_t renew_sum_us;
    uint64_t connections;
} ten_metrics;

void ten_metrics_count(ten_metrics *metrics, enum ten_route_kind route, unsigned status, uint64_t took_us);
void ten_metrics_write(const ten_metrics *metrics, const char *store, uint64_t store_errors, bool store_up,
                       uint64_t readers, ten_buf *to);

#endif
