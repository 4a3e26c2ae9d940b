/*
 * What a Redis store knows about its own fitness, for `tenure doctor`. Called through the store's check().
 */
#include <stdio.h>
#include <string.h>

#include "base/host.h"
#include "store/common/report.h"
#include "store/redis/redis_link_state.h"
#include "store/redis/redis_state.h"

static void check_reach(const ten_redis_settings *settings, const ten_redis_server *server, const ten_report *report) {
    ten_report_encryption(report, settings->tls, settings->socket_path ? NULL : server->address, "use rediss://");
    bool proves = settings->password || settings->files.secret_file;
    bool local = settings->socket_path || ten_host_is_loopback(server->address);
    ten_report_tell(report, proves || local ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "authentication",
                    proves  ? "with a password"
                    : local ? "none: every user of this host who reaches the server can end every lease"
                            : "none: whoever reaches the server can end every lease",
                    "give the fleet an ACL user of its own, with a password_file (README has the rules)");
}

static void check_server(const ten_redis_store *store, const ten_redis_server *server, const ten_report *report) {
    char found[256];
    snprintf(found, sizeof found, "%s at %s, a master with %u replica%s", server->version, server->address,
             server->replicas, server->replicas == 1 ? "" : "s");
    ten_report_tell(report, TENURE_CHECK_OK, "server", found, "");
    ten_report_tell(report, TENURE_CHECK_OK, "eviction", server->eviction, "");
    check_reach(store->settings, server, report);
    ten_report_tell(report, TENURE_CHECK_OK, "leases",
                    store->base.capabilities->sessions ? "session: the heartbeat of an instance renews all its leases"
                                                       : "key: each lease is a key with its own TTL",
                    "");
    ten_report_tell(
        report, server->saves ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "persistence",
        server->saves ? "append-only file" : "no append-only file: a restart loses what no snapshot has",
        "that is safe (newcomers wait for one TTL, living holders go on), but the target registry and the history are "
        "lost, too: turn on appendonly");
}

static void check_replicas(const ten_redis_store *store, const ten_redis_server *server, const ten_report *report) {
    char found[160];
    if (store->wait_replicas > 0) {
        snprintf(found, sizeof found, "wait_replicas=%llu, %u connected", (unsigned long long)store->wait_replicas,
                 server->replicas);
        ten_report_tell(report, server->replicas >= store->wait_replicas ? TENURE_CHECK_OK : TENURE_CHECK_FAIL,
                        "replicas", found, "no lease can be granted or renewed until enough replicas are connected");
    } else if (server->replicas > 0) {
        ten_report_tell(report, TENURE_CHECK_WARN, "replicas", "a failover can forget a lease that was acknowledged",
                        "add wait_replicas=N to the URL: then a lease counts only when N replicas have it");
    }
}

static int check_clock(ten_redis_store *store, const ten_report *report, uint64_t deadline_ms) {
    const char *const words[] = {"TIME"};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    int r = ten_redis_link_ask(store->link, deadline_ms, &reply, store->base.error, words, 1);
    if (r < 0 || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return r;
    int64_t server_ms =
        (int64_t)(ten_redis_number(reply->element[0]) * 1000 + ten_redis_number(reply->element[1]) / 1000);
    ten_report_clock(report, server_ms - (int64_t)ten_wall_ms(store->base.clock), TEN_REPORT_CLOCK_JUMPS);
    return TENURE_OK;
}

int ten_redis_check(ten_backend *base, tenure_check_fn each, void *userdata, uint64_t timeout_ms) {
    ten_redis_store *store = (ten_redis_store *)base;
    ten_report report = {.each = each, .userdata = userdata};
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    ten_redis_disconnect(store); /* so that what the server says of itself is of now */
    int r = ten_redis_connect(store, deadline_ms);
    if (r < 0)
        return r;
    const ten_redis_server *server = ten_redis_link_server(store->link);
    check_server(store, server, &report);
    check_replicas(store, server, &report);
    r = check_clock(store, &report, deadline_ms);
    int fd;
    if (r == TENURE_OK)
        r = ten_notice_watch_get(base, "poll", &fd);
    if (r == TENURE_OK)
        ten_report_tell(&report, store->watch.listening ? TENURE_CHECK_OK : TENURE_CHECK_WARN, "change notices",
                        store->watch.listening ? "subscribed" : base->error->message,
                        "an ACL user needs +@pubsub and the channels &tenure:*: without PUBLISH other processes are "
                        "not woken, without "
                        "SUBSCRIBE changes are read two to four times a second");
    return r;
}
