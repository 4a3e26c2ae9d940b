/*
 * Those who are measured beside each other in peers.c: candidates of ours and of others, each a pair of
 * processes (elections_pair.h), on the same private servers in the same run. Who takes part, rounds for all of them,
 * and what is told of the machine. What is measured, and the rows, are the callers'.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "bench.h"
#include "elections_pair.h"
#include "ground.h"
#include "lib/etcd_server.h"
#include "lib/redis_server.h"

#define CONTEST_ROUNDS_MAX   300u
#define CONTEST_SHORT_TTL_MS 2000u   /* the least that etcd grants */
#define CONTEST_PHASE_US     300000u /* the longest interval at which a peer looks */
#define CONTEST_PATIENCE_MS  UINT64_C(15000)

/* The place: servers, and where the programs lie. */
struct contest {
    const char *directory;
    char programs[GROUND_PATH_SIZE]; /* where bench itself lies */
    struct redis_server redis;
    etcd_server etcd; /* not running where there is none */
};

typedef struct contestant {
    struct pair pair;
    char log[GROUND_PATH_SIZE];
    bool out;   /* it is not there, or it failed: not measured */
    bool alone; /* its takeover takes no time but that of processors: others are not struck meanwhile */
    double ms[CONTEST_ROUNDS_MAX];
    size_t count;
} contestant;

enum contest_store { CONTEST_REDIS, CONTEST_SQLITE, CONTEST_ETCD };

/* The URL of that store; `name` is of the file where it is one. */
void contest_url(const struct contest *contest, enum contest_store store, const char *name, char url[GROUND_PATH_SIZE]);

bool contest_open(struct contest *contest, const char *directory);
void contest_close(struct contest *contest); /* returns when nothing that was started runs any more */

/* ---- who takes part ---- */
/* A program that uses the C API (api-STORE), tenure elect with elections_work.c as its CMD (elect-STORE), or a peer: a
 * script of bench/peers (redis-py, redlock), a program of peers_plain.c (set-nx-loop, flock), etcdctl-lock or
 * etcdctl-elect. The name must stay. What cannot be measured here is out. */
void contestant_set(const struct contest *contest, contestant *who, const char *name, const char *suffix,
                    unsigned ttl_ms);
/* One without words yet, for other programs. */
void contestant_name(const struct contest *contest, contestant *who, const char *name, const char *suffix);

/* ---- rounds ---- */
/* Whoever fails takes no further part; the others go on. */
void contestant_leave_out(contestant *who);
void contest_open_all(contestant *all, size_t count);
void contest_prepare_all(contestant *all, size_t count);
void contest_close_all(contestant *all, size_t count);
/* Until those who were started wait, and up to `us` more, at random. */
void contest_pause(uint64_t us);
/* Each leader is stopped in turn, in an order that turns around with the round. */
void contest_hand_over_all(contestant *all, size_t count, size_t round);
/* All at once but those that want to be alone: they wait for seconds, and for nothing but time. */
void contest_strike_all(contestant *all, size_t count);

/* ---- figures ---- */
double contestant_percentile(contestant *who, unsigned percent); /* sorts them */
void contestant_tell(ten_buf *more, const char *prefix, contestant *who);
/* A row of one of ours against a peer: the percentiles of both. Not measured: if `against` is NULL. */
bool contest_add_row(bench_report *report, bench_row head, contestant *own, contestant *other, unsigned percent);

/* Seconds of processor time: of everybody, of nobody, and of this process with all that it has started and outlived. */
struct processors {
    double busy, idle, ours;
};
struct processors contest_look_at_processors(void);
/* What others took of the processors, in percent: where that is much, they are in the p99 of all. */
double contest_others_since(struct processors then);
void contest_add_versions(ten_buf *text);

/* Names of rows lie here as long as the report does. */
const char *contest_keep_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
