/*
 * The row of the time that a program takes to start, open a SQLite store and end.
 */
#ifndef BENCH_START_H
#define BENCH_START_H

#include "bench.h"

bool start_measure(bench_report *report, const char *directory);

#endif
