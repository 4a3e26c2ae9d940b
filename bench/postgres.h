/*
 * The rows of the PostgreSQL store: renewals in batches of 1,000, beside the bare statement that does the same, and
 * beside a statement for each lease.
 */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include "bench.h"

bool postgres_measure_renew(bench_report *report, const char *directory);

#endif
