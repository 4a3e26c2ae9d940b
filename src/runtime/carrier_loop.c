/*
 * The carrier's loop: when something is due, doing it, and telling the program. See carrier.h.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/io.h"
#include "base/thread.h"
#include "runtime/carrier.h"

#define STEPS_MAX 16u  /* calls of one ten_carrier_process() */
#define READY_MAX 16u  /* descriptors that are looked at together */
#define BLIND_MS  250u /* between looks at a store that cannot be watched */

/* Whose on_... functions this thread is in: one may process another context, whose function is then inside it. */
struct telling {
    const ten_carrier *carrier;
    const struct telling *outer;
};
static _Thread_local const struct telling *telling;

bool ten_carrier_is_telling(const ten_carrier *carrier) {
    const struct telling *at = telling;
    while (at && at->carrier != carrier)
        at = at->outer;
    return at != NULL;
}

/* ---- what is due; with the lock */

static bool is_pending(const ten_task *task) {
    return task->hooks->tell && (task->hooks->pending ? task->hooks->pending(task->owner) : task->events.count > 0);
}

/* Whether the channel's feed is followed, and notices are wanted. */
static ten_update look_at(const ten_carrier *carrier, const ten_channel *channel, uint64_t now_ms) {
    ten_update all = {.follows = channel->watchers > 0, .listens = channel->watchers > 0};
    for (const ten_task *task = carrier->tasks; task && !all.listens; task = task->next) {
        ten_update update = task->channel == channel ? ten_engine_look(&task->engine, now_ms) : (ten_update){0};
        all.follows |= update.follows;
        all.listens |= update.listens;
    }
    return all;
}

uint64_t ten_carrier_due_ms(const ten_carrier *carrier, uint64_t now_ms) {
    uint64_t due_ms = UINT64_MAX;
    for (const ten_task *task = carrier->tasks; task; task = task->next) {
        due_ms = ten_min_u64(due_ms, ten_engine_look(&task->engine, now_ms).next_ms);
        if (!carrier->telling && is_pending(task)) /* else the thread that tells it goes on until nothing is left */
            due_ms = now_ms;
    }
    for (const ten_channel *channel = carrier->channels; channel; channel = channel->next)
        if (!channel->armed && look_at(carrier, channel, now_ms).listens)
            due_ms = ten_min_u64(due_ms, channel->watched ? now_ms : now_ms + BLIND_MS);
    return due_ms;
}

/* A timer that is set too early wakes for nothing, once: it is not set again for that. */
void ten_carrier_set_timer(ten_carrier *carrier) {
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    uint64_t due_ms = ten_carrier_due_ms(carrier, now_ms);
    if (due_ms >= carrier->timer_ms)
        return;
    carrier->timer_ms = due_ms;
    ten_timerfd_set(carrier->timer_fd, ten_sub_saturating(due_ms, now_ms));
}

void ten_carrier_unlock(ten_carrier *carrier) {
    ten_carrier_set_timer(carrier);
    pthread_mutex_unlock(&carrier->lock);
}

uint64_t ten_carrier_next_ms(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    uint64_t due_ms = ten_carrier_due_ms(carrier, ten_carrier_now_ms(carrier));
    ten_carrier_unlock(carrier);
    return due_ms;
}

void ten_carrier_tell_waiting(ten_carrier *carrier) {
    pthread_cond_broadcast(&carrier->changed);
    if (!carrier->polled || carrier->called)
        return;
    carrier->called = true;
    ten_eventfd_poke(carrier->wake_fd);
}

void ten_carrier_cancel(ten_carrier *carrier) {
    atomic_store(&carrier->cancelled, true);
    ten_eventfd_poke(carrier->wake_fd);
}

/* ---- notices; with the lock and the turn */

/* Tells the tasks of the channel. */
static void tell_tasks(const ten_carrier *carrier, const ten_channel *channel, enum ten_engine_event_kind kind) {
    ten_engine_event event = {.kind = kind, .now_ms = ten_carrier_now_ms(carrier), .watched = channel->watched};
    for (ten_task *task = carrier->tasks; task; task = task->next)
        if (task->channel == channel)
            ten_engine_step(&task->engine, &event, NULL);
}

static void arm(const ten_carrier *carrier, ten_channel *channel, int fd, bool wanted) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
    if (!wanted)
        fd = -1; /* not even a connection that ends wakes a thread */
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
    channel->notices++;
    tell_tasks(carrier, channel, TEN_ON_NOTICE);
    ten_carrier_tell_waiting(carrier);
}

static void watch(ten_carrier *carrier, ten_channel *channel) {
    ten_update update = look_at(carrier, channel, ten_carrier_now_ms(carrier));
    bool wanted = update.listens;
    bool begins = wanted && !channel->followed;
    channel->followed = update.follows;
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
    if (channel->watched != channel->armed)
        ten_carrier_tell_waiting(
            carrier); /* who waits for a notice looks at the store by itself, or no longer has to */
    channel->watched = channel->armed;
    tell_tasks(carrier, channel, TEN_ON_WATCHED);
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

/* A thread that is called back, and the carrier's thread when it has to end, finds the wake-up as it was. */
static void clear_wake_up(const ten_carrier *carrier) {
    if (!carrier->called && !carrier->quit)
        ten_eventfd_clear(carrier->wake_fd);
}

static void clear_timer(ten_carrier *carrier) {
    ten_timerfd_clear(carrier->timer_fd);
    carrier->timer_ms = UINT64_MAX;
}

static void take_notices(ten_carrier *carrier) {
    struct epoll_event ready[READY_MAX];
    int count = epoll_wait(carrier->poll_fd, ready, READY_MAX, 0);
    for (int i = 0; i < count; i++) {
        void *what = ready[i].data.ptr;
        if (what == &carrier->wake_fd)
            clear_wake_up(carrier);
        else if (what == &carrier->timer_fd)
            clear_timer(carrier);
        else if (is_open(carrier, what))
            take_notice(carrier, what);
    }
    if (atomic_load(&carrier->cancelled))
        ten_carrier_tell_waiting(carrier);
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
        ten_update update = ten_engine_look(&task->engine, now_ms);
        if (update.next_ms > now_ms)
            continue;
        if (update.urgent)
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

/* With the lock: the task's call, if it has one that is due, or that of any. */
static bool step(ten_carrier *carrier, ten_task *task, uint64_t turn_ms) {
    ten_turn turn;
    if (!ten_carrier_take_turn_within(carrier, &turn, turn_ms))
        return false;
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    if (carrier->quit)
        task = NULL;
    else if (!task || ten_engine_look(&task->engine, now_ms).next_ms > now_ms)
        task = pick(carrier, now_ms);
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
        struct telling inner = {.carrier = carrier, .outer = telling};
        telling = &inner;
        task->hooks->tell(task->owner);
        telling = inner.outer;
        ten_carrier_lock(carrier);
        task->telling = false;
        ten_carrier_tell_waiting(carrier);
    }
    carrier->telling = false;
}

/* ---- driving */

static bool goes_on(const ten_carrier *carrier, const ten_round *round) {
    return !carrier->quit && !(round->is_over && round->is_over(round->arg));
}

bool ten_carrier_run_round(ten_carrier *carrier, ten_round *round) {
    ten_turn turn;
    round->made = false;
    if (!ten_carrier_take_turn_within(carrier, &turn, round->turn_ms))
        return false;
    take_notices(carrier);
    watch_all(carrier); /* before the feed is read: what changes after that makes the descriptor readable */
    ten_carrier_pass_turn(carrier);
    tell_all(carrier); /* the program learns what has happened before anything new begins */
    for (unsigned i = 0; i < STEPS_MAX && goes_on(carrier, round); i++) {
        if (!step(carrier, i % 2 == 0 ? round->task : NULL, round->turn_ms))
            break;
        round->made = true;
        tell_all(carrier);
    }
    tell_all(carrier); /* a deadline that has passed may be all that happened */
    return true;
}

void ten_carrier_process(ten_carrier *carrier) {
    ten_carrier_lock(carrier);
    (void)ten_carrier_run_round(carrier, &(ten_round){.turn_ms = UINT64_MAX});
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

void ten_carrier_close_by(ten_carrier *carrier, uint64_t end_ms) {
    carrier->closes_ms = end_ms;
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
    ten_carrier_lock(carrier);
    tell_all(carrier);
    pthread_mutex_unlock(&carrier->lock);
}
