/*
 * Two at a time? The process that holds the lock is stopped for longer than its TTL, somebody else takes over, and it
 * is continued. All the time, whoever works writes it down (elections_pair.h): lines of the first after the first line
 * of the second mean that both worked. Of those that are two processes the one is stopped that renews: the worker of
 * `tenure elect`, and etcdctl, whose command nobody ends. Part of peers.c.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "peers.h"

#define ROUNDS   5u
#define TTL_MS   CONTEST_SHORT_TTL_MS
#define PAUSE_MS (2 * TTL_MS + 1000u)
#define AFTER_MS 2000u /* in which one that was continued can find out */

#define CLIENTS PEERS_KILLED

struct paused {
    contestant clients[CLIENTS];
    const char *beats[CLIENTS];
    unsigned rounds[CLIENTS]; /* that were judged */
    unsigned two[CLIENTS];    /* in which two worked at a time */
    unsigned nobody[CLIENTS]; /* in which nobody worked while the holder was stopped */
    double ms[CLIENTS];       /* for how long two did, at the worst */
};

static void set_clients(const struct contest *contest, struct paused *paused) {
    for (size_t i = 0; i < CLIENTS; i++) {
        contestant_set(contest, &paused->clients[i], peers_names[i], "-paused", TTL_MS);
        paused->clients[i].end = strncmp(peers_names[i], "elect-", 6) == 0 ? PAIR_STOP_WORKER : PAIR_STOP;
        paused->beats[i] = bench_keep_text("%s/%s.beats", contest->directory, peers_names[i]);
        pair_add_words(&paused->clients[i], "%s", paused->beats[i]);
    }
}

/* ---- the judge ----------------------------------------------------------------------------------------- */

struct verdict {
    bool others;    /* somebody else has worked */
    unsigned steps; /* of the first after that */
    double ms;      /* from the first to the last of those */
};

static struct verdict judge(const char *path) {
    struct verdict verdict = {0};
    unsigned long long at_ns, first_ns = 0;
    long pid, first = 0;
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%llu %ld", &at_ns, &pid) == 2) {
        first = first ? first : pid;
        if (pid != first) {
            verdict.others = true;
        } else if (verdict.others) {
            first_ns = verdict.steps++ ? first_ns : at_ns;
            verdict.ms = (double)(at_ns - first_ns) / 1e6;
        }
    }
    if (file)
        fclose(file);
    return verdict;
}

static void judge_all(struct paused *paused) {
    for (size_t i = 0; i < CLIENTS; i++) {
        if (paused->clients[i].out)
            continue;
        struct verdict verdict = judge(paused->beats[i]);
        paused->rounds[i]++;
        paused->two[i] += verdict.steps > 0;
        paused->nobody[i] += !verdict.others;
        if (verdict.steps && verdict.ms > paused->ms[i])
            paused->ms[i] = verdict.ms;
    }
}

/* ---- rounds and rows ----------------------------------------------------------------------------------- */

static void run_round(struct paused *paused) {
    contestant *clients = paused->clients;
    uint64_t struck_ns;
    for (size_t i = 0; i < CLIENTS; i++)
        (void)unlink(paused->beats[i]);
    contest_each(clients, CLIENTS, pair_open);
    contest_each(clients, CLIENTS, pair_prepare);
    contest_pause(TTL_MS / 3 * 1000u);
    for (size_t i = 0; i < CLIENTS; i++)
        if (!clients[i].out && !pair_strike(&clients[i], &struck_ns))
            contestant_leave_out(&clients[i]);
    ten_sleep_us(PAUSE_MS * 1000u);
    for (size_t i = 0; i < CLIENTS; i++)
        pair_resume(&clients[i]);
    ten_sleep_us(AFTER_MS * 1000u);
    contest_close_all(clients, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i].leader = 0;
    judge_all(paused);
}

static void tell(ten_buf *more, const char *prefix, const struct paused *paused, size_t who) {
    ten_buf_format(more, ",\"%srounds\":%u,\"%stwo_at_a_time\":%u,\"%stwo_for_ms\":%.1f,\"%snobody\":%u", prefix,
                   paused->rounds[who], prefix, paused->two[who], prefix, paused->ms[who], prefix, paused->nobody[who]);
}

static bool add_row(bench_report *report, const struct paused *paused, size_t ours, size_t peer) {
    bool measured = paused->rounds[ours] && paused->rounds[peer];
    double own = paused->two[ours], other = paused->two[peer];
    bench_row head = {.name = bench_keep_text("peers/paused/%s/%s", peers_names[ours], peers_names[peer]),
                      .against = !measured
                                     ? "NOT MEASURED"
                                     : bench_keep_text("two at a time in %u of %u rounds, for %.0f ms; nobody in %u",
                                                       paused->two[peer], paused->rounds[peer], paused->ms[peer],
                                                       paused->nobody[peer]),
                      .kind = BENCH_NONE};
    bench_row *row = bench_add_one(report, head, own, other);
    if (!row)
        return false;
    tell(&row->more, "", paused, ours);
    tell(&row->more, "peer_", paused, peer);
    contest_tell_sides(&row->more, peers_names[ours], peers_names[peer]);
    return true;
}

bool peers_measure_paused(bench_report *report, const struct contest *contest) {
    static struct paused paused;
    bool done = true;
    set_clients(contest, &paused);
    for (size_t round = 0; round < ROUNDS; round++)
        run_round(&paused);
    for (size_t ours = 0; ours < PEERS_OURS; ours++)
        for (size_t peer = PEERS_OURS; peer < CLIENTS; peer++)
            done = done && add_row(report, &paused, ours, peer);
    for (size_t i = 0; i < CLIENTS; i++)
        printf("    %s: two at a time in %u of %u rounds, for %.1f ms at worst; nobody in %u\n", peers_names[i],
               paused.two[i], paused.rounds[i], paused.ms[i], paused.nobody[i]);
    for (size_t ours = 0; ours < PEERS_OURS; ours++)
        done = done && (paused.rounds[ours] > 0 || strstr(peers_names[ours], "etcd")) &&
               paused.nobody[ours] == 0; /* else it proves nothing */
    return done;
}
