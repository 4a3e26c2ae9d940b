/*
 * The benchmarks of elections. Of each kind of candidate there are two processes (elections_pair.h): one leads, the
 * other waits, and in every round each leader is stopped in turn, in an order that turns around; all of them live
 * through the same run, on private servers. The time runs from just before the stop (or the kill) until the work of the
 * next leader runs, on the clock that all processes share. Before each round is a pause of a random length, so that
 * peers that look at intervals are met at all moments between two looks.
 *
 * Those of ours whose process is killed have a TTL of 10 s, as in use. Peers whose process is killed wait until the TTL
 * has passed; theirs is short, so that the run is, and what counts is the part of it that passed. They renew at every
 * third of it, and are killed at any moment between.
 */
#include "elections.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "elections_pair.h"
#include "elections_work.h"
#include "ground.h"
#include "lib/etcd_server.h"
#include "lib/redis_server.h"

#define ROUNDS       300u
#define CRASH_ROUNDS 8u /* of the peers, all at once */
#define TTL_MS       10000u
#define SHORT_TTL_MS 2000u   /* the least that etcd grants */
#define SETTLE_US    150000u /* until those who were started wait */
#define PHASE_US     300000u /* the longest interval at which a peer looks */
#define PATIENCE_MS  UINT64_C(15000)

/* Ours come first: those of `ours` are measured against each of `peers`. */
enum side {
    API_REDIS,
    API_SQLITE,
    ELECT_REDIS,
    ELECT_SQLITE,
    WORKER_REDIS, /* killed from here on */
    WORKER_SQLITE,
    COMMAND_REDIS,
    COMMAND_SQLITE,
    REDIS_PY,
    REDLOCK,
    ETCDCTL_LOCK,
    ETCDCTL_ELECT,
    SIDES,
};
#define PEERS_FIRST REDIS_PY

/* The peers that a killed process leaves waiting; etcdctl elect is as lock, with a TTL of 60 s that it does not let one
 * choose. */
enum crash { CRASH_REDIS_PY, CRASH_REDLOCK, CRASH_ETCDCTL_LOCK, CRASHES };

static const char *const names[SIDES] = {
    [API_REDIS] = "api-redis",         [API_SQLITE] = "api-sqlite",
    [ELECT_REDIS] = "elect-redis",     [ELECT_SQLITE] = "elect-sqlite",
    [WORKER_REDIS] = "worker-redis",   [WORKER_SQLITE] = "worker-sqlite",
    [COMMAND_REDIS] = "command-redis", [COMMAND_SQLITE] = "command-sqlite",
    [REDIS_PY] = "redis-py",           [REDLOCK] = "redlock",
    [ETCDCTL_LOCK] = "etcdctl-lock",   [ETCDCTL_ELECT] = "etcdctl-elect",
};

struct series {
    struct pair pair;
    char log[GROUND_PATH_SIZE];
    bool out; /* it is not there, or it failed: not measured */
    double ms[ROUNDS];
    size_t count;
};

struct ground {
    const char *directory;
    char programs[GROUND_PATH_SIZE]; /* where bench itself lies */
    struct redis_server redis;
    etcd_server etcd;
    struct series sides[SIDES];
    struct series crashes[CRASHES];
};

/* ---- who takes part ------------------------------------------------------------------------------------ */

static void set_store(const struct ground *ground, bool redis, const char *name, char url[GROUND_PATH_SIZE]) {
    if (redis)
        snprintf(url, GROUND_PATH_SIZE, "redis://127.0.0.1:%d/0?fresh=1", ground->redis.port);
    else
        snprintf(url, GROUND_PATH_SIZE, "sqlite:%.400s/%.32s.db", ground->directory, name);
}

static void set_api(struct ground *ground, enum side side, bool redis) {
    struct pair *pair = &ground->sides[side].pair;
    char url[GROUND_PATH_SIZE];
    set_store(ground, redis, names[side], url);
    pair->resident = true;
    pair->end = PAIR_SAY_STOP;
    pair_add_word(pair, "%s/elections-candidate", ground->programs);
    pair_add_word(pair, "%s", url);
    pair_add_word(pair, "%s", names[side]); /* a namespace of its own: nobody is woken by others */
    pair_add_word(pair, "%u", TTL_MS);
}

static void set_elect(struct ground *ground, enum side side, bool redis, enum pair_end end) {
    struct pair *pair = &ground->sides[side].pair;
    char url[GROUND_PATH_SIZE];
    set_store(ground, redis, names[side], url);
    pair->end = end;
    pair_add_word(pair, "%s/../tenure", ground->programs);
    pair_add_word(pair, "elect");
    pair_add_word(pair, "role");
    pair_add_word(pair, "--store");
    pair_add_word(pair, "%s", url);
    pair_add_word(pair, "--namespace");
    pair_add_word(pair, "%s", names[side]);
    pair_add_word(pair, "--ttl");
    pair_add_word(pair, "%ums", TTL_MS);
    pair_add_word(pair, "--");
    pair_add_word(pair, "%s/" WORK_NAME, ground->programs);
}

static void set_redis_peer(const struct ground *ground, struct pair *pair, const char *program, const char *script,
                           const char *key, unsigned ttl_ms) {
    pair->resident = true;
    pair_add_word(pair, "%s", program);
    pair_add_word(pair, BENCH_PEERS "/%s", script);
    pair_add_word(pair, "%d", ground->redis.port);
    pair_add_word(pair, "%s", key);
    pair_add_word(pair, "%u", ttl_ms);
}

static void set_etcdctl(const struct ground *ground, struct pair *pair, const char *verb, const char *key) {
    pair_add_word(pair, "etcdctl");
    pair_add_word(pair, "--endpoints=127.0.0.1:%d", ground->etcd.port);
    pair_add_word(pair, "%s", verb);
    pair_add_word(pair, "%s", key);
}

static void set_etcdctl_lock(const struct ground *ground, struct pair *pair, const char *key, unsigned ttl_ms) {
    set_etcdctl(ground, pair, "lock", key);
    pair_add_word(pair, "--ttl=%u", ttl_ms / 1000u);
    pair_add_word(pair, "%s/" WORK_NAME, ground->programs);
}

static void set_series(struct ground *ground, struct series *series, const char *name, const char *suffix) {
    snprintf(series->log, sizeof series->log, "%.400s/%.32s%s.log", ground->directory, name, suffix);
    series->pair.name = name;
    series->pair.log = series->log;
    pair_clear(&series->pair);
}

static void set_sides(struct ground *ground) {
    for (size_t i = 0; i < SIDES; i++)
        set_series(ground, &ground->sides[i], names[i], "");
    set_api(ground, API_REDIS, true);
    set_api(ground, API_SQLITE, false);
    set_elect(ground, ELECT_REDIS, true, PAIR_TERM);
    set_elect(ground, ELECT_SQLITE, false, PAIR_TERM);
    set_elect(ground, WORKER_REDIS, true, PAIR_KILL_WORKER);
    set_elect(ground, WORKER_SQLITE, false, PAIR_KILL_WORKER);
    set_elect(ground, COMMAND_REDIS, true, PAIR_KILL_WORK);
    set_elect(ground, COMMAND_SQLITE, false, PAIR_KILL_WORK);
    struct pair *python = &ground->sides[REDIS_PY].pair, *node = &ground->sides[REDLOCK].pair;
    set_redis_peer(ground, python, BENCH_PYTHON, "redis_lock.py", "bench:redis-py", TTL_MS);
    set_redis_peer(ground, node, "node", "redlock.js", "bench:redlock", TTL_MS);
    set_etcdctl_lock(ground, &ground->sides[ETCDCTL_LOCK].pair, "bench-lock", TTL_MS);
    ground->sides[ETCDCTL_LOCK].pair.end = PAIR_TERM_WORK;
    set_etcdctl(ground, &ground->sides[ETCDCTL_ELECT].pair, "elect", "bench-elect");
    pair_add_word(&ground->sides[ETCDCTL_ELECT].pair, "led");
    ground->sides[ETCDCTL_ELECT].pair.end = PAIR_INT;
}

static void set_crashes(struct ground *ground) {
    static const enum side same[CRASHES] = {REDIS_PY, REDLOCK, ETCDCTL_LOCK};
    for (size_t i = 0; i < CRASHES; i++) {
        set_series(ground, &ground->crashes[i], names[same[i]], "-killed");
        ground->crashes[i].pair.end = PAIR_KILL;
    }
    struct pair *python = &ground->crashes[CRASH_REDIS_PY].pair, *node = &ground->crashes[CRASH_REDLOCK].pair;
    set_redis_peer(ground, python, BENCH_PYTHON, "redis_lock.py", "bench:redis-py-killed", SHORT_TTL_MS);
    set_redis_peer(ground, node, "node", "redlock.js", "bench:redlock-killed", SHORT_TTL_MS);
    set_etcdctl_lock(ground, &ground->crashes[CRASH_ETCDCTL_LOCK].pair, "bench-lock-killed", SHORT_TTL_MS);
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

/* What it said last, since the reason is there. */
static void tell_log(const struct series *series) {
    char line[256];
    FILE *file = fopen(series->log, "re");
    char last[256] = "";
    while (file && fgets(line, sizeof line, file))
        memcpy(last, line, sizeof last);
    if (file)
        fclose(file);
    last[strcspn(last, "\n")] = '\0';
    fprintf(stderr, "bench: %s: round %zu failed%s%s\n", series->pair.name, series->count, last[0] ? ": " : "", last);
}

/* Whoever fails takes no further part; the others go on. */
static void leave_out(struct series *series) {
    tell_log(series);
    pair_close(&series->pair);
    series->out = true;
}

/* At random. */
static void pause_up_to(uint64_t us) {
    ten_sleep_us(SETTLE_US + (uint64_t)(drand48() * (double)us));
}

static void open_all(struct series *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!pair_open(&all[i].pair))
            leave_out(&all[i]);
}

static void prepare_all(struct series *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!all[i].out && !pair_prepare(&all[i].pair))
            leave_out(&all[i]);
}

static void close_all(struct series *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        pair_close(&all[i].pair);
}

static void hand_over(struct series *series) {
    if (series->out)
        return;
    if (pair_hand_over(&series->pair, PATIENCE_MS, &series->ms[series->count]))
        series->count++;
    else
        leave_out(series);
}

static void run_rounds(struct ground *ground) {
    open_all(ground->sides, SIDES);
    for (size_t round = 0; round < ROUNDS; round++) {
        prepare_all(ground->sides, SIDES);
        pause_up_to(PHASE_US);
        for (size_t i = 0; i < SIDES; i++)
            hand_over(&ground->sides[round % 2 ? SIDES - 1 - i : i]);
    }
    close_all(ground->sides, SIDES);
}

/* They wait for seconds, and for nothing but time: all at once. */
static void run_crash_round(struct series *crashes) {
    uint64_t struck_ns[CRASHES];
    for (size_t i = 0; i < CRASHES; i++)
        if (!crashes[i].out && !pair_strike(&crashes[i].pair, &struck_ns[i]))
            leave_out(&crashes[i]);
    for (size_t i = 0; i < CRASHES; i++) {
        struct series *series = &crashes[i];
        if (series->out)
            continue;
        if (pair_follow(&series->pair, struck_ns[i], PATIENCE_MS, &series->ms[series->count]))
            series->count++;
        else
            leave_out(series);
    }
}

static void run_crashes(struct ground *ground) {
    open_all(ground->crashes, CRASHES);
    for (size_t round = 0; round < CRASH_ROUNDS; round++) {
        prepare_all(ground->crashes, CRASHES);
        pause_up_to(SHORT_TTL_MS / 3 * 1000u); /* between two renewals */
        run_crash_round(ground->crashes);
    }
    close_all(ground->crashes, CRASHES);
}

/* ---- versions ----------------------------------------------------------------------------------------- */

/* One line that a command says; "missing" where it says none. */
static void add_version(ten_buf *text, const char *name, const char *command) {
    char line[64] = "";
    FILE *said = popen(command, "re");
    bool known = said && fgets(line, sizeof line, said);
    if (said)
        (void)pclose(said);
    line[strcspn(line, "\n")] = '\0';
    ten_buf_format(text, "%s%s %s", text->size ? ", " : "", name, known ? line : "missing");
}

static void add_versions(ten_buf *text) {
    add_version(text, "Redis", "redis-server --version 2>/dev/null | sed 's/.*v=\\([^ ]*\\).*/\\1/'");
    add_version(text, "redis-py", BENCH_PYTHON " -c 'import redis; print(redis.__version__)' 2>/dev/null");
    add_version(text, "redlock", "node -p 'require(\"redlock/package.json\").version' 2>/dev/null");
    add_version(text, "ioredis", "node -p 'require(\"ioredis/package.json\").version' 2>/dev/null");
    add_version(text, "node", "node --version 2>/dev/null");
    add_version(text, "etcd", "etcd --version 2>/dev/null | sed -n 's/^etcd Version: //p'");
    add_version(text, "etcdctl", "etcdctl version 2>/dev/null | sed -n 's/^etcdctl version: //p'");
}

/* ---- how busy the machine was -------------------------------------------------------------------------- */

/* Seconds of processor time: of everybody, of nobody, and of this process with all that it has started and outlived. */
struct processors {
    double busy, idle, ours;
};

static struct processors look_at_processors(void) {
    char line[256] = "";
    unsigned long long ticks[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
    struct rusage self = {0}, gone = {0};
    (void)ten_read_line("/proc/stat", line, sizeof line);
    char *at = line + strcspn(line, " ");
    for (size_t i = 0; i < TEN_COUNT(ticks); i++)
        ticks[i] = strtoull(at, &at, 10);
    double second = (double)sysconf(_SC_CLK_TCK);
    struct processors seen = {.idle = (double)(ticks[3] + ticks[4]) / second};
    for (size_t i = 0; i < TEN_COUNT(ticks); i++)
        seen.busy += i == 3 || i == 4 ? 0 : (double)ticks[i] / second;
    (void)getrusage(RUSAGE_SELF, &self);
    (void)getrusage(RUSAGE_CHILDREN, &gone);
    for (size_t i = 0; i < 2; i++) {
        const struct rusage *used = i ? &gone : &self;
        seen.ours += (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
                     (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
    }
    return seen;
}

/* What others took of the processors, in percent: where that is much, they are in the p99 of all. */
static double others_since(struct processors then) {
    struct processors now = look_at_processors();
    double busy = now.busy - then.busy, all = busy + now.idle - then.idle, ours = now.ours - then.ours;
    return all > 0 && busy > ours ? (busy - ours) / all * 100 : 0;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts them. */
static double percentile(struct series *series, unsigned percent) {
    qsort(series->ms, series->count, sizeof *series->ms, compare);
    return series->count ? series->ms[(series->count - 1) * percent / 100] : 0;
}

static void tell_series(ten_buf *more, const char *prefix, struct series *series) {
    ten_buf_format(more, ",\"%srounds\":%zu,\"%sp50_ms\":%.3f,\"%sp99_ms\":%.3f,\"%sworst_ms\":%.3f", prefix,
                   series->count, prefix, percentile(series, 50), prefix, percentile(series, 99), prefix,
                   percentile(series, 100));
}

static bool add_row(bench_report *report, bench_row head, double ours, double reference, bench_row **ret_row) {
    *ret_row = bench_add(report, head, &ours, &reference, 1);
    if (!*ret_row)
        return false;
    bench_print_row(*ret_row);
    return true;
}

/* The row names lie here as long as the report does. */
static const char *keep_text(const char *format, const char *a, const char *b) {
    static char texts[2048];
    static size_t used;
    int length = snprintf(texts + used, sizeof texts - used, format, a, b);
    TEN_INVARIANT(length >= 0 && (size_t)length < sizeof texts - used);
    used += (size_t)length + 1;
    return texts + used - (size_t)length - 1;
}

static bool add_handoff(bench_report *report, struct ground *ground, enum side ours, enum side peer, double goal) {
    struct series *series = &ground->sides[ours], *against = &ground->sides[peer];
    bool measured = !against->out && !series->out;
    bench_row head = {.name = keep_text("elections/%s/%s", names[ours], names[peer]),
                      .against = measured      ? "p99 of a graceful handoff"
                                 : series->out ? "NOT MEASURED: ours failed"
                                               : "NOT MEASURED: the peer is not there",
                      .kind = BENCH_LATE,
                      .goal = measured ? goal : 0};
    bench_row *row;
    if (!add_row(report, head, percentile(series, 99), percentile(against, 99), &row))
        return false;
    if (measured)
        printf("    p50 %.2f ms against %.2f ms: ratio %.3f; worst %.2f against %.2f ms\n", percentile(series, 50),
               percentile(against, 50), percentile(series, 50) / percentile(against, 50), percentile(series, 100),
               percentile(against, 100));
    tell_series(&row->more, "", series);
    tell_series(&row->more, "peer_", against);
    return true;
}

static bool add_handoffs(bench_report *report, struct ground *ground) {
    static const struct {
        enum side peer;
        double goal;
    } peers[] = {{REDIS_PY, 0.1}, {REDLOCK, 0.1}, {ETCDCTL_LOCK, 1}, {ETCDCTL_ELECT, 1}};
    for (size_t i = API_REDIS; i <= ELECT_SQLITE; i++)
        for (size_t at = 0; at < TEN_COUNT(peers); at++)
            if (!add_handoff(report, ground, (enum side)i, peers[at].peer, peers[at].goal))
                return false;
    return true;
}

/* The peer that is replaced soonest, by the median. */
static struct series *best_crash(struct ground *ground) {
    struct series *best = NULL;
    for (size_t i = 0; i < CRASHES; i++) {
        struct series *series = &ground->crashes[i];
        if (!series->out && (!best || percentile(series, 50) < percentile(best, 50)))
            best = series;
    }
    return best;
}

static bool add_crash(bench_report *report, struct ground *ground, enum side ours) {
    struct series *series = &ground->sides[ours], *best = best_crash(ground);
    bench_row head = {.name = keep_text("elections/%s%s", names[ours], "-killed"),
                      .against = series->out ? "NOT MEASURED: ours failed"
                                 : best      ? keep_text("%s%s", best->pair.name, " killed, the soonest of the peers")
                                             : "no peer is there",
                      .kind = BENCH_PART,
                      .goal = series->out ? 0 : 0.05};
    bench_row *row;
    if (!add_row(report, head, percentile(series, 99) / TTL_MS, best ? percentile(best, 50) / SHORT_TTL_MS : 0, &row))
        return false;
    printf("    p50 %.2f ms, p99 %.2f ms, worst %.2f ms of a TTL of %u ms; led again itself: %u of %zu\n",
           percentile(series, 50), percentile(series, 99), percentile(series, 100), TTL_MS, series->pair.returned,
           series->count);
    tell_series(&row->more, "", series);
    ten_buf_format(&row->more, ",\"ttl_ms\":%u,\"led_again\":%u", TTL_MS, series->pair.returned);
    for (size_t i = 0; best && i < CRASHES; i++)
        if (!ground->crashes[i].out)
            ten_buf_format(&row->more, ",\"%s_of_ttl\":%.3f", ground->crashes[i].pair.name,
                           percentile(&ground->crashes[i], 50) / SHORT_TTL_MS);
    return true;
}

static bool add_crashes(bench_report *report, struct ground *ground) {
    for (size_t i = WORKER_REDIS; i <= COMMAND_SQLITE; i++)
        if (!add_crash(report, ground, (enum side)i))
            return false;
    for (size_t i = 0; i < CRASHES; i++) {
        struct series *series = &ground->crashes[i];
        if (series->out)
            printf("    %s killed: not measured, it is not there\n", series->pair.name);
        else
            printf("    %s killed: replaced after %.2f of its TTL at the median, %.2f at worst, %zu rounds\n",
                   series->pair.name, percentile(series, 50) / SHORT_TTL_MS, percentile(series, 100) / SHORT_TTL_MS,
                   series->count);
    }
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static bool find_programs(struct ground *ground) {
    ssize_t length = readlink("/proc/self/exe", ground->programs, sizeof ground->programs - 1);
    char modules[GROUND_PATH_SIZE + 32];
    if (length <= 0)
        return false;
    ground->programs[length] = '\0';
    *strrchr(ground->programs, '/') = '\0';
    snprintf(modules, sizeof modules, "%s/peers/node_modules", ground->programs); /* ./dev bench has put them there */
    return setenv("NODE_PATH", modules, 1) == 0;
}

/* Nobody is left out of ours. */
static bool is_complete(const struct ground *ground) {
    bool complete = true;
    for (size_t i = 0; i < PEERS_FIRST; i++)
        complete = complete && !ground->sides[i].out;
    return complete;
}

bool elections_measure(bench_report *report, const char *directory) {
    static struct ground ground;
    ground.directory = directory;
    srand48((long)ten_boot_us());
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!find_programs(&ground) || redis_server_start(&ground.redis, NULL) != 0)
        return false;
    if (!etcd_start(&ground.etcd, directory))
        fprintf(stderr, "bench: etcd is not there, or does not start\n");
    struct processors before = look_at_processors();
    set_sides(&ground);
    set_crashes(&ground);
    run_rounds(&ground);
    run_crashes(&ground);
    etcd_stop(&ground.etcd);
    redis_server_remove(&ground.redis);
    while (waitpid(-1, NULL, 0) > 0) /* what killed candidates left behind has ended by now */
        ;
    double others = others_since(before);
    TEN_CLEANUP(ten_buf_free) ten_buf versions = {0};
    add_versions(&versions);
    printf("    %u rounds; others took %.0f %% of the processors meanwhile; %s\n", ROUNDS, others,
           ten_buf_string(&versions));
    size_t first = report->count;
    bool done = add_handoffs(report, &ground) && add_crashes(report, &ground);
    if (report->count > first) {
        ten_json_text(&report->rows[first].more, "versions", ten_buf_string(&versions));
        ten_buf_format(&report->rows[first].more, ",\"others_percent\":%.1f", others);
    }
    return done && is_complete(&ground);
}
