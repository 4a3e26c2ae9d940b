/*
 * Who has rows. Each function measures its rows and adds them to the report; false: it could not, and has said why on
 * stderr. Called by main.c.
 */
#ifndef BENCH_MEASURES_H
#define BENCH_MEASURES_H

#include "bench.h"

/* Single operations on each store. `directory` is a place for files. */
bool sqlite_measure_batch(bench_report *report, const char *directory);
bool sqlite_measure_pairs(bench_report *report, const char *directory);
bool redis_measure_renew(bench_report *report, const char *directory);
bool redis_measure_acquire(bench_report *report, const char *directory);
bool redis_measure_single(bench_report *report, const char *directory);
bool takeover_measure(bench_report *report, const char *directory);
bool postgres_measure_renew(bench_report *report, const char *directory);
bool etcd_measure(bench_report *report, const char *directory);
bool serve_measure(bench_report *report, const char *directory);

/* The library without a store in the way: the local check, the memory of targets, the guard. */
bool library_measure_valid(bench_report *report, const char *directory);
bool library_measure_bytes(bench_report *report, const char *directory);
bool library_measure_guard(bench_report *report, const char *directory);

bool endings_measure(bench_report *report, const char *directory);
bool cron_measure(bench_report *report, const char *directory);
bool peers_measure(bench_report *report, const char *directory);
bool peers_measure_elections(bench_report *report, const char *directory);

/* On that store, on a private server. */
bool handover_measure(bench_report *report, const char *store);
bool growth_measure(bench_report *report, const char *store);
extern size_t growth_ids; /* of a round */

/* Whole fleets, and leases at rest: all, STORE or STORE/CASE. */
bool scale_measure(bench_report *report, const char *name);
bool held_measure(bench_report *report, const char *name);

#endif
