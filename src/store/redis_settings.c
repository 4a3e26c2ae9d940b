/*
 * From a URL to the settings of a connection. Pure text, but for a look whether the files that it names can be read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/redis_link_state.h"

#define REDIS_PORT    6379u
#define SENTINEL_PORT 26379u
#define DATABASE_MAX  100000u

static int no_memory(ten_error *error) {
    return ten_fail(error, TENURE_E_NOMEM, "out of memory for the settings of a Redis connection");
}

static int parse_number(const char *text, uint64_t most, const char *what, uint64_t *ret_number, ten_error *error) {
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > most)
        return ten_fail(error, TENURE_E_INVALID, "'%.40s' is not %s (0 to %llu)", text, what, (unsigned long long)most);
    *ret_number = number;
    return TENURE_OK;
}

/* host, host:port, [::1], [::1]:port; up to `size` bytes of text. */
static int parse_host(const char *text, size_t size, unsigned standard_port, ten_redis_host *host, ten_error *error) {
    char whole[TEN_REDIS_HOST_SIZE + 8];
    if (size >= sizeof whole)
        return ten_fail(error, TENURE_E_INVALID, "the host name '%.40s...' is too long", text);
    memcpy(whole, text, size);
    whole[size] = '\0';
    char *name = whole;
    char *port = NULL;
    if (whole[0] == '[') {
        char *end = strchr(whole, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
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
    uint64_t number = standard_port;
    int done = port ? parse_number(port, UINT16_MAX, "a port", &number, error) : TENURE_OK;
    if (done < 0)
        return done;
    if (strlen(name) >= sizeof host->name || (port && number == 0))
        return ten_fail(error, TENURE_E_INVALID, "'%.*s' is not a host and a port", (int)size, text);
    snprintf(host->name, sizeof host->name, "%s", name[0] ? name : "127.0.0.1");
    host->port = (uint16_t)number;
    return TENURE_OK;
}

static int parse_hosts(const char *hosts, unsigned standard_port, size_t most, ten_redis_settings *settings,
                       ten_error *error) {
    const char *at = hosts ? hosts : "";
    for (;;) {
        size_t size = strcspn(at, ",");
        if (settings->host_count == most)
            return ten_fail(error, TENURE_E_INVALID,
                            most == 1 ? "'%s' names several hosts: that is for redis+sentinel://"
                                      : "'%s' names too many hosts",
                            hosts);
        int done = parse_host(at, size, standard_port, &settings->hosts[settings->host_count], error);
        if (done < 0)
            return done;
        settings->host_count++;
        if (at[size] == '\0')
            return TENURE_OK;
        at += size + 1;
    }
}

/* "/3": a database. */
static int parse_database(const char *path, ten_redis_settings *settings, ten_error *error) {
    if (path[0] == '/')
        path++;
    return path[0] ? parse_number(path, DATABASE_MAX, "the number of a database", &settings->database, error)
                   : TENURE_OK;
}

/* "/mymaster/3" */
static int parse_master(const char *path, ten_redis_settings *settings, ten_error *error) {
    const char *name = path[0] == '/' ? path + 1 : path;
    size_t size = strcspn(name, "/");
    if (size == 0)
        return ten_fail(error, TENURE_E_INVALID,
                        "a Sentinel URL names the master: redis+sentinel://sentinel-1,sentinel-2/mymaster");
    settings->master = ten_strdup(name);
    if (!settings->master)
        return no_memory(error);
    settings->master[size] = '\0';
    return parse_database(name + size, settings, error);
}

static int parse_place(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    const char *database = ten_url_option(url, "db");
    int done = TENURE_OK;
    settings->tls = strcmp(url->scheme, "rediss") == 0;
    if (strcmp(url->scheme, "redis+unix") == 0) {
        if (url->path[0] != '/' || (url->hosts && url->hosts[0]))
            return ten_fail(error, TENURE_E_INVALID,
                            "a Unix socket is written redis+unix:///run/redis/redis.sock?db=0");
        if (strlen(url->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
            return ten_fail(error, TENURE_E_INVALID, "the path of the socket %s is too long for the system", url->path);
        settings->socket_path = ten_strdup(url->path);
        done = settings->socket_path ? TENURE_OK : no_memory(error);
    } else if (strcmp(url->scheme, "redis+sentinel") == 0) {
        done = parse_hosts(url->hosts, SENTINEL_PORT, TEN_REDIS_HOSTS_MAX, settings, error);
        if (done == TENURE_OK)
            done = parse_master(url->path, settings, error);
    } else {
        if (!url->hosts)
            return ten_fail(error, TENURE_E_INVALID, "a Redis URL looks like %s://host:6379/0", url->scheme);
        done = parse_hosts(url->hosts, REDIS_PORT, 1, settings, error);
        if (done == TENURE_OK)
            done = parse_database(url->path, settings, error);
    }
    if (done == TENURE_OK && database)
        done = parse_number(database, DATABASE_MAX, "the number of a database", &settings->database, error);
    return done;
}

static int copy(const char *text, char **ret_copy, ten_error *error) {
    if (!text)
        return TENURE_OK;
    *ret_copy = ten_strdup(text);
    return *ret_copy ? TENURE_OK : no_memory(error);
}

static int take_file(const ten_url *url, const char *option, char **ret_path, ten_error *error) {
    const char *path = ten_url_option(url, option);
    if (path && access(path, R_OK) != 0)
        return ten_fail_errno(error, TENURE_E_INVALID, errno, "%s=%s cannot be read", option, path);
    return copy(path, ret_path, error);
}

static int take_secrets(const ten_url *url, ten_redis_settings *settings, ten_error *error) {
    int done = copy(url->user && url->user[0] ? url->user : NULL, &settings->user, error);
    if (done == TENURE_OK)
        done = copy(url->password, &settings->password, error);
    if (done == TENURE_OK)
        done = take_file(url, "password_file", &settings->password_file, error);
    if (done == TENURE_OK)
        done = take_file(url, "ca_file", &settings->ca_file, error);
    if (done == TENURE_OK)
        done = take_file(url, "cert_file", &settings->cert_file, error);
    if (done == TENURE_OK)
        done = take_file(url, "key_file", &settings->key_file, error);
    if (done < 0)
        return done;
    if (!settings->tls && (settings->ca_file || settings->cert_file || settings->key_file))
        return ten_fail(error, TENURE_E_INVALID, "ca_file, cert_file and key_file are for rediss://");
    if ((settings->cert_file == NULL) != (settings->key_file == NULL))
        return ten_fail(error, TENURE_E_INVALID, "a client certificate needs both cert_file and key_file");
    if (settings->user && !settings->password && !settings->password_file)
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
        return no_memory(error);
    }
    settings->name = name.data;
    return TENURE_OK;
}

int ten_redis_settings_make(const ten_url *url, ten_redis_settings **ret_settings, ten_error *error) {
    ten_redis_settings *settings = ten_calloc(1, sizeof *settings);
    if (!settings)
        return no_memory(error);
    int done = parse_place(url, settings, error);
    if (done == TENURE_OK)
        done = take_secrets(url, settings, error);
    if (done == TENURE_OK)
        done = make_name(url, settings, error);
    if (done < 0) {
        ten_redis_settings_free(settings);
        return done;
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
    ten_free(settings->password_file);
    ten_free(settings->ca_file);
    ten_free(settings->cert_file);
    ten_free(settings->key_file);
    ten_free(settings);
}

const char *ten_redis_settings_name(const ten_redis_settings *settings) {
    return settings->name;
}
