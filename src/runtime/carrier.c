/*
 * The carrier's thread. See carrier.h.
 */
#include "runtime/carrier.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/io.h"
#include "base/thread.h"

uint64_t ten_carrier_now_ms(const ten_carrier *carrier) {
    return ten_boot_ms(carrier->clock);
}

void ten_carrier_wake(const ten_carrier *carrier) {
    ten_eventfd_poke(carrier->wake_fd);
}

static void tell_changed(ten_carrier *carrier) {
    if (carrier->hooks->changed)
        carrier->hooks->changed(carrier->owner);
}

bool ten_carrier_take_event(ten_carrier *carrier, tenure_event *ret_event) {
    pthread_mutex_lock(&carrier->lock);
    bool found = ten_event_queue_take(&carrier->events, ret_event);
    if (found) {
        tell_changed(carrier);
        /* Whoever waits for what it says goes on when the program is told, not before. */
        pthread_cond_broadcast(&carrier->changed);
    }
    pthread_mutex_unlock(&carrier->lock);
    return found;
}

/* ---- what a call brings */

static int take_row(const ten_row *row, void *userdata) {
    ten_carrier *carrier = userdata;
    pthread_mutex_lock(&carrier->lock);
    ten_driver_row(&carrier->driver, ten_carrier_now_ms(carrier), row);
    pthread_mutex_unlock(&carrier->lock);
    if (carrier->hooks->row)
        carrier->hooks->row(carrier->owner, row);
    return 0;
}

static int take_instance(const ten_instance *instance, void *userdata) {
    ten_carrier *carrier = userdata;
    pthread_mutex_lock(&carrier->lock);
    ten_driver_instance(&carrier->driver, ten_carrier_now_ms(carrier), instance);
    pthread_mutex_unlock(&carrier->lock);
    return 0;
}

static int take_change(const ten_change *change, void *userdata) {
    ten_carrier *carrier = userdata;
    pthread_mutex_lock(&carrier->lock);
    ten_driver_change(&carrier->driver, ten_carrier_now_ms(carrier), change);
    pthread_mutex_unlock(&carrier->lock);
    return 0;
}

/* ---- a call */

static bool only_reads(const ten_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (call->ops[i].kind != TEN_OP_READ)
            return false;
    return true;
}

static int apply(ten_carrier *carrier, const ten_call *call) {
    int r = ten_store_apply(carrier->store, call->ops, carrier->results, call->count, carrier->timeout_ms);
    /* A connection that the server closed in the meantime is found out by using it: once more, on a new one. */
    if (r < 0 && r != TENURE_E_TIMEOUT && tenure_error_retryable(r) && only_reads(call))
        r = ten_store_apply(carrier->store, call->ops, carrier->results, call->count, carrier->timeout_ms);
    return r;
}

static int make_call(ten_carrier *carrier, const ten_call *call, uint64_t *ret_cursor) {
    ten_store *store = carrier->store;
    ten_query query = {
        .namespace_name = carrier->namespace_name, .filter = TENURE_ALL, .after = call->target, .limit = call->limit};
    *ret_cursor = call->cursor;
    switch (call->kind) {
    case TEN_CALL_APPLY:
        return apply(carrier, call);
    case TEN_CALL_CHANGES:
        return store->ops->changes(store, carrier->namespace_name, ret_cursor, call->limit, take_change, carrier,
                                   carrier->timeout_ms);
    case TEN_CALL_INSTANCES:
        return store->ops->list_instances(store, carrier->namespace_name, take_instance, carrier, carrier->timeout_ms);
    case TEN_CALL_LIST:
        return store->ops->list(store, &query, take_row, carrier, carrier->timeout_ms);
    case TEN_CALL_READ:
        return ten_store_list_one(store, carrier->namespace_name, call->target, take_row, carrier, carrier->timeout_ms);
    case TEN_CALL_NONE:
    case TEN_CALL_COUNT:
        break;
    }
    return TENURE_OK;
}

/* True: a call was made. */
static bool carry(ten_carrier *carrier) {
    uint64_t cursor;
    pthread_mutex_lock(&carrier->lock);
    ten_call call = ten_driver_next(&carrier->driver, ten_carrier_now_ms(carrier));
    tell_changed(carrier); /* what is being released is no longer believed when it is sent */
    pthread_mutex_unlock(&carrier->lock);
    if (call.kind == TEN_CALL_NONE)
        return false;
    uint64_t sent_us = ten_boot_us();
    int r = make_call(carrier, &call, &cursor);
    uint64_t took_us = ten_boot_us() - sent_us;
    pthread_mutex_lock(&carrier->lock);
    if (call.kind == TEN_CALL_APPLY && carrier->hooks->answered)
        carrier->hooks->answered(carrier->owner, &call, took_us, r, carrier->results);
    ten_driver_answer(&carrier->driver, ten_carrier_now_ms(carrier), r, carrier->results, cursor);
    tell_changed(carrier);
    pthread_mutex_unlock(&carrier->lock);
    return true;
}

/* ---- the thread */

static void sleep_until_due(ten_carrier *carrier) {
    int watch_fd = -1;
    bool watched = carrier->store->ops->watch(carrier->store, carrier->namespace_name, &watch_fd) == TENURE_OK;
    pthread_mutex_lock(&carrier->lock);
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    ten_driver_watched(&carrier->driver, now_ms, watched);
    uint64_t next_ms = ten_min_u64(ten_driver_next_ms(&carrier->driver, now_ms), carrier->end_ms);
    bool listens = watched && !ten_driver_reads_soon(&carrier->driver);
    pthread_mutex_unlock(&carrier->lock);
    uint64_t wait_ms = next_ms == UINT64_MAX ? UINT64_MAX : ten_sub_saturating(next_ms, now_ms);
    int woken = ten_wait_readable(carrier->wake_fd, listens ? watch_fd : -1, wait_ms);
    if (woken <= 0)
        return;
    if (woken & 1)
        ten_eventfd_clear(carrier->wake_fd);
    if (woken & 2) {
        carrier->store->ops->watch_clear(carrier->store);
        pthread_mutex_lock(&carrier->lock);
        ten_driver_notice(&carrier->driver, ten_carrier_now_ms(carrier));
        pthread_mutex_unlock(&carrier->lock);
    }
}

static bool is_over(ten_carrier *carrier) {
    pthread_mutex_lock(&carrier->lock);
    bool over = carrier->hooks->is_over(carrier->owner);
    pthread_mutex_unlock(&carrier->lock);
    return over;
}

static bool deliver(ten_carrier *carrier) {
    return carrier->hooks->deliver && carrier->hooks->deliver(carrier->owner);
}

static void *run(void *arg) {
    ten_carrier *carrier = arg;
    int watch_fd;
    /* From here on a change makes the descriptor readable, so none after the feed's first reading is slept through. */
    (void)carrier->store->ops->watch(carrier->store, carrier->namespace_name, &watch_fd);
    for (;;) {
        /* The program learns what has happened before anything new begins. */
        bool worked = deliver(carrier);
        worked |= carry(carrier); /* also once after the end: it sends a release that is due */
        worked |= carrier->hooks->serve && carrier->hooks->serve(carrier->owner);
        if (is_over(carrier))
            break;
        /* A deadline that has passed is told before this sleeps: it may be all that happens. */
        if (!worked && !deliver(carrier))
            sleep_until_due(carrier);
    }
    (void)deliver(carrier);
    return NULL;
}

/* ---- its life */

int ten_carrier_open(ten_carrier *carrier, const ten_clock *clock, ten_error *error) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&carrier->lock, NULL);
    pthread_cond_init(&carrier->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    carrier->clock = clock;
    carrier->end_ms = UINT64_MAX;
    carrier->process = ten_process_number();
    carrier->wake_fd = ten_eventfd_open();
    if (carrier->wake_fd < 0 || carrier->process == 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot prepare a thread");
    return ten_event_queue_open(&carrier->events) ? TENURE_OK : ten_fail_memory(error, "events");
}

int ten_carrier_reserve(ten_carrier *carrier, size_t operations, ten_error *error) {
    carrier->results = ten_calloc(operations, sizeof *carrier->results);
    return carrier->results ? TENURE_OK : ten_fail_memory(error, "requests");
}

int ten_carrier_start(ten_carrier *carrier) {
    int refused = ten_thread_start(&carrier->thread, run, carrier);
    carrier->started = refused == 0;
    return refused;
}

void ten_carrier_join(ten_carrier *carrier) {
    ten_carrier_wake(carrier);
    pthread_join(carrier->thread, NULL);
    carrier->started = false;
}

void ten_carrier_free(ten_carrier *carrier) {
    if (ten_process_is(carrier->process))
        ten_store_close(carrier->store);
    ten_driver_free(&carrier->driver);
    ten_event_queue_free(&carrier->events);
    ten_free(carrier->results);
    ten_close_fd(&carrier->wake_fd);
    pthread_mutex_destroy(&carrier->lock);
    pthread_cond_destroy(&carrier->changed);
}
