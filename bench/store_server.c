/*
 * Private servers of the stores. See store_server.h.
 */
#include "store_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/util.h"
#ifdef TEN_STORE_ETCD
#include "lib/etcd_server.h"
#endif
#ifdef TEN_STORE_POSTGRES
#include "lib/postgres_server.h"
#endif
#ifdef TEN_STORE_REDIS
#include "wire.h"
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP
#include "lib/tenure_server.h"
#endif

struct scale_kind {
    const char *name;
    size_t size; /* of what tests/lib knows about it */
    bool (*start)(store_server *server);
    void (*stop)(store_server *server);
};

static bool start_sqlite(store_server *server) {
    snprintf(server->url, sizeof server->url, "sqlite:%.300s/scale.db", server->directory);
    return true;
}

static void stop_nothing(store_server *server) {
    (void)server;
}

#ifdef TEN_STORE_REDIS
static bool start_redis(store_server *server) {
    struct redis_server *redis = server->server;
    if (redis_server_start(redis, NULL) != 0)
        return false;
    server->pid = redis->pid;
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d/0?fresh=1", redis->port);
    return true;
}

static bool start_redis_session(store_server *server) {
    bool ok = start_redis(server);
    size_t size = strlen(server->url);
    snprintf(server->url + size, sizeof server->url - size, "&leases=session");
    return ok;
}

static void stop_redis(store_server *server) {
    redis_server_remove(server->server);
}
#endif

#ifdef TEN_STORE_POSTGRES
static bool start_postgres(store_server *server) {
    static const char *const settings[] = {"max_connections=400", "shared_buffers=256MB", NULL};
    struct postgres_server *postgres = server->server;
    postgres->settings = settings;
    if (postgres_server_start(postgres) != 0)
        return false;
    server->pid = postgres->pid;
    postgres_server_url(postgres, "postgres", POSTGRES_SERVER_USER, "", server->url, sizeof server->url);
    return true;
}

static void stop_postgres(store_server *server) {
    postgres_server_remove(server->server);
}
#endif

#ifdef TEN_STORE_ETCD
static bool start_etcd(store_server *server) {
    etcd_server *etcd = server->server;
    if (!etcd_start(etcd, server->directory))
        return false;
    server->pid = etcd->pid;
    snprintf(server->url, sizeof server->url, "etcd://127.0.0.1:%d", etcd->port);
    return true;
}

static void stop_etcd(store_server *server) {
    etcd_stop(server->server);
}
#endif

#if defined TEN_SERVER && defined TEN_STORE_HTTP
static bool start_http(store_server *server) {
    struct tenure_server *http = server->server;
    snprintf(http->directory, sizeof http->directory, "%.200s/http", server->directory);
    if (mkdir(http->directory, 0700) != 0 || tenure_server_start(http) != 0)
        return false;
    server->pid = http->pid;
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", http->port);
    return true;
}

static void stop_http(store_server *server) {
    tenure_server_remove(server->server);
}
#endif

static const struct scale_kind kinds[] = {
    {"sqlite", 1, start_sqlite, stop_nothing},
#ifdef TEN_STORE_REDIS
    {"redis", sizeof(struct redis_server), start_redis, stop_redis},
    {"redis-session", sizeof(struct redis_server), start_redis_session, stop_redis},
#endif
#ifdef TEN_STORE_POSTGRES
    {"postgres", sizeof(struct postgres_server), start_postgres, stop_postgres},
#endif
#ifdef TEN_STORE_ETCD
    {"etcd", sizeof(etcd_server), start_etcd, stop_etcd},
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP
    {"http", sizeof(struct tenure_server), start_http, stop_http},
#endif
};

bool store_server_start(store_server *server, const char *store) {
    *server = (store_server){0};
    for (size_t i = 0; i < TEN_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, store) == 0)
            server->kind = &kinds[i];
    if (!server->kind) {
        fprintf(stderr, "bench: there is no store '%s' in this build\n", store);
        return false;
    }
    server->server = ten_calloc(1, server->kind->size);
    if (!server->server || !ground_make(server->directory))
        return false;
    if (server->kind->start(server))
        return true;
    store_server_stop(server);
    return false;
}

void store_server_stop(store_server *server) {
    server->kind->stop(server);
    ground_remove(server->directory);
    ten_free(server->server);
}

double store_server_query(const store_server *server, const char *statement) {
    double value = 0;
    (void)server, (void)statement;
#ifdef TEN_STORE_POSTGRES
    bool done = true;
    char *text = postgres_server_query(server->server, "postgres", statement, &done);
    value = text ? strtod(text, NULL) : 0;
    free(text);
#endif
    return value;
}

double store_server_info(const store_server *server, const char *section, const char *line, const char *field) {
    double number = 0;
    (void)server, (void)section, (void)line, (void)field;
#ifdef TEN_STORE_REDIS
    redisContext *connection = wire_connect(server->server, 0);
    redisReply *reply = connection ? wire_ask(connection, "INFO %s", section) : NULL;
    const char *found = reply ? strstr(reply->str, line) : NULL;
    found = found ? strstr(found, field) : NULL;
    number = found ? strtod(found + strlen(field), NULL) : 0;
    if (reply)
        freeReplyObject(reply);
    if (connection)
        redisFree(connection);
#endif
    return number;
}
