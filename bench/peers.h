/*
 * `./dev bench peers` and `elections`: the jobs that people compare, for ours and for what they use today. See peers.c.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench.h"
#include "contest.h"

bool peers_measure(bench_report *report, const char *directory);
bool peers_measure_elections(bench_report *report, const char *directory);

/* What peers.c puts together: acquire + release, and renewals (peers_rates.c); holders that are paused
 * (peers_paused.c). */
bool peers_measure_rates(bench_report *report, const struct contest *contest);
bool peers_measure_paused(bench_report *report, const struct contest *contest);

#endif
