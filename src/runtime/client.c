/*
 * The client: opening, errors, and one call on the store at a time. The rest of the C API stands in
 * client_lease.c (leases), client_registry.c (targets, listings, health), client_history.c and client_observe.c.
 */
#include "runtime/client.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/id.h"
#include "base/io.h"

#define BLIND_LOOK_MS 250u /* between looks when the store cannot be watched */

const char *tenure_message(const tenure_client *client) {
    return ten_last_error_message(client);
}

const char *tenure_instance_id(const tenure_client *client) {
    return client->instance;
}

/* ---- opening */

static bool has_field(const tenure_options *options, size_t end) {
    return options && options->size >= end;
}

#define OPTION(options, field)                                                                                         \
    (has_field(options, offsetof(tenure_options, field) + sizeof((options)->field)) ? (options)->field : 0)

static int configure(tenure_client *client, const tenure_options *options, ten_error *error) {
    const char *namespace_name = OPTION(options, namespace_name);
    client->timing.ttl_ms = OPTION(options, ttl_ms);
    client->timing.margin_ms = OPTION(options, margin_ms);
    client->timing.timeout_ms = OPTION(options, timeout_ms);
    if (!namespace_name)
        namespace_name = "poll";
    int r = ten_id_check_namespace(namespace_name, error);
    if (r == TENURE_OK)
        r = ten_id_make_instance(OPTION(options, instance_name), client->instance, error);
    if (r == TENURE_OK)
        snprintf(client->namespace_name, sizeof client->namespace_name, "%s", namespace_name);
    return r;
}

static int open_store(tenure_client *client, const char *url, const ten_clock *clock, ten_error *error) {
    uint64_t asked_timeout_ms = client->timing.timeout_ms;
    ten_timing_defaults(&client->timing);
    int r = ten_timing_check(&client->timing, TENURE_TTL_MIN_MS, NULL, error);
    if (r < 0)
        return r;
    ten_store_config config = {.clock = clock, .timeout_ms = asked_timeout_ms};
    r = ten_store_open(url, &config, &client->store, error);
    if (r < 0)
        return r;
    if (asked_timeout_ms == 0 && client->store->timeout_ms)
        client->timing.timeout_ms = client->store->timeout_ms;
    return ten_timing_check(&client->timing, client->store->capabilities.ttl_min_ms,
                            client->store->capabilities.ttl_min_reason, error);
}

static void free_client(tenure_client *client) {
    /* A connection of the parent is not the child's to close. */
    if (ten_process_is(client->process))
        ten_store_close(client->store);
    ten_close_fd(&client->cancel_fd);
    ten_client_free_spent(client);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->waiters_lock);
    ten_free(client);
}

int ten_client_open(const char *url, const tenure_options *options, const ten_clock *clock,
                    tenure_client **ret_client) {
    ten_error error = {0};
    if (options && options->size < sizeof options->size)
        return ten_last_error_say(NULL, TENURE_E_INVALID,
                                  "tenure_options.size is not set: it is sizeof(tenure_options)");
    tenure_client *client = ten_calloc(1, sizeof *client);
    if (!client)
        return ten_last_error_say(NULL, TENURE_E_NOMEM, "out of memory while opening a client");
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->waiters_lock, NULL);
    client->cancel_fd = ten_eventfd_open();
    client->process = ten_process_number();
    int r = TENURE_OK;
    if (client->cancel_fd < 0 || client->process == 0)
        r = ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot open a client");
    if (r == TENURE_OK)
        r = configure(client, options, &error);
    if (r == TENURE_OK)
        r = open_store(client, url, clock, &error);
    if (r < 0) {
        free_client(client);
        return ten_last_error_set(NULL, &error);
    }
    *ret_client = client;
    return TENURE_OK;
}

int tenure_open(const char *url, const tenure_options *options, tenure_client **ret_client) {
    return ten_client_open(url, options, &ten_system_clock, ret_client);
}

void tenure_close(tenure_client *client) {
    if (!client)
        return;
    ten_last_error_forget(client);
    free_client(client);
}

void tenure_cancel(tenure_client *client) {
    int saved = errno; /* a signal handler leaves errno as it was */
    if (!ten_process_is(client->process))
        return; /* the descriptor is shared with the parent, whose waits are not the child's to end */
    ten_eventfd_poke(client->cancel_fd);
    errno = saved;
}

/* ---- one call at a time */

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#ifdef UNDER_TSAN
/* ThreadSanitizer does not know pthread_mutex_clocklock, and would take every access under it for a race. */
static bool lock_within(pthread_mutex_t *lock, uint64_t timeout_ms) {
    uint64_t end_us = ten_boot_us() + timeout_ms * 1000u;
    while (pthread_mutex_trylock(lock) != 0) {
        if (ten_boot_us() >= end_us)
            return false;
        ten_sleep_us(100);
    }
    return true;
}
#else
static bool lock_within(pthread_mutex_t *lock, uint64_t timeout_ms) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + timeout_ms % 1000u * 1000000u;
    end.tv_sec += (time_t)(timeout_ms / 1000u + nanoseconds / 1000000000u);
    end.tv_nsec = (long)(nanoseconds % 1000000000u);
    return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &end) == 0;
}
#endif

int ten_client_enter(tenure_client *client) {
    if (!ten_process_is(client->process))
        return ten_last_error_say(client, TENURE_E_FORKED,
                                  "this client belongs to the parent of this process; open another one after fork()");
    if (!lock_within(&client->lock, client->timing.timeout_ms))
        return ten_last_error_say(client, TENURE_E_TIMEOUT,
                                  "other threads used the client for the whole time-out of %llu ms",
                                  (unsigned long long)client->timing.timeout_ms);
    client->store->error = (ten_error){0};
    return TENURE_OK;
}

int ten_client_leave(tenure_client *client, int r) {
    if (r < 0) {
        ten_error error = client->store->error;
        if (error.code != r)
            ten_fail(&error, r, "%s", tenure_strerror(r));
        ten_last_error_set(client, &error);
    }
    pthread_mutex_unlock(&client->lock);
    return r;
}

int ten_client_apply(tenure_client *client, const ten_op *op, ten_result *result) {
    int r = ten_client_enter(client);
    return r < 0 ? r
                 : ten_client_leave(client, ten_store_apply(client->store, op, result, 1, client->timing.timeout_ms));
}

/* ---- waiting for events */

void ten_waiter_add(tenure_client *client, ten_waiter *waiter) {
    if (waiter->added)
        return;
    waiter->added = true;
    waiter->passed_fd = ten_eventfd_open();
    waiter->store_fd = -1;
    /* A waiter to whom nothing can be passed on must not rely on the descriptor alone, either. */
    if (waiter->passed_fd < 0 ||
        client->store->ops->watch(client->store, client->namespace_name, &waiter->store_fd) < 0)
        waiter->store_fd = -1;
    pthread_mutex_lock(&client->waiters_lock);
    waiter->next = client->waiters;
    client->waiters = waiter;
    pthread_mutex_unlock(&client->waiters_lock);
}

static void pass_on(tenure_client *client, const ten_waiter *from) {
    pthread_mutex_lock(&client->waiters_lock);
    for (const ten_waiter *waiter = client->waiters; waiter; waiter = waiter->next)
        if (waiter != from && waiter->passed_fd >= 0)
            ten_eventfd_poke(waiter->passed_fd);
    pthread_mutex_unlock(&client->waiters_lock);
}

void ten_waiter_clear(tenure_client *client, ten_waiter *waiter) {
    if (waiter->passed_fd >= 0)
        ten_eventfd_clear(waiter->passed_fd);
    /* Only what was there is passed on: two waiters would otherwise wake each other for ever. */
    if (waiter->store_fd < 0 || ten_wait_readable(waiter->store_fd, -1, 0) <= 0)
        return;
    client->store->ops->watch_clear(client->store);
    pass_on(client, waiter);
}

int ten_waiter_sleep(tenure_client *client, const ten_waiter *waiter, uint64_t pause_ms, const char *what) {
    const int fds[] = {client->cancel_fd, waiter->store_fd, waiter->passed_fd};
    if (waiter->store_fd < 0)
        pause_ms = ten_min_u64(pause_ms, BLIND_LOOK_MS);
    int woken = ten_wait_any_readable(fds, TEN_COUNT(fds), pause_ms);
    if (woken < 0)
        return ten_last_error_say(client, TENURE_E_SYSTEM, "cannot wait for %s", what);
    if (woken & 1)
        return ten_last_error_say(client, TENURE_E_CANCELLED, "waiting for %s was cancelled", what);
    return TENURE_OK;
}

void ten_waiter_remove(tenure_client *client, ten_waiter *waiter) {
    if (!waiter->added)
        return;
    pthread_mutex_lock(&client->waiters_lock);
    for (ten_waiter **at = &client->waiters; *at; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    }
    pthread_mutex_unlock(&client->waiters_lock);
    ten_close_fd(&waiter->passed_fd);
    waiter->added = false;
}

int ten_client_check_target(const tenure_client *client, const char *target) {
    ten_error error;
    if (!target)
        return ten_last_error_say(client, TENURE_E_INVALID, "no target was given");
    return ten_id_check_target(target, &error) < 0 ? ten_last_error_set(client, &error) : TENURE_OK;
}
