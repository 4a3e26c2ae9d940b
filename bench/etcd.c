/*
 * The benchmarks of the etcd store, on a member of their own that keeps what it has committed. A holder's 10,000 leases
 * are renewed in one batch, beside as many etcd leases that are kept alive one by one, eight in flight, by the same
 * gateway and the same libcurl.
 */
#include "measures.h"

#include <string.h>

#include "ground.h"
#include "lib/etcd_server.h"
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"

#define LEASES   10000u
#define KEPT     500u /* etcd leases that are kept alive in turn: each is one request, whichever it is */
#define ROUNDS   7u
#define SLICE_MS 400u
#define WAIT_MS  UINT64_C(20000)

struct renewer {
    ten_store *store;
    ground_leases leases;
    ten_etcd_link *link; /* of the store */
    char (*bodies)[48];
};

static uint64_t deadline(void) {
    return ten_boot_ms(&ten_system_clock) + WAIT_MS;
}

/* ---- renewals ---------------------------------------------------------------------------------------------- */

static bool renew_turn(void *arg) {
    struct renewer *renewer = arg;
    const ground_leases *leases = &renewer->leases;
    return ground_apply_within(renewer->store, leases->ops, leases->results, LEASES, WAIT_MS);
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

/* ---- rows -------------------------------------------------------------------------------------------------- */

static bool race(bench_report *report, struct renewer *renewer, pid_t server) {
    static const bench_pairing rows[] = {
        {"etcd-renew", "a keep-alive by the gateway for each lease, 8 in flight", BENCH_RATE, 20, 0, 1},
        {"etcd-renew/client", "CPU of the client a renewal; a keep-alive", BENCH_CLIENT, 0, 0, 1}};
    bench_side sides[] = {{.turn = renew_turn, .arg = renewer, .per_turn = LEASES, .server = server},
                          {.turn = keep_alive_turn, .arg = renewer, .per_turn = KEPT, .server = server}};
    return bench_race(report, sides, TEN_COUNT(sides), ROUNDS, SLICE_MS, rows, TEN_COUNT(rows));
}

bool etcd_measure(bench_report *report, const char *directory) {
    etcd_server server = {0};
    struct renewer renewer = {0};
    bool done = etcd_start(&server, directory);
    if (!done)
        fprintf(stderr, "bench: etcd does not start; the package etcd-server has it\n");
    renewer.store = done ? ground_open("etcd://127.0.0.1:%d", server.port) : NULL;
    if (renewer.store)
        renewer.link = ((ten_etcd_store *)((ten_record_store *)renewer.store)->backend)->link;
    done = renewer.store && ground_acquire(renewer.store, 1, LEASES, &renewer.leases) && grant_leases(&renewer) &&
           race(report, &renewer, server.pid);
    ten_store_close(renewer.store);
    ground_free(&renewer.leases);
    free(renewer.bodies);
    etcd_stop(&server);
    return done;
}
