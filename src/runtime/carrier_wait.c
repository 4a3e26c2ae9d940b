/*
 * Waiting for what the carrier brings: for an answer, for something to happen, for a change in the store. See
 * carrier.h.
 */
#include "base/io.h"
#include "runtime/carrier.h"

#define BLIND_MS     250u /* between looks at a store that cannot be watched */
#define IDLE_STEP_MS 10u  /* a task that is due, and has no call after all, is asked again after this */

struct wait {
    ten_carrier *carrier;
    ten_task *task;
    bool (*done)(const void *arg);
    const void *arg;
    uint64_t end_ms;
    uint64_t real_end_ms; /* a test's clock may stand still: the system's ends it, too */
    uint64_t work_end_ms; /* by the system's clock: no call of any task is begun after this */
    bool cancellable;
};

static bool is_cancelled(const struct wait *wait) {
    return wait->cancellable && atomic_load(&wait->carrier->cancelled);
}

static bool is_late(const struct wait *wait) {
    return ten_carrier_now_ms(wait->carrier) >= wait->end_ms || ten_now_ms() >= wait->real_end_ms;
}

/* Whether to begin no further call. A wait that has no time at all still has that of one call. */
static bool is_over(const void *arg) {
    const struct wait *wait = arg;
    return wait->done(wait->arg) || is_cancelled(wait) || (is_late(wait) && ten_now_ms() >= wait->work_end_ms);
}

/* ---- with the lock */

static uint64_t turn_ms(const struct wait *wait) {
    const ten_carrier *carrier = wait->carrier;
    uint64_t left_ms = ten_sub_saturating(wait->end_ms, ten_carrier_now_ms(carrier));
    return wait->cancellable && left_ms > 0 ? ten_min_u64(left_ms, carrier->timeout_ms) : carrier->timeout_ms;
}

/* Makes the task's next call. *ret_made: there was one. False: others have the turn. */
static bool help(const struct wait *wait, bool *ret_made) {
    ten_carrier *carrier = wait->carrier;
    ten_turn turn;
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    if (!wait->task || ten_engine_look(&wait->task->engine, now_ms).next_ms > now_ms)
        return true;
    if (!ten_carrier_take_turn_within(carrier, &turn, turn_ms(wait)))
        return false;
    *ret_made = ten_carrier_step(carrier, wait->task);
    ten_carrier_pass_turn(carrier);
    return true;
}

/* In the driven form everything is driven by the threads that wait. */
static bool work(const struct wait *wait, bool *ret_made) {
    *ret_made = false;
    if (!wait->carrier->driven)
        return help(wait, ret_made);
    ten_round round = {.task = wait->task, .is_over = is_over, .arg = wait, .turn_ms = turn_ms(wait)};
    bool had_turn = ten_carrier_run_round(wait->carrier, &round);
    *ret_made = round.made;
    return had_turn;
}

/* When this thread has something to do by itself. */
static uint64_t due_ms(const struct wait *wait, uint64_t now_ms) {
    if (wait->carrier->driven)
        return ten_carrier_due_ms(wait->carrier, now_ms);
    return wait->task ? ten_engine_look(&wait->task->engine, now_ms).next_ms : UINT64_MAX;
}

/* Sleeps until something happens. In the driven form one of those who wait polls for all. What is due now has just been
 * tried in vain. */
static void sleep_until_due(const struct wait *wait) {
    ten_carrier *carrier = wait->carrier;
    uint64_t now_ms = ten_carrier_now_ms(carrier);
    uint64_t at_ms = due_ms(wait, now_ms);
    if (at_ms <= now_ms)
        at_ms = now_ms + IDLE_STEP_MS;
    at_ms = ten_min_u64(at_ms, wait->end_ms);
    uint64_t wait_ms = at_ms == UINT64_MAX ? at_ms : ten_sub_saturating(at_ms, now_ms);
    if (!carrier->driven || carrier->polled) {
        ten_carrier_set_timer(carrier);
        ten_carrier_sleep(carrier, &carrier->changed, wait_ms);
        return;
    }
    carrier->polled = true;
    pthread_mutex_unlock(&carrier->lock);
    (void)ten_wait_readable(carrier->poll_fd, -1, wait_ms);
    ten_carrier_lock(carrier);
    carrier->polled = false;
    if (carrier->called)
        ten_eventfd_clear(carrier->wake_fd);
    carrier->called = false;
    pthread_cond_broadcast(&carrier->changed);
}

static int wait_until(const struct wait *wait) {
    ten_carrier *carrier = wait->carrier;
    while (!wait->done(wait->arg)) {
        bool made;
        if (is_cancelled(wait))
            return TENURE_E_CANCELLED;
        bool had_turn = work(wait, &made);
        if (wait->done(wait->arg))
            break;
        if (!had_turn && !wait->cancellable && carrier->closes_ms == UINT64_MAX)
            return TENURE_E_TIMEOUT;
        if (made ? is_over(wait) : is_late(wait))
            return is_cancelled(wait) ? TENURE_E_CANCELLED : TENURE_E_TIMEOUT;
        if (!made && !is_cancelled(wait)) /* the wake-up may have been taken: it is asked for after that */
            sleep_until_due(wait);
    }
    return TENURE_OK;
}

static struct wait make_wait(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                             uint64_t end_ms) {
    uint64_t now_ms = ten_now_ms();
    uint64_t left_ms = end_ms == UINT64_MAX ? end_ms : ten_sub_saturating(end_ms, ten_carrier_now_ms(carrier));
    uint64_t real_end_ms = ten_add_saturating(now_ms, left_ms);
    return (struct wait){.carrier = carrier,
                         .task = task,
                         .done = done,
                         .arg = arg,
                         .end_ms = end_ms,
                         .real_end_ms = real_end_ms,
                         .work_end_ms = ten_max_u64(real_end_ms, now_ms + carrier->timeout_ms)};
}

int ten_carrier_await(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                      uint64_t end_ms) {
    struct wait wait = make_wait(carrier, task, done, arg, end_ms);
    return wait_until(&wait);
}

int ten_carrier_wait(ten_carrier *carrier, ten_task *task, bool (*done)(const void *arg), const void *arg,
                     uint64_t end_ms) {
    struct wait wait = make_wait(carrier, task, done, arg, end_ms);
    wait.cancellable = true;
    return wait_until(&wait);
}

/* ---- changes in the store */

struct notice {
    const ten_channel *channel;
    uint64_t seen;
    bool watched; /* when the wait began */
};

/* A notice, or the news that there will be none. */
static bool has_notice(const void *arg) {
    const struct notice *notice = arg;
    return notice->channel->notices != notice->seen || (notice->watched && !notice->channel->watched);
}

int ten_carrier_wait_notice(ten_carrier *carrier, ten_channel *channel, uint64_t seen, uint64_t end_ms) {
    struct notice notice = {.channel = channel, .seen = seen, .watched = channel->watched};
    uint64_t blind_ms = ten_min_u64(ten_carrier_now_ms(carrier) + BLIND_MS, end_ms);
    int r = TENURE_OK;
    channel->watchers++;
    if (notice.watched)
        r = ten_carrier_wait(carrier, NULL, has_notice, &notice, end_ms);
    if (r == TENURE_OK && channel->notices == seen) { /* the store cannot be watched, as far as is known by now */
        notice.watched = false;
        r = ten_carrier_wait(carrier, NULL, has_notice, &notice, blind_ms);
        if (r == TENURE_E_TIMEOUT && blind_ms < end_ms)
            r = TENURE_OK; /* the store is looked at, notice or not */
    }
    channel->watchers--;
    return r;
}
