/*
 * `./dev bench peers`: the jobs that people compare, for ours and for what they use today, on the same private servers
 * in the same run, in turns. Acquire and release, and renewals: peers_rates.c. Two at a time when the holder is paused:
 * peers_paused.c. Here: how long it takes until another works when the holder stops in order, and when it is killed.
 *
 * All that are killed have the same short TTL, since most of them wait for its end. `tenure elect` has a warden that
 * gives the lease back; a program that uses the C API alone has none, and its lease has to end, too.
 */
#include "peers.h"

#include <string.h>

#include "base/json.h"

#define ROUNDS       40u
#define CRASH_ROUNDS 8u
#define TTL_MS       10000u

enum who {
    API_REDIS,
    API_SQLITE,
    ELECT_REDIS,
    ELECT_SQLITE,
    API_ETCD,
    ELECT_ETCD,
    REDIS_PY,
    REDLOCK,
    SEED,
    FLOCK,
    ETCDCTL_LOCK,
    ETCDCTL_ELECT,
    CLIENTS
};
#define PEERS_FIRST REDIS_PY
#define CRASHES     ETCDCTL_ELECT /* its TTL of 60 s cannot be chosen; else it is as etcdctl lock */

static const char *const names[CLIENTS] = {
    [API_REDIS] = "api-redis",       [API_SQLITE] = "api-sqlite",
    [ELECT_REDIS] = "elect-redis",   [ELECT_SQLITE] = "elect-sqlite",
    [API_ETCD] = "api-etcd",         [ELECT_ETCD] = "elect-etcd",
    [REDIS_PY] = "redis-py",         [REDLOCK] = "redlock",
    [SEED] = "set-nx-loop",          [FLOCK] = "flock",
    [ETCDCTL_LOCK] = "etcdctl-lock", [ETCDCTL_ELECT] = "etcdctl-elect",
};

void peers_set_plain(const struct contest *contest, contestant *who, const char *sort, unsigned ttl_ms) {
    struct pair *pair = &who->pair;
    pair->resident = true;
    pair->end = PAIR_SAY_STOP;
    pair_add_word(pair, "%s/peers-plain", contest->programs);
    pair_add_word(pair, "%s", sort);
    if (strcmp(sort, "flock") == 0) {
        pair_add_word(pair, "%s/%s-%u.lock", contest->directory, pair->name, ttl_ms);
        return;
    }
    pair_add_word(pair, "%d", contest->redis.port);
    pair_add_word(pair, "bench:%s:%u", pair->name, ttl_ms);
    pair_add_word(pair, "%u", ttl_ms);
}

static void set_clients(const struct contest *contest, contestant *clients, const char *suffix, unsigned ttl_ms) {
    for (size_t i = 0; i < CLIENTS; i++)
        contestant_name(contest, &clients[i], names[i], suffix);
    contestant_set_api(contest, &clients[API_REDIS], CONTEST_REDIS, ttl_ms);
    contestant_set_api(contest, &clients[API_SQLITE], CONTEST_SQLITE, ttl_ms);
    contestant_set_elect(contest, &clients[ELECT_REDIS], CONTEST_REDIS, ttl_ms);
    contestant_set_elect(contest, &clients[ELECT_SQLITE], CONTEST_SQLITE, ttl_ms);
    contestant_set_api(contest, &clients[API_ETCD], CONTEST_ETCD, ttl_ms);
    contestant_set_elect(contest, &clients[ELECT_ETCD], CONTEST_ETCD, ttl_ms);
    contestant_set_script(contest, &clients[REDIS_PY], BENCH_PYTHON, "redis_lock.py", ttl_ms);
    contestant_set_script(contest, &clients[REDLOCK], "node", "redlock.js", ttl_ms);
    peers_set_plain(contest, &clients[SEED], "seed", ttl_ms);
    peers_set_plain(contest, &clients[FLOCK], "flock", ttl_ms);
    contestant_set_etcdctl_lock(contest, &clients[ETCDCTL_LOCK], ttl_ms);
    contestant_set_etcdctl_elect(contest, &clients[ETCDCTL_ELECT]);
    clients[ETCDCTL_LOCK].out = clients[ETCDCTL_ELECT].out = contest->etcd.pid == 0;
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static void run_handovers(contestant *clients) {
    contest_open_all(clients, CLIENTS);
    for (size_t round = 0; round < ROUNDS; round++) {
        contest_prepare_all(clients, CLIENTS);
        contest_pause(CONTEST_PHASE_US);
        contest_hand_over_all(clients, CLIENTS, round);
    }
    contest_close_all(clients, CLIENTS);
}

static void run_crashes(contestant *clients) {
    for (size_t i = 0; i < CRASHES; i++) {
        bool warded = i == ELECT_REDIS || i == ELECT_SQLITE || i == ELECT_ETCD;
        clients[i].pair.end = warded ? PAIR_KILL_WORKER : PAIR_KILL;
        clients[i].alone = warded || i == FLOCK;
    }
    contest_open_all(clients, CRASHES);
    for (size_t round = 0; round < CRASH_ROUNDS; round++) {
        contest_prepare_all(clients, CRASHES);
        contest_pause(CONTEST_SHORT_TTL_MS / 3 * 1000u); /* between two renewals */
        contest_strike_all(clients, CRASHES);
    }
    contest_close_all(clients, CRASHES);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bool add_row(bench_report *report, const char *what, contestant *own, contestant *other, unsigned ttl_ms) {
    bool measured = own->count && other->count;
    double ours = contestant_percentile(own, 50), reference = contestant_percentile(other, 50);
    bench_row head = {.name = contest_keep_text("peers/%s/%s/%s", what, own->pair.name, other->pair.name),
                      .against = measured ? contest_keep_text("%s, the median", other->pair.name) : "NOT MEASURED",
                      .kind = BENCH_LATE};
    bench_row *row = bench_add(report, head, &ours, &reference, 1);
    if (!row)
        return false;
    bench_print_row(row);
    contestant_tell(&row->more, "", own);
    contestant_tell(&row->more, "peer_", other);
    ten_buf_format(&row->more, ",\"ttl_ms\":%u", ttl_ms);
    ten_json_text(&row->more, "ours_is", own->pair.name);
    ten_json_text(&row->more, "peer_is", other->pair.name);
    return true;
}

static bool add_rows(bench_report *report, const char *what, contestant *clients, size_t count, unsigned ttl_ms) {
    bool done = true;
    for (size_t ours = 0; ours < PEERS_FIRST; ours++)
        for (size_t peer = PEERS_FIRST; peer < count; peer++)
            done = done && add_row(report, what, &clients[ours], &clients[peer], ttl_ms);
    for (size_t ours = 0; ours < PEERS_FIRST; ours++)
        done = done && (!clients[ours].out || ours == API_ETCD || ours == ELECT_ETCD);
    return done;
}

/* Which versions, and how busy the machine was, go with the first row. */
static void tell_machine(bench_report *report, size_t first, struct processors before) {
    TEN_CLEANUP(ten_buf_free) ten_buf versions = {0};
    double others = contest_others_since(before);
    contest_add_versions(&versions);
    printf("    others took %.0f %% of the processors meanwhile; %s\n", others, ten_buf_string(&versions));
    if (report->count > first) {
        ten_json_text(&report->rows[first].more, "versions", ten_buf_string(&versions));
        ten_buf_format(&report->rows[first].more, ",\"others_percent\":%.1f", others);
    }
}

bool peers_measure(bench_report *report, const char *directory) {
    static struct contest contest;
    static contestant clients[CLIENTS], killed[CLIENTS];
    size_t first = report->count;
    if (!contest_open(&contest, directory))
        return false;
    struct processors before = contest_look_at_processors();
    bool done = peers_measure_rates(report, &contest);
    set_clients(&contest, clients, "", TTL_MS);
    run_handovers(clients);
    done = add_rows(report, "handover", clients, CLIENTS, TTL_MS) && done;
    set_clients(&contest, killed, "-killed", CONTEST_SHORT_TTL_MS);
    run_crashes(killed);
    done = add_rows(report, "killed", killed, CRASHES, CONTEST_SHORT_TTL_MS) && done;
    done = peers_measure_paused(report, &contest) && done;
    contest_close(&contest);
    tell_machine(report, first, before);
    return done;
}
