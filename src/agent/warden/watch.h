/*
 * Ending the commands of targets in the worker's place. A worker that is stopped or hung does not look at its
 * deadlines; from a grace before each the warden ends the processes itself. A look at many of them costs one walk
 * through the worker's children.
 */
#ifndef TEN_AGENT_WATCH_H
#define TEN_AGENT_WATCH_H

#include "agent/warden/shared.h"

typedef struct ten_watch ten_watch;

/* NULL: no memory. */
ten_watch *ten_watch_open(uint64_t grace_ms);
void ten_watch_close(ten_watch *watch);

/* Ends what has to end now. Returns when to look next; the trouble is what could not be ended. */
uint64_t ten_watch_look(ten_watch *watch, const ten_shared *shared, pid_t worker, ten_trouble *trouble);

/* The worker is dead: kills everything that it started, but not what is below `spared`. Returns how many processes
 * were there. */
unsigned ten_watch_kill_all(const ten_shared *shared, pid_t worker, pid_t spared, ten_trouble *trouble);

#endif
