/*
 * Child processes of the benchmarks. Called by fleet.c and context.c.
 */
#include "child.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"

bool bench_child_begin(bench_child *child, bench_child_fn work, unsigned count, void *answer, size_t size) {
    int ends[2];
    fflush(NULL);
    if (pipe(ends) < 0)
        return false;
    child->pid = fork();
    if (child->pid == 0) {
        (void)mallopt(M_ARENA_MAX, 1); /* the statistics are those of one arena */
        _exit(work(count, answer) && ten_write_all(ends[1], answer, size) == 0 ? 0 : 1);
    }
    close(ends[1]);
    child->from = ends[0];
    return child->pid > 0;
}

bool bench_child_end(bench_child *child, void *answer, size_t size) {
    int status = 0;
    bool told = read(child->from, answer, size) == (ssize_t)size;
    close(child->from);
    return waitpid(child->pid, &status, 0) == child->pid && told && status == 0;
}

double bench_cpu_seconds(void) {
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

bool bench_could_not(const char *what) {
    fprintf(stderr, "bench: %s could not be measured\n", what);
    return false;
}
