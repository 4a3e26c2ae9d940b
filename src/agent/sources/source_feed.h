/*
 * What the passes of a target source have shown: the differences, the entries that cannot be used, and whether the
 * source can be read. Called by the source's thread; each event is passed on at once, in that thread. Which targets
 * count as gone: see target_list.h.
 */
#ifndef TEN_AGENT_SOURCE_FEED_H
#define TEN_AGENT_SOURCE_FEED_H

#include <stdatomic.h>

#include "agent/common/zones.h"
#include "agent/sources/target_file.h"
#include "agent/sources/target_list.h"

enum ten_source_event_kind {
    TEN_SOURCE_PUT,      /* new or changed: target */
    TEN_SOURCE_GONE,     /* only the target's id */
    TEN_SOURCE_BAD,      /* cannot be used, reported once: entry and problem; count: the line in its file, or 0 */
    TEN_SOURCE_MORE_BAD, /* count more of them: problem */
    TEN_SOURCE_READ,     /* everything has been read for the first time */
    TEN_SOURCE_FAILED,   /* problem; reported when it begins */
    TEN_SOURCE_OK        /* it can be read again: count of targets */
};

typedef struct ten_source_event {
    enum ten_source_event_kind kind;
    const tenure_target *target;
    const char *entry;
    const char *problem;
    uint64_t count;
} ten_source_event;

/* False: there was no memory for it, and it is reported again with the next pass. */
typedef bool (*ten_source_event_fn)(const ten_source_event *event, void *userdata);

typedef struct ten_source_feed {
    ten_target_list list;
    ten_source_event_fn on_event;
    void *userdata;
    int problem;        /* the one that was reported; 0: none */
    bool read_once;     /* TEN_SOURCE_READ was reported */
    unsigned bad_count; /* reported in this pass */
    uint64_t bad_more;
    unsigned line;                      /* of the file that is being read; 0: it is not a file */
    _Atomic(uint64_t) reading_since_ms; /* a reading that nothing bounds has begun; 0: none is under way */
} ten_source_feed;

void ten_source_feed_init(ten_source_feed *feed, uint64_t ttl_ms, ten_source_event_fn on_event, void *userdata);
void ten_source_feed_free(ten_source_feed *feed);

/* ---- a pass */

void ten_source_feed_begin(ten_source_feed *feed);
/* A line as in a file. An error: out of memory. */
int ten_source_feed_line(ten_source_feed *feed, const char *line, size_t size, ten_error *error);
/* A line of a crontab: its name is the target, the line its spec. */
int ten_source_feed_job(ten_source_feed *feed, ten_zones *zones, const char *line, size_t size, ten_error *error);
/* The JSON object that a program keeps of a session, and its id; both prefix and id are shown if it cannot be used. */
int ten_source_feed_session(ten_source_feed *feed, const char *prefix, const char *id, const char *text, size_t size,
                            ten_error *error);
/* An entry cannot be used. It is shown with the prefix, and what is not to be printed made harmless. It is reported
 * once for each `reason`; 0: what the problem says. */
void ten_source_feed_refuse(ten_source_feed *feed, const char *prefix, const char *entry, size_t size, uint64_t reason,
                            const char *problem);
/* It was refused for this reason in the last pass, and is so still: true, and there is no need to look closer. */
bool ten_source_feed_is_refused(ten_source_feed *feed, const char *prefix, const char *entry, size_t size,
                                uint64_t reason);
/* The pass is over. `complete`: it has shown everything there is, so what it has not shown may be gone. */
void ten_source_feed_end(ten_source_feed *feed, bool complete, uint64_t now_ms);

/* Whether it can be read: reported when that changes. */
void ten_source_feed_state(ten_source_feed *feed, int r, const ten_error *error);

/* A reading that may hang begins, and has ended. */
void ten_source_feed_reading_begins(ten_source_feed *feed);
void ten_source_feed_reading_ends(ten_source_feed *feed);
/* Whether one takes longer than the shorter of the TTL and five seconds. May be called by any thread. */
bool ten_source_feed_hangs(ten_source_feed *feed);

#endif
