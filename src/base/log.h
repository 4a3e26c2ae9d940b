/*
 * The log: a line an event, as logfmt text or as JSON with the same keys, or in words for people. Writing never waits
 * for the reader: lines go into a bounded ring, and a thread of their own carries them out. When the ring is full they
 * are dropped and counted (event `log_dropped`); when the descriptor is closed at the other end they are dropped for
 * good. So a full pipe or a dead terminal never stops lease work. The library itself does not log; the program's
 * commands do.
 */
#ifndef TEN_BASE_LOG_H
#define TEN_BASE_LOG_H

#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

enum ten_log_level { TEN_LOG_ERROR, TEN_LOG_WARN, TEN_LOG_INFO, TEN_LOG_DEBUG };
enum ten_log_format { TEN_LOG_TEXT, TEN_LOG_JSON, TEN_LOG_HUMAN };

typedef struct ten_field {
    const char *key;
    const char *text; /* NULL: the number counts */
    uint64_t number;
} ten_field;

#define TEN_TEXT(field_key, value)   ((ten_field){.key = (field_key), .text = (value)})
#define TEN_NUMBER(field_key, value) ((ten_field){.key = (field_key), .number = (value)})

typedef struct ten_log ten_log;

typedef struct ten_log_config {
    int fd; /* not closed by the log */
    enum ten_log_format format;
    enum ten_log_level level; /* what is less important is left out */
    const ten_clock *clock;
    const char *instance;       /* put into each line; copied; NULL: none */
    const char *namespace_name; /* the same */
    size_t ring_size;           /* 0: 256 KiB */
} ten_log_config;

int ten_log_open(const ten_log_config *config, ten_log **ret_log, ten_error *error);
/* Waits up to flush_ms for what is still in the ring, then closes. */
void ten_log_close(ten_log *log, uint64_t flush_ms);

/* One line. Does nothing with a NULL log. Safe from any thread; never waits for the descriptor. */
void ten_log_event(ten_log *log, enum ten_log_level level, const char *event, const ten_field *fields, size_t count);

#define TEN_LOG(log, level, event, ...)                                                                                \
    ten_log_event(log, level, event, (const ten_field[]){__VA_ARGS__},                                                 \
                  sizeof((const ten_field[]){__VA_ARGS__}) / sizeof(ten_field))

#endif
