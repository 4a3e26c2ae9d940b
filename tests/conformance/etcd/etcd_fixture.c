/*
 * A private etcd with one member. See conformance/fixture.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "conformance/fixture.h"
#include "lib/etcd_server.h"
#include "lib/freeze.h"

static etcd_server *server_of(const struct fixture *fixture) {
    return fixture->server;
}

static int create_etcd(struct fixture *fixture) {
    fixture->server = calloc(1, sizeof(etcd_server));
    if (!fixture->server)
        return -1;
    if (fixture_make_directory(fixture->directory) != 0 || !etcd_start(server_of(fixture), fixture->directory))
        return -1;
    snprintf(fixture->url, sizeof fixture->url, "etcd://127.0.0.1:%d", server_of(fixture)->port);
    return 0;
}

static void destroy_etcd(struct fixture *fixture) {
    etcd_stop(server_of(fixture));
    fixture_remove_directory(fixture->directory);
    free(fixture->server);
}

static void kill_etcd(struct fixture *fixture) {
    etcd_stop(server_of(fixture));
}

static void start_etcd(struct fixture *fixture) {
    (void)etcd_start_again(server_of(fixture));
}

static void freeze_etcd(struct fixture *fixture) {
    (void)freeze_process(server_of(fixture)->pid);
}

static void thaw_etcd(struct fixture *fixture) {
    (void)thaw_process(server_of(fixture)->pid);
}

/* Everything that a watch could have been read again from is gone. */
static void compact_etcd(struct fixture *fixture) {
    char command[FIXTURE_PATH_SIZE];
    snprintf(command, sizeof command,
             "ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%d compaction --physical "
             "\"$(ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%d endpoint status -w json | sed "
             "'s/.*\"revision\":\\([0-9]*\\).*/\\1/')\" >/dev/null",
             server_of(fixture)->port, server_of(fixture)->port);
    if (system(command) != 0)
        fprintf(stderr, "cannot compact etcd\n");
}

static const fixture_disturbance etcd_disturbances[] = {
    {"the server compacts its history", compact_etcd, NULL, true},
    {"the server is killed and started again", kill_etcd, start_etcd, false},
    {"the server stands still and goes on", freeze_etcd, thaw_etcd, false},
};

const fixture_kind etcd_fixture = {
    .scheme = "etcd:",
    .create = create_etcd,
    .destroy = destroy_etcd,
    .disturbances = etcd_disturbances,
    .disturbance_count = TEN_COUNT(etcd_disturbances),
};
