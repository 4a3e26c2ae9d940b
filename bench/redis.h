/*
 * The rows of the Redis store, each on a server of its own: renewals and acquires against pipelines of 256, the
 * server's time of one operation against that of a bare SET and of a heartbeat against that of the full script, a
 * takeover after a release against a PING, finding instances among many other keys against among none.
 */
#ifndef BENCH_REDIS_H
#define BENCH_REDIS_H

#include "bench.h"

/* The parameter is for the table of groups: the server has a directory of its own. False: something failed, and it was
 * said. */
bool redis_measure_renew(bench_report *report, const char *directory);
bool redis_measure_acquire(bench_report *report, const char *directory);
bool redis_measure_single(bench_report *report, const char *directory);
bool redis_measure_discovery(bench_report *report, const char *directory);
bool redis_measure_takeover(bench_report *report, const char *directory); /* takeover.c */

#endif
