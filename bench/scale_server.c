/*
 * The servers of scale.c.
 */
#include "scale_server.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/util.h"
#include "child.h"
#ifdef TEN_STORE_ETCD
#include "lib/etcd_server.h"
#endif
#ifdef TEN_STORE_POSTGRES
#include "lib/postgres_server.h"
#endif
#ifdef TEN_STORE_REDIS
#include "lib/redis_server.h"
#endif
#if defined TEN_SERVER && defined TEN_STORE_HTTP
#include "lib/tenure_server.h"
#endif

struct scale_kind {
    const char *name;
    size_t size; /* of what tests/lib knows about it */
    bool (*start)(scale_server *server);
    void (*stop)(scale_server *server);
};

static bool start_sqlite(scale_server *server) {
    snprintf(server->url, sizeof server->url, "sqlite:%.300s/scale.db", server->directory);
    return true;
}

static void stop_nothing(scale_server *server) {
    (void)server;
}

#ifdef TEN_STORE_REDIS
static bool start_redis(scale_server *server) {
    struct redis_server *redis = server->server;
    if (redis_server_start(redis, NULL) != 0)
        return false;
    server->pid = redis->pid;
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d/0?fresh=1", redis->port);
    return true;
}

static bool start_redis_session(scale_server *server) {
    bool ok = start_redis(server);
    size_t size = strlen(server->url);
    snprintf(server->url + size, sizeof server->url - size, "&leases=session");
    return ok;
}

static void stop_redis(scale_server *server) {
    redis_server_remove(server->server);
}
#endif

#ifdef TEN_STORE_POSTGRES
static bool start_postgres(scale_server *server) {
    static const char *const settings[] = {"max_connections=400", "shared_buffers=256MB", NULL};
    struct postgres_server *postgres = server->server;
    postgres->settings = settings;
    if (postgres_server_start(postgres) != 0)
        return false;
    server->pid = postgres->pid;
    postgres_server_url(postgres, "postgres", POSTGRES_SERVER_USER, "", server->url, sizeof server->url);
    return true;
}

static void stop_postgres(scale_server *server) {
    postgres_server_remove(server->server);
}
#endif

#ifdef TEN_STORE_ETCD
static bool start_etcd(scale_server *server) {
    etcd_server *etcd = server->server;
    if (!etcd_start(etcd, server->directory))
        return false;
    server->pid = etcd->pid;
    snprintf(server->url, sizeof server->url, "etcd://127.0.0.1:%d", etcd->port);
    return true;
}

static void stop_etcd(scale_server *server) {
    etcd_stop(server->server);
}
#endif

#if defined TEN_SERVER && defined TEN_STORE_HTTP
static bool start_http(scale_server *server) {
    struct tenure_server *http = server->server;
    snprintf(http->directory, sizeof http->directory, "%.200s/http", server->directory);
    if (mkdir(http->directory, 0700) != 0 || tenure_server_start(http) != 0)
        return false;
    server->pid = http->pid;
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", http->port);
    return true;
}

static void stop_http(scale_server *server) {
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

bool scale_server_start(scale_server *server, const char *store) {
    *server = (scale_server){0};
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
    scale_server_stop(server);
    return false;
}

void scale_server_stop(scale_server *server) {
    server->kind->stop(server);
    ground_remove(server->directory);
    ten_free(server->server);
}

/* What its threads have run, to the nanosecond: at rest a tick is too much. */
static double threads_ms(const char *pid) {
    char path[320], text[128];
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *threads = opendir(path);
    double sum = 0;
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/schedstat", pid, entry->d_name);
        if (entry->d_name[0] != '.' && ten_read_line(path, text, sizeof text) > 0)
            sum += strtod(text, NULL) / 1e6;
    }
    if (threads)
        closedir(threads);
    return sum;
}

/* Of the children for which one process has waited, in ticks; its parent's number as well. */
static bool read_stat(const char *pid, long *ret_parent, double *ret_ticks) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if (ten_read_line(path, text, sizeof text) <= 0)
        return false;
    const char *rest = strrchr(text, ')');
    unsigned long user = 0, system = 0;
    if (!rest || sscanf(rest + 2, "%*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", ret_parent, &user,
                        &system) != 3)
        return false;
    *ret_ticks = (double)(user + system);
    return true;
}

double scale_server_cpu_ms(const scale_server *server) {
    if (!server->pid)
        return bench_cpu_seconds() * 1e3;
    double sum = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        long parent = 0;
        double ticks = 0;
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && read_stat(entry->d_name, &parent, &ticks) &&
            (strtol(entry->d_name, NULL, 10) == server->pid || parent == server->pid))
            sum += threads_ms(entry->d_name) + ticks * 1e3 / (double)sysconf(_SC_CLK_TCK);
    }
    if (processes)
        closedir(processes);
    return sum;
}
