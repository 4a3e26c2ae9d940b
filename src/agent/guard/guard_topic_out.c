/*
 * What passes a guard's filter, to a topic of a broker. Called by guard_lines.c and guard_topic.c through guard_out.h.
 * Each flush ends when the broker has confirmed everything; what was not confirmed when a connection broke is sent
 * again with the next.
 */
#include <string.h>

#include "agent/guard/guard_broker.h"
#include "agent/guard/guard_topic.h"
#include "base/alloc.h"
#include "base/clock.h"

#define WINDOW    64u   /* messages that are not confirmed yet, at most */
#define JUDGED_MS 1000u /* one that was judged longer ago than that is judged again before it is sent */
#define TRIES_MAX 5u    /* a message that was sent alone and ended the connection so often is what ends it */

struct letter {
    char *topic; /* these three in one piece of memory; NULL: it has been dealt with */
    char *target;
    char *data;
    size_t size;
    uint64_t message; /* its number for the log */
    uint64_t token;
    uint64_t judged_ms;
    uint64_t sent_ms;
    int number; /* the connection's */
};

struct topic_out {
    ten_guard_out out;
    ten_guard_filter *filter;
    const char *namespace_name;
    ten_guard_broker broker;
    struct letter letters[TEN_GUARD_FILTER_BATCH];
    size_t count;
    size_t first;   /* those before it have been dealt with */
    size_t next;    /* those from here on have not been sent */
    unsigned tries; /* of the first one */
    bool no_memory;
};

/* ---- letters */

static void put(ten_guard_out *self, const ten_guard_filter_message *message) {
    struct topic_out *out = (struct topic_out *)self;
    const ten_message named = {.namespace_name = out->namespace_name, .target = message->target, .instance = ""};
    ten_buf topic = {0};
    ten_mqtt_topic(&out->broker.settings, &named, &topic);
    size_t size = message->size;
    if (message->is_line && size > 0 && message->data[size - 1] == '\n')
        size--;
    size_t target_size = strlen(message->target) + 1;
    char *memory = topic.failed ? NULL : ten_malloc(topic.size + 1 + target_size + size);
    TEN_INVARIANT(out->count < TEN_GUARD_FILTER_BATCH);
    out->no_memory |= !memory;
    if (memory) {
        struct letter *letter = &out->letters[out->count++];
        *letter = (struct letter){.topic = memory,
                                  .size = size,
                                  .message = message->number,
                                  .token = message->token,
                                  .judged_ms = ten_now_ms()};
        letter->target = memory + topic.size + 1;
        letter->data = letter->target + target_size;
        memcpy(memory, ten_buf_string(&topic), topic.size + 1);
        memcpy(letter->target, message->target, target_size);
        memcpy(letter->data, message->data, size);
    }
    ten_buf_free(&topic);
}

static void pass_finished(struct topic_out *out) {
    while (out->first < out->next && !out->letters[out->first].topic) {
        out->first++;
        out->tries = 0;
    }
}

static void finish(struct topic_out *out, struct letter *letter) {
    ten_free(letter->topic);
    letter->topic = NULL;
    pass_finished(out);
}

static void drop(struct topic_out *out, struct letter *letter, const char *why) {
    ten_guard_filter_not_taken(out->filter, letter->message, letter->target, why);
    finish(out, letter);
}

static void clear(struct topic_out *out) {
    for (size_t i = 0; i < out->count; i++)
        ten_free(out->letters[i].topic);
    out->count = out->first = out->next = out->tries = 0;
}

/* ---- sending */

static void confirm(int number, void *userdata) {
    struct topic_out *out = userdata;
    for (size_t i = out->first; i < out->next; i++) {
        struct letter *letter = &out->letters[i];
        if (letter->topic && letter->number == number) {
            finish(out, letter);
            return;
        }
    }
}

/* The connection has gone, and with it what was on its way. */
static void go_back(struct topic_out *out, bool suspect) {
    if (suspect && out->first < out->next && ++out->tries >= TRIES_MAX)
        drop(out, &out->letters[out->first], "the broker ends the connection each time it is sent");
    out->next = out->first;
}

/* While the broker was away the holder may have changed: what was current then would come after what is current now. */
static bool is_current(struct topic_out *out, struct letter *letter) {
    if (ten_now_ms() - letter->judged_ms < JUDGED_MS)
        return true;
    letter->judged_ms = ten_now_ms();
    return ten_guard_filter_still_passes(out->filter, letter->message, letter->target, letter->token);
}

/* Sends the next one. False: the connection has gone. */
static bool send_next(struct topic_out *out) {
    ten_error error;
    struct letter *letter = &out->letters[out->next++];
    if (!letter->topic) { /* confirmed by an earlier connection, out of order */
        pass_finished(out);
        return true;
    }
    if (!is_current(out, letter)) {
        finish(out, letter);
        return true;
    }
    letter->sent_ms = ten_now_ms();
    int r = ten_mqtt_link_publish(out->broker.link, letter->topic, letter->data, letter->size, &letter->number, &error);
    if (r == TENURE_E_INVALID) {
        drop(out, letter, error.message);
    } else if (r < 0) {
        ten_guard_broker_lose(&out->broker, &error);
        go_back(out, false);
        return false;
    }
    return true;
}

/* One with which a connection ended goes alone, so that it is known which one it was. */
static void hand_over(struct topic_out *out) {
    size_t window = out->tries > 0 ? 1 : WINDOW;
    while (out->next < out->count && out->next - out->first < window && !ten_mqtt_link_is_busy(out->broker.link))
        if (!send_next(out))
            return;
}

/* When the oldest one that is on its way has to be confirmed. */
static uint64_t overdue_ms(const struct topic_out *out) {
    if (out->first == out->next)
        return UINT64_MAX;
    return ten_add_saturating(out->letters[out->first].sent_ms, out->broker.settings.timeout_ms);
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
    while (out->first < out->count) {
        struct pollfd none = {.fd = -1};
        if (ten_now_ms() >= end_ms)
            return ten_fail(error, TENURE_E_CANCELLED,
                            "stopped while %s did not take the output: %zu messages were not passed on",
                            out->broker.settings.name, out->count - out->first);
        int ready = ten_guard_out_wait(self, &none, stop, end_ms);
        if (ready < 0)
            return ten_fail_errno(error, TENURE_E_SYSTEM, -ready, "cannot wait for the output");
        if (stop->asked && end_ms == UINT64_MAX)
            end_ms = ten_now_ms() + TEN_GUARD_FILTER_PATIENCE_MS;
    }
    clear(out);
    return TENURE_OK;
}

/* ---- the handle */

static void close_topic(ten_guard_out *self) {
    struct topic_out *out = (struct topic_out *)self;
    ten_guard_broker_free(&out->broker, out->first == out->count);
    clear(out);
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
    int r = ten_guard_broker_init(&out->broker, &calls, log, url, error);
    if (r < 0)
        close_topic(&out->out);
    else
        *ret_out = &out->out;
    return r;
}
