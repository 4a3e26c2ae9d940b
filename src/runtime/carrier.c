/*
 * The carrier: its life, channels, tasks, turns, and one call of a task. See carrier.h; carrier_loop.c has the loop,
 * carrier_wait.c what waits.
 */
#include "runtime/carrier.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"

/* ---- turns */

void ten_carrier_pass_turn(ten_carrier *carrier) {
    carrier->turns = carrier->turns->next;
    if (carrier->turns)
        carrier->turns->given = true;
    pthread_cond_broadcast(&carrier->turned);
}

void ten_carrier_sleep(ten_carrier *carrier, pthread_cond_t *condition, uint64_t wait_ms) {
    uint64_t start_ms = ten_now_ms();
    struct timespec end = ten_monotonic_end(wait_ms);
    bool passed = pthread_cond_timedwait(condition, &carrier->lock, &end) != 0;
    if (!passed || ten_now_ms() + 1 >= ten_add_saturating(start_ms, wait_ms))
        return;
    /* Under a program that fakes clocks (faketime) the monotonic one may say so too early. */
    pthread_mutex_unlock(&carrier->lock);
    ten_sleep_us(1000);
    ten_carrier_lock(carrier);
}

bool ten_carrier_take_turn_within(ten_carrier *carrier, ten_turn *turn, uint64_t wait_ms) {
    uint64_t end_ms = ten_add_saturating(ten_now_ms(), wait_ms);
    ten_turn **at = &carrier->turns;
    while (*at)
        at = &(*at)->next;
    *turn = (ten_turn){.given = carrier->turns == NULL};
    *at = turn;
    for (uint64_t now_ms; !turn->given && (now_ms = ten_now_ms()) < end_ms;)
        ten_carrier_sleep(carrier, &carrier->turned, end_ms - now_ms);
    if (turn->given)
        return true;
    TEN_UNLINK(carrier->turns, turn, next);
    return false;
}

int ten_carrier_enter(ten_carrier *carrier) {
    ten_turn *turn = ten_malloc(sizeof *turn); /* it outlives this call */
    if (!turn)
        return TENURE_E_NOMEM;
    ten_carrier_lock(carrier);
    bool taken = ten_carrier_take_turn_within(carrier, turn, carrier->timeout_ms);
    pthread_mutex_unlock(&carrier->lock);
    if (!taken)
        ten_free(turn);
    return taken ? TENURE_OK : TENURE_E_TIMEOUT;
}

void ten_carrier_leave(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    ten_turn *turn = carrier->turns;
    ten_carrier_pass_turn(carrier);
    ten_carrier_unlock(carrier);
    ten_free(turn);
}

/* ---- what a call brings */

static int take(ten_task *task, ten_engine_event event) {
    ten_carrier_lock(task->carrier);
    event.now_ms = ten_carrier_now_ms(task->carrier);
    ten_engine_step(&task->engine, &event, NULL);
    pthread_mutex_unlock(&task->carrier->lock);
    return 0;
}

static int take_row(const ten_row *row, void *userdata) {
    ten_task *task = userdata;
    (void)take(task, (ten_engine_event){.kind = TEN_ON_ROW, .row = row});
    if (task->hooks->row)
        task->hooks->row(task->owner, row);
    return 0;
}

static int take_instance(const ten_instance *instance, void *userdata) {
    return take(userdata, (ten_engine_event){.kind = TEN_ON_INSTANCE, .instance = instance});
}

static int take_change(const ten_change *change, void *userdata) {
    return take(userdata, (ten_engine_event){.kind = TEN_ON_CHANGE, .change = change});
}

/* ---- a call */

static bool only_reads(const ten_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (call->ops[i].kind != TEN_OP_READ)
            return false;
    return true;
}

/* With the lock. While the context is being closed, no call lasts longer than that is to take. */
static uint64_t timeout_of(const ten_task *task, uint64_t now_ms) {
    const ten_carrier *carrier = task->carrier;
    uint64_t timeout_ms = task->timeout_ms ? task->timeout_ms : carrier->timeout_ms;
    return ten_min_u64(timeout_ms, ten_max_u64(ten_sub_saturating(carrier->closes_ms, now_ms), 1));
}

static int apply(ten_task *task, const ten_call *call, uint64_t timeout_ms) {
    ten_store *store = task->channel->store;
    int r = ten_store_apply(store, call->ops, task->results, call->count, timeout_ms);
    /* A connection that the server closed in the meantime is found out by using it: once more, on a new one. */
    if (r < 0 && r != TENURE_E_TIMEOUT && tenure_error_retryable(r) && only_reads(call))
        r = ten_store_apply(store, call->ops, task->results, call->count, timeout_ms);
    return r;
}

/* Whether the store refused an operation, and its message is about that. */
static bool is_refused(const ten_task *task, size_t count) {
    bool refused = false;
    for (size_t i = 0; i < count; i++)
        refused |= task->results[i].outcome == TEN_ERROR && task->results[i].error == TENURE_E_STORE;
    return refused && task->channel->store->error.code == TENURE_E_STORE;
}

static int make_call(ten_task *task, const ten_call *call, uint64_t timeout_ms, uint64_t *ret_cursor) {
    ten_store *store = task->channel->store;
    const char *namespace_name = task->channel->namespace_name;
    ten_query query = {.namespace_name = namespace_name,
                       .filter = task->engine.config.registrations ? TENURE_REGISTERED : TENURE_ALL,
                       .after = call->after,
                       .limit = call->limit,
                       .current = true};
    *ret_cursor = call->cursor;
    switch (call->kind) {
    case TEN_CALL_APPLY:
        return apply(task, call, timeout_ms);
    case TEN_CALL_CHANGES:
        return store->ops->changes(store, namespace_name, ret_cursor, call->limit, take_change, task, timeout_ms);
    case TEN_CALL_INSTANCES:
        return store->ops->list_instances(store, namespace_name, take_instance, task, timeout_ms);
    case TEN_CALL_LIST:
        return store->ops->list(store, &query, take_row, task, timeout_ms);
    case TEN_CALL_READ:
        return store->ops->read_targets(store, namespace_name, call->ids, call->count, take_row, task, timeout_ms);
    case TEN_CALL_NONE:
    case TEN_CALL_COUNT:
        break;
    }
    return TENURE_OK;
}

static void tell_changed(const ten_task *task) {
    if (task->hooks->changed)
        task->hooks->changed(task->owner);
}

bool ten_carrier_step(ten_carrier *carrier, ten_task *task) {
    ten_update update;
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    ten_engine_step(&task->engine, &(ten_engine_event){.kind = TEN_ON_TIMER, .now_ms = now_ms}, &update);
    const ten_call *call = &update.call;
    tell_changed(task); /* what is being released is no longer believed when it is sent */
    if (call->kind == TEN_CALL_NONE) {
        ten_carrier_tell_waiting(carrier); /* a deadline may have passed */
        return false;
    }
    ten_engine_event answer = {.kind = TEN_ON_ANSWER, .results = task->results};
    uint64_t timeout_ms = timeout_of(task, now_ms);
    pthread_mutex_unlock(&carrier->lock);
    uint64_t sent_us = ten_boot_us();
    answer.error = make_call(task, call, timeout_ms, &answer.cursor);
    uint64_t took_us = ten_boot_us() - sent_us;
    ten_carrier_lock(carrier);
    if (answer.error < 0 || (call->kind == TEN_CALL_APPLY && is_refused(task, call->count)))
        task->error = task->channel->store->error;
    if (call->kind == TEN_CALL_APPLY && task->hooks->answered)
        task->hooks->answered(task->owner, call, took_us, answer.error, task->results);
    answer.now_ms = ten_carrier_now_ms(carrier);
    ten_engine_step(&task->engine, &answer, NULL);
    tell_changed(task);
    ten_carrier_tell_waiting(carrier);
    return true;
}

/* ---- channels */

static ten_channel *find_channel(const ten_carrier *carrier, const char *namespace_name) {
    ten_channel *channel = carrier->channels;
    while (channel && strcmp(channel->namespace_name, namespace_name) != 0)
        channel = channel->next;
    return channel;
}

static void free_channel(ten_channel *channel) {
    ten_store_close(channel->store);
    ten_free(channel);
}

static int make_channel(const ten_carrier *carrier, const char *namespace_name, ten_channel **ret_channel,
                        ten_error *error) {
    ten_channel *channel = ten_calloc(1, sizeof *channel);
    if (!channel)
        return ten_fail_memory(error, "a connection");
    snprintf(channel->namespace_name, sizeof channel->namespace_name, "%s", namespace_name);
    channel->watch_fd = -1;
    channel->watched = true; /* until the store refuses */
    ten_store_config config = {.clock = carrier->clock, .timeout_ms = carrier->timeout_ms};
    int r = ten_store_open(carrier->url, &config, &channel->store, error);
    if (r < 0) {
        ten_free(channel);
        return r;
    }
    *ret_channel = channel;
    return TENURE_OK;
}

int ten_carrier_open_channel(ten_carrier *carrier, const char *namespace_name, ten_channel **ret_channel,
                             ten_error *error) {
    ten_channel *made = NULL;
    ten_carrier_lock(carrier);
    ten_channel *channel = find_channel(carrier, namespace_name);
    if (!channel) {
        pthread_mutex_unlock(&carrier->lock);
        int r = make_channel(carrier, namespace_name, &made, error);
        if (r < 0)
            return r;
        ten_carrier_lock(carrier);
        channel = find_channel(carrier, namespace_name); /* another thread may have been quicker */
        if (!channel) {
            made->next = carrier->channels;
            carrier->channels = channel = made;
            made = NULL;
        }
    }
    channel->users++;
    pthread_mutex_unlock(&carrier->lock);
    if (made)
        free_channel(made);
    *ret_channel = channel;
    return TENURE_OK;
}

/* Its store is closed with the turn: no other thread uses it then. */
void ten_carrier_close_channel(ten_carrier *carrier, ten_channel *channel) {
    ten_turn turn;
    ten_carrier_lock(carrier);
    (void)ten_carrier_take_turn_within(carrier, &turn, UINT64_MAX);
    bool last = --channel->users == 0;
    if (last) {
        TEN_UNLINK(carrier->channels, channel, next);
        if (channel->watch_fd >= 0)
            epoll_ctl(carrier->poll_fd, EPOLL_CTL_DEL, channel->watch_fd, NULL);
    }
    pthread_mutex_unlock(&carrier->lock);
    if (last)
        free_channel(channel);
    ten_carrier_lock(carrier);
    ten_carrier_pass_turn(carrier);
    ten_carrier_unlock(carrier);
}

/* ---- tasks */

int ten_task_open(ten_task *task, ten_carrier *carrier, size_t operations, const char *namespace_name,
                  ten_error *error) {
    task->carrier = carrier;
    task->results = ten_calloc(operations, sizeof *task->results);
    return ten_event_queue_open(&task->events) && task->results
               ? ten_carrier_open_channel(carrier, namespace_name, &task->channel, error)
               : ten_fail_memory(error, "requests");
}

static void close_channel(ten_task *task) {
    if (task->channel)
        ten_carrier_close_channel(task->carrier, task->channel);
    task->channel = NULL;
}

void ten_task_begin(ten_task *task, ten_engine_config config) {
    config.events = &task->events;
    config.seed = ten_random_u64();
    ten_engine_init(&task->engine, &config, ten_carrier_now_ms(task->carrier));
}

void ten_task_add(ten_task *task) {
    ten_carrier *carrier = task->carrier;
    ten_carrier_lock(carrier);
    ten_task **end = &carrier->tasks;
    while (*end)
        end = &(*end)->next;
    *end = task;
    ten_carrier_unlock(carrier);
}

void ten_task_remove(ten_task *task) {
    ten_carrier *carrier = task->carrier;
    ten_turn turn;
    ten_carrier_lock(carrier);
    (void)ten_carrier_take_turn_within(carrier, &turn, UINT64_MAX);
    TEN_UNLINK(carrier->tasks, task, next);
    ten_carrier_pass_turn(carrier);
    while (task->telling)
        pthread_cond_wait(&carrier->changed, &carrier->lock);
    ten_carrier_unlock(carrier);
    close_channel(task);
}

void ten_task_free(ten_task *task) {
    close_channel(task);
    ten_engine_free(&task->engine);
    ten_event_queue_free(&task->events);
    ten_free(task->results);
    task->results = NULL;
}

void ten_task_hurry(ten_task *task) {
    ten_engine_step(&task->engine, &(ten_engine_event){.kind = TEN_ON_CALLER}, NULL);
}

void ten_task_describe(const ten_task *task, tenure_event *event) {
    static _Thread_local char message[sizeof task->error.message];
    if (event->error >= 0)
        return;
    bool known = task->error.code == event->error && task->error.message[0] != '\0';
    snprintf(message, sizeof message, "%s", known ? task->error.message : tenure_strerror(event->error));
    event->message = message;
}

bool ten_task_take_event(ten_task *task, tenure_event *ret_event) {
    ten_carrier_lock(task->carrier);
    bool found = ten_event_queue_take(&task->events, ret_event);
    if (found) {
        ten_task_describe(task, ret_event);
        tell_changed(task); /* beliefs change when the event is taken, not before */
        ten_carrier_tell_waiting(task->carrier);
    }
    pthread_mutex_unlock(&task->carrier->lock);
    return found;
}

/* ---- its life */

int ten_carrier_open(ten_carrier *carrier, const char *url, ten_error *error) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&carrier->lock, NULL);
    pthread_cond_init(&carrier->changed, &monotonic);
    pthread_cond_init(&carrier->turned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    carrier->timer_ms = carrier->closes_ms = UINT64_MAX;
    carrier->wake_fd = ten_eventfd_open();
    carrier->timer_fd = ten_timerfd_open();
    carrier->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = &carrier->wake_fd};
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &carrier->timer_fd};
    if (carrier->wake_fd < 0 || carrier->timer_fd < 0 || carrier->poll_fd < 0 ||
        epoll_ctl(carrier->poll_fd, EPOLL_CTL_ADD, carrier->wake_fd, &wake) < 0 ||
        epoll_ctl(carrier->poll_fd, EPOLL_CTL_ADD, carrier->timer_fd, &timer) < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot open a context");
    carrier->url = url ? ten_strdup(url) : NULL;
    return url && !carrier->url ? ten_fail_memory(error, "a context") : TENURE_OK;
}

void ten_carrier_free(ten_carrier *carrier) {
    while (carrier->channels) {
        ten_channel *channel = carrier->channels;
        carrier->channels = channel->next;
        free_channel(channel);
    }
    pthread_mutex_destroy(&carrier->lock);
    pthread_cond_destroy(&carrier->changed);
    pthread_cond_destroy(&carrier->turned);
    ten_carrier_abandon(carrier);
}

void ten_carrier_abandon(ten_carrier *carrier) {
    ten_close_fd(&carrier->wake_fd);
    ten_close_fd(&carrier->timer_fd);
    ten_close_fd(&carrier->poll_fd);
    ten_free(carrier->url);
}
