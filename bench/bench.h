/*
 * The harness of the benchmarks. A benchmark here is a ratio: what Tenure does against a bare loop that does the same
 * work with nothing around it, in the same run, in turns, because the machine is shared and its speed drifts. The
 * result is the median of the rounds. It uses no store itself; measures.h says who has rows.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define BENCH_ROUNDS_MAX 63u
#define BENCH_ROWS_MAX   160u

/* One of those that take turns. */
typedef struct bench_side {
    bool (*prepare)(void *arg); /* before each turn, outside of its time; NULL: nothing to do */
    bool (*turn)(void *arg);    /* false: it failed, and has said why on stderr */
    void *arg;
    uint64_t per_turn;                  /* operations in a turn */
    double rates[BENCH_ROUNDS_MAX];     /* operations a second in each round */
    double cpu_us[BENCH_ROUNDS_MAX];    /* processor time of this process for one operation */
    pid_t server;                       /* 0: none */
    double server_us[BENCH_ROUNDS_MAX]; /* processor time of that process for one operation */
} bench_side;

/* Lets the sides run one after the other, `slice_ms` each, in every round; the order turns around with each round. */
bool bench_race(bench_side *sides, size_t count, size_t rounds, uint64_t slice_ms);

enum bench_kind {
    BENCH_RATE,   /* operations a second; the goal is a least ratio */
    BENCH_WAIT,   /* milliseconds; the goal is a most for ours */
    BENCH_COST,   /* microseconds; the goal is a most ratio */
    BENCH_SIZE,   /* bytes; the goal is a most for ours */
    BENCH_LOAD,   /* percent of one core; the goal is a most for ours */
    BENCH_LATE,   /* milliseconds; the goal is a most ratio */
    BENCH_PART,   /* of a TTL; the goal is a most for ours */
    BENCH_NANO,   /* nanoseconds; the goal is a most for ours */
    BENCH_GROWTH, /* bytes; the goal is a most ratio */
    BENCH_NONE,   /* a count of what should not happen; the goal is 0 */
};

typedef struct bench_row {
    const char *name;
    const char *against; /* the reference, in words */
    enum bench_kind kind;
    double goal;                        /* 0: none, for information (except for BENCH_NONE) */
    double ours, reference;             /* medians */
    double ratio, ratio_low, ratio_top; /* median and span of the rounds' own ratios */
    ten_buf more;                       /* members for the JSON, each with its comma before it */
} bench_row;

typedef struct bench_report {
    bench_row rows[BENCH_ROWS_MAX];
    size_t count;
    char machine[256];
} bench_report;

/* A row from the values of both in each round, which is printed. NULL when there are too many. */
bench_row *bench_add(bench_report *report, bench_row head, const double *ours, const double *reference, size_t rounds);
bool bench_is_met(const bench_row *row); /* true also where there is no goal */
double bench_median(const double *values, size_t count);

void bench_print_head(const bench_report *report);
bool bench_write_json(const bench_report *report, const char *path);
void bench_free(bench_report *report);

#endif
