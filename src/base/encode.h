/*
 * Bytes as text and back: percent-coding, base64, decimal digits. Pure; called by code that writes or reads URLs and
 * wire formats.
 */
#ifndef TEN_BASE_ENCODE_H
#define TEN_BASE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Percent-coding. The first writes all but letters, digits, -._~ and what is in `also_plain` as %XX; the second only
 * what is in `reserved`, for texts whose other bytes are known to be harmless. */
void ten_percent_encode(ten_buf *out, const char *text, const char *also_plain);
void ten_percent_encode_only(ten_buf *out, const char *text, const char *reserved);
/* The byte that %XX stands for; -1: these are not two hexadecimal digits after a %. */
int ten_percent_byte(const char *text);
/* Decodes %XX (and, in a query, + as a blank) in place. False: it is malformed, or holds a NUL. */
bool ten_percent_decode(char *text, bool in_query);

/* Base64 of RFC 4648, with padding. Decoding clears `out` first; false: it is not base64, or out of memory. */
void ten_base64_encode(ten_buf *out, const char *data, size_t size);
bool ten_base64_decode(ten_buf *out, const char *text);

#define TEN_DIGITS_SIZE 24u
/* Writes the number's digits so that they end right before `end`, and returns where they start. For hot paths, where
 * snprintf() costs more than the rest. */
char *ten_digits_before(char *end, uint64_t number);
/* The same with a NUL behind them; the text is somewhere inside of the buffer. */
const char *ten_digits(char text[TEN_DIGITS_SIZE], uint64_t number);
/* The number that the text is, digits alone. False: it is none, or greater than `most`. NULL is none. */
bool ten_digits_parse(const char *text, uint64_t most, uint64_t *ret_number);

#endif
