/*
 * The benchmarks of the etcd store, on a member of their own that keeps what it has committed. A holder's 10,000 leases
 * are renewed in one batch, beside as many etcd leases that are kept alive one by one, eight in flight, by the same
 * gateway and the same libcurl. A lock that is taken and given back is measured beside `etcdctl lock`, which is a
 * process for each: what people use in scripts.
 */
#include "measures.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/io.h"
#include "ground.h"
#include "lib/etcd_server.h"
#include "store/etcd/etcd_link.h"

#define LEASES      10000u
#define KEPT        500u /* etcd leases that are kept alive in turn: each is one request, whichever it is */
#define PAIRS       5u   /* of one turn */
#define ROUNDS      7u
#define LOCK_ROUNDS 15u
#define SLICE_MS    400u
#define WAIT_MS     UINT64_C(20000)

extern char **environ;

struct renewer {
    ten_store *store;
    ground_leases leases;
    ten_etcd_settings settings;
    ten_etcd_link *link;
    char (*bodies)[48];
    int port;
};

static uint64_t deadline(void) {
    return ten_boot_ms(&ten_system_clock) + WAIT_MS;
}

/* ---- renewals ---------------------------------------------------------------------------------------------- */

static bool renew_turn(void *arg) {
    struct renewer *renewer = arg;
    const ground_leases *leases = &renewer->leases;
    bool done = ten_store_apply(renewer->store, leases->ops, leases->results, LEASES, WAIT_MS) == TENURE_OK;
    for (size_t i = 0; done && i < LEASES; i++)
        done = leases->results[i].outcome == TEN_OK;
    if (!done)
        fprintf(stderr, "bench: the leases were not renewed: %s\n", renewer->store->error.message);
    return done;
}

static bool keep_alive_turn(void *arg) {
    struct renewer *renewer = arg;
    static ten_etcd_call calls[KEPT];
    ten_error error = {0};
    for (size_t i = 0; i < KEPT; i++)
        calls[i] = (ten_etcd_call){.path = "/v3/lease/keepalive", .body = renewer->bodies[i]};
    bool done = ten_etcd_perform(renewer->link, calls, KEPT, deadline(), &error) == TENURE_OK;
    if (!done)
        fprintf(stderr, "bench: %s\n", error.message);
    ten_etcd_calls_free(calls, KEPT);
    return done;
}

static bool grant_leases(struct renewer *renewer) {
    ten_error error = {0};
    renewer->bodies = calloc(KEPT, sizeof *renewer->bodies);
    for (size_t i = 0; renewer->bodies && i < KEPT; i++) {
        ten_etcd_call call = {.path = "/v3/lease/grant", .body = "{\"TTL\":\"3600\"}"};
        if (ten_etcd_perform(renewer->link, &call, 1, deadline(), &error) < 0) {
            fprintf(stderr, "bench: %s\n", error.message);
            return false;
        }
        snprintf(renewer->bodies[i], sizeof renewer->bodies[i], "{\"ID\":\"%llu\"}",
                 (unsigned long long)ten_etcd_number(call.answer, "ID"));
        ten_etcd_calls_free(&call, 1);
    }
    return renewer->bodies != NULL;
}

/* ---- locks ------------------------------------------------------------------------------------------------- */

static bool pair_turn(void *arg) {
    const struct renewer *renewer = arg;
    ten_op op = {.namespace_name = "locks", .target = "one", .holder = "bench-pair", .ttl_ms = 60000};
    for (unsigned i = 0; i < PAIRS; i++) {
        ten_result result;
        op.kind = TEN_OP_ACQUIRE;
        op.token = 0;
        if (!ground_apply(renewer->store, &op, &result, 1))
            return false;
        op.kind = TEN_OP_RELEASE;
        op.token = result.token;
        if (!ground_apply(renewer->store, &op, &result, 1))
            return false;
    }
    return true;
}

static bool lock_turn(void *arg) {
    const struct renewer *renewer = arg;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "--endpoints=127.0.0.1:%d", renewer->port);
    char *words[] = {"etcdctl", endpoint, "lock", "bench-lock", "true", NULL};
    pid_t pid = 0;
    int status = 0;
    bool done = setenv("ETCDCTL_API", "3", 1) == 0 && posix_spawnp(&pid, words[0], NULL, NULL, words, environ) == 0;
    while (done && waitpid(pid, &status, 0) < 0)
        ;
    if (!done || status != 0)
        fprintf(stderr, "bench: etcdctl lock failed; the package etcd-client has it\n");
    return done && status == 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static bool add_row(bench_report *report, bench_row head, const double *ours, const double *reference, size_t rounds) {
    return bench_add(report, head, ours, reference, rounds) != NULL;
}

static bool race_renewals(bench_report *report, struct renewer *renewer, pid_t server) {
    bench_side sides[] = {{.turn = renew_turn, .arg = renewer, .per_turn = LEASES, .server = server},
                          {.turn = keep_alive_turn, .arg = renewer, .per_turn = KEPT, .server = server}};
    return bench_race(sides, TEN_COUNT(sides), ROUNDS, SLICE_MS) &&
           add_row(report,
                   (bench_row){.name = "etcd-renew",
                               .against = "a keep-alive by the gateway for each lease, 8 in flight",
                               .kind = BENCH_RATE,
                               .goal = 20},
                   sides[0].rates, sides[1].rates, ROUNDS) &&
           add_row(report,
                   (bench_row){.name = "etcd-renew/client",
                               .against = "CPU of the client a renewal; a keep-alive",
                               .kind = BENCH_COST},
                   sides[0].cpu_us, sides[1].cpu_us, ROUNDS) &&
           add_row(report,
                   (bench_row){.name = "etcd-renew/server",
                               .against = "CPU of the server a renewal; a keep-alive",
                               .kind = BENCH_COST},
                   sides[0].server_us, sides[1].server_us, ROUNDS);
}

static bool race_locks(bench_report *report, struct renewer *renewer) {
    bench_side sides[] = {{.turn = pair_turn, .arg = renewer, .per_turn = PAIRS},
                          {.turn = lock_turn, .arg = renewer, .per_turn = 1}};
    return bench_race(sides, TEN_COUNT(sides), LOCK_ROUNDS, SLICE_MS) &&
           add_row(report,
                   (bench_row){.name = "etcd-pairs",
                               .against = "etcdctl lock NAME true: acquire and release, a process each",
                               .kind = BENCH_RATE},
                   sides[0].rates, sides[1].rates, LOCK_ROUNDS);
}

static bool open_all(struct renewer *renewer) {
    char url[64];
    ten_error error = {0};
    ten_url parsed = {0};
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d", renewer->port);
    bool done =
        ten_url_parse(url, &parsed, &error) == TENURE_OK &&
        ten_etcd_settings_read(&parsed, &renewer->settings, &error) == TENURE_OK &&
        ten_etcd_link_open(&renewer->settings, &renewer->link, &error) == TENURE_OK &&
        ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &renewer->store, &error) == TENURE_OK;
    ten_url_free(&parsed);
    if (!done)
        fprintf(stderr, "bench: %s\n", error.message);
    return done;
}

bool etcd_measure(bench_report *report, const char *directory) {
    etcd_server server = {0};
    struct renewer renewer = {0};
    bool done = etcd_start(&server, directory);
    if (!done)
        fprintf(stderr, "bench: etcd does not start; the package etcd-server has it\n");
    renewer.port = server.port;
    done = done && open_all(&renewer) && ground_acquire(renewer.store, 1, LEASES, &renewer.leases) &&
           grant_leases(&renewer) && renew_turn(&renewer) && race_renewals(report, &renewer, server.pid) &&
           race_locks(report, &renewer);
    ten_store_close(renewer.store);
    ten_etcd_link_close(renewer.link);
    ten_etcd_settings_free(&renewer.settings);
    ground_free(&renewer.leases);
    free(renewer.bodies);
    etcd_stop(&server);
    return done;
}
