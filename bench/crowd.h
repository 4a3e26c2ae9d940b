/*
 * Three processes that renew on one database without pause: how long does a call take at worst, and does each of them
 * get its turns? Once through the store, once with bare SQL and SQLite's own busy handler.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CROWD_SIZE 3u

typedef struct crowd_member {
    uint64_t turns;
    double p50_ms;
    double p99_ms;
    double worst_ms;
    bool failed;
} crowd_member;

typedef struct crowd_plan {
    const char *path; /* of a database that crowd_prepare() has filled */
    bool stock;       /* bare SQL with busy_timeout; else the store */
    size_t batch;     /* renewals in a call */
    uint64_t run_ms;
} crowd_plan;

typedef struct crowd_team crowd_team;

/* The leases of all members in one database. Closes it: a connection does not survive fork(). */
crowd_team *crowd_prepare(const char *path);
void crowd_free(crowd_team *team);
bool crowd_run(crowd_team *team, const crowd_plan *plan, crowd_member members[CROWD_SIZE]);

#endif
