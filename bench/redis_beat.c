/*
 * The heartbeat of a session on Redis, which renews all leases of an instance and reads sixteen of them: the server's
 * time by the lean script, against that of the full one. See redis.h.
 */
#include <hiredis/hiredis.h>
#include <string.h>

#include "base/util.h"
#include "ground.h"
#include "redis.h"
#include "store/store.h"
#include "wire.h"

#define READS  16u
#define BEATS  200u
#define ROUNDS 15u

struct beater {
    ten_store *store;
    redisContext *bare;
    ground_leases leases;
    ten_op ops[1 + READS];
};

static ten_store *open_store(const struct redis_server *server) {
    char url[64];
    ten_error error = {0};
    ten_store *store = NULL;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0?fresh=1&leases=session", server->port);
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) == TENURE_OK)
        return store;
    fprintf(stderr, "bench: %s\n", error.message);
    return NULL;
}

/* The instance has a session before it takes its leases. */
static bool acquire_on_session(struct beater *beater, const struct redis_server *server) {
    ten_result results[READS];
    beater->store = open_store(server);
    beater->bare = beater->store ? wire_connect(server, 0) : NULL;
    if (!beater->bare || !ground_acquire(beater->store, 1, READS, &beater->leases))
        return false;
    beater->ops[0] = (ten_op){.kind = TEN_OP_ANNOUNCE,
                              .namespace_name = beater->leases.ops[0].namespace_name,
                              .holder = beater->leases.holder,
                              .ttl_ms = GROUND_TTL_MS,
                              .weight = 1,
                              .flags = TEN_OP_SESSION};
    if (!ground_apply(beater->store, beater->ops, results, 1))
        return false;
    for (size_t i = 0; i < READS; i++) {
        beater->leases.ops[i].flags = TEN_OP_SESSION;
        beater->ops[1 + i] = (ten_op){.kind = TEN_OP_READ,
                                      .namespace_name = beater->leases.ops[i].namespace_name,
                                      .target = beater->leases.ops[i].target};
    }
    return ground_apply(beater->store, beater->leases.ops, results, READS) && results[0].session != 0;
}

/* A reading with a flag is the full script's. */
static bool beat(struct beater *beater, bool lean, double *ret_us) {
    ten_result results[1 + READS];
    wire_cost before = {0}, after = {0};
    for (size_t i = 1; i < TEN_COUNT(beater->ops); i++)
        beater->ops[i].flags = lean ? 0 : TEN_OP_REQUIRE_TARGET;
    bool done = wire_cost_read(beater->bare, "evalsha", &before);
    for (size_t i = 0; done && i < BEATS; i++)
        done = ground_apply(beater->store, beater->ops, results, TEN_COUNT(beater->ops));
    done = done && wire_cost_read(beater->bare, "evalsha", &after);
    *ret_us = (after.us - before.us) / BEATS;
    return done;
}

bool redis_measure_beat(bench_report *report, const char *directory) {
    double lean[ROUNDS], full[ROUNDS];
    struct beater beater = {0};
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && acquire_on_session(&beater, &server);
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = beat(&beater, round % 2, round % 2 ? &lean[round] : &full[round]) &&
               beat(&beater, !(round % 2), round % 2 ? &full[round] : &lean[round]);
    bench_row *row =
        done ? bench_add(report,
                         (bench_row){.name = "redis-beat",
                                     .against = "server time of a heartbeat with 16 readings; by the full script",
                                     .kind = BENCH_COST,
                                     .goal = 0.6},
                         lean, full, ROUNDS)
             : NULL;
    ten_store_close(beater.store);
    ground_free(&beater.leases);
    if (beater.bare)
        redisFree(beater.bare);
    redis_server_remove(&server);
    return row != NULL;
}
