/*
 * Targets from a file. Called by way of source.c.
 */
#include "agent/sources/target_path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/side_thread.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"

#define START_MS     2000u /* a file system that takes longer is not waited for at the start */
#define AGAIN_MS     5000u /* after a failure: not every file system tells when it is back */
#define SIZE_MAX_MIB 256u

typedef struct target_path {
    ten_side_thread thread;
    ten_source_feed feed;
    char *path;
    int watch_fd;
    int first_fd; /* the first reading is over */
    int first;    /* what it came to; under the thread's lock, as is its error */
    ten_error error;
    bool watching; /* these are the thread's */
    bool read_once;
    bool crontab; /* its lines are jobs */
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

/* Whoever can write a crontab runs commands as this user. */
static int check_writers(const char *path, const struct stat *file, ten_error *error) {
    if (!(file->st_mode & S_IWOTH))
        return TENURE_OK;
    return ten_fail(error, TENURE_E_INVALID, "everybody can write %s, and so run commands as this user: chmod o-w %s",
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
    source->feed.line++;
    while (size > 0 && strchr(" \t\r", line[size - 1]) && line[size - 1])
        size--;
    line[size] = '\0';
    size_t blank = strspn(line, " \t");
    if (size == blank || line[blank] == '#')
        return TENURE_OK;
    if (source->crontab)
        return ten_source_feed_job(&source->feed, &source->zones, line, size, error);
    return ten_source_feed_line(&source->feed, line + blank, size - blank, error);
}

static int take_lines(target_path *source, ten_buf *text, ten_error *error) {
    int r = TENURE_OK;
    char *at = text->data;
    const char *end = at ? at + text->size : NULL;
    source->feed.line = 0;
    ten_source_feed_begin(&source->feed);
    while (r == TENURE_OK && at && at < end) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = line_end ? (size_t)(line_end - at) : (size_t)(end - at);
        r = take_line(source, at, size, error);
        at = line_end ? line_end + 1 : NULL;
    }
    ten_source_feed_end(&source->feed, r == TENURE_OK, ten_now_ms());
    return r;
}

/* The directory is watched, not the file: editors and deployments put a new file in its place. */
static int watch(target_path *source, ten_error *error) {
    TEN_CLEANUP(ten_free_string) char *copy = ten_strdup(source->path);
    if (!copy)
        return ten_fail_memory(error, "%s", source->path);
    if (inotify_add_watch(source->watch_fd, dirname(copy), IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE) < 0)
        return ten_fail_errno(error, TENURE_E_SYSTEM, errno, "cannot watch the directory of %s", source->path);
    source->watching = true;
    return TENURE_OK;
}

static int read_targets(target_path *source, ten_error *error) {
    char events[4096];
    ten_buf text = {0};
    while (ten_read_some(source->watch_fd, events, sizeof events) > 0)
        continue;
    ten_source_feed_reading_begins(&source->feed);
    int r = source->watching ? TENURE_OK : watch(source, error);
    if (r == TENURE_OK)
        r = read_whole(source->path, source->crontab, &text, error);
    ten_source_feed_reading_ends(&source->feed);
    if (r == TENURE_OK)
        r = take_lines(source, &text, error);
    ten_buf_free(&text);
    return r;
}

/* Whoever opens the source waits for the first one. */
static void note_first(target_path *source, int r, const ten_error *error) {
    pthread_mutex_lock(&source->thread.lock);
    source->first = r;
    if (r < 0)
        source->error = *error;
    pthread_mutex_unlock(&source->thread.lock);
    source->read_once = true;
    ten_eventfd_poke(source->first_fd);
}

static void *run(void *arg) {
    target_path *source = arg;
    ten_side_thread *thread = &source->thread;
    while (!ten_side_thread_is_stopping(thread)) {
        ten_error error = {0};
        int r = read_targets(source, &error);
        ten_source_feed_state(&source->feed, r, &error);
        if (!source->read_once)
            note_first(source, r, &error);
        (void)ten_wait_readable(thread->wake_fd, source->watch_fd, r < 0 ? AGAIN_MS : UINT64_MAX);
        ten_side_thread_note_woken(thread);
    }
    ten_side_thread_end(thread);
    return NULL;
}

/* ---- the handle */

static void free_source(ten_side_thread *thread) {
    target_path *source = (target_path *)thread;
    ten_source_feed_free(&source->feed);
    ten_zones_free(&source->zones);
    ten_side_thread_close(&source->thread);
    ten_close_fd(&source->watch_fd);
    ten_close_fd(&source->first_fd);
    ten_free(source->path);
    ten_free(source);
}

static int check(const ten_agent_config *config, ten_error *error) {
    if (strcmp(config->targets, "file:") == 0)
        return ten_fail(error, TENURE_E_INVALID, "the target source 'file:' names no file: write file:PATH");
    return TENURE_OK; /* the file is looked at by the thread */
}

static int make(const ten_agent_config *config, target_path **ret_source, ten_error *error) {
    const char *path = strchr(config->targets, ':') + 1;
    target_path *source = ten_calloc(1, sizeof *source);
    if (!source)
        return ten_fail_memory(error, "the targets");
    ten_side_thread_init(&source->thread);
    ten_source_feed_init(&source->feed, config->context.ttl_ms);
    source->feed.list.whole = true;
    source->crontab = config->cron;
    source->path = ten_strdup(path);
    source->first_fd = ten_eventfd_open();
    source->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int failed = source->first_fd < 0 || source->watch_fd < 0 ? errno : 0;
    int r = TENURE_OK;
    if (!source->path)
        r = ten_fail_memory(error, "the targets");
    else if (failed)
        r = ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot watch the directory of %s", path);
    else
        r = ten_source_feed_open(&source->feed, config->targets, error);
    if (r < 0)
        free_source(&source->thread);
    else
        *ret_source = source;
    return r;
}

static void close_source(void *self) {
    target_path *source = self;
    ten_side_thread_stop(&source->thread, 0);
    ten_side_thread_detach(&source->thread);
}

/* A file that cannot be read is an error at the start, and only then. */
static int open_source(const ten_agent_config *config, void **ret_self, ten_source_feed **ret_feed, ten_error *error) {
    target_path *source = NULL;
    int r = make(config, &source, error);
    if (r < 0)
        return r;
    r = ten_side_thread_start(&source->thread, config->targets, run, free_source, error);
    if (r < 0) {
        free_source(&source->thread);
        return r;
    }
    (void)ten_wait_readable(source->first_fd, -1, START_MS);
    pthread_mutex_lock(&source->thread.lock);
    r = source->first;
    if (r < 0 && error)
        *error = source->error;
    pthread_mutex_unlock(&source->thread.lock);
    if (r < 0) {
        close_source(source);
        return r;
    }
    *ret_self = source;
    *ret_feed = &source->feed;
    return TENURE_OK;
}

static void reread(void *self) {
    target_path *source = self;
    ten_side_thread_wake(&source->thread);
}

const ten_source_ops ten_target_path_ops = {
    .check = check, .open = open_source, .close = close_source, .reread = reread};
