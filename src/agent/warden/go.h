/*
 * Releasing a prepared command: see ten_child_prepare(). The worker writes the variables that were not known when the
 * process was made, all at once, into a pipe; the process that reads them may become the command. Called by child.c.
 */
#ifndef TEN_AGENT_GO_H
#define TEN_AGENT_GO_H

#include <stdbool.h>
#include <stddef.h>

/* Variables without a value are left out. False: errno says why; E2BIG: they do not fit. */
bool ten_go_send(int fd, const char *const (*ours)[2], size_t count);

/* In the process that waits: puts what was sent in the place of the variables with the same names, and returns true.
 * False: the worker is gone, or does not want the command any more. Only system calls. */
bool ten_go_wait(int fd, char **variables);

#endif
