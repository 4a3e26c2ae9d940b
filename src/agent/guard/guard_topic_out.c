/*
 * What passes a guard's filter, to a topic of a broker. Called by guard_lines.c and guard_topic.c through guard_out.h.
 * Each flush ends when the broker has confirmed everything; what was not confirmed when a connection broke is sent
 * again with the next.
 */
#include "agent/guard/guard_broker.h"
#include "agent/guard/guard_topic.h"
#include "agent/sinks/outbox.h"
#include "base/alloc.h"
#include "base/clock.h"

#define WINDOW    64u   /* messages that are not confirmed yet, at most */
#define JUDGED_MS 1000u /* one that was judged longer ago than that is judged again before it is sent */
#define TRIES_MAX 5u    /* a message that was sent alone and ended the connection so often is what ends it */

struct topic_out {
    ten_guard_out out;
    ten_guard_filter *filter;
    const char *namespace_name;
    ten_guard_broker broker;
    ten_outbox outbox;
    bool no_memory;
};

static void put(ten_guard_out *self, const ten_guard_filter_message *message) {
    struct topic_out *out = (struct topic_out *)self;
    const ten_message named = {
        .namespace_name = out->namespace_name, .target = message->target, .instance = "", .token = message->token};
    TEN_CLEANUP(ten_buf_free) ten_buf topic = {0};
    ten_mqtt_topic(&out->broker.settings, &named, &topic);
    size_t size = message->size;
    if (message->is_line && size > 0 && message->data[size - 1] == '\n')
        size--;
    ten_outgoing *outgoing = topic.failed ? NULL
                                          : ten_outbox_put(&out->outbox, ten_buf_string(&topic), &named, NULL,
                                                           UINT64_MAX, message->data, size);
    out->no_memory |= !outgoing;
    if (outgoing) {
        outgoing->message = message->number;
        outgoing->judged_ms = ten_now_ms();
    }
}

static void drop(struct topic_out *out, ten_outgoing *outgoing, const char *why) {
    ten_guard_filter_not_taken(out->filter, outgoing->message, outgoing->target, why);
    ten_outbox_finish(&out->outbox, outgoing, true);
}

/* ---- sending */

static void confirm(int number, void *userdata) {
    struct topic_out *out = userdata;
    (void)ten_outbox_confirm(&out->outbox, number);
}

/* The connection has gone, and with it what was on its way. */
static void go_back(struct topic_out *out, bool suspect) {
    ten_outgoing *first = TAILQ_FIRST(&out->outbox.sent);
    if (suspect && first && ++first->tries >= TRIES_MAX)
        drop(out, first, "the broker ends the connection each time it is sent");
    ten_outbox_go_back(&out->outbox);
}

/* While the broker was away the holder may have changed: what was current then would come after what is current now. */
static bool is_current(struct topic_out *out, ten_outgoing *outgoing) {
    if (ten_now_ms() - outgoing->judged_ms < JUDGED_MS)
        return true;
    outgoing->judged_ms = ten_now_ms();
    return ten_guard_filter_still_passes(out->filter, outgoing->message, outgoing->target, outgoing->token);
}

/* Sends the next one. False: the connection has gone. */
static bool send_next(struct topic_out *out) {
    ten_error error;
    ten_outgoing *outgoing = ten_outbox_send_next(&out->outbox);
    if (!is_current(out, outgoing)) {
        ten_outbox_finish(&out->outbox, outgoing, true);
        return true;
    }
    outgoing->sent_ms = ten_now_ms();
    int r = ten_mqtt_link_publish(out->broker.link, outgoing->name, outgoing->json, outgoing->json_size,
                                  &outgoing->number, &error);
    if (r == TENURE_E_INVALID) {
        drop(out, outgoing, error.message);
    } else if (r < 0) {
        ten_guard_broker_lose(&out->broker, &error);
        go_back(out, false);
        return false;
    }
    return true;
}

/* One with which a connection ended goes alone, so that it is known which one it was. */
static size_t window(const struct topic_out *out) {
    const ten_outgoing *first = TAILQ_FIRST(&out->outbox.sent);
    if (!first)
        first = TAILQ_FIRST(&out->outbox.waiting);
    return first && first->tries > 0 ? 1 : WINDOW;
}

static void hand_over(struct topic_out *out) {
    while (ten_outbox_has_waiting(&out->outbox) && out->outbox.sent_count < window(out) &&
           !ten_mqtt_link_is_busy(out->broker.link))
        if (!send_next(out))
            return;
}

/* When the oldest one that is on its way has to be confirmed. */
static uint64_t overdue_ms(const struct topic_out *out) {
    const ten_outgoing *first = TAILQ_FIRST(&out->outbox.sent);
    return first ? ten_add_saturating(first->sent_ms, out->broker.settings.timeout_ms) : UINT64_MAX;
}

static struct pollfd polled(ten_guard_out *self, uint64_t *until_ms) {
    struct topic_out *out = (struct topic_out *)self;
    if (out->broker.ready_ms)
        hand_over(out);
    struct pollfd wanted = ten_guard_broker_polled(&out->broker, until_ms);
    *until_ms = ten_min_u64(*until_ms, overdue_ms(out));
    return wanted;
}

static void work(ten_guard_out *self, short events) {
    struct topic_out *out = (struct topic_out *)self;
    ten_error error;
    if (!ten_guard_broker_work(&out->broker, events)) {
        go_back(out, true);
    } else if (ten_now_ms() >= overdue_ms(out)) {
        ten_fail(&error, TENURE_E_TIMEOUT, "%s did not confirm a message within %llu ms", out->broker.settings.name,
                 (unsigned long long)out->broker.settings.timeout_ms);
        ten_guard_broker_lose(&out->broker, &error);
        go_back(out, false);
    }
}

static int flush(ten_guard_out *self, ten_guard_filter_stop *stop, ten_error *error) {
    struct topic_out *out = (struct topic_out *)self;
    uint64_t end_ms = stop->asked ? ten_now_ms() + TEN_GUARD_FILTER_PATIENCE_MS : UINT64_MAX;
    if (out->no_memory)
        return ten_fail_memory(error, "the output");
    for (size_t left; (left = ten_outbox_count(&out->outbox)) > 0;) {
        struct pollfd none = {.fd = -1};
        if (ten_now_ms() >= end_ms)
            return ten_fail(error, TENURE_E_CANCELLED,
                            "stopped while %s did not take the output: %zu messages were not passed on",
                            out->broker.settings.name, left);
        int ready = ten_guard_out_wait(self, &none, stop, end_ms, error);
        if (ready < 0)
            return ready;
        if (stop->asked && end_ms == UINT64_MAX)
            end_ms = ten_now_ms() + TEN_GUARD_FILTER_PATIENCE_MS;
    }
    return TENURE_OK;
}

/* ---- the handle */

static void close_topic(ten_guard_out *self) {
    struct topic_out *out = (struct topic_out *)self;
    ten_guard_broker_free(&out->broker, ten_outbox_count(&out->outbox) == 0);
    ten_outbox_free(&out->outbox);
    ten_free(out);
}

static const ten_guard_out_ops topic_ops = {
    .put = put, .flush = flush, .polled = polled, .work = work, .close = close_topic};

int ten_guard_topic_open_out(ten_guard_filter *filter, ten_log *log, const char *namespace_name, const char *url,
                             ten_guard_out **ret_out, ten_error *error) {
    struct topic_out *out = ten_calloc(1, sizeof *out);
    if (!out)
        return ten_fail_memory(error, "the output");
    const ten_mqtt_calls calls = {.confirmed = confirm, .userdata = out};
    out->out.ops = &topic_ops;
    out->filter = filter;
    out->namespace_name = namespace_name;
    ten_outbox_init(&out->outbox);
    out->outbox.bytes_max = SIZE_MAX; /* it is as much as was read at once */
    int r = ten_guard_broker_init(&out->broker, &calls, log, url, error);
    if (r < 0)
        close_topic(&out->out);
    else
        *ret_out = &out->out;
    return r;
}
