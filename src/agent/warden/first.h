/*
 * The first process of a PID namespace: when it ends, the kernel ends everything in the namespace, however it has
 * detached itself, and only then is its own end reported. It waits for the command, reports how that ended, and passes
 * SIGTERM on: ending the namespace takes one signal, and no walk through what is below. It watches the deadline, too:
 * so the work ends in time although worker and warden are both stopped.
 *
 * It starts as a copy of the worker, starts the command, and then becomes a program of its own (first_program.c), which
 * is part of this one. Thousands of copies of the worker that end together would wait for each other in the kernel;
 * thousands of small programs do not. Where such a program cannot be run, it remains a copy.
 */
#ifndef TEN_AGENT_FIRST_H
#define TEN_AGENT_FIRST_H

#include "agent/warden/shared.h"

typedef struct ten_first {
    const ten_shared *shared;
    struct ten_shared_poll *place;
    uint64_t grace_ms;
    bool own_group; /* the command has a process group of its own */
} ten_first;

/* Waits until the command has ended, or until its deadline demands to kill it. The place has the command's number;
 * SIGTERM and SIGCHLD are blocked. Calls nothing but the kernel. */
void ten_first_wait(const ten_first *first);

/* The program as a descriptor for ten_first_become(). -1: errno says why. */
int ten_first_open(void);

/* What the program has to know, as one argument. */
typedef struct ten_first_words {
    char text[96];
} ten_first_words;
/* alive_fd: see ten_child_config. */
void ten_first_make_words(const ten_first *first, int alive_fd, ten_first_words *ret_words);

/* Makes this process that program. Returns if that cannot be done: errno says why. Only system calls. */
void ten_first_become(int program_fd, const ten_first *first, int alive_fd, const ten_first_words *words);

#endif
