/*
 * See notice_watch.h. Called by redis_watch.c and postgres_watch.c.
 */
#include "store/common/notice_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/random.h"

#define LISTEN_MS 250u  /* at most, for a start: the thread that waits here has leases to renew */
#define RETRY_MS  250u  /* between tries, and how often the feed is read meanwhile */
#define PING_MS   5000u /* a silent server is noticed after two of these */

static ten_notice_watch *watch_of(ten_backend *base) {
    return &((ten_noticing *)base)->watch;
}

void ten_notice_watch_init(ten_backend *base, const ten_notice_ops *ops) {
    *watch_of(base) = (ten_notice_watch){.ops = ops, .epoll_fd = -1, .timer_fd = -1};
}

static void set_timer(const ten_notice_watch *watch, uint64_t first_ms, uint64_t then_ms) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(first_ms / 1000), .tv_nsec = (long)(first_ms % 1000) * 1000000L},
        .it_interval = {.tv_sec = (time_t)(then_ms / 1000), .tv_nsec = (long)(then_ms % 1000) * 1000000L}};
    (void)timerfd_settime(watch->timer_fd, 0, &when, NULL);
}

static void disconnect(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    watch->ops->close(base);
    watch->listening = false;
    watch->ping_sent = false; /* its answer cannot come by the next connection */
}

static void go_down(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    uint64_t pause_ms = watch->poll_ms ? watch->poll_ms : RETRY_MS + ten_random_u64() % RETRY_MS;
    disconnect(base);
    watch->retry_ms = ten_now_ms() + pause_ms;
    set_timer(watch, pause_ms, pause_ms);
}

void ten_notice_watch_reconnect(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    struct epoll_event interest = {.events = EPOLLIN};
    int fd = -1;
    if (watch->epoll_fd < 0 || watch->listening || watch->poll_ms || ten_now_ms() < watch->retry_ms)
        return;
    int r = watch->ops->listen(base, ten_now_ms() + (LISTEN_MS << watch->failures), &fd);
    if (r == TENURE_OK && epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &interest) != 0)
        r = ten_fail_errno(base->error, TENURE_E_SYSTEM, errno, "cannot watch the %s connection", watch->ops->server);
    /* A server that is far away needs more time; the leases can wait that long, too. */
    if (r < 0)
        watch->failures = (unsigned)ten_min_u64(watch->failures + 1, watch->ops->patience);
    if (r != TENURE_OK) {
        go_down(base);
        return;
    }
    watch->listening = true;
    watch->failures = 0;
    /* What was announced before is not heard here: the caller is woken once, and reads the feed. */
    set_timer(watch, 1, PING_MS);
}

static int open_descriptors(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event interest = {.events = EPOLLIN};
    if (watch->epoll_fd >= 0 && watch->timer_fd >= 0 &&
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->timer_fd, &interest) == 0)
        return TENURE_OK;
    int failed = errno;
    ten_notice_watch_close(base);
    return ten_fail_errno(base->error, TENURE_E_SYSTEM, failed, "cannot watch for changes");
}

int ten_notice_watch_get(ten_backend *base, const char *namespace_name, int *ret_fd) {
    ten_notice_watch *watch = watch_of(base);
    int r = watch->epoll_fd >= 0 ? TENURE_OK : open_descriptors(base);
    if (r < 0)
        return r;
    if (strcmp(watch->namespace_name, namespace_name) != 0) {
        snprintf(watch->namespace_name, sizeof watch->namespace_name, "%s", namespace_name);
        disconnect(base);
        watch->retry_ms = 0;
    }
    ten_notice_watch_reconnect(base);
    *ret_fd = watch->epoll_fd;
    return TENURE_OK;
}

void ten_notice_watch_clear(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    uint64_t count = 0;
    bool timed = watch->timer_fd >= 0 && ten_read_some(watch->timer_fd, &count, sizeof count) > 0;
    if (!watch->listening)
        return;
    bool alive = watch->ops->read(base);
    if (alive && timed) {
        alive = !watch->ping_sent && watch->ops->ping(base, ten_now_ms() + LISTEN_MS);
        watch->ping_sent = true;
    }
    if (!alive)
        go_down(base);
}

void ten_notice_watch_close(ten_backend *base) {
    ten_notice_watch *watch = watch_of(base);
    disconnect(base);
    ten_close_fd(&watch->epoll_fd);
    ten_close_fd(&watch->timer_fd);
}
