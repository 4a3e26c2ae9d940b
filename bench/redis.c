/*
 * The benchmarks of the Redis store: renewals, acquires, and finding the instances. What it is measured against is in
 * wire.h, on the same server and in turns, one connection each. The seeds' layout is ours, too: a lease is a plain key
 * with the holder's name, so that the seed's own script and a bare PEXPIRE renew the very same keys.
 *
 * Rates are what the caller sees. Rows that end in "/held" are what the server says of itself (INFO commandstats): how
 * long one call keeps everybody else waiting.
 */
#include "redis.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ground.h"
#include "wire.h"

#define LEASES         (400u * WIRE_PIPELINE) /* 102,400 */
#define WINDOW         (40u * WIRE_PIPELINE)
#define MEMBER_BATCH   1000u /* what a fleet member sends at a time */
#define ROUNDS         41u   /* short and many, as in sqlite.c */
#define ACQUIRE_ROUNDS 15u   /* of all the leases each: tables that grow do it in leaps */
#define SLICE_MS       40u
#define OTHER_KEYS     1000192u /* pieces of WIRE_PIPELINE */
#define INSTANCES      10u
#define ASKS           100u
#define URL_SIZE       64u

static const char seed_script[] = "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then\n"
                                  "  return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2])\n"
                                  "else\n"
                                  "  return 0\n"
                                  "end";

/* ---- what takes turns ---------------------------------------------------------------------------------- */

/* One side: the store, or a bare connection with its commands. Turns go round through the leases. */
struct runner {
    size_t window; /* leases of one turn */
    size_t at;     /* where the next turn starts */
    size_t batch;  /* of one apply() */
    ten_store *store;
    ground_leases leases;
    redisContext *bare;
    wire_commands commands;
    wire_commands undo;
};

static void pass_window(struct runner *runner) {
    runner->at = (runner->at + runner->window) % LEASES;
}

static bool apply_window(struct runner *runner) {
    for (size_t i = runner->at; i < runner->at + runner->window; i += runner->batch) {
        size_t count = ten_min_u64(runner->batch, runner->at + runner->window - i);
        if (!ground_apply(runner->store, &runner->leases.ops[i], &runner->leases.results[i], count))
            return false;
    }
    return true;
}

static bool apply_turn(void *arg) {
    bool done = apply_window(arg);
    pass_window(arg);
    return done;
}

static bool run_window(struct runner *runner, const wire_commands *commands) {
    return wire_run(runner->bare, commands, runner->at / WIRE_PIPELINE, runner->window / WIRE_PIPELINE);
}

static bool bare_turn(void *arg) {
    struct runner *runner = arg;
    bool done = run_window(runner, &runner->commands);
    pass_window(runner);
    return done;
}

static bool flush(void *arg) {
    const struct runner *runner = arg;
    return wire_do(runner->bare, "FLUSHDB");
}

static void set_kind(struct runner *runner, enum ten_op_kind kind) {
    for (size_t i = runner->at; i < runner->at + runner->window; i++) {
        runner->leases.ops[i].kind = kind;
        runner->leases.ops[i].token = runner->leases.results[i].token;
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
    struct runner *runner = arg;
    return run_window(runner, &runner->undo);
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

static ten_store *open_store(const struct redis_server *server, int database) {
    char url[URL_SIZE];
    ten_error error = {0};
    ten_store *store = NULL;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/%d?fresh=1", server->port, database);
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) == TENURE_OK)
        return store;
    fprintf(stderr, "bench: %s\n", error.message);
    return NULL;
}

static void close_runner(struct runner *runner) {
    ten_store_close(runner->store);
    ground_free(&runner->leases);
    wire_free(&runner->commands);
    wire_free(&runner->undo);
    if (runner->bare)
        redisFree(runner->bare);
}

/* Holds all the leases, ready to renew them. */
static bool open_holder(struct runner *runner, const struct redis_server *server, size_t batch) {
    *runner = (struct runner){.window = WINDOW, .batch = batch, .store = open_store(server, 0)};
    return runner->store && ground_acquire(runner->store, 1, LEASES, &runner->leases);
}

enum bare_kind { SEED_SCRIPT, PEXPIRE, SET, DEL };

static bool add_command(wire_commands *commands, enum bare_kind kind, const char *key, const char *holder,
                        const char *sha) {
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%llu", (unsigned long long)GROUND_TTL_MS);
    switch (kind) {
    case SEED_SCRIPT:
        return wire_add(commands, 6, (const char *[]){"EVALSHA", sha, "1", key, holder, ttl});
    case PEXPIRE:
        return wire_add(commands, 3, (const char *[]){"PEXPIRE", key, ttl});
    case SET:
        return wire_add(commands, 6, (const char *[]){"SET", key, holder, "NX", "PX", ttl});
    case DEL:
        return wire_add(commands, 2, (const char *[]){"DEL", key});
    }
    return false;
}

static bool make_commands(wire_commands *commands, enum bare_kind kind, const ground_leases *leases, const char *sha) {
    bool done = true;
    for (size_t i = 0; done && i < leases->count; i++) {
        char key[GROUND_NAME_SIZE + 16];
        snprintf(key, sizeof key, "poll:lease:%s", leases->targets[i]);
        done = add_command(commands, kind, key, leases->holder, sha);
    }
    return done;
}

/* The same keys as those of the leases, in that database. */
static bool open_bare(struct runner *runner, const struct redis_server *server, int database, enum bare_kind kind,
                      const ground_leases *leases) {
    *runner = (struct runner){.window = WINDOW, .bare = wire_connect(server, database)};
    redisReply *sha = runner->bare ? wire_ask(runner->bare, "SCRIPT LOAD %s", seed_script) : NULL;
    bool done = sha && make_commands(&runner->commands, kind, leases, sha->str);
    if (sha)
        freeReplyObject(sha);
    return done;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bench_row *add_row(bench_report *report, enum bench_kind kind, const char *name, const char *against,
                          double goal, const double *ours, const double *reference, size_t rounds) {
    bench_row head = {.name = name, .against = against, .kind = kind, .goal = goal};
    bench_row *row = bench_add(report, head, ours, reference, rounds);
    return row;
}

/* What the server has spent on that command while the side went round once. */
static bool cost_of(const bench_side *side, redisContext *admin, const char *command, wire_cost *ret_cost) {
    wire_cost before = {0};
    bool done = wire_cost_read(admin, command, &before);
    for (uint64_t i = 0; done && i < LEASES; i += side->per_turn) {
        wire_cost skipped = {0}, start = {0};
        done = wire_cost_read(admin, command, &skipped) && (!side->prepare || side->prepare(side->arg)) &&
               wire_cost_read(admin, command, &start) && side->turn(side->arg);
        before.calls += start.calls - skipped.calls;
        before.us += start.us - skipped.us;
    }
    done = done && wire_cost_read(admin, command, ret_cost);
    ret_cost->calls -= before.calls;
    ret_cost->us -= before.us;
    return done;
}

/* How long one call of ours holds the server (it should be below about a millisecond), against as many bare commands as
 * it has keys. */
static bool add_held(bench_report *report, redisContext *admin, const char *name, const bench_side *ours,
                     const bench_side *bare, const char *bare_command) {
    wire_cost call, command;
    if (!cost_of(ours, admin, "evalsha", &call) || !cost_of(bare, admin, bare_command, &command))
        return false;
    double keys = LEASES / call.calls;
    double call_us = call.us / call.calls;
    double commands_us = command.us / command.calls * keys;
    bench_row *row = add_row(report, BENCH_COST, name, "server time of one call; of as many bare commands", 0, &call_us,
                             &commands_us, 1);
    if (!row)
        return false;
    printf("    %.0f keys a call\n", keys);
    ten_buf_format(&row->more, ",\"keys_per_call\":%.0f", keys);
    return true;
}

enum renewer { OURS, MANAGER, SEED, BARE, FLOOR, RENEWERS };

static bool open_renewers(struct runner *runners, const struct redis_server *server) {
    return open_holder(&runners[OURS], server, WINDOW) && open_holder(&runners[MANAGER], server, MEMBER_BATCH) &&
           open_bare(&runners[SEED], server, 0, SEED_SCRIPT, &runners[OURS].leases) &&
           open_bare(&runners[BARE], server, 0, PEXPIRE, &runners[OURS].leases) &&
           open_bare(&runners[FLOOR], server, 0, PEXPIRE, &runners[OURS].leases) &&
           wire_prepare(&runners[FLOOR].commands);
}

static bool add_renewals(bench_report *report, const bench_side *sides) {
    const bench_side *ours = &sides[OURS], *seed = &sides[SEED], *bare = &sides[BARE];
    return add_row(report, BENCH_RATE, "redis-renew", "the seed's script by EVALSHA, pipeline of 256", 2.5, ours->rates,
                   seed->rates, ROUNDS) &&
           add_row(report, BENCH_RATE, "redis-renew/bare", "bare PEXPIRE, pipeline of 256", 0.9, ours->rates,
                   bare->rates, ROUNDS) &&
           add_row(report, BENCH_RATE, "redis-renew/floor", "the same, with nothing left to do for its client", 0,
                   ours->rates, sides[FLOOR].rates, ROUNDS) &&
           add_row(report, BENCH_RATE, "redis-renew/member",
                   "bare PEXPIRE; ours in batches of 1,000 as fleet members do", 0, sides[MANAGER].rates, bare->rates,
                   ROUNDS) &&
           add_row(report, BENCH_COST, "redis-renew/client", "CPU of the client a renewal; bare PEXPIRE", 0,
                   ours->cpu_us, bare->cpu_us, ROUNDS) &&
           add_row(report, BENCH_COST, "redis-renew/client-seed", "the same; the seed's script", 0, ours->cpu_us,
                   seed->cpu_us, ROUNDS) &&
           add_row(report, BENCH_COST, "redis-renew/server", "CPU of the server a renewal; bare PEXPIRE", 0,
                   ours->server_us, bare->server_us, ROUNDS) &&
           add_row(report, BENCH_COST, "redis-renew/server-seed", "the same; the seed's script", 0, ours->server_us,
                   seed->server_us, ROUNDS);
}

bool redis_measure_renew(bench_report *report, const char *directory) {
    struct runner runners[RENEWERS] = {0};
    bench_side sides[RENEWERS] = {0};
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && open_renewers(runners, &server);
    for (size_t i = 0; i < RENEWERS; i++)
        sides[i] = (bench_side){.turn = runners[i].store ? apply_turn : bare_turn,
                                .arg = &runners[i],
                                .per_turn = WINDOW,
                                .server = server.pid};
    done = done && bench_race(sides, RENEWERS, ROUNDS, SLICE_MS) && add_renewals(report, sides) &&
           add_held(report, runners[BARE].bare, "redis-renew/held", &sides[OURS], &sides[BARE], "pexpire");
    for (size_t i = 0; i < RENEWERS; i++)
        close_runner(&runners[i]);
    redis_server_remove(&server);
    return done;
}

static bool race_new(bench_report *report, struct runner *ours, struct runner *bare, pid_t server) {
    bench_side sides[] = {
        {.prepare = flush, .turn = apply_turn, .arg = ours, .per_turn = LEASES, .server = server},
        {.prepare = flush, .turn = bare_turn, .arg = bare, .per_turn = LEASES, .server = server},
    };
    ours->window = bare->window = LEASES;
    return bench_race(sides, TEN_COUNT(sides), ACQUIRE_ROUNDS, 1) &&
           add_row(report, BENCH_RATE, "redis-acquire", "bare SET NX PX, pipeline of 256; never leased before", 0.4,
                   sides[0].rates, sides[1].rates, ACQUIRE_ROUNDS) &&
           add_row(report, BENCH_COST, "redis-acquire/server", "CPU of the server an acquire; bare SET NX PX", 0,
                   sides[0].server_us, sides[1].server_us, ACQUIRE_ROUNDS) &&
           add_held(report, bare->bare, "redis-acquire/held", &sides[0], &sides[1], "set");
}

static bool race_again(bench_report *report, struct runner *ours, struct runner *bare) {
    bench_side sides[] = {{.prepare = release_window, .turn = apply_turn, .arg = ours, .per_turn = WINDOW},
                          {.prepare = delete_window, .turn = bare_turn, .arg = bare, .per_turn = WINDOW}};
    ours->window = bare->window = WINDOW;
    return bench_race(sides, TEN_COUNT(sides), ROUNDS, 1) &&
           add_row(report, BENCH_RATE, "redis-acquire/again", "the same; released before", 0, sides[0].rates,
                   sides[1].rates, ROUNDS);
}

/* Both take keys of the same names, each in its own database. */
bool redis_measure_acquire(bench_report *report, const char *directory) {
    struct runner ours = {0}, bare = {0};
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && open_holder(&ours, &server, LEASES) &&
                open_bare(&bare, &server, 1, SET, &ours.leases) && make_commands(&bare.undo, DEL, &ours.leases, NULL);
    ours.bare = done ? wire_connect(&server, 0) : NULL;
    for (size_t i = 0; i < ours.leases.count; i++)
        ours.leases.ops[i].kind = TEN_OP_ACQUIRE;
    done = ours.bare && race_new(report, &ours, &bare, server.pid) && race_again(report, &ours, &bare);
    close_runner(&ours);
    close_runner(&bare);
    redis_server_remove(&server);
    return done;
}

/* ---- one operation at a time --------------------------------------------------------------------------- */

#define SINGLES       2000u /* targets that are acquired, renewed and released, one after the other */
#define SINGLE_ROUNDS 15u

enum single { ACQUIRE_ONE, RENEW_ONE, RELEASE_ONE, SET_ONE, EMPTY_ONE, COMMANDS_ONE, SINGLE_KINDS };

/* The floors: a script that does nothing, and one with the commands of an acquire, but none of its decisions. */
#define EMPTY "return 1"
#define COMMANDS                                                                                                       \
    "local call = redis.call "                                                                                         \
    "call('HMGET', 'floor:epoch', 'server', 'database', 'provisional', 'began', 'ttl', 'floor', 'cursor', 'trimmed') " \
    "call('INFO', 'replication') call('TIME') call('EXISTS', 'floor:marks', 'floor:gone', 'floor:checkpoint') "        \
    "call('HGET', 'floor:fence', KEYS[1]) call('HGET', 'floor:held', KEYS[1]) "                                        \
    "call('SET', KEYS[1], 'holder', 'NX', 'PX', '30000') call('HSET', 'floor:fence', KEYS[1], '1 30000') "             \
    "call('HSET', 'floor:held', KEYS[1], '1700000000000 holder') call('HSET', 'floor:epoch', 'cursor', '1') "          \
    "call('ZADD', 'floor:feed', '1', KEYS[1]) call('PUBLISH', 'floor:feed@0', KEYS[1]) return 1"

/* What the server has spent on one command of a kind, in each round. */
struct singles {
    ten_store *store;
    redisContext *bare;
    ground_leases leases;
    double us[SINGLE_KINDS][SINGLE_ROUNDS];
};

static bool apply_singles(struct singles *singles, enum ten_op_kind kind, double *ret_us) {
    wire_cost before = {0}, after = {0};
    bool done = wire_cost_read(singles->bare, "evalsha", &before);
    for (size_t i = 0; done && i < singles->leases.count; i++) {
        ten_op *op = &singles->leases.ops[i];
        op->kind = kind;
        done = ground_apply(singles->store, op, &singles->leases.results[i], 1);
        op->token = singles->leases.results[i].token;
    }
    done = done && wire_cost_read(singles->bare, "evalsha", &after);
    *ret_us = (after.us - before.us) / SINGLES;
    return done;
}

static bool command_singles(struct singles *singles, const char *format) {
    bool done = true;
    for (size_t i = 0; done && i < SINGLES; i++) {
        redisReply *reply = wire_ask(singles->bare, format, singles->leases.targets[i]);
        done = reply != NULL;
        if (reply)
            freeReplyObject(reply);
    }
    return done;
}

static bool set_singles(struct singles *singles, double *ret_us) {
    wire_cost before = {0}, after = {0};
    bool done = wire_cost_read(singles->bare, "set", &before) &&
                command_singles(singles, "SET bare:%s holder NX PX 30000") &&
                wire_cost_read(singles->bare, "set", &after);
    /* The scripts of the other sides have their SET, too, but not meanwhile. */
    *ret_us = (after.us - before.us) / SINGLES;
    return done && command_singles(singles, "DEL bare:%s");
}

static bool script_singles(struct singles *singles, const char *script, double *ret_us) {
    wire_cost before = {0}, after = {0};
    redisReply *loaded = wire_ask(singles->bare, "SCRIPT LOAD %s", script);
    char format[80];
    snprintf(format, sizeof format, "EVALSHA %.40s 1 bare:%%s", loaded ? loaded->str : "");
    bool done = loaded && wire_cost_read(singles->bare, "evalsha", &before) && command_singles(singles, format) &&
                wire_cost_read(singles->bare, "evalsha", &after);
    *ret_us = (after.us - before.us) / SINGLES;
    if (loaded)
        freeReplyObject(loaded);
    return done && command_singles(singles, "DEL bare:%s") && wire_do(singles->bare, "DEL floor:feed");
}

static bool race_singles(struct singles *singles) {
    bool done = true;
    for (size_t round = 0; done && round < SINGLE_ROUNDS; round++)
        done = apply_singles(singles, TEN_OP_RELEASE, &singles->us[RELEASE_ONE][round]) &&
               apply_singles(singles, TEN_OP_ACQUIRE, &singles->us[ACQUIRE_ONE][round]) &&
               apply_singles(singles, TEN_OP_RENEW, &singles->us[RENEW_ONE][round]) &&
               set_singles(singles, &singles->us[SET_ONE][round]) &&
               script_singles(singles, EMPTY, &singles->us[EMPTY_ONE][round]) &&
               script_singles(singles, COMMANDS, &singles->us[COMMANDS_ONE][round]);
    return done;
}

bool redis_measure_single(bench_report *report, const char *directory) {
    struct singles singles = {0};
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0;
    singles.store = done ? open_store(&server, 0) : NULL;
    singles.bare = singles.store ? wire_connect(&server, 0) : NULL;
    done = singles.bare && ground_acquire(singles.store, 1, SINGLES, &singles.leases) && race_singles(&singles) &&
           add_row(report, BENCH_COST, "redis-single/acquire", "server time of one acquire; of a bare SET NX PX", 7.5,
                   singles.us[ACQUIRE_ONE], singles.us[SET_ONE], SINGLE_ROUNDS) &&
           add_row(report, BENCH_COST, "redis-single/renew", "the same of one renewal", 0, singles.us[RENEW_ONE],
                   singles.us[SET_ONE], SINGLE_ROUNDS) &&
           add_row(report, BENCH_COST, "redis-single/release", "the same of one release", 0, singles.us[RELEASE_ONE],
                   singles.us[SET_ONE], SINGLE_ROUNDS) &&
           add_row(report, BENCH_COST, "redis-single/floor-empty", "the same of a script that does nothing", 0,
                   singles.us[EMPTY_ONE], singles.us[SET_ONE], SINGLE_ROUNDS) &&
           add_row(report, BENCH_COST, "redis-single/floor-commands", "the same of the bare commands of an acquire", 0,
                   singles.us[COMMANDS_ONE], singles.us[SET_ONE], SINGLE_ROUNDS);
    ten_store_close(singles.store);
    ground_free(&singles.leases);
    if (singles.bare)
        redisFree(singles.bare);
    redis_server_remove(&server);
    return done;
}

/* ---- finding the instances ----------------------------------------------------------------------------- */

/* One database with instances in it. */
struct fleet {
    ten_store *store;
    redisContext *admin;
    double list_us[ROUNDS], server_us[ROUNDS], announce_us[ROUNDS];
};

static ten_op announce_op(char name[GROUND_NAME_SIZE], unsigned number) {
    snprintf(name, GROUND_NAME_SIZE, "bench-1700000000000000000-%08x", number);
    return (ten_op){
        .kind = TEN_OP_ANNOUNCE, .namespace_name = "poll", .holder = name, .ttl_ms = GROUND_TTL_MS, .weight = 1};
}

static bool announce_all(ten_store *store) {
    bool done = true;
    for (unsigned i = 0; done && i < INSTANCES; i++) {
        char name[GROUND_NAME_SIZE];
        ten_op op = announce_op(name, i);
        ten_result result;
        done = ground_apply(store, &op, &result, 1);
    }
    return done;
}

static bool open_fleet(struct fleet *fleet, const struct redis_server *server, int database) {
    *fleet = (struct fleet){.store = open_store(server, database), .admin = wire_connect(server, database)};
    return fleet->store && fleet->admin && announce_all(fleet->store);
}

static void close_fleet(struct fleet *fleet) {
    ten_store_close(fleet->store);
    if (fleet->admin)
        redisFree(fleet->admin);
}

static bool add_other_keys(redisContext *connection) {
    wire_commands commands = {0};
    bool done = true;
    for (unsigned i = 0; done && i < OTHER_KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "session:data:%08u", i);
        done = wire_add(&commands, 3, (const char *[]){"SET", key, "something else"});
    }
    done = done && wire_run(connection, &commands, 0, OTHER_KEYS / WIRE_PIPELINE);
    wire_free(&commands);
    return done;
}

static int count_instance(const ten_instance *instance, void *userdata) {
    unsigned *count = userdata;
    (void)instance;
    ++*count;
    return 0;
}

static bool list(struct fleet *fleet, size_t round) {
    unsigned count = 0;
    wire_cost before, after;
    bool done = wire_cost_read(fleet->admin, "evalsha", &before);
    uint64_t start_us = ten_boot_us();
    for (unsigned i = 0; done && i < ASKS; i++)
        done = fleet->store->ops->list_instances(fleet->store, "poll", count_instance, &count, GROUND_TIMEOUT_MS) == 0;
    fleet->list_us[round] = (double)(ten_boot_us() - start_us) / ASKS;
    done = done && count == ASKS * INSTANCES && wire_cost_read(fleet->admin, "evalsha", &after);
    fleet->server_us[round] = (after.us - before.us) / ASKS;
    if (!done)
        fprintf(stderr, "bench: the instances could not be listed: %s\n", fleet->store->error.message);
    return done;
}

static bool announce(struct fleet *fleet, size_t round) {
    uint64_t start_us = ten_boot_us();
    bool done = true;
    for (unsigned i = 0; done && i < ASKS / INSTANCES; i++)
        done = announce_all(fleet->store);
    fleet->announce_us[round] = (double)(ten_boot_us() - start_us) / ASKS;
    return done;
}

bool redis_measure_discovery(bench_report *report, const char *directory) {
    static struct fleet alone, crowded;
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && open_fleet(&alone, &server, 0) &&
                open_fleet(&crowded, &server, 1) && add_other_keys(crowded.admin);
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = list(round % 2 ? &alone : &crowded, round) && list(round % 2 ? &crowded : &alone, round) &&
               announce(round % 2 ? &alone : &crowded, round) && announce(round % 2 ? &crowded : &alone, round);
    done = done &&
           add_row(report, BENCH_COST, "redis-discovery", "10 instances among 1,000,000 other keys; among none", 2,
                   crowded.list_us, alone.list_us, ROUNDS) &&
           add_row(report, BENCH_COST, "redis-discovery/held", "the same, server time of one listing", 2,
                   crowded.server_us, alone.server_us, ROUNDS) &&
           add_row(report, BENCH_COST, "redis-discovery/announce",
                   "the same, a heartbeat with its step of the sweep for other programs' instances", 0,
                   crowded.announce_us, alone.announce_us, ROUNDS);
    close_fleet(&alone);
    close_fleet(&crowded);
    redis_server_remove(&server);
    return done;
}
