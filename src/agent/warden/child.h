/*
 * A command in a process of its own, under a belief's deadline: kept together in the strongest form that can be had
 * (isolation.h), known to the warden before it runs, and ended by the kernel with the worker. Used by polls and by the
 * commands of elect and once.
 */
#ifndef TEN_AGENT_CHILD_H
#define TEN_AGENT_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "agent/warden/descriptors.h"
#include "agent/warden/leftovers.h"
#include "agent/warden/running.h"
#include "agent/warden/shared.h"
#include "base/log.h"
#include "core/work.h"
#include "runtime/measures.h"

/* All of a worker's. */
typedef struct ten_children {
    ten_shared *shared;
    ten_log *log; /* NULL: there is none yet */
    uint64_t grace_ms;
    ten_measures *measures; /* NULL: there are no metrics */
    ten_isolation_found isolation;
    enum ten_isolation_wish wish; /* if it is required, a command that cannot be isolated is not run */
    bool failing;                 /* the last one could not be isolated as was found at the start */
    uint64_t trouble_log_ms;      /* when the next trouble may be logged */
    struct rlimit files;          /* of open files, before it was raised; 0: it was not */
    ten_running commands;         /* those that run */
    ten_leftovers leftovers;
    uint32_t first_free;         /* no place below it is free */
    ten_descriptors descriptors; /* that commands inherit */
    int first_fd;                /* the program of a namespace's first process; -1: see first.h */
    bool copies_told;            /* the log says that there is none */
} ten_children;

/* A process of a command, and a pipe whose other end only it and what it starts have: so it sees when the worker is
 * gone. It stays where it is while it has a pid. */
typedef struct ten_child {
    pid_t pid;     /* 0: there is none */
    uint64_t mark; /* in the environment of everything that it starts */
    enum ten_isolation form;
    bool exited;
    int status;           /* once exited: how the command ended, as waitpid() says it */
    int exec_error;       /* errno, when it could not even be run; else 0 */
    bool ended_for_lease; /* once exited: the warden has signalled it because of its lease, or it was not started */
    uint32_t place;       /* in the shared memory */
    uint64_t walks;       /* once exited: how many walks had been made through what commands leave behind */
    int pipe_fd;          /* the worker's end, with the output of a command that is captured; -1: it is closed */
    int go_fd;            /* of a prepared one: writing there releases it; else -1 */
} ten_child;

#define TEN_CHILD_NONE ((ten_child){.pipe_fd = -1, .go_fd = -1})

#define TEN_CHILD_UNBOUND UINT32_MAX /* a belief that is none: whatever the deadlines, the warden leaves it alone */

#define TEN_COMMAND_VARIABLES 8u /* at most */

typedef struct ten_child_command {
    char *const *arguments;            /* found along PATH */
    const char *const (*variables)[2]; /* set in its environment; NULL: taken out */
    size_t variable_count;
    bool keeps_ours; /* the TENURE_ variables of this process, too */
    bool captured;   /* it writes into the pipe, reads from /dev/null, and signals of the terminal do not reach it */
} ten_child_command;

/* Tries what can be had. */
void ten_children_open(ten_children *children, ten_shared *shared, enum ten_isolation_wish wish, uint64_t grace_ms,
                       ten_measures *measures);
/* Tells the log which form is in force. */
void ten_children_report(ten_children *children, enum ten_log_level level);

/* Under the deadline of a belief, by number, or TEN_CHILD_UNBOUND. False: errno says why; EUSERS: TEN_SHARED_POLLS of
 * them run. */
bool ten_child_start(ten_children *children, const ten_child_command *command, uint32_t belief, ten_child *child);

/* Makes the process of a command that may be wanted later: in its form of isolation, known to the warden, without
 * the worker's descriptors, and waiting. It is bound to no lease, and ends with the worker. Fails as
 * ten_child_start() does. */
bool ten_child_prepare(ten_children *children, const ten_child_command *command, ten_child *child);
/* Binds a prepared process to the belief, passes it the variables, whose names are those of its start, and lets it
 * become the command, which is `child` from now on. It looks at the deadline itself before it does. False: it is
 * gone. */
bool ten_child_go(ten_children *children, ten_child *prepared, uint32_t belief, const ten_child_command *command,
                  ten_child *child);
/* Ends a prepared process, and forgets it. Does nothing if there is none. */
void ten_child_cancel(ten_children *children, ten_child *prepared);

/* Reaps a child of this process, whether one of these or an orphan: its number, or 0 if none has ended. */
pid_t ten_children_reap(ten_children *children, int *ret_status);
/* The child with this number, exited or not; NULL: there is none. */
ten_child *ten_children_find(const ten_children *children, pid_t pid);
/* A process was reaped. True: it was this child, which is now `exited`. */
bool ten_child_reaped(ten_children *children, ten_child *child, pid_t pid, int status);
/* To everything that it started, however detached. */
void ten_child_signal(ten_children *children, const ten_child *child, int signal);
/* To the command alone. */
void ten_child_pass(const ten_child *child, int signal);
/* What is left of it. What it left behind is signalled again: asked to end, or killed if its work is being killed. */
enum ten_work_left ten_child_left(ten_children *children, const ten_child *child, const ten_work *work);
/* It is gone: its place is free. */
void ten_child_forget(ten_children *children, ten_child *child);
void ten_children_free(ten_children *children);

#endif
