/*
 * Process trees: finding and ending everything that a poll started, also what has detached itself. A process that
 * double-forks and calls setsid() is in no group of ours, but it is adopted by the nearest subreaper, which the worker
 * and the warden are; and it carries the poll's mark in its environment.
 */
#ifndef TEN_AGENT_TREE_H
#define TEN_AGENT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TEN_POLL_MARK "TENURE_POLL" /* environment variable with the poll's number */

/* Sends the signal to the process and all of its descendants; returns how many there were (a zombie is none). */
unsigned ten_tree_signal(pid_t root, int signal);

/* The oldest child of a process; 0: it has none. */
pid_t ten_tree_first_child(pid_t pid);

/* Sends the signal to the children of `parent`, with their descendants, that carry the poll's mark, or no mark at all
 * that could be read; except those in `spared`. Returns how many there were. */
unsigned ten_tree_signal_orphans(pid_t parent, uint64_t poll, const pid_t *spared, unsigned spared_count, int signal);

/* Sends the signal to every descendant of this process, but not to those in `spared` and what is below them. Returns
 * how many there were. */
unsigned ten_tree_signal_all(const pid_t *spared, unsigned spared_count, int signal);

/* Whether this process may give its commands a PID namespace of their own. */
bool ten_tree_can_isolate(void);

/* Makes this process the one that adopts the orphans among its descendants. */
void ten_tree_adopt(void);

#endif
