/*
 * The rows of the fleet: what a check costs, what a held lease takes, and what an instance does while nothing happens.
 */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include "bench.h"

/* They need no directory; the parameter is for the table of groups. False: it could not be measured. */
bool fleet_measure_owned(bench_report *report, const char *directory);
bool fleet_measure_bytes(bench_report *report, const char *directory);
bool fleet_measure_allocations(bench_report *report, const char *directory);
bool fleet_measure_idle(bench_report *report, const char *directory);

/* The processor time of `count` renewals in bare batches on the memory store, as often as in `seconds` at default
 * timings. */
bool fleet_renew_bare(unsigned count, double seconds, double *ret_cpu_s);

#endif
