/*
 * UTF-8: is a piece of foreign text well-formed, and how long is the sequence at its start?
 */
#ifndef TEN_BASE_UTF8_H
#define TEN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed sequence at `text` (1 to 4), or 0 when there is none in the `size` bytes. */
size_t ten_utf8_step(const char *text, size_t size);

/* Well-formed throughout, and no control character (C0, DEL, C1). */
bool ten_utf8_is_printable(const char *text, size_t size);

#endif
