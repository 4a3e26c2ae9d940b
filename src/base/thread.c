/*
 * See thread.h.
 */
#include "base/thread.h"

#include <signal.h>

int ten_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *arg) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret_thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
