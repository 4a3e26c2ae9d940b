/*
 * Targets from a file, or the jobs of a crontab. Called by source.c.
 */
#include "agent/sources/source.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"

#define SIZE_MAX_MIB 256u

typedef struct target_path {
    ten_source source;
    char *path;
    bool crontab;  /* its lines are jobs */
    bool watching; /* these are the thread's */
    ten_zones zones;
} target_path;

/* ---- the file */

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

static int check_file(const char *path, const struct stat *file, ten_error *error) {
    if (!S_ISREG(file->st_mode))
        return ten_fail(error, TENURE_E_INVALID,
                        "the targets in %s cannot be read: it is %s; write them to a regular file", path,
                        kind_of(file->st_mode));
    if ((uint64_t)file->st_size > (uint64_t)SIZE_MAX_MIB * 1024 * 1024)
        return ten_fail(error, TENURE_E_INVALID,
                        "the targets in %s cannot be read: it has %llu bytes, and at most %u MiB are read", path,
                        (unsigned long long)file->st_size, SIZE_MAX_MIB);
    return TENURE_OK;
}

static int fail_to_read(const char *path, int code, ten_error *error) {
    return ten_fail_errno(error, TENURE_E_INVALID, code, "cannot read %s", path);
}

/* A user who can write the crontab runs commands as this user. */
static int check_writers(const char *path, const struct stat *file, ten_error *error) {
    if (!(file->st_mode & S_IWOTH))
        return TENURE_OK;
    return ten_fail(error, TENURE_E_INVALID, "all users can write %s, and so run commands as this user: chmod o-w %s",
                    path, path);
}

/* It is looked at before it is opened, because to open a device can have effects; and again afterwards. */
static int open_file(const char *path, bool crontab, int *ret_fd, ten_error *error) {
    struct stat file;
    if (stat(path, &file) != 0)
        return fail_to_read(path, errno, error);
    int r = check_file(path, &file, error);
    if (r < 0)
        return r;
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*ret_fd < 0 || fstat(*ret_fd, &file) != 0)
        return fail_to_read(path, errno, error);
    r = check_file(path, &file, error);
    return r < 0 || !crontab ? r : check_writers(path, &file, error);
}

static int read_whole(const char *path, bool crontab, ten_buf *text, ten_error *error) {
    char chunk[65536];
    TEN_CLEANUP(ten_close_fd) int fd = -1;
    int r = open_file(path, crontab, &fd, error);
    if (r < 0)
        return r;
    ssize_t count;
    while ((count = ten_read_some(fd, chunk, sizeof chunk)) > 0 && !text->failed) {
        ten_buf_add(text, chunk, (size_t)count);
        if (text->size > (size_t)SIZE_MAX_MIB * 1024 * 1024)
            return ten_fail(error, TENURE_E_INVALID,
                            "the targets in %s cannot be read: it grows, and at most %u MiB are read", path,
                            SIZE_MAX_MIB);
    }
    if (count < 0)
        return fail_to_read(path, (int)-count, error);
    return text->failed ? ten_fail_memory(error, "the targets of %s", path) : TENURE_OK;
}

/* ---- a reading */

static int take_line(target_path *source, char *line, size_t size, ten_error *error) {
    source->source.feed.line++;
    while (size > 0 && strchr(" \t\r", line[size - 1]) && line[size - 1])
        size--;
    line[size] = '\0';
    size_t blank = strspn(line, " \t");
    if (size == blank || line[blank] == '#')
        return TENURE_OK;
    if (source->crontab)
        return ten_source_feed_job(&source->source.feed, &source->zones, line, size, error);
    return ten_source_feed_line(&source->source.feed, line + blank, size - blank, error);
}

static int take_lines(target_path *source, ten_buf *text, ten_error *error) {
    int r = TENURE_OK;
    char *at = text->data;
    const char *end = at ? at + text->size : NULL;
    source->source.feed.line = 0;
    ten_source_feed_begin(&source->source.feed);
    while (r == TENURE_OK && at && at < end) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
        r = take_line(source, at, size, error);
        at = line_end ? line_end + 1 : NULL;
    }
    ten_source_feed_end(&source->source.feed, r == TENURE_OK, ten_now_ms());
    return r;
}

/* The directory is watched, not the file: editors and deployments put a new file in its place. */
static int watch(target_path *source, ten_error *error) {
    TEN_CLEANUP(ten_free_string) char *copy = ten_strdup(source->path);
    if (!copy)
        return ten_fail_memory(error, "%s", source->path);
    if (inotify_add_watch(source->source.watch_fd, dirname(copy),
                          IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE) < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot watch the directory of %s", source->path);
    source->watching = true;
    return TENURE_OK;
}

static int read_targets(ten_source *self, ten_error *error) {
    target_path *source = (target_path *)self;
    char events[4096];
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    while (ten_read_some(source->source.watch_fd, events, sizeof events) > 0)
        continue;
    ten_source_feed_reading_begins(&source->source.feed);
    int r = source->watching ? TENURE_OK : watch(source, error);
    TEN_STEP(r, read_whole(source->path, source->crontab, &text, error));
    ten_source_feed_reading_ends(&source->source.feed);
    return r == TENURE_OK ? take_lines(source, &text, error) : r;
}

/* ---- the kind */

static int open_source(ten_source *self, const ten_agent_config *config, ten_error *error) {
    target_path *source = (target_path *)self;
    const char *path = strchr(config->targets, ':') + 1;
    if (path[0] == '\0')
        return ten_fail(error, TENURE_E_INVALID, "the target source 'file:' names no file: write file:PATH");
    self->feed.list.whole = true;
    self->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (self->watch_fd < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot watch the directory of %s", path);
    source->crontab = config->cron;
    source->path = ten_strdup(path);
    return source->path ? TENURE_OK : ten_fail_memory(error, "the targets");
}

static void free_source(ten_source *self) {
    target_path *source = (target_path *)self;
    ten_zones_free(&source->zones);
    ten_free(source->path);
}

const ten_source_ops ten_target_path_ops = {
    .size = sizeof(target_path), .open = open_source, .free = free_source, .read = read_targets};
