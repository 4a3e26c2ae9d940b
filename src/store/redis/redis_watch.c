/*
 * Hearing of changes: a second connection that has subscribed to the namespace's channel. The descriptor that callers
 * poll is an epoll of that connection and a timer, so that it stays the same when the connection is made anew. While
 * there is no subscription the timer wakes the caller, who reads the feed and so finds what was not announced; a
 * subscription whose peer has vanished is found out by a PING that stays without answer.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/io.h"
#include "base/random.h"
#include "store/redis/redis_state.h"

#define SUBSCRIBE_MS 250u /* at most, for a start: the thread that waits here has leases to renew */
#define PATIENCE     2u   /* times that this is doubled when it was not enough */
#define RETRY_MS     250u /* between tries, and how often the feed is read meanwhile */
#define HEARD_MAX    65536u
#define PING_MS      5000u /* a silent peer is noticed after two of these */

static void set_timer(const ten_redis_watch *watch, uint64_t first_ms, uint64_t then_ms) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(first_ms / 1000), .tv_nsec = (long)(first_ms % 1000) * 1000000L},
        .it_interval = {.tv_sec = (time_t)(then_ms / 1000), .tv_nsec = (long)(then_ms % 1000) * 1000000L}};
    (void)timerfd_settime(watch->timer_fd, 0, &when, NULL);
}

void ten_redis_watch_forget(ten_redis_watch *watch) {
    ten_buf_clear(&watch->heard);
    watch->heard_from = watch->heard_to = 0;
}

static void go_down(ten_redis_watch *watch) {
    ten_redis_watch_forget(watch);
    uint64_t pause_ms = RETRY_MS + ten_random_u64() % RETRY_MS;
    ten_redis_link_close(watch->link);
    watch->link = NULL;
    watch->ping_sent = false;
    watch->retry_ms = ten_now_ms() + pause_ms;
    set_timer(watch, pause_ms, pause_ms);
}

static int subscribe(ten_redis_store *store, ten_redis_link *link, uint64_t deadline_ms) {
    const ten_redis_space *space;
    ten_redis_watch *watch = &store->watch;
    int r = ten_redis_space_get(&store->layout, watch->namespace_name, &space, &store->base.error);
    char channel[TENURE_NAMESPACE_MAX + 48];
    snprintf(channel, sizeof channel, "%s@%llu", r == TENURE_OK ? space->own[TEN_REDIS_FEED] : "",
             (unsigned long long)ten_redis_settings_database(store->settings));
    const char *const words[] = {"SUBSCRIBE", channel};
    TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
    if (r == TENURE_OK)
        r = ten_redis_link_ask(link, deadline_ms, &reply, &store->base.error, words, TEN_COUNT(words));
    struct epoll_event interest = {.events = EPOLLIN};
    if (r == TENURE_OK && epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, ten_redis_link_fd(link), &interest) != 0)
        r = ten_fail_errno(&store->base.error, TENURE_E_SYSTEM, errno, "cannot watch the Redis connection");
    return r;
}

void ten_redis_watch_mend(ten_redis_store *store) {
    ten_redis_watch *watch = &store->watch;
    if (watch->epoll_fd < 0 || watch->link || ten_now_ms() < watch->retry_ms)
        return;
    if (!store->link) {
        go_down(watch);
        return;
    }
    uint64_t deadline_ms = ten_now_ms() + (SUBSCRIBE_MS << watch->failures);
    ten_redis_link *link = NULL;
    int r = ten_redis_link_open_beside(store->link, store->settings, deadline_ms, &link, &store->base.error);
    if (r == TENURE_OK)
        r = subscribe(store, link, deadline_ms);
    watch->link = link;
    if (r < 0) {
        /* A far away server needs more; the leases can wait that long, too. */
        watch->failures = (unsigned)ten_min_u64(watch->failures + 1, PATIENCE);
        go_down(watch);
        return;
    }
    watch->failures = 0;
    /* What was told before is not heard here: the caller is woken once, and reads the feed. */
    set_timer(watch, 1, PING_MS);
}

static int open_descriptors(ten_redis_store *store) {
    ten_redis_watch *watch = &store->watch;
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event interest = {.events = EPOLLIN};
    if (watch->epoll_fd >= 0 && watch->timer_fd >= 0 &&
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->timer_fd, &interest) == 0)
        return TENURE_OK;
    int failed = errno;
    ten_redis_watch_close(watch);
    return ten_fail_errno(&store->base.error, TENURE_E_SYSTEM, failed, "cannot watch for changes");
}

int ten_redis_watch_get(ten_store *base, const char *namespace_name, int *ret_fd) {
    ten_redis_store *store = (ten_redis_store *)base;
    ten_redis_watch *watch = &store->watch;
    int r = watch->epoll_fd >= 0 ? TENURE_OK : open_descriptors(store);
    if (r < 0)
        return r;
    if (strcmp(watch->namespace_name, namespace_name) != 0) {
        snprintf(watch->namespace_name, sizeof watch->namespace_name, "%s", namespace_name);
        ten_redis_link_close(watch->link);
        watch->link = NULL;
        watch->retry_ms = 0;
        ten_redis_watch_forget(watch);
    }
    ten_redis_watch_mend(store);
    *ret_fd = watch->epoll_fd;
    return TENURE_OK;
}

/* Keeps what a notice says if it goes on where the last one ended. One that was too large has no lines: what it is
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

/* Takes what has come. */
static bool drain(ten_redis_watch *watch) {
    ten_error error;
    for (;;) {
        TEN_CLEANUP(ten_redis_free_reply) redisReply *reply = NULL;
        if (ten_redis_link_take(watch->link, &reply, &error) < 0 || (reply && reply->type == REDIS_REPLY_ERROR))
            return false;
        if (!reply)
            return true;
        watch->ping_sent = false;
        hear(watch, reply);
    }
}

static bool ping(ten_redis_watch *watch) {
    static const char *const words[] = {"PING"};
    static const size_t sizes[] = {4};
    ten_error error;
    if (watch->ping_sent)
        return false;
    watch->ping_sent = true;
    return ten_redis_link_send(watch->link, 1, words, sizes, &error) == TENURE_OK &&
           ten_redis_link_flush(watch->link, ten_now_ms() + SUBSCRIBE_MS, &error) == TENURE_OK;
}

void ten_redis_watch_clear(ten_store *base) {
    ten_redis_watch *watch = &((ten_redis_store *)base)->watch;
    uint64_t count = 0;
    bool timed = watch->timer_fd >= 0 && ten_read_some(watch->timer_fd, &count, sizeof count) > 0;
    if (watch->link && (!drain(watch) || (timed && !ping(watch))))
        go_down(watch);
}

void ten_redis_watch_close(ten_redis_watch *watch) {
    ten_redis_link_close(watch->link);
    watch->link = NULL;
    ten_buf_free(&watch->heard);
    ten_close_fd(&watch->epoll_fd);
    ten_close_fd(&watch->timer_fd);
}
