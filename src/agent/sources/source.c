/*
 * What the target sources share: the table of kinds, the handle, and the loop of a source's thread. Called by agent.c.
 */
#include "agent/sources/source.h"

#include <errno.h>
#include <string.h>

#include "agent/runner/agent_state.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/url.h"

#define START_MS 2000u /* a file system that takes longer is not waited for at the start */
#define AGAIN_MS 5000u /* after a failure: not every file system reports that it is back */

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

/* NULL: it is left out of this build, or there is none. */
static const ten_source_ops *find_ops(const char *text, bool *ret_known) {
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        *ret_known = strncmp(text, kinds[i].text, strlen(kinds[i].text)) == 0;
        if (*ret_known)
            return kinds[i].ops;
    }
    return NULL;
}

/* ---- the thread */

static bool pass_on(ten_source *source, const ten_source_event *event) {
    static const char *const names[] = {[TEN_SOURCE_BAD] = "target_refused",
                                        [TEN_SOURCE_MORE_BAD] = "target_refused",
                                        [TEN_SOURCE_FAILED] = "target_source_failed",
                                        [TEN_SOURCE_OK] = "target_source_ok"};
    enum ten_source_event_kind kind = event->kind;
    ten_field fields[4] = {TEN_TEXT("source", source->text)};
    size_t count = 1;
    if (kind == TEN_SOURCE_PUT || kind == TEN_SOURCE_GONE || kind == TEN_SOURCE_READ)
        return ten_agent_leave_target(source->agent, event->target, kind == TEN_SOURCE_GONE);
    if (event->count || kind == TEN_SOURCE_OK)
        fields[count++] = TEN_NUMBER(kind == TEN_SOURCE_BAD ? "line" : "count", event->count);
    if (event->entry)
        fields[count++] = TEN_TEXT("entry", event->entry);
    if (event->problem)
        fields[count++] = TEN_TEXT("error", event->problem);
    ten_log_event(source->log, kind == TEN_SOURCE_OK ? TEN_LOG_INFO : TEN_LOG_ERROR, names[kind], fields, count);
    return true;
}

/* The agent and its log may be gone when a reading returns that was hanging. */
static bool on_event(const ten_source_event *event, void *userdata) {
    ten_source *source = userdata;
    TEN_LOCKED(&source->thread.lock);
    return source->agent && pass_on(source, event);
}

/* False: the error becomes that of ten_source_open(). */
static bool note_first(ten_source *source, int r, const ten_error *error) {
    TEN_LOCKED(&source->thread.lock);
    source->first = r;
    if (r < 0)
        source->first_error = *error;
    ten_eventfd_poke(source->first_fd);
    return r == TENURE_OK || !source->is_awaited;
}

static void rest(ten_source *source, uint64_t start_ms, int r) {
    ten_side_thread *thread = &source->thread;
    if (source->watch_fd >= 0) {
        (void)ten_wait_readable(thread->wake_fd, source->watch_fd, r < 0 ? AGAIN_MS : UINT64_MAX);
        ten_side_thread_note_woken(thread);
    } else if (r < 0) {
        if (source->ops->disconnect)
            source->ops->disconnect(source);
        ten_side_thread_back_off(thread);
    } else {
        thread->failures = 0;
        ten_side_thread_pause(thread, start_ms + source->every_ms - ten_random_u64() % (source->every_ms / 10 + 1));
    }
}

static void run(ten_side_thread *thread) {
    ten_source *source = (ten_source *)thread;
    bool is_first = true;
    while (!ten_side_thread_is_stopping(thread)) {
        ten_error error = {0};
        uint64_t start_ms = ten_now_ms();
        int r = source->ops->read(source, &error);
        if (ten_side_thread_is_stopping(thread))
            return;
        if (!is_first || note_first(source, r, &error))
            ten_source_feed_state(&source->feed, r, &error);
        is_first = false;
        rest(source, start_ms, r);
    }
}

/* ---- the handle */

static void free_source(ten_side_thread *thread) {
    ten_source *source = (ten_source *)thread;
    source->ops->free(source);
    ten_source_feed_free(&source->feed);
    ten_close_fd(&source->watch_fd);
    ten_close_fd(&source->first_fd);
    ten_side_thread_close(thread);
    ten_free(source->text);
    ten_free(source);
}

/* With its settings read. NULL: the error says why. */
static ten_source *make(const ten_source_ops *ops, const ten_agent_config *config, ten_error *error) {
    ten_source *source = ten_calloc(1, ops->size);
    if (!source) {
        (void)ten_fail_memory(error, "the targets");
        return NULL;
    }
    source->ops = ops;
    source->watch_fd = source->first_fd = -1;
    ten_side_thread_init(&source->thread);
    ten_source_feed_init(&source->feed, config->runner.context.ttl_ms, on_event, source);
    source->text = ten_strdup(config->targets);
    int r = source->text ? ops->open(source, config, error) : ten_fail_memory(error, "the targets");
    if (r == TENURE_OK)
        return source;
    free_source(&source->thread);
    return NULL;
}

int ten_source_check(const ten_agent_config *config, ten_error *error) {
    const char *text = config->targets;
    char shown[80];
    bool known;
    if (strcmp(text, "store") == 0)
        return TENURE_OK;
    const ten_source_ops *ops = find_ops(text, &known);
    ten_source *source = ops ? make(ops, config, error) : NULL;
    if (source)
        free_source(&source->thread);
    if (ops)
        return source ? TENURE_OK : error->code;
    ten_url_redact(text, shown, sizeof shown);
    if (known)
        return ten_fail(error, TENURE_E_UNSUPPORTED, "the target source '%s' was left out of this build", shown);
    return ten_fail(error, TENURE_E_INVALID,
                    "there is no target source '%s': write store, file:PATH, redis-keys:PREFIX, "
                    "redis-set:KEY[,PREFIX] or http://HOST/PATH",
                    shown);
}

/* What can be watched can be read at once: the first pass is waited for. */
static int start(ten_source *source, ten_error *error) {
    source->is_awaited = source->watch_fd >= 0;
    source->first_fd = ten_eventfd_open();
    if (source->first_fd < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot read %s", source->text);
    int r = ten_side_thread_start(&source->thread, source->text, run, free_source, error);
    if (r < 0 || source->watch_fd < 0)
        return r;
    (void)ten_wait_readable(source->first_fd, -1, START_MS);
    TEN_LOCKED(&source->thread.lock);
    source->is_awaited = false;
    r = source->first;
    if (r < 0)
        *error = source->first_error;
    return r;
}

int ten_source_open(const ten_agent_config *config, ten_log *log, struct ten_agent *agent, ten_source **ret_source,
                    ten_error *error) {
    bool known;
    const ten_source_ops *ops = find_ops(config->targets, &known);
    ten_source *source = ops ? make(ops, config, error) : NULL;
    if (!source)
        return ops ? error->code : TENURE_OK;
    source->agent = agent;
    source->log = log;
    int r = start(source, error);
    if (r == TENURE_OK)
        *ret_source = source;
    else if (source->thread.owners == 1)
        free_source(&source->thread);
    else
        ten_source_close(source);
    return r;
}

void ten_source_reread(ten_source *source) {
    if (source && source->watch_fd >= 0)
        ten_side_thread_wake(&source->thread);
}

bool ten_source_hangs(ten_source *source) {
    return source && ten_source_feed_hangs(&source->feed);
}

void ten_source_close(ten_source *source) {
    if (!source)
        return;
    ten_side_thread_stop(&source->thread, 0);
    pthread_mutex_lock(&source->thread.lock);
    source->agent = NULL;
    pthread_mutex_unlock(&source->thread.lock);
    ten_side_thread_detach(&source->thread);
}
