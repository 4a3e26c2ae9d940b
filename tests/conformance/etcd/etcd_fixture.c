/*
 * A private etcd with one member. See conformance/fixture.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/util.h"
#include "conformance/fixture.h"
#include "lib/etcd_server.h"
#include "lib/freeze.h"
#include "store/etcd/etcd_state.h"
#include "store/record_store.h"

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

static ten_etcd_store *backend_of(ten_store *store) {
    return (ten_etcd_store *)((ten_record_store *)store)->backend;
}

/* Adds an entry of a feed, as if written two minutes before, to the transaction. */
static void put_older(ten_etcd_store *store, const json_t *item, ten_etcd_key *key) {
    unsigned long long base;
    unsigned long long place;
    unsigned long long at_ms;
    int size = 0;
    ten_copy_text(key->text, sizeof key->text, ten_etcd_kv_key(item, &store->scratch));
    ten_etcd_kv kv = ten_etcd_kv_read(item, &store->scratch);
    if (!strstr(key->text, "/feed/") || sscanf(kv.value, "%llu %llu %llu%n", &base, &place, &at_ms, &size) != 3)
        return;
    ten_buf_clear(&store->value);
    ten_buf_format(&store->value, "%llu %llu %llu%s", base, place, at_ms - 120000, kv.value + size);
    ten_etcd_txn_put(&store->txn, key->text, ten_buf_string(&store->value), 0);
}

static void age_feed(struct fixture *fixture) {
    ten_store *base;
    ten_error error;
    if (ten_store_open(fixture->url, NULL, &base, &error) < 0)
        return;
    ten_etcd_store *store = backend_of(base);
    ten_etcd_key after = {""};
    for (bool more = true; more;) {
        json_t *answer = NULL;
        store->deadline_ms = ten_now_ms() + 30000;
        ten_etcd_txn_clear(&store->txn);
        ten_etcd_get_all(&store->txn.operations, "tenure/",
                         &(struct ten_etcd_range){.after = after.text[0] ? after.text : NULL, .limit = 100});
        if (ten_etcd_send(store, false, &answer) < 0)
            break;
        const json_t *items = ten_etcd_kvs(answer, 0);
        ten_etcd_txn_clear(&store->txn);
        for (size_t i = 0; i < json_array_size(items); i++)
            put_older(store, json_array_get(items, i), &after);
        more = ten_etcd_has_more(answer, 0);
        json_decref(answer);
        if (store->txn.operations.count > 0 && ten_etcd_send_only(store, true) < 0)
            more = false;
    }
    ten_store_close(base);
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
    .age_feed = age_feed,
};
