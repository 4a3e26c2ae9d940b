/*
 * Where the agent's targets come from: the store's registry (the fleet member reads it), a file, or a server that a
 * thread reads. What a source says is put to the fleet member and to the agent. Called by the loop in agent.c.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/poller/agent_state.h"
#include "agent/sources/target_http.h"
#include "agent/sources/target_redis.h"
#include "base/url.h"

#define EVENTS_AT_ONCE 500u /* then the polls have their turn */

static bool is_file(const char *text) {
    return strncmp(text, "file:", 5) == 0 && text[5] != '\0';
}

/* ---- which it is */

#ifdef TEN_STORE_REDIS
#define REDIS_OPS &ten_target_redis_ops
#else
#define REDIS_OPS NULL
#endif

static const struct {
    const char *text;          /* how it begins */
    const ten_source_ops *ops; /* NULL: left out of this build */
} kinds[] = {{"redis-keys:", REDIS_OPS},
             {"redis-set:", REDIS_OPS},
             {"http://", &ten_target_http_ops},
             {"https://", &ten_target_http_ops}};

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
    if (strcmp(text, "store") == 0 || is_file(text))
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

/* ---- a file */

static void take_line(const tenure_target *target, void *userdata) {
    ten_agent_put_target(userdata, target);
}

static void report_bad_line(unsigned line, const char *problem, void *userdata) {
    const struct ten_agent *agent = userdata;
    TEN_LOG(agent->log, TEN_LOG_ERROR, "target_refused", TEN_NUMBER("line", line), TEN_TEXT("error", problem));
}

void ten_source_reread(struct ten_agent *agent) {
    ten_error error;
    if (!agent->file)
        return;
    agent->readings++;
    if (ten_target_file_read(agent->file, take_line, report_bad_line, agent, &error) < 0) {
        TEN_LOG(agent->log, TEN_LOG_ERROR, "targets_unreadable", TEN_TEXT("error", error.message));
        return; /* what was read before stands: a file that is being replaced must not empty the fleet */
    }
    for (uint32_t i = 0; i < agent->target_room; i++) {
        struct ten_agent_target *target = agent->targets[i];
        if (target && target->seen != agent->readings && !target->removed)
            ten_agent_remove_target(agent, target);
    }
}

static int open_file(struct ten_agent *agent, const char *path, ten_error *error) {
    int r = ten_target_file_open(path, &agent->file, error);
    if (r == TENURE_OK && access(path, R_OK) != 0)
        r = ten_fail_errno(error, TENURE_E_INVALID, errno, "cannot read the targets from %s", path);
    if (r == TENURE_OK)
        agent->source_fd = ten_target_file_fd(agent->file);
    return r;
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
    if (is_file(agent->config->targets))
        return open_file(agent, agent->config->targets + 5, error);
    const ten_source_ops *ops = find_ops(agent->config->targets, &known);
    return ops ? open_thread(agent, ops, error) : TENURE_OK;
}

void ten_source_take(struct ten_agent *agent) {
    if (agent->feed)
        ten_source_feed_take(agent->feed, EVENTS_AT_ONCE, take_event, agent);
    ten_source_reread(agent);
}

void ten_source_close(struct ten_agent *agent) {
    if (agent->source_ops)
        agent->source_ops->close(agent->source);
    ten_target_file_close(agent->file);
}
