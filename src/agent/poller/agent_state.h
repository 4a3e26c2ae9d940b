/*
 * The insides of an agent, shared by agent.c (start and end), agent_loop.c, agent_events.c (what the context's thread tells),
 * agent_targets.c, source.c (where targets come from), poll.c (a poll), poll_exec.c and poll_http.c (its two kinds).
 */
#ifndef TEN_AGENT_AGENT_STATE_H
#define TEN_AGENT_AGENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/common/exporter.h"
#include "agent/common/health.h"
#include "agent/common/renewals.h"
#include "agent/cron/job_gauges.h"
#include "agent/cron/zones.h"
#include "agent/poller/agent.h"
#include "agent/sinks/sink.h"
#include "agent/sources/source_feed.h"
#include "agent/sources/target_file.h"
#include "agent/warden/child.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/timers.h"
#include "core/work.h"

#define TEN_OUTPUT_MAX ((size_t)1024 * 1024)

struct ten_agent;

/* A target as the agent sees it. */
struct ten_agent_target {
    char *id;
    char *url;
    char *exec;
    char *spec;
    uint64_t every_ms; /* 0: the agent's */
    bool paused;
    bool removed;              /* freed when its poll is over */
    uint32_t number;           /* in the agent's arrays and timers */
    tenure_handle handle;      /* without a belief: the fleet member never knew the target */
    uint64_t due_ms;           /* the next poll, without its jitter */
    unsigned failures;         /* in a row */
    struct ten_poll *poll;     /* under way, or NULL */
    struct ten_poll *sending;  /* those that are over, but their messages have not left yet; NULL: none */
    bool busy;                 /* the fleet member knows that there are polls */
    uint64_t renewed;          /* the token whose first renewal the log has */
    uint64_t writing;          /* the token under which its checkpoint is being written; 0: it is not */
    bool waits;                /* a poll was due meanwhile */
    struct ten_agent_job *job; /* of a crontab; NULL: it is a target */
};

struct ten_poll {
    struct ten_agent_target *target;
    ten_work work;
    struct ten_poll *next; /* of the target's that are sending */
    ten_receipt *receipt;  /* of its message, once it is published; NULL: there is none to wait for */
    uint64_t mark;         /* of its command, see tree.h */
    uint64_t start_ms;
    uint64_t start_wall_ms;
    uint64_t duration_ms;
    char error[160]; /* "": it went well so far */
    int exit_code;   /* of a command; 128 + N: it was killed by signal N */
    int signal;      /* that one; 0: it was not */
    ten_buf output;
    bool by_command;
    /* exec */
    ten_child child; /* without a pid: not a process */
    int out_fd;
    void *easy; /* of poll_http.c: a request is under way */
};

/* What the context's thread leaves for the loop. */
struct ten_agent_event {
    tenure_event event;
    bool checkpoint;                 /* a checkpoint was written, or could not be: target, token, error */
    struct ten_agent_target *target; /* a change of the registry instead of an event; owned here */
    struct ten_agent_event *next;
    char message[]; /* of the event */
};

struct ten_agent {
    const ten_agent_config *config;
    ten_work_rules work_rules;
    ten_shared *shared;
    tenure_context *context;
    tenure_member *member;
    const char *instance;
    const char *namespace_name;
    ten_log *log;
    ten_renewals renewals; /* for it */
    ten_health health;
    ten_sink **sinks;
    ten_receipts *receipts;
    const ten_source_ops *source_ops; /* where the targets come from; NULL: the store */
    void *source;
    ten_source_feed *feed; /* its thread's; NULL: there is none */
    int source_fd;         /* of the source; -1: none */
    bool source_hangs;     /* that was told */
    ten_map by_id;
    struct ten_agent_target **targets; /* by number; NULL: free */
    uint32_t target_room;
    uint32_t first_free; /* no number below it is free */
    ten_timers polls;    /* when a target is to be polled */
    ten_timers checks;   /* when a poll under way is to be looked at */
    uint64_t poll_count;
    size_t running;  /* polls, with those whose messages have not left yet */
    size_t withheld; /* of them; as of the last look at each */
    ten_children children;
    void *multi; /* of poll_http.c */
    int epoll_fd;
    int signal_fd;
    int event_fd;
    pthread_mutex_t event_lock;
    struct ten_agent_event *first_event;
    struct ten_agent_event **last_event;
    atomic_bool events_lost;  /* there was no memory for one: the targets have to be looked at */
    atomic_bool targets_lost; /* the same of a change of the registry: it has to be listed again */
    uint64_t lost_look_ms;    /* not before this */
    bool renewed;             /* an event has told of renewals without naming them */
    unsigned stop_signals;
    uint64_t leave_ms; /* when it ends although not everything could be released; 0: work is under way */
    uint64_t stop_ms;  /* polls that are still running then are ended; 0: not stopping */
    atomic_bool stopped;
    atomic_int refused;
    ten_error refusal; /* the store's own words about that; "": none */
    bool source_read;  /* all targets of a source that is not the store have been read once */
    ten_measures measures;
    ten_exporter *exporter; /* NULL: nobody asks */
    uint64_t dropped;       /* messages that no sink took */
    uint64_t sinks_look_ms; /* when they are to be asked for events */
    ten_zones zones;        /* of a crontab */
    ten_jobs_gauges job_gauges;
    _Atomic(int64_t) store_ahead_ms; /* the store's clock, of this host's */
    uint64_t clock_told_ms;          /* that it differs from the store's; not again before this */
};

/* agent_loop.c */
/* Returns after a signal to stop, or when the store refuses this instance. */
void ten_agent_loop(struct ten_agent *agent);
void ten_agent_report_sink(struct ten_agent *agent, const char *name, const ten_sink_event *event);

/* agent_events.c: the first four are callbacks of the fleet member, on the context's thread */
void ten_agent_on_event(const tenure_event *event, void *userdata);
void ten_agent_on_checkpoint(const char *target, uint64_t token, int error, void *userdata);
void ten_agent_on_store_clock(uint64_t store_ms, void *userdata);
void ten_agent_on_target(const tenure_target *target, bool removed, void *userdata);
void ten_agent_take_events(struct ten_agent *agent);
void ten_agent_make_up_for_lost(struct ten_agent *agent);

/* agent_targets.c */
/* NULL: no memory. */
struct ten_agent_target *ten_agent_copy_target(const tenure_target *target);
void ten_agent_free_target(struct ten_agent_target *target);
void ten_agent_take_target(struct ten_agent *agent, struct ten_agent_target *event);
void ten_agent_take_handle(struct ten_agent *agent, struct ten_agent_target *target);
bool ten_agent_is_held(const struct ten_agent_target *target);
void ten_agent_schedule_now(struct ten_agent *agent, struct ten_agent_target *target);
/* Its time has come: polls it if it is held, and says when it is due next. */
void ten_agent_poll_due(struct ten_agent *agent, struct ten_agent_target *target, uint64_t now_ms);
void ten_agent_note_turn(struct ten_agent *agent);
/* A source has a target, which is new or as it is now; or no longer has it. */
void ten_agent_put_target(struct ten_agent *agent, const tenure_target *target);
void ten_agent_remove_target(struct ten_agent *agent, struct ten_agent_target *target);
/* The target is no longer there; it is freed now, or when its poll is over. */
void ten_agent_drop_target(struct ten_agent *agent, struct ten_agent_target *target);

/* source.c */
int ten_source_check(const ten_agent_config *config, ten_error *error);
/* Puts no targets yet. */
int ten_source_open(struct ten_agent *agent, ten_error *error);
/* Its descriptor is readable. */
void ten_source_take(struct ten_agent *agent);
/* Reads a file again, changed or not. */
void ten_source_reread(struct ten_agent *agent);
/* Reports a reading that hangs. Now and then. */
void ten_source_look(struct ten_agent *agent);
void ten_source_close(struct ten_agent *agent);

/* poll.c */
/* Messages did not get to a sink. */
void ten_agent_count_dropped(struct ten_agent *agent, const char *sink, uint64_t count);
/* Starts a poll if the target may be polled now. */
void ten_poll_start(struct ten_agent *agent, struct ten_agent_target *target);
/* Something has happened to a poll. It may be over, and freed; so may be its target, if it is removed. */
void ten_poll_look(struct ten_agent *agent, struct ten_poll *poll);
/* The same for all polls of a target: something has happened to its lease, or a check is due. */
void ten_poll_look_at_all(struct ten_agent *agent, struct ten_agent_target *target);
/* The agent stops: messages have a moment to leave; `hurry`: none. */
void ten_poll_flush(struct ten_agent *agent, struct ten_agent_target *target, bool hurry);
/* The messages that have not left yet never will; their polls are freed. */
void ten_poll_withdraw(struct ten_agent *agent, struct ten_agent_target *target);
/* Its checkpoint was written under that token, or could not be: the next poll may start, or the target be released. */
void ten_poll_checkpoint_done(struct ten_agent *agent, struct ten_agent_target *target, uint64_t token, int error);
/* If it runs, it is to end, whatever its lease says; at the next look. */
void ten_poll_end(struct ten_agent *agent, struct ten_poll *poll, const char *why);
void ten_poll_fail(struct ten_poll *poll, const char *format, ...) TEN_PRINTF(2, 3);

/* poll_exec.c */
bool ten_exec_start(struct ten_agent *agent, struct ten_poll *poll, const char *command);
/* Output has come, or the end of it. */
void ten_exec_read(struct ten_agent *agent, struct ten_poll *poll);
/* Children have died. */
void ten_exec_reap(struct ten_agent *agent);
void ten_exec_free(struct ten_agent *agent, struct ten_poll *poll);

/* poll_http.c, or poll_no_http.c in a build without it */
int ten_poll_http_open(struct ten_agent *agent, ten_error *error);
void ten_poll_http_close(struct ten_agent *agent);
bool ten_poll_http_start(struct ten_agent *agent, struct ten_poll *poll, const char *url);
void ten_poll_http_cancel(struct ten_agent *agent, struct ten_poll *poll);
/* Waits until something has happened on a request or on the loop's descriptor. */
void ten_poll_http_wait(struct ten_agent *agent, int timeout_ms);
void ten_poll_http_work(struct ten_agent *agent);

#endif
