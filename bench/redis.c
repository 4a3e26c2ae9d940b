/*
 * Single operations on the Redis store: renewals and acquires, in batches against pipelines of bare commands (wire.h) on
 * the same server and in turns, one connection each; and one by one, by what the server says of itself (INFO
 * commandstats). The seeds' layout is ours, too: a lease is a plain key with the holder's name, so that the seed's own
 * script and a bare PEXPIRE renew the very same keys.
 */
#include <string.h>

#include "base/alloc.h"
#include "ground.h"
#include "measures.h"
#include "wire.h"

#define LEASES         (400u * WIRE_PIPELINE) /* 102,400 */
#define WINDOW         (40u * WIRE_PIPELINE)
#define ROUNDS         41u /* short and many, as in sqlite.c */
#define ACQUIRE_ROUNDS 15u /* of all the leases each: tables that grow do it in leaps */
#define SLICE_MS       40u
#define TTL_TEXT       "3600000" /* GROUND_TTL_MS */

static const char seed_script[] = "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then\n"
                                  "  return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2])\n"
                                  "else\n"
                                  "  return 0\n"
                                  "end";

/* ---- what takes turns ---------------------------------------------------------------------------------- */

/* One side: the store, or a bare connection with its command. Turns go round through the leases. */
struct runner {
    ground_leases *leases;
    size_t window; /* leases of one turn */
    size_t at;     /* where the next turn starts */
    ten_store *store;
    redisContext *bare;
    char (*keys)[WIRE_KEY_SIZE];
    wire_command command;
};

static bool apply_window(const struct runner *runner) {
    return ground_apply(runner->store, runner->leases->ops + runner->at, runner->leases->results + runner->at,
                        runner->window);
}

static bool run_window(struct runner *runner, const wire_command *command) {
    return wire_run(runner->bare, command, runner->keys + runner->at, runner->window);
}

static bool turn(void *arg) {
    struct runner *runner = arg;
    bool done = runner->store ? apply_window(runner) : run_window(runner, &runner->command);
    runner->at = (runner->at + runner->window) % LEASES;
    return done;
}

static bool flush(void *arg) {
    const struct runner *runner = arg;
    return wire_do(runner->bare, "FLUSHDB");
}

static void set_kind(struct runner *runner, enum ten_op_kind kind) {
    for (size_t i = runner->at; i < runner->at + runner->window; i++) {
        runner->leases->ops[i].kind = kind;
        runner->leases->ops[i].token = runner->leases->results[i].token;
    }
}

static bool release_window(void *arg) {
    struct runner *runner = arg;
    set_kind(runner, TEN_OP_RELEASE);
    bool done = apply_window(runner);
    set_kind(runner, TEN_OP_ACQUIRE);
    return done;
}

static bool delete_window(void *arg) {
    return run_window(arg, &(wire_command){2, {"DEL", NULL}});
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

/* A server, leases on it that are held, and the keys of them. */
struct place {
    struct redis_server server;
    ten_store *store;
    redisContext *bare[2]; /* in the database of the store, and in another */
    ground_leases leases;
    char (*keys)[WIRE_KEY_SIZE];
};

static bool open_place(struct place *place, size_t count) {
    if (redis_server_start(&place->server, NULL) != 0)
        return false;
    place->store = ground_open("redis://127.0.0.1:%d/0?fresh=1", place->server.port);
    place->keys = ten_calloc(count, sizeof *place->keys);
    for (int i = 0; i < 2; i++)
        place->bare[i] = wire_connect(&place->server, i);
    if (!place->store || !place->keys || !place->bare[0] || !place->bare[1] ||
        !ground_acquire(place->store, 1, count, &place->leases))
        return false;
    for (size_t i = 0; i < count; i++)
        snprintf(place->keys[i], WIRE_KEY_SIZE, GROUND_NAMESPACE ":lease:%s", place->leases.targets[i]);
    return true;
}

static void close_place(struct place *place) {
    ten_store_close(place->store);
    ground_free(&place->leases);
    ten_free(place->keys);
    for (int i = 0; i < 2; i++)
        if (place->bare[i])
            redisFree(place->bare[i]);
    redis_server_remove(&place->server);
}

static struct runner ours_of(struct place *place, size_t window) {
    return (struct runner){.leases = &place->leases, .window = window, .store = place->store, .bare = place->bare[0]};
}

static struct runner bare_of(const struct place *place, int database, size_t window, wire_command command) {
    return (struct runner){.window = window, .bare = place->bare[database], .keys = place->keys, .command = command};
}

/* ---- renewals and acquires in batches ------------------------------------------------------------------ */

bool redis_measure_renew(bench_report *report, const char *directory) {
    static const bench_pairing rows[] = {
        {"redis-renew", "the seed's script by EVALSHA, pipeline of 256", BENCH_RATE, 2.5, 0, 1},
        {"redis-renew/bare", "bare PEXPIRE, pipeline of 256", BENCH_RATE, 0.9, 0, 2},
        {"redis-renew/client", "CPU of the client a renewal; bare PEXPIRE", BENCH_CLIENT, 0, 0, 2},
        {"redis-renew/server", "CPU of the server a renewal; bare PEXPIRE", BENCH_SERVER, 0, 0, 2}};
    struct place place = {0};
    (void)directory;
    bool done = open_place(&place, LEASES);
    redisReply *sha = done ? wire_ask(place.bare[0], "SCRIPT LOAD %s", seed_script) : NULL;
    if (sha) {
        wire_command seed = {6, {"EVALSHA", sha->str, "1", NULL, place.leases.holder, TTL_TEXT}};
        struct runner runners[] = {ours_of(&place, WINDOW), bare_of(&place, 0, WINDOW, seed),
                                   bare_of(&place, 0, WINDOW, (wire_command){3, {"PEXPIRE", NULL, TTL_TEXT}})};
        bench_side sides[TEN_COUNT(runners)] = {0};
        for (size_t i = 0; i < TEN_COUNT(runners); i++)
            sides[i] = (bench_side){.turn = turn, .arg = &runners[i], .per_turn = WINDOW, .server = place.server.pid};
        done = bench_race(report, sides, TEN_COUNT(sides), ROUNDS, SLICE_MS, rows, TEN_COUNT(rows));
        freeReplyObject(sha);
    }
    close_place(&place);
    return sha && done;
}

static bool race_acquires(bench_report *report, struct place *place, const bench_pairing *row, size_t rounds,
                          bool again) {
    size_t window = again ? WINDOW : LEASES;
    wire_command set = {6, {"SET", NULL, place->leases.holder, "NX", "PX", TTL_TEXT}};
    struct runner ours = ours_of(place, window), bare = bare_of(place, 1, window, set);
    bench_side sides[] = {{.prepare = again ? release_window : flush, .turn = turn, .arg = &ours, .per_turn = window},
                          {.prepare = again ? delete_window : flush, .turn = turn, .arg = &bare, .per_turn = window}};
    return bench_race(report, sides, TEN_COUNT(sides), rounds, 1, row, 1);
}

/* Both take keys of the same names, each in its own database. */
bool redis_measure_acquire(bench_report *report, const char *directory) {
    static const bench_pairing first = {
        "redis-acquire", "bare SET NX PX, pipeline of 256; never leased before", BENCH_RATE, 0.4, 0, 1};
    static const bench_pairing again = {"redis-acquire/again", "the same; released before", BENCH_RATE, 0, 0, 1};
    struct place place = {0};
    (void)directory;
    bool done = open_place(&place, LEASES);
    for (size_t i = 0; i < place.leases.count; i++)
        place.leases.ops[i].kind = TEN_OP_ACQUIRE;
    done = done && race_acquires(report, &place, &first, ACQUIRE_ROUNDS, false) &&
           race_acquires(report, &place, &again, ROUNDS, true);
    close_place(&place);
    return done;
}

/* ---- one operation at a time --------------------------------------------------------------------------- */

#define SINGLES       2000u /* targets that are acquired, renewed and released, one after the other */
#define SINGLE_ROUNDS 15u

enum single { RELEASE_ONE, ACQUIRE_ONE, RENEW_ONE, SET_ONE, SINGLE_KINDS };

static const struct {
    enum ten_op_kind kind;
    const char *name, *against;
    double goal;
} singles[] = {
    [RELEASE_ONE] = {TEN_OP_RELEASE, "redis-single/release", "the same of one release", 0},
    [ACQUIRE_ONE] = {TEN_OP_ACQUIRE, "redis-single/acquire", "server time of one acquire; of a bare SET NX PX", 7.5},
    [RENEW_ONE] = {TEN_OP_RENEW, "redis-single/renew", "the same of one renewal", 0}};

/* What the server has spent on one of them; the scripts of ours have their SET, too, but not meanwhile. */
static bool run_singles(struct place *place, enum single single, double *ret_us) {
    const char *command = single == SET_ONE ? "set" : "evalsha";
    double before_us = wire_cost_us(place->bare[1], command);
    bool done = before_us >= 0;
    for (size_t i = 0; done && i < SINGLES; i++) {
        ten_op *op = &place->leases.ops[i];
        if (single == SET_ONE) {
            done = wire_do(place->bare[1], "SET %s holder NX PX 30000", place->keys[i]);
            continue;
        }
        op->kind = singles[single].kind;
        done = ground_apply(place->store, op, &place->leases.results[i], 1);
        op->token = place->leases.results[i].token;
    }
    *ret_us = (wire_cost_us(place->bare[1], command) - before_us) / SINGLES;
    return done && wire_do(place->bare[1], "FLUSHDB");
}

bool redis_measure_single(bench_report *report, const char *directory) {
    double us[SINGLE_KINDS][SINGLE_ROUNDS];
    struct place place = {0};
    (void)directory;
    bool done = open_place(&place, SINGLES);
    for (size_t round = 0; done && round < SINGLE_ROUNDS; round++)
        for (unsigned i = 0; done && i < SINGLE_KINDS; i++)
            done = run_singles(&place, (enum single)i, &us[i][round]);
    for (size_t i = 0; done && i < TEN_COUNT(singles); i++) {
        bench_row head = {
            .name = singles[i].name, .against = singles[i].against, .kind = BENCH_COST, .goal = singles[i].goal};
        done = bench_add(report, head, us[i], us[SET_ONE], SINGLE_ROUNDS);
    }
    close_place(&place);
    return done;
}
