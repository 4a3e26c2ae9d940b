/*
 * A takeover after a graceful release, between processes as in a fleet: the holder releases, the waiter hears of it
 * through its descriptor, reads what changed and acquires. The time runs from just before the release is sent until
 * the acquire's answer is there, on the clock that both processes share. Between the takeovers a bare PING goes over a
 * connection of its own: how long a round trip takes on this machine at that moment. The same with bare commands (DEL
 * and PUBLISH in one write; the subscriber answers with SET NX PX), without tokens or anything else, is the floor.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "ground.h"
#include "measures.h"
#include "wire.h"

#define ROUNDS      9u
#define TAKEOVERS   300u /* in a round */
#define SETTLE_US   300u /* until everybody sleeps again */
#define CHANGES_MAX 100u
#define PATIENCE_MS UINT64_C(10000)
#define BARE_KEY    GROUND_NAMESPACE ":lease:site-1/bare"
#define BARE_NEWS   "bare"

static const char holder_name[] = "holder-1700000000000000000-00000001";
static const char waiter_name[] = "waiter-1700000000000000000-00000002";

static bool apply(ten_store *store, enum ten_op_kind kind, const char *instance, uint64_t *token) {
    ten_op op = {.kind = kind,
                 .namespace_name = GROUND_NAMESPACE,
                 .target = "site-1/target",
                 .holder = instance,
                 .token = *token,
                 .ttl_ms = GROUND_TTL_MS};
    ten_result result;
    bool done = ground_apply(store, &op, &result, 1);
    *token = result.token;
    return done;
}

static ten_store *open_store(const struct redis_server *server) {
    return ground_open("redis://127.0.0.1:%d/0?fresh=1", server->port);
}

/* ---- the waiter, a process ----------------------------------------------------------------------------- */

enum events { NOTHING, HOLDER_HAS_IT, HOLDER_GAVE_IT_UP };

static int note_change(const ten_change *change, void *userdata) {
    enum events *events = userdata;
    if (strcmp(change->instance, holder_name) == 0)
        *events = change->kind == TENURE_EVENT_RELEASED ? HOLDER_GAVE_IT_UP : HOLDER_HAS_IT;
    return 0;
}

/* Takes what was given up, says when it had it, and gives it back; says 0 when it has seen that the holder has it. */
static bool follow(ten_store *store, int fd, uint64_t *cursor, int out) {
    enum events events = NOTHING;
    uint64_t token = 0, when_us = 0;
    if (ten_wait_readable(fd, -1, PATIENCE_MS) <= 0)
        return false;
    store->ops->watch_clear(store);
    if (store->ops->changes(store, GROUND_NAMESPACE, cursor, CHANGES_MAX, note_change, &events, GROUND_TIMEOUT_MS) < 0)
        return false;
    if (events == HOLDER_GAVE_IT_UP) {
        if (!apply(store, TEN_OP_ACQUIRE, waiter_name, &token))
            return false;
        when_us = ten_boot_us();
        if (!apply(store, TEN_OP_RELEASE, waiter_name, &token))
            return false;
    }
    return events == NOTHING || ten_write_all(out, &when_us, sizeof when_us) == 0;
}

static void be_waiter(const struct redis_server *server, int out) {
    uint64_t cursor = UINT64_MAX;
    int fd = -1;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    ten_store *store = open_store(server);
    bool done =
        store && store->ops->watch(store, GROUND_NAMESPACE, &fd) == TENURE_OK &&
        store->ops->changes(store, GROUND_NAMESPACE, &cursor, 1, note_change, NULL, GROUND_TIMEOUT_MS) == TENURE_OK &&
        ten_write_all(out, &cursor, sizeof cursor) == 0;
    while (done)
        done = follow(store, fd, &cursor, out);
    _exit(1);
}

/* ---- the bare waiter, another process ------------------------------------------------------------------ */

static bool follow_bare(redisContext *events, redisContext *connection, int out) {
    redisReply *message = NULL;
    if (redisGetReply(events, (void **)&message) != REDIS_OK)
        return false;
    freeReplyObject(message);
    bool done = wire_do(connection, "SET " BARE_KEY " %s NX PX 30000", waiter_name);
    uint64_t when_us = ten_boot_us();
    return done && wire_do(connection, "DEL " BARE_KEY) && ten_write_all(out, &when_us, sizeof when_us) == 0;
}

static void be_bare_waiter(const struct redis_server *server, int out) {
    uint64_t ready = 1;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    redisContext *events = wire_connect(server, 0);
    redisContext *connection = events ? wire_connect(server, 0) : NULL;
    bool done = connection && wire_do(events, "SUBSCRIBE " BARE_NEWS) && ten_write_all(out, &ready, sizeof ready) == 0;
    while (done)
        done = follow_bare(events, connection, out);
    _exit(1);
}

/* ---- the holder ---------------------------------------------------------------------------------------- */

struct waiter {
    pid_t pid;
    int from; /* what it says */
};

struct holder {
    ten_store *store;
    redisContext *bare;
    struct waiter waiter, bare_waiter;
};

static bool hear(const struct waiter *waiter, uint64_t *ret_us) {
    return ten_wait_readable(waiter->from, -1, PATIENCE_MS) > 0 &&
           read(waiter->from, ret_us, sizeof *ret_us) == (ssize_t)sizeof *ret_us;
}

static bool start_waiter(struct waiter *waiter, void (*work)(const struct redis_server *server, int out),
                         const struct redis_server *server) {
    int ends[2];
    uint64_t ready;
    fflush(NULL);
    if (pipe(ends) < 0)
        return false;
    waiter->pid = fork();
    if (waiter->pid == 0)
        work(server, ends[1]);
    close(ends[1]);
    waiter->from = ends[0];
    return waiter->pid > 0 && hear(waiter, &ready);
}

static void end_waiter(const struct waiter *waiter) {
    if (waiter->pid <= 0)
        return;
    (void)kill(waiter->pid, SIGKILL);
    (void)waitpid(waiter->pid, NULL, 0);
    close(waiter->from);
}

static bool ping(const struct holder *holder, double *ret_us) {
    ten_sleep_us(SETTLE_US);
    uint64_t start_us = ten_boot_us();
    bool done = wire_do(holder->bare, "PING");
    *ret_us = (double)(ten_boot_us() - start_us);
    return done;
}

static bool take_over(const struct holder *holder, double *ret_us) {
    uint64_t token = 0, seen_us, taken_us;
    if (!apply(holder->store, TEN_OP_ACQUIRE, holder_name, &token) || !hear(&holder->waiter, &seen_us))
        return false;
    ten_sleep_us(SETTLE_US);
    uint64_t start_us = ten_boot_us();
    if (!apply(holder->store, TEN_OP_RELEASE, holder_name, &token) || !hear(&holder->waiter, &taken_us))
        return false;
    *ret_us = (double)(taken_us - start_us);
    return seen_us == 0 && taken_us != 0;
}

static bool take_over_bare(const struct holder *holder, double *ret_us) {
    uint64_t taken_us;
    redisReply *reply = NULL;
    if (!wire_do(holder->bare, "SET " BARE_KEY " holder NX PX 30000"))
        return false;
    ten_sleep_us(SETTLE_US);
    uint64_t start_us = ten_boot_us();
    if (redisAppendCommand(holder->bare, "DEL " BARE_KEY) != REDIS_OK ||
        redisAppendCommand(holder->bare, "PUBLISH " BARE_NEWS " free") != REDIS_OK)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        if (redisGetReply(holder->bare, (void **)&reply) != REDIS_OK)
            return false;
        freeReplyObject(reply);
    }
    bool done = hear(&holder->bare_waiter, &taken_us);
    *ret_us = (double)(taken_us - start_us);
    return done;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

struct figures {
    double takeovers_us[TAKEOVERS], bare_us[TAKEOVERS], pings_us[TAKEOVERS]; /* of one round */
    double p99_us[ROUNDS], bare_p99_us[ROUNDS], ping_us[ROUNDS];
};

static bool run_round(const struct holder *holder, struct figures *figures, size_t round) {
    for (size_t i = 0; i < TAKEOVERS; i++)
        if (!take_over(holder, &figures->takeovers_us[i]) || !ping(holder, &figures->pings_us[i]) ||
            !take_over_bare(holder, &figures->bare_us[i]))
            return false;
    figures->p99_us[round] = bench_percentile(figures->takeovers_us, TAKEOVERS, 99);
    figures->bare_p99_us[round] = bench_percentile(figures->bare_us, TAKEOVERS, 99);
    figures->ping_us[round] = bench_percentile(figures->pings_us, TAKEOVERS, 50);
    return true;
}

bool takeover_measure(bench_report *report, const char *directory) {
    static struct figures figures;
    struct holder holder = {0};
    struct redis_server server;
    bench_row ping_row = {
        .name = "redis-takeover/p99", .against = "the median of bare PINGs", .kind = BENCH_COST, .goal = 10};
    bench_row bare_row = {.name = "redis-takeover/bare-p99",
                          .against = "DEL, PUBLISH; SET NX PX by the subscriber, its own p99",
                          .kind = BENCH_COST,
                          .goal = 1.2};
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && start_waiter(&holder.waiter, be_waiter, &server) &&
                start_waiter(&holder.bare_waiter, be_bare_waiter, &server);
    holder.store = done ? open_store(&server) : NULL;
    holder.bare = holder.store ? wire_connect(&server, 0) : NULL;
    done = holder.bare != NULL;
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = run_round(&holder, &figures, round);
    done = done && bench_add(report, ping_row, figures.p99_us, figures.ping_us, ROUNDS) &&
           bench_add(report, bare_row, figures.p99_us, figures.bare_p99_us, ROUNDS);
    end_waiter(&holder.waiter);
    end_waiter(&holder.bare_waiter);
    ten_store_close(holder.store);
    if (holder.bare)
        redisFree(holder.bare);
    redis_server_remove(&server);
    return done || bench_could_not("takeovers");
}
