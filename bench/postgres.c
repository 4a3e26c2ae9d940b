/*
 * The benchmarks of the PostgreSQL store, on a server of their own that keeps what it has committed (fsync on). The
 * store and the bare statements renew the very same rows, in turns, one connection each; the bare ones are prepared,
 * and their arrays lie ready, as a good client would have them. A slow reference would flatter us.
 */
#include "measures.h"

#include <libpq-fe.h>
#include <string.h>

#include "base/buf.h"
#include "ground.h"
#include "lib/postgres_server.h"
#include "store/postgres/postgres_state.h"
#include "store/record_store.h"

#define LEASES   10000u
#define BATCH    1000u
#define BATCHES  (LEASES / BATCH)
#define SINGLES  20u /* of one turn: each is flushed to the disk */
#define ROUNDS   15u
#define SLICE_MS 100u
#define URL_SIZE 400u

static const char bare_update[] = "UPDATE tenure.record SET ends_at = now() + $2::bigint * interval '1 millisecond' "
                                  "WHERE key = ANY ($1::text[])";
static const char seed_update[] = "UPDATE tenure.record SET ends_at = now() + $2::bigint * interval '1 millisecond' "
                                  "WHERE key = '" GROUND_NAMESPACE " 4' || $1 AND name = $3 "
                                  "AND number = $4::bigint AND ends_at > now()";

struct renewer {
    const ground_leases *leases;
    ten_store *store;
    PGconn *bare;
    size_t at; /* where the next turn starts */
    char ttl[24];
    ten_buf arrays[BATCHES]; /* of the bare statement: the ids of each batch, as text */
};

/* ---- turns --------------------------------------------------------------------------------------------- */

static bool apply_turn(void *arg) {
    struct renewer *renewer = arg;
    size_t at = renewer->at;
    renewer->at = (at + BATCH) % LEASES;
    return ground_apply(renewer->store, &renewer->leases->ops[at], &renewer->leases->results[at], BATCH);
}

/* Takes the result. */
static bool is_done(const PGconn *connection, PGresult *result, const char *changes) {
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK && strcmp(PQcmdTuples(result), changes) == 0;
    if (!done)
        fprintf(stderr, "bench: %s rows instead of %s: %s\n", PQcmdTuples(result), changes, PQerrorMessage(connection));
    PQclear(result);
    return done;
}

static bool bare_turn(void *arg) {
    struct renewer *renewer = arg;
    const char *values[] = {ten_buf_string(&renewer->arrays[renewer->at / BATCH]), renewer->ttl};
    renewer->at = (renewer->at + BATCH) % LEASES;
    return is_done(renewer->bare, PQexecPrepared(renewer->bare, "bare", TEN_COUNT(values), values, NULL, NULL, 0),
                   "1000");
}

static bool seed_turn(void *arg) {
    struct renewer *renewer = arg;
    bool done = true;
    for (size_t i = 0; done && i < SINGLES; i++) {
        const ten_op *op = &renewer->leases->ops[renewer->at];
        char version[24];
        snprintf(version, sizeof version, "%llu", (unsigned long long)op->token);
        const char *values[] = {op->target, renewer->ttl, op->holder, version};
        renewer->at = (renewer->at + 1) % LEASES;
        done = is_done(renewer->bare, PQexecPrepared(renewer->bare, "seed", TEN_COUNT(values), values, NULL, NULL, 0),
                       "1");
    }
    return done;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static bool prepare(PGconn *connection, const char *name, const char *statement) {
    PGresult *result = PQprepare(connection, name, statement, 0, NULL);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!done)
        fprintf(stderr, "bench: %s", PQerrorMessage(connection));
    PQclear(result);
    return done;
}

static bool open_bare(struct renewer *renewer, const struct postgres_server *server, const ground_leases *leases) {
    const char *const keywords[] = {"host", "port", "dbname", "user", NULL};
    const char *const values[] = {server->directory, "5432", "postgres", POSTGRES_SERVER_USER, NULL};
    *renewer = (struct renewer){.leases = leases, .bare = PQconnectdbParams(keywords, values, 0)};
    snprintf(renewer->ttl, sizeof renewer->ttl, "%llu", (unsigned long long)GROUND_TTL_MS);
    bool done = true;
    for (size_t i = 0; i < leases->count; i++)
        ten_buf_format(&renewer->arrays[i / BATCH], "%c" GROUND_NAMESPACE " 4%s", i % BATCH ? ',' : '{',
                       leases->targets[i]);
    for (size_t i = 0; i < BATCHES; i++) {
        ten_buf_char(&renewer->arrays[i], '}');
        done &= !renewer->arrays[i].failed;
    }
    return done && prepare(renewer->bare, "bare", bare_update) && prepare(renewer->bare, "seed", seed_update);
}

static void close_bare(struct renewer *renewer) {
    PQfinish(renewer->bare);
    for (size_t i = 0; i < BATCHES; i++)
        ten_buf_free(&renewer->arrays[i]);
}

/* The planner of the bare statements knows the table, as it would after a while. */
static bool analyze(const struct postgres_server *server) {
    bool done;
    free(postgres_server_query(server, "postgres", "VACUUM ANALYZE tenure.record", &done));
    return done;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

enum side { OURS, BARE, SEED, SIDES };

static const bench_pairing rows[] = {
    {"postgres-renew", "bare UPDATE ... = ANY($1), prepared, batches of 1,000", BENCH_RATE, 0.8, OURS, BARE},
    {"postgres-renew/seed", "the seed's statement for each lease, prepared, one connection", BENCH_RATE, 40, OURS,
     SEED},
    {"postgres-renew/client", "CPU of the client a renewal; the bare UPDATE", BENCH_CLIENT, 0, OURS, BARE},
    {"postgres-renew/server", "CPU of the server a renewal; the bare UPDATE", BENCH_SERVER, 0, OURS, BARE}};

/* The process of the server that works for it. */
static pid_t backend_of(const struct renewer *renewer) {
    const ten_postgres_store *store =
        renewer->store ? (const ten_postgres_store *)((const ten_record_store *)renewer->store)->backend : NULL;
    return PQbackendPID(store ? ten_postgres_link_connection(store->link) : renewer->bare);
}

static bool race(bench_report *report, struct renewer *renewers) {
    bench_side sides[SIDES] = {[OURS] = {.turn = apply_turn, .per_turn = BATCH},
                               [BARE] = {.turn = bare_turn, .per_turn = BATCH},
                               [SEED] = {.turn = seed_turn, .per_turn = SINGLES}};
    for (size_t i = 0; i < SIDES; i++) {
        sides[i].arg = &renewers[i];
        sides[i].server = backend_of(&renewers[i]);
    }
    return bench_race(report, sides, SIDES, ROUNDS, SLICE_MS, rows, TEN_COUNT(rows));
}

bool postgres_measure_renew(bench_report *report, const char *directory) {
    static const char *const settings[] = {"fsync=on", "synchronous_commit=on", NULL};
    struct postgres_server server = {.settings = settings};
    ground_leases leases = {0};
    struct renewer renewers[SIDES] = {[OURS] = {.leases = &leases}};
    (void)directory;
    char url[URL_SIZE];
    bool started = postgres_server_start(&server) == 0;
    postgres_server_url(&server, "postgres", POSTGRES_SERVER_USER, "", url, sizeof url);
    ten_store *store = started ? ground_open("%s", url) : NULL;
    bool done = store && ground_acquire(store, 1, LEASES, &leases) && analyze(&server);
    renewers[OURS].store = store;
    for (size_t i = BARE; done && i < SIDES; i++)
        done = open_bare(&renewers[i], &server, &leases);
    done = done && race(report, renewers);
    for (size_t i = BARE; i < SIDES; i++)
        close_bare(&renewers[i]);
    ten_store_close(store);
    ground_free(&leases);
    postgres_server_remove(&server);
    return done;
}
