/*
 * The log: lines are made by the caller, kept in a ring, and written by a thread that may block as long as it likes.
 * Called by the program's commands.
 */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/utf8.h"

#define RING_SIZE_DEFAULT ((size_t)256 * 1024)
#define CHUNK_SIZE        4096u

struct ten_log {
    ten_log_config config;
    char *instance;
    char *namespace_name;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* something to write, or stopping */
    pthread_cond_t emptied; /* nothing left, or the descriptor is dead */
    char *ring;
    size_t start;
    size_t used;
    uint64_t dropped; /* lines since the last log_dropped */
    bool writing;     /* the writer is inside write() with a chunk that is no longer in the ring */
    bool dead;        /* the descriptor failed */
    bool stopping;
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* ---- making a line */

static bool plain_in_logfmt(const char *text) {
    size_t size = strlen(text);
    return size > 0 && ten_utf8_is_printable(text, size) && strcspn(text, " =\"\\") == size;
}

static void add_text(ten_buf *line, enum ten_log_format format, const char *key, const char *text) {
    if (format == TEN_LOG_JSON) {
        ten_json_text(line, key, text);
        return;
    }
    if (line->size > 0)
        ten_buf_char(line, ' ');
    ten_buf_format(line, "%s=", key);
    if (plain_in_logfmt(text))
        ten_buf_text(line, text);
    else
        ten_json_string(line, text);
}

static void add_field(ten_buf *line, enum ten_log_format format, const ten_field *field) {
    if (field->text)
        add_text(line, format, field->key, field->text);
    else if (format == TEN_LOG_JSON)
        ten_json_number(line, field->key, field->number);
    else
        ten_buf_format(line, " %s=%llu", field->key, (unsigned long long)field->number);
}

static void make_line(const ten_log *log, enum ten_log_level level, const char *event, const ten_field *fields,
                      size_t count, ten_buf *line) {
    enum ten_log_format format = log->config.format;
    char now[TEN_RFC3339_SIZE];
    ten_rfc3339(ten_wall_ms(log->config.clock), now);
    if (format == TEN_LOG_JSON)
        ten_json_open(line);
    add_text(line, format, "ts", now);
    add_text(line, format, "level", level_names[level]);
    add_text(line, format, "event", event);
    if (log->instance)
        add_text(line, format, "instance", log->instance);
    if (log->namespace_name)
        add_text(line, format, "namespace", log->namespace_name);
    for (size_t i = 0; i < count; i++)
        add_field(line, format, &fields[i]);
    if (format == TEN_LOG_JSON)
        ten_json_close(line);
    ten_buf_char(line, '\n');
}

/* ---- the ring; the lock is held */

static bool ring_put(ten_log *log, const ten_buf *line) {
    if (line->failed || line->size > log->config.ring_size - log->used)
        return false;
    size_t end = (log->start + log->used) % log->config.ring_size;
    size_t first = ten_min_u64(line->size, log->config.ring_size - end);
    memcpy(log->ring + end, line->data, first);
    memcpy(log->ring, line->data + first, line->size - first);
    log->used += line->size;
    return true;
}

static size_t ring_take(ten_log *log, char *chunk) {
    size_t count = ten_min_u64(log->used, CHUNK_SIZE);
    size_t first = ten_min_u64(count, log->config.ring_size - log->start);
    memcpy(chunk, log->ring + log->start, first);
    memcpy(chunk + first, log->ring, count - first);
    log->start = (log->start + count) % log->config.ring_size;
    log->used -= count;
    return count;
}

static void report_dropped(ten_log *log) {
    ten_buf line = {0};
    ten_field field = TEN_NUMBER("count", log->dropped);
    make_line(log, TEN_LOG_WARN, "log_dropped", &field, 1, &line);
    if (ring_put(log, &line))
        log->dropped = 0;
    ten_buf_free(&line);
}

void ten_log_event(ten_log *log, enum ten_log_level level, const char *event, const ten_field *fields, size_t count) {
    if (!log || level > log->config.level)
        return;
    ten_buf line = {0};
    make_line(log, level, event, fields, count, &line);
    pthread_mutex_lock(&log->lock);
    if (!log->dead) {
        if (log->dropped > 0)
            report_dropped(log);
        if (log->dropped > 0 || !ring_put(log, &line))
            log->dropped++;
        pthread_cond_signal(&log->filled);
    }
    pthread_mutex_unlock(&log->lock);
    ten_buf_free(&line);
}

/* ---- the writer */

/* Somebody else may have made the descriptor non-blocking: it is shared with whoever started us. */
static int write_out(int fd, const char *chunk, size_t size) {
    while (size > 0) {
        ssize_t count = write(fd, chunk, size);
        if (count >= 0) {
            chunk += count;
            size -= (size_t)count;
        } else if (errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            (void)poll(&writable, 1, 1000);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

static void *write_lines(void *arg) {
    ten_log *log = arg;
    char chunk[CHUNK_SIZE];
    pthread_mutex_lock(&log->lock);
    for (;;) {
        while (log->used == 0 && !log->stopping)
            pthread_cond_wait(&log->filled, &log->lock);
        if (log->used == 0 || log->dead)
            break;
        size_t count = ring_take(log, chunk);
        log->writing = true;
        pthread_mutex_unlock(&log->lock);
        int done = write_out(log->config.fd, chunk, count);
        pthread_mutex_lock(&log->lock);
        log->writing = false;
        if (done < 0)
            log->dead = true;
        if (log->dead || log->used == 0)
            pthread_cond_broadcast(&log->emptied);
        if (log->dead)
            break;
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

/* All signals are blocked in the writer: they are the program's, and a closed pipe must be EPIPE, not SIGPIPE. */
static int start_writer(ten_log *log) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&log->writer, NULL, write_lines, log);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void free_log(ten_log *log) {
    ten_free(log->instance);
    ten_free(log->namespace_name);
    ten_free(log->ring);
    ten_free(log);
}

static bool copy_texts(ten_log *log) {
    const ten_log_config *config = &log->config;
    log->instance = config->instance ? ten_strdup(config->instance) : NULL;
    log->namespace_name = config->namespace_name ? ten_strdup(config->namespace_name) : NULL;
    log->ring = ten_malloc(config->ring_size);
    return log->ring && !log->instance == !config->instance && !log->namespace_name == !config->namespace_name;
}

int ten_log_open(const ten_log_config *config, ten_log **ret_log, ten_error *error) {
    ten_log *log = ten_calloc(1, sizeof *log);
    if (!log)
        return ten_fail(error, TENURE_E_NOMEM, "out of memory while opening the log");
    log->config = *config;
    if (log->config.ring_size == 0)
        log->config.ring_size = RING_SIZE_DEFAULT;
    if (!copy_texts(log)) {
        free_log(log);
        return ten_fail(error, TENURE_E_NOMEM, "out of memory while opening the log");
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->filled, &monotonic);
    pthread_cond_init(&log->emptied, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = start_writer(log);
    if (failed) {
        free_log(log);
        return ten_fail_errno(error, TENURE_E_SYSTEM, failed, "cannot start the log's thread");
    }
    *ret_log = log;
    return TENURE_OK;
}

void ten_log_close(ten_log *log, uint64_t flush_ms) {
    if (!log)
        return;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(flush_ms / 1000u);
    end.tv_nsec += (long)(flush_ms % 1000u) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&log->lock);
    if (log->dropped > 0 && !log->dead)
        report_dropped(log);
    log->stopping = true;
    pthread_cond_signal(&log->filled);
    int waited = 0;
    while (!log->dead && (log->used > 0 || log->writing) && waited == 0)
        waited = pthread_cond_timedwait(&log->emptied, &log->lock, &end);
    bool stuck = !log->dead && (log->used > 0 || log->writing);
    pthread_mutex_unlock(&log->lock);
    if (stuck) {
        /* The writer sits in write() and will look at the log again if that ever returns: leave it its memory. */
        pthread_detach(log->writer);
        return;
    }
    pthread_join(log->writer, NULL);
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->filled);
    pthread_cond_destroy(&log->emptied);
    free_log(log);
}
