/*
 * Starting a thread that leaves the program's signals alone. All threads of ours are started here.
 */
#ifndef TEN_BASE_THREAD_H
#define TEN_BASE_THREAD_H

#include <pthread.h>

/* Starts run(arg) with all signals blocked: they are for the program's own threads, and a write to a closed pipe fails
 * with EPIPE instead of ending the process. Returns 0, or the errno of pthread_create(). */
int ten_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg);

#endif
