/*
 * The URL of an MQTT sink: mqtt://[user@]host[:port]/topic, mqtts:// with TLS. In the topic {target} and {namespace}
 * stand for the message's own, and {{ for a brace. Options: password_file, ca_file, cert_file, key_file, timeout.
 * The URL of an MQTT input is the same, but its topic is a subscriber's, with + and # and without braces that mean
 * anything, and there is the option client_id.
 */
#ifndef TEN_AGENT_MQTT_SETTINGS_H
#define TEN_AGENT_MQTT_SETTINGS_H

#include "agent/common/endpoint.h"
#include "agent/common/message.h"

typedef struct ten_mqtt_settings {
    bool tls;
    char *host;
    int port;
    char *user;      /* NULL: none */
    char *topic;     /* with its braces, or with its + and # */
    char *client_id; /* NULL: none, and the broker forgets us when the connection ends */
    char *name;      /* of the broker, for messages: mqtt://host:port */
    ten_url_files endpoint;
    uint64_t timeout_ms; /* for being connected, and for each confirmation */
} ten_mqtt_settings;

/* Of a sink, or of an input. To be freed whatever comes of them. */
int ten_mqtt_settings_read(const char *text, bool input, uint64_t ttl_ms, ten_mqtt_settings *settings,
                           ten_error *error);
void ten_mqtt_settings_free(ten_mqtt_settings *settings);

/* The topic of a message. What a subscriber could take for a wildcard is percent-encoded: + as %2B. A / in an id stays
 * what it is, a level of the topic. */
void ten_mqtt_topic(const ten_mqtt_settings *settings, const ten_message *message, ten_buf *topic);

#endif
