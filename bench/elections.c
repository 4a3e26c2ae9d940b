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

#include "base/json.h"
#include "contest.h"

#define ROUNDS       CONTEST_ROUNDS_MAX
#define CRASH_ROUNDS 8u /* of the peers, all at once */
#define TTL_MS       10000u

/* Ours come first: those of `ours` are measured against each of `peers`. */
enum side {
    API_REDIS,
    API_SQLITE,
    API_ETCD,
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
    [API_REDIS] = "api-redis",
    [API_SQLITE] = "api-sqlite",
    [API_ETCD] = "api-etcd",
    [ELECT_REDIS] = "elect-redis",
    [ELECT_SQLITE] = "elect-sqlite",
    [WORKER_REDIS] = "worker-redis",
    [WORKER_SQLITE] = "worker-sqlite",
    [COMMAND_REDIS] = "command-redis",
    [COMMAND_SQLITE] = "command-sqlite",
    [REDIS_PY] = "redis-py",
    [REDLOCK] = "redlock",
    [ETCDCTL_LOCK] = "etcdctl-lock",
    [ETCDCTL_ELECT] = "etcdctl-elect",
};

/* All of them, and those whose process is killed once more. */
struct ground {
    struct contest contest;
    contestant sides[SIDES];
    contestant crashes[CRASHES];
};

/* ---- who takes part ------------------------------------------------------------------------------------ */

static void set_sides(struct ground *ground) {
    const struct contest *contest = &ground->contest;
    contestant *sides = ground->sides;
    for (size_t i = 0; i < SIDES; i++)
        contestant_name(contest, &sides[i], names[i], "");
    contestant_set_api(contest, &sides[API_REDIS], CONTEST_REDIS, TTL_MS);
    contestant_set_api(contest, &sides[API_SQLITE], CONTEST_SQLITE, TTL_MS);
    contestant_set_api(contest, &sides[API_ETCD], CONTEST_ETCD, TTL_MS);
    for (size_t i = ELECT_REDIS; i < PEERS_FIRST; i++)
        contestant_set_elect(contest, &sides[i], (i - ELECT_REDIS) % 2 ? CONTEST_SQLITE : CONTEST_REDIS, TTL_MS);
    sides[WORKER_REDIS].pair.end = sides[WORKER_SQLITE].pair.end = PAIR_KILL_WORKER;
    sides[COMMAND_REDIS].pair.end = sides[COMMAND_SQLITE].pair.end = PAIR_KILL_WORK;
    contestant_set_script(contest, &sides[REDIS_PY], BENCH_PYTHON, "redis_lock.py", TTL_MS);
    contestant_set_script(contest, &sides[REDLOCK], "node", "redlock.js", TTL_MS);
    contestant_set_etcdctl_lock(contest, &sides[ETCDCTL_LOCK], TTL_MS);
    contestant_set_etcdctl_elect(contest, &sides[ETCDCTL_ELECT]);
}

static void set_crashes(struct ground *ground) {
    static const enum side same[CRASHES] = {REDIS_PY, REDLOCK, ETCDCTL_LOCK};
    contestant *crashes = ground->crashes;
    for (size_t i = 0; i < CRASHES; i++)
        contestant_name(&ground->contest, &crashes[i], names[same[i]], "-killed");
    contestant_set_script(&ground->contest, &crashes[CRASH_REDIS_PY], BENCH_PYTHON, "redis_lock.py",
                          CONTEST_SHORT_TTL_MS);
    contestant_set_script(&ground->contest, &crashes[CRASH_REDLOCK], "node", "redlock.js", CONTEST_SHORT_TTL_MS);
    contestant_set_etcdctl_lock(&ground->contest, &crashes[CRASH_ETCDCTL_LOCK], CONTEST_SHORT_TTL_MS);
    for (size_t i = 0; i < CRASHES; i++)
        crashes[i].pair.end = PAIR_KILL;
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static void run_rounds(struct ground *ground) {
    contest_open_all(ground->sides, SIDES);
    for (size_t round = 0; round < ROUNDS; round++) {
        contest_prepare_all(ground->sides, SIDES);
        contest_pause(CONTEST_PHASE_US);
        contest_hand_over_all(ground->sides, SIDES, round);
    }
    contest_close_all(ground->sides, SIDES);
}

static void run_crashes(struct ground *ground) {
    contest_open_all(ground->crashes, CRASHES);
    for (size_t round = 0; round < CRASH_ROUNDS; round++) {
        contest_prepare_all(ground->crashes, CRASHES);
        contest_pause(CONTEST_SHORT_TTL_MS / 3 * 1000u); /* between two renewals */
        contest_strike_all(ground->crashes, CRASHES);
    }
    contest_close_all(ground->crashes, CRASHES);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static bool add_row(bench_report *report, bench_row head, double ours, double reference, bench_row **ret_row) {
    *ret_row = bench_add(report, head, &ours, &reference, 1);
    if (!*ret_row)
        return false;
    bench_print_row(*ret_row);
    return true;
}

static bool add_handoff(bench_report *report, struct ground *ground, enum side ours, enum side peer, double goal) {
    contestant *series = &ground->sides[ours], *against = &ground->sides[peer];
    bool measured = !against->out && !series->out;
    bench_row head = {.name = contest_keep_text("elections/%s/%s", names[ours], names[peer]),
                      .against = measured      ? "p99 of a graceful handoff"
                                 : series->out ? "NOT MEASURED: ours failed"
                                               : "NOT MEASURED: the peer is not there",
                      .kind = BENCH_LATE,
                      .goal = measured ? goal : 0};
    bench_row *row;
    if (!add_row(report, head, contestant_percentile(series, 99), contestant_percentile(against, 99), &row))
        return false;
    if (measured)
        printf("    p50 %.2f ms against %.2f ms: ratio %.3f; worst %.2f against %.2f ms\n",
               contestant_percentile(series, 50), contestant_percentile(against, 50),
               contestant_percentile(series, 50) / contestant_percentile(against, 50),
               contestant_percentile(series, 100), contestant_percentile(against, 100));
    contestant_tell(&row->more, "", series);
    contestant_tell(&row->more, "peer_", against);
    return true;
}

/* On the server of the peer, by the median: the disk under both decides about the tail. */
static bool add_same_server(bench_report *report, struct ground *ground) {
    contestant *series = &ground->sides[API_ETCD], *against = &ground->sides[ETCDCTL_ELECT];
    bool measured = !against->out && !series->out;
    bench_row head = {.name = "elections/api-etcd/etcdctl-elect",
                      .against = measured ? "p50 of a graceful handoff on the same etcd" : "NOT MEASURED",
                      .kind = BENCH_LATE,
                      .goal = measured ? 1.5 : 0};
    bench_row *row;
    if (!add_row(report, head, contestant_percentile(series, 50), contestant_percentile(against, 50), &row))
        return false;
    contestant_tell(&row->more, "", series);
    contestant_tell(&row->more, "peer_", against);
    return true;
}

static bool add_handoffs(bench_report *report, struct ground *ground) {
    static const struct {
        enum side peer;
        double goal;
    } peers[] = {{REDIS_PY, 0.1}, {REDLOCK, 0.1}, {ETCDCTL_LOCK, 1}, {ETCDCTL_ELECT, 1}};
    for (size_t i = API_REDIS; i <= ELECT_SQLITE; i++)
        for (size_t at = 0; i != API_ETCD && at < TEN_COUNT(peers); at++)
            if (!add_handoff(report, ground, (enum side)i, peers[at].peer, peers[at].goal))
                return false;
    return add_same_server(report, ground);
}

/* The peer that is replaced soonest, by the median. */
static contestant *best_crash(struct ground *ground) {
    contestant *best = NULL;
    for (size_t i = 0; i < CRASHES; i++) {
        contestant *series = &ground->crashes[i];
        if (!series->out && (!best || contestant_percentile(series, 50) < contestant_percentile(best, 50)))
            best = series;
    }
    return best;
}

static bool add_crash(bench_report *report, struct ground *ground, enum side ours) {
    contestant *series = &ground->sides[ours], *best = best_crash(ground);
    bench_row head = {.name = contest_keep_text("elections/%s%s", names[ours], "-killed"),
                      .against = series->out ? "NOT MEASURED: ours failed"
                                 : best
                                     ? contest_keep_text("%s%s", best->pair.name, " killed, the soonest of the peers")
                                     : "no peer is there",
                      .kind = BENCH_PART,
                      .goal = series->out ? 0 : 0.05};
    bench_row *row;
    if (!add_row(report, head, contestant_percentile(series, 99) / TTL_MS,
                 best ? contestant_percentile(best, 50) / CONTEST_SHORT_TTL_MS : 0, &row))
        return false;
    printf("    p50 %.2f ms, p99 %.2f ms, worst %.2f ms of a TTL of %u ms; led again itself: %u of %zu\n",
           contestant_percentile(series, 50), contestant_percentile(series, 99), contestant_percentile(series, 100),
           TTL_MS, series->pair.returned, series->count);
    contestant_tell(&row->more, "", series);
    ten_buf_format(&row->more, ",\"ttl_ms\":%u,\"led_again\":%u", TTL_MS, series->pair.returned);
    for (size_t i = 0; best && i < CRASHES; i++)
        if (!ground->crashes[i].out)
            ten_buf_format(&row->more, ",\"%s_of_ttl\":%.3f", ground->crashes[i].pair.name,
                           contestant_percentile(&ground->crashes[i], 50) / CONTEST_SHORT_TTL_MS);
    return true;
}

static bool add_crashes(bench_report *report, struct ground *ground) {
    for (size_t i = WORKER_REDIS; i <= COMMAND_SQLITE; i++)
        if (!add_crash(report, ground, (enum side)i))
            return false;
    for (size_t i = 0; i < CRASHES; i++) {
        contestant *series = &ground->crashes[i];
        if (series->out)
            printf("    %s killed: not measured, it is not there\n", series->pair.name);
        else
            printf("    %s killed: replaced after %.2f of its TTL at the median, %.2f at worst, %zu rounds\n",
                   series->pair.name, contestant_percentile(series, 50) / CONTEST_SHORT_TTL_MS,
                   contestant_percentile(series, 100) / CONTEST_SHORT_TTL_MS, series->count);
    }
    return true;
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

/* Nobody is left out of ours. */
static bool is_complete(const struct ground *ground) {
    bool complete = true;
    for (size_t i = 0; i < PEERS_FIRST; i++)
        complete = complete && (!ground->sides[i].out || i == API_ETCD); /* which needs an etcd, as its peers do */
    return complete;
}

bool elections_measure(bench_report *report, const char *directory) {
    static struct ground ground;
    if (!contest_open(&ground.contest, directory))
        return false;
    struct processors before = contest_look_at_processors();
    set_sides(&ground);
    set_crashes(&ground);
    run_rounds(&ground);
    run_crashes(&ground);
    contest_close(&ground.contest);
    double others = contest_others_since(before);
    TEN_CLEANUP(ten_buf_free) ten_buf versions = {0};
    contest_add_versions(&versions);
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
