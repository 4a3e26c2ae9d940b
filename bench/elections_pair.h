/*
 * Two candidates for one role, as processes, of whatever program: one leads, the other waits, and then the leader is
 * stopped or killed. It measures from the moment when that began until somebody's work runs. Called by contest.c.
 *
 * Candidates are of two sorts. A resident one is a program of bench/peers or elections_candidate.c: it reads `campaign`
 * and `stop` on its standard input and says `led NANOSECONDS`, `stopping NANOSECONDS`. Of the other sort, a process is
 * one candidacy, as with `tenure elect ROLE -- CMD`: CMD is elections_work.c, which says the same `led`; what says
 * anything else (etcdctl elect) leads from the moment when it is heard.
 *
 * With one more argument than usual, a file, whoever works appends `NANOSECONDS NAME` to it, a number of its own, every
 * few milliseconds as long as it believes that it may. A resident one also does other jobs, for peers_rates.c: `pairs
 * MS`, `renew MS` and `many MS` let it acquire and release, renew one after the other, and renew as fast as it can, for
 * so long; then it says `did COUNT CPU_MICROSECONDS P50_MICROSECONDS P99_MICROSECONDS`.
 */
#ifndef BENCH_ELECTIONS_PAIR_H
#define BENCH_ELECTIONS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAIR_WORDS      16u
#define PAIR_TEXT_SIZE  1024u
#define PAIR_ROUNDS_MAX 300u

enum pair_end {
    PAIR_SAY_STOP,    /* resident: the word */
    PAIR_TERM,        /* SIGTERM to the process */
    PAIR_INT,         /* SIGINT to the process */
    PAIR_TERM_WORK,   /* SIGTERM to its CMD */
    PAIR_KILL,        /* SIGKILL to the process */
    PAIR_KILL_WORKER, /* SIGKILL to the first child of the process: the worker of a warden */
    PAIR_KILL_WORK,   /* SIGKILL to its CMD */
    PAIR_STOP,        /* SIGSTOP to the process */
    PAIR_STOP_WORKER, /* SIGSTOP to the worker of a warden */
};

typedef struct pair_member {
    pid_t pid; /* 0: none */
    int to, from;
} pair_member;

typedef struct contestant {
    const char *name;
    bool resident;
    enum pair_end end;
    char log[PAIR_TEXT_SIZE]; /* where their standard error goes */
    /* The command line: words, NULL at the end, which lie in `texts`. */
    char *words[PAIR_WORDS];
    char texts[PAIR_TEXT_SIZE];
    pair_member members[2];
    unsigned leader;
    pid_t stopped;              /* see pair_resume() */
    bool out;                   /* it is not there, or it failed: not measured */
    bool alone;                 /* its takeover takes no time but that of processors: others are not struck meanwhile */
    double ms[PAIR_ROUNDS_MAX]; /* what its rounds took */
    size_t count;
} contestant;

/* Adds words to the command line, with a `|` between two. */
void pair_add_words(contestant *pair, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False: it did not come to that. */
bool pair_open(contestant *pair); /* one starts, and leads when it returns */
/* The one that does not lead begins to campaign. It takes a while until it really waits: the caller gives it that. */
bool pair_prepare(contestant *pair);
/* Ends the leader's term; and waits until somebody leads: that is a round. */
bool pair_strike(contestant *pair, uint64_t *ret_struck_ns);
bool pair_follow(contestant *pair, uint64_t struck_ns, uint64_t patience_ms);
void pair_resume(contestant *pair); /* SIGCONT to what was stopped */
void pair_close(contestant *pair);
/* Lets the first of them do a job, which is a line, and hears what it did. */
bool pair_ask(contestant *pair, const char *job, uint64_t patience_ms, char *answer, size_t size);

#endif
