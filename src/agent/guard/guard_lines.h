/*
 * Lines into a guard's filter: from a descriptor, each line a message, until the input ends.
 */
#ifndef TEN_AGENT_GUARD_LINES_H
#define TEN_AGENT_GUARD_LINES_H

#include "agent/guard/guard_out.h"

/* TENURE_OK: the input has ended, or it was stopped; lines that were not complete by then were not passed on.
 * TENURE_E_SYSTEM: it cannot read; else what the output says. */
int ten_guard_lines(ten_guard_filter *filter, int in_fd, ten_guard_out *out, ten_guard_filter_stop *stop,
                    ten_error *error);

#endif
