/*
 * Target sources other than the store's registry: a thread reads a file or a server in passes, and reports the
 * differences to the agent, so that neither a slow server nor a file system that hangs holds up the loop. source.c has
 * what all kinds share; each kind, a file of its own, has one pass. What was read before stands while a source cannot
 * be read.
 */
#ifndef TEN_AGENT_SOURCE_H
#define TEN_AGENT_SOURCE_H

#include "agent/common/side_thread.h"
#include "agent/runner/agent.h"
#include "agent/sources/source_feed.h"

struct ten_agent;
typedef struct ten_source ten_source;

/* One kind of source. */
typedef struct ten_source_ops {
    size_t size; /* of its struct, which begins with a ten_source */
    /* Reads its settings from config->targets. Neither a file nor a server is asked yet. */
    int (*open)(ten_source *source, const ten_agent_config *config, ten_error *error);
    /* What open() and the passes have made, whatever came of it. */
    void (*free)(ten_source *source);
    /* In its thread: one pass. */
    int (*read)(ten_source *source, ten_error *error);
    /* In its thread, after a pass that failed: ends the connection. NULL: there is none. */
    void (*disconnect)(ten_source *source);
} ten_source_ops;

struct ten_source {
    ten_side_thread thread;
    const ten_source_ops *ops;
    ten_source_feed feed;
    uint64_t every_ms; /* between two passes, the thread's; or a pass is made */
    int watch_fd;      /* when this is readable; -1: at that interval. Only then reread means something */
    int first_fd;      /* the first pass is over */
    int first;         /* what it came to; under the thread's lock, as the next three */
    ten_error first_error;
    bool is_awaited;
    struct ten_agent *agent; /* NULL: the source is closed */
    ten_log *log;
    char *text; /* of the option, for the log */
};

/* `file:PATH`: a line is a target (target_file.h). It is read when it changes. A file that cannot be read is an
 * error at the start, and only then. The same is `crontab:PATH` of `tenure cron`, whose lines are jobs. */
extern const ten_source_ops ten_target_path_ops;

/* `redis-keys:PREFIX`: each key that starts with PREFIX is a target, its id is the rest of the key, and its value a
 * JSON object (see ten_target_file_session_parse()). `redis-set:KEY`: each member of the set is an id, or a JSON
 * object as a line of `file:`; with `redis-set:KEY,PREFIX` each member is an id whose JSON object is the value of
 * the key PREFIX + id. Members cost the same however many other keys there are; finding keys costs a walk over all
 * of them. */
extern const ten_source_ops ten_target_redis_ops;

/* http://HOST[:PORT]/PATH, and https:// (TLS, always verified): a GET answers with a JSON array of objects, each a
 * target: `id` (or `scene_id`), `url`, `exec`, `every`, `paused`, `spec` as in a line of `file:`; other members,
 * such as the holder, are left alone. A list in pages names the next one by `Link: <...>; rel="next"`. This is what
 * GET /api/v1/{namespace} of a Tenure server answers. A list that could not be read to its end removes nothing.
 *
 * Options of the URL that are ours, and not sent: `every` (between two readings, 10s by default), `timeout`,
 * `token_file` (a bearer token), `ca_file`, `cert_file`, `key_file`. Everything else in the query goes to the
 * server; `limit` is 1000 by default. */
extern const ten_source_ops ten_target_http_ops;

/* What can be said before anything is started. */
int ten_source_check(const ten_agent_config *config, ten_error *error);
/* Starts reading config->targets; *ret_source is NULL if that is the store. A server that is not there is not an
 * error. */
int ten_source_open(const ten_agent_config *config, ten_log *log, struct ten_agent *agent, ten_source **ret_source,
                    ten_error *error);
/* These do nothing without a source. Reads a file again, soon, changed or not. */
void ten_source_reread(ten_source *source);
/* Whether a reading hangs. */
bool ten_source_hangs(ten_source *source);
/* Nothing is reported after this. */
void ten_source_close(ten_source *source);

#endif
