/*
 * A growing text buffer. Errors are remembered: append as often as needed, then look at `failed` once.
 */
#ifndef TEN_BASE_BUF_H
#define TEN_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

typedef struct ten_buf {
    char *data; /* NUL-terminated once something was appended */
    size_t size;
    size_t room;
    bool failed; /* an allocation failed; what was appended since then is missing */
} ten_buf;

void ten_buf_clear(ten_buf *buf); /* keeps the memory */
void ten_buf_free(ten_buf *buf);
void ten_buf_add(ten_buf *buf, const char *data, size_t size);
void ten_buf_text(ten_buf *buf, const char *text);
void ten_buf_char(ten_buf *buf, char c);
void ten_buf_format(ten_buf *buf, const char *format, ...) TEN_PRINTF(2, 3);
/* The text; "" when empty. */
const char *ten_buf_string(const ten_buf *buf);

#endif
