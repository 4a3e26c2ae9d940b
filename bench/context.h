/*
 * The rows of the context, the handle that every program of the C API has: opening one, a lease in each of its forms,
 * many leases at rest, and the local check.
 */
#ifndef BENCH_CONTEXT_H
#define BENCH_CONTEXT_H

#include "bench.h"

bool context_measure_open(bench_report *report, const char *directory);
bool context_measure_pairs(bench_report *report, const char *directory);
bool context_measure_rest(bench_report *report, const char *directory);
bool context_measure_valid(bench_report *report, const char *directory);

#endif
