/*
 * Process trees: finding and ending everything that a command started, also what has detached itself. A process that
 * double-forks and calls setsid() is in no group of ours, but it is adopted by the nearest subreaper, which the worker
 * and the warden are; and it carries the command's mark in its environment.
 *
 * The functions return how many processes were there; 0 means that nothing is left. A walk that could not read
 * something counts that as a process, so that it is not taken for the end; the trouble says what it was.
 */
#ifndef TEN_AGENT_TREE_H
#define TEN_AGENT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/warden/process.h"

#define TEN_POLL_MARK    "TENURE_POLL" /* environment variable with a command's mark */
#define TEN_TREE_NO_MARK UINT64_C(0)

/* Sends the signal to the process and all of its descendants. The number stays that process's meanwhile: it is a
 * child of the caller's, or of one that does not reap. */
unsigned ten_tree_signal(pid_t root, int signal, ten_trouble *trouble);

/* The same for the process whose number another one keeps in shared memory, see ten_process_signal_at(). */
unsigned ten_tree_signal_at(const _Atomic(int32_t) *number, int signal, ten_trouble *trouble);

/* Says which signal a child of the process gets, with all that is below it; 0: it is not meant. */
typedef int (*ten_tree_choice)(pid_t child, void *userdata);
/* Signals the children of `parent` that are meant, and all that is below them. */
unsigned ten_tree_signal_children(pid_t parent, ten_tree_choice choose, void *userdata, ten_trouble *trouble);

/* Calls `take` for each child of the process. False: not all could be seen. */
bool ten_tree_each_child(pid_t parent, void (*take)(pid_t child, void *userdata), void *userdata, ten_trouble *trouble);

/* A mark for a command that is to be started. Random: no process can guess that of another command. */
uint64_t ten_tree_new_mark(void);
/* The mark that a process carries; TEN_TREE_NO_MARK: none, or none that can be read. It may be one of its own
 * choice. */
uint64_t ten_tree_mark(pid_t pid);

/* The oldest child of a process; 0: it has none that can be seen. */
pid_t ten_tree_first_child(pid_t pid);

/* Makes this process the one that adopts the orphans among its descendants. */
void ten_tree_adopt(void);

#endif
