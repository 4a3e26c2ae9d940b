/*
 * Messages to a Redis: a bounded queue, and a thread that carries it there in batches. Called by way of sink.c.
 */
#include "agent/sink_redis.h"

#include <string.h>

#include "agent/redis_thread.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"

#define QUEUE_MAX    ((size_t)8 * 1024 * 1024) /* bytes, with what every message costs */
#define BATCH_COUNT  128u                      /* what one loss of the connection leaves unconfirmed at most */
#define BATCH_BYTES  ((size_t)256 * 1024)
#define BACKOFF_MS   1000u    /* messages do not last long: more would lose those that could still be sent */
#define STREAM_ABOUT "100000" /* entries that a stream is cut to, about */

struct queued {
    struct queued *next;
    uint64_t ends_ms;
    size_t bytes; /* all of it */
    const char *key;
    const char *target;
    const char *instance;
    const char *json;
    size_t json_size;
    char token[24];
    char texts[];
};

struct queue {
    struct queued *first;
    struct queued **last;
};

struct redis_sink {
    ten_redis_thread thread;
    bool to_stream;
    char *name;        /* with its braces */
    struct queue sent; /* not confirmed yet; the thread's */
    /* These under the thread's lock. */
    struct queue waiting;
    size_t bytes; /* of both queues */
    size_t count; /* of messages in them */
    bool failing;
    ten_sink_news news;
};

static uint64_t now_ms(void) {
    return ten_boot_ms(&ten_system_clock);
}

/* ---- queues */

static void append(struct queue *queue, struct queued *queued) {
    queued->next = NULL;
    *queue->last = queued;
    queue->last = &queued->next;
}

static struct queued *take(struct queue *queue) {
    struct queued *queued = queue->first;
    queue->first = queued->next;
    if (!queue->first)
        queue->last = &queue->first;
    return queued;
}

/* `from` goes before what is in `to`. */
static void prepend(struct queue *to, struct queue *from) {
    if (!from->first)
        return;
    *from->last = to->first;
    if (!to->first)
        to->last = from->last;
    to->first = from->first;
    *from = (struct queue){.last = &from->first};
}

static void free_queue(struct queue *queue) {
    while (queue->first)
        ten_free(take(queue));
}

/* The lock is held; `queued` is in no queue any more. */
static void finish(struct redis_sink *sink, struct queued *queued, bool dropped) {
    sink->bytes -= queued->bytes;
    sink->count--;
    sink->news.dropped += dropped;
    ten_free(queued);
}

static void drop_late(struct redis_sink *sink) {
    struct queue kept = {.last = &kept.first};
    uint64_t now = now_ms();
    pthread_mutex_lock(&sink->thread.lock);
    while (sink->waiting.first) {
        struct queued *queued = take(&sink->waiting);
        if (queued->ends_ms > now)
            append(&kept, queued);
        else
            finish(sink, queued, true);
    }
    prepend(&sink->waiting, &kept);
    pthread_mutex_unlock(&sink->thread.lock);
}

/* ---- taking a message */

/* False: there is a brace that means nothing. With `key` NULL it is only checked. */
static bool fill_in(const char *name, const ten_message *message, ten_buf *key) {
    for (const char *at = name; *at; at++) {
        const char *value = NULL;
        size_t size = 1;
        if (strncmp(at, "{target}", 8) == 0) {
            value = message ? message->target : "";
            size = 8;
        } else if (strncmp(at, "{namespace}", 11) == 0) {
            value = message ? message->namespace_name : "";
            size = 11;
        } else if (strncmp(at, "{{", 2) == 0) {
            value = "{";
            size = 2;
        } else if (*at == '{') {
            return false;
        }
        if (key && value)
            ten_buf_text(key, value);
        else if (key)
            ten_buf_char(key, *at);
        at += size - 1;
    }
    return true;
}

static const char *copy_to(char **at, const char *text, size_t size) {
    char *copy = *at;
    memcpy(copy, text, size);
    copy[size] = '\0';
    *at += size + 1;
    return copy;
}

static struct queued *make(const struct redis_sink *sink, const ten_message *message, uint64_t ends_ms,
                           const char *json, size_t size) {
    ten_buf key = {0};
    (void)fill_in(sink->name, message, &key);
    size_t target = strlen(message->target);
    size_t instance = strlen(message->instance);
    size_t bytes = sizeof(struct queued) + key.size + target + instance + size + 4;
    struct queued *queued = key.failed ? NULL : ten_malloc(bytes);
    if (queued) {
        char *at = queued->texts;
        *queued = (struct queued){.ends_ms = ends_ms, .bytes = bytes, .json_size = size};
        queued->key = copy_to(&at, ten_buf_string(&key), key.size);
        queued->target = copy_to(&at, message->target, target);
        queued->instance = copy_to(&at, message->instance, instance);
        queued->json = copy_to(&at, json, size);
        snprintf(queued->token, sizeof queued->token, "%llu", (unsigned long long)message->token);
    }
    ten_buf_free(&key);
    return queued;
}

static bool put(void *self, const ten_message *message, uint64_t ends_ms, const char *line, size_t size) {
    struct redis_sink *sink = self;
    struct queued *queued = make(sink, message, ends_ms, line, size - 1);
    if (!queued)
        return false;
    pthread_mutex_lock(&sink->thread.lock);
    /* While the server is away the oldest are late first. */
    while (sink->bytes + queued->bytes > QUEUE_MAX && sink->waiting.first && sink->waiting.first->ends_ms <= now_ms())
        finish(sink, take(&sink->waiting), true);
    bool fits = sink->bytes + queued->bytes <= QUEUE_MAX;
    if (fits) {
        sink->bytes += queued->bytes;
        sink->count++;
        append(&sink->waiting, queued);
    }
    pthread_mutex_unlock(&sink->thread.lock);
    if (fits)
        ten_redis_thread_wake(&sink->thread);
    else
        ten_free(queued);
    return fits;
}

/* ---- sending */

static int send_one(struct redis_sink *sink, const struct queued *queued, ten_error *error) {
    const char *add[] = {"XADD",     queued->key,   "MAXLEN",       "~",         STREAM_ABOUT,
                         "*",        "target",      queued->target, "instance",  queued->instance,
                         "_version", queued->token, "message",      queued->json};
    const char *tell[] = {"PUBLISH", queued->key, queued->json};
    const char *const *words = sink->to_stream ? add : tell;
    size_t count = sink->to_stream ? TEN_COUNT(add) : TEN_COUNT(tell);
    size_t sizes[TEN_COUNT(add)];
    for (size_t i = 0; i + 1 < count; i++)
        sizes[i] = strlen(words[i]);
    sizes[count - 1] = queued->json_size;
    return ten_redis_link_send(sink->thread.link, count, words, sizes, error);
}

/* What is not late, up to a batch, goes into the list of what is sent. */
static void choose(struct redis_sink *sink) {
    size_t bytes = 0;
    pthread_mutex_lock(&sink->thread.lock);
    for (unsigned count = 0; sink->waiting.first && count < BATCH_COUNT && bytes < BATCH_BYTES;) {
        struct queued *queued = take(&sink->waiting);
        if (queued->ends_ms <= now_ms()) {
            finish(sink, queued, true);
            continue;
        }
        bytes += queued->bytes;
        count++;
        append(&sink->sent, queued);
    }
    pthread_mutex_unlock(&sink->thread.lock);
}

static void note_problem(struct redis_sink *sink, const ten_error *error) {
    pthread_mutex_lock(&sink->thread.lock);
    if (!sink->failing)
        sink->news.problem = *error;
    sink->failing = true;
    sink->news.works_again = false;
    pthread_mutex_unlock(&sink->thread.lock);
}

/* The server has answered for the first message that was sent. */
static void confirm(struct redis_sink *sink, bool dropped) {
    struct queued *queued = take(&sink->sent);
    pthread_mutex_lock(&sink->thread.lock);
    if (!dropped && sink->failing) {
        sink->failing = false;
        sink->news.works_again = true;
    }
    finish(sink, queued, dropped);
    pthread_mutex_unlock(&sink->thread.lock);
    if (!dropped)
        sink->thread.failures = 0;
}

/* A server that is full, loading or a replica takes it later, perhaps; one that says no to this message (the key is no
 * stream, there is no permission) would hold up all others. */
static bool is_worth_another_try(int refusal) {
    return refusal == TENURE_E_UNREACHABLE || refusal == TENURE_E_TIMEOUT || refusal == TENURE_E_FULL;
}

static int send_batch(struct redis_sink *sink, ten_error *error) {
    ten_redis_thread *thread = &sink->thread;
    int done = TENURE_OK;
    choose(sink);
    for (const struct queued *queued = sink->sent.first; queued && done == TENURE_OK; queued = queued->next)
        done = send_one(sink, queued, error);
    while (sink->sent.first && done == TENURE_OK) {
        redisReply *reply;
        done = ten_redis_link_receive(thread->link, ten_redis_thread_deadline_ms(thread), &reply, error);
        if (done < 0)
            break;
        int refusal = reply->type == REDIS_REPLY_ERROR ? ten_redis_refusal(reply, "publishing a message", error) : 0;
        freeReplyObject(reply);
        if (refusal < 0)
            note_problem(sink, error);
        if (is_worth_another_try(refusal))
            done = refusal;
        else
            confirm(sink, refusal < 0);
    }
    return done;
}

static bool has_work(struct redis_sink *sink) {
    pthread_mutex_lock(&sink->thread.lock);
    bool work = sink->waiting.first != NULL;
    pthread_mutex_unlock(&sink->thread.lock);
    return work;
}

static void go_back(struct redis_sink *sink, const ten_error *error) {
    note_problem(sink, error);
    pthread_mutex_lock(&sink->thread.lock);
    prepend(&sink->waiting, &sink->sent);
    pthread_mutex_unlock(&sink->thread.lock);
    ten_redis_thread_back_off(&sink->thread);
    drop_late(sink);
}

static void *run(void *arg) {
    struct redis_sink *sink = arg;
    ten_redis_thread *thread = &sink->thread;
    while (!ten_redis_thread_is_over(thread)) {
        ten_error error;
        if (!has_work(sink)) {
            if (ten_redis_thread_is_stopping(thread))
                break;
            ten_redis_thread_wait(thread, UINT64_MAX);
            continue;
        }
        int done = ten_redis_thread_connect(thread, &error);
        if (done == TENURE_OK)
            done = send_batch(sink, &error);
        if (done < 0)
            go_back(sink, &error);
    }
    ten_redis_thread_end(thread);
    return NULL;
}

/* ---- the handle */

static void free_sink(ten_redis_thread *thread) {
    struct redis_sink *sink = (struct redis_sink *)thread;
    free_queue(&sink->sent);
    free_queue(&sink->waiting);
    ten_free(sink->name);
    ten_redis_thread_close(thread);
    ten_free(sink);
}

static int open_sink(const char *text, const ten_agent_config *config, void **ret_self, ten_error *error) {
    struct redis_sink *sink = ten_calloc(1, sizeof *sink);
    if (!sink)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for the sink %s", text);
    sink->to_stream = strncmp(text, "redis-stream:", 13) == 0;
    sink->sent.last = &sink->sent.first;
    sink->waiting.last = &sink->waiting.first;
    int done = ten_redis_thread_open(&sink->thread, config, text, error);
    sink->thread.backoff_max_ms = BACKOFF_MS;
    if (done == TENURE_OK && !(sink->name = ten_strdup(strchr(text, ':') + 1)))
        done = ten_fail(error, TENURE_E_NOMEM, "out of memory for the sink %s", text);
    if (done == TENURE_OK && !fill_in(sink->name, NULL, NULL))
        done = ten_fail(error, TENURE_E_INVALID,
                        "the sink %s has a brace that means nothing: write {target}, {namespace}, or {{ for a brace",
                        text);
    if (done == TENURE_OK)
        done = ten_redis_thread_start(&sink->thread, run, free_sink, error);
    if (done < 0)
        free_sink(&sink->thread);
    else
        *ret_self = sink;
    return done;
}

static void take_news(void *self, ten_sink_news *ret_news) {
    struct redis_sink *sink = self;
    pthread_mutex_lock(&sink->thread.lock);
    *ret_news = sink->news;
    sink->news = (ten_sink_news){0};
    pthread_mutex_unlock(&sink->thread.lock);
}

static void close_sink(void *self, uint64_t flush_ms, ten_sink_news *ret_news) {
    struct redis_sink *sink = self;
    ten_redis_thread_stop(&sink->thread, flush_ms);
    take_news(sink, ret_news);
    pthread_mutex_lock(&sink->thread.lock);
    ret_news->dropped += sink->count;
    pthread_mutex_unlock(&sink->thread.lock);
    ten_redis_thread_let_go(&sink->thread);
}

const ten_sink_ops ten_sink_redis_ops = {.open = open_sink, .close = close_sink, .put = put, .take_news = take_news};
