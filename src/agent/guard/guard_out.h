/*
 * Where a gate's messages go to: lines (gate_out.c) or a topic (gate_topic.c). What was put is handed on by flush,
 * which waits until it is taken: while that lasts, no more is read from the input. So nothing is dropped, and nothing
 * queued but what was read at once.
 */
#ifndef TEN_AGENT_GATE_OUT_H
#define TEN_AGENT_GATE_OUT_H

#include <poll.h>

#include "agent/guard/guard_filter.h"

#define TEN_GATE_PATIENCE_MS 1000u /* with an output that takes nothing, once told to stop */

typedef struct ten_gate_stop {
    int fd; /* readable: stop */
    bool asked;
} ten_gate_stop;

typedef struct ten_gate_out ten_gate_out;

typedef struct ten_gate_out_ops {
    /* Copies it. What goes wrong is told by flush. */
    void (*put)(ten_gate_out *out, const ten_gate_message *message);
    /* TENURE_E_CANCELLED: told to stop while the output did not take it. TENURE_E_SYSTEM: it cannot write. */
    int (*flush)(ten_gate_out *out, ten_gate_stop *stop, ten_error *error);
    /* What is to be done while nothing is handed on: what to wait for and until when, and doing it. NULL: nothing. */
    struct pollfd (*polled)(ten_gate_out *out, uint64_t *until_ms);
    void (*work)(ten_gate_out *out, short events);
    void (*close)(ten_gate_out *out);
} ten_gate_out_ops;

/* The first member of each kind. */
struct ten_gate_out {
    const ten_gate_out_ops *ops;
    int system_error; /* a negative errno; -EPIPE: the reader has gone */
};

/* Lines. The descriptor stays the caller's. */
int ten_gate_out_open_lines(int fd, ten_gate_out **ret_out, ten_error *error);
void ten_gate_out_close(ten_gate_out *out);

/* Waits for the input or for that time of the boot clock, and does meanwhile what the output needs. 1: the input may be
 * ready, see its revents; 0: it is not; a negative errno. Sets stop->asked. */
int ten_gate_out_wait(ten_gate_out *out, struct pollfd *input, ten_gate_stop *stop, uint64_t until_ms);

#endif
