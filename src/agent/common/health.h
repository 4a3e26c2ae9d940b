/*
 * Whether this host is able to do the work: a command of the user's, run again and again by a process of its own, which
 * says after each run whether it has exited with 0. Used by elect and agent. What to do about it is their business.
 */
#ifndef TEN_AGENT_HEALTH_H
#define TEN_AGENT_HEALTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct ten_health {
    pid_t pid; /* 0: there is no check */
    int fd;    /* readable when there is a result; -1 */
    bool known;
    bool well;
} ten_health;

#define TEN_HEALTH_NONE ((ten_health){.fd = -1})

/* Starts the process, before the caller has threads. A run that takes longer than every_ms is ended and counts as a
 * failure. It ends with the caller. */
int ten_health_open(ten_health *health, const char *command, uint64_t every_ms, ten_error *error);
/* Takes the results that have come. True: it is another one than before, or the first; see `well`. */
bool ten_health_take(ten_health *health);
void ten_health_close(ten_health *health);

#endif
