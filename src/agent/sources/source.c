/*
 * Where the agent's targets come from: the store's registry (the fleet member reads it), or a file or a server that a
 * thread reads. What a source says is put to the fleet member and to the agent. Called by the loop in agent_loop.c.
 */
#include <string.h>

#include "agent/poller/agent_state.h"
#include "agent/sources/target_http.h"
#include "agent/sources/target_path.h"
#include "agent/sources/target_redis.h"
#include "base/clock.h"
#include "base/url.h"

#define EVENTS_AT_ONCE 500u /* then the polls have their turn */

/* ---- which it is */

#ifdef TEN_STORE_REDIS
#define REDIS_OPS &ten_target_redis_ops
#else
#define REDIS_OPS NULL
#endif

#ifndef TEN_NO_HTTP
#define HTTP_OPS &ten_target_http_ops
#else
#define HTTP_OPS NULL
#endif

static const struct {
    const char *text;                                                             /* how it begins */
    const ten_source_ops *ops;                                                    /* NULL: left out of this build */
} kinds[] = {{"file:", &ten_target_path_ops}, {"crontab:", &ten_target_path_ops}, /* of `tenure cron` */
             {"redis-keys:", REDIS_OPS},      {"redis-set:", REDIS_OPS},
             {"http://", HTTP_OPS},           {"https://", HTTP_OPS}};

/* NULL: it has no thread. */
static const ten_source_ops *find_ops(const char *text, bool *ret_known) {
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        *ret_known = strncmp(text, kinds[i].text, strlen(kinds[i].text)) == 0;
        if (*ret_known)
            return kinds[i].ops;
    }
    return NULL;
}

int ten_source_check(const ten_agent_config *config, ten_error *error) {
    const char *text = config->targets;
    char shown[80];
    bool known;
    if (strcmp(text, "store") == 0)
        return TENURE_OK;
    const ten_source_ops *ops = find_ops(text, &known);
    if (ops)
        return ops->check(config, error);
    ten_url_redact(text, shown, sizeof shown);
    if (known)
        return ten_fail(error, TENURE_E_UNSUPPORTED, "the target source '%s' was left out of this build", shown);
    return ten_fail(error, TENURE_E_INVALID,
                    "there is no target source '%s': write store, file:PATH, redis-keys:PREFIX, "
                    "redis-set:KEY[,PREFIX] or http://HOST/PATH",
                    shown);
}

/* ---- a source with a thread */

static void take_event(const ten_source_event *event, void *userdata) {
    struct ten_agent *agent = userdata;
    ten_field source = TEN_TEXT("source", agent->config->targets);
    struct ten_agent_target *target;
    switch (event->kind) {
    case TEN_SOURCE_PUT:
        ten_agent_put_target(agent, &event->target);
        break;
    case TEN_SOURCE_GONE:
        target = ten_map_get(&agent->by_id, event->target.id);
        if (target && !target->removed)
            ten_agent_remove_target(agent, target);
        break;
    case TEN_SOURCE_BAD:
        if (event->count)
            TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", source, TEN_NUMBER("line", event->count),
                    TEN_TEXT("entry", event->entry), TEN_TEXT("error", event->problem));
        else
            TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", source, TEN_TEXT("entry", event->entry),
                    TEN_TEXT("error", event->problem));
        break;
    case TEN_SOURCE_MORE_BAD:
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", source, TEN_NUMBER("count", event->count),
                TEN_TEXT("error", "more entries that cannot be used"));
        break;
    case TEN_SOURCE_FAILED:
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_source_failed", source, TEN_TEXT("error", event->problem));
        break;
    case TEN_SOURCE_READ:
        agent->source_read = true;
        break;
    case TEN_SOURCE_OK:
        TEN_LOG(agent->log, TEN_LOG_INFO, "target_source_ok", source, TEN_NUMBER("count", event->count));
        break;
    }
}

static int open_thread(struct ten_agent *agent, const ten_source_ops *ops, ten_error *error) {
    int r = ops->open(agent->config, &agent->source, &agent->feed, error);
    if (r == TENURE_OK) {
        agent->source_ops = ops;
        agent->source_fd = agent->feed->fd;
    }
    return r;
}

/* ---- whichever it is */

int ten_source_open(struct ten_agent *agent, ten_error *error) {
    bool known;
    const ten_source_ops *ops = find_ops(agent->config->targets, &known);
    return ops ? open_thread(agent, ops, error) : TENURE_OK;
}

void ten_source_take(struct ten_agent *agent) {
    if (agent->feed)
        ten_source_feed_take(agent->feed, EVENTS_AT_ONCE, take_event, agent);
}

void ten_source_reread(struct ten_agent *agent) {
    if (agent->source_ops && agent->source_ops->reread)
        agent->source_ops->reread(agent->source);
}

void ten_source_look(struct ten_agent *agent) {
    uint64_t since_ms = agent->feed ? atomic_load(&agent->feed->reading_since_ms) : 0;
    uint64_t patience_ms = ten_source_feed_patience_ms(agent->config->context.ttl_ms);
    bool hangs = since_ms && ten_now_ms() >= since_ms + patience_ms;
    if (hangs && !agent->source_hangs)
        TEN_LOG(agent->log, TEN_LOG_ERROR, "target_source_failed", TEN_TEXT("source", agent->config->targets),
                TEN_TEXT("error", "the file system does not answer; the known targets stay, and the list is taken when "
                                  "it comes. Check the mount"));
    agent->source_hangs = hangs;
}

void ten_source_close(struct ten_agent *agent) {
    if (agent->source_ops)
        agent->source_ops->close(agent->source);
}
