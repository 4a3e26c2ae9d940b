/*
 * UTF-8: is a piece of foreign text well-formed, and how long is the sequence at its start?
 */
#ifndef TEN_BASE_UTF8_H
#define TEN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the well-formed sequence at `text` (1 to 4), or 0 when there is none in the `size` bytes. */
size_t ten_utf8_step(const char *text, size_t size);

/* Whether there is a NUL in the bytes. jansson passes over one that follows a number or a literal: who keeps or hands
 * on the text itself looks before. */
static inline bool ten_text_has_nul(const char *text, size_t size) {
    return size > 0 && memchr(text, '\0', size) != NULL;
}

/* Well-formed throughout, and no NUL: what JSON, an environment variable and every store can carry. */
bool ten_utf8_is_text(const char *text, size_t size);

/* The code point of a well-formed sequence that must not reach a terminal or a page as it is; 0: it may. These are
 * control characters (C0, DEL, and C1, whose U+009B begins an escape sequence), and the bidirectional embeddings,
 * overrides and isolates, which make a name read as another one. */
uint32_t ten_utf8_hidden(const char *text, size_t step);

/* Well-formed throughout, and none of those. */
bool ten_utf8_is_printable(const char *text, size_t size);

/* How many bytes of the text are at most `most`, without a part of a character at the end. */
size_t ten_utf8_cut(const char *text, size_t most);

#endif
