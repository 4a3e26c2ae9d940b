/*
 * The benchmarks as a program: `bench [--json FILE] [--ids N] [NAME]`. Ends with 1 when a goal is missed by the
 * median, with 2 when it could not measure.
 */
#include <linux/magic.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ground.h"
#include "measures.h"

static const struct {
    const char *name;
    bool (*measure)(bench_report *report, const char *argument);
    const char *store; /* the argument; NULL: a directory */
    bool alone;        /* only if it is named; the argument is what follows its name and a slash */
} groups[] = {
    {"renew-batch-1000", sqlite_measure_batch},
    {"acquire-release", sqlite_measure_pairs},
    {"lease-valid", library_measure_valid},
    {"target-bytes", library_measure_bytes},
    {"guard", library_measure_guard},
    {"endings", endings_measure},
    {"scale", scale_measure, .alone = true},
    {"held", held_measure, .alone = true},
    {"growth/sqlite", growth_measure, "sqlite"},
#ifdef TEN_STORE_REDIS
    {"redis-renew", redis_measure_renew},
    {"redis-acquire", redis_measure_acquire},
    {"redis-single", redis_measure_single},
    {"redis-takeover", takeover_measure},
    {"handover/redis", handover_measure, "redis"},
    {"growth/redis", growth_measure, "redis"},
    {"cron", cron_measure},
    {"elections", peers_measure_elections},
    {"peers", peers_measure},
#endif
#ifdef TEN_STORE_POSTGRES
    {"postgres-renew", postgres_measure_renew},
    {"handover/postgres", handover_measure, "postgres"},
    {"growth/postgres", growth_measure, "postgres"},
#endif
#ifdef TEN_STORE_ETCD
    {"etcd", etcd_measure},
    {"handover/etcd", handover_measure, "etcd"},
    {"growth/etcd", growth_measure, "etcd"},
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP && defined TEN_STORE_REDIS
    {"server", serve_measure},
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP
    {"growth/http", growth_measure, "http"},
#endif
};

/* The argument of the group if the name asks for it; else NULL. */
static const char *asks_for(size_t group, const char *name, const char *directory) {
    size_t length = strlen(groups[group].name);
    if (!groups[group].alone)
        return strncmp(groups[group].name, name, strlen(name)) != 0 ? NULL
               : groups[group].store                                ? groups[group].store
                                                                    : directory;
    if (strncmp(groups[group].name, name, length) != 0 || (name[length] && name[length] != '/'))
        return NULL;
    return name + length + (name[length] == '/');
}

static void describe_machine(bench_report *report, const char *directory) {
    struct utsname system = {0};
    struct statfs disk = {0};
    double load = 0;
    (void)uname(&system);
    (void)getloadavg(&load, 1);
    bool memory = statfs(directory, &disk) == 0 && disk.f_type == TMPFS_MAGIC;
    snprintf(report->machine, sizeof report->machine, "%ld cores, load %.1f, %s %s, libsqlite3 %s, tenure %s%s",
             sysconf(_SC_NPROCESSORS_ONLN), load, system.sysname, system.release, sqlite3_libversion(),
             tenure_version(), memory ? ", TMPDIR IS IN MEMORY: fsync costs nothing there, name a disk" : "");
}

static bool measure_all(bench_report *report, const char *name) {
    char directory[GROUND_PATH_SIZE];
    if (!ground_make(directory))
        return false;
    describe_machine(report, directory);
    bench_print_head(report);
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(groups); i++) {
        const char *argument = asks_for(i, name, directory);
        done = !argument || groups[i].measure(report, argument);
    }
    ground_remove(directory);
    return done;
}

static int usage(void) {
    fprintf(stderr, "usage: bench [--json FILE] [--ids N] [NAME]\nrows:");
    for (size_t i = 0; i < TEN_COUNT(groups); i++)
        fprintf(stderr, " %s", groups[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *json = NULL;
    const char *name = "";
    char tenure[GROUND_PATH_SIZE + 16];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--ids") == 0 && i + 1 < argc && (growth_ids = strtoul(argv[i + 1], NULL, 10)) > 0)
            i++;
        else if (argv[i][0] != '-' && i + 1 == argc)
            name = argv[i];
        else
            return usage();
    }
    snprintf(tenure, sizeof tenure, "%s/../tenure", ground_programs());
    (void)setenv("TENURE", tenure, 1);
    bench_report report = {0};
    bool done = measure_all(&report, name);
    if (done && report.count == 0)
        return usage();
    int missed = bench_end(&report, json);
    return !done || missed < 0 ? 2 : missed > 0;
}
