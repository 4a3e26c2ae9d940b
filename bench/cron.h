/*
 * The rows of `tenure cron`: how late commands start when 1,000 jobs are shared by three runners.
 */
#ifndef BENCH_CRON_H
#define BENCH_CRON_H

#include "bench.h"

bool cron_measure(bench_report *report, const char *directory);

#endif
