/*
 * One job of a crontab under its lease: which instant runs now, and what is remembered of it. Pure: it gets the time,
 * the grant with its checkpoint, and what has become of writes and commands; it says what to do next. The agent carries
 * it out (src/agent/runner/cron.c); the simulator runs whole fleets of it (tests/sim/cron_run.c).
 *
 * Each instant runs at most once in the fleet, because the checkpoint beside the lease remembers the last one, and is
 * written under the token *before* the command starts:
 *
 *      IDLE --due--> CLAIMING --written--> READY --started--> RUNNING --ended--> REPORTING --written--> IDLE
 *
 * A runner that dies between CLAIMING and its end leaves an instant that is not run again: its successor finds the
 * claim without a result, and reports it as lost. Hosts' clocks may differ: an instant that is not after the remembered
 * one is never run, whatever the clock says.
 */
#ifndef TEN_CORE_CRON_JOB_H
#define TEN_CORE_CRON_JOB_H

#include <tenure.h>

#include "core/cron.h"
#include "core/cron_log.h"

enum ten_cron_missed { TEN_CRON_LATEST, TEN_CRON_SKIP, TEN_CRON_ALL };
enum ten_cron_overlap { TEN_CRON_OVERLAP_SKIP, TEN_CRON_OVERLAP_WAIT };

typedef struct ten_cron_policy {
    enum ten_cron_missed missed;
    enum ten_cron_overlap overlap;
    uint64_t max_late_ms; /* later than that an instant is not run any more */
    uint64_t jitter_ms;   /* each instant is put off by less than this: by how much depends on it and on the job */
    uint64_t timeout_ms;  /* of the command; 0: none */
} ten_cron_policy;

#define TEN_CRON_ON_TIME_MS UINT64_C(60000) /* with missed=skip: what is later has been missed */
#define TEN_CRON_SOON_MS    UINT64_C(50)

/* What the checkpoint remembers. */
typedef struct ten_cron_memory {
    bool known;         /* there is one */
    bool open;          /* the instant was claimed, and how it has ended is not known */
    int64_t instant_ms; /* the last that was claimed, or up to which instants do not count */
    int64_t next_ms;    /* for people: the instant after that */
    int64_t ran_ms;     /* the last one that was claimed to run; 0: none was */
    int64_t started_ms; /* Unix time of the last run; 0: there was none */
    uint64_t duration_ms;
    int exit_code; /* of the last run that has ended; 128 + N: signal N */
    uint64_t runs;
    uint64_t skipped;                   /* instants that did not run, since the job is known */
    char holder[TENURE_HOLDER_MAX + 1]; /* who ran it last */
} ten_cron_memory;

/* As text, and back. A text that is not one of these is nothing: false. */
#define TEN_CRON_MEMORY_SIZE (TENURE_CHECKPOINT_MAX + 1u)
void ten_cron_memory_write(const ten_cron_memory *memory, char text[TEN_CRON_MEMORY_SIZE]);
bool ten_cron_memory_read(const char *text, ten_cron_memory *ret_memory);

enum ten_cron_state {
    TEN_CRON_AWAY, /* its lease is not held here */
    TEN_CRON_IDLE,
    TEN_CRON_CLAIMING,
    TEN_CRON_READY,
    TEN_CRON_RUNNING,
    TEN_CRON_REPORTING,
};

enum ten_cron_step {
    TEN_CRON_NOTHING,
    TEN_CRON_WRITE, /* ten_cron_job_text(), under job->token; then ten_cron_job_written() */
    TEN_CRON_START, /* the command, for job->instant_ms; then ten_cron_job_started(), or _ended() if it cannot */
};

typedef struct ten_cron_job {
    const char *name; /* these are the caller's, and outlive it */
    const ten_cron_schedule *schedule;
    const ten_zone *zone;
    ten_cron_policy policy;
    enum ten_cron_state state;
    uint64_t token;
    ten_cron_memory memory; /* as it is, or is being written */
    ten_cron_memory before; /* the claim that is under way: to be withdrawn if its command cannot start */
    const char *holder;     /* of the grant; the caller's, and outlives the job */
    ten_cron_log *log;      /* of its runs; the caller's, for as long as the job is held; NULL: none is kept */
    ten_cron_log_mark mark; /* of the log before the claim */
    int64_t instant_ms;     /* that is claimed, or runs */
    int64_t passed_ms;      /* instants up to this have been counted as missed */
    uint64_t missed;        /* result of the last look: how many instants were passed over */
    bool lost;              /* result of the last grant: a run whose end is not known; memory has it */
    bool unwritten;         /* the checkpoint does not say yet that it is lost: the next holder would report it again */
} ten_cron_job;

/* Other schedules or policies are set in the fields; what is under way goes on. */
void ten_cron_job_granted(ten_cron_job *job, uint64_t token, const char *checkpoint, const char *holder,
                          int64_t now_ms);
void ten_cron_job_lost(ten_cron_job *job);
/* What to do now; may_start: the lease is confirmed, and its deadline is far enough. */
enum ten_cron_step ten_cron_job_look(ten_cron_job *job, int64_t now_ms, bool may_start);
/* When to look again if nothing happens before. */
int64_t ten_cron_job_next_ms(const ten_cron_job *job, int64_t now_ms);
void ten_cron_job_text(const ten_cron_job *job, char text[TEN_CRON_MEMORY_SIZE]);
/* The store has answered: 0, or why nothing was written. */
void ten_cron_job_written(ten_cron_job *job, int error);
/* The lease is about to be released, and the command of the claim has not started: the claim is taken back, so that the
 * next holder runs the instant. False: there is nothing to take back. */
bool ten_cron_job_withdraw(ten_cron_job *job);
void ten_cron_job_started(ten_cron_job *job, int64_t now_ms);
/* end: EXITED, KILLED, TIMED_OUT or NOT_STARTED; code: the exit status or the signal. */
void ten_cron_job_ended(ten_cron_job *job, enum ten_cron_end end, int code, uint64_t duration_ms, int64_t now_ms);

/* For people: the next instant, as far as is known. */
int64_t ten_cron_job_coming_ms(const ten_cron_job *job, int64_t now_ms);

#endif
