/*
 * A thread that talks to a Redis. Called by target_redis.c and sink_redis.c.
 */
#include "agent/common/redis_thread.h"

#include <string.h>
#include <sys/socket.h>

#include "agent/common/endpoint.h"

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
    int r = text ? ten_url_parse(text, url, error) : TENURE_OK;
    if (r == TENURE_OK && (!text || !is_redis(url)))
        r = ten_fail(error, TENURE_E_INVALID, "%.60s needs a Redis%s", what,
                     config->redis ? ", and TENURE_REDIS_URL (or --redis) does not name one: write redis://HOST"
                                   : " store: use --store redis://..., or set TENURE_REDIS_URL to the Redis of the "
                                     "targets and messages");
    if (r == TENURE_OK && config->redis)
        r = ten_url_check_options(url, known, error);
    return r;
}

/* It sits in a request: with its connection cut that returns. */
static void interrupt(ten_side_thread *side) {
    const ten_redis_thread *thread = (ten_redis_thread *)side;
    if (thread->link)
        (void)shutdown(ten_redis_link_fd(thread->link), SHUT_RDWR);
}

int ten_redis_thread_open(ten_redis_thread *thread, const ten_agent_config *config, const char *what,
                          ten_error *error) {
    ten_url url = {0};
    *thread = (ten_redis_thread){0};
    ten_side_thread_init(&thread->side);
    thread->side.interrupt = interrupt;
    int r = read_url(config, what, &url, error);
    if (r == TENURE_OK)
        r = ten_endpoint_timeout(&url, config->context.ttl_ms, &thread->timeout_ms, error);
    if (r == TENURE_OK)
        r = ten_redis_settings_make(&url, &thread->settings, error);
    ten_url_free(&url);
    return r;
}

void ten_redis_thread_close(ten_redis_thread *thread) {
    ten_redis_link_close(thread->link);
    if (thread->settings)
        ten_redis_settings_free(thread->settings);
    ten_side_thread_close(&thread->side);
}

int ten_redis_thread_start(ten_redis_thread *thread, void *(*run)(void *), void (*free)(ten_side_thread *),
                           ten_error *error) {
    return ten_side_thread_start(&thread->side, ten_redis_settings_name(thread->settings), run, free, error);
}

/* ---- for the thread itself */

uint64_t ten_redis_thread_deadline_ms(ten_redis_thread *thread) {
    return ten_side_thread_deadline_ms(&thread->side, thread->timeout_ms);
}

static void set_link(ten_redis_thread *thread, ten_redis_link *link) {
    pthread_mutex_lock(&thread->side.lock);
    ten_redis_link *before = thread->link;
    thread->link = link;
    pthread_mutex_unlock(&thread->side.lock);
    ten_redis_link_close(before);
}

int ten_redis_thread_connect(ten_redis_thread *thread, ten_error *error) {
    if (thread->link && ten_redis_link_is_fresh(thread->link))
        return TENURE_OK;
    ten_redis_link *link;
    set_link(thread, NULL);
    int r = ten_redis_link_open(thread->settings, TEN_REDIS_ANY, ten_redis_thread_deadline_ms(thread), &link, error);
    if (r == TENURE_OK)
        set_link(thread, link);
    return r;
}

void ten_redis_thread_back_off(ten_redis_thread *thread) {
    set_link(thread, NULL);
    ten_side_thread_back_off(&thread->side);
}
