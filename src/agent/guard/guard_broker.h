/*
 * The connection of a guard's input or output to an MQTT broker: made again with backoff when it was lost, and what is
 * to be said about that in the log (input_failed, input_ok, output_failed, output_ok), once an outage. It knows no
 * messages. Called by guard_topic.c, from one loop for both.
 */
#ifndef TEN_AGENT_GUARD_BROKER_H
#define TEN_AGENT_GUARD_BROKER_H

#include "agent/common/mqtt_link.h"
#include "base/log.h"

typedef struct ten_guard_broker {
    ten_mqtt_settings settings;
    ten_mqtt_calls calls;
    ten_log *log;
    ten_mqtt_link *link; /* NULL: away */
    uint64_t dialed_ms;  /* also when the next attempt is due, while it is away */
    uint64_t ready_ms;   /* since when the broker has accepted us; 0: it has not */
    unsigned failures;   /* in a row */
    bool is_told;        /* that it is away */
} ten_guard_broker;

/* To be freed whatever comes of it. */
int ten_guard_broker_init(ten_guard_broker *broker, const ten_mqtt_calls *calls, ten_log *log, const char *url,
                          ten_error *error);
/* `in_order`: takes leave of the broker; else the connection is cut. */
void ten_guard_broker_free(ten_guard_broker *broker, bool in_order);

/* Connects when that is due. What to wait for; lowers *until_ms to when it has to be looked at again. */
struct pollfd ten_guard_broker_polled(ten_guard_broker *broker, uint64_t *until_ms);
/* Reads and writes. False: there is no connection, or none any more. */
bool ten_guard_broker_work(ten_guard_broker *broker, short events);
/* Gives the connection up. */
void ten_guard_broker_lose(ten_guard_broker *broker, const ten_error *error);

#endif
