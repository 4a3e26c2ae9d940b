/*
 * The election's insides, for the commands that run work under a warden: a slot in memory of the caller's.
 */
#ifndef TEN_RUNTIME_ELECTION_H
#define TEN_RUNTIME_ELECTION_H

#include "base/clock.h"
#include "runtime/slots.h"

typedef struct ten_election_extras {
    ten_slots *slots;       /* NULL: the election keeps its slot itself; else number 0 is its */
    const ten_clock *clock; /* NULL: the system's */
} ten_election_extras;

int ten_election_open(const char *url, const char *role, const tenure_election_options *options,
                      const ten_election_extras *extras, tenure_election **ret_election);

#endif
