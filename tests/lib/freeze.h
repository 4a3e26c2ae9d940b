/*
 * Stops a process for a test. A signal only asks: on a busy machine, threads of a process that was sent SIGSTOP still
 * run for a while, and it can answer one more request. Tests only.
 */
#ifndef TESTS_LIB_FREEZE_H
#define TESTS_LIB_FREEZE_H

#include <sys/types.h>

/* Sends SIGSTOP, and returns when none of its threads runs. -1: there is no such process, or it did not stop in a
   minute. */
int freeze_process(pid_t pid);
int thaw_process(pid_t pid);

#endif
