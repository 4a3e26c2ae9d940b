/*
 * What the simulation of crontabs (cron_run.c) and its judge (cron_judge.c) share: hosts with clocks of their own, jobs
 * under leases, and what has become of every instant. Not for other parts of the simulator.
 */
#ifndef SIM_CRON_WORLD_H
#define SIM_CRON_WORLD_H

#include "core/cron_job.h"
#include "rules/lease_row.h"

#define HOSTS       4u
#define JOBS        8u
#define TICK_MS     1000
#define TTL_MS      30000
#define BELIEF_MS   26000 /* from the sending of the last renewal */
#define RENEW_MS    10000
#define START_MS    INT64_C(1790000000000)
#define HOURS       5
#define CALM_MS     (INT64_C(45) * 60 * 1000) /* at the end nothing fails: everything that is wanted runs */
#define SKEW_MS     600000
#define RUN_MAX_MS  90000
#define INSTANT_MAX 1024u

/* What has become of an instant. */
struct instant {
    int64_t at_ms;
    unsigned starts;
    bool lost;       /* it was claimed and could not start, and something happened that excuses this */
    bool overlapped; /* with overlap=skip: it came while another one ran */
    bool passed;     /* its policy did not want it any more when somebody could have run it */
};

struct job {
    const char *text;
    ten_cron_schedule schedule;
    ten_cron_policy policy;
    const ten_zone *zone;
    const int64_t
        *wanted; /* its instants, where the judge does not leave them to core/cron.h; ends with TEN_CRON_NEVER */
    ten_lease_row row;
    char checkpoint[TEN_CRON_MEMORY_SIZE];
    struct instant instants[INSTANT_MAX];
    size_t count;
    int64_t forced_ms;  /* when an operator last took its lease away: its holder may not know that yet */
    int64_t first_ms;   /* instants after this are the job's; 0: nobody has had it */
    int64_t settled_ms; /* what the store remembers: no instant up to this is run any more */
};

/* A job as a host sees it. */
struct view {
    ten_cron_job machine;
    ten_cron_log log;
    bool held;
    uint64_t token;
    int64_t deadline_ms;
    int64_t renewed_ms;
    bool uncertain;
    bool closing;
    bool writing;
    int64_t write_at_ms; /* when it reaches the store, or is sent again */
    char text[TEN_CRON_MEMORY_SIZE];
    int64_t withdrawn_ms; /* an instant whose claim is being taken back; 0: none */
    bool running;
    int64_t ends_ms;
    int64_t began_ms;
    /* The judge's: */
    int64_t claimed_ms;      /* the instant that the store has as claimed and that has not started; 0: none */
    int64_t claim_since_ms;  /* when that claim was decided */
    int64_t granted_wall_ms; /* when the lease was granted, by this host's clock */
    int64_t began_wall_ms;   /* when its run began, by this host's clock */
    int64_t before_ms;       /* what was settled before the claim */
    int64_t will_settle_ms;  /* what will be settled once the write that is under way is done */
    int64_t passed_ms;       /* this host has passed over what came up to here, as too late */
    int64_t able_ms;         /* when it last could have started something */
};

struct host {
    bool alive;
    unsigned life; /* a new instance with each */
    char id[32];
    int64_t skew_ms;
    int64_t paused_until_ms;
    struct view views[JOBS];
};

struct cron_world {
    uint64_t seed;
    uint64_t random;
    int64_t now_ms;
    int64_t down_until_ms;
    int64_t calm_ms; /* since when nothing fails; 0: not yet */
    bool verbose;
    bool failed;
    char failure[300];
    struct host hosts[HOSTS];
    struct job jobs[JOBS];
    ten_zone_transition change;
    ten_zone zone; /* its clock is changed once while the jobs run */
    uint64_t starts, crashes, takeovers, withdrawn, lost, clocks_set;
};

/* ---- cron_run.c */

int64_t cron_wall(const struct cron_world *world, const struct host *host);
void cron_note(const struct cron_world *world, const struct host *host, unsigned job, const char *what,
               int64_t instant_ms);

/* ---- cron_judge.c: it is told of everything that a host does and that the store accepts */

/* The host was asked what is due, and could have started it. */
void cron_judge_look(struct cron_world *world, struct host *host, unsigned job, enum ten_cron_step step);
/* The store has accepted what the host wrote. */
void cron_judge_wrote(struct cron_world *world, struct host *host, unsigned job);
void cron_judge_started(struct cron_world *world, struct host *host, unsigned job);
void cron_judge_ended(struct cron_world *world, struct host *host, unsigned job);
/* The host does not hold the job any more; crashed: because it died. */
void cron_judge_forgot(struct cron_world *world, struct host *host, unsigned job, bool crashed);
/* In calm times: nothing is stuck. */
void cron_judge_calm(struct cron_world *world, const struct host *host, unsigned job);
/* At the end: the history of the job tells what has happened. */
void cron_judge_log(struct cron_world *world, struct job *job);
void cron_judge_end(struct cron_world *world, struct job *job, int64_t until_ms);

#endif
