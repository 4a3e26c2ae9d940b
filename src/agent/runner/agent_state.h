/*
 * The insides of an instance of a fleet: targets, the runs of their work, and the policy that says when work starts and
 * what its result means. Shared by agent.c (start, turn, end), agent_events.c (what the context's thread leaves),
 * agent_targets.c, run.c (a run), run_command.c and run_http.c (its two kinds), and the policies poll.c and cron.c.
 */
#ifndef TEN_AGENT_AGENT_STATE_H
#define TEN_AGENT_AGENT_STATE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "agent/common/zones.h"
#include "agent/runner/agent.h"
#include "agent/runner/cron_gauges.h"
#include "agent/runner/runner.h"
#include "agent/sinks/sink.h"
#include "agent/sources/source.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/timers.h"
#include "core/work.h"

#define TEN_OUTPUT_MAX ((size_t)1024 * 1024)

struct ten_agent;
struct ten_agent_target;
struct ten_target_run;
struct ten_agent_spec;

/* What decides about the work on a target. run.c carries it out under the lease. */
typedef struct ten_policy {
    enum ten_exports exports;
    bool keeps_output; /* all of it; else what a command wrote last */
    /* The target has become known, or its specification is another one; `before` is the old one or NULL. */
    void (*specified)(struct ten_agent *agent, struct ten_agent_target *target, const struct ten_agent_spec *before);
    /* It is held. A lease is reported by its grant, or when the target becomes known later. */
    void (*granted)(struct ten_agent *agent, struct ten_agent_target *target);
    /* The lease of that token has ended. NULL: no matter. */
    void (*ended)(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token);
    /* The time that was set for it has come. */
    void (*due)(struct ten_agent *agent, struct ten_agent_target *target, uint64_t now_ms);
    /* The agent stops: nothing starts any more. NULL: no matter. */
    void (*stops)(struct ten_agent *agent, struct ten_agent_target *target);
    /* Whether the target may not be released yet, although no work is under way. NULL: it always may. */
    bool (*is_pending)(const struct ten_agent_target *target);
    /* How long a run may take; UINT64_MAX: without limit. */
    uint64_t (*timeout_ms)(const struct ten_agent *agent, const struct ten_agent_target *target);
    /* Starts the process or the request. If it cannot, the run has an error. */
    void (*start)(struct ten_agent *agent, struct ten_target_run *run);
    /* The run is over, and its lease is confirmed. */
    void (*publish)(struct ten_agent *agent, struct ten_target_run *run);
    /* The run is over, and its result does not count: `why`. */
    void (*discard)(struct ten_agent *agent, const struct ten_target_run *run, const char *why);
    /* The checkpoint was written under that token, or not, for this error. */
    void (*written)(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token, int error);
    /* In each turn of the loop. NULL: nothing. */
    void (*turn)(struct ten_agent *agent);
    /* What it keeps of a target. NULL: nothing. */
    void (*forget)(struct ten_agent *agent, struct ten_agent_target *target);
} ten_policy;

extern const ten_policy ten_policy_poll;
extern const ten_policy ten_policy_cron;

/* What is registered for a target. */
struct ten_agent_spec {
    const char *id; /* these four in `texts`; NULL: there is none */
    const char *url;
    const char *exec;
    const char *spec;
    uint64_t every_ms; /* 0: the agent's */
    bool paused;
    bool removed; /* it is not registered any more; only the id counts */
    char texts[];
};

/* A target as the agent sees it. */
struct ten_agent_target {
    const char *id; /* the map's */
    struct ten_agent_spec *spec;
    bool removed;                   /* freed when its work is over */
    uint32_t number;                /* in the agent's arrays and timers */
    tenure_handle handle;           /* without a belief: the fleet member never knew the target */
    uint64_t due_ms;                /* the next poll, without its jitter; 0: it is not known to be held */
    unsigned failures;              /* in a row */
    struct ten_target_run *run;     /* under way, or NULL */
    struct ten_target_run *sending; /* those that are over, but their messages have not left yet; NULL: none */
    bool busy;                      /* the fleet member knows that there is work */
    uint64_t renewed;               /* the token whose first renewal the log has */
    uint64_t writing;               /* the token under which its checkpoint is being written; 0: it is not */
    bool waits;                     /* a run was due meanwhile */
    struct ten_agent_job *job;      /* of cron.c; NULL: there is none */
};

/* A run of the work on a target. */
struct ten_target_run {
    struct ten_agent *agent;
    struct ten_agent_target *target;
    ten_work work;
    struct ten_target_run *next; /* of the target's that are sending */
    ten_receipt *receipt;        /* of its message, once it is published; NULL: there is none to wait for */
    uint64_t start_ms;
    uint64_t start_wall_ms;
    uint64_t duration_ms;
    char error[160]; /* "": it went well so far */
    int exit_code;   /* of a command; 128 + N: it was killed by signal N */
    int signal;      /* that one; 0: it was not */
    ten_buf output;
    bool by_command;
    ten_child child;     /* without a pid: not a process */
    ten_watched watched; /* its output */
    void *easy;          /* of run_http.c: a request is under way */
};

enum ten_agent_event_kind {
    TEN_AGENT_LEASE,      /* it is a ten_agent_lease_event */
    TEN_AGENT_CHECKPOINT, /* that of target was written under token, or could not be, for error */
    TEN_AGENT_TARGET,     /* the registry or the source has a target, or no longer has it: spec */
    TEN_AGENT_ALL_READ,   /* all targets of a source have been read once */
};

/* What other threads leave for the loop. There can be as many as targets. */
struct ten_agent_event {
    STAILQ_ENTRY(ten_agent_event) link;
    enum ten_agent_event_kind kind;
    int error;
    uint64_t token;
    struct ten_agent_spec *spec;
    char target[TENURE_TARGET_MAX + 1];
};

struct ten_agent_lease_event {
    struct ten_agent_event head;
    tenure_event event;
    char message[]; /* of the event */
};

struct ten_agent {
    ten_runner runner;
    const ten_agent_config *config;
    const ten_policy *policy;
    ten_work_rules work_rules;
    tenure_member *member;
    const char *namespace_name;
    ten_sink **sinks;
    ten_receipts *receipts;
    ten_watched receipts_watched;
    ten_source *source; /* NULL: the targets come from the store */
    bool source_hangs;  /* that was logged */
    bool source_read;   /* all its targets have been read once */
    ten_map by_id;
    struct ten_agent_target **targets; /* by number; NULL: free */
    uint32_t target_room;
    uint32_t first_free; /* no number below it is free */
    ten_timers starts;   /* when the policy is to look at a target */
    ten_timers checks;   /* when to look at a run under way */
    uint64_t run_count;
    size_t running;                      /* runs, with those whose messages have not left yet */
    size_t withheld;                     /* of them; as of the last look at each */
    void *multi;                         /* of run_http.c */
    STAILQ_HEAD(, ten_agent_event) left; /* by other threads, under the runner's lock */
    atomic_bool events_lost;             /* there was no memory for one: the targets have to be looked at */
    atomic_bool targets_lost;            /* the same of a registration: they have to be listed again */
    uint64_t lost_look_ms;               /* not before this */
    bool renewed;                        /* an event has reported renewals without naming them */
    unsigned stop_signals;
    uint64_t leave_ms; /* when it ends although not everything could be released; 0: work is under way */
    uint64_t stop_ms;  /* work that is still running then is ended; 0: not stopping */
    atomic_bool stopped;
    atomic_int refused;
    ten_error refusal;      /* the store's own words about that; "": none */
    ten_exporter *exporter; /* NULL: no metrics are served */
    uint64_t dropped;       /* messages that no sink took */
    uint64_t sinks_look_ms; /* when they are to be asked for events */
    ten_zones zones;        /* of a crontab */
    ten_jobs_gauges job_gauges;
    _Atomic(int64_t) store_ahead_ms; /* the store's clock, of this host's */
    uint64_t clock_log_ms;           /* that it differs from the store's is not logged again before this */
};

/* agent_events.c: the first four are called in other threads */
void ten_agent_on_event(const tenure_event *event, void *userdata);
void ten_agent_on_checkpoint(const char *target, uint64_t token, int error, void *userdata);
void ten_agent_on_store_clock(uint64_t store_ms, void *userdata);
void ten_agent_on_target(const tenure_target *target, bool removed, void *userdata);
/* The same from a source. False: out of memory, it has to be reported again. NULL: all have been read once. */
bool ten_agent_leave_target(struct ten_agent *agent, const tenure_target *target, bool removed);
/* Up to a bound, the rest in the next turn; or `all`, when the agent closes. */
void ten_agent_take_events(struct ten_agent *agent, bool all);
void ten_agent_make_up_for_lost(struct ten_agent *agent);

/* agent_targets.c */
void ten_agent_free_target(struct ten_agent *agent, struct ten_agent_target *target);
/* Takes over a registration, of the store or of a source. */
void ten_agent_take_spec(struct ten_agent *agent, struct ten_agent_spec *spec);
void ten_agent_take_handle(struct ten_agent *agent, struct ten_agent_target *target);
bool ten_agent_is_held(const struct ten_agent_target *target);
/* The target is no longer there; it is freed now, or when its work is over. */
void ten_agent_drop_target(struct ten_agent *agent, struct ten_agent_target *target);

/* run.c */
/* Starts a run if the target may be worked on now. */
void ten_run_start(struct ten_agent *agent, struct ten_agent_target *target);
/* Something has happened to a run. It may be over, and freed; so may be its target, if it is removed. */
void ten_run_look(struct ten_agent *agent, struct ten_target_run *run);
/* The same for all runs of a target: something has happened to its lease, or a check is due. */
void ten_run_look_at_all(struct ten_agent *agent, struct ten_agent_target *target);
/* Something may have ended that kept the target from being released. */
void ten_run_settle(struct ten_agent *agent, struct ten_agent_target *target);
/* Makes the fleet member keep the target until ten_run_settle() finds nothing that keeps it. */
bool ten_run_keep_target(struct ten_agent *agent, struct ten_agent_target *target);
/* The agent stops: messages have a moment to leave; `hurry`: none. */
void ten_run_flush(struct ten_agent *agent, struct ten_agent_target *target, bool hurry);
/* The messages that have not left yet never will; their runs are freed. */
void ten_run_withdraw(struct ten_agent *agent, struct ten_agent_target *target);
/* If it runs, it is to end, whatever its lease says; at the next look. */
void ten_run_end(struct ten_agent *agent, struct ten_target_run *run, const char *why);
void ten_run_fail(struct ten_target_run *run, const char *format, ...) TEN_PRINTF(2, 3);

/* poll.c */
/* Messages did not get to a sink. */
void ten_agent_count_dropped(struct ten_agent *agent, const char *sink, uint64_t count);

/* run_command.c */
/* Runs it by /bin/sh -c with these variables, and those that every command has. A last one without a value is left
 * out. */
void ten_run_command_start(struct ten_agent *agent, struct ten_target_run *run, const char *text,
                           const char *const (*variables)[2], size_t count);
/* A child has died. */
void ten_run_command_reap(ten_runner *runner);
void ten_run_command_free(struct ten_agent *agent, struct ten_target_run *run);

/* run_http.c, or run_no_http.c in a build without it */
int ten_run_http_open(struct ten_agent *agent, ten_error *error);
void ten_run_http_close(struct ten_agent *agent);
void ten_run_http_start(struct ten_agent *agent, struct ten_target_run *run, const char *url);
void ten_run_http_cancel(struct ten_agent *agent, struct ten_target_run *run);
/* Waits until something has happened on a request or on the loop's descriptor. */
void ten_run_http_wait(ten_runner *runner, int timeout_ms);
void ten_run_http_work(struct ten_agent *agent);

#endif
