/*
 * Messages into a guard's filter from topics of a broker. Called by `tenure guard`. What has come is judged at once and
 * handed on, and only then acknowledged. guard_topic_out.c has the other side.
 */
#include "agent/guard/guard_topic.h"

#include <mosquitto.h>
#include <string.h>

#include "agent/guard/guard_broker.h"
#include "base/alloc.h"

struct topic_in {
    ten_guard_filter *filter;
    ten_guard_broker broker;
    ten_guard_out *out;
    ten_guard_filter_stop *stop;
    ten_error *error;
    ten_buf data; /* the messages, one behind the other */
    ten_guard_filter_message *messages;
    uint32_t count;
    uint32_t room;
    bool no_memory;
    uint64_t number; /* of the last message */
};

/* ---- receiving */

static bool receive(const char *payload, size_t size, void *userdata) {
    struct topic_in *in = userdata;
    in->number++;
    if (size > TEN_GUARD_FILTER_MESSAGE_MAX) {
        ten_guard_filter_too_long(in->filter, in->number);
        return true;
    }
    in->no_memory |= !TEN_GROW(in->messages, in->room, in->count + 1);
    if (in->no_memory)
        return false;
    in->messages[in->count++] = (ten_guard_filter_message){.size = size, .number = in->number};
    ten_buf_add(&in->data, payload, size);
    in->no_memory = in->data.failed;
    return in->count < TEN_GUARD_FILTER_BATCH && in->data.size < TEN_GUARD_FILTER_MESSAGE_MAX;
}

/* ---- handing on */

static int hand_on(struct topic_in *in) {
    const char *data = ten_buf_string(&in->data);
    int r = in->no_memory ? ten_fail_memory(in->error, "the messages") : TENURE_OK;
    for (size_t i = 0; i < in->count; data += in->messages[i++].size)
        in->messages[i].data = data;
    for (size_t i = 0; r == TENURE_OK && i < in->count; i += TEN_GUARD_FILTER_BATCH)
        r = ten_guard_out_pass(in->out, in->filter, &in->messages[i],
                               ten_min_u64(in->count - i, TEN_GUARD_FILTER_BATCH), in->stop, in->error);
    in->count = 0;
    ten_buf_clear(&in->data);
    return r;
}

static int pass_on(struct topic_in *in) {
    int r = TENURE_OK;
    while (r == TENURE_OK && !in->stop->asked) {
        uint64_t until_ms = UINT64_MAX;
        struct pollfd input = ten_guard_broker_polled(&in->broker, &until_ms);
        int ready = ten_guard_out_wait(in->out, &input, in->stop, until_ms, in->error);
        if (ready < 0)
            return ready;
        uint64_t before = in->number;
        (void)ten_guard_broker_work(&in->broker, ready ? input.revents : 0);
        if (in->number == before)
            continue;
        r = hand_on(in);
        /* When the connection broke meanwhile they come again, to those who have a client_id. */
        if (r == TENURE_OK && in->broker.link)
            ten_mqtt_link_acknowledge(in->broker.link);
    }
    return r;
}

int ten_guard_topic_in(ten_guard_filter *filter, ten_log *log, const char *url, ten_guard_out *out,
                       ten_guard_filter_stop *stop, ten_error *error) {
    struct topic_in in = {.filter = filter, .out = out, .stop = stop, .error = error};
    const ten_mqtt_calls calls = {.received = receive, .userdata = &in};
    int r = ten_guard_broker_init(&in.broker, &calls, log, url, error);
    TEN_STEP(r, pass_on(&in));
    ten_guard_broker_free(&in.broker, r == TENURE_OK);
    ten_free(in.messages);
    ten_buf_free(&in.data);
    return r;
}

/* ---- what can be said before anything is opened */

/* A topic that the output may have, judged by targets of one and of two levels. */
static bool leads_back(const ten_mqtt_settings *in, const ten_mqtt_settings *out, const char *namespace_name) {
    static const char *const targets[] = {"t", "t/u"};
    bool matches = false;
    if (strcmp(in->name, out->name) != 0)
        return false;
    for (size_t i = 0; i < TEN_COUNT(targets) && !matches; i++) {
        const ten_message message = {.namespace_name = namespace_name, .target = targets[i], .instance = ""};
        ten_buf topic = {0};
        ten_mqtt_topic(out, &message, &topic);
        (void)mosquitto_topic_matches_sub(in->topic, ten_buf_string(&topic), &matches);
        ten_buf_free(&topic);
    }
    return matches;
}

int ten_guard_topic_check(const char *in_url, const char *out_url, const char *namespace_name, ten_error *error) {
    ten_mqtt_settings in = {0};
    ten_mqtt_settings out = {0};
    int r = in_url ? ten_mqtt_settings_read(in_url, true, 0, &in, error) : TENURE_OK;
    if (r == TENURE_OK && out_url)
        r = ten_mqtt_settings_read(out_url, false, 0, &out, error);
    if (r == TENURE_OK && in_url && out_url && leads_back(&in, &out, namespace_name))
        r = ten_fail(error, TENURE_E_INVALID,
                     "the output's topic is one of the input's: what passes would come in again");
    ten_mqtt_settings_free(&in);
    ten_mqtt_settings_free(&out);
    return r;
}
