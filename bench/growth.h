/*
 * The rows of growth: ids that are used once each and then forgotten leave nothing behind, on each store.
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include "bench.h"

/* How many ids a round uses; `bench --ids N`. */
extern size_t growth_ids;

bool growth_measure_sqlite(bench_report *report, const char *directory);
bool growth_measure_redis(bench_report *report, const char *directory);
bool growth_measure_postgres(bench_report *report, const char *directory);
bool growth_measure_etcd(bench_report *report, const char *directory);
bool growth_measure_http(bench_report *report, const char *directory);

#endif
