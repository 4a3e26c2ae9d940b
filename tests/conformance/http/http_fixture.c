/*
 * A private `tenure serve` on SQLite. See conformance/fixture.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "conformance/fixture.h"
#include "lib/freeze.h"
#include "lib/tenure_server.h"

static struct tenure_server *server_of(const struct fixture *fixture) {
    return fixture->server;
}

static int create_http(struct fixture *fixture) {
    fixture->server = calloc(1, sizeof(struct tenure_server));
    if (!fixture->server)
        return -1;
    if (fixture_make_directory(fixture->directory) != 0)
        return -1;
    snprintf(server_of(fixture)->directory, sizeof server_of(fixture)->directory, "%.255s", fixture->directory);
    if (tenure_server_start(server_of(fixture)) != 0)
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%d", server_of(fixture)->port);
    return 0;
}

static void destroy_http(struct fixture *fixture) {
    tenure_server_remove(server_of(fixture));
    fixture_remove_directory(fixture->directory);
    free(fixture->server);
}

static void kill_server(struct fixture *fixture) {
    tenure_server_kill(server_of(fixture));
}

static void start_server(struct fixture *fixture) {
    (void)tenure_server_start_again(server_of(fixture));
}

static void restart_server(struct fixture *fixture) {
    kill_server(fixture);
    start_server(fixture);
}

static void cut_from_server(struct fixture *fixture) {
    tenure_server_cut(server_of(fixture));
}

static void freeze_server(struct fixture *fixture) {
    (void)freeze_process(server_of(fixture)->pid);
}

static void thaw_server(struct fixture *fixture) {
    (void)thaw_process(server_of(fixture)->pid);
}

static void age_feed(struct fixture *fixture) {
    char path[FIXTURE_PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/leases.db", fixture->directory);
    fixture_age_feed_of_database(path);
}

static const fixture_disturbance http_disturbances[] = {
    {"every connection is cut", cut_from_server, NULL, true},
    {"the server is killed, and another is there at once", restart_server, NULL, true},
    {"the server is killed and started again", kill_server, start_server, false},
    {"the server stands still and goes on", freeze_server, thaw_server, false},
};

const fixture_kind http_fixture = {
    .scheme = "http:",
    .create = create_http,
    .destroy = destroy_http,
    .disturbances = http_disturbances,
    .disturbance_count = TEN_COUNT(http_disturbances),
    .age_feed = age_feed,
};
