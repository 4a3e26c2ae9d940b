/*
 * Targets from a Redis: passes of SCAN or SSCAN, values by MGET. Called by source.c.
 *
 * SCAN walks all keys of the database, so there is a budget: 1,000 keys a step, ten steps a second, less when the
 * server is slow, and one pass in two seconds (in one, when a step is enough). A step's new and changed targets are
 * reported at once. SCAN shows what was there from the beginning of the pass to its end; a pass in which something
 * failed or the connection was lost is begun anew and removes nothing. A server that is another run than before, or
 * that was flushed since, has the list in doubt (target_list.h).
 */
#include "agent/sources/source.h"

#include <string.h>

#include "agent/common/redis_client.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"

#define STEP_COUNT      "1000"
#define STEP_MS         100u
#define STEP_REST       20u /* a step that took a while is followed by a rest of so many times that */
#define STEP_MAX_MS     5000u
#define SHORT_PASS_MS   1000u
#define PASS_MS         2000u
#define BATCH           100u /* values of one MGET */
#define REASON_ABSENT   UINT64_C(1)
#define FLUSHES_UNKNOWN UINT64_MAX

typedef struct target_redis {
    ten_source source;
    ten_redis_client redis;
    char *set;                              /* NULL: all keys */
    char *prefix;                           /* NULL: the members are all there is */
    char *pattern;                          /* of SCAN */
    char run_id[48];                        /* of the server that was read last */
    uint64_t flushes;                       /* that it had had then */
    char ids[BATCH][TENURE_TARGET_MAX + 1]; /* whose values are asked for next */
    size_t id_count;
} target_redis;

/* ---- asking */

static int receive(target_redis *source, const char *what, redisReply **ret_reply, ten_error *error) {
    redisReply *reply = NULL;
    int r = ten_redis_link_receive(source->redis.link, ten_redis_client_deadline_ms(&source->redis), &reply, error);
    if (r < 0)
        return r;
    if (reply->type == REDIS_REPLY_ERROR) {
        r = ten_redis_refusal(reply, what, error);
        freeReplyObject(reply);
        return r;
    }
    *ret_reply = reply;
    return TENURE_OK;
}

static int strange(const char *what, ten_error *error) {
    return ten_fail(error, TENURE_E_STORE, "%s: this is not the answer of a Redis", what);
}

/* Sends `command` with the keys of `count` ids. */
static int ask_of_keys(target_redis *source, const char *command, size_t first, size_t count, ten_error *error) {
    const char *words[BATCH + 1] = {command};
    size_t sizes[BATCH + 1] = {strlen(command)};
    TEN_CLEANUP(ten_buf_free) ten_buf keys = {0};
    for (size_t i = 0; i < count; i++) {
        size_t before = keys.size;
        ten_buf_text(&keys, source->prefix);
        ten_buf_text(&keys, source->ids[first + i]);
        sizes[i + 1] = keys.size - before;
    }
    size_t at = 0;
    for (size_t i = 0; i < count && !keys.failed; at += sizes[++i])
        words[i + 1] = keys.data + at;
    return keys.failed ? ten_fail_memory(error, "the targets")
                       : ten_redis_link_send(source->redis.link, count + 1, words, sizes, error);
}

/* A key without a value that MGET could show: of another type, or gone since SCAN saw it, or never there (the member of
 * a set). Asked once; as long as it stays so it is known. */
static int take_absent(target_redis *source, size_t number, ten_error *error) {
    const char *id = source->ids[number];
    size_t size = strlen(id);
    redisReply *reply = NULL;
    if (ten_source_feed_is_refused(&source->source.feed, source->prefix, id, size, REASON_ABSENT))
        return TENURE_OK;
    int r = ask_of_keys(source, "TYPE", number, 1, error);
    TEN_STEP(r, receive(source, "asking for the type of a key", &reply, error));
    if (r < 0)
        return r;
    const char *type = reply->type == REDIS_REPLY_STATUS ? reply->str : "";
    if (strcmp(type, "none") == 0 && source->set) {
        ten_source_feed_refuse(&source->source.feed, source->prefix, id, size, REASON_ABSENT,
                               "the set has this member, but there is no such key");
    } else if (strcmp(type, "none") != 0 && strcmp(type, "string") != 0) {
        char problem[80];
        snprintf(problem, sizeof problem, "the key is a %.20s, not a string", type);
        ten_source_feed_refuse(&source->source.feed, source->prefix, id, size, REASON_ABSENT, problem);
    }
    freeReplyObject(reply);
    return TENURE_OK;
}

/* The values of the ids that have been collected. */
static int take_values(target_redis *source, ten_error *error) {
    static const char what[] = "reading the values of targets";
    redisReply *reply = NULL;
    size_t count = source->id_count;
    source->id_count = 0;
    if (count == 0)
        return TENURE_OK;
    int r = ask_of_keys(source, "MGET", 0, count, error);
    TEN_STEP(r, receive(source, what, &reply, error));
    if (r < 0)
        return r;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        r = strange(what, error);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        const redisReply *value = reply->element[i];
        r = value->type == REDIS_REPLY_STRING ? ten_source_feed_session(&source->source.feed, source->prefix,
                                                                        source->ids[i], value->str, value->len, error)
                                              : take_absent(source, i, error);
    }
    freeReplyObject(reply);
    return r;
}

/* ---- a pass */

static int collect_id(target_redis *source, const char *text, size_t size, ten_error *error) {
    ten_error problem;
    int r = strlen(text) == size ? ten_id_check_target(text, &problem)
                                 : ten_fail(&problem, TENURE_E_INVALID, "it has a NUL");
    if (r < 0) {
        ten_source_feed_refuse(&source->source.feed, source->prefix, text, size, 0, problem.message);
        return TENURE_OK;
    }
    memcpy(source->ids[source->id_count++], text, size + 1);
    return source->id_count == BATCH ? take_values(source, error) : TENURE_OK;
}

static int take_entry(target_redis *source, const redisReply *entry, ten_error *error) {
    if (!source->prefix)
        return ten_source_feed_line(&source->source.feed, entry->str, entry->len, error);
    if (source->set)
        return collect_id(source, entry->str, entry->len, error);
    size_t prefix = strlen(source->prefix);
    if (entry->len < prefix || memcmp(entry->str, source->prefix, prefix) != 0)
        return TENURE_OK;
    return collect_id(source, entry->str + prefix, entry->len - prefix, error);
}

/* One step: from the cursor to the next, which is "0" at the end. */
static int step(target_redis *source, char cursor[24], ten_error *error) {
    const char *keys[] = {"SCAN", cursor, "MATCH", source->pattern, "COUNT", STEP_COUNT};
    const char *members[] = {"SSCAN", source->set, cursor, "COUNT", STEP_COUNT};
    const char *what = source->set ? "reading the set of targets" : "looking for the keys of targets";
    redisReply *reply = NULL;
    ten_redis_link *link = source->redis.link;
    int r = ten_redis_link_ask(link, ten_redis_client_deadline_ms(&source->redis), &reply, error,
                               source->set ? members : keys, source->set ? TEN_COUNT(members) : TEN_COUNT(keys));
    if (r < 0)
        return r;
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[0]->type == REDIS_REPLY_STRING && reply->element[0]->len < 24 &&
                reply->element[1]->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; fits && i < reply->element[1]->elements; i++)
        fits = reply->element[1]->element[i]->type == REDIS_REPLY_STRING;
    if (!fits)
        r = strange(what, error);
    for (size_t i = 0; r == TENURE_OK && i < reply->element[1]->elements; i++)
        r = take_entry(source, reply->element[1]->element[i], error);
    if (r == TENURE_OK)
        snprintf(cursor, 24, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return r == TENURE_OK ? take_values(source, error) : r;
}

static uint64_t calls_of(const char *statistics, const char *command) {
    const char *at = strstr(statistics, command);
    return at ? strtoull(at + strlen(command), NULL, 10) : 0;
}

/* How often the server has been flushed. A server that does not say is asked for nothing more. */
static int look_for_flush(target_redis *source, ten_error *error) {
    const char *words[] = {"INFO", "commandstats"};
    redisReply *reply = NULL;
    uint64_t flushes = FLUSHES_UNKNOWN;
    int r = ten_redis_link_send(source->redis.link, 2, words, (const size_t[]){4, 12}, error);
    TEN_STEP(r,
             ten_redis_link_receive(source->redis.link, ten_redis_client_deadline_ms(&source->redis), &reply, error));
    if (r < 0)
        return r;
    if (reply->type == REDIS_REPLY_STRING)
        flushes = calls_of(reply->str, "cmdstat_flushall:calls=") + calls_of(reply->str, "cmdstat_flushdb:calls=");
    if (flushes != source->flushes && source->flushes != FLUSHES_UNKNOWN)
        ten_target_list_doubt(&source->source.feed.list, ten_now_ms());
    source->flushes = flushes;
    freeReplyObject(reply);
    return TENURE_OK;
}

/* *ret_steps 0: it was stopped in the middle. */
static int run_pass(target_redis *source, unsigned *ret_steps, ten_error *error) {
    char cursor[24] = "0";
    unsigned steps = 0;
    ten_source_feed_begin(&source->source.feed);
    source->id_count = 0;
    int r = look_for_flush(source, error);
    while (r == TENURE_OK) {
        uint64_t start_ms = ten_now_ms();
        r = step(source, cursor, error);
        steps++;
        if (r < 0 || strcmp(cursor, "0") == 0)
            break;
        uint64_t rest_ms = ten_min_u64(ten_max_u64(STEP_MS, (ten_now_ms() - start_ms) * STEP_REST), STEP_MAX_MS);
        ten_side_thread_pause(&source->source.thread, start_ms + rest_ms);
        if (ten_side_thread_is_stopping(&source->source.thread))
            return TENURE_OK;
    }
    ten_source_feed_end(&source->source.feed, r == TENURE_OK, ten_now_ms());
    if (r == TENURE_OK)
        *ret_steps = steps;
    return r;
}

/* ---- the kind */

static int connect_source(target_redis *source, ten_error *error) {
    int r = ten_redis_client_connect(&source->redis, error);
    if (r < 0)
        return r;
    const ten_redis_server *server = ten_redis_link_server(source->redis.link);
    if (server->is_cluster && !source->set)
        return ten_fail(
            error, TENURE_E_UNSUPPORTED,
            "the keys of a Redis Cluster are on many servers, and redis-keys: looks at one: use redis-set:");
    if (strcmp(source->run_id, server->run_id) == 0)
        return TENURE_OK;
    if (source->run_id[0] != '\0')
        ten_target_list_doubt(&source->source.feed.list, ten_now_ms());
    snprintf(source->run_id, sizeof source->run_id, "%s", server->run_id);
    source->flushes = FLUSHES_UNKNOWN; /* it counts from its start */
    return TENURE_OK;
}

static int read_targets(ten_source *self, ten_error *error) {
    target_redis *source = (target_redis *)self;
    unsigned steps = 0;
    int r = connect_source(source, error);
    TEN_STEP(r, run_pass(source, &steps, error));
    self->every_ms = steps == 1 ? SHORT_PASS_MS : PASS_MS;
    return r;
}

static void disconnect(ten_source *self) {
    ten_redis_client_disconnect(&((target_redis *)self)->redis);
}

/* The prefix, with what SCAN's MATCH would take for more than itself made plain. */
static char *make_pattern(const char *prefix) {
    ten_buf pattern = {0};
    for (; *prefix; prefix++) {
        if (strchr("*?[]\\", *prefix))
            ten_buf_char(&pattern, '\\');
        ten_buf_char(&pattern, *prefix);
    }
    ten_buf_char(&pattern, '*');
    if (pattern.failed)
        ten_buf_free(&pattern);
    return pattern.data;
}

static int parse(target_redis *source, const char *text, ten_error *error) {
    bool keys = strncmp(text, "redis-keys:", 11) == 0;
    const char *rest = strchr(text, ':') + 1;
    const char *comma = keys ? NULL : strchr(rest, ',');
    if (rest[0] == '\0' || rest == comma)
        return ten_fail(error, TENURE_E_INVALID, "%s: write redis-keys:PREFIX, redis-set:KEY or redis-set:KEY,PREFIX",
                        text);
    if (keys) {
        source->prefix = ten_strdup(rest);
        source->pattern = make_pattern(rest);
        return source->prefix && source->pattern ? TENURE_OK : ten_fail_memory(error, "the targets");
    }
    source->set = ten_strdup(rest);
    if (source->set && comma) {
        source->set[comma - rest] = '\0';
        source->prefix = ten_strdup(comma + 1);
    }
    return source->set && (source->prefix || !comma) ? TENURE_OK : ten_fail_memory(error, "the targets");
}

static int open_source(ten_source *self, const ten_agent_config *config, ten_error *error) {
    target_redis *source = (target_redis *)self;
    source->flushes = FLUSHES_UNKNOWN;
    int r = ten_redis_client_open(&source->redis, &self->thread, config, config->targets, error);
    return r == TENURE_OK ? parse(source, config->targets, error) : r;
}

static void free_source(ten_source *self) {
    target_redis *source = (target_redis *)self;
    ten_free(source->set);
    ten_free(source->prefix);
    ten_free(source->pattern);
    ten_redis_client_close(&source->redis);
}

const ten_source_ops ten_target_redis_ops = {.size = sizeof(target_redis),
                                             .open = open_source,
                                             .free = free_source,
                                             .read = read_targets,
                                             .disconnect = disconnect};
