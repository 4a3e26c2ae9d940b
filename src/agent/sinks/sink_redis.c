/*
 * Messages to a Redis, in batches. Called by sink.c.
 */
#include "agent/sinks/sink.h"

#include <string.h>
#include <sys/socket.h>

#include "agent/common/redis_client.h"
#include "base/alloc.h"

#define BATCH_COUNT  128u /* what one loss of the connection leaves unconfirmed at most */
#define BATCH_BYTES  ((size_t)256 * 1024)
#define STREAM_ABOUT "100000" /* entries that a stream is cut to, about */

struct redis_sink {
    ten_sink sink;
    ten_redis_client redis;
    bool to_stream;
    char *name; /* with its braces */
};

static void name(const ten_sink *self, const ten_message *message, ten_buf *name) {
    ten_message_name(((const struct redis_sink *)self)->name, message, "", name);
}

/* ---- sending */

static int send_one(struct redis_sink *sink, const ten_outgoing *outgoing, ten_error *error) {
    char token[24];
    snprintf(token, sizeof token, "%llu", (unsigned long long)outgoing->token);
    const char *add[] = {"XADD",     outgoing->name, "MAXLEN",         "~",           STREAM_ABOUT,
                         "*",        "target",       outgoing->target, "instance",    outgoing->instance,
                         "_version", token,          "message",        outgoing->json};
    const char *publish[] = {"PUBLISH", outgoing->name, outgoing->json};
    const char *const *words = sink->to_stream ? add : publish;
    size_t count = sink->to_stream ? TEN_COUNT(add) : TEN_COUNT(publish);
    size_t sizes[TEN_COUNT(add)];
    for (size_t i = 0; i + 1 < count; i++)
        sizes[i] = strlen(words[i]);
    sizes[count - 1] = outgoing->json_size;
    return ten_redis_link_send(sink->redis.link, count, words, sizes, error);
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
    while (r == TENURE_OK && sink->sink.outbox.sent_count < BATCH_COUNT && bytes < BATCH_BYTES) {
        const ten_outgoing *outgoing = ten_outbox_send_next(&sink->sink.outbox);
        if (!outgoing)
            break;
        bytes += outgoing->bytes;
        r = send_one(sink, outgoing, error);
    }
    return r;
}

static int take_answers(struct redis_sink *sink, ten_error *error) {
    ten_outbox *outbox = &sink->sink.outbox;
    for (ten_outgoing *first; (first = TAILQ_FIRST(&outbox->sent));) {
        redisReply *reply;
        uint64_t until_ms = ten_min_u64(ten_redis_client_deadline_ms(&sink->redis), ten_outbox_sent_until_ms(outbox));
        int r = ten_redis_link_receive(sink->redis.link, until_ms, &reply, error);
        if (r < 0)
            return r;
        int refusal = reply->type == REDIS_REPLY_ERROR ? ten_redis_refusal(reply, "publishing a message", error) : 0;
        freeReplyObject(reply);
        if (refusal < 0)
            ten_outbox_note_problem(outbox, error);
        else
            sink->sink.thread.failures = 0;
        if (is_worth_another_try(refusal))
            return refusal;
        ten_outbox_finish(outbox, first, refusal < 0);
    }
    return TENURE_OK;
}

static int step(ten_sink *self, ten_error *error) {
    struct redis_sink *sink = (struct redis_sink *)self;
    if (!ten_outbox_has_waiting(&self->outbox)) {
        ten_side_thread_wait(&self->thread, UINT64_MAX);
        return TENURE_OK;
    }
    int r = ten_redis_client_connect(&sink->redis, error);
    TEN_STEP(r, send_batch(sink, error));
    return r == TENURE_OK ? take_answers(sink, error) : r;
}

/* What the kernel has not sent yet is never sent. */
static void cut(ten_sink *self, int error) {
    struct redis_sink *sink = (struct redis_sink *)self;
    const struct linger at_once = {.l_onoff = 1};
    (void)error;
    if (sink->redis.link)
        (void)setsockopt(ten_redis_link_fd(sink->redis.link), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ten_redis_client_disconnect(&sink->redis);
}

/* ---- the handle */

static int open_sink(ten_sink *self, const char *text, const ten_agent_config *config, ten_error *error) {
    struct redis_sink *sink = (struct redis_sink *)self;
    sink->to_stream = strncmp(text, "redis-stream:", 13) == 0;
    int r = ten_redis_client_open(&sink->redis, &self->thread, config, text, error);
    if (r == TENURE_OK && !(sink->name = ten_strdup(strchr(text, ':') + 1)))
        r = ten_fail_memory(error, "the sink %s", text);
    return r == TENURE_OK ? ten_message_name_check(sink->name, error) : r;
}

static void free_sink(ten_sink *self) {
    struct redis_sink *sink = (struct redis_sink *)self;
    ten_free(sink->name);
    ten_redis_client_close(&sink->redis);
}

const ten_sink_ops ten_sink_redis_ops = {
    .size = sizeof(struct redis_sink), .open = open_sink, .free = free_sink, .name = name, .step = step, .cut = cut};
