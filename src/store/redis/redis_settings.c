/*
 * From a URL to the settings of a connection. Pure text, but for a look whether the files that it names can be read.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/encode.h"
#include "store/redis/redis_link_state.h"

#define REDIS_PORT    6379u
#define SENTINEL_PORT 26379u
#define DATABASE_MAX  100000u

static int copy(const char *text, char **ret_copy, ten_error *error) {
    *ret_copy = text ? ten_strdup(text) : NULL;
    return text && !*ret_copy ? ten_fail_memory(error, "the settings of a Redis connection") : TENURE_OK;
}

/* host, host:port, [::1], [::1]:port; up to `size` bytes of text. A port is a good one: ten_url_parse() has seen it. */
static int parse_host(const char *text, size_t size, uint16_t standard_port, ten_redis_host *host, ten_error *error) {
    bool brackets = text[0] == '[';
    const char *name = text + brackets;
    const char *stop = text + size;
    const char *end = memchr(text, brackets ? ']' : ':', size);
    if (!end && !brackets)
        end = stop;
    const char *colon = end ? end + brackets : NULL; /* or what is in its place */
    if (!colon || (brackets && end == name) ||
        (colon < stop && (*colon != ':' || memchr(colon + 1, ':', (size_t)(stop - colon - 1)))))
        return ten_fail(error, TENURE_E_INVALID, "'%.*s' is not an address: an IPv6 one is written [::1]:6379",
                        (int)size, text);
    if ((size_t)(end - name) >= sizeof host->name)
        return ten_fail(error, TENURE_E_INVALID, "the host name '%.40s...' is too long", text);
    snprintf(host->name, sizeof host->name, "%.*s", (int)(end - name), name);
    if (end == name)
        snprintf(host->name, sizeof host->name, "127.0.0.1");
    host->port = colon < stop ? (uint16_t)strtoul(colon + 1, NULL, 10) : standard_port;
    return TENURE_OK;
}

static int parse_hosts(const char *hosts, uint16_t standard_port, size_t most, ten_redis_settings *settings,
                       ten_error *error) {
    const char *at = hosts;
    for (;;) {
        size_t size = strcspn(at, ",");
        if (size == 0 && strchr(hosts, ','))
            return ten_fail(error, TENURE_E_INVALID, "'%.100s' has a comma without a host", hosts);
        if (settings->host_count == most)
            return ten_fail(error, TENURE_E_INVALID,
                            most == 1 ? "'%.100s' names several hosts: that is for redis+sentinel://"
                                      : "'%.100s' names more than 8 hosts",
                            hosts);
        int r = parse_host(at, size, standard_port, &settings->hosts[settings->host_count], error);
        if (r < 0)
            return r;
        settings->host_count++;
        if (at[size] == '\0')
            return TENURE_OK;
        at += size + 1;
    }
}

/* "/3", or the option db. */
static int parse_database(const char *path, const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    const char *named = path[0] == '/' ? path + 1 : path;
    const char *const texts[] = {named[0] ? named : NULL, ten_url_option(url, "db")};
    uint64_t numbers[] = {0, 0};
    for (size_t i = 0; i < TEN_COUNT(texts); i++)
        if (texts[i] && !ten_digits_parse(texts[i], DATABASE_MAX, &numbers[i]))
            return ten_fail(error, TENURE_E_INVALID, "'%.40s' is not the number of a database (0 to %u)", texts[i],
                            DATABASE_MAX);
    if (texts[0] && texts[1] && numbers[0] != numbers[1])
        return ten_fail(error, TENURE_E_INVALID, "the URL names two databases, %llu and db=%llu",
                        (unsigned long long)numbers[0], (unsigned long long)numbers[1]);
    settings->database = numbers[texts[1] != NULL];
    return TENURE_OK;
}

/* "/mymaster/3" */
static int parse_master(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    const char *path = url->path;
    const char *name = path[0] == '/' ? path + 1 : path;
    size_t size = strcspn(name, "/");
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "a Sentinel URL names the master: redis+sentinel://sentinel-1,sentinel-2/mymaster");
    int r = copy(name, &settings->master, error);
    if (r < 0)
        return r;
    settings->master[size] = '\0';
    return parse_database(name + size, url, settings, error);
}

static int parse_socket(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    if (url->path[0] != '/' || (url->hosts && url->hosts[0]))
        return ten_fail(error, TENURE_E_INVALID,
                        "a Unix socket is named by its path: redis+unix:///run/redis/redis.sock?db=0");
    if (strlen(url->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return ten_fail(error, TENURE_E_INVALID, "the path of the socket %s is too long for the system", url->path);
    int r = copy(url->path, &settings->socket_path, error);
    return r < 0 ? r : parse_database("", url, settings, error);
}

static int parse_place(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    bool sentinel = strcmp(url->scheme, "redis+sentinel") == 0;
    settings->tls = strcmp(url->scheme, "rediss") == 0;
    if (strcmp(url->scheme, "redis+unix") == 0)
        return parse_socket(url, settings, error);
    if (!url->hosts)
        return ten_fail(error, TENURE_E_INVALID, "a Redis URL looks like %s://host:%u%s", url->scheme,
                        sentinel ? SENTINEL_PORT : REDIS_PORT, sentinel ? "/mymaster" : "/0");
    /* The rest of a password: what it is cut into must not be shown as something that is wrong. */
    if (strchr(url->path, '@'))
        return ten_fail(error, TENURE_E_INVALID,
                        "the URL has an @ after its host; in a password write / as %%2F, ? as %%3F and %% as %%25");
    int r = sentinel ? parse_hosts(url->hosts, SENTINEL_PORT, TEN_REDIS_HOSTS_MAX, settings, error)
                     : parse_hosts(url->hosts, REDIS_PORT, 1, settings, error);
    if (r < 0)
        return r;
    return sentinel ? parse_master(url, settings, error) : parse_database(url->path, url, settings, error);
}

static int take_secrets(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    int r = copy(url->user && url->user[0] ? url->user : NULL, &settings->user, error);
    if (r == TENURE_OK)
        r = copy(url->password, &settings->password, error);
    if (r == TENURE_OK)
        r = ten_url_files_read(url, "password_file", &settings->files, error);
    if (r == TENURE_OK)
        r = ten_url_files_check_tls(&settings->files, settings->tls, "rediss", error);
    if (r == TENURE_OK)
        r = ten_url_files_check_password(&settings->files, settings->password != NULL, error);
    if (r < 0)
        return r;
    if (settings->user && !settings->password && !settings->files.secret_file)
        return ten_fail(error, TENURE_E_INVALID,
                        "the URL names the user %s and no password: redis://user:password@host, or password_file=PATH",
                        settings->user);
    return TENURE_OK;
}

static int make_name(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    ten_buf name = {0};
    ten_buf_format(&name, "%s://%s", url->scheme, settings->socket_path ? settings->socket_path : "");
    for (size_t i = 0; i < settings->host_count; i++) {
        const ten_redis_host *host = &settings->hosts[i];
        ten_buf_format(&name, strchr(host->name, ':') ? "%s[%s]:%u" : "%s%s:%u", i ? "," : "", host->name, host->port);
    }
    if (settings->master)
        ten_buf_format(&name, "/%s", settings->master);
    if (!settings->socket_path)
        ten_buf_format(&name, "/%llu", (unsigned long long)settings->database);
    if (name.failed) {
        ten_buf_free(&name);
        return ten_fail_memory(error, "the settings of a Redis connection");
    }
    settings->name = name.data;
    return TENURE_OK;
}

int ten_redis_settings_make(const ten_url *url, ten_redis_settings **ret_settings, ten_error *error) {
    ten_redis_settings *settings = ten_calloc(1, sizeof *settings);
    if (!settings)
        return ten_fail_memory(error, "the settings of a Redis connection");
    int r = parse_place(url, settings, error);
    if (r == TENURE_OK)
        r = take_secrets(url, settings, error);
    if (r == TENURE_OK)
        r = make_name(url, settings, error);
    if (r < 0) {
        ten_redis_settings_free(settings);
        return r;
    }
    *ret_settings = settings;
    return TENURE_OK;
}

void ten_redis_settings_free(ten_redis_settings *settings) {
    if (!settings)
        return;
    if (settings->password)
        explicit_bzero(settings->password, strlen(settings->password));
    SSL_CTX_free(settings->tls_context);
    ten_free(settings->name);
    ten_free(settings->socket_path);
    ten_free(settings->master);
    ten_free(settings->user);
    ten_free(settings->password);
    ten_url_files_free(&settings->files);
    ten_free(settings);
}

const char *ten_redis_settings_name(const ten_redis_settings *settings) {
    return settings->name;
}

uint64_t ten_redis_settings_database(const ten_redis_settings *settings) {
    return settings->database;
}
