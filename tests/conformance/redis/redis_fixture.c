/*
 * A private redis-server. See conformance/fixture.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "conformance/fixture.h"
#include "lib/redis_server.h"

static struct redis_server *server_of(const struct fixture *fixture) {
    return fixture->server;
}

static int create_redis(struct fixture *fixture) {
    fixture->server = calloc(1, sizeof(struct redis_server));
    if (!fixture->server)
        return -1;
    /* Saved at once, so that a restart brings everything back. */
    static const char *const arguments[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    if (redis_server_start(server_of(fixture), arguments) != 0)
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "redis://127.0.0.1:%d/0?fresh=1%s%s", server_of(fixture)->port,
             fixture->options[0] ? "&" : "", fixture->options);
    return 0;
}

static void destroy_redis(struct fixture *fixture) {
    redis_server_remove(server_of(fixture));
    free(fixture->server);
}

static void kill_redis(struct fixture *fixture) {
    redis_server_kill(server_of(fixture));
}

static void start_redis(struct fixture *fixture) {
    (void)redis_server_start_again(server_of(fixture));
}

static void say_to_redis(const struct fixture *fixture, const char *command) {
    char line[1024];
    snprintf(line, sizeof line, "redis-cli -p %d %s >/dev/null", server_of(fixture)->port, command);
    if (system(line) != 0)
        fprintf(stderr, "cannot run redis-cli\n");
}

static void forget_scripts(struct fixture *fixture) {
    say_to_redis(fixture, "SCRIPT FLUSH");
}

static void cut_connections(struct fixture *fixture) {
    say_to_redis(fixture, "CLIENT KILL TYPE normal");
    say_to_redis(fixture, "CLIENT KILL TYPE pubsub");
}

/* The time is the second part of what a commit has told. */
static void age_feed(struct fixture *fixture) {
    say_to_redis(fixture, "EVAL \""
                          "for _, feed in ipairs(redis.call('KEYS', 'tenure:*:feed')) do "
                          "local entries = redis.call('ZRANGE', feed, 0, -1, 'WITHSCORES') "
                          "for i = 1, #entries, 2 do "
                          "local older = string.gsub(entries[i], '^(%d+%z)(%d+)', function(before, at) "
                          "return before .. string.format('%.0f', at - 120000) end) "
                          "redis.call('ZREM', feed, entries[i]) redis.call('ZADD', feed, entries[i + 1], older) "
                          "end end\" 0");
}

static const fixture_disturbance redis_disturbances[] = {
    {"the server forgets its scripts", forget_scripts, NULL, true},
    {"the server closes every connection", cut_connections, NULL, true},
    {"the server is killed and started again", kill_redis, start_redis, false},
};

const fixture_kind redis_fixture = {
    .scheme = "redis:",
    .create = create_redis,
    .destroy = destroy_redis,
    .disturbances = redis_disturbances,
    .disturbance_count = TEN_COUNT(redis_disturbances),
    .age_feed = age_feed,
};
