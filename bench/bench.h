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

enum bench_kind {
    BENCH_RATE,   /* operations a second; the goal is a least ratio */
    BENCH_WAIT,   /* milliseconds; the goal is a most for ours */
    BENCH_COST,   /* microseconds; the goal is a most ratio */
    BENCH_CLIENT, /* the same: processor time of this process and of the children that have ended */
    BENCH_SERVER, /* the same: of the first thread of the server */
    BENCH_OTHERS, /* the same: of its other threads */
    BENCH_SIZE,   /* bytes; the goal is a most for ours */
    BENCH_LOAD,   /* percent of one core; the goal is a most for ours */
    BENCH_LATE,   /* milliseconds; the goal is a most ratio */
    BENCH_PART,   /* of a TTL; the goal is a most for ours */
    BENCH_NANO,   /* nanoseconds; the goal is a most for ours */
    BENCH_GROWTH, /* bytes; the goal is a most ratio */
    BENCH_NONE,   /* a count of what should not happen; the goal is 0 */
    BENCH_KINDS,
};

/* One of those that take turns. */
typedef struct bench_side {
    bool (*prepare)(void *arg); /* before each turn, outside of its time; NULL: nothing to do */
    bool (*turn)(void *arg);    /* false: it failed, and has said why on stderr */
    void *arg;
    uint64_t per_turn; /* operations in a turn, which may set it */
    pid_t server;      /* 0: none */
    /* Of each round, by the kind of the row: operations a second; nanoseconds, or processor time, for one of them. */
    double values[BENCH_KINDS][BENCH_ROUNDS_MAX];
} bench_side;

/* A row of a race: one side against another. */
typedef struct bench_pairing {
    const char *name, *against;
    enum bench_kind kind; /* BENCH_RATE, BENCH_NANO, BENCH_CLIENT, BENCH_SERVER or BENCH_OTHERS */
    double goal;
    size_t ours, reference;
} bench_pairing;

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
/* The same of one value each. */
bench_row *bench_add_one(bench_report *report, bench_row head, double ours, double reference);
/* Lets the sides run one after the other, `slice_ms` each, in every round; the order turns around with each round. Then
 * adds the rows. */
bool bench_race(bench_report *report, bench_side *sides, size_t count, size_t rounds, uint64_t slice_ms,
                const bench_pairing *rows, size_t row_count);

double bench_median(const double *values, size_t count);
double bench_percentile(double *values, size_t count, unsigned percent); /* sorts them; 0 if there are none */
/* Names of rows lie here as long as the report does. */
const char *bench_keep_text(const char *format, ...) TEN_PRINTF(1, 2);
/* Says on stderr what could not be measured; false. */
bool bench_could_not(const char *what);

/* Runs `work` in a process to itself: for its memory, its processor time, or because it must not share a store inside
 * the process with others. It returns an answer of so many bytes. False: it failed, and has said why on stderr. */
bool bench_apart(bool (*work)(const void *what, void *ret_answer), const void *what, void *ret_answer, size_t size);

/* Prints what missed its goal, writes the JSON and frees all of it: how many rows missed; -1: it could not write. */
int bench_end(bench_report *report, const char *json);
void bench_print_head(const bench_report *report);

#endif
