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

static const char *const names[CLIENTS] = {
    [API_REDIS] = "api-redis",
    [API_SQLITE] = "api-sqlite",
    [BATCH_REDIS] = "batch-redis",
    [BATCH_SQLITE] = "batch-sqlite",
    [ELECT_REDIS] = "elect-redis",
    [ELECT_SQLITE] = "elect-sqlite",
    [ELECT_ETCD] = "elect-etcd",
    [API_ETCD] = "api-etcd",
    [BATCH_ETCD] = "batch-etcd",
    [REDIS_PY] = "redis-py",
    [REDLOCK] = "redlock",
    [SEED] = "set-nx-loop",
    [FLOCK] = "flock",
    [ETCDCTL_LOCK] = "etcdctl-lock",
    [FLOCK_COMMAND] = "flock-command",
};

/* What a client does not have (etcdctl renews by itself, flock need not) is not asked for. */
static const bool does[CLIENTS][JOBS] = {
    [API_REDIS] = {true, true, false},
    [API_SQLITE] = {true, true, false},
    [BATCH_REDIS] = {false, false, true},
    [BATCH_SQLITE] = {false, false, true},
    [ELECT_REDIS] = {true},
    [ELECT_SQLITE] = {true},
    [ELECT_ETCD] = {true},
    [API_ETCD] = {true, true, false},
    [BATCH_ETCD] = {false, false, true},
    [REDIS_PY] = {true, true, true},
    [REDLOCK] = {true, true, true},
    [SEED] = {true, true, true},
    [FLOCK] = {true},
    [ETCDCTL_LOCK] = {true},
    [FLOCK_COMMAND] = {true},
};

struct figures {
    double rates[ROUNDS], per_cpu[ROUNDS]; /* operations a second, and a second of the client's processor time */
    double p50_us[ROUNDS], p99_us[ROUNDS];
};

struct rates {
    contestant clients[CLIENTS];
    struct figures figures[CLIENTS][JOBS];
};

/* ---- who takes part ------------------------------------------------------------------------------------ */

/* Words of a process that is the lock, run again and again by peers_plain.c. */
static struct pair *begin_command(const struct contest *contest, contestant *who) {
    who->pair.resident = true;
    pair_add_word(&who->pair, "%s/peers-plain", contest->programs);
    pair_add_word(&who->pair, "command");
    return &who->pair;
}

static void set_elect_command(const struct contest *contest, contestant *who, enum contest_store store) {
    struct pair *pair = begin_command(contest, who);
    char url[GROUND_PATH_SIZE];
    contest_url(contest, store, "command", url);
    who->out = store == CONTEST_ETCD && contest->etcd.pid == 0;
    pair_add_word(pair, "%s/../tenure", contest->programs);
    pair_add_word(pair, "elect");
    pair_add_word(pair, "command");
    pair_add_word(pair, "--log-level");
    pair_add_word(pair, "error");
    pair_add_word(pair, "--store");
    pair_add_word(pair, "%s", url);
    pair_add_word(pair, "--");
    pair_add_word(pair, "true");
}

static void set_batch(const struct contest *contest, contestant *who, enum contest_store store) {
    char url[GROUND_PATH_SIZE];
    contest_url(contest, store, "batch", url);
    who->out = store == CONTEST_ETCD && contest->etcd.pid == 0;
    pair_add_word(&who->pair, "%s/peers-batch", contest->programs);
    pair_add_word(&who->pair, "%s", url);
}

static void set_clients(const struct contest *contest, contestant *clients) {
    static const enum who usual[] = {API_REDIS, API_SQLITE, API_ETCD, REDIS_PY, REDLOCK, SEED, FLOCK};
    for (size_t i = 0; i < CLIENTS; i++)
        contestant_name(contest, &clients[i], names[i], "-rates");
    for (size_t i = 0; i < TEN_COUNT(usual); i++)
        contestant_set(contest, &clients[usual[i]], names[usual[i]], "-rates", TTL_MS);
    set_batch(contest, &clients[BATCH_REDIS], CONTEST_REDIS);
    set_batch(contest, &clients[BATCH_SQLITE], CONTEST_SQLITE);
    set_batch(contest, &clients[BATCH_ETCD], CONTEST_ETCD);
    set_elect_command(contest, &clients[ELECT_REDIS], CONTEST_REDIS);
    set_elect_command(contest, &clients[ELECT_SQLITE], CONTEST_SQLITE);
    set_elect_command(contest, &clients[ELECT_ETCD], CONTEST_ETCD);
    struct pair *etcdctl = begin_command(contest, &clients[ETCDCTL_LOCK]);
    pair_add_word(etcdctl, "etcdctl");
    pair_add_word(etcdctl, "--endpoints=127.0.0.1:%d", contest->etcd.port);
    pair_add_word(etcdctl, "lock");
    pair_add_word(etcdctl, "command");
    pair_add_word(etcdctl, "true");
    clients[ETCDCTL_LOCK].out = contest->etcd.pid == 0;
    struct pair *flock = begin_command(contest, &clients[FLOCK_COMMAND]);
    pair_add_word(flock, "flock");
    pair_add_word(flock, "%s/command.lock", contest->directory);
    pair_add_word(flock, "true");
}

/* ---- turns --------------------------------------------------------------------------------------------- */

static void take_turn(struct rates *rates, enum who who, enum job job, size_t round) {
    contestant *client = &rates->clients[who];
    char line[32], answer[128];
    double count, cpu_us, p50_us, p99_us;
    if (client->out || !does[who][job])
        return;
    snprintf(line, sizeof line, "%s %u\n", job_names[job], TURN_MS);
    if (!pair_ask(&client->pair, line, PATIENCE_MS, answer, sizeof answer) ||
        sscanf(answer, "did %lf %lf %lf %lf", &count, &cpu_us, &p50_us, &p99_us) != 4) {
        contestant_leave_out(client);
        return;
    }
    struct figures *figures = &rates->figures[who][job];
    figures->rates[round] = count * 1000 / TURN_MS;
    figures->per_cpu[round] = cpu_us > 0 ? count * 1e6 / cpu_us : 0;
    figures->p50_us[round] = p50_us;
    figures->p99_us[round] = p99_us;
}

static void run_turns(struct rates *rates) {
    for (size_t round = 0; round <= ROUNDS; round++) /* the first is for caches and connections, and overwritten */
        for (unsigned job = 0; job < JOBS; job++)
            for (size_t i = 0; i < CLIENTS; i++)
                take_turn(rates, (enum who)(round % 2 ? CLIENTS - 1 - i : i), (enum job)job, round ? round - 1 : 0);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void tell(ten_buf *more, const char *prefix, const struct figures *figures) {
    ten_buf_format(more, ",\"%sp50_us\":%.1f,\"%sp99_us\":%.1f,\"%sper_cpu_second\":%.0f", prefix,
                   bench_median(figures->p50_us, ROUNDS), prefix, bench_median(figures->p99_us, ROUNDS), prefix,
                   bench_median(figures->per_cpu, ROUNDS));
}

/* What one of ours is to reach at least, of that peer's rate; 0: nothing. */
static double goal_of(enum job job, enum who ours, enum who peer) {
    if (ours != API_REDIS || job == MANY)
        return 0;
    return peer == REDIS_PY ? 1.0 : peer == SEED && job == PAIRS ? 0.5 : 0;
}

/* One of ours against one peer; `cpu`: by the client's processor time. */
static bool add_row(bench_report *report, struct rates *rates, enum job ours_job, enum who ours, enum job peer_job,
                    enum who peer, const char *what, bool cpu) {
    bool measured = !rates->clients[ours].out && !rates->clients[peer].out;
    struct figures *own = &rates->figures[ours][ours_job], *other = &rates->figures[peer][peer_job];
    bench_row head = {.name = contest_keep_text("peers/%s/%s/%s", what, names[ours], names[peer]),
                      .against = measured ? contest_keep_text("%s, the same job", names[peer]) : "NOT MEASURED",
                      .kind = BENCH_RATE,
                      .goal = measured ? goal_of(ours_job, ours, peer) : 0};
    bench_row *row =
        bench_add(report, head, cpu ? own->per_cpu : own->rates, cpu ? other->per_cpu : other->rates, ROUNDS);
    if (!row)
        return false;
    tell(&row->more, "", own);
    tell(&row->more, "peer_", other);
    ten_json_text(&row->more, "ours_is", names[ours]);
    ten_json_text(&row->more, "peer_is", names[peer]);
    return true;
}

static const enum who on_redis[] = {REDIS_PY, REDLOCK, SEED};

static bool add_rows(bench_report *report, struct rates *rates) {
    bool done = true;
    for (size_t i = 0; i < TEN_COUNT(on_redis); i++)
        done = done && add_row(report, rates, PAIRS, API_REDIS, PAIRS, on_redis[i], "pairs", false);
    done = done && add_row(report, rates, PAIRS, API_SQLITE, PAIRS, FLOCK, "pairs", false) &&
           add_row(report, rates, PAIRS, API_ETCD, PAIRS, ETCDCTL_LOCK, "pairs", false); /* a process each time */
    for (unsigned ours = ELECT_REDIS; ours <= ELECT_ETCD; ours++)
        for (unsigned peer = ETCDCTL_LOCK; peer <= FLOCK_COMMAND; peer++)
            done = done && add_row(report, rates, PAIRS, (enum who)ours, PAIRS, (enum who)peer, "commands", false);
    for (size_t i = 0; i < TEN_COUNT(on_redis); i++)
        done = done && add_row(report, rates, RENEW, API_REDIS, RENEW, on_redis[i], "renew", false);
    for (size_t i = 0; i < TEN_COUNT(on_redis); i++)
        done = done && add_row(report, rates, MANY, BATCH_REDIS, MANY, on_redis[i], "renew-many", false) &&
               add_row(report, rates, MANY, BATCH_REDIS, MANY, on_redis[i], "renew-cpu", true);
    /* SQLite and etcdctl have no peer that can be told to renew: one at a time beside all in one request. */
    return done && add_row(report, rates, MANY, BATCH_SQLITE, RENEW, API_SQLITE, "renew-many", false) &&
           add_row(report, rates, MANY, BATCH_ETCD, RENEW, API_ETCD, "renew-many", false);
}

bool peers_measure_rates(bench_report *report, const struct contest *contest) {
    static struct rates rates;
    set_clients(contest, rates.clients);
    run_turns(&rates);
    contest_close_all(rates.clients, CLIENTS);
    return add_rows(report, &rates);
}
