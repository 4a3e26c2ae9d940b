/*
 * Lines to standard output or a file, one after the other. The thread writes only what a pipe takes without waiting, so
 * that it can look at the time in between. Called by sink.c.
 */
#include "agent/sinks/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"

#define LOOK_MS 1000u /* while nothing can be written: late lines are dropped so often */

struct lines {
    ten_sink sink;
    char *path; /* NULL: standard output */
    atomic_bool reopen;
    int fd;       /* these are the thread's, once it runs */
    bool is_file; /* a regular one: takes any line in one piece */
    bool is_cut;  /* the last line was written in part, and nothing can be done about that */
};

static int open_file(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void look_at_kind(struct lines *lines) {
    struct stat status;
    lines->is_file = fstat(lines->fd, &status) == 0 && S_ISREG(status.st_mode);
}

/* ---- writing */

static void reopen(struct lines *lines) {
    int fd = open_file(lines->path);
    if (fd < 0) {
        ten_error error;
        (void)ten_fail_errno(&error, TENURE_E_SYSTEM, errno, "cannot open the sink file:%s again", lines->path);
        ten_outbox_note_problem(&lines->sink.outbox, &error);
        return;
    }
    ten_close_fd(&lines->fd);
    lines->fd = fd;
    lines->is_cut = false;
    look_at_kind(lines);
}

/* Waits until something can be written, or something else is to be done. A descriptor that cannot be waited for is
 * written to. */
static bool wait_for_room(struct lines *lines) {
    uint64_t until_ms = ten_side_thread_deadline_ms(&lines->sink.thread, LOOK_MS);
    int ready = ten_wait_writable(lines->fd, lines->sink.thread.wake_fd, ten_sub_saturating(until_ms, ten_now_ms()));
    if (ready > 0 && (ready & 2))
        ten_side_thread_note_woken(&lines->sink.thread);
    return ready < 0 || (ready & 1);
}

/* All of it, however long that takes once it has begun, unless the thread has to end; 0 or a negative errno. The caller
 * has waited for room; -EAGAIN: there is none, and nothing was written. */
static int write_out(struct lines *lines, const char *data, size_t size, bool *ret_begun) {
    while (size > 0) {
        size_t piece = lines->is_file ? size : ten_min_u64(size, PIPE_BUF);
        ssize_t count = ten_write_some(lines->fd, data, piece);
        if (count < 0 && (count != -EAGAIN || !*ret_begun))
            return (int)count;
        if (count > 0) {
            *ret_begun = true;
            data += count;
            size -= (size_t)count;
        }
        while (size > 0 && !wait_for_room(lines))
            if (ten_side_thread_is_over(&lines->sink.thread))
                return -ECANCELED;
    }
    return 0;
}

static int write_line(struct lines *lines, const ten_outgoing *outgoing) {
    bool begun = false;
    if (lines->is_cut) {
        int r = write_out(lines, "\n", 1, &begun);
        if (r < 0)
            return r;
        lines->is_cut = false;
        begun = false;
    }
    int r = write_out(lines, outgoing->json, outgoing->json_size, &begun);
    if (r < 0)
        lines->is_cut = begun;
    return r;
}

static void write_next(struct lines *lines) {
    ten_outgoing *outgoing = ten_outbox_send_next(&lines->sink.outbox);
    if (!outgoing)
        return;
    int r = write_line(lines, outgoing);
    if (r == -EAGAIN) { /* another process has made the descriptor non-blocking, and others write to it */
        ten_outbox_go_back(&lines->sink.outbox);
        return;
    }
    if (r < 0) {
        ten_error error;
        (void)ten_fail_errno(&error, TENURE_E_SYSTEM, -r, "cannot write to %s",
                             lines->path ? lines->path : "standard output");
        ten_outbox_note_problem(&lines->sink.outbox, &error);
    } else if (ten_now_ms() >= outgoing->ends_ms) {
        ten_outbox_note_late(&lines->sink.outbox);
    }
    ten_outbox_finish(&lines->sink.outbox, outgoing, r < 0);
}

static int step(ten_sink *sink, ten_error *error) {
    struct lines *lines = (struct lines *)sink;
    (void)error;
    if (atomic_exchange(&lines->reopen, false))
        reopen(lines);
    if (!ten_outbox_has_waiting(&sink->outbox))
        ten_side_thread_wait(&sink->thread, UINT64_MAX);
    else if (wait_for_room(lines))
        write_next(lines);
    else
        ten_outbox_drop_late(&sink->outbox);
    return TENURE_OK;
}

/* ---- the handle */

static int open_sink(ten_sink *sink, const char *text, const ten_agent_config *config, ten_error *error) {
    struct lines *lines = (struct lines *)sink;
    bool to_file = text[0] != '-';
    (void)config;
    lines->fd = -1;
    if (to_file && !(lines->path = ten_strdup(text + 5)))
        return ten_fail_memory(error, "the sink %s", text);
    lines->fd = to_file ? open_file(lines->path) : STDOUT_FILENO;
    if (lines->fd < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot open the sink %s", text);
    look_at_kind(lines);
    return TENURE_OK;
}

static void free_sink(ten_sink *sink) {
    struct lines *lines = (struct lines *)sink;
    if (lines->path)
        ten_close_fd(&lines->fd);
    ten_free(lines->path);
}

static void reopen_sink(ten_sink *sink) {
    struct lines *lines = (struct lines *)sink;
    if (!lines->path)
        return;
    atomic_store(&lines->reopen, true);
    ten_side_thread_wake(&sink->thread);
}

const ten_sink_ops ten_sink_lines_ops = {
    .size = sizeof(struct lines), .open = open_sink, .free = free_sink, .step = step, .reopen = reopen_sink};
