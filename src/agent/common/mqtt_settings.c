/*
 * From the URL of an MQTT sink or input to its settings. Pure text, but for a look whether the files that it names can
 * be read. Called by sink_mqtt.c and guard_broker.c.
 */
#include "agent/common/mqtt_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define PORT          1883
#define TLS_PORT      8883
#define TOPIC_MAX     32768u /* bytes of the pattern; with what is filled in it stays under MQTT's 65535 */
#define CLIENT_ID_MAX 128u

/* host, host:port, [::1], [::1]:port; `hosts` is cut into pieces. */
static int read_place(char *hosts, ten_mqtt_settings *settings, ten_error *error) {
    char *host = hosts;
    char *after = hosts + strcspn(hosts, ":");
    if (hosts[0] == '[') {
        host = hosts + 1;
        after = strchr(hosts, ']');
        if (after)
            *after++ = '\0';
    }
    bool port = after && after[0] == ':';
    if (!after || (after[0] != '\0' && !port) || (port && strchr(after + 1, ':')) || strchr(hosts, ','))
        return ten_fail(error, TENURE_E_INVALID,
                        "'%.100s' is not the address of a broker: write mqtt://HOST:PORT, an IPv6 address as [::1]",
                        hosts);
    if (port)
        *after = '\0';
    settings->host = ten_strdup(host[0] ? host : "127.0.0.1");
    settings->port = settings->tls ? TLS_PORT : PORT;
    if (!settings->host)
        return ten_fail_memory(error, "the settings of an MQTT connection");
    if (port)
        settings->port = (int)strtol(after + 1, NULL, 10); /* ten_url_parse() has checked it */
    return TENURE_OK;
}

/* In a subscriber's topic a + or # is a level by itself, and a # the last one. */
static bool is_filter(const char *topic) {
    for (const char *at = topic; (at = strpbrk(at, "+#")); at++) {
        bool begins = at == topic || at[-1] == '/';
        if (!begins || (at[1] != '\0' && (at[0] == '#' || at[1] != '/')))
            return false;
    }
    return true;
}

static int check_topic(const char *topic, bool input, ten_error *error) {
    if (input && !is_filter(topic))
        return ten_fail(error, TENURE_E_INVALID,
                        "the topic '%.100s' is none to subscribe to: a + or # stands for whole levels, a # at the end",
                        topic);
    if (!input && topic[strcspn(topic, "+#")] != '\0')
        return ten_fail(error, TENURE_E_INVALID, "the topic '%.100s' has a + or #: those are for subscribers", topic);
    return input ? TENURE_OK : ten_message_name_check(topic, error);
}

static int read_topic(const char *path, bool input, ten_mqtt_settings *settings, ten_error *error) {
    const char *topic = path[0] == '/' ? path + 1 : path;
    const char *scheme = settings->tls ? "mqtts" : "mqtt";
    if (topic[0] == '\0')
        return ten_fail(error, TENURE_E_INVALID, "the %s %s names no topic: write %s://HOST/TOPIC/%s", scheme,
                        input ? "input" : "sink", scheme, input ? "+" : "{target}");
    if (strlen(topic) > TOPIC_MAX || !ten_utf8_is_printable(topic, strlen(topic)))
        return ten_fail(error, TENURE_E_INVALID, "the topic '%.40s...' is longer than %u bytes, or not printable UTF-8",
                        topic, TOPIC_MAX);
    int r = check_topic(topic, input, error);
    if (r == TENURE_OK && !(settings->topic = ten_strdup(topic)))
        r = ten_fail_memory(error, "the settings of an MQTT connection");
    return r;
}

static int read_client_id(const ten_url *url, ten_mqtt_settings *settings, ten_error *error) {
    const char *id = ten_url_option(url, "client_id");
    if (!id)
        return TENURE_OK;
    if (id[0] == '\0' || strlen(id) > CLIENT_ID_MAX || !ten_utf8_is_printable(id, strlen(id)))
        return ten_fail(error, TENURE_E_INVALID, "client_id is not 1 to %u bytes of printable UTF-8", CLIENT_ID_MAX);
    settings->client_id = ten_strdup(id);
    return settings->client_id ? TENURE_OK : ten_fail_memory(error, "the settings of an MQTT connection");
}

static int make_name(ten_mqtt_settings *settings, ten_error *error) {
    ten_buf name = {0};
    ten_buf_format(&name, strchr(settings->host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", settings->tls ? "mqtts" : "mqtt",
                   settings->host, settings->port);
    if (name.failed)
        ten_buf_free(&name);
    settings->name = name.data;
    return settings->name ? TENURE_OK : ten_fail_memory(error, "the settings of an MQTT connection");
}

static int read_url(ten_url *url, bool input, uint64_t ttl_ms, ten_mqtt_settings *settings, ten_error *error) {
    static const char *const known[] = {"client_id",     "ca_file", "cert_file", "key_file",
                                        "password_file", "timeout", NULL};
    settings->tls = strcmp(url->scheme, "mqtts") == 0;
    int r = ten_url_check_options(url, input ? known : known + 1, error);
    TEN_STEP(r, ten_endpoint_read(url, settings->tls, "password_file", &settings->endpoint, error));
    /* libmosquitto takes a certificate of ours only together with the CAs to be trusted. */
    if (r == TENURE_OK && settings->endpoint.cert_file && !settings->endpoint.ca_file)
        r = ten_fail(error, TENURE_E_INVALID,
                     "cert_file needs ca_file, too: the CA of the broker's certificate, or the file with the "
                     "system's CAs");
    TEN_STEP(r, ten_endpoint_timeout(url, ttl_ms, &settings->timeout_ms, error));
    TEN_STEP(r, read_place(url->hosts ? url->hosts : (char[]){""}, settings, error));
    TEN_STEP(r, read_topic(url->path, input, settings, error));
    TEN_STEP(r, read_client_id(url, settings, error));
    if (r == TENURE_OK && url->user && url->user[0] && !(settings->user = ten_strdup(url->user)))
        r = ten_fail_memory(error, "the settings of an MQTT connection");
    if (r == TENURE_OK && settings->endpoint.secret_file && !settings->user)
        r = ten_fail(error, TENURE_E_INVALID, "password_file needs a user: %s://USER@HOST/TOPIC", url->scheme);
    return r == TENURE_OK ? make_name(settings, error) : r;
}

int ten_mqtt_settings_read(const char *text, bool input, uint64_t ttl_ms, ten_mqtt_settings *settings,
                           ten_error *error) {
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    *settings = (ten_mqtt_settings){0};
    int r = ten_url_parse(text, &url, error);
    return r == TENURE_OK ? read_url(&url, input, ttl_ms, settings, error) : r;
}

void ten_mqtt_settings_free(ten_mqtt_settings *settings) {
    ten_free(settings->host);
    ten_free(settings->user);
    ten_free(settings->topic);
    ten_free(settings->client_id);
    ten_free(settings->name);
    ten_url_files_free(&settings->endpoint);
    *settings = (ten_mqtt_settings){0};
}

void ten_mqtt_topic(const ten_mqtt_settings *settings, const ten_message *message, ten_buf *topic) {
    ten_message_name(settings->topic, message, "+#%", topic);
}
