/*
 * The rows of the plan: a million targets on 10 and on 100 instances.
 */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "bench.h"

/* They need no directory; the parameter is for the table of groups. False: out of memory. */
bool plan_measure_10(bench_report *report, const char *directory);
bool plan_measure_100(bench_report *report, const char *directory);

#endif
