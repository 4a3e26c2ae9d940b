/*
 * The benchmarks of `tenure serve` on SQLite. See server.h.
 */
#include "measures.h"

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/util.h"
#include "ground.h"
#include "lib/etcd_server.h"
#include "store/store.h"

#define ROUNDS      7u
#define CONNECTIONS "64"
#define LEASES      1000u
#define BATCH_GOAL  200000.0 /* leases a second */

/* A server that prints where it listens. */
struct peer {
    pid_t pid;
    char port[16];
};

static bool start(struct peer *peer, char *const *words) {
    int ends[2];
    char line[128] = "";
    if (pipe(ends) != 0)
        return false;
    fflush(NULL);
    peer->pid = fork();
    if (peer->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)!freopen("/dev/null", "w", stderr);
        execv(words[0], words);
        _exit(127);
    }
    close(ends[1]);
    bool told = ten_wait_readable(ends[0], -1, 10000) > 0 && ten_read_some(ends[0], line, sizeof line - 1) > 0;
    close(ends[0]);
    const char *colon = strrchr(line, ':');
    snprintf(peer->port, sizeof peer->port, "%d", atoi(colon ? colon + 1 : line));
    return peer->pid > 0 && told && strcmp(peer->port, "0") != 0;
}

static void stop(struct peer *peer) {
    if (peer->pid > 0) {
        (void)kill(peer->pid, SIGKILL);
        (void)waitpid(peer->pid, NULL, 0);
    }
    peer->pid = 0;
}

/* ---- whose processor time it is */

/* In microseconds, so far; later, for one request or lease. */
struct split {
    double client;
    double http;  /* the server's first thread */
    double store; /* its others, which have the store */
};

static double thread_us(pid_t pid, const char *thread) {
    char path[96], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, thread);
    return ten_read_line(path, text, sizeof text) > 0 ? strtod(text, NULL) / 1e3 : 0;
}

static struct split look(pid_t server) {
    struct rusage own, children;
    (void)getrusage(RUSAGE_SELF, &own);
    (void)getrusage(RUSAGE_CHILDREN, &children);
    struct split now = {0};
    const struct timeval *parts[] = {&own.ru_utime, &own.ru_stime, &children.ru_utime, &children.ru_stime};
    for (size_t i = 0; i < TEN_COUNT(parts); i++)
        now.client += (double)parts[i]->tv_sec * 1e6 + (double)parts[i]->tv_usec;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)server);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        if (entry->d_name[0] == '.')
            continue;
        bool is_first = strtol(entry->d_name, NULL, 10) == server;
        *(is_first ? &now.http : &now.store) += thread_us(server, entry->d_name);
    }
    if (threads)
        closedir(threads);
    return now;
}

static struct split since(pid_t server, struct split before, double count) {
    struct split now = look(server);
    return (struct split){.client = (now.client - before.client) / count,
                          .http = (now.http - before.http) / count,
                          .store = (now.store - before.store) / count};
}

/* ---- loads */

/* Requests a second, and the 99th percentile in ms. */
static bool run_wrk(const char *port, const char *argument, double *ret_rate, double *ret_p99_ms) {
    char command[600];
    char line[256];
    snprintf(command, sizeof command,
             "wrk -t1 -c" CONNECTIONS " -d1s --latency -s '" BENCH_PEERS "/renew.lua' http://127.0.0.1:%s/ -- %s", port,
             argument);
    FILE *out = popen(command, "r");
    bool failed = !out;
    *ret_rate = *ret_p99_ms = 0;
    while (out && fgets(line, sizeof line, out)) {
        double number;
        char unit[8];
        if (sscanf(line, " 99%% %lf%7s", &number, unit) == 2)
            *ret_p99_ms = strcmp(unit, "us") == 0 ? number / 1000 : strcmp(unit, "s") == 0 ? number * 1000 : number;
        (void)sscanf(line, "Requests/sec: %lf", ret_rate);
        failed |= strstr(line, "Non-2xx") || strstr(line, "Socket errors");
    }
    return out && pclose(out) == 0 && !failed && *ret_rate > 0;
}

static bool acquire_all(const char *url) {
    ten_error error;
    ten_store *store;
    char ids[LEASES][8];
    ten_op *ops = calloc(LEASES, sizeof *ops);
    ten_result *results = calloc(LEASES, sizeof *results);
    bool done = ops && results && ten_store_open(url, NULL, &store, &error) == TENURE_OK;
    for (size_t i = 0; done && i < LEASES; i++) {
        snprintf(ids[i], sizeof ids[i], "s%zu", i);
        ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                          .namespace_name = "scenes",
                          .target = ids[i],
                          .holder = "tracker-0",
                          .ttl_ms = 3600000};
    }
    if (done) {
        done = ten_store_apply(store, ops, results, LEASES, 10000) == TENURE_OK;
        ten_store_close(store);
    }
    free(ops);
    free(results);
    return done;
}

/* Batches of 1,000 renewals over one connection, for about a second: leases a second. */
static bool renew_in_batches(const char *url, double *ret_rate) {
    ten_error error;
    ten_store *store;
    if (ten_store_open(url, NULL, &store, &error) < 0)
        return false;
    static char ids[LEASES][8];
    ten_op *ops = calloc(LEASES, sizeof *ops);
    ten_result *results = calloc(LEASES, sizeof *results);
    for (size_t i = 0; ops && i < LEASES; i++) {
        snprintf(ids[i], sizeof ids[i], "s%zu", i);
        ops[i] = (ten_op){.kind = TEN_OP_RENEW,
                          .namespace_name = "scenes",
                          .target = ids[i],
                          .holder = "tracker-0",
                          .token = 1,
                          .ttl_ms = 3600000};
    }
    uint64_t begin_us = ten_boot_us();
    size_t count = 0;
    bool done = ops && results;
    while (done && ten_boot_us() - begin_us < 1000000) {
        done =
            ten_store_apply(store, ops, results, LEASES, 10000) == TENURE_OK && results[LEASES - 1].outcome == TEN_OK;
        count += LEASES;
    }
    *ret_rate = (double)count * 1e6 / (double)(ten_boot_us() - begin_us);
    ten_store_close(store);
    free(ops);
    free(results);
    return done;
}

static bool put_key(int port) {
    char command[300];
    snprintf(command, sizeof command,
             "curl -sf -o /dev/null -d '{\"key\":\"YmVuY2g=\",\"value\":\"dHJhY2tlci0w\"}' "
             "http://127.0.0.1:%d/v3/kv/put",
             port);
    return system(command) == 0;
}

struct figures {
    double ours[ROUNDS];
    double p99[ROUNDS];
    double constant[ROUNDS];
    double etcd[ROUNDS];
    double batch[ROUNDS];
    struct split ours_split[ROUNDS];
    struct split constant_split[ROUNDS];
    struct split batch_split[ROUNDS];
};

static bool run_round(const struct peer *ours, const struct peer *constant, const char *etcd_port, const char *url,
                      size_t i, struct figures *figures) {
    double unused;
    struct split before = look(ours->pid);
    if (!run_wrk(ours->port, "tenure", &figures->ours[i], &figures->p99[i]))
        return false;
    figures->ours_split[i] = since(ours->pid, before, figures->ours[i]);
    before = look(constant->pid);
    if (!run_wrk(constant->port, "tenure", &figures->constant[i], &unused))
        return false;
    figures->constant_split[i] = since(constant->pid, before, figures->constant[i]);
    if (etcd_port && !run_wrk(etcd_port, "etcd", &figures->etcd[i], &unused))
        return false;
    before = look(ours->pid);
    if (!renew_in_batches(url, &figures->batch[i]))
        return false;
    figures->batch_split[i] = since(ours->pid, before, figures->batch[i]);
    return true;
}

static bool race(const struct peer *ours, const struct peer *constant, const etcd_server *etcd, const char *url,
                 struct figures *figures) {
    char etcd_port[16];
    snprintf(etcd_port, sizeof etcd_port, "%d", etcd->port);
    for (size_t i = 0; i < ROUNDS; i++)
        if (!run_round(ours, constant, etcd->pid ? etcd_port : NULL, url, i, figures)) {
            fprintf(stderr, "bench: a round of the server's failed; is wrk there?\n");
            return false;
        }
    return true;
}

static void add_row(bench_report *report, const char *name, const char *against, enum bench_kind kind, double goal,
                    const double *ours, const double *reference) {
    (void)bench_add(report, (bench_row){.name = name, .against = against, .kind = kind, .goal = goal}, ours, reference,
                    ROUNDS);
}

/* A row for each part: of ours, against the same part of the reference. */
static void add_split(bench_report *report, const char *const names[3], const char *against, const struct split *ours,
                      const struct split *reference) {
    static const size_t parts[] = {offsetof(struct split, client), offsetof(struct split, http),
                                   offsetof(struct split, store)};
    for (size_t part = 0; part < TEN_COUNT(parts); part++) {
        double mine[ROUNDS], theirs[ROUNDS];
        for (size_t i = 0; i < ROUNDS; i++) {
            mine[i] = *(const double *)((const char *)&ours[i] + parts[part]);
            theirs[i] = *(const double *)((const char *)&reference[i] + parts[part]);
        }
        add_row(report, names[part], against, BENCH_COST, 0, mine, theirs);
    }
}

static void add_rows(bench_report *report, const struct figures *figures, bool has_etcd) {
    double goal[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        goal[i] = BATCH_GOAL;
    add_row(report, "server-renew", "libmicrohttpd, constant answer", BENCH_RATE, 0.8, figures->ours,
            figures->constant);
    if (has_etcd)
        add_row(report, "server-renew/etcd", "etcd's gateway, a transaction", BENCH_RATE, 5, figures->ours,
                figures->etcd);
    else
        printf("  etcd is not there: NOT MEASURED\n");
    add_row(report, "server-renew/p99", "-", BENCH_LATE, 0, figures->p99, figures->p99);
    add_row(report, "server-batch", "one renewal a request", BENCH_RATE, 0, figures->batch, figures->ours);
    add_row(report, "server-batch/goal", "the goal", BENCH_RATE, 1, figures->batch, goal);
    static const char *const renew_names[] = {"server-renew/cpu-client", "server-renew/cpu-http",
                                              "server-renew/cpu-store"};
    static const char *const batch_names[] = {"server-batch/cpu-client", "server-batch/cpu-http",
                                              "server-batch/cpu-store"};
    add_split(report, renew_names, "a constant answer; processor time of a request", figures->ours_split,
              figures->constant_split);
    add_split(report, batch_names, "one renewal a request; processor time of a lease", figures->batch_split,
              figures->ours_split);
}

bool server_measure(bench_report *report, const char *directory) {
    char programs[GROUND_PATH_SIZE];
    char tenure[GROUND_PATH_SIZE + 16], fixed[GROUND_PATH_SIZE + 24], store[GROUND_PATH_SIZE + 24], url[64];
    ssize_t length = readlink("/proc/self/exe", programs, sizeof programs - 1);
    if (length <= 0)
        return false;
    programs[length] = '\0';
    *strrchr(programs, '/') = '\0';
    snprintf(tenure, sizeof tenure, "%s/../tenure", programs);
    snprintf(fixed, sizeof fixed, "%s/server-constant", programs);
    snprintf(store, sizeof store, "sqlite:%s/serve.db", directory);
    char *const serve[] = {tenure,
                           (char *)"serve",
                           (char *)"--listen",
                           (char *)"127.0.0.1:0",
                           (char *)"--store",
                           store,
                           (char *)"--log-level",
                           (char *)"error",
                           NULL};
    char *const constant[] = {fixed, NULL};
    struct peer ours = {0}, ceiling = {0};
    etcd_server etcd = {0};
    struct figures figures;
    bool done = start(&ours, serve) && start(&ceiling, constant);
    bool has_etcd = done && etcd_start(&etcd, directory) && put_key(etcd.port);
    snprintf(url, sizeof url, "http://127.0.0.1:%s", ours.port);
    done = done && acquire_all(url) && race(&ours, &ceiling, &etcd, url, &figures);
    if (done)
        add_rows(report, &figures, has_etcd);
    stop(&ours);
    stop(&ceiling);
    if (etcd.pid)
        etcd_stop(&etcd);
    return done;
}
