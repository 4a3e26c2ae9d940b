/*
 * A thread that talks to a Redis. Called by target_redis.c and sink_redis.c.
 */
#include "agent/redis_thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/io.h"
#include "base/random.h"

#define TIMEOUT_MIN_MS  250u
#define TIMEOUT_MAX_MS  3000u
#define BACKOFF_MIN_MS  100u
#define BACKOFF_MAX_MS  5000u
#define STOP_BACKOFF_MS 100u /* while it is stopping there is no time for more */
#define LAST_MOMENT_MS  200u /* for a thread that has been told, and whose connection is cut */

static uint64_t now_ms(void) {
    return ten_boot_ms(&ten_system_clock);
}

/* ---- which server */

static bool is_redis(const ten_url *url) {
    static const char *const schemes[] = {"redis", "rediss", "redis+unix", "redis+sentinel"};
    for (size_t i = 0; i < TEN_COUNT(schemes); i++)
        if (strcmp(schemes[i], url->scheme) == 0)
            return true;
    return false;
}

/* The options of a store's URL are checked by the store; those of one that is only ours, here. */
static int read_url(const ten_agent_config *config, const char *what, ten_url *url, ten_error *error) {
    static const char *const known[] = {TEN_REDIS_LINK_OPTIONS, NULL};
    const char *text = config->redis ? config->redis : config->store;
    int done = text ? ten_url_parse(text, url, error) : TENURE_OK;
    if (done == TENURE_OK && (!text || !is_redis(url)))
        done = ten_fail(error, TENURE_E_INVALID, "%.60s needs a Redis%s", what,
                        config->redis ? ", and TENURE_REDIS_URL (or --redis) does not name one: write redis://HOST"
                                      : " store: use --store redis://..., or set TENURE_REDIS_URL to the Redis of the "
                                        "targets and messages");
    if (done == TENURE_OK && config->redis)
        done = ten_url_check_options(url, known, error);
    return done;
}

/* Messages and news of targets are worth something as long as leases last, so what hangs is given up in a part of that.
 */
static int read_timeout(ten_redis_thread *thread, const ten_url *url, uint64_t ttl_ms, ten_error *error) {
    const char *text = ten_url_option(url, "timeout");
    thread->timeout_ms = ten_min_u64(ten_max_u64(ttl_ms / 4, TIMEOUT_MIN_MS), TIMEOUT_MAX_MS);
    if (!text)
        return TENURE_OK;
    int done = ten_duration_parse(text, &thread->timeout_ms, error);
    return done == TENURE_OK && thread->timeout_ms == 0
               ? ten_fail(error, TENURE_E_INVALID, "the URL's timeout is 0: nothing can answer in that time")
               : done;
}

int ten_redis_thread_open(ten_redis_thread *thread, const ten_agent_config *config, const char *what,
                          ten_error *error) {
    ten_url url = {0};
    *thread = (ten_redis_thread){
        .wake_fd = -1, .ended_fd = -1, .stop_ms = UINT64_MAX, .owners = 1, .backoff_max_ms = BACKOFF_MAX_MS};
    pthread_mutex_init(&thread->lock, NULL);
    int done = read_url(config, what, &url, error);
    if (done == TENURE_OK)
        done = read_timeout(thread, &url, config->manager.ttl_ms, error);
    if (done == TENURE_OK)
        done = ten_redis_settings_make(&url, &thread->settings, error);
    ten_url_free(&url);
    return done;
}

void ten_redis_thread_close(ten_redis_thread *thread) {
    ten_redis_link_close(thread->link);
    if (thread->settings)
        ten_redis_settings_free(thread->settings);
    ten_close_fd(&thread->wake_fd);
    ten_close_fd(&thread->ended_fd);
    pthread_mutex_destroy(&thread->lock);
}

/* ---- its life */

static int start(void *(*run)(void *), ten_redis_thread *thread) {
    pthread_t id;
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&id, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_detach(id);
    return failed;
}

int ten_redis_thread_start(ten_redis_thread *thread, void *(*run)(void *), void (*free)(ten_redis_thread *),
                           ten_error *error) {
    thread->free = free;
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = thread->wake_fd < 0 || thread->ended_fd < 0 ? errno : 0;
    thread->owners = 2;
    if (!failed)
        failed = start(run, thread);
    if (!failed)
        return TENURE_OK;
    thread->owners = 1;
    return ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot start a thread for %s",
                          ten_redis_settings_name(thread->settings));
}

void ten_redis_thread_let_go(ten_redis_thread *thread) {
    pthread_mutex_lock(&thread->lock);
    unsigned left = --thread->owners;
    pthread_mutex_unlock(&thread->lock);
    if (left == 0)
        thread->free(thread);
}

static void tell(int fd) {
    uint64_t one = 1;
    (void)ten_write_all(fd, &one, sizeof one);
}

void ten_redis_thread_wake(ten_redis_thread *thread) {
    tell(thread->wake_fd);
}

void ten_redis_thread_end(ten_redis_thread *thread) {
    tell(thread->ended_fd);
    ten_redis_thread_let_go(thread);
}

void ten_redis_thread_stop(ten_redis_thread *thread, uint64_t patience_ms) {
    atomic_store(&thread->stop_ms, ten_add_u64(now_ms(), patience_ms));
    ten_redis_thread_wake(thread);
    if (ten_wait_readable(thread->ended_fd, -1, patience_ms) > 0)
        return;
    /* It sits in a request: with its connection cut that returns. */
    pthread_mutex_lock(&thread->lock);
    if (thread->link)
        (void)shutdown(ten_redis_link_fd(thread->link), SHUT_RDWR);
    pthread_mutex_unlock(&thread->lock);
    (void)ten_wait_readable(thread->ended_fd, -1, LAST_MOMENT_MS);
}

/* ---- for the thread itself */

bool ten_redis_thread_is_stopping(ten_redis_thread *thread) {
    return atomic_load(&thread->stop_ms) != UINT64_MAX;
}

bool ten_redis_thread_is_over(ten_redis_thread *thread) {
    return now_ms() >= atomic_load(&thread->stop_ms);
}

uint64_t ten_redis_thread_deadline_ms(ten_redis_thread *thread) {
    return ten_min_u64(ten_add_u64(now_ms(), thread->timeout_ms), atomic_load(&thread->stop_ms));
}

static void set_link(ten_redis_thread *thread, ten_redis_link *link) {
    pthread_mutex_lock(&thread->lock);
    ten_redis_link *before = thread->link;
    thread->link = link;
    pthread_mutex_unlock(&thread->lock);
    ten_redis_link_close(before);
}

int ten_redis_thread_connect(ten_redis_thread *thread, ten_error *error) {
    if (thread->link && ten_redis_link_is_fresh(thread->link))
        return TENURE_OK;
    ten_redis_link *link;
    set_link(thread, NULL);
    int done = ten_redis_link_open(thread->settings, TEN_REDIS_ANY, ten_redis_thread_deadline_ms(thread), &link, error);
    if (done == TENURE_OK)
        set_link(thread, link);
    return done;
}

void ten_redis_thread_disconnect(ten_redis_thread *thread) {
    set_link(thread, NULL);
}

void ten_redis_thread_wait(ten_redis_thread *thread, uint64_t until_ms) {
    uint64_t count;
    (void)ten_wait_readable(thread->wake_fd, -1, until_ms == UINT64_MAX ? until_ms : ten_left_u64(until_ms, now_ms()));
    (void)ten_read_some(thread->wake_fd, &count, sizeof count);
}

void ten_redis_thread_pause(ten_redis_thread *thread, uint64_t until_ms) {
    while (now_ms() < until_ms && !ten_redis_thread_is_stopping(thread))
        ten_redis_thread_wait(thread, until_ms);
}

void ten_redis_thread_back_off(ten_redis_thread *thread) {
    ten_redis_thread_disconnect(thread);
    if (ten_redis_thread_is_stopping(thread)) {
        ten_redis_thread_wait(thread, ten_min_u64(now_ms() + STOP_BACKOFF_MS, atomic_load(&thread->stop_ms)));
        return;
    }
    uint64_t longest_ms =
        ten_min_u64((uint64_t)BACKOFF_MIN_MS << ten_min_u64(thread->failures++, 10), thread->backoff_max_ms);
    ten_redis_thread_pause(thread, now_ms() + longest_ms / 2 + ten_random_u64() % (longest_ms / 2));
}
