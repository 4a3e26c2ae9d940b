/*
 * From a URL to the settings of a connection. Pure text, but for a look whether the files that it names can be read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "store/redis/redis_link_state.h"

#define REDIS_PORT    6379u
#define SENTINEL_PORT 26379u
#define DATABASE_MAX  100000u

static bool parse_number(const char *text, uint64_t most, uint64_t *ret_number) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > most)
        return false;
    *ret_number = number;
    return true;
}

/* host, host:port, [::1], [::1]:port; up to `size` bytes of text. */
static int parse_host(const char *text, size_t size, uint16_t standard_port, ten_redis_host *host, ten_error *error) {
    char whole[TEN_REDIS_HOST_SIZE + 8];
    if (size >= sizeof whole)
        return ten_fail(error, TENURE_E_INVALID, "the host name '%.40s...' is too long", text);
    memcpy(whole, text, size);
    whole[size] = '\0';
    char *name = whole;
    char *port = NULL;
    if (whole[0] == '[') {
        char *end = strchr(whole, ']');
        if (!end || end == whole + 1 || (end[1] != '\0' && end[1] != ':'))
            return ten_fail(error, TENURE_E_INVALID, "'%s' is not an address: an IPv6 one is written [::1]:6379",
                            whole);
        *end = '\0';
        name = whole + 1;
        port = end[1] == ':' ? end + 2 : NULL;
    } else {
        port = strchr(whole, ':');
        if (port && strchr(port + 1, ':'))
            return ten_fail(error, TENURE_E_INVALID, "'%s' is not an address: an IPv6 one is written [::1]:6379",
                            whole);
        if (port)
            *port++ = '\0';
    }
    if (strlen(name) >= sizeof host->name)
        return ten_fail(error, TENURE_E_INVALID, "the host name '%.40s...' is too long", name);
    snprintf(host->name, sizeof host->name, "%s", name[0] ? name : "127.0.0.1");
    /* ten_url_parse() has seen that it is one. */
    host->port = port ? (uint16_t)strtoul(port, NULL, 10) : standard_port;
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

static int take_database(const char *text, ten_redis_settings *settings, ten_error *error) {
    return parse_number(text, DATABASE_MAX, &settings->database)
               ? TENURE_OK
               : ten_fail(error, TENURE_E_INVALID, "'%.40s' is not the number of a database (0 to %u)", text,
                          DATABASE_MAX);
}

/* "/3", or the option db. */
static int parse_database(const char *path, const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    const char *option = ten_url_option(url, "db");
    const char *named = path[0] == '/' ? path + 1 : path;
    int r = named[0] ? take_database(named, settings, error) : TENURE_OK;
    uint64_t before = settings->database;
    if (r == TENURE_OK && option)
        r = take_database(option, settings, error);
    if (r == TENURE_OK && option && named[0] && settings->database != before)
        return ten_fail(error, TENURE_E_INVALID, "the URL names two databases, %llu and db=%llu",
                        (unsigned long long)before, (unsigned long long)settings->database);
    return r;
}

/* "/mymaster/3" */
static int parse_master(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    const char *path = url->path;
    const char *name = path[0] == '/' ? path + 1 : path;
    size_t size = strcspn(name, "/");
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "a Sentinel URL names the master: redis+sentinel://sentinel-1,sentinel-2/mymaster");
    settings->master = ten_strdup(name);
    if (!settings->master)
        return ten_fail_memory(error, "the settings of a Redis connection");
    settings->master[size] = '\0';
    return parse_database(name + size, url, settings, error);
}

static int parse_socket(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    if (url->path[0] != '/' || (url->hosts && url->hosts[0]))
        return ten_fail(error, TENURE_E_INVALID,
                        "a Unix socket is named by its path: redis+unix:///run/redis/redis.sock?db=0");
    if (strlen(url->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return ten_fail(error, TENURE_E_INVALID, "the path of the socket %s is too long for the system", url->path);
    settings->socket_path = ten_strdup(url->path);
    return settings->socket_path ? parse_database("", url, settings, error)
                                 : ten_fail_memory(error, "the settings of a Redis connection");
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

static int copy(const char *text, char **ret_copy, ten_error *error) {
    if (!text)
        return TENURE_OK;
    *ret_copy = ten_strdup(text);
    return *ret_copy ? TENURE_OK : ten_fail_memory(error, "the settings of a Redis connection");
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
