/*
 * Messages to an MQTT broker: a bounded queue, and a thread that hands them to the connection one by one, each within
 * the time of its lease. Called by way of sink.c.
 */
#include "agent/sinks/sink_mqtt.h"

#include <mosquitto.h>

#include "agent/common/mqtt_link.h"
#include "agent/common/side_thread.h"
#include "agent/sinks/outbox.h"
#include "base/alloc.h"
#include "base/clock.h"

#define WINDOW     64u   /* messages that are not confirmed yet, at most */
#define BACKOFF_MS 1000u /* messages do not last long: more would lose those that could still be sent */
#define TRIES_MAX  5u    /* a message with which the connection ended so often is what ends it */

struct mqtt_sink {
    ten_side_thread thread;
    ten_mqtt_settings settings;
    ten_outbox outbox;
    ten_mqtt_link *link; /* these are the thread's; NULL: not connected */
    uint64_t dialed_ms;
};

static bool put(void *self, const ten_message *message, ten_receipt *receipt, uint64_t ends_ms, const char *line,
                size_t size) {
    struct mqtt_sink *sink = self;
    ten_buf topic = {0};
    ten_mqtt_topic(&sink->settings, message, &topic);
    bool taken = !topic.failed &&
                 ten_outbox_put(&sink->outbox, ten_buf_string(&topic), message, receipt, ends_ms, line, size - 1);
    ten_buf_free(&topic);
    if (taken)
        ten_side_thread_wake(&sink->thread);
    return taken;
}

/* ---- sending */

static void confirm(int number, void *userdata) {
    struct mqtt_sink *sink = userdata;
    ten_outgoing *outgoing = sink->outbox.sent.first;
    while (outgoing && outgoing->number != number)
        outgoing = outgoing->next;
    if (!outgoing)
        return;
    ten_outbox_finish(&sink->outbox, outgoing, false);
    sink->thread.failures = 0;
}

/* As many as the connection takes at once: what it has not written yet could be written late. */
static int hand_over(struct mqtt_sink *sink, ten_error *error) {
    while (sink->outbox.sent_count < WINDOW && !ten_mqtt_link_is_busy(sink->link)) {
        ten_outgoing *outgoing = ten_outbox_send_next(&sink->outbox);
        if (!outgoing)
            return TENURE_OK;
        outgoing->sent_ms = ten_now_ms();
        int r = ten_mqtt_link_publish(sink->link, outgoing->name, outgoing->json, outgoing->json_size,
                                      &outgoing->number, error);
        if (r == TENURE_E_INVALID) {
            ten_outbox_note_problem(&sink->outbox, error);
            ten_outbox_finish(&sink->outbox, outgoing, true);
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
    for (const ten_outgoing *sent = sink->outbox.sent.first; sent; sent = sent->next) {
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
    for (const ten_outgoing *sent = sink->outbox.sent.first; sent; sent = sent->next) {
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

static int step(struct mqtt_sink *sink, ten_error *error) {
    int r = TENURE_OK;
    if (!sink->link) {
        const ten_mqtt_calls calls = {.confirmed = confirm, .userdata = sink};
        r = ten_mqtt_link_open(&sink->settings, &calls, &sink->link, error);
        sink->dialed_ms = ten_now_ms();
    }
    if (r == TENURE_OK && ten_mqtt_link_is_ready(sink->link))
        r = hand_over(sink, error);
    if (r == TENURE_OK) {
        uint64_t until_ms = ten_min_u64(look_ms(sink), atomic_load(&sink->thread.stop_ms));
        r = ten_mqtt_link_step(sink->link, sink->thread.wake_fd, until_ms, error);
        ten_side_thread_note_woken(&sink->thread);
    }
    return r == TENURE_OK ? fail_if_overdue(sink, error) : r;
}

/* A broker ends the connection of whoever sends more than it permits: such a message would hold up all others. */
static void count_try(struct mqtt_sink *sink) {
    ten_outgoing *first = sink->outbox.sent.first;
    if (first && ++first->tries >= TRIES_MAX)
        ten_outbox_finish(&sink->outbox, first, true);
}

static void go_back(struct mqtt_sink *sink, int r, const ten_error *error) {
    ten_mqtt_link_cut(sink->link);
    sink->link = NULL;
    if (r != TENURE_E_TIMEOUT)
        count_try(sink);
    ten_outbox_note_problem(&sink->outbox, error);
    ten_outbox_go_back(&sink->outbox);
    ten_side_thread_back_off(&sink->thread);
    ten_outbox_drop_late(&sink->outbox);
}

static void *run(void *arg) {
    struct mqtt_sink *sink = arg;
    while (!ten_side_thread_is_over(&sink->thread)) {
        ten_error error;
        if (ten_side_thread_is_stopping(&sink->thread) && ten_outbox_count(&sink->outbox) == 0)
            break;
        int r = step(sink, &error);
        if (r < 0)
            go_back(sink, r, &error);
    }
    if (ten_outbox_count(&sink->outbox) == 0)
        ten_mqtt_link_close(sink->link);
    else
        ten_mqtt_link_cut(sink->link);
    sink->link = NULL;
    ten_side_thread_end(&sink->thread);
    return NULL;
}

/* ---- the handle */

static void free_sink(ten_side_thread *thread) {
    struct mqtt_sink *sink = (struct mqtt_sink *)thread;
    ten_outbox_free(&sink->outbox);
    ten_mqtt_settings_free(&sink->settings);
    ten_side_thread_close(&sink->thread);
    ten_free(sink);
}

static int open_sink(const char *text, const ten_agent_config *config, void **ret_self, ten_error *error) {
    struct mqtt_sink *sink = ten_calloc(1, sizeof *sink);
    if (!sink || mosquitto_lib_init() != MOSQ_ERR_SUCCESS) {
        ten_free(sink);
        return ten_fail_memory(error, "an MQTT sink");
    }
    ten_side_thread_init(&sink->thread);
    sink->thread.backoff_max_ms = BACKOFF_MS;
    ten_outbox_init(&sink->outbox);
    int r = ten_mqtt_settings_read(text, config->context.ttl_ms, &sink->settings, error);
    if (r == TENURE_OK)
        r = ten_side_thread_start(&sink->thread, sink->settings.name, run, free_sink, error);
    if (r < 0)
        free_sink(&sink->thread);
    else
        *ret_self = sink;
    return r;
}

static void take_event(void *self, ten_sink_event *ret_event) {
    struct mqtt_sink *sink = self;
    ten_outbox_take_event(&sink->outbox, ret_event);
}

static void close_sink(void *self, uint64_t flush_ms, ten_sink_event *ret_event) {
    struct mqtt_sink *sink = self;
    ten_side_thread_stop(&sink->thread, flush_ms);
    take_event(sink, ret_event);
    ret_event->dropped += ten_outbox_count(&sink->outbox);
    ten_side_thread_detach(&sink->thread);
}

const ten_sink_ops ten_sink_mqtt_ops = {.open = open_sink, .close = close_sink, .put = put, .take_event = take_event};
