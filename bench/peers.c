/*
 * The jobs that people compare, for ours and for what they use today, on the same private servers in the same run, in
 * turns. Here: how long it takes until another works when the holder stops in order, and when it is killed. Acquire and
 * release, and renewals: peers_rates.c. Two at a time when the holder is paused: peers_paused.c.
 *
 * Of each there are two processes (elections_pair.h): one leads, the other waits, and in every round each leader is
 * stopped in turn, in an order that turns around. The time runs from just before the stop (or the kill) until the work
 * of the next leader runs, on the clock that all processes share. Before each round is a pause of a random length, so
 * that peers that look at intervals are met at all moments between two looks.
 *
 * Peers that are killed wait until their TTL has passed; theirs is short, so that the run is. `tenure elect` has a
 * warden that gives the lease back; a program that uses the C API alone has none, and its lease has to end, too.
 */
#include "peers.h"

#include <string.h>

#include "measures.h"

#define ROUNDS          40u
#define ELECTION_ROUNDS PAIR_ROUNDS_MAX
#define CRASH_ROUNDS    8u
#define TTL_MS          10000u
#define SIDES_MAX       16u

const char *const peers_names[PEERS_COUNT] = {"api-redis",   "api-sqlite", "elect-redis",  "elect-sqlite",
                                              "api-etcd",    "elect-etcd", "redis-py",     "redlock",
                                              "set-nx-loop", "flock",      "etcdctl-lock", "etcdctl-elect"};

/* ---- rounds -------------------------------------------------------------------------------------------- */

static void run_handovers(contestant *all, size_t count, size_t rounds) {
    contest_each(all, count, pair_open);
    for (size_t round = 0; round < rounds; round++) {
        contest_each(all, count, pair_prepare);
        contest_pause(CONTEST_PHASE_US);
        contest_hand_over_all(all, count, round);
    }
    contest_close_all(all, count);
}

static void run_crashes(contestant *all, size_t count) {
    contest_each(all, count, pair_open);
    for (size_t round = 0; round < CRASH_ROUNDS; round++) {
        contest_each(all, count, pair_prepare);
        contest_pause(CONTEST_SHORT_TTL_MS / 3 * 1000u); /* between two renewals */
        contest_strike_all(all, count);
    }
    contest_close_all(all, count);
}

/* ---- peers --------------------------------------------------------------------------------------------- */

static bool add_rows(bench_report *report, const char *what, contestant *clients, size_t count) {
    bool done = true;
    for (size_t i = 0; i < PEERS_OURS; i++) {
        for (size_t peer = PEERS_OURS; done && peer < count; peer++) {
            bench_row head = {.name = bench_keep_text("peers/%s/%s/%s", what, peers_names[i], peers_names[peer]),
                              .against = bench_keep_text("%s, the median", peers_names[peer]),
                              .kind = BENCH_LATE};
            done = contest_add_row(report, head, &clients[i], &clients[peer], 50);
        }
        done = done && (!clients[i].out || strstr(peers_names[i], "etcd"));
    }
    return done;
}

bool peers_measure(bench_report *report, const char *directory) {
    static struct contest contest;
    static contestant clients[PEERS_COUNT], killed[PEERS_KILLED];
    size_t first = report->count;
    if (!contest_open(&contest, directory))
        return false;
    bool done = peers_measure_rates(report, &contest);
    for (size_t i = 0; i < PEERS_COUNT; i++)
        contestant_set(&contest, &clients[i], peers_names[i], "", TTL_MS);
    run_handovers(clients, PEERS_COUNT, ROUNDS);
    done = add_rows(report, "handover", clients, PEERS_COUNT) && done;
    for (size_t i = 0; i < PEERS_KILLED; i++) {
        bool warded = strncmp(peers_names[i], "elect-", 6) == 0;
        contestant_set(&contest, &killed[i], peers_names[i], "-killed", CONTEST_SHORT_TTL_MS);
        killed[i].end = warded ? PAIR_KILL_WORKER : PAIR_KILL;
        killed[i].alone = warded || strcmp(peers_names[i], "flock") == 0;
    }
    run_crashes(killed, PEERS_KILLED);
    done = add_rows(report, "killed", killed, PEERS_KILLED) && done;
    done = peers_measure_paused(report, &contest) && done;
    contest_close(&contest);
    contest_tell_versions(report, first);
    return done;
}

/* ---- elections: the goals ------------------------------------------------------------------------------ */

static const struct side {
    const char *name;
    enum pair_end end; /* of those that are killed; they are tenure elect */
} sides[] = {{"api-redis", PAIR_SAY_STOP},      {"api-sqlite", PAIR_SAY_STOP},      {"elect-redis", PAIR_TERM},
             {"elect-sqlite", PAIR_TERM},       {"worker-redis", PAIR_KILL_WORKER}, {"worker-sqlite", PAIR_KILL_WORKER},
             {"command-redis", PAIR_KILL_WORK}, {"command-sqlite", PAIR_KILL_WORK}, {"api-etcd", PAIR_SAY_STOP},
             {"redis-py", PAIR_SAY_STOP},       {"redlock", PAIR_SAY_STOP},         {"etcdctl-lock", PAIR_TERM_WORK},
             {"etcdctl-elect", PAIR_INT}};
#define STOPPED     4u /* the first are stopped in order */
#define KILLED      8u /* those up to here are killed */
#define API_ETCD    8u
#define PEERS_FIRST 9u
static const double handoff_goals[] = {0.1, 0.1, 1, 1}; /* p99 against each of the peers, in their order */
#define OF_THE_TTL 0.05                                 /* p99 after a kill */

static bool add_handoffs(bench_report *report, contestant *all) {
    bool done = true;
    for (size_t i = 0; i < STOPPED; i++)
        for (size_t peer = 0; done && peer < TEN_COUNT(handoff_goals); peer++) {
            contestant *other = &all[PEERS_FIRST + peer];
            bench_row head = {.name = bench_keep_text("elections/%s/%s", sides[i].name, other->name),
                              .against = "p99 of a graceful handoff",
                              .kind = BENCH_LATE,
                              .goal = handoff_goals[peer]};
            done = contest_add_row(report, head, &all[i], other, 99);
        }
    /* By the median: the disk under both decides about the tail. */
    bench_row head = {.name = "elections/api-etcd/etcdctl-elect",
                      .against = "p50 of a graceful handoff on the same etcd",
                      .kind = BENCH_LATE,
                      .goal = 1.5};
    return done && contest_add_row(report, head, &all[API_ETCD], &all[TEN_COUNT(sides) - 1], 50);
}

/* Of the TTL; the peers' figures are in the rows peers/killed. */
static bool add_killed(bench_report *report, contestant *own) {
    double part = bench_percentile(own->ms, own->count, 99) / TTL_MS, goal = OF_THE_TTL;
    bench_row head = {.name = bench_keep_text("elections/%s-killed", own->name),
                      .against = own->out ? "NOT MEASURED: ours failed" : "the goal; p99 as a part of the TTL",
                      .kind = BENCH_PART,
                      .goal = own->out ? 0 : goal};
    bench_row *row = bench_add_one(report, head, part, goal);
    if (row)
        contestant_tell(&row->more, "", own);
    return row != NULL;
}

bool peers_measure_elections(bench_report *report, const char *directory) {
    static struct contest contest;
    static contestant all[TEN_COUNT(sides)];
    size_t first = report->count;
    if (!contest_open(&contest, directory))
        return false;
    for (size_t i = 0; i < TEN_COUNT(sides); i++) {
        contestant_set(&contest, &all[i], sides[i].name, "", TTL_MS);
        all[i].end = sides[i].end;
    }
    run_handovers(all, TEN_COUNT(sides), ELECTION_ROUNDS);
    contest_close(&contest);
    bool done = add_handoffs(report, all);
    for (size_t i = STOPPED; i < KILLED; i++)
        done = done && add_killed(report, &all[i]);
    for (size_t i = 0; i < KILLED; i++)
        done = done && !all[i].out;
    contest_tell_versions(report, first);
    return done;
}
