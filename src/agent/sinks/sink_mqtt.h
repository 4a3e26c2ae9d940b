/*
 * The sink mqtt://[user@]host[:port]/topic/{target}, and mqtts:// with TLS, always verified: each message is published
 * with QoS 1, not retained (mqtt_settings.h has the URL).
 *
 * A message is sent at least once while its lease lasts: when a connection breaks, what was not confirmed is sent
 * again, in the same order. What cannot be sent before the lease ends is dropped, never sent late; when the lease ends
 * while bytes of a message are still on this side, the connection is reset, and they with it. What has reached the
 * machine of a broker that hangs can still come into effect when it goes on; receivers that must not take it compare
 * tokens, as always. A broker of MQTT 3.1.1 does not tell when it permits nobody to publish on a topic.
 */
#ifndef TEN_AGENT_SINK_MQTT_H
#define TEN_AGENT_SINK_MQTT_H

#include "agent/sinks/sink.h"

extern const ten_sink_ops ten_sink_mqtt_ops;

#endif
