/*
 * Hearing of changes: a second connection that has subscribed to the namespace's channel, kept by notice_watch.h.
 */
#include <string.h>

#include "store/redis/redis_state.h"

static ten_redis_store *self(ten_backend *base) {
    return (ten_redis_store *)base;
}

static int listen_beside(ten_backend *base, uint64_t deadline_ms, int *ret_fd) {
    ten_redis_store *store = self(base);
    const ten_redis_space *space;
    if (!store->link)
        return TEN_NOTICE_NOT_NOW;
    int r = ten_redis_space_get(&store->layout, store->watch.namespace_name, &space, base->error);
    if (r == TENURE_OK)
        r = ten_redis_link_open_beside(store->link, store->settings, deadline_ms, &store->watch_link, base->error);
    if (r < 0)
        return r;
    char channel[TENURE_NAMESPACE_MAX + 48];
    snprintf(channel, sizeof channel, "%s@%llu", space->own[TEN_REDIS_FEED],
             (unsigned long long)ten_redis_settings_database(store->settings));
    const char *const words[] = {"SUBSCRIBE", channel};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    *ret_fd = ten_redis_link_fd(store->watch_link);
    return ten_redis_link_ask(store->watch_link, deadline_ms, &reply, base->error, words, TEN_COUNT(words));
}

static void end_listening(ten_backend *base) {
    ten_redis_link_close(self(base)->watch_link);
    self(base)->watch_link = NULL;
}

static bool take_notices(ten_backend *base) {
    ten_error error;
    for (;;) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        if (ten_redis_link_take(self(base)->watch_link, &reply, &error) < 0 ||
            (reply && reply->type == REDIS_REPLY_ERROR))
            return false;
        if (!reply)
            return true;
        self(base)->watch.ping_sent = false;
    }
}

static bool send_ping(ten_backend *base, uint64_t deadline_ms) {
    static const char *const words[] = {"PING"};
    ten_redis_link *link = self(base)->watch_link;
    ten_error error;
    return ten_redis_link_send(link, 1, words, NULL, &error) == TENURE_OK &&
           ten_redis_link_flush(link, deadline_ms, &error) == TENURE_OK;
}

const ten_notice_ops ten_redis_notice_ops = {.server = "Redis",
                                             .patience = 2,
                                             .listen = listen_beside,
                                             .close = end_listening,
                                             .read = take_notices,
                                             .ping = send_ping};
