/*
 * One connection to an MQTT broker, by libmosquitto. It lives from one connect to the next failure: a connection that
 * is lost is closed for good and another one opened, because libmosquitto sends again by itself what was not confirmed
 * when it reconnects, however late. Never blocks but for the system's resolver. Called by sink_mqtt.c and
 * guard_broker.c, each in one thread.
 */
#ifndef TEN_AGENT_MQTT_LINK_H
#define TEN_AGENT_MQTT_LINK_H

#include <poll.h>

#include "agent/common/mqtt_settings.h"

typedef struct ten_mqtt_link ten_mqtt_link;

/* One of them is NULL: a link either publishes or subscribes. */
typedef struct ten_mqtt_calls {
    void (*confirmed)(int number, void *userdata);                      /* the broker has that message of ours */
    bool (*received)(const char *payload, size_t size, void *userdata); /* from the settings' topic; true: go on */
    void *userdata;
} ten_mqtt_calls;

/* Begins to connect, and to subscribe; the settings must stay. */
int ten_mqtt_link_open(const ten_mqtt_settings *settings, const ten_mqtt_calls *calls, ten_mqtt_link **ret_link,
                       ten_error *error);
/* Takes leave of the broker. */
void ten_mqtt_link_close(ten_mqtt_link *link);
/* Resets the connection: what the kernel has not sent yet is never sent. */
void ten_mqtt_link_cut(ten_mqtt_link *link);

/* The broker has accepted us, and our subscription. */
bool ten_mqtt_link_is_ready(const ten_mqtt_link *link);
/* It still has bytes of what it was given, and should not be given more. */
bool ten_mqtt_link_is_busy(const ten_mqtt_link *link);
/* Bytes of what it was given have not reached the broker's machine, as far as ours knows. */
bool ten_mqtt_link_has_unsent(const ten_mqtt_link *link);

/* Sends a message with QoS 1. TENURE_E_INVALID, TENURE_E_NOMEM: this message cannot be sent; anything else: the
 * connection is gone. */
int ten_mqtt_link_publish(ten_mqtt_link *link, const char *topic, const char *payload, size_t size, int *ret_number,
                          ten_error *error);

/* What a subscriber has received is acknowledged by this call, not before: until then nothing is written, not even a
 * ping, because libmosquitto keeps one queue. So it comes soon, or the broker takes us for dead (after 45 s). */
void ten_mqtt_link_acknowledge(ten_mqtt_link *link);

/* What to wait for, and how long at most. */
struct pollfd ten_mqtt_link_polled(const ten_mqtt_link *link);
#define TEN_MQTT_LOOK_MS 1000u
/* Reads and writes what can be, and looks whether a ping is due. An error: the connection is gone. */
int ten_mqtt_link_work(ten_mqtt_link *link, short events, ten_error *error);

/* Both: waits until something can be read or written, or wake_fd is readable, or until that time of the boot clock; and
 * does it. An error: the connection is gone. */
int ten_mqtt_link_step(ten_mqtt_link *link, int wake_fd, uint64_t until_ms, ten_error *error);

#endif
