/*
 * A private Redis to test the store on. See redis_place.h.
 */
#include "conformance/redis/redis_place.h"
#include "lib/freeze.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int redis_place_setup(void **state) {
    struct redis_place *redis = calloc(1, sizeof *redis);
    if (!redis)
        return -1;
    *state = redis;
    make_namespace(redis->place.ns);
    return redis_server_start(&redis->server, NULL);
}

static void close_handles(struct redis_place *redis) {
    ten_store_close(redis->place.store);
    ten_store_close(redis->place.other);
    redis->place.store = redis->place.other = NULL;
}

int redis_place_teardown(void **state) {
    struct redis_place *redis = *state;
    close_handles(redis);
    redis_server_remove(&redis->server);
    redis_server_remove(&redis->replica);
    free(redis->text);
    free(redis);
    return 0;
}

static void make_url(const struct redis_server *server, const char *options, char *url, size_t size) {
    snprintf(url, size, "redis://127.0.0.1:%d/0?timeout=5s%s%s", server->port, options[0] ? "&" : "", options);
}

static void open_on(struct redis_place *redis, const struct redis_server *server, const char *options) {
    char url[FIXTURE_URL_SIZE];
    make_url(server, options, url, sizeof url);
    close_handles(redis);
    redis->place.store = open_store(url);
    redis->place.other = open_store(url);
}

void redis_place_open(struct redis_place *redis, const char *options) {
    open_on(redis, &redis->server, options);
}

int redis_place_try(struct redis_place *redis, const char *options, ten_error *error) {
    char url[FIXTURE_URL_SIZE];
    ten_store *store = NULL;
    make_url(&redis->server, options, url, sizeof url);
    int r = ten_store_open(url, NULL, &store, error);
    ten_store_close(store);
    return r;
}

void redis_place_restart(struct redis_place *redis) {
    redis_server_kill(&redis->server);
    assert_int_equal(redis_server_start_again(&redis->server), 0);
}

/* ---- commands */

static char *run_command(const struct redis_server *server, const char *command) {
    redisContext *context = redisConnect("127.0.0.1", server->port);
    assert_non_null(context);
    redisReply *reply = context->err ? NULL : redisCommand(context, command);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply ? reply->str : context->errstr);
    char *text = NULL;
    if (reply->type == REDIS_REPLY_INTEGER) {
        text = malloc(32);
        if (text)
            snprintf(text, 32, "%lld", reply->integer);
    } else {
        text = strdup(reply->str ? reply->str : "");
    }
    assert_non_null(text);
    freeReplyObject(reply);
    redisFree(context);
    return text;
}

static const char *run_on(struct redis_place *redis, const struct redis_server *server, const char *format,
                          va_list arguments) {
    char command[512];
    vsnprintf(command, sizeof command, format, arguments);
    char *text = run_command(server, command);
    free(redis->text);
    redis->text = text;
    return text;
}

void redis_command(struct redis_place *redis, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)run_on(redis, &redis->server, format, arguments);
    va_end(arguments);
}

void redis_replica_command(struct redis_place *redis, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)run_on(redis, &redis->replica, format, arguments);
    va_end(arguments);
}

void redis_command_bytes(struct redis_place *redis, const char *ns) {
    char key[128];
    int size = snprintf(key, sizeof key, "%s:node:x%cy", ns, '\0');
    redisContext *context = redisConnect("127.0.0.1", redis->server.port);
    assert_non_null(context);
    redisReply *reply = redisCommand(context, "SET %b 1 PX 60000", key, (size_t)size);
    assert_non_null(reply);
    freeReplyObject(reply);
    redisFree(context);
}

const char *redis_text(struct redis_place *redis, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = run_on(redis, &redis->server, format, arguments);
    va_end(arguments);
    return text;
}

bool redis_replica_has(struct redis_place *redis, const char *format, ...) {
    char key[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    redis_replica_command(redis, "EXISTS %s", key);
    return strcmp(redis->text, "1") == 0;
}

/* ---- the replica */

static void wait_for_link(const struct redis_server *server) {
    for (int i = 0; i < 500; i++) {
        char *info = run_command(server, "INFO replication");
        bool up = strstr(info, "master_link_status:up") != NULL;
        free(info);
        if (up)
            return;
        sleep_ms(20);
    }
    fail_msg("the replica does not get in sync");
}

void redis_place_start_replica(struct redis_place *redis) {
    assert_int_equal(redis_server_start(&redis->replica, NULL), 0);
    redis_replica_command(redis, "REPLICAOF 127.0.0.1 %d", redis->server.port);
    wait_for_link(&redis->replica);
}

void redis_wait_for_sync(struct redis_place *redis) {
    wait_for_link(&redis->server);
}

void redis_place_use_replica(struct redis_place *redis, const char *options) {
    open_on(redis, &redis->replica, options);
}

void redis_place_pause_replica(struct redis_place *redis) {
    assert_int_equal(freeze_process(redis->replica.pid), 0);
}

void redis_place_continue_replica(struct redis_place *redis) {
    assert_int_equal(thaw_process(redis->replica.pid), 0);
}
