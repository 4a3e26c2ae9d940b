/*
 * Lines through a gate. Called by `tenure guard`. What can be read at once is judged at once, and written before the
 * next read, so a message waits for no other. Blank lines are nothing. Bytes are passed on as they came.
 */
#include "agent/gate_lines.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"

#define CHUNK_SIZE  ((size_t)64 * 1024)
#define WRITE_SIZE  4096u /* what a pipe that can be written takes without waiting */
#define PATIENCE_MS 1000u /* with a reader that takes nothing, once told to stop */

struct lines {
    ten_gate *gate;
    ten_gate_lines_config config;
    ten_error *error;
    int *ret_errno;
    char *buffer; /* TEN_GATE_MESSAGE_MAX + CHUNK_SIZE */
    size_t used;
    size_t scanned;   /* up to here there is no newline */
    uint64_t number;  /* of the last line */
    bool is_too_long; /* what comes until the next newline belongs to a line that was dropped */
    bool is_stopping;
    ten_buf out;
    ten_gate_message messages[TEN_GATE_BATCH];
    size_t count;
};

static int fail_system(struct lines *lines, int negative_errno, const char *what) {
    *lines->ret_errno = negative_errno;
    return ten_fail_errno(lines->error, TENURE_E_SYSTEM, -negative_errno, "%s", what);
}

/* ---- out */

static int write_out(struct lines *lines) {
    size_t written = 0;
    uint64_t patience_ms = lines->is_stopping ? PATIENCE_MS : UINT64_MAX;
    uint64_t end_ms = ten_add_u64(ten_boot_ms(&ten_system_clock), patience_ms);
    while (written < lines->out.size) {
        uint64_t left_ms = ten_left_u64(end_ms, ten_boot_ms(&ten_system_clock));
        int ready = ten_wait_writable(lines->config.out_fd, lines->is_stopping ? -1 : lines->config.stop_fd, left_ms);
        if (ready < 0)
            return fail_system(lines, ready, "cannot wait for the output");
        if (ready == 0)
            return ten_fail(lines->error, TENURE_E_CANCELLED,
                            "stopped while nobody read the output: %zu bytes were not passed on",
                            lines->out.size - written);
        if (ready & 2) {
            lines->is_stopping = true;
            end_ms = ten_boot_ms(&ten_system_clock) + PATIENCE_MS;
        }
        if (!(ready & 1))
            continue;
        ssize_t count = ten_write_some(lines->config.out_fd, lines->out.data + written,
                                       ten_min_u64(lines->out.size - written, WRITE_SIZE));
        if (count < 0 && count != -EAGAIN)
            return fail_system(lines, (int)count, "cannot write the output");
        written += count > 0 ? (size_t)count : 0;
    }
    ten_buf_clear(&lines->out);
    return TENURE_OK;
}

/* ---- the lines that were read */

static int judge(struct lines *lines) {
    int done = ten_gate_judge(lines->gate, lines->messages, lines->count, lines->error);
    for (size_t i = 0; done == TENURE_OK && i < lines->count; i++)
        if (lines->messages[i].passes)
            ten_buf_add(&lines->out, lines->messages[i].data, lines->messages[i].size);
    lines->count = 0;
    if (lines->out.failed)
        return ten_fail(lines->error, TENURE_E_NOMEM, "out of memory for the output");
    return done < 0 ? done : write_out(lines);
}

static bool is_blank(const char *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r\n", data[i]) || data[i] == '\0')
            return false;
    return true;
}

/* A line, with its newline if it has one. */
static int take_line(struct lines *lines, const char *data, size_t size) {
    lines->number++;
    size_t content = size > 0 && data[size - 1] == '\n' ? size - 1 : size;
    if (lines->is_too_long || content > TEN_GATE_MESSAGE_MAX)
        ten_gate_too_long(lines->gate, lines->number);
    else if (!is_blank(data, size))
        lines->messages[lines->count++] = (ten_gate_message){.data = data, .size = size, .number = lines->number};
    lines->is_too_long = false;
    return lines->count == TEN_GATE_BATCH ? judge(lines) : TENURE_OK;
}

/* Takes the complete lines, judges them, and moves the rest to the front. */
static int take_lines(struct lines *lines) {
    size_t start = 0;
    int done = TENURE_OK;
    while (done == TENURE_OK) {
        const char *newline = memchr(lines->buffer + lines->scanned, '\n', lines->used - lines->scanned);
        if (!newline)
            break;
        size_t end = (size_t)(newline - lines->buffer) + 1;
        done = take_line(lines, lines->buffer + start, end - start);
        start = lines->scanned = end;
    }
    if (done == TENURE_OK && lines->count > 0)
        done = judge(lines);
    lines->used -= start;
    memmove(lines->buffer, lines->buffer + start, lines->used);
    lines->is_too_long |= lines->used > TEN_GATE_MESSAGE_MAX;
    if (lines->is_too_long)
        lines->used = 0;
    lines->scanned = lines->used;
    return done;
}

/* What comes after the last newline is a line, too. */
static int take_last(struct lines *lines) {
    int done = TENURE_OK;
    if (lines->used > 0 || lines->is_too_long)
        done = take_line(lines, lines->buffer, lines->used);
    return done == TENURE_OK && lines->count > 0 ? judge(lines) : done;
}

/* ---- in */

static int pass_on(struct lines *lines) {
    int done = TENURE_OK;
    while (done == TENURE_OK && !lines->is_stopping) {
        int ready = ten_wait_readable(lines->config.in_fd, lines->config.stop_fd, UINT64_MAX);
        if (ready < 0)
            return fail_system(lines, ready, "cannot wait for the input");
        lines->is_stopping |= (ready & 2) != 0;
        if (!(ready & 1) || lines->is_stopping)
            continue;
        ssize_t count = ten_read_some(lines->config.in_fd, lines->buffer + lines->used, CHUNK_SIZE);
        if (count == -EAGAIN)
            continue;
        if (count < 0)
            return fail_system(lines, (int)count, "cannot read the input");
        if (count == 0)
            return take_last(lines);
        lines->used += (size_t)count;
        done = take_lines(lines);
    }
    return done;
}

int ten_gate_lines(ten_gate *gate, const ten_gate_lines_config *config, int *ret_errno, ten_error *error) {
    struct lines *lines = ten_calloc(1, sizeof *lines);
    char *buffer = ten_malloc(TEN_GATE_MESSAGE_MAX + CHUNK_SIZE);
    int done = lines && buffer ? TENURE_OK : ten_fail(error, TENURE_E_NOMEM, "out of memory for the lines");
    if (done == TENURE_OK) {
        *lines =
            (struct lines){.gate = gate, .config = *config, .error = error, .ret_errno = ret_errno, .buffer = buffer};
        done = pass_on(lines);
        ten_buf_free(&lines->out);
    }
    ten_free(buffer);
    ten_free(lines);
    return done;
}
