/*
 * The rows of handing over: how long a target is without a holder while the instances of a fleet are replaced.
 */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#include "bench.h"

/* They need no directory; the parameter is for the table of groups. False: it could not be measured. */
bool handover_measure_redis(bench_report *report, const char *directory);
bool handover_measure_postgres(bench_report *report, const char *directory);
bool handover_measure_etcd(bench_report *report, const char *directory);

#endif
