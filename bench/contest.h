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

#define CONTEST_SHORT_TTL_MS 2000u   /* the least that etcd grants */
#define CONTEST_PHASE_US     300000u /* the longest interval at which a peer looks */
#define CONTEST_PATIENCE_MS  UINT64_C(15000)

/* The place. */
struct contest {
    const char *directory;
    struct redis_server redis;
    etcd_server etcd; /* not running where there is none */
};

/* The URL of the store of that contestant; `file`: the name of the file where it is one. False: it is not there. */
bool contest_url(const struct contest *contest, const char *name, const char *file, char url[GROUND_PATH_SIZE]);

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
void contest_each(contestant *all, size_t count, bool (*step)(contestant *pair)); /* pair_open() or pair_prepare() */
void contest_close_all(contestant *all, size_t count);
/* Until those who were started wait, and up to `us` more, at random. */
void contest_pause(uint64_t us);
/* Each leader is stopped in turn, in an order that turns around with the round. */
void contest_hand_over_all(contestant *all, size_t count, size_t round);
/* All at once but those that want to be alone: they wait for seconds, and for nothing but time. */
void contest_strike_all(contestant *all, size_t count);

/* ---- figures ---- */
void contest_tell_sides(ten_buf *more, const char *ours, const char *peer);
void contestant_tell(ten_buf *more, const char *prefix, contestant *who);
/* A row of one of ours against a peer: the percentiles of both. Not measured: if `against` is NULL. */
bool contest_add_row(bench_report *report, bench_row head, contestant *own, contestant *other, unsigned percent);

/* Which versions take part goes with that row. */
void contest_tell_versions(bench_report *report, size_t first);

#endif
