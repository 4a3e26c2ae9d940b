/*
 * Where a guard's messages go to: lines (guard_out.c) or a topic (guard_topic.c). What was put is handed on by flush,
 * which waits until it is taken: while that lasts, no more is read from the input. So nothing is dropped, and nothing
 * queued but what was read at once.
 */
#ifndef TEN_AGENT_GUARD_OUT_H
#define TEN_AGENT_GUARD_OUT_H

#include <poll.h>

#include "agent/guard/guard_filter.h"

#define TEN_GUARD_FILTER_PATIENCE_MS 1000u /* with an output that takes nothing, once it is to stop */

typedef struct ten_guard_filter_stop {
    int fd; /* readable: stop */
    bool asked;
} ten_guard_filter_stop;

typedef struct ten_guard_out ten_guard_out;

typedef struct ten_guard_out_ops {
    /* Copies it. What goes wrong is returned by flush. */
    void (*put)(ten_guard_out *out, const ten_guard_filter_message *message);
    /* TENURE_E_CANCELLED: stopped while the output did not take it. TENURE_E_SYSTEM: it cannot write. */
    int (*flush)(ten_guard_out *out, ten_guard_filter_stop *stop, ten_error *error);
    /* What is to be done while nothing is handed on: what to wait for and until when, and doing it. NULL: nothing. */
    struct pollfd (*polled)(ten_guard_out *out, uint64_t *until_ms);
    void (*work)(ten_guard_out *out, short events);
    void (*close)(ten_guard_out *out);
} ten_guard_out_ops;

/* The first member of each kind. */
struct ten_guard_out {
    const ten_guard_out_ops *ops;
    int system_error; /* a negative errno; -EPIPE: the reader has gone */
};

/* Lines. The descriptor stays the caller's. */
int ten_guard_out_open_lines(int fd, ten_guard_out **ret_out, ten_error *error);
void ten_guard_out_close(ten_guard_out *out);

/* Judges messages, and hands on those that pass. */
int ten_guard_out_pass(ten_guard_out *out, ten_guard_filter *filter, ten_guard_filter_message *messages, size_t count,
                       ten_guard_filter_stop *stop, ten_error *error);

/* Waits for the input or for that time of the boot clock, and does meanwhile what the output needs. 1: the input may be
 * ready, see its revents; 0: it is not; or an error. Sets stop->asked. */
int ten_guard_out_wait(ten_guard_out *out, struct pollfd *input, ten_guard_filter_stop *stop, uint64_t until_ms,
                       ten_error *error);

#endif
