/*
 * How long it takes to end thousands of polls. Called by sqlite.c.
 */
#ifndef BENCH_ENDINGS_H
#define BENCH_ENDINGS_H

#include "bench.h"

bool endings_measure(bench_report *report, const char *directory);

#endif
