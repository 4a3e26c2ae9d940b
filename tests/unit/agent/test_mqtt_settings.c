/*
 * The URL of an MQTT sink, and the topics of messages.
 */
#include "unit/unit.h"

#include "agent/common/mqtt_settings.h"

enum { TTL_MS = 8000 };

static char shown[1024];

/* Reads the URL; a text of its settings, or the error. */
static const char *read_url(const char *url) {
    ten_mqtt_settings settings;
    ten_error error;
    int r = ten_mqtt_settings_read(url, false, TTL_MS, &settings, &error);
    if (r == TENURE_OK)
        snprintf(shown, sizeof shown, "%s %d %s %s %llu", settings.host, settings.port,
                 settings.user ? settings.user : "-", settings.topic, (unsigned long long)settings.timeout_ms);
    else
        snprintf(shown, sizeof shown, "%s", error.message);
    ten_mqtt_settings_free(&settings);
    return shown;
}

/* The topic of that target in the namespace scenes. */
static const char *topic_of(const char *pattern, const char *target) {
    char url[256];
    ten_mqtt_settings settings;
    ten_error error;
    ten_buf topic = {0};
    const ten_message message = {.namespace_name = "scenes", .target = target, .instance = "i"};
    snprintf(url, sizeof url, "mqtt://host/%s", pattern);
    assert_int_equal(ten_mqtt_settings_read(url, false, TTL_MS, &settings, &error), TENURE_OK);
    ten_mqtt_topic(&settings, &message, &topic);
    assert_false(topic.failed);
    snprintf(shown, sizeof shown, "%s", ten_buf_string(&topic));
    ten_buf_free(&topic);
    ten_mqtt_settings_free(&settings);
    return shown;
}

TEST(a_url_names_broker_user_and_topic) {
    assert_string_equal(read_url("mqtt://broker/a"), "broker 1883 - a 2000");
    assert_string_equal(read_url("mqtts://broker/a/b"), "broker 8883 - a/b 2000");
    assert_string_equal(read_url("mqtt://me@broker:99/a?timeout=5s"), "broker 99 me a 5000");
    assert_string_equal(read_url("mqtt://[::1]/a"), "::1 1883 - a 2000");
    assert_string_equal(read_url("mqtt://[::1]:99//a"), "::1 99 - /a 2000");
    assert_string_equal(read_url("mqtt:///a"), "127.0.0.1 1883 - a 2000");
}

TEST(a_url_that_makes_no_sense_is_refused) {
    assert_contains(read_url("mqtt://broker"), "names no topic");
    assert_contains(read_url("mqtt://broker:x/a"), "a port is a number");
    assert_contains(read_url("mqtt://broker:65536/a"), "a port is a number");
    assert_contains(read_url("mqtt://[::1/a"), "is not the address");
    assert_contains(read_url("mqtt://[::1]x/a"), "is not the address");
    assert_contains(read_url("mqtt://broker/a%23"), "those are for subscribers");
    assert_contains(read_url("mqtt://broker/{targe}"), "a brace that means nothing");
    assert_contains(read_url("mqtt://broker/a?qos=2"), "has no option");
    assert_contains(read_url("mqtt://broker/%ff"), "not printable UTF-8");
}

TEST(a_password_in_a_url_is_refused_and_not_shown) {
    assert_contains(read_url("mqtt://me:secret@broker/a"), "password_file=PATH");
    assert_lacks(shown, "secret");
}

TEST(a_topic_is_filled_in) {
    assert_string_equal(topic_of("data/{target}", "scene-1"), "data/scene-1");
    assert_string_equal(topic_of("{namespace}/{target}/{target}", "s"), "scenes/s/s");
    assert_string_equal(topic_of("{{{target}}", "s"), "{s}");
    assert_string_equal(topic_of("plain", "s"), "plain");
}

TEST(wildcards_in_an_id_are_encoded) {
    assert_string_equal(topic_of("{target}", "a+b"), "a%2Bb");
    assert_string_equal(topic_of("{target}", "#%"), "%23%25");
    assert_string_equal(topic_of("{target}", "floor/2/~c:d@e"), "floor/2/~c:d@e");
}

/* The topic and the client's id of an input, or the error. */
static const char *read_input(const char *url) {
    ten_mqtt_settings settings;
    ten_error error;
    int r = ten_mqtt_settings_read(url, true, TTL_MS, &settings, &error);
    if (r == TENURE_OK)
        snprintf(shown, sizeof shown, "%s %s", settings.topic, settings.client_id ? settings.client_id : "-");
    else
        snprintf(shown, sizeof shown, "%s", error.message);
    ten_mqtt_settings_free(&settings);
    return shown;
}

TEST(an_input_has_a_topic_to_subscribe_to) {
    assert_string_equal(read_input("mqtt://broker/a"), "a -");
    assert_string_equal(read_input("mqtt://broker/+/a/{x}/+/#?client_id=me"), "+/a/{x}/+/# me");
    assert_string_equal(read_input("mqtt://broker/#"), "# -");
    assert_contains(read_input("mqtt://broker/"), "names no topic");
    assert_contains(read_input("mqtt://broker/a+"), "is none to subscribe to");
    assert_contains(read_input("mqtt://broker/+a"), "is none to subscribe to");
    assert_contains(read_input("mqtt://broker/a/#/b"), "is none to subscribe to");
    assert_contains(read_input("mqtt://broker/a/b#"), "is none to subscribe to");
    assert_contains(read_input("mqtt://broker/a?client_id="), "client_id is not");
    assert_contains(read_url("mqtt://broker/a?client_id=me"), "client_id");
}
