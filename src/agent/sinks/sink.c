/*
 * Sinks for messages: the table of kinds. Called by the agent's loop.
 */
#include "agent/sinks/sink.h"

#include <string.h>

#include "agent/sinks/sink_lines.h"
#include "agent/sinks/sink_mqtt.h"
#include "agent/sinks/sink_redis.h"
#include "base/alloc.h"
#include "base/url.h"

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

struct ten_sink {
    const ten_sink_ops *ops;
    void *self;
};

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

int ten_sink_open(const char *text, const ten_agent_config *config, ten_sink **ret_sink, ten_error *error) {
    const ten_sink_ops *ops;
    int r = find_kind(text, &ops, error);
    if (r < 0)
        return r;
    ten_sink *sink = ten_calloc(1, sizeof *sink);
    if (!sink)
        return ten_fail_memory(error, "the sink %s", text);
    sink->ops = ops;
    r = ops->open(text, config, &sink->self, error);
    if (r < 0)
        ten_free(sink);
    else
        *ret_sink = sink;
    return r;
}

void ten_sink_close(ten_sink *sink, uint64_t flush_ms, ten_sink_event *ret_event) {
    sink->ops->close(sink->self, flush_ms, ret_event);
    ten_free(sink);
}

bool ten_sink_put(ten_sink *sink, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                  size_t size) {
    return sink->ops->put(sink->self, message, receipt, ends_ms, line, size);
}

void ten_sink_reopen(ten_sink *sink) {
    if (sink->ops->reopen)
        sink->ops->reopen(sink->self);
}

void ten_sink_take_event(ten_sink *sink, ten_sink_event *ret_event) {
    *ret_event = (ten_sink_event){0};
    if (sink->ops->take_event)
        sink->ops->take_event(sink->self, ret_event);
}
