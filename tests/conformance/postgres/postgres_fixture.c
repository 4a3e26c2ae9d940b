/*
 * A private PostgreSQL server. See conformance/fixture.h.
 */
#include <stdlib.h>

#include "base/util.h"
#include "conformance/fixture.h"
#include "lib/postgres_server.h"

static struct postgres_server *server_of(const struct fixture *fixture) {
    return fixture->server;
}

static int create_postgres(struct fixture *fixture) {
    fixture->server = calloc(1, sizeof(struct postgres_server));
    if (!fixture->server)
        return -1;
    if (postgres_server_start(server_of(fixture)) != 0)
        return -1;
    postgres_server_url(server_of(fixture), "postgres", POSTGRES_SERVER_USER, "", fixture->url, sizeof fixture->url);
    return 0;
}

static void destroy_postgres(struct fixture *fixture) {
    postgres_server_remove(server_of(fixture));
    free(fixture->server);
}

static void kill_postgres(struct fixture *fixture) {
    postgres_server_kill(server_of(fixture));
}

static void start_postgres(struct fixture *fixture) {
    (void)postgres_server_start_again(server_of(fixture));
}

static void terminate_backends(struct fixture *fixture) {
    bool done;
    free(postgres_server_query(server_of(fixture), "postgres",
                               "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity "
                               "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
                               &done));
}

static void age_feed(struct fixture *fixture) {
    bool done;
    free(postgres_server_query(server_of(fixture), "postgres",
                               "UPDATE tenure.change SET at = at - interval '2 minutes'", &done));
}

static const fixture_disturbance postgres_disturbances[] = {
    {"the server terminates every connection", terminate_backends, NULL, true},
    {"the server is killed and started again", kill_postgres, start_postgres, false},
};

const fixture_kind postgres_fixture = {
    .scheme = "postgres:",
    .create = create_postgres,
    .destroy = destroy_postgres,
    .disturbances = postgres_disturbances,
    .disturbance_count = TEN_COUNT(postgres_disturbances),
    .age_feed = age_feed,
};
