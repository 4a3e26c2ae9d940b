/*
 * The rows of elections: how long a role has no leader when the leader stops, and when its process is killed, beside
 * what Debian and npm have for the same purpose.
 */
#ifndef BENCH_ELECTIONS_H
#define BENCH_ELECTIONS_H

#include "bench.h"

/* False: ours could not be measured. A peer that is missing is said so in its rows. */
bool elections_measure(bench_report *report, const char *directory);

#endif
