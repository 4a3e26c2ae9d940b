/*
 * How a command is kept together, so that nothing of it outlives its lease. From the strongest on:
 *
 *   a PID namespace      needs root or CAP_SYS_ADMIN. The kernel ends all of it with its first process, which it ends
 *                        with the worker: also when warden and worker are killed together.
 *   a control group      needs a group that was delegated to this user. The kernel ends all of it when warden or worker
 *                        say so. When both are killed together, only the command itself ends, and not even that if it
 *                        is a set-uid program; the rest ends when a worker starts there again.
 *   a user namespace     and in it a PID namespace, for any user where the kernel permits that. As strong as the first;
 *                        but set-uid programs and file capabilities have no effect in it, and it would take from the
 *                        commands the capabilities that they have: with these it is used only if it is required.
 *   nothing              the command's tree is walked, and what has detached itself is found by its mark. Set-uid
 *                        programs cannot be ended; they keep their target busy, and no other instance runs beside them.
 */
#ifndef TEN_AGENT_ISOLATION_H
#define TEN_AGENT_ISOLATION_H

#include <stdbool.h>

#include "agent/warden/cgroup.h"

enum ten_isolation {
    TEN_ISOLATION_NONE,
    TEN_ISOLATION_USER_NAMESPACE,
    TEN_ISOLATION_CGROUP,
    TEN_ISOLATION_PID_NAMESPACE,
};

/* What is asked for. */
enum ten_isolation_wish {
    TEN_ISOLATION_AUTO,     /* the strongest that can be had */
    TEN_ISOLATION_OFF,      /* none */
    TEN_ISOLATION_REQUIRED, /* a PID namespace, with or without a user namespace, or nothing is run */
};

/* What can be had here. errors: by form, what stands in the way; 0: nothing. */
typedef struct ten_isolation_found {
    enum ten_isolation form; /* the one to use */
    int errors[TEN_ISOLATION_PID_NAMESPACE + 1];
    bool unsure;  /* it could not be had at this moment, and may be later; or, if it is none, a stronger one may be */
    bool capable; /* commands have capabilities, which a user namespace would take from them */
    char cgroup[TEN_CGROUP_PATH_SIZE]; /* the base of the commands' groups, if that is the form, else "" */
    int cgroup_fd;                     /* which keeps it locked; else -1 */
} ten_isolation_found;

/* Tries each form on a child of this process, the strongest first. */
void ten_isolation_find(enum ten_isolation_wish wish, ten_isolation_found *ret_found);
/* To be called when the commands are gone. */
void ten_isolation_free(ten_isolation_found *found);
/* Whether something was short at the moment, so that it is worth another try. */
bool ten_isolation_is_passing(int error);

const char *ten_isolation_name(enum ten_isolation form);
/* Whether the kernel ends all of a command with its first process. */
static inline bool ten_isolation_is_namespace(enum ten_isolation form) {
    return form == TEN_ISOLATION_PID_NAMESPACE || form == TEN_ISOLATION_USER_NAMESPACE;
}

/* The flags of clone() for a form. */
unsigned long ten_isolation_flags(enum ten_isolation form);

/* In a user namespace a process has to say who it is. The texts are made before the clone; writing them is safe between
 * fork and exec. */
typedef struct ten_isolation_maps {
    char users[40];
    char groups[40];
} ten_isolation_maps;
void ten_isolation_make_maps(ten_isolation_maps *ret_maps);
bool ten_isolation_write_maps(const ten_isolation_maps *maps);

#endif
