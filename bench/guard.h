/*
 * The rows of the guard: checks of tokens whose targets it remembers.
 */
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include "bench.h"

bool guard_measure(bench_report *report, const char *directory);

#endif
