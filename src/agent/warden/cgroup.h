/*
 * Control groups (version 2) of commands. Below a group that belongs to this user, as a service manager delegates it,
 * a worker makes a group of its own, the base, and in it one for each command. The kernel ends everything in a group at
 * once, whatever it has become: detached, with another user id, or just being forked. A command's group has the numbers
 * of its worker and of its command in its name, so that the warden can find it. What a command moves into another group
 * itself, as systemd-run does, is not in it any more: so its tree is looked at, too.
 *
 * A worker keeps its base locked. A base that is not locked is a dead worker's: the worker that starts next ends what
 * is in it.
 */
#ifndef TEN_AGENT_CGROUP_H
#define TEN_AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/warden/process.h"

#define TEN_CGROUP_PATH_SIZE 512

/* Makes and locks a base below the group of this process, after groups there were tried on a child: it can be put into
 * one, and the kernel kills it there (Linux 5.14). The descriptor keeps the lock. False: errno says why not. */
bool ten_cgroup_open(char ret_base[TEN_CGROUP_PATH_SIZE], int *ret_lock_fd);
/* Ends what dead workers have left beside this base, and removes it. */
void ten_cgroup_sweep(const char *base);

/* Makes the group of a command. The descriptor is for ten_cgroup_put(); -1: errno says why. */
int ten_cgroup_make(const char *base, pid_t worker, uint64_t mark);
/* Moves a process into it. False: errno says why not. */
bool ten_cgroup_put(int fd, pid_t pid);
/* Signals all that is in it: SIGKILL by the kernel, others one process at a time. Returns how many are there; what
 * cannot be read counts as one. */
unsigned ten_cgroup_signal(const char *base, pid_t worker, uint64_t mark, int signal, ten_trouble *trouble);
/* It is empty, and is removed, with the groups that the command has made in it. */
void ten_cgroup_remove(const char *base, pid_t worker, uint64_t mark);

/* Kills everything in the base, and removes it when that is gone. Returns 0 then, else how many are there; what cannot
 * be read counts as one. An empty path is no base. */
unsigned ten_cgroup_end(const char *base, ten_trouble *trouble);

#endif
