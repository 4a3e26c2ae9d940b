/*
 * Lines through a gate: from one descriptor to another, each line a message, until the input ends.
 */
#ifndef TEN_AGENT_GATE_LINES_H
#define TEN_AGENT_GATE_LINES_H

#include "agent/gate.h"

typedef struct ten_gate_lines_config {
    int in_fd;
    int out_fd;
    int stop_fd; /* readable: stop */
} ten_gate_lines_config;

/* TENURE_OK: the input has ended, or it was told to stop; lines that were not complete by then were not passed on.
 * TENURE_E_CANCELLED: told to stop while the reader of the output would not take what was to be passed on.
 * TENURE_E_SYSTEM: it cannot read or write; -EPIPE in *ret_errno when the reader has gone. */
int ten_gate_lines(ten_gate *gate, const ten_gate_lines_config *config, int *ret_errno, ten_error *error);

#endif
