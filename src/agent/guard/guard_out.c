/*
 * A guard's output: waiting beside it, and the kind that writes lines. Called by guard_lines.c and guard_topic.c.
 */
#include "agent/guard/guard_out.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"

#define WRITE_SIZE 4096u    /* what a pipe that can be written takes without waiting */
#define WAIT_MS    3600000u /* poll() counts on a clock that stands still during suspend, ours does not */

/* ---- whichever kind it is */

void ten_guard_out_close(ten_guard_out *out) {
    if (out)
        out->ops->close(out);
}

int ten_guard_out_pass(ten_guard_out *out, ten_guard_filter *filter, ten_guard_filter_message *messages, size_t count,
                       ten_guard_filter_stop *stop, ten_error *error) {
    int r = ten_guard_filter_judge(filter, messages, count, error);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (messages[i].passes)
            out->ops->put(out, &messages[i]);
    return r < 0 ? r : out->ops->flush(out, stop, error);
}

int ten_guard_out_wait(ten_guard_out *out, struct pollfd *input, ten_guard_filter_stop *stop, uint64_t until_ms,
                       ten_error *error) {
    struct pollfd polled[] = {*input, {.fd = stop->asked ? -1 : stop->fd, .events = POLLIN}, {.fd = -1}};
    if (out->ops->polled)
        polled[2] = out->ops->polled(out, &until_ms);
    uint64_t left_ms = ten_min_u64(ten_sub_saturating(until_ms, ten_now_ms()), WAIT_MS);
    int ready = poll(polled, TEN_COUNT(polled), (int)left_ms);
    if (ready < 0)
        return errno == EINTR ? 0 : ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot wait for input and output");
    stop->asked |= polled[1].revents != 0;
    if (out->ops->work)
        out->ops->work(out, polled[2].revents);
    input->revents = polled[0].revents;
    return input->revents ? 1 : 0;
}

/* ---- lines */

struct lines {
    ten_guard_out out;
    int fd;
    ten_buf text;
};

/* A message that was no line becomes one: between the parts of a JSON object a line end is a blank like any other, and
 * inside of a text there is none. */
static void put_line(ten_guard_out *out, const ten_guard_filter_message *message) {
    struct lines *lines = (struct lines *)out;
    size_t start = lines->text.size;
    ten_buf_add(&lines->text, message->data, message->size);
    if (message->is_line || lines->text.failed)
        return;
    for (size_t i = start; i < lines->text.size; i++)
        if (lines->text.data[i] == '\n' || lines->text.data[i] == '\r')
            lines->text.data[i] = ' ';
    ten_buf_char(&lines->text, '\n');
}

static int fail_system(struct lines *lines, int negative_errno, const char *what, ten_error *error) {
    lines->out.system_error = negative_errno;
    return ten_fail_errno(error, TENURE_E_SYSTEM, -negative_errno, "%s", what);
}

static int flush_lines(ten_guard_out *out, ten_guard_filter_stop *stop, ten_error *error) {
    struct lines *lines = (struct lines *)out;
    size_t written = 0;
    uint64_t end_ms = stop->asked ? ten_now_ms() + TEN_GUARD_FILTER_PATIENCE_MS : UINT64_MAX;
    if (lines->text.failed)
        return ten_fail_memory(error, "the output");
    while (written < lines->text.size) {
        int ready = ten_wait_writable(lines->fd, stop->asked ? -1 : stop->fd, ten_sub_saturating(end_ms, ten_now_ms()));
        if (ready < 0)
            return fail_system(lines, ready, "cannot wait for the output", error);
        if (ready == 0)
            return ten_fail(error, TENURE_E_CANCELLED,
                            "stopped while the output was not read: %zu bytes were not passed on",
                            lines->text.size - written);
        if (ready & 2) {
            stop->asked = true;
            end_ms = ten_now_ms() + TEN_GUARD_FILTER_PATIENCE_MS;
        }
        if (!(ready & 1))
            continue;
        ssize_t count =
            ten_write_some(lines->fd, lines->text.data + written, ten_min_u64(lines->text.size - written, WRITE_SIZE));
        if (count < 0 && count != -EAGAIN)
            return fail_system(lines, (int)count, "cannot write the output", error);
        written += count > 0 ? (size_t)count : 0;
    }
    ten_buf_clear(&lines->text);
    return TENURE_OK;
}

static void close_lines(ten_guard_out *out) {
    struct lines *lines = (struct lines *)out;
    ten_buf_free(&lines->text);
    ten_free(lines);
}

static const ten_guard_out_ops lines_ops = {.put = put_line, .flush = flush_lines, .close = close_lines};

int ten_guard_out_open_lines(int fd, ten_guard_out **ret_out, ten_error *error) {
    struct lines *lines = ten_calloc(1, sizeof *lines);
    if (!lines)
        return ten_fail_memory(error, "the output");
    lines->out.ops = &lines_ops;
    lines->fd = fd;
    *ret_out = &lines->out;
    return TENURE_OK;
}
