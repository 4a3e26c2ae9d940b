/*
 * Sinks for messages. Called by the agent's loop.
 */
#include "agent/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/writer.h"

#define RING_SIZE ((size_t)8 * 1024 * 1024)

struct ten_sink {
    char *name;
    const char *path; /* NULL: standard output */
    int fd;
    ten_writer *writer;
};

static int open_file(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

int ten_sink_open(const char *text, ten_sink **ret_sink, ten_error *error) {
    bool to_file = strncmp(text, "file:", 5) == 0 && text[5] != '\0';
    if (!to_file && strcmp(text, "-") != 0)
        return ten_fail(error, TENURE_E_INVALID, "there is no sink '%.60s': write - for standard output, or file:PATH",
                        text);
    ten_sink *sink = ten_calloc(1, sizeof *sink);
    if (!sink || !(sink->name = ten_strdup(text))) {
        ten_free(sink);
        return ten_fail(error, TENURE_E_NOMEM, "out of memory for the sink %s", text);
    }
    sink->path = to_file ? sink->name + 5 : NULL;
    sink->fd = to_file ? open_file(sink->path) : STDOUT_FILENO;
    int done = sink->fd < 0 ? ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot open the sink %s", text)
                            : ten_writer_open(sink->fd, RING_SIZE, &sink->writer, error);
    if (done < 0) {
        ten_sink_close(sink, 0);
        return done;
    }
    *ret_sink = sink;
    return TENURE_OK;
}

void ten_sink_close(ten_sink *sink, uint64_t flush_ms) {
    if (!sink)
        return;
    ten_writer_close(sink->writer, flush_ms);
    if (sink->path)
        ten_close_fd(&sink->fd);
    ten_free(sink->name);
    ten_free(sink);
}

bool ten_sink_put(ten_sink *sink, const char *line, size_t size) {
    return ten_writer_put(sink->writer, line, size);
}

void ten_sink_reopen(ten_sink *sink) {
    int fd = sink->path ? open_file(sink->path) : -1;
    if (fd < 0)
        return;
    /* Over the old number: the writer may be inside a write to it. */
    (void)dup3(fd, sink->fd, O_CLOEXEC);
    ten_close_fd(&fd);
}

const char *ten_sink_name(const ten_sink *sink) {
    return sink->name;
}
