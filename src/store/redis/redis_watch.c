/*
 * Hearing of changes: a second connection that has subscribed to the namespace's channel, kept by notice_watch.h. The
 * entries of the feed come with the messages, so that mostly nobody has to read it. Called through store.h.
 */
#include <string.h>

#include "store/redis/redis_state.h"

#define HEARD_MAX 65536u

void ten_redis_watch_forget(ten_redis_watch *watch) {
    ten_buf_clear(&watch->heard);
    watch->heard_from = watch->heard_to = 0;
}

static int subscribe(ten_redis_store *store, ten_redis_link *link, uint64_t deadline_ms) {
    const ten_redis_space *space;
    ten_redis_watch *watch = &store->watch;
    int r = ten_redis_space_get(&store->layout, watch->notice.namespace_name, &space, &store->base.error);
    char channel[TENURE_NAMESPACE_MAX + 48];
    snprintf(channel, sizeof channel, "%s@%llu", r == TENURE_OK ? space->own[TEN_REDIS_FEED] : "",
             (unsigned long long)ten_redis_settings_database(store->settings));
    const char *const words[] = {"SUBSCRIBE", channel};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    if (r == TENURE_OK)
        r = ten_redis_link_ask(link, deadline_ms, &reply, &store->base.error, words, TEN_COUNT(words));
    return r;
}

static int listen_beside(void *owner, uint64_t deadline_ms, int *ret_fd) {
    ten_redis_store *store = owner;
    ten_redis_watch *watch = &store->watch;
    if (!store->link)
        return TEN_NOTICE_NOT_NOW;
    int r = ten_redis_link_open_beside(store->link, store->settings, deadline_ms, &watch->link, &store->base.error);
    if (r == TENURE_OK)
        r = subscribe(store, watch->link, deadline_ms);
    if (r == TENURE_OK)
        *ret_fd = ten_redis_link_fd(watch->link);
    return r;
}

static void end_listening(void *owner) {
    ten_redis_watch *watch = &((ten_redis_store *)owner)->watch;
    ten_redis_watch_forget(watch);
    ten_redis_link_close(watch->link);
    watch->link = NULL;
}

/* Keeps the events of a message if it goes on where the last one ended. One that was too large has no lines: what it is
 * about has to be asked for. */
static void hear(ten_redis_watch *watch, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[2]->type != REDIS_REPLY_STRING ||
        strcmp(ten_redis_text(reply->element[0]), "message") != 0)
        return;
    const char *entry = reply->element[2]->str;
    uint64_t lines = 0;
    for (const char *at = strchr(entry, '\n'); at; at = strchr(at + 1, '\n'))
        lines++;
    uint64_t to = strtoull(entry, NULL, 10);
    if (lines == 0 || watch->heard.size > HEARD_MAX || watch->heard.failed || watch->heard_to != to - lines) {
        ten_redis_watch_forget(watch);
        watch->heard_from = to - lines;
    }
    if (lines > 0) {
        ten_buf_add(&watch->heard, entry, strlen(entry) + 1);
        watch->heard_to = to;
    }
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
        hear(watch, reply);
    }
}

static bool send_ping(void *owner, uint64_t deadline_ms) {
    static const char *const words[] = {"PING"};
    static const size_t sizes[] = {4};
    const ten_redis_watch *watch = &((ten_redis_store *)owner)->watch;
    ten_error error;
    return ten_redis_link_send(watch->link, 1, words, sizes, &error) == TENURE_OK &&
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
    ten_notice_watch_init(&store->watch.notice, store, &store->base.error, &notice_ops);
}

int ten_redis_watch_get(ten_store *base, const char *namespace_name, int *ret_fd) {
    return ten_notice_watch_get(&((ten_redis_store *)base)->watch.notice, namespace_name, ret_fd);
}

void ten_redis_watch_clear(ten_store *base) {
    ten_notice_watch_clear(&((ten_redis_store *)base)->watch.notice);
}

void ten_redis_watch_close(ten_redis_watch *watch) {
    ten_notice_watch_close(&watch->notice);
    ten_buf_free(&watch->heard);
}
