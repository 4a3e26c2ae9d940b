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
#include "redis.h"
#include "wire.h"

#define ROUNDS      9u
#define TAKEOVERS   300u /* in a round */
#define SETTLE_US   300u /* until everybody sleeps again */
#define CHANGES_MAX 100u
#define PATIENCE_MS UINT64_C(10000)
#define BARE_KEY    "poll:lease:site-1/bare"
#define BARE_NEWS   "bare"

static const char holder_name[] = "holder-1700000000000000000-00000001";
static const char waiter_name[] = "waiter-1700000000000000000-00000002";

static ten_op make_op(enum ten_op_kind kind, const char *instance, uint64_t token) {
    return (ten_op){.kind = kind,
                    .namespace_name = "poll",
                    .target = "site-1/target",
                    .holder = instance,
                    .token = token,
                    .ttl_ms = GROUND_TTL_MS};
}

static bool acquire(ten_store *store, const char *instance, uint64_t *ret_token) {
    ten_op op = make_op(TEN_OP_ACQUIRE, instance, 0);
    ten_result result;
    bool done = ground_apply(store, &op, &result, 1);
    *ret_token = result.token;
    return done;
}

static bool release(ten_store *store, const char *instance, uint64_t token) {
    ten_op op = make_op(TEN_OP_RELEASE, instance, token);
    ten_result result;
    return ground_apply(store, &op, &result, 1);
}

static ten_store *open_store(const struct redis_server *server) {
    char url[64];
    ten_error error = {0};
    ten_store *store = NULL;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/0?fresh=1", server->port);
    if (ten_store_open(url, &(ten_store_config){.clock = &ten_system_clock}, &store, &error) < 0)
        fprintf(stderr, "bench: %s\n", error.message);
    return store;
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
    uint64_t token, when_us = 0;
    if (ten_wait_readable(fd, -1, PATIENCE_MS) <= 0)
        return false;
    store->ops->watch_clear(store);
    if (store->ops->changes(store, "poll", cursor, CHANGES_MAX, note_change, &events, GROUND_TIMEOUT_MS) < 0)
        return false;
    if (events == HOLDER_GAVE_IT_UP) {
        if (!acquire(store, waiter_name, &token))
            return false;
        when_us = ten_boot_us();
        if (!release(store, waiter_name, token))
            return false;
    }
    return events == NOTHING || ten_write_all(out, &when_us, sizeof when_us) == 0;
}

static void be_waiter(const struct redis_server *server, int out) {
    uint64_t cursor = UINT64_MAX;
    int fd = -1;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    ten_store *store = open_store(server);
    bool done = store && store->ops->watch(store, "poll", &fd) == TENURE_OK &&
                store->ops->changes(store, "poll", &cursor, 1, note_change, NULL, GROUND_TIMEOUT_MS) == TENURE_OK &&
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
    redisReply *taken = wire_ask(connection, "SET " BARE_KEY " %s NX PX 30000", waiter_name);
    uint64_t when_us = ten_boot_us();
    bool done = taken && taken->type == REDIS_REPLY_STATUS;
    if (taken)
        freeReplyObject(taken);
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

static pid_t start_waiter(void (*waiter)(const struct redis_server *server, int out), const struct redis_server *server,
                          int *ret_from) {
    int ends[2];
    fflush(NULL);
    if (pipe(ends) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        waiter(server, ends[1]);
    close(ends[1]);
    *ret_from = ends[0];
    return pid;
}

/* ---- the holder ---------------------------------------------------------------------------------------- */

struct holder {
    ten_store *store;
    redisContext *bare;
    pid_t waiter, bare_waiter;
    int from, from_bare; /* what they say */
};

static bool hear(int from, uint64_t *ret_us) {
    return ten_wait_readable(from, -1, PATIENCE_MS) > 0 &&
           read(from, ret_us, sizeof *ret_us) == (ssize_t)sizeof *ret_us;
}

static bool ping(const struct holder *holder, double *ret_us) {
    ten_sleep_us(SETTLE_US);
    uint64_t start_us = ten_boot_us();
    bool done = wire_do(holder->bare, "PING");
    *ret_us = (double)(ten_boot_us() - start_us);
    return done;
}

static bool take_over(const struct holder *holder, double *ret_us) {
    uint64_t token, seen_us, taken_us;
    if (!acquire(holder->store, holder_name, &token) || !hear(holder->from, &seen_us))
        return false;
    ten_sleep_us(SETTLE_US);
    uint64_t start_us = ten_boot_us();
    if (!release(holder->store, holder_name, token) || !hear(holder->from, &taken_us))
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
    bool done = hear(holder->from_bare, &taken_us);
    *ret_us = (double)(taken_us - start_us);
    return done;
}

static bool open_holder(struct holder *holder, const struct redis_server *server) {
    uint64_t ready;
    holder->waiter = start_waiter(be_waiter, server, &holder->from);
    holder->bare_waiter = start_waiter(be_bare_waiter, server, &holder->from_bare);
    if (holder->waiter < 0 || holder->bare_waiter < 0 || !hear(holder->from, &ready) ||
        !hear(holder->from_bare, &ready))
        return false;
    holder->store = open_store(server);
    holder->bare = holder->store ? wire_connect(server, 0) : NULL;
    return holder->bare != NULL;
}

static void end_process(pid_t pid) {
    if (pid > 0 && kill(pid, SIGKILL) == 0)
        (void)waitpid(pid, NULL, 0);
}

static void close_holder(struct holder *holder) {
    end_process(holder->waiter);
    end_process(holder->bare_waiter);
    ten_close_fd(&holder->from);
    ten_close_fd(&holder->from_bare);
    ten_store_close(holder->store);
    if (holder->bare)
        redisFree(holder->bare);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

struct figures {
    double takeovers_us[TAKEOVERS], bare_us[TAKEOVERS], pings_us[TAKEOVERS]; /* of one round */
    double p50_us[ROUNDS], p99_us[ROUNDS];
    double bare_p50_us[ROUNDS], bare_p99_us[ROUNDS], ping_us[ROUNDS];
};

static int compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts them. */
static double percentile(double *values, unsigned percent) {
    qsort(values, TAKEOVERS, sizeof *values, compare);
    return values[(TAKEOVERS - 1) * percent / 100];
}

static bool run_round(const struct holder *holder, struct figures *figures, size_t round) {
    for (size_t i = 0; i < TAKEOVERS; i++)
        if (!take_over(holder, &figures->takeovers_us[i]) || !ping(holder, &figures->pings_us[i]) ||
            !take_over_bare(holder, &figures->bare_us[i]))
            return false;
    figures->p50_us[round] = percentile(figures->takeovers_us, 50);
    figures->p99_us[round] = percentile(figures->takeovers_us, 99);
    figures->bare_p50_us[round] = percentile(figures->bare_us, 50);
    figures->bare_p99_us[round] = percentile(figures->bare_us, 99);
    figures->ping_us[round] = percentile(figures->pings_us, 50);
    return true;
}

static bool add_row(bench_report *report, const char *name, const char *against, double goal, const double *ours,
                    const double *reference) {
    bench_row head = {.name = name, .against = against, .kind = BENCH_COST, .goal = goal};
    bench_row *row = bench_add(report, head, ours, reference, ROUNDS);
    if (!row)
        return false;
    ten_buf_format(&row->more, ",\"takeovers\":%u", ROUNDS * TAKEOVERS);
    return true;
}

static bool add_rows(bench_report *report, const struct figures *figures) {
    return add_row(report, "redis-takeover/p50", "the median of bare PINGs", 0, figures->p50_us, figures->ping_us) &&
           add_row(report, "redis-takeover/p99", "the median of bare PINGs", 10, figures->p99_us, figures->ping_us) &&
           add_row(report, "redis-takeover/bare-p50", "DEL, PUBLISH; SET NX PX by the subscriber", 0, figures->p50_us,
                   figures->bare_p50_us) &&
           add_row(report, "redis-takeover/bare-p99", "the same, its own p99", 0, figures->p99_us,
                   figures->bare_p99_us);
}

bool redis_measure_takeover(bench_report *report, const char *directory) {
    static struct figures figures;
    struct holder holder = {.from = -1, .from_bare = -1};
    struct redis_server server;
    (void)directory;
    bool done = redis_server_start(&server, NULL) == 0 && open_holder(&holder, &server);
    for (size_t round = 0; done && round < ROUNDS; round++)
        done = run_round(&holder, &figures, round);
    done = done && add_rows(report, &figures);
    close_holder(&holder);
    redis_server_remove(&server);
    if (!done)
        fprintf(stderr, "bench: takeovers could not be measured\n");
    return done;
}
