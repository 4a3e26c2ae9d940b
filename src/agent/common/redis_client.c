/*
 * The connection of a side thread to a Redis. See redis_client.h.
 */
#include "agent/common/redis_client.h"

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
    const char *text = config->redis ? config->redis : config->runner.store;
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

/* A request that hangs returns when its connection is cut. */
static void interrupt(void *connection) {
    const ten_redis_client *client = connection;
    if (client->link)
        (void)shutdown(ten_redis_link_fd(client->link), SHUT_RDWR);
}

int ten_redis_client_open(ten_redis_client *client, ten_side_thread *thread, const ten_agent_config *config,
                          const char *what, ten_error *error) {
    TEN_CLEANUP(ten_url_free) ten_url url = {0};
    *client = (ten_redis_client){.thread = thread};
    thread->interrupt = interrupt;
    thread->connection = client;
    int r = read_url(config, what, &url, error);
    TEN_STEP(r, ten_endpoint_timeout(&url, config->runner.context.ttl_ms, &client->timeout_ms, error));
    return r == TENURE_OK ? ten_redis_settings_make(&url, &client->settings, error) : r;
}

void ten_redis_client_close(ten_redis_client *client) {
    ten_redis_link_close(client->link);
    if (client->settings)
        ten_redis_settings_free(client->settings);
}

/* ---- for the thread */

uint64_t ten_redis_client_deadline_ms(ten_redis_client *client) {
    return ten_side_thread_deadline_ms(client->thread, client->timeout_ms);
}

static void set_link(ten_redis_client *client, ten_redis_link *link) {
    pthread_mutex_lock(&client->thread->lock);
    ten_redis_link *before = client->link;
    client->link = link;
    pthread_mutex_unlock(&client->thread->lock);
    ten_redis_link_close(before);
}

int ten_redis_client_connect(ten_redis_client *client, ten_error *error) {
    if (client->link && ten_redis_link_is_fresh(client->link))
        return TENURE_OK;
    ten_redis_link *link;
    set_link(client, NULL);
    int r = ten_redis_link_open(client->settings, TEN_REDIS_ANY, ten_redis_client_deadline_ms(client), &link, error);
    if (r == TENURE_OK)
        set_link(client, link);
    return r;
}

void ten_redis_client_disconnect(ten_redis_client *client) {
    set_link(client, NULL);
}
