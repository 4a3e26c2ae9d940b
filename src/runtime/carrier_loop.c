/*
 * The carrier's loop: when something is due, doing it, telling the program, and waiting for it. See carrier.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/io.h"
#include "base/thread.h"
#include "runtime/carrier.h"

#define STEPS_MAX    16u  /* calls of one ten_carrier_process() */
#define READY_MAX    16u  /* descriptors that are looked at together */
#define BLIND_MS     250u /* between looks at a store that cannot be watched */
#define IDLE_STEP_MS 10u  /* a task that is due, and has no call after all, is asked again after this */

static _Thread_local const ten_carrier *telling; /* whose on_... function this thread is in */

bool ten_carrier_is_telling(const ten_carrier *carrier) {
    return telling == carrier;
}

/* ---- what is due; with the lock */

static bool is_pending(const ten_task *task) {
    return task->hooks->pending && task->hooks->pending(task->owner);
}

static bool is_followed(const ten_carrier *carrier, const ten_channel *channel) {
    if (channel->watchers > 0)
        return true;
    for (const ten_task *task = carrier->tasks; task; task = task->next)
        if (task->channel == channel && ten_driver_follows(&task->driver))
            return true;
    return false;
}

static bool wants_notices(const ten_carrier *carrier, const ten_channel *channel) {
    if (channel->watchers > 0)
        return true;
    for (const ten_task *task = carrier->tasks; task; task = task->next)
        if (task->channel == channel && ten_driver_listens(&task->driver))
            return true;
    return false;
}

static uint64_t next_ms(const ten_carrier *carrier, uint64_t now_ms) {
    uint64_t next = UINT64_MAX;
    for (const ten_task *task = carrier->tasks; task; task = task->next)
        next = is_pending(task) ? now_ms : ten_min_u64(next, ten_driver_next_ms(&task->driver, now_ms));
    for (const ten_channel *channel = carrier->channels; channel; channel = channel->next)
        if (wants_notices(carrier, channel) && !channel->armed && !channel->watched)
            next = ten_min_u64(next, now_ms + BLIND_MS);
    return next;
}

static bool is_unwatched(const ten_carrier *carrier) {
    for (const ten_channel *channel = carrier->channels; channel; channel = channel->next)
        if (wants_notices(carrier, channel) && !channel->armed && channel->watched)
            return true;
    return false;
}

/* Wakes whoever polls, if there is something to do earlier than planned. */
static void wake(ten_carrier *carrier) {
    uint64_t until_ms = carrier->sleeps_until_ms;
    if (until_ms == 0 || (!is_unwatched(carrier) && next_ms(carrier, ten_carrier_now_ms(carrier)) >= until_ms))
        return;
    carrier->sleeps_until_ms = 0;
    ten_eventfd_poke(carrier->wake_fd);
}

void ten_carrier_unlock(ten_carrier *carrier) {
    wake(carrier);
    pthread_mutex_unlock(&carrier->lock);
}

uint64_t ten_carrier_next_ms(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    uint64_t next = is_unwatched(carrier) ? now_ms : next_ms(carrier, now_ms);
    carrier->sleeps_until_ms = ten_max_u64(next, 1);
    pthread_mutex_unlock(&carrier->lock);
    return next;
}

void ten_carrier_cancel(ten_carrier *carrier) {
    atomic_store(&carrier->cancelled, true);
    ten_eventfd_poke(carrier->wake_fd);
}

/* ---- notices; with the lock and the turn */

static void note_watched(const ten_carrier *carrier, const ten_channel *channel, uint64_t now_ms) {
    for (ten_task *task = carrier->tasks; task; task = task->next)
        if (task->channel == channel)
            ten_driver_watched(&task->driver, now_ms, channel->watched);
}

static void arm(const ten_carrier *carrier, ten_channel *channel, int fd, bool wanted) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
    if (!wanted)
        fd = -1; /* not even a connection that ends is to wake anybody */
    if (fd >= 0 && epoll_ctl(carrier->poll_fd, EPOLL_CTL_MOD, fd, &event) < 0 &&
        (errno != ENOENT || epoll_ctl(carrier->poll_fd, EPOLL_CTL_ADD, fd, &event) < 0))
        fd = -1;
    if (channel->watch_fd >= 0 && channel->watch_fd != fd)
        (void)epoll_ctl(carrier->poll_fd, EPOLL_CTL_DEL, channel->watch_fd, NULL);
    channel->watch_fd = fd;
    channel->armed = fd >= 0;
}

/* Whether a store that has a thread of its own for its stream may be watched: not in the driven form. */
static bool may_watch(const ten_carrier *carrier, const ten_channel *channel) {
    return !carrier->driven || !channel->store->capabilities.watches_in_thread;
}

static void give_notice(ten_carrier *carrier, ten_channel *channel) {
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    channel->notices++;
    for (ten_task *task = carrier->tasks; task; task = task->next)
        if (task->channel == channel)
            ten_driver_notice(&task->driver, now_ms);
    pthread_cond_broadcast(&carrier->changed);
}

static void watch(ten_carrier *carrier, ten_channel *channel) {
    bool wanted = wants_notices(carrier, channel);
    bool begins = wanted && !channel->followed;
    channel->followed = is_followed(carrier, channel);
    if (!wanted && channel->watch_fd < 0)
        return;
    int fd = -1;
    pthread_mutex_unlock(&carrier->lock);
    bool watched = wanted && may_watch(carrier, channel) &&
                   channel->store->ops->watch(channel->store, channel->namespace_name, &fd) == TENURE_OK;
    ten_carrier_lock(carrier);
    arm(carrier, channel, fd, watched);
    if (!wanted)
        return;
    channel->watched = channel->armed;
    note_watched(carrier, channel, ten_carrier_now_ms(carrier));
    if (begins && channel->armed)
        give_notice(carrier, channel); /* what changed before this may have been read before it changed */
}

static void take_notice(ten_carrier *carrier, ten_channel *channel) {
    pthread_mutex_unlock(&carrier->lock);
    channel->store->ops->watch_clear(channel->store);
    ten_carrier_lock(carrier);
    give_notice(carrier, channel);
}

static bool is_open(const ten_carrier *carrier, const ten_channel *channel) {
    const ten_channel *at = carrier->channels;
    while (at && at != channel)
        at = at->next;
    return at != NULL;
}

static void take_notices(ten_carrier *carrier) {
    struct epoll_event ready[READY_MAX];
    int count = epoll_wait(carrier->poll_fd, ready, READY_MAX, 0);
    carrier->sleeps_until_ms = 0;
    for (int i = 0; i < count; i++) {
        ten_channel *channel = ready[i].data.ptr;
        if (!channel)
            ten_eventfd_clear(carrier->wake_fd);
        else if (is_open(carrier, channel))
            take_notice(carrier, channel);
    }
    if (atomic_load(&carrier->cancelled))
        pthread_cond_broadcast(&carrier->changed);
}

static void watch_all(ten_carrier *carrier) {
    for (ten_channel *channel = carrier->channels; channel; channel = channel->next)
        watch(carrier, channel);
}

/* ---- one round; with the lock */

/* The task whose call is made next: one with an urgent request before all others. NULL: nothing is due. */
static ten_task *pick(const ten_carrier *carrier, uint64_t now_ms) {
    ten_task *first = NULL;
    for (ten_task *task = carrier->tasks; task; task = task->next) {
        if (ten_driver_next_ms(&task->driver, now_ms) > now_ms)
            continue;
        if (ten_driver_is_urgent(&task->driver, now_ms))
            return task;
        first = first ? first : task;
    }
    return first;
}

/* Puts a task behind the others, so that all take turns. */
static void put_last(ten_carrier *carrier, ten_task *task) {
    ten_task **at = &carrier->tasks;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at)
        return; /* it was removed meanwhile */
    *at = task->next;
    while (*at)
        at = &(*at)->next;
    *at = task;
    task->next = NULL;
}

/* True: a call was made. */
static bool step_any(ten_carrier *carrier, uint64_t wait_ms) {
    ten_turn turn;
    if (!ten_carrier_take_turn_within(carrier, &turn, wait_ms))
        return false;
    ten_task *task = pick(carrier, ten_carrier_now_ms(carrier));
    bool made = task && ten_carrier_step(carrier, task);
    if (task)
        put_last(carrier, task);
    ten_carrier_pass_turn(carrier);
    return made;
}

/* ---- telling the program; with the lock, which is released meanwhile */

static ten_task *find_pending(const ten_carrier *carrier) {
    ten_task *task = carrier->tasks;
    while (task && (task->telling || !is_pending(task)))
        task = task->next;
    return task;
}

static void tell_all(ten_carrier *carrier) {
    if (carrier->telling)
        return; /* another thread does it */
    carrier->telling = true;
    for (ten_task *task; (task = find_pending(carrier));) {
        task->telling = true;
        pthread_mutex_unlock(&carrier->lock);
        telling = carrier;
        task->hooks->tell(task->owner);
        telling = NULL;
        ten_carrier_lock(carrier);
        task->telling = false;
        pthread_cond_broadcast(&carrier->changed);
    }
    carrier->telling = false;
}

/* ---- driving */

/* False: others have the turn for longer than this waits. */
static bool process(ten_carrier *carrier, uint64_t wait_ms) {
    ten_turn turn;
    if (!ten_carrier_take_turn_within(carrier, &turn, wait_ms))
        return false;
    take_notices(carrier);
    watch_all(carrier); /* before the feed is read: what changes after that makes the descriptor readable */
    ten_carrier_pass_turn(carrier);
    tell_all(carrier); /* the program learns what has happened before anything new begins */
    for (unsigned i = 0; i < STEPS_MAX && step_any(carrier, wait_ms); i++)
        tell_all(carrier);
    tell_all(carrier); /* a deadline that has passed may be all that happened */
    return true;
}

void ten_carrier_process(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    (void)process(carrier, UINT64_MAX);
    ten_carrier_unlock(carrier);
}

/* ---- the thread */

static bool is_over(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    bool over = carrier->quit;
    pthread_mutex_unlock(&carrier->lock);
    return over;
}

static void *run(void *arg) {
    ten_carrier *carrier = arg;
    for (;;) {
        ten_carrier_process(carrier);
        if (is_over(carrier)) /* asked behind what clears the wake-up */
            break;
        uint64_t next = ten_carrier_next_ms(carrier);
        uint64_t now_ms = ten_carrier_now_ms(carrier);
        (void)ten_wait_readable(carrier->poll_fd, -1, next == UINT64_MAX ? next : ten_sub_saturating(next, now_ms));
    }
    return NULL;
}

int ten_carrier_start(ten_carrier *carrier, ten_error *error) {
    int refused = 0;
    ten_carrier_lock(carrier);
    if (!carrier->driven && !carrier->started && !carrier->quit) {
        refused = ten_thread_start(&carrier->thread, run, carrier);
        carrier->started = refused == 0;
    }
    pthread_mutex_unlock(&carrier->lock);
    return refused ? ten_fail_errno(error, TENURE_E_SYSTEM, refused, "cannot start the context's thread") : TENURE_OK;
}

void ten_carrier_stop(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    carrier->quit = true;
    bool started = carrier->started;
    carrier->started = false;
    pthread_mutex_unlock(&carrier->lock);
    ten_eventfd_poke(carrier->wake_fd);
    if (started)
        pthread_join(carrier->thread, NULL);
}

/* ---- waiting; with the lock */

/* Sleeps until something happens. In the driven form one of those who wait polls for all. */
static void sleep_until(ten_carrier *carrier, const ten_task *task, uint64_t end_ms, bool idle) {
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    uint64_t until_ms = end_ms;
    if (carrier->driven)
        until_ms = ten_min_u64(until_ms, is_unwatched(carrier) && !idle ? now_ms : next_ms(carrier, now_ms));
    else if (task)
        until_ms = ten_min_u64(until_ms, ten_driver_next_ms(&task->driver, now_ms));
    uint64_t wait_ms = until_ms == UINT64_MAX ? until_ms : ten_sub_saturating(until_ms, now_ms);
    if (idle)
        wait_ms = ten_max_u64(wait_ms, ten_min_u64(IDLE_STEP_MS, ten_sub_saturating(end_ms, now_ms)));
    if (!carrier->driven || carrier->polled) {
        wake(carrier);
        ten_carrier_sleep(carrier, &carrier->changed, wait_ms);
        return;
    }
    carrier->polled = true;
    carrier->sleeps_until_ms = ten_max_u64(until_ms, 1);
    pthread_mutex_unlock(&carrier->lock);
    (void)ten_wait_readable(carrier->poll_fd, -1, wait_ms);
    ten_carrier_lock(carrier);
    carrier->polled = false;
    pthread_cond_broadcast(&carrier->changed);
}

/* Makes the task's next call. *ret_made: there was one. TENURE_E_TIMEOUT: others have the turn. */
static int help(ten_carrier *carrier, ten_task *task, bool *ret_made) {
    ten_turn turn;
    *ret_made = false;
    if (ten_driver_next_ms(&task->driver, ten_carrier_now_ms(carrier)) > ten_carrier_now_ms(carrier))
        return TENURE_OK;
    if (!ten_carrier_take_turn_within(carrier, &turn, carrier->timeout_ms))
        return TENURE_E_TIMEOUT;
    *ret_made = ten_carrier_step(carrier, task);
    ten_carrier_pass_turn(carrier);
    return TENURE_OK;
}

/* Whether what this thread could do is due, although it has just been tried. */
static bool is_due(const ten_carrier *carrier, const ten_task *task, uint64_t now_ms) {
    if (carrier->driven)
        return next_ms(carrier, now_ms) <= now_ms;
    return task && ten_driver_next_ms(&task->driver, now_ms) <= now_ms;
}

/* A test's clock may stand still: the system's ends it, too. */
static int wait_until(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                      uint64_t end_ms, bool cancellable) {
    uint64_t real_end_ms = ten_add_saturating(
        ten_now_ms(), end_ms == UINT64_MAX ? end_ms : ten_sub_saturating(end_ms, ten_carrier_now_ms(carrier)));
    while (!done(arg)) {
        bool made = false;
        if (cancellable && atomic_load(&carrier->cancelled))
            return TENURE_E_CANCELLED;
        bool had_turn = true;
        if (carrier->driven)
            had_turn = process(carrier, carrier->timeout_ms);
        else if (task)
            had_turn = help(carrier, task, &made) == TENURE_OK;
        if (!had_turn && !done(arg))
            return TENURE_E_TIMEOUT;
        if (made)
            continue;
        uint64_t now_ms = ten_carrier_now_ms(carrier);
        if (done(arg))
            break;
        if (now_ms >= end_ms || ten_now_ms() >= real_end_ms)
            return TENURE_E_TIMEOUT;
        sleep_until(carrier, task, end_ms, is_due(carrier, task, now_ms));
    }
    return TENURE_OK;
}

int ten_carrier_await(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                      uint64_t end_ms) {
    return wait_until(carrier, task, done, arg, end_ms, false);
}

int ten_carrier_wait(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                     uint64_t end_ms) {
    return wait_until(carrier, task, done, arg, end_ms, true);
}

struct notice {
    const ten_channel *channel;
    uint64_t seen;
};

static bool has_notice(const void *arg) {
    const struct notice *notice = arg;
    return notice->channel->notices != notice->seen;
}

int ten_carrier_wait_notice(ten_carrier *carrier, ten_channel *channel, uint64_t seen, uint64_t end_ms) {
    struct notice notice = {.channel = channel, .seen = seen};
    uint64_t blind_ms = ten_carrier_now_ms(carrier) + BLIND_MS;
    channel->watchers++;
    uint64_t until_ms = channel->watched ? end_ms : ten_min_u64(end_ms, blind_ms);
    int r = ten_carrier_wait(carrier, NULL, has_notice, &notice, until_ms);
    if (r == TENURE_E_TIMEOUT && until_ms < end_ms)
        r = TENURE_OK; /* the store is looked at, notice or not */
    channel->watchers--;
    return r;
}
