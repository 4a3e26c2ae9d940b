/*
 * See server_probe.h. Each kind is asked in its own protocol, with the least that it answers without a login. The
 * expected kind is asked first, so that a server which is only slow or still starting gets no foreign words into its
 * log.
 */
#include "agent/common/server_probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/resolve.h"
#include "base/url.h"
#include "base/util.h"

#define RESOLVE_MS 1000u
#define CONNECT_MS 500u
#define ANSWER_MS  300u

enum protocol { REDIS, POSTGRES, HTTP, PROTOCOL_COUNT };

static bool begins(const char *answer, size_t size, const char *start) {
    return size >= strlen(start) && memcmp(answer, start, strlen(start)) == 0;
}

/* NOAUTH, DENIED (protected mode) and errors in general begin with a minus. */
static bool is_redis(const char *answer, size_t size) {
    return begins(answer, size, "+PONG") || begins(answer, size, "-");
}

/* The answer to an SSLRequest is one letter: will TLS be spoken, yes or no. */
static bool is_postgres(const char *answer, size_t size) {
    return size == 1 && (answer[0] == 'S' || answer[0] == 'N');
}

static bool is_http(const char *answer, size_t size) {
    return begins(answer, size, "HTTP/1.");
}

static const struct {
    const char *server;
    const char *question;
    size_t size;
    bool (*is_answer)(const char *answer, size_t size);
} protocols[PROTOCOL_COUNT] = {
    [REDIS] = {"a Redis server", "PING\r\n", 6, is_redis},
    [POSTGRES] = {"a PostgreSQL server", "\0\0\0\x08\x04\xd2\x16\x2f", 8, is_postgres},
    [HTTP] = {"an HTTP server", "GET / HTTP/1.0\r\n\r\n", 18, is_http},
};

/* Stores by their scheme. Those of rediss, etcds and https are not asked: the questions are sent in clear. */
struct kind {
    const char *scheme;
    uint16_t port; /* the default one */
    enum protocol protocol;
};

static const struct kind kinds[] = {
    {"redis", 6379, REDIS}, {"postgres", 5432, POSTGRES}, {"postgresql", 5432, POSTGRES},
    {"etcd", 2379, HTTP},   {"http", 80, HTTP},
};

/* NULL: there is no server to ask. */
static const struct kind *expected_kind(const ten_url *url) {
    static const char *const other_ways[] = {"socket", "ca_file", "cert_file", "key_file"}; /* a Unix socket, or TLS */
    for (size_t i = 0; i < TEN_COUNT(other_ways); i++)
        if (ten_url_option(url, other_ways[i]))
            return NULL;
    if (!url->hosts || url->hosts[0] == '\0')
        return NULL;
    for (size_t i = 0; i < TEN_COUNT(kinds); i++)
        if (strcmp(url->scheme, kinds[i].scheme) == 0)
            return &kinds[i];
    return NULL;
}

/* The first of the hosts. False: it cannot be read. */
static bool find_addresses(const ten_url *url, uint16_t port, ten_addresses *addresses) {
    char host[256];
    ten_error unused;
    size_t size = strcspn(url->hosts, ",");
    if (size >= sizeof host)
        return false;
    memcpy(host, url->hosts, size);
    host[size] = '\0';
    char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    char *colon = strrchr(bracket ? bracket : host, ':');
    if (colon) {
        port = (uint16_t)strtoul(colon + 1, NULL, 10);
        *colon = '\0';
    }
    if (bracket)
        *bracket = '\0';
    return port != 0 &&
           ten_resolve(bracket ? host + 1 : host, port, ten_now_ms() + RESOLVE_MS, addresses, &unused) == TENURE_OK;
}

static int connect_to(const ten_addresses *addresses) {
    for (size_t i = 0; i < addresses->count; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&addresses->at[i].address;
        int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int failure = 0;
        socklen_t size = sizeof failure;
        if (fd < 0)
            return -1;
        if (connect(fd, address, addresses->at[i].size) == 0)
            return fd;
        if (errno == EINPROGRESS && ten_wait_writable(fd, -1, CONNECT_MS) == 1 &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0)
            return fd;
        close(fd);
    }
    return -1;
}

/* Whether the server answers to that protocol. -1: it cannot be reached. */
static int ask(const ten_addresses *addresses, enum protocol protocol) {
    char answer[64];
    TEN_CLEANUP(ten_close_fd) int fd = connect_to(addresses);
    if (fd < 0)
        return -1;
    if (send(fd, protocols[protocol].question, protocols[protocol].size, MSG_NOSIGNAL) < 0 ||
        ten_wait_readable(fd, -1, ANSWER_MS) != 1)
        return 0;
    ssize_t size = ten_read_some(fd, answer, sizeof answer);
    return size > 0 && protocols[protocol].is_answer(answer, (size_t)size);
}

/* Another protocol than the expected one to which the server answers; PROTOCOL_COUNT: none. */
static enum protocol find_other(const ten_addresses *addresses, enum protocol expected) {
    if (ask(addresses, expected) != 0)
        return PROTOCOL_COUNT;
    for (enum protocol i = 0; i < PROTOCOL_COUNT; i++)
        if (i != expected && ask(addresses, i) == 1)
            return i;
    return PROTOCOL_COUNT;
}

/* A server that does not answer to what a Redis or HTTP client sends is slow: the other kinds close the connection
 * or complain. What a PostgreSQL client sends leaves the others waiting for more. */
static bool may_be_another(const struct kind *expected, int failure) {
    return failure == TENURE_E_UNREACHABLE || (failure == TENURE_E_TIMEOUT && expected->protocol == POSTGRES);
}

bool ten_server_probe(const char *store, int failure, ten_error *error) {
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    ten_addresses addresses;
    ten_error unused;
    enum protocol found = PROTOCOL_COUNT;
    if (!store || ten_url_parse(store, &url, &unused) < 0)
        return false;
    const struct kind *expected = expected_kind(&url);
    if (expected && may_be_another(expected, failure) && find_addresses(&url, expected->port, &addresses))
        found = find_other(&addresses, expected->protocol);
    if (found == PROTOCOL_COUNT)
        return false;
    char shown[300];
    ten_url_redact(store, shown, sizeof shown);
    ten_fail(error, TENURE_E_STORE, "%s: %s answers there; check the scheme and the port of the store's URL", shown,
             protocols[found].server);
    return true;
}
