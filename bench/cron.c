/*
 * 1,000 jobs on three runners of `tenure cron` and one Redis: from the instant to the first line of the command, which
 * cron_start.c measures itself. The reference are three bare loops that start the same commands at the same instants,
 * with neither a store nor a lease: what the machine needs for so many processes at once.
 */
#include "measures.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "ground.h"
#include "lib/redis_server.h"

#define JOBS       1000u
#define RUNNERS    3u
#define WARM_MS    15000u
#define PATH_SIZE  (GROUND_PATH_SIZE + 80)
#define STARTS_MAX 20000u

#define LEAST_S   20u /* a job comes every LEAST_S to LEAST_S + PERIODS - 1 seconds */
#define PERIODS   40u
#define WINDOW_US UINT64_C(60000000)
#define GOAL_MS   250

struct run {
    const char *directory;
    char starts[PATH_SIZE]; /* what cron_start.c writes to */
    char tab[PATH_SIZE];
    char command[3 * PATH_SIZE];
    char url[400];
    pid_t pids[RUNNERS];
};

static unsigned period_of(unsigned job) {
    return LEAST_S + job % PERIODS;
}

/* ---- ours */

static bool write_crontab(const struct run *run) {
    FILE *file = fopen(run->tab, "we");
    for (unsigned i = 0; file && i < JOBS; i++)
        fprintf(file, "job-%u @every %us %s\n", i, period_of(i), run->command);
    return file && fclose(file) == 0 && chmod(run->tab, 0600) == 0;
}

static _Noreturn void be_runner(const struct run *run, unsigned number) {
    char log[PATH_SIZE + 16], name[16];
    snprintf(log, sizeof log, "%s/log-%u", run->directory, number);
    snprintf(name, sizeof name, "host-%u", number);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
        execl(getenv("TENURE"), "tenure", "cron", run->tab, "--store", run->url, "--name", name, "--settle", "1s",
              (char *)NULL);
    _exit(1);
}

/* ---- the bare loop */

static void start_bare(const char *command, int64_t instant_s) {
    char instant[TEN_RFC3339_SIZE];
    char variable[64];
    pid_t pid;
    ten_rfc3339((uint64_t)instant_s * 1000, instant);
    snprintf(variable, sizeof variable, "TENURE_INSTANT=%s", instant);
    char *const variables[] = {variable, NULL};
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)command, NULL};
    (void)posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, variables);
}

static _Noreturn void be_bare(const struct run *run, unsigned number) {
    (void)signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
    for (int64_t at_s = (int64_t)(ten_wall_ms(&ten_system_clock) / 1000) + 1;; at_s++) {
        int64_t wait_ms = at_s * 1000 - (int64_t)ten_wall_ms(&ten_system_clock);
        if (wait_ms > 0)
            ten_sleep_us((uint64_t)wait_ms * 1000);
        for (unsigned i = number; i < JOBS; i += RUNNERS)
            if (at_s % period_of(i) == 0)
                start_bare(run->command, at_s);
    }
}

/* ---- measuring */

struct lateness {
    size_t count;
    double p50, p99, most;
};

static bool read_starts(const struct run *run, struct lateness *ret_late) {
    static double starts[STARTS_MAX];
    FILE *file = fopen(run->starts, "re");
    size_t count = 0;
    while (file && count < STARTS_MAX && fscanf(file, "%lf", &starts[count]) == 1)
        count++;
    if (file)
        (void)fclose(file);
    if (count < JOBS)
        return bench_could_not("see each job start once");
    *ret_late = (struct lateness){count, bench_percentile(starts, count, 50), bench_percentile(starts, count, 99),
                                  starts[count - 1]};
    return true;
}

static void end_all(struct run *run, int signal) {
    for (unsigned i = 0; i < RUNNERS; i++)
        if (run->pids[i] > 0)
            (void)kill(run->pids[i], signal);
    for (unsigned i = 0; i < RUNNERS; i++)
        if (run->pids[i] > 0)
            (void)waitpid(run->pids[i], NULL, 0);
}

/* What is started before the window begins is not counted. */
static bool watch(struct run *run, void (*work)(const struct run *, unsigned), uint64_t warm_ms, int signal,
                  struct lateness *ret_late) {
    fflush(NULL);
    for (unsigned i = 0; i < RUNNERS; i++) {
        run->pids[i] = fork();
        if (run->pids[i] == 0)
            work(run, i);
    }
    ten_sleep_us(warm_ms * 1000);
    bool cleared = truncate(run->starts, 0) == 0 || errno == ENOENT;
    ten_sleep_us(WINDOW_US);
    end_all(run, signal);
    ten_sleep_us(500000); /* those of the bare loop */
    return (cleared || bench_could_not("begin the window")) && read_starts(run, ret_late);
}

static bool add_row(bench_report *report, const struct lateness *ours, const struct lateness *bare) {
    bench_row head = {
        .name = "cron/1000-jobs-40-periods", .against = "bare process starts", .kind = BENCH_WAIT, .goal = GOAL_MS};
    bench_row *row = bench_add_one(report, head, ours->p99, bare->p99);
    if (!row)
        return false;
    printf("    p99 of %zu starts; p50 %.0f ms, most %.0f ms (bare: p50 %.0f ms, most %.0f ms)\n", ours->count,
           ours->p50, ours->most, bare->p50, bare->most);
    ten_buf_format(&row->more, ",\"starts\":%zu,\"p50_ms\":%.0f,\"most_ms\":%.0f,\"bare_p50_ms\":%.0f", ours->count,
                   ours->p50, ours->most, bare->p50);
    return true;
}

bool cron_measure(bench_report *report, const char *directory) {
    struct run run = {.directory = directory};
    struct redis_server server = {0};
    struct lateness ours = {0}, bare = {0};
    if (redis_server_start(&server, NULL) < 0)
        return false;
    snprintf(run.starts, sizeof run.starts, "%s/starts", directory);
    snprintf(run.tab, sizeof run.tab, "%s/tab", directory);
    snprintf(run.command, sizeof run.command, "exec %s/cron-start %s", ground_programs(), run.starts);
    snprintf(run.url, sizeof run.url, "redis+unix://%s?fresh=1", server.socket);
    bool done = write_crontab(&run) && watch(&run, be_runner, WARM_MS, SIGTERM, &ours) &&
                watch(&run, be_bare, 2000, SIGKILL, &bare) && add_row(report, &ours, &bare);
    redis_server_remove(&server);
    return done;
}
