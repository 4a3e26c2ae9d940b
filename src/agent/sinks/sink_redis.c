/*
 * Messages to a Redis: a bounded queue, and a thread that carries it there in batches. Called by way of sink.c.
 */
#include "agent/sinks/sink_redis.h"

#include <string.h>
#include <sys/socket.h>

#include "agent/common/redis_thread.h"
#include "agent/sinks/outbox.h"
#include "base/alloc.h"

#define BATCH_COUNT  128u /* what one loss of the connection leaves unconfirmed at most */
#define BATCH_BYTES  ((size_t)256 * 1024)
#define BACKOFF_MS   1000u    /* messages do not last long: more would lose those that could still be sent */
#define STREAM_ABOUT "100000" /* entries that a stream is cut to, about */

struct redis_sink {
    ten_redis_thread thread;
    bool to_stream;
    char *name; /* with its braces */
    ten_outbox outbox;
};

static bool put(void *self, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                size_t size) {
    struct redis_sink *sink = self;
    ten_buf name = {0};
    ten_message_name(sink->name, message, "", &name);
    bool taken =
        !name.failed && ten_outbox_put(&sink->outbox, ten_buf_string(&name), message, receipt, ends_ms, line, size - 1);
    ten_buf_free(&name);
    if (taken)
        ten_side_thread_wake(&sink->thread.side);
    return taken;
}

/* ---- sending */

static int send_one(struct redis_sink *sink, const ten_outgoing *outgoing, ten_error *error) {
    const char *add[] = {"XADD",     outgoing->name,  "MAXLEN",         "~",           STREAM_ABOUT,
                         "*",        "target",        outgoing->target, "instance",    outgoing->instance,
                         "_version", outgoing->token, "message",        outgoing->json};
    const char *tell[] = {"PUBLISH", outgoing->name, outgoing->json};
    const char *const *words = sink->to_stream ? add : tell;
    size_t count = sink->to_stream ? TEN_COUNT(add) : TEN_COUNT(tell);
    size_t sizes[TEN_COUNT(add)];
    for (size_t i = 0; i + 1 < count; i++)
        sizes[i] = strlen(words[i]);
    sizes[count - 1] = outgoing->json_size;
    return ten_redis_link_send(sink->thread.link, count, words, sizes, error);
}

/* A server that is full, loading or a replica takes it later, perhaps; one that says no to this message (the key is no
 * stream, there is no permission) would hold up all others. */
static bool is_worth_another_try(int refusal) {
    return refusal == TENURE_E_UNREACHABLE || refusal == TENURE_E_TIMEOUT || refusal == TENURE_E_FULL;
}

/* What is not late, up to a batch. */
static int send_batch(struct redis_sink *sink, ten_error *error) {
    int r = TENURE_OK;
    size_t bytes = 0;
    while (r == TENURE_OK && sink->outbox.sent_count < BATCH_COUNT && bytes < BATCH_BYTES) {
        const ten_outgoing *outgoing = ten_outbox_send_next(&sink->outbox);
        if (!outgoing)
            break;
        bytes += outgoing->bytes;
        r = send_one(sink, outgoing, error);
    }
    return r;
}

static int take_answers(struct redis_sink *sink, ten_error *error) {
    ten_redis_thread *thread = &sink->thread;
    ten_outbox *outbox = &sink->outbox;
    while (outbox->sent.first) {
        redisReply *reply;
        uint64_t until_ms = ten_min_u64(ten_redis_thread_deadline_ms(thread), ten_outbox_sent_until_ms(outbox));
        int r = ten_redis_link_receive(thread->link, until_ms, &reply, error);
        if (r < 0)
            return r;
        int refusal = reply->type == REDIS_REPLY_ERROR ? ten_redis_refusal(reply, "publishing a message", error) : 0;
        freeReplyObject(reply);
        if (refusal < 0)
            ten_outbox_note_problem(outbox, error);
        else
            thread->side.failures = 0;
        if (is_worth_another_try(refusal))
            return refusal;
        ten_outbox_finish(outbox, outbox->sent.first, refusal < 0);
    }
    return TENURE_OK;
}

/* What the kernel has not sent yet is never sent. */
static void reset(const struct redis_sink *sink) {
    const struct linger at_once = {.l_onoff = 1};
    if (sink->thread.link)
        (void)setsockopt(ten_redis_link_fd(sink->thread.link), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static void go_back(struct redis_sink *sink, const ten_error *error) {
    reset(sink);
    ten_outbox_note_problem(&sink->outbox, error);
    ten_outbox_go_back(&sink->outbox);
    ten_redis_thread_back_off(&sink->thread);
    ten_outbox_drop_late(&sink->outbox);
}

static void *run(void *arg) {
    struct redis_sink *sink = arg;
    ten_side_thread *side = &sink->thread.side;
    while (!ten_side_thread_is_over(side)) {
        ten_error error;
        if (!ten_outbox_has_waiting(&sink->outbox)) {
            if (ten_side_thread_is_stopping(side))
                break;
            ten_side_thread_wait(side, UINT64_MAX);
            continue;
        }
        int r = ten_redis_thread_connect(&sink->thread, &error);
        if (r == TENURE_OK)
            r = send_batch(sink, &error);
        if (r == TENURE_OK)
            r = take_answers(sink, &error);
        if (r < 0)
            go_back(sink, &error);
    }
    ten_side_thread_end(side);
    return NULL;
}

/* ---- the handle */

static void free_sink(ten_side_thread *side) {
    struct redis_sink *sink = (struct redis_sink *)side;
    ten_outbox_free(&sink->outbox);
    ten_free(sink->name);
    ten_redis_thread_close(&sink->thread);
    ten_free(sink);
}

static int open_sink(const char *text, const ten_agent_config *config, void **ret_self, ten_error *error) {
    struct redis_sink *sink = ten_calloc(1, sizeof *sink);
    if (!sink)
        return ten_fail_memory(error, "the sink %s", text);
    sink->to_stream = strncmp(text, "redis-stream:", 13) == 0;
    ten_outbox_init(&sink->outbox);
    int r = ten_redis_thread_open(&sink->thread, config, text, error);
    sink->thread.side.backoff_max_ms = BACKOFF_MS;
    if (r == TENURE_OK && !(sink->name = ten_strdup(strchr(text, ':') + 1)))
        r = ten_fail_memory(error, "the sink %s", text);
    if (r == TENURE_OK)
        r = ten_message_name_check(sink->name, error);
    if (r == TENURE_OK)
        r = ten_redis_thread_start(&sink->thread, run, free_sink, error);
    if (r < 0)
        free_sink(&sink->thread.side);
    else
        *ret_self = sink;
    return r;
}

static void take_event(void *self, ten_sink_event *ret_event) {
    struct redis_sink *sink = self;
    ten_outbox_take_event(&sink->outbox, ret_event);
}

static void close_sink(void *self, uint64_t flush_ms, ten_sink_event *ret_event) {
    struct redis_sink *sink = self;
    ten_side_thread_stop(&sink->thread.side, flush_ms);
    take_event(sink, ret_event);
    ret_event->dropped += ten_outbox_count(&sink->outbox);
    ten_side_thread_detach(&sink->thread.side);
}

const ten_sink_ops ten_sink_redis_ops = {.open = open_sink, .close = close_sink, .put = put, .take_event = take_event};
