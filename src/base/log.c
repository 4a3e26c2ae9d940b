/*
 * The log: lines are made by the caller, kept in a ring, and written by a thread that may block as long as it likes.
 * Called by the program's commands.
 */
#include "base/log.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log_human.h"
#include "base/utf8.h"
#include "base/writer.h"

struct ten_log {
    ten_log_config config;
    char *instance;
    char *namespace_name;
    ten_writer *writer;
    pthread_mutex_t lock; /* around what follows */
    uint64_t dropped;     /* lines since the last log_dropped */
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
    if (format == TEN_LOG_HUMAN) {
        ten_log_human(line, ten_wall_ms(log->config.clock), log->instance, level, event, fields, count);
        ten_buf_char(line, '\n');
        return;
    }
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

/* ---- telling */

static bool put(ten_log *log, const ten_buf *line) {
    return !line->failed && ten_writer_put(log->writer, line->data, line->size);
}

static void report_dropped(ten_log *log) {
    ten_buf line = {0};
    ten_field field = TEN_NUMBER("count", log->dropped);
    make_line(log, TEN_LOG_WARN, "log_dropped", &field, 1, &line);
    if (put(log, &line))
        log->dropped = 0;
    ten_buf_free(&line);
}

void ten_log_event(ten_log *log, enum ten_log_level level, const char *event, const ten_field *fields, size_t count) {
    if (!log || level > log->config.level)
        return;
    ten_buf line = {0};
    make_line(log, level, event, fields, count, &line);
    pthread_mutex_lock(&log->lock);
    if (log->dropped > 0)
        report_dropped(log);
    if (log->dropped > 0 || !put(log, &line))
        log->dropped++;
    pthread_mutex_unlock(&log->lock);
    ten_buf_free(&line);
}

/* ---- the handle */

static void free_log(ten_log *log) {
    pthread_mutex_destroy(&log->lock);
    ten_free(log->instance);
    ten_free(log->namespace_name);
    ten_free(log);
}

static bool copy_texts(ten_log *log) {
    const ten_log_config *config = &log->config;
    log->instance = config->instance ? ten_strdup(config->instance) : NULL;
    log->namespace_name = config->namespace_name ? ten_strdup(config->namespace_name) : NULL;
    return !log->instance == !config->instance && !log->namespace_name == !config->namespace_name;
}

int ten_log_open(const ten_log_config *config, ten_log **ret_log, ten_error *error) {
    ten_log *log = ten_calloc(1, sizeof *log);
    if (!log)
        return ten_fail_memory(error, "the log");
    log->config = *config;
    pthread_mutex_init(&log->lock, NULL);
    int r = copy_texts(log) ? ten_writer_open(config->fd, config->ring_size, &log->writer, error)
                            : ten_fail_memory(error, "the log");
    if (r < 0) {
        free_log(log);
        return r;
    }
    *ret_log = log;
    return TENURE_OK;
}

void ten_log_close(ten_log *log, uint64_t flush_ms) {
    if (!log)
        return;
    uint64_t end_us = ten_boot_us() + flush_ms * 1000u;
    if (log->dropped > 0) {
        ten_writer_flush(log->writer, flush_ms); /* the report needs room in the ring */
        report_dropped(log);
    }
    ten_writer_close(log->writer, ten_sub_saturating(end_us, ten_boot_us()) / 1000u);
    free_log(log);
}
