/*
 * One process, by its number: signalling it, and whether it is gone. It counts as gone only when the kernel says so for
 * all of its threads; whatever cannot be found out, or may not be signalled, counts as there.
 */
#ifndef TEN_AGENT_PROCESS_H
#define TEN_AGENT_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Why something could not be ended, or could not even be looked at. */
typedef struct ten_trouble {
    int error; /* errno, or TEN_TROUBLE_STUCK; 0: there was no trouble */
    pid_t pid; /* of the process; 0: of none in particular */
} ten_trouble;

/* Sends the signal (0: none). False: the process is gone. The trouble is set if there was one, and else left alone. */
bool ten_process_signal(pid_t pid, int signal, ten_trouble *trouble);

/* The same for the process whose number another one keeps in shared memory, and clears before that process can be
 * reaped: a number that has become a stranger's is not signalled. */
bool ten_process_signal_at(const _Atomic(int32_t) *number, int signal, ten_trouble *trouble);

/* In two steps, so that in between it can be checked which process it is. ten_process_open() returns a descriptor of
 * the process, or -errno; ten_process_signal_opened() takes either. */
int ten_process_open(pid_t pid);
bool ten_process_signal_opened(int fd, pid_t pid, int signal, ten_trouble *trouble);
/* Whether the process of a descriptor has ended, reaped or not. */
bool ten_process_has_ended(int fd);

/* Whether /proc shows the processes of this PID namespace. If it is missing, or another's, nothing is gone because
 * it is not found there, and what is found there is a stranger. False: errno says why. */
bool ten_process_proc_is_ours(void);

/* Whether this process has any child, one that waits to be reaped included. If it adopts its orphans and has none, then
 * nothing that it ever started is there: the kernel says so also where /proc cannot be read. */
bool ten_process_has_children(void);

#define TEN_TROUBLE_STUCK (-1) /* it was killed, and does not end */
const char *ten_trouble_text(const ten_trouble *trouble);

/* Notes the present errno. */
void ten_trouble_note(ten_trouble *trouble, pid_t pid);

#endif
