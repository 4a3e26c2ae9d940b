/*
 * JSON out: one writer with one escaping function. (JSON in is jansson's business.) It writes flat objects; nested text
 * that is JSON already can be put in as it is.
 */
#ifndef TEN_BASE_JSON_H
#define TEN_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A quoted JSON string. Control characters are escaped; bytes that are not UTF-8 become U+FFFD. */
void ten_json_string(ten_buf *buf, const char *text);

void ten_json_open(ten_buf *buf);  /* { */
void ten_json_close(ten_buf *buf); /* } */
/* Members; each puts its own comma. A NULL text is null. */
void ten_json_text(ten_buf *buf, const char *key, const char *text);
void ten_json_number(ten_buf *buf, const char *key, uint64_t number);
void ten_json_bool(ten_buf *buf, const char *key, bool value);
void ten_json_raw(ten_buf *buf, const char *key, const char *json);
/* These write nothing for "", 0 and false. */
void ten_json_some_text(ten_buf *buf, const char *key, const char *text);
void ten_json_some(ten_buf *buf, const char *key, uint64_t number);
void ten_json_flag(ten_buf *buf, const char *key, bool value);
/* Begins an object in an array, which has one a line; `before`: how many it has already. */
void ten_json_item(ten_buf *buf, size_t before);
/* RFC 3339, or null for 0. */
void ten_json_time(ten_buf *buf, const char *key, uint64_t wall_ms);

#endif
