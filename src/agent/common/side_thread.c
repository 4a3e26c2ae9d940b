/*
 * A thread beside the agent's loop. Called by the sources and sinks that have one.
 */
#include "agent/common/side_thread.h"

#include <errno.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/random.h"
#include "base/thread.h"

#define BACKOFF_MIN_MS  100u
#define BACKOFF_MAX_MS  5000u
#define STOP_BACKOFF_MS 100u /* while it is stopping there is no time for more */
#define LAST_MOMENT_MS  200u /* for a thread that was asked to end, and whose connection is cut */

void ten_side_thread_init(ten_side_thread *thread) {
    *thread = (ten_side_thread){
        .wake_fd = -1, .ended_fd = -1, .stop_ms = UINT64_MAX, .owners = 1, .backoff_max_ms = BACKOFF_MAX_MS};
    pthread_mutex_init(&thread->lock, NULL);
}

void ten_side_thread_close(ten_side_thread *thread) {
    ten_close_fd(&thread->wake_fd);
    ten_close_fd(&thread->ended_fd);
    pthread_mutex_destroy(&thread->lock);
}

/* ---- its life */

static void *run(void *arg) {
    ten_side_thread *thread = arg;
    thread->work(thread);
    ten_eventfd_poke(thread->ended_fd);
    ten_side_thread_detach(thread);
    return NULL;
}

int ten_side_thread_start(ten_side_thread *thread, const char *name, void (*work)(ten_side_thread *),
                          void (*free)(ten_side_thread *), ten_error *error) {
    pthread_t id;
    thread->work = work;
    thread->free = free;
    thread->wake_fd = ten_eventfd_open();
    thread->ended_fd = ten_eventfd_open();
    int failed = thread->wake_fd < 0 || thread->ended_fd < 0 ? errno : 0;
    thread->owners = 2;
    if (!failed)
        failed = ten_thread_start(&id, run, thread);
    if (!failed) {
        pthread_detach(id);
        return TENURE_OK;
    }
    thread->owners = 1;
    return ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot start a thread for %s", name);
}

void ten_side_thread_detach(ten_side_thread *thread) {
    pthread_mutex_lock(&thread->lock);
    unsigned left = --thread->owners;
    pthread_mutex_unlock(&thread->lock);
    if (left == 0)
        thread->free(thread);
}

void ten_side_thread_wake(ten_side_thread *thread) {
    ten_eventfd_poke(thread->wake_fd);
}

void ten_side_thread_stop(ten_side_thread *thread, uint64_t patience_ms) {
    atomic_store(&thread->stop_ms, ten_add_saturating(ten_now_ms(), patience_ms));
    ten_side_thread_wake(thread);
    if (ten_wait_readable(thread->ended_fd, -1, patience_ms) > 0)
        return;
    pthread_mutex_lock(&thread->lock);
    if (thread->interrupt)
        thread->interrupt(thread->connection);
    pthread_mutex_unlock(&thread->lock);
    (void)ten_wait_readable(thread->ended_fd, -1, LAST_MOMENT_MS);
}

/* ---- for the thread itself */

bool ten_side_thread_is_stopping(ten_side_thread *thread) {
    return atomic_load(&thread->stop_ms) != UINT64_MAX;
}

bool ten_side_thread_is_over(ten_side_thread *thread) {
    return ten_now_ms() >= atomic_load(&thread->stop_ms);
}

uint64_t ten_side_thread_deadline_ms(ten_side_thread *thread, uint64_t timeout_ms) {
    return ten_min_u64(ten_add_saturating(ten_now_ms(), timeout_ms), atomic_load(&thread->stop_ms));
}

void ten_side_thread_note_woken(ten_side_thread *thread) {
    ten_eventfd_clear(thread->wake_fd);
}

void ten_side_thread_wait(ten_side_thread *thread, uint64_t until_ms) {
    (void)ten_wait_readable(thread->wake_fd, -1,
                            until_ms == UINT64_MAX ? until_ms : ten_sub_saturating(until_ms, ten_now_ms()));
    ten_side_thread_note_woken(thread);
}

void ten_side_thread_pause(ten_side_thread *thread, uint64_t until_ms) {
    while (ten_now_ms() < until_ms && !ten_side_thread_is_stopping(thread))
        ten_side_thread_wait(thread, until_ms);
}

void ten_side_thread_back_off(ten_side_thread *thread) {
    if (ten_side_thread_is_stopping(thread)) {
        ten_side_thread_wait(thread, ten_min_u64(ten_now_ms() + STOP_BACKOFF_MS, atomic_load(&thread->stop_ms)));
        return;
    }
    uint64_t longest_ms =
        ten_min_u64((uint64_t)BACKOFF_MIN_MS << ten_min_u64(thread->failures++, 10), thread->backoff_max_ms);
    ten_side_thread_pause(thread, ten_now_ms() + longest_ms / 2 + ten_random_u64() % (longest_ms / 2));
}
