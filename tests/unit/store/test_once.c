/*
 * Requests that may not be repeated, against a server that takes them and hangs up: they arrive once. Curl repeats a
 * request by itself when a connection that was used before ends without an answer.
 */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "store/store.h"
#ifdef TEN_STORE_ETCD
#include "store/etcd/etcd_link.h"
#endif

#define CALL_MS         10000u
#define CONNECTIONS_MAX 8u

struct server {
    int fd;
    int port;
    pthread_t thread;
    pthread_t connections[CONNECTIONS_MAX];
    size_t connection_count;
    atomic_int accepted;  /* for the connection's thread; -1: taken */
    const char *answer;   /* to everything else */
    atomic_uint received; /* requests with "force" in them */
};

/* One request; false: the connection is over. */
static bool read_request(int fd, char *text, size_t size) {
    size_t have = 0;
    for (;;) {
        ssize_t count = recv(fd, text + have, size - 1 - have, 0);
        if (count <= 0)
            return false;
        have += (size_t)count;
        text[have] = '\0';
        const char *body = strstr(text, "\r\n\r\n");
        const char *length = strstr(text, "Content-Length: ");
        size_t expected = length ? strtoul(length + 16, NULL, 10) : 0;
        if (body && have >= (size_t)(body + 4 - text) + expected)
            return true;
        if (have == size - 1)
            return false;
    }
}

static void *serve(void *arg) {
    struct server *server = arg;
    int fd = atomic_exchange(&server->accepted, -1);
    char text[4096];
    char answer[512];
    while (read_request(fd, text, sizeof text)) {
        if (strstr(text, "force")) {
            atomic_fetch_add(&server->received, 1);
            break;
        }
        int size = snprintf(answer, sizeof answer,
                            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                            strlen(server->answer), server->answer);
        (void)send(fd, answer, (size_t)size, MSG_NOSIGNAL);
    }
    close(fd);
    return NULL;
}

static void *run_server(void *arg) {
    struct server *server = arg;
    for (int fd; server->connection_count < CONNECTIONS_MAX && (fd = accept(server->fd, NULL, NULL)) >= 0;) {
        atomic_store(&server->accepted, fd);
        if (pthread_create(&server->connections[server->connection_count], NULL, serve, server) != 0)
            break;
        server->connection_count++;
        while (atomic_load(&server->accepted) >= 0)
            ten_sleep_us(100);
    }
    return NULL;
}

static void start_server(struct server *server, const char *answer) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server->answer = answer;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, run_server, server), 0);
}

/* The client's connections are closed by now. */
static void stop_server(struct server *server) {
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    for (size_t i = 0; i < server->connection_count; i++)
        pthread_join(server->connections[i], NULL);
    close(server->fd);
}

#ifdef TEN_STORE_HTTP
TEST(a_forced_release_over_http_is_sent_once) {
    struct server server = {0};
    char url[64];
    ten_store *store;
    ten_error error;
    start_server(&server, "[{\"outcome\":\"unknown\"}]");
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    assert_int_equal(ten_store_open(url, NULL, &store, &error), TENURE_OK);
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = "poll", .target = "t"};
    ten_op force = {.kind = TEN_OP_RELEASE, .namespace_name = "poll", .target = "t", .flags = TEN_OP_FORCE_NOW};
    ten_result result;
    assert_int_equal(ten_store_apply(store, &read, &result, 1, CALL_MS), TENURE_OK);
    assert_true(ten_store_apply(store, &force, &result, 1, CALL_MS) < 0);
    ten_store_close(store);
    stop_server(&server);
    assert_int_equal(atomic_load(&server.received), 1);
}
#endif

#ifdef TEN_STORE_ETCD
TEST(a_call_on_etcd_that_is_made_once_is_sent_once) {
    struct server server = {0};
    char text[64];
    ten_url url;
    ten_error error;
    ten_etcd_settings settings = {0};
    ten_etcd_link *link;
    start_server(&server, "{\"header\":{\"revision\":\"1\"}}");
    snprintf(text, sizeof text, "etcd://127.0.0.1:%d", server.port);
    assert_int_equal(ten_url_parse(text, &url, &error), TENURE_OK);
    assert_int_equal(ten_etcd_settings_read(&url, &settings, &error), TENURE_OK);
    ten_url_free(&url);
    assert_int_equal(ten_etcd_link_open(&settings, &link, &error), TENURE_OK);
    ten_etcd_call before = {.path = "/v3/kv/range", .body = "{}"};
    ten_etcd_call once = {.path = "/v3/kv/txn", .body = "{\"force\":1}", .once = true};
    assert_int_equal(ten_etcd_perform(link, &before, 1, ten_now_ms() + CALL_MS, &error), TENURE_OK);
    assert_true(ten_etcd_perform(link, &once, 1, ten_now_ms() + CALL_MS, &error) < 0);
    ten_etcd_calls_free(&before, 1);
    ten_etcd_calls_free(&once, 1);
    ten_etcd_link_close(link);
    ten_etcd_settings_free(&settings);
    stop_server(&server);
    assert_int_equal(atomic_load(&server.received), 1);
}
#endif
