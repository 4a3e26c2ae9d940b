/*
 * The benchmarks as a program: `bench [--json FILE] [--ids N] [NAME-PREFIX]`. Ends with 1 when a goal is missed by the
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
#include "peers.h"
#include "redis.h"

static const struct {
    const char *name;
    bool (*measure)(bench_report *report, const char *argument);
    const char *store; /* the argument; NULL: a directory */
} groups[] = {
    {"renew-batch-1000", sqlite_measure_batch},
    {"renew-one", sqlite_measure_one},
    {"acquire-release", sqlite_measure_pairs},
    {"lease-valid", library_measure_valid},
    {"target-bytes", library_measure_bytes},
    {"guard", library_measure_guard},
    {"endings", endings_measure},
    {"growth/sqlite", growth_measure, "sqlite"},
#ifdef TEN_STORE_REDIS
    {"redis-renew", redis_measure_renew},
    {"redis-acquire", redis_measure_acquire},
    {"redis-single", redis_measure_single},
    {"redis-takeover", redis_measure_takeover},
    {"redis-discovery", redis_measure_discovery},
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
    {"server", server_measure},
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP
    {"growth/http", growth_measure, "http"},
#endif
};

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

/* How many rows missed their goal; -1 when something could not be measured. */
static int measure_all(bench_report *report, const char *prefix) {
    char directory[GROUND_PATH_SIZE];
    if (!ground_make(directory))
        return -1;
    describe_machine(report, directory);
    bench_print_head(report);
    bool done = true;
    for (size_t i = 0; done && i < TEN_COUNT(groups); i++)
        if (strncmp(groups[i].name, prefix, strlen(prefix)) == 0)
            done = groups[i].measure(report, groups[i].store ? groups[i].store : directory);
    ground_remove(directory);
    int missed = 0;
    for (size_t i = 0; i < report->count; i++) {
        if (!bench_is_met(&report->rows[i])) {
            fprintf(stderr, "bench: %s missed its goal\n", report->rows[i].name);
            missed++;
        }
    }
    return done ? missed : -1;
}

static int usage(void) {
    fprintf(stderr, "usage: bench [--json FILE] [--ids N] [NAME-PREFIX]\nrows:");
    for (size_t i = 0; i < TEN_COUNT(groups); i++)
        fprintf(stderr, " %s", groups[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *json = NULL;
    const char *prefix = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else if (strcmp(argv[i], "--ids") == 0 && i + 1 < argc && (growth_ids = strtoul(argv[i + 1], NULL, 10)) > 0)
            i++;
        else if (argv[i][0] != '-' && i + 1 == argc)
            prefix = argv[i];
        else
            return usage();
    }
    bench_report report = {0};
    int missed = measure_all(&report, prefix);
    if (missed >= 0 && report.count == 0)
        return usage();
    if (missed >= 0 && json && !bench_write_json(&report, json))
        missed = -1;
    bench_free(&report);
    return missed < 0 ? 2 : missed > 0;
}
