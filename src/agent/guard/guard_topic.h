/*
 * Topics of MQTT brokers as the input and the output of a guard's filter, both with QoS 1. Nothing is dropped because
 * it came too fast: while the output does not confirm what it was given, nothing is read from the input and nothing
 * acknowledged to its broker, which then keeps the rest, as it does for each slow subscriber. A message may come twice,
 * as always with QoS 1.
 */
#ifndef TEN_AGENT_GUARD_TOPIC_H
#define TEN_AGENT_GUARD_TOPIC_H

#include "agent/guard/guard_out.h"

#ifdef TEN_SINK_MQTT
/* Whether the URLs make sense, and do not lead round in a circle. Each may be NULL. */
int ten_guard_topic_check(const char *in_url, const char *out_url, const char *namespace_name, ten_error *error);

/* The filter, the log and the namespace's name must stay. */
int ten_guard_topic_open_out(ten_guard_filter *filter, ten_log *log, const char *namespace_name, const char *url,
                             ten_guard_out **ret_out, ten_error *error);

/* Until it is stopped: TENURE_OK; else the output's error. */
int ten_guard_topic_in(ten_guard_filter *filter, ten_log *log, const char *url, ten_guard_out *out,
                       ten_guard_filter_stop *stop, ten_error *error);
#else
static inline int ten_guard_topic_left_out(ten_error *error) {
    return ten_fail(error, TENURE_E_UNSUPPORTED, "mqtt:// was left out of this build: it needs libmosquitto");
}
#define ten_guard_topic_check(in_url, out_url, name, error)                                                            \
    ((in_url) || (out_url) ? ten_guard_topic_left_out(error) : 0)
#define ten_guard_topic_open_out(filter, log, name, url, ret_out, error) ten_guard_topic_left_out(error)
#define ten_guard_topic_in(filter, log, url, out, stop, error)           ten_guard_topic_left_out(error)
#endif

#endif
