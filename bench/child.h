/*
 * A part of a benchmark that needs a process to itself: for its memory, its processor time, or because it must not
 * share a store inside the process with others. It returns one struct through a pipe.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Runs in the child; false: it failed, and has said why on stderr. */
typedef bool (*bench_child_fn)(unsigned count, void *ret_answer);

typedef struct bench_child {
    pid_t pid;
    int from;
} bench_child;

/* `size` is that of the answer, which has the same place in both processes. */
bool bench_child_begin(bench_child *child, bench_child_fn work, unsigned count, void *answer, size_t size);
bool bench_child_end(bench_child *child, void *answer, size_t size);

double bench_cpu_seconds(void); /* of the whole process */
bool bench_could_not(const char *what);

#endif
