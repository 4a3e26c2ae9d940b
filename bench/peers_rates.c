/*
 * Acquire + release, and renewals: each client in a process of its own, on the same servers, takes its turns of a fifth
 * of a second in rounds whose order turns around; what counts is the median of the rounds. A lock that is a process
 * (etcdctl lock, flock(1), tenure elect) is measured with `true` as its command. Part of peers.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "peers.h"

#define ROUNDS      9u
#define TURN_MS     200u
#define TTL_MS      10000u
#define PATIENCE_MS UINT64_C(30000)

enum job { PAIRS, RENEW, MANY, JOBS };
static const char *const job_names[JOBS] = {"pairs", "renew", "many"};

enum who {
    API_REDIS,
    API_SQLITE,
    BATCH_REDIS,
    BATCH_SQLITE,
    ELECT_REDIS,
    ELECT_SQLITE,
    ELECT_ETCD,
    API_ETCD,
    BATCH_ETCD,
    REDIS_PY,
    REDLOCK,
    SEED,
    FLOCK,
    ETCDCTL_LOCK,
    FLOCK_COMMAND,
    CLIENTS
};

enum sort { USUAL, BATCH, COMMAND };

/* What a client does not have (etcdctl renews by itself, flock need not) is not asked for. */
static const struct {
    const char *name;
    enum sort sort;
    bool does[JOBS];
} sides[CLIENTS] = {
    [API_REDIS] = {"api-redis", USUAL, {true, true, false}},
    [API_SQLITE] = {"api-sqlite", USUAL, {true, true, false}},
    [BATCH_REDIS] = {"batch-redis", BATCH, {false, false, true}},
    [BATCH_SQLITE] = {"batch-sqlite", BATCH, {false, false, true}},
    [ELECT_REDIS] = {"elect-redis", COMMAND, {true, false, false}},
    [ELECT_SQLITE] = {"elect-sqlite", COMMAND, {true, false, false}},
    [ELECT_ETCD] = {"elect-etcd", COMMAND, {true, false, false}},
    [API_ETCD] = {"api-etcd", USUAL, {true, true, false}},
    [BATCH_ETCD] = {"batch-etcd", BATCH, {false, false, true}},
    [REDIS_PY] = {"redis-py", USUAL, {true, true, true}},
    [REDLOCK] = {"redlock", USUAL, {true, true, true}},
    [SEED] = {"set-nx-loop", USUAL, {true, true, true}},
    [FLOCK] = {"flock", USUAL, {true, false, false}},
    [ETCDCTL_LOCK] = {"etcdctl-lock", COMMAND, {true, false, false}},
    [FLOCK_COMMAND] = {"flock-command", COMMAND, {true, false, false}},
};

struct figures {
    double rates[ROUNDS], per_cpu[ROUNDS]; /* operations a second, and a second of the client's processor time */
    double p50_us[ROUNDS];
};

struct rates {
    contestant clients[CLIENTS];
    struct figures figures[CLIENTS][JOBS];
};

/* ---- who takes part ------------------------------------------------------------------------------------ */

static void set_client(const struct contest *contest, contestant *who, enum who which) {
    const char *name = sides[which].name;
    char url[GROUND_PATH_SIZE];
    if (sides[which].sort == USUAL) {
        contestant_set(contest, who, name, "-rates", TTL_MS);
        return;
    }
    contestant_name(contest, who, name, "-rates");
    who->resident = sides[which].sort == COMMAND;
    who->out = !contest_url(contest, name, sides[which].sort == BATCH ? "batch" : "command", url);
    if (sides[which].sort == BATCH) {
        pair_add_words(who, "%s/peers-batch|%s", ground_programs(), url);
        return;
    }
    pair_add_words(who, "%s/peers-plain|command", ground_programs()); /* it runs the words behind it again and again */
    if (which == ETCDCTL_LOCK)
        pair_add_words(who, "etcdctl|--endpoints=127.0.0.1:%d|lock|command|true", contest->etcd.port);
    else if (which == FLOCK_COMMAND)
        pair_add_words(who, "flock|%s/command.lock|true", contest->directory);
    else
        pair_add_words(who, "%s/../tenure|elect|command|--log-level|error|--store|%s|--|true", ground_programs(), url);
}

/* ---- turns --------------------------------------------------------------------------------------------- */

static void take_turn(struct rates *rates, enum who who, enum job job, size_t round) {
    contestant *client = &rates->clients[who];
    char line[32], answer[128];
    double count, cpu_us, p50_us;
    if (client->out || !sides[who].does[job])
        return;
    snprintf(line, sizeof line, "%s %u\n", job_names[job], TURN_MS);
    if (!pair_ask(client, line, PATIENCE_MS, answer, sizeof answer) ||
        sscanf(answer, "did %lf %lf %lf", &count, &cpu_us, &p50_us) != 3) {
        contestant_leave_out(client);
        return;
    }
    struct figures *figures = &rates->figures[who][job];
    figures->rates[round] = count * 1000 / TURN_MS;
    figures->per_cpu[round] = cpu_us > 0 ? count * 1e6 / cpu_us : 0;
    figures->p50_us[round] = p50_us;
}

static void run_turns(struct rates *rates) {
    for (size_t round = 0; round <= ROUNDS; round++) /* the first is for caches and connections, and overwritten */
        for (unsigned job = 0; job < JOBS; job++)
            for (size_t i = 0; i < CLIENTS; i++)
                take_turn(rates, (enum who)(round % 2 ? CLIENTS - 1 - i : i), (enum job)job, round ? round - 1 : 0);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void tell(ten_buf *more, const char *prefix, const struct figures *figures) {
    ten_buf_format(more, ",\"%sp50_us\":%.1f,\"%sper_cpu_second\":%.0f", prefix, bench_median(figures->p50_us, ROUNDS),
                   prefix, bench_median(figures->per_cpu, ROUNDS));
}

/* What one of ours is to reach at least, of that peer's rate; 0: nothing. */
static double goal_of(enum job job, enum who ours, enum who peer) {
    if (ours != API_REDIS || job == MANY)
        return 0;
    return peer == REDIS_PY ? 1.0 : peer == SEED && job == PAIRS ? 0.5 : 0;
}

struct pairing {
    const char *what;
    enum job ours_job;
    enum who ours;
    enum job peer_job;
    enum who peer;
    bool cpu;
};

/* SQLite and etcdctl have no peer that can be told to renew: one at a time beside all in one request. */
static const struct pairing pairings[] = {
    {"pairs", PAIRS, API_REDIS, PAIRS, REDIS_PY, false},
    {"pairs", PAIRS, API_REDIS, PAIRS, REDLOCK, false},
    {"pairs", PAIRS, API_REDIS, PAIRS, SEED, false},
    {"pairs", PAIRS, API_SQLITE, PAIRS, FLOCK, false},
    {"pairs", PAIRS, API_ETCD, PAIRS, ETCDCTL_LOCK, false}, /* a process each time */
    {"commands", PAIRS, ELECT_REDIS, PAIRS, ETCDCTL_LOCK, false},
    {"commands", PAIRS, ELECT_SQLITE, PAIRS, FLOCK_COMMAND, false},
    {"commands", PAIRS, ELECT_ETCD, PAIRS, ETCDCTL_LOCK, false},
    {"renew", RENEW, API_REDIS, RENEW, REDIS_PY, false},
    {"renew", RENEW, API_REDIS, RENEW, REDLOCK, false},
    {"renew", RENEW, API_REDIS, RENEW, SEED, false},
    {"renew-many", MANY, BATCH_REDIS, MANY, REDIS_PY, false},
    {"renew-many", MANY, BATCH_REDIS, MANY, REDLOCK, false},
    {"renew-many", MANY, BATCH_REDIS, MANY, SEED, false},
    {"renew-cpu", MANY, BATCH_REDIS, MANY, REDIS_PY, true},
    {"renew-cpu", MANY, BATCH_REDIS, MANY, REDLOCK, true},
    {"renew-cpu", MANY, BATCH_REDIS, MANY, SEED, true},
    {"renew-many", MANY, BATCH_SQLITE, RENEW, API_SQLITE, false},
    {"renew-many", MANY, BATCH_ETCD, RENEW, API_ETCD, false},
};

/* One of ours against one peer; `cpu`: by the client's processor time. */
static bool add_row(bench_report *report, struct rates *rates, const struct pairing *it) {
    bool measured = !rates->clients[it->ours].out && !rates->clients[it->peer].out;
    const char *ours = sides[it->ours].name, *peer = sides[it->peer].name;
    struct figures *own = &rates->figures[it->ours][it->ours_job], *other = &rates->figures[it->peer][it->peer_job];
    bench_row head = {.name = bench_keep_text("peers/%s/%s/%s", it->what, ours, peer),
                      .against = measured ? bench_keep_text("%s, the same job", peer) : "NOT MEASURED",
                      .kind = BENCH_RATE,
                      .goal = measured ? goal_of(it->ours_job, it->ours, it->peer) : 0};
    bench_row *row =
        bench_add(report, head, it->cpu ? own->per_cpu : own->rates, it->cpu ? other->per_cpu : other->rates, ROUNDS);
    if (!row)
        return false;
    tell(&row->more, "", own);
    tell(&row->more, "peer_", other);
    contest_tell_sides(&row->more, ours, peer);
    return true;
}

bool peers_measure_rates(bench_report *report, const struct contest *contest) {
    static struct rates rates;
    bool done = true;
    for (unsigned i = 0; i < CLIENTS; i++)
        set_client(contest, &rates.clients[i], (enum who)i);
    run_turns(&rates);
    contest_close_all(rates.clients, CLIENTS);
    for (size_t i = 0; done && i < TEN_COUNT(pairings); i++)
        done = add_row(report, &rates, &pairings[i]);
    return done;
}
