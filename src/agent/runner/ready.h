/*
 * The process of a candidate's command, made while another leads: a candidate that is elected then only has to let it go,
 * and a handoff does not wait for two forks and a namespace. It runs nothing, is bound to no lease and holds none of the
 * worker's connections; it ends with the worker. Called by leader.c.
 */
#ifndef TEN_AGENT_READY_H
#define TEN_AGENT_READY_H

#include "agent/warden/child.h"

typedef struct ten_ready {
    ten_child child;
    int go_fd;              /* writing there lets it go; -1: there is none */
    int alive_fd;           /* its command's pipe, see ten_child_config */
    uint64_t not_before_ms; /* after one that could not be made, or has died */
} ten_ready;

#define TEN_READY_NONE                                                                                                 \
    (ten_ready) {                                                                                                      \
        .go_fd = -1, .alive_fd = -1                                                                                    \
    }

static inline bool ten_ready_is_there(const ten_ready *ready) {
    return ready->child.pid != 0;
}

/* Makes it, if there is none and the last one did not just fail. The variables are those of its start, whatever their
 * values. */
void ten_ready_make(ten_ready *ready, ten_children *children, char *const *arguments, uint64_t mark,
                    const char *const (*ours)[2], size_t count);
/* Lets it become the command with these variables, under the belief with number 0: it is `child`, and *ret_alive_fd its
 * pipe. False: it is gone, and the command has to be started in the ordinary way. */
bool ten_ready_go(ten_ready *ready, ten_children *children, const char *const (*ours)[2], size_t count,
                  ten_child *child, int *ret_alive_fd);
/* A process was reaped. True: it was this one, which has died early. */
bool ten_ready_reaped(ten_ready *ready, ten_children *children, pid_t pid, int status);
/* Ends it. */
void ten_ready_drop(ten_ready *ready, ten_children *children);

#endif
