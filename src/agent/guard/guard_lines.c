/*
 * Lines into a guard's filter. Called by `tenure guard`. What can be read at once is judged at once, and handed on
 * before the next read, so a message waits for no other. Blank lines are left out. Bytes are passed on as they came.
 */
#include "agent/guard/guard_lines.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"

#define CHUNK_SIZE ((size_t)64 * 1024)

struct lines {
    ten_guard_filter *filter;
    int in_fd;
    ten_guard_out *out;
    ten_guard_filter_stop *stop;
    ten_error *error;
    char *buffer; /* TEN_GUARD_FILTER_MESSAGE_MAX + CHUNK_SIZE */
    size_t used;
    size_t scanned;   /* up to here there is no newline */
    uint64_t number;  /* of the last line */
    bool is_too_long; /* what comes until the next newline belongs to a line that was dropped */
    ten_guard_filter_message messages[TEN_GUARD_FILTER_BATCH];
    size_t count;
};

/* ---- the lines that were read */

static int judge(struct lines *lines) {
    size_t count = lines->count;
    lines->count = 0;
    return ten_guard_out_pass(lines->out, lines->filter, lines->messages, count, lines->stop, lines->error);
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
    if (lines->is_too_long || content > TEN_GUARD_FILTER_MESSAGE_MAX)
        ten_guard_filter_too_long(lines->filter, lines->number);
    else if (!is_blank(data, size))
        lines->messages[lines->count++] =
            (ten_guard_filter_message){.data = data, .size = size, .is_line = true, .number = lines->number};
    lines->is_too_long = false;
    return lines->count == TEN_GUARD_FILTER_BATCH ? judge(lines) : TENURE_OK;
}

/* Takes the complete lines, judges them, and moves the rest to the front. */
static int take_lines(struct lines *lines) {
    size_t start = 0;
    int r = TENURE_OK;
    while (r == TENURE_OK) {
        const char *newline = memchr(lines->buffer + lines->scanned, '\n', lines->used - lines->scanned);
        if (!newline)
            break;
        size_t end = (size_t)(newline - lines->buffer) + 1;
        r = take_line(lines, lines->buffer + start, end - start);
        start = lines->scanned = end;
    }
    if (r == TENURE_OK && lines->count > 0)
        r = judge(lines);
    lines->used -= start;
    memmove(lines->buffer, lines->buffer + start, lines->used);
    lines->is_too_long |= lines->used > TEN_GUARD_FILTER_MESSAGE_MAX;
    if (lines->is_too_long)
        lines->used = 0;
    lines->scanned = lines->used;
    return r;
}

/* What comes after the last newline is a line, too. */
static int take_last(struct lines *lines) {
    int r = TENURE_OK;
    if (lines->used > 0 || lines->is_too_long)
        r = take_line(lines, lines->buffer, lines->used);
    return r == TENURE_OK && lines->count > 0 ? judge(lines) : r;
}

/* ---- in */

static int pass_on(struct lines *lines) {
    int r = TENURE_OK;
    while (r == TENURE_OK && !lines->stop->asked) {
        struct pollfd input = {.fd = lines->in_fd, .events = POLLIN};
        int ready = ten_guard_out_wait(lines->out, &input, lines->stop, UINT64_MAX, lines->error);
        if (ready < 0)
            return ready;
        if (ready == 0 || lines->stop->asked)
            continue;
        ssize_t count = ten_read_some(lines->in_fd, lines->buffer + lines->used, CHUNK_SIZE);
        if (count == -EAGAIN)
            continue;
        if (count < 0)
            return ten_fail_errno(lines->error, TENURE_E_SYSTEM, (int)-count, "cannot read the input");
        if (count == 0)
            return take_last(lines);
        lines->used += (size_t)count;
        r = take_lines(lines);
    }
    return r;
}

int ten_guard_lines(ten_guard_filter *filter, int in_fd, ten_guard_out *out, ten_guard_filter_stop *stop,
                    ten_error *error) {
    struct lines *lines = ten_calloc(1, sizeof *lines);
    char *buffer = ten_malloc(TEN_GUARD_FILTER_MESSAGE_MAX + CHUNK_SIZE);
    int r = lines && buffer ? TENURE_OK : ten_fail_memory(error, "the lines");
    if (r == TENURE_OK) {
        *lines = (struct lines){
            .filter = filter, .in_fd = in_fd, .out = out, .stop = stop, .error = error, .buffer = buffer};
        r = pass_on(lines);
    }
    ten_free(buffer);
    ten_free(lines);
    return r;
}
