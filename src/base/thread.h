/*
 * Starting a thread that leaves the program's signals alone. All threads of ours are started here.
 */
#ifndef TEN_BASE_THREAD_H
#define TEN_BASE_THREAD_H

#include <pthread.h>

#include "base/util.h"

/* Starts run(arg) with all signals blocked: they are for the program's own threads, and a write to a closed pipe fails
 * with EPIPE instead of ending the process. Returns 0, or the errno of pthread_create(). */
int ten_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg);

/* Holds the lock of that address to the end of the block: TEN_LOCKED(&lock); */
#define TEN_LOCKED(mutex) TEN_CLEANUP(ten_unlock) __attribute__((unused)) pthread_mutex_t *ten_locked = ten_lock(mutex)
static inline pthread_mutex_t *ten_lock(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}
static inline void ten_unlock(pthread_mutex_t **mutex) {
    pthread_mutex_unlock(*mutex);
}

#endif
