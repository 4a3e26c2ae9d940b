/*
 * `./dev bench peers` and `elections`: the jobs that people compare, for ours and for what they use today. See peers.c.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "contest.h"

/* Ours come first. The last of the peers is not killed: the TTL of etcdctl elect cannot be chosen. */
#define PEERS_OURS   6u
#define PEERS_KILLED 11u
#define PEERS_COUNT  12u
extern const char *const peers_names[PEERS_COUNT];

/* What peers.c puts together: acquire + release, and renewals (peers_rates.c); holders that are paused
 * (peers_paused.c). */
bool peers_measure_rates(bench_report *report, const struct contest *contest);
bool peers_measure_paused(bench_report *report, const struct contest *contest);

#endif
