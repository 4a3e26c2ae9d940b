/*
 * See etcd_settings.h. Called by etcd.c; it does no network.
 */
#include "store/etcd/etcd_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"

#define PASSWORD_MAX 1024u

static bool is_encrypted(const ten_url *url) {
    return strcmp(url->scheme, "etcds") == 0 || ten_url_option(url, "ca_file") || ten_url_option(url, "cert_file");
}

/* ten_url_parse() has seen that it is a good one. */
static bool has_port(const char *host, size_t size) {
    const char *end = host[0] == '[' ? memchr(host, ']', size) : host;
    return end && memrchr(end, ':', size - (size_t)(end - host));
}

static int add_endpoint(ten_etcd_settings *settings, bool encrypted, const char *host, size_t size, ten_error *error) {
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID, "an etcd URL has an empty host: etcd://host:2379,host:2379");
    if (settings->endpoint_count == TEN_ETCD_ENDPOINTS_MAX)
        return ten_fail(error, TENURE_E_INVALID, "an etcd URL names at most %u hosts", TEN_ETCD_ENDPOINTS_MAX);
    ten_buf endpoint = {0};
    ten_buf_format(&endpoint, "%s://%.*s%s", encrypted ? "https" : "http", (int)size, host,
                   has_port(host, size) ? "" : ":2379");
    if (endpoint.failed) {
        ten_buf_free(&endpoint);
        return ten_fail_memory(error, "the settings of an etcd store");
    }
    settings->endpoints[settings->endpoint_count++] = endpoint.data;
    return TENURE_OK;
}

static int read_hosts(const ten_url *url, ten_etcd_settings *settings, ten_error *error) {
    if (!url->hosts || url->hosts[0] == '\0')
        return ten_fail(error, TENURE_E_INVALID,
                        "which etcd? A store URL looks like etcd://127.0.0.1:2379,127.0.0.2:2379");
    bool encrypted = is_encrypted(url);
    int r = TENURE_OK;
    for (const char *at = url->hosts; r == TENURE_OK; at++) {
        size_t size = strcspn(at, ",");
        r = add_endpoint(settings, encrypted, at, size, error);
        at += size;
        if (*at == '\0')
            break;
    }
    return r;
}

static int read_prefix(const ten_url *url, ten_etcd_settings *settings, ten_error *error) {
    const char *path = url->path;
    while (*path == '/')
        path++;
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/')
        size--;
    if (size > TEN_ETCD_PREFIX_MAX)
        return ten_fail(error, TENURE_E_INVALID, "an etcd URL's path, the prefix of every key, has at most %u bytes",
                        TEN_ETCD_PREFIX_MAX);
    snprintf(settings->prefix, sizeof settings->prefix, "%.*s", size ? (int)size : 6, size ? path : "tenure");
    return TENURE_OK;
}

static int read_password(const ten_url *url, ten_etcd_settings *settings, ten_error *error) {
    const char *file = ten_url_option(url, "password_file");
    char text[PASSWORD_MAX] = "";
    bool named = url->user && url->user[0] != '\0';
    if (!named && (url->password || file))
        return ten_fail(error, TENURE_E_INVALID, "an etcd URL with a password names its user: etcd://user@host:2379");
    if (!named)
        return TENURE_OK;
    ssize_t size = file ? ten_read_line(file, text, sizeof text) : 0;
    if (size < 0)
        return ten_fail_errno(error, TENURE_E_INVALID, (int)-size, "cannot read the password from %s", file);
    if (!file && !url->password)
        return ten_fail(error, TENURE_E_INVALID,
                        "the etcd user %s has no password: put it into a file, and name that by password_file=PATH",
                        url->user);
    settings->user = ten_strdup(url->user);
    settings->password = ten_strdup(file ? text : url->password);
    explicit_bzero(text, sizeof text);
    return settings->user && settings->password ? TENURE_OK : ten_fail_memory(error, "the settings of an etcd store");
}

int ten_etcd_settings_read(const ten_url *url, ten_etcd_settings *settings, ten_error *error) {
    static const char *const options[] = {"ca_file", "cert_file", "key_file", "password_file", "timeout", NULL};
    int r = ten_url_check_options(url, options, error);
    if (r == TENURE_OK)
        r = read_hosts(url, settings, error);
    if (r == TENURE_OK)
        r = read_prefix(url, settings, error);
    if (r == TENURE_OK)
        r = read_password(url, settings, error);
    return r == TENURE_OK ? ten_url_files_read(url, NULL, &settings->files, error) : r;
}

void ten_etcd_settings_free(ten_etcd_settings *settings) {
    for (size_t i = 0; i < settings->endpoint_count; i++)
        ten_free(settings->endpoints[i]);
    if (settings->password)
        explicit_bzero(settings->password, strlen(settings->password));
    ten_free(settings->user);
    ten_free(settings->password);
    ten_url_files_free(&settings->files);
}
