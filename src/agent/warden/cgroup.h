/*
 * Control groups (version 2) of commands. Below a group that belongs to this user, as a service manager delegates it,
 * each command gets a group of its own; the kernel ends everything in it at once, whatever it has become: detached,
 * with another user id, or just being forked. A group has the numbers of its worker and of its command in its name, so
 * that the warden can find it.
 */
#ifndef TEN_AGENT_CGROUP_H
#define TEN_AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/warden/process.h"

#define TEN_CGROUP_PATH_SIZE 512

/* The group of this process, if groups may be made below it and can be killed. False: errno says why not. */
bool ten_cgroup_find(char ret_base[TEN_CGROUP_PATH_SIZE]);

/* Makes the group of a command. The descriptor is for ten_cgroup_enter(); -1: errno says why. */
int ten_cgroup_make(const char *base, pid_t worker, uint64_t mark);
/* Moves this process into it. Safe between fork and exec. */
bool ten_cgroup_enter(int fd);
/* Signals all that is in it: SIGKILL by the kernel, others one process at a time. Returns how many are there; what
 * cannot be read counts as one. */
unsigned ten_cgroup_signal(const char *base, pid_t worker, uint64_t mark, int signal, ten_trouble *trouble);
/* It is empty, and is removed. */
void ten_cgroup_remove(const char *base, pid_t worker, uint64_t mark);
/* Removes the empty groups that killed wardens have left behind. */
void ten_cgroup_sweep(const char *base);

#endif
