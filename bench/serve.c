/*
 * `tenure serve` on SQLite under load: one renewal a request (wrk with peers/renew.lua), beside libmicrohttpd with a
 * constant answer (serve_constant.c) and etcd's gateway, and batches of renewals by the `http` store. Its first thread
 * speaks HTTP, the others have the store.
 */
#include <signal.h>
#include <string.h>

#include "ground.h"
#include "lib/etcd_server.h"
#include "measures.h"
#include "store_server.h"

#define ROUNDS      7u
#define SLICE_MS    900u /* wrk takes a second */
#define CONNECTIONS "64"
#define LEASES      1000u
#define BATCH_GOAL  200000.0 /* leases a second */

enum { OURS, CONSTANT, BATCH, ETCD, SIDES };

static const bench_pairing rows[] = {
    {"server-renew", "libmicrohttpd, constant answer", BENCH_RATE, 0.8, OURS, CONSTANT},
    {"server-renew/cpu-client", "a constant answer; processor time of a request", BENCH_CLIENT, 0, OURS, CONSTANT},
    {"server-renew/cpu-http", "the same", BENCH_SERVER, 0, OURS, CONSTANT},
    {"server-renew/cpu-store", "the same", BENCH_OTHERS, 0, OURS, CONSTANT},
    {"server-batch/cpu-client", "one renewal a request; processor time of a lease", BENCH_CLIENT, 0, BATCH, OURS},
    {"server-batch/cpu-http", "the same", BENCH_SERVER, 0, BATCH, OURS},
    {"server-batch/cpu-store", "the same", BENCH_OTHERS, 0, BATCH, OURS},
    {"server-renew/etcd", "etcd's gateway, a transaction", BENCH_RATE, 5, OURS, ETCD}}; /* the last: it may be away */

struct load {
    bench_side *side;
    int port;
    const char *argument; /* of renew.lua */
};

static bool run_wrk(void *arg) {
    const struct load *load = arg;
    char command[600], line[256];
    double requests = 0;
    snprintf(command, sizeof command,
             "wrk -t1 -c" CONNECTIONS " -d1s -s '" BENCH_DIRECTORY "/peers/renew.lua' http://127.0.0.1:%d/ -- %s",
             load->port, load->argument);
    FILE *out = popen(command, "r");
    bool failed = !out;
    while (out && fgets(line, sizeof line, out)) {
        (void)sscanf(line, " %lf requests in", &requests);
        failed |= strstr(line, "Non-2xx") || strstr(line, "Socket errors");
    }
    load->side->per_turn = (uint64_t)requests;
    bool done = out && pclose(out) == 0 && !failed && requests > 0;
    return done || bench_could_not("a round of wrk; is it there? It");
}

struct batch {
    ten_store *store;
    ground_leases leases;
};

static bool renew_batch(void *arg) {
    const struct batch *batch = arg;
    return ground_apply(batch->store, batch->leases.ops, batch->leases.results, LEASES);
}

/* What renew.lua compares and puts. */
static bool put_key(int port) {
    char command[300];
    snprintf(command, sizeof command,
             "curl -sf -o /dev/null -d '{\"key\":\"YmVuY2g=\",\"value\":\"dHJhY2tlci0w\"}' "
             "http://127.0.0.1:%d/v3/kv/put",
             port);
    return system(command) == 0;
}

static bool race(bench_report *report, const store_server *server, struct batch *batch, const etcd_server *etcd) {
    static bench_side sides[SIDES];
    struct load loads[SIDES] = {[OURS] = {.argument = "tenure"},
                                [CONSTANT] = {.argument = "tenure"},
                                [ETCD] = {.port = etcd->port, .argument = "etcd"}};
    char command[GROUND_PATH_SIZE + 32];
    double goal[ROUNDS];
    bool has_etcd = etcd->pid && put_key(etcd->port);
    snprintf(command, sizeof command, "exec %s/serve-constant", ground_programs());
    FILE *constant = popen(command, "re");
    if (!constant || fscanf(constant, "%d %d", &loads[CONSTANT].port, &sides[CONSTANT].server) != 2)
        return bench_could_not("the constant answer");
    (void)sscanf(server->url, "http://127.0.0.1:%d", &loads[OURS].port);
    sides[OURS].server = sides[BATCH].server = server->pid;
    for (size_t i = 0; i < SIDES; i++) {
        loads[i].side = &sides[i];
        sides[i].arg = i == BATCH ? (void *)batch : &loads[i];
        sides[i].turn = i == BATCH ? renew_batch : run_wrk;
    }
    sides[BATCH].per_turn = LEASES;
    bool done = bench_race(report, sides, has_etcd ? SIDES : ETCD, ROUNDS, SLICE_MS, rows,
                           TEN_COUNT(rows) - (has_etcd ? 0 : 1));
    (void)kill(sides[CONSTANT].server, SIGKILL);
    (void)pclose(constant);
    if (!has_etcd)
        printf("  etcd is not there: NOT MEASURED\n");
    for (size_t i = 0; i < ROUNDS; i++)
        goal[i] = BATCH_GOAL;
    bench_row head = {.name = "server-batch/goal", .against = "the goal", .kind = BENCH_RATE, .goal = 1};
    return done && bench_add(report, head, sides[BATCH].values[BENCH_RATE], goal, ROUNDS);
}

bool serve_measure(bench_report *report, const char *directory) {
    struct batch batch = {0};
    etcd_server etcd = {0};
    store_server server;
    if (!store_server_start(&server, "http"))
        return false;
    (void)etcd_start(&etcd, directory);
    batch.store = ground_open("%s", server.url);
    bool done =
        batch.store && ground_acquire(batch.store, 0, LEASES, &batch.leases) && race(report, &server, &batch, &etcd);
    ten_store_close(batch.store);
    ground_free(&batch.leases);
    if (etcd.pid)
        etcd_stop(&etcd);
    store_server_stop(&server);
    return done;
}
