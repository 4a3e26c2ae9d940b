/*
 * What the sinks share: the table of kinds, the handle, and the loop of a sink's thread. Called by the agent's loop.
 */
#include "agent/sinks/sink.h"

#include <string.h>

#include "base/alloc.h"
#include "base/url.h"

#define BACKOFF_MS 1000u /* messages do not last long: a longer pause would lose those that could still be sent */

#ifdef TEN_STORE_REDIS
#define REDIS_OPS &ten_sink_redis_ops
#else
#define REDIS_OPS NULL
#endif

#ifdef TEN_SINK_MQTT
#define MQTT_OPS &ten_sink_mqtt_ops
#else
#define MQTT_OPS NULL
#endif

/* A text that ends in a colon is followed by something. */
static const struct {
    const char *text;
    const ten_sink_ops *ops; /* NULL: left out of this build */
} kinds[] = {{"-", &ten_sink_lines_ops},   {"file:", &ten_sink_lines_ops},
             {"redis-stream:", REDIS_OPS}, {"redis-channel:", REDIS_OPS},
             {"mqtt:", MQTT_OPS},          {"mqtts:", MQTT_OPS}};

static int find_kind(const char *text, const ten_sink_ops **ret_ops, ten_error *error) {
    char shown[80];
    ten_url_redact(text, shown, sizeof shown);
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        size_t size = strlen(kinds[i].text);
        bool more = kinds[i].text[size - 1] == ':';
        if (strncmp(text, kinds[i].text, size) != 0 || more == (text[size] == '\0'))
            continue;
        *ret_ops = kinds[i].ops;
        return *ret_ops ? TENURE_OK
                        : ten_fail(error, TENURE_E_UNSUPPORTED, "the sink '%s' was left out of this build", shown);
    }
    return ten_fail(error, TENURE_E_INVALID,
                    "there is no sink '%s': write - for standard output, file:PATH, redis-stream:KEY, "
                    "redis-channel:NAME or mqtt://HOST/TOPIC/{target}",
                    shown);
}

/* ---- the thread */

static void run(ten_side_thread *thread) {
    ten_sink *sink = (ten_sink *)thread;
    while (!ten_side_thread_is_over(thread)) {
        ten_error error;
        if (ten_side_thread_is_stopping(thread) && ten_outbox_count(&sink->outbox) == 0)
            return;
        int r = sink->ops->step(sink, &error);
        if (r == TENURE_OK)
            continue;
        if (sink->ops->cut)
            sink->ops->cut(sink, r);
        ten_outbox_note_problem(&sink->outbox, &error);
        ten_outbox_go_back(&sink->outbox);
        ten_side_thread_back_off(thread);
        ten_outbox_drop_late(&sink->outbox);
    }
}

static void free_sink(ten_side_thread *thread) {
    ten_sink *sink = (ten_sink *)thread;
    sink->ops->free(sink);
    ten_outbox_free(&sink->outbox);
    ten_side_thread_close(thread);
    ten_free(sink);
}

/* ---- the handle */

int ten_sink_open(const char *text, const ten_agent_config *config, ten_sink **ret_sink, ten_error *error) {
    const ten_sink_ops *ops;
    int r = find_kind(text, &ops, error);
    if (r < 0)
        return r;
    ten_sink *sink = ten_calloc(1, ops->size);
    if (!sink)
        return ten_fail_memory(error, "the sink %s", text);
    sink->ops = ops;
    ten_side_thread_init(&sink->thread);
    sink->thread.backoff_max_ms = BACKOFF_MS;
    ten_outbox_init(&sink->outbox);
    r = ops->open(sink, text, config, error);
    TEN_STEP(r, ten_side_thread_start(&sink->thread, text, run, free_sink, error));
    if (r < 0)
        free_sink(&sink->thread);
    else
        *ret_sink = sink;
    return r;
}

void ten_sink_close(ten_sink *sink, uint64_t flush_ms, ten_sink_event *ret_event) {
    ten_side_thread_stop(&sink->thread, flush_ms);
    ten_outbox_take_event(&sink->outbox, ret_event);
    ret_event->dropped += ten_outbox_count(&sink->outbox);
    ten_side_thread_detach(&sink->thread);
}

bool ten_sink_put(ten_sink *sink, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                  size_t size) {
    TEN_CLEANUP(ten_buf_free) ten_buf name = {0};
    if (sink->ops->name)
        sink->ops->name(sink, message, &name);
    bool taken = !name.failed && ten_outbox_put(&sink->outbox, ten_buf_string(&name), message, receipt, ends_ms, line,
                                                sink->ops->name ? size - 1 : size);
    if (taken)
        ten_side_thread_wake(&sink->thread);
    return taken;
}

void ten_sink_reopen(ten_sink *sink) {
    if (sink->ops->reopen)
        sink->ops->reopen(sink);
}
