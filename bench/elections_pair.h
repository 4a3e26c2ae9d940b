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

#define PAIR_WORDS     16u
#define PAIR_TEXT_SIZE 1024u

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

struct pair {
    const char *name;
    bool resident;
    enum pair_end end;
    const char *log; /* where their standard error goes */
    /* The command line: words, NULL at the end. Those that were made at run time lie in `texts`. */
    const char *words[PAIR_WORDS];
    size_t word_count;
    char texts[PAIR_TEXT_SIZE];
    size_t text_used;
    pair_member members[2];
    unsigned leader;
    pid_t stopped;     /* see pair_resume() */
    unsigned returned; /* how often the same member led again, with a new process */
};

void pair_add_word(struct pair *pair, const char *format, ...) __attribute__((format(printf, 2, 3)));

void pair_clear(struct pair *pair); /* no processes yet */
/* One starts, and leads when it returns. False: it did not come to that. */
bool pair_open(struct pair *pair);
/* The one that does not lead begins to campaign. It takes a while until it really waits: the caller gives it that. */
bool pair_prepare(struct pair *pair);
/* Ends the leader's term and waits until somebody leads: how long that took. */
bool pair_hand_over(struct pair *pair, uint64_t patience_ms, double *ret_ms);
/* The same in two steps, for several pairs at once. */
bool pair_strike(struct pair *pair, uint64_t *ret_struck_ns);
bool pair_follow(struct pair *pair, uint64_t struck_ns, uint64_t patience_ms, double *ret_ms);
void pair_resume(struct pair *pair); /* SIGCONT to what was stopped */
void pair_close(struct pair *pair);
/* Lets the first of them do a job, which is a line, and hears what it did. */
bool pair_ask(struct pair *pair, const char *job, uint64_t patience_ms, char *answer, size_t size);

#endif
