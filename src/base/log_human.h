/*
 * A line of the log for people at a terminal: local time, the instance in short, what it is about, what happened in
 * words, then the details. Scripts read the other formats; this one may change. Called by log.c.
 */
#ifndef TEN_BASE_LOG_HUMAN_H
#define TEN_BASE_LOG_HUMAN_H

#include "base/buf.h"
#include "base/log.h"

/* Adds the line, without its end. `instance` may be NULL. */
void ten_log_human(ten_buf *line, uint64_t wall_ms, const char *instance, enum ten_log_level level, const char *event,
                   const ten_field *fields, size_t count);

#endif
