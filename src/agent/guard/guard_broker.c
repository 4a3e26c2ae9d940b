/*
 * The connection of a guard's input or output to an MQTT broker.
 */
#include "agent/guard/guard_broker.h"

#include <mosquitto.h>

#include "base/clock.h"
#include "base/random.h"

#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 5000u
#define TTL_MS         30000u /* the guard holds no lease; the timeout of an answer is that of a common one */

int ten_guard_broker_init(ten_guard_broker *broker, const ten_mqtt_calls *calls, ten_log *log, const char *url,
                          ten_error *error) {
    *broker = (ten_guard_broker){.calls = *calls, .log = log};
    if (mosquitto_lib_init() != MOSQ_ERR_SUCCESS)
        return ten_fail_memory(error, "a connection to a broker");
    return ten_mqtt_settings_read(url, calls->received != NULL, TTL_MS, &broker->settings, error);
}

void ten_guard_broker_free(ten_guard_broker *broker, bool in_order) {
    if (in_order)
        ten_mqtt_link_close(broker->link);
    else
        ten_mqtt_link_cut(broker->link);
    broker->link = NULL;
    ten_mqtt_settings_free(&broker->settings);
}

/* A connection that lasted was no failure of the attempt; one that the broker ends each time was. */
void ten_guard_broker_lose(ten_guard_broker *broker, const ten_error *error) {
    uint64_t now = ten_now_ms();
    if (broker->ready_ms && now - broker->ready_ms >= BACKOFF_MAX_MS)
        broker->failures = 0;
    ten_mqtt_link_cut(broker->link);
    broker->link = NULL;
    broker->ready_ms = 0;
    uint64_t longest_ms = ten_min_u64((uint64_t)BACKOFF_MIN_MS << ten_min_u64(broker->failures++, 10), BACKOFF_MAX_MS);
    broker->dialed_ms = now + longest_ms / 2 + ten_random_u64() % (longest_ms / 2);
    if (!broker->is_told)
        TEN_LOG(broker->log, TEN_LOG_WARN, broker->calls.received ? "input_failed" : "output_failed",
                TEN_TEXT("error", error->message));
    broker->is_told = true;
}

static void dial(ten_guard_broker *broker) {
    ten_error error;
    broker->dialed_ms = ten_now_ms();
    if (ten_mqtt_link_open(&broker->settings, &broker->calls, &broker->link, &error) < 0)
        ten_guard_broker_lose(broker, &error);
}

struct pollfd ten_guard_broker_polled(ten_guard_broker *broker, uint64_t *until_ms) {
    if (!broker->link && ten_now_ms() >= broker->dialed_ms)
        dial(broker);
    if (!broker->link) {
        *until_ms = ten_min_u64(*until_ms, broker->dialed_ms);
        return (struct pollfd){.fd = -1};
    }
    *until_ms = ten_min_u64(*until_ms, ten_now_ms() + TEN_MQTT_LOOK_MS);
    if (!broker->ready_ms)
        *until_ms = ten_min_u64(*until_ms, ten_add_saturating(broker->dialed_ms, broker->settings.timeout_ms));
    return ten_mqtt_link_polled(broker->link);
}

static void note_ready(ten_guard_broker *broker) {
    broker->ready_ms = ten_now_ms();
    if (broker->is_told)
        TEN_LOG(broker->log, TEN_LOG_INFO, broker->calls.received ? "input_ok" : "output_ok",
                TEN_TEXT("broker", broker->settings.name));
    broker->is_told = false;
}

bool ten_guard_broker_work(ten_guard_broker *broker, short events) {
    ten_error error;
    if (!broker->link)
        return false;
    int r = ten_mqtt_link_work(broker->link, events, &error);
    if (r == TENURE_OK && !broker->ready_ms && ten_mqtt_link_is_ready(broker->link))
        note_ready(broker);
    if (r == TENURE_OK && !broker->ready_ms &&
        ten_now_ms() >= ten_add_saturating(broker->dialed_ms, broker->settings.timeout_ms))
        r = ten_fail(&error, TENURE_E_TIMEOUT, "%s did not answer within %llu ms", broker->settings.name,
                     (unsigned long long)broker->settings.timeout_ms);
    if (r < 0)
        ten_guard_broker_lose(broker, &error);
    return r == TENURE_OK;
}
