/*
 * What a target source with a thread of its own tells the agent's loop: the differences that its passes have shown, the
 * entries that cannot be used, and whether it can be read. The thread calls most of it; the loop takes the events out.
 * Which targets count as gone: see target_list.h.
 */
#ifndef TEN_AGENT_SOURCE_FEED_H
#define TEN_AGENT_SOURCE_FEED_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/cron/zones.h"
#include "agent/poller/agent.h"
#include "agent/sources/target_file.h"
#include "agent/sources/target_list.h"

enum ten_source_event_kind {
    TEN_SOURCE_PUT,      /* new or changed: target */
    TEN_SOURCE_GONE,     /* target.id */
    TEN_SOURCE_BAD,      /* cannot be used, told once: entry and problem; count: the line in its file, or 0 */
    TEN_SOURCE_MORE_BAD, /* count more of them */
    TEN_SOURCE_READ,     /* everything has been read for the first time */
    TEN_SOURCE_FAILED,   /* problem; told when it begins */
    TEN_SOURCE_OK        /* it can be read again: count of targets */
};

typedef struct ten_source_event {
    enum ten_source_event_kind kind;
    tenure_target target;
    ten_target_line *storage; /* of the target's texts; NULL: only the id, in entry */
    char *entry;
    char *problem;
    uint64_t count;
    struct ten_source_event *next;
} ten_source_event;

typedef void (*ten_source_event_fn)(const ten_source_event *event, void *userdata);

typedef struct ten_source_feed {
    ten_target_list list; /* this and what follows is the thread's */
    int problem;          /* the one that was told; 0: none */
    bool read_once;       /* TEN_SOURCE_READ was told */
    unsigned bad_told;    /* in this pass */
    uint64_t bad_untold;
    unsigned line;                      /* of the file that is being read; 0: it is not a file */
    _Atomic(uint64_t) reading_since_ms; /* a reading that nothing bounds has begun; 0: none is under way */
    int fd;                             /* readable when there are events */
    pthread_mutex_t lock;
    ten_source_event *first; /* these under the lock */
    ten_source_event **last;
} ten_source_feed;

/* One kind of source. `self` is what its open() has made; its feed is valid until close(). */
typedef struct ten_source_ops {
    /* What can be said without asking a server. */
    int (*check)(const ten_agent_config *config, ten_error *error);
    /* Starts reading config->targets. A server that is not there is not an error. */
    int (*open)(const ten_agent_config *config, void **ret_self, ten_source_feed **ret_feed, ten_error *error);
    void (*close)(void *self);
    void (*reread)(void *self); /* soon, changed or not; NULL: it is read again and again */
} ten_source_ops;

/* A reading that takes longer than this is reported: the shorter of the TTL and five seconds. */
uint64_t ten_source_feed_patience_ms(uint64_t ttl_ms);

void ten_source_feed_init(ten_source_feed *feed, uint64_t ttl_ms);
/* Before anything is told. `what` is for the message. */
int ten_source_feed_open(ten_source_feed *feed, const char *what, ten_error *error);
void ten_source_feed_free(ten_source_feed *feed);

/* For the loop: hands out what there is, up to `limit`; the rest makes the descriptor readable again. */
void ten_source_feed_take(ten_source_feed *feed, size_t limit, ten_source_event_fn each, void *userdata);

/* ---- a pass, for the thread */

void ten_source_feed_begin(ten_source_feed *feed);
/* A line as in a file. An error: out of memory. */
int ten_source_feed_line(ten_source_feed *feed, const char *line, size_t size, ten_error *error);
/* A line of a crontab: its name is the target, the line its spec. */
int ten_source_feed_job(ten_source_feed *feed, ten_zones *zones, const char *line, size_t size, ten_error *error);
/* The JSON object that a program keeps of a session, and its id; both prefix and id are shown if it cannot be used. */
int ten_source_feed_session(ten_source_feed *feed, const char *prefix, const char *id, const char *text, size_t size,
                            ten_error *error);
/* An entry cannot be used. It is shown with the prefix, and what is not to be printed made harmless. It is told once
 * for each `reason`; 0: what the problem says. */
void ten_source_feed_refuse(ten_source_feed *feed, const char *prefix, const char *entry, size_t size, uint64_t reason,
                            const char *problem);
/* It was refused for this reason in the last pass, and is so still: true, and there is no need to look closer. */
bool ten_source_feed_is_refused(ten_source_feed *feed, const char *prefix, const char *entry, size_t size,
                                uint64_t reason);
/* The pass is over. `complete`: it has shown everything there is, so what it has not shown may be gone. */
void ten_source_feed_end(ten_source_feed *feed, bool complete, uint64_t now_ms);

/* Whether it can be read: told when that changes. */
void ten_source_feed_state(ten_source_feed *feed, int r, const ten_error *error);

/* A reading that may hang begins, and has ended: the loop looks how long it takes. */
void ten_source_feed_reading_begins(ten_source_feed *feed);
void ten_source_feed_reading_ends(ten_source_feed *feed);

#endif
