/*
 * Hearing of changes: a second connection that has subscribed to the namespace's channel, kept by notice_watch.h.
 * Called through backend.h.
 */
#include <string.h>

#include "store/redis/redis_state.h"

static int subscribe(ten_redis_store *store, ten_redis_link *link, uint64_t deadline_ms) {
    const ten_redis_space *space;
    ten_redis_watch *watch = &store->watch;
    int r = ten_redis_space_get(&store->layout, watch->notice.namespace_name, &space, store->base.error);
    char channel[TENURE_NAMESPACE_MAX + 48];
    snprintf(channel, sizeof channel, "%s@%llu", r == TENURE_OK ? space->own[TEN_REDIS_FEED] : "",
             (unsigned long long)ten_redis_settings_database(store->settings));
    const char *const words[] = {"SUBSCRIBE", channel};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    if (r == TENURE_OK)
        r = ten_redis_link_ask(link, deadline_ms, &reply, store->base.error, words, TEN_COUNT(words));
    return r;
}

static int listen_beside(void *owner, uint64_t deadline_ms, int *ret_fd) {
    ten_redis_store *store = owner;
    ten_redis_watch *watch = &store->watch;
    if (!store->link)
        return TEN_NOTICE_NOT_NOW;
    int r = ten_redis_link_open_beside(store->link, store->settings, deadline_ms, &watch->link, store->base.error);
    if (r == TENURE_OK)
        r = subscribe(store, watch->link, deadline_ms);
    if (r == TENURE_OK)
        *ret_fd = ten_redis_link_fd(watch->link);
    return r;
}

static void end_listening(void *owner) {
    ten_redis_watch *watch = &((ten_redis_store *)owner)->watch;
    ten_redis_link_close(watch->link);
    watch->link = NULL;
}

static bool take_notices(void *owner) {
    ten_redis_watch *watch = &((ten_redis_store *)owner)->watch;
    ten_error error;
    for (;;) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        if (ten_redis_link_take(watch->link, &reply, &error) < 0 || (reply && reply->type == REDIS_REPLY_ERROR))
            return false;
        if (!reply)
            return true;
        watch->notice.ping_sent = false;
    }
}

static bool send_ping(void *owner, uint64_t deadline_ms) {
    static const char *const words[] = {"PING"};
    const ten_redis_watch *watch = &((ten_redis_store *)owner)->watch;
    ten_error error;
    return ten_redis_link_send(watch->link, 1, words, NULL, &error) == TENURE_OK &&
           ten_redis_link_flush(watch->link, deadline_ms, &error) == TENURE_OK;
}

/* ---- the ops */

static const ten_notice_ops notice_ops = {.server = "Redis",
                                          .patience = 2,
                                          .listen = listen_beside,
                                          .close = end_listening,
                                          .read = take_notices,
                                          .ping = send_ping};

void ten_redis_watch_init(ten_redis_store *store) {
    ten_notice_watch_init(&store->watch.notice, store, store->base.error, &notice_ops);
}

int ten_redis_watch_get(ten_backend *base, const char *namespace_name, int *ret_fd) {
    return ten_notice_watch_get(&((ten_redis_store *)base)->watch.notice, namespace_name, ret_fd);
}

void ten_redis_watch_clear(ten_backend *base) {
    ten_notice_watch_clear(&((ten_redis_store *)base)->watch.notice);
}

void ten_redis_watch_close(ten_redis_watch *watch) {
    ten_notice_watch_close(&watch->notice);
}
