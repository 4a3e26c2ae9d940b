/*
 * How long a program takes to start, open a SQLite store and end: with the shared library, which has the other stores as
 * modules, against the same program with all stores linked in. Most of the difference is the dynamic linker's.
 */
#include "start.h"

#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "child.h"
#include "ground.h"

#define ROUNDS   15u
#define SLICE_MS 200u

extern char **environ;

struct started {
    char program[PATH_MAX];
    char url[GROUND_PATH_SIZE + 16];
};

static bool run(void *arg) {
    struct started *started = arg;
    char *words[] = {started->program, started->url, NULL};
    pid_t pid;
    int status = 0;
    if (posix_spawn(&pid, started->program, NULL, NULL, words, environ) != 0)
        return bench_could_not(started->program);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* The programs are beside this one. */
static bool prepare(struct started *started, const char *name, const char *directory) {
    char self[PATH_MAX - 32];
    char path[GROUND_PATH_SIZE];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0)
        return bench_could_not("the path of this program");
    self[size] = '\0';
    *strrchr(self, '/') = '\0';
    ground_path(path, directory, name);
    snprintf(started->program, sizeof started->program, "%s/%s", self, name);
    snprintf(started->url, sizeof started->url, "sqlite:%s", path);
    return run(started); /* makes the file, and brings the libraries into the page cache */
}

bool start_measure(bench_report *report, const char *directory) {
    struct started shared, whole;
    bench_side sides[] = {{.turn = run, .arg = &shared, .per_turn = 1}, {.turn = run, .arg = &whole, .per_turn = 1}};
    double ours_ms[ROUNDS], whole_ms[ROUNDS];
    if (!prepare(&shared, "start-shared", directory) || !prepare(&whole, "start-whole", directory) ||
        !bench_race(sides, TEN_COUNT(sides), ROUNDS, SLICE_MS))
        return false;
    for (size_t i = 0; i < ROUNDS; i++) {
        ours_ms[i] = 1e3 / sides[0].rates[i];
        whole_ms[i] = 1e3 / sides[1].rates[i];
    }
    bench_row *row = bench_add(
        report,
        (bench_row){.name = "start", .against = "the same program with all stores linked in", .kind = BENCH_LATE},
        ours_ms, whole_ms, ROUNDS);
    if (row)
        bench_print_row(row);
    return row != NULL;
}
