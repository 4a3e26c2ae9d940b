/*
 * Messages to an MQTT broker, handed to the connection one by one, each within the time of its lease. Called by sink.c.
 */
#include "agent/sinks/sink.h"

#include <mosquitto.h>

#include "agent/common/mqtt_link.h"
#include "base/clock.h"

#define WINDOW    64u /* messages that are not confirmed yet, at most */
#define TRIES_MAX 5u  /* a message with which the connection ended so often is what ends it */

struct mqtt_sink {
    ten_sink sink;
    ten_mqtt_settings settings;
    ten_mqtt_link *link; /* these are the thread's; NULL: not connected */
    uint64_t dialed_ms;
};

static void name(const ten_sink *self, const ten_message *message, ten_buf *topic) {
    ten_mqtt_topic(&((const struct mqtt_sink *)self)->settings, message, topic);
}

/* ---- sending */

static void confirm(int number, void *userdata) {
    struct mqtt_sink *sink = userdata;
    if (ten_outbox_confirm(&sink->sink.outbox, number))
        sink->sink.thread.failures = 0;
}

/* As many as the connection takes at once: what it has not written yet could be written late. */
static int hand_over(struct mqtt_sink *sink, ten_error *error) {
    while (sink->sink.outbox.sent_count < WINDOW && !ten_mqtt_link_is_busy(sink->link)) {
        ten_outgoing *outgoing = ten_outbox_send_next(&sink->sink.outbox);
        if (!outgoing)
            return TENURE_OK;
        outgoing->sent_ms = ten_now_ms();
        int r = ten_mqtt_link_publish(sink->link, outgoing->name, outgoing->json, outgoing->json_size,
                                      &outgoing->number, error);
        if (r == TENURE_E_INVALID) {
            ten_outbox_note_problem(&sink->sink.outbox, error);
            ten_outbox_finish(&sink->sink.outbox, outgoing, true);
        } else if (r < 0) {
            return r;
        }
    }
    return TENURE_OK;
}

/* When a message may next be overdue. */
static uint64_t look_ms(const struct mqtt_sink *sink) {
    uint64_t now = ten_now_ms();
    uint64_t timeout_ms = sink->settings.timeout_ms;
    uint64_t next_ms =
        ten_mqtt_link_is_ready(sink->link) ? UINT64_MAX : ten_add_saturating(sink->dialed_ms, timeout_ms);
    const ten_outgoing *sent;
    TAILQ_FOREACH(sent, &sink->sink.outbox.sent, link) {
        next_ms = ten_min_u64(next_ms, ten_add_saturating(sent->sent_ms, timeout_ms));
        if (sent->ends_ms > now)
            next_ms = ten_min_u64(next_ms, sent->ends_ms);
    }
    return next_ms;
}

static int fail_if_overdue(const struct mqtt_sink *sink, ten_error *error) {
    const char *name = sink->settings.name;
    uint64_t now = ten_now_ms();
    uint64_t timeout_ms = sink->settings.timeout_ms;
    bool silent = !ten_mqtt_link_is_ready(sink->link) && now >= ten_add_saturating(sink->dialed_ms, timeout_ms);
    bool late = false;
    const ten_outgoing *sent;
    TAILQ_FOREACH(sent, &sink->sink.outbox.sent, link) {
        silent |= now >= ten_add_saturating(sent->sent_ms, timeout_ms);
        late |= now >= sent->ends_ms;
    }
    if (silent)
        return ten_fail(error, TENURE_E_TIMEOUT, "%s did not answer within %llu ms", name,
                        (unsigned long long)timeout_ms);
    if (late && ten_mqtt_link_has_unsent(sink->link))
        return ten_fail(error, TENURE_E_TIMEOUT, "%s did not take a message before its lease ended", name);
    return TENURE_OK;
}

static int step(ten_sink *self, ten_error *error) {
    struct mqtt_sink *sink = (struct mqtt_sink *)self;
    int r = TENURE_OK;
    if (!sink->link) {
        const ten_mqtt_calls calls = {.confirmed = confirm, .userdata = sink};
        r = ten_mqtt_link_open(&sink->settings, &calls, &sink->link, error);
        sink->dialed_ms = ten_now_ms();
    }
    if (r == TENURE_OK && ten_mqtt_link_is_ready(sink->link))
        r = hand_over(sink, error);
    if (r == TENURE_OK) {
        uint64_t until_ms = ten_min_u64(look_ms(sink), atomic_load(&sink->sink.thread.stop_ms));
        r = ten_mqtt_link_step(sink->link, sink->sink.thread.wake_fd, until_ms, error);
        ten_side_thread_note_woken(&sink->sink.thread);
    }
    return r == TENURE_OK ? fail_if_overdue(sink, error) : r;
}

/* A broker ends the connection of a client that sends more than it permits: such a message would hold up all others. */
static void count_try(struct mqtt_sink *sink) {
    ten_outgoing *first = TAILQ_FIRST(&sink->sink.outbox.sent);
    if (first && ++first->tries >= TRIES_MAX)
        ten_outbox_finish(&sink->sink.outbox, first, true);
}

static void cut(ten_sink *self, int error) {
    struct mqtt_sink *sink = (struct mqtt_sink *)self;
    ten_mqtt_link_cut(sink->link);
    sink->link = NULL;
    if (error != TENURE_E_TIMEOUT)
        count_try(sink);
}

/* ---- the handle */

static int open_sink(ten_sink *self, const char *text, const ten_agent_config *config, ten_error *error) {
    struct mqtt_sink *sink = (struct mqtt_sink *)self;
    if (mosquitto_lib_init() != MOSQ_ERR_SUCCESS)
        return ten_fail_memory(error, "an MQTT sink");
    return ten_mqtt_settings_read(text, false, config->runner.context.ttl_ms, &sink->settings, error);
}

static void free_sink(ten_sink *self) {
    struct mqtt_sink *sink = (struct mqtt_sink *)self;
    if (ten_outbox_count(&self->outbox) == 0)
        ten_mqtt_link_close(sink->link);
    else
        ten_mqtt_link_cut(sink->link);
    ten_mqtt_settings_free(&sink->settings);
}

const ten_sink_ops ten_sink_mqtt_ops = {
    .size = sizeof(struct mqtt_sink), .open = open_sink, .free = free_sink, .name = name, .step = step, .cut = cut};
