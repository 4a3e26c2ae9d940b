/*
 * The jobs of bench/elections_pair.h for candidates in C: a step is done over and over for so long, and what it took is
 * told. Header only, because one of its users is built against the shared library alone.
 */
#ifndef BENCH_PEERS_JOBS_H
#define BENCH_PEERS_JOBS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define JOBS_SAMPLES 200000u
#define JOBS_BEAT_MS 4

static inline long long jobs_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void jobs_say(const char *word, long long ns) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %lld\n", word, ns);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(1);
}

/* `name`: a number of its own. */
static inline void jobs_beat(int fd, long long name) {
    char line[64];
    int length = snprintf(line, sizeof line, "%lld %lld\n", jobs_now_ns(), name);
    if (write(fd, line, (size_t)length) != length)
        _exit(1);
}

/* The file to beat in, if it was named; else -1. */
static inline int jobs_open_beats(const char *path) {
    return path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

/* Of this process, and of those that it has started and outlived. */
static inline double jobs_cpu_us(void) {
    double us = 0;
    struct rusage used;
    for (int i = 0; i < 2; i++)
        if (getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &used) == 0)
            us += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return us;
}

static inline int jobs_compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* `step` does so many operations, or returns 0: it failed. */
static inline void jobs_run(unsigned (*step)(void *arg), void *arg, long ms) {
    static double samples[JOBS_SAMPLES];
    size_t count = 0;
    unsigned long operations = 0;
    double cpu_us = jobs_cpu_us();
    long long start_ns = jobs_now_ns(), last_ns = start_ns;
    while (last_ns - start_ns < ms * 1000000LL) {
        unsigned done = step(arg);
        if (done == 0) {
            fprintf(stderr, "a step failed\n");
            _exit(1);
        }
        long long now_ns = jobs_now_ns();
        if (count < JOBS_SAMPLES)
            samples[count++] = (double)(now_ns - last_ns) / 1e3;
        last_ns = now_ns;
        operations += done;
    }
    qsort(samples, count, sizeof *samples, jobs_compare);
    char line[128];
    double part = (double)ms * 1e6 / (double)(last_ns - start_ns); /* the last step ended later */
    int length = snprintf(line, sizeof line, "did %.0f %.0f %.1f %.1f\n", (double)operations * part,
                          (jobs_cpu_us() - cpu_us) * part, samples[count / 2], samples[(count - 1) * 99 / 100]);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        _exit(1);
}

/* The word's milliseconds when the line asks for that job; 0: it does not. */
static inline long jobs_is(const char *line, const char *job) {
    size_t size = strlen(job);
    return strncmp(line, job, size) == 0 && line[size] == ' ' ? strtol(line + size, NULL, 10) : 0;
}

#endif
