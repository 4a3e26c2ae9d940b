/*
 * JSON as Tenure itself writes it, recognised without parsing: members in a fixed order, no spaces, no escapes. A batch
 * of a thousand operations is read ten times as fast as by jansson. Anything else is left to jansson, which reads the
 * whole text instead; so what is accepted here must mean the same there.
 */
#ifndef TEN_BASE_PLAIN_H
#define TEN_BASE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ten_plain {
    const char *at;
    const char *end;
} ten_plain;

#define TEN_PLAIN_DIGITS 15u /* at most: any such number is exact in JSON and fits */

/* Whether these bytes come next; then they are passed over. */
static inline bool ten_plain_is(ten_plain *plain, const char *bytes, size_t size) {
    if ((size_t)(plain->end - plain->at) < size || memcmp(plain->at, bytes, size) != 0)
        return false;
    plain->at += size;
    return true;
}
#define TEN_PLAIN_IS(plain, literal) ten_plain_is(plain, "" literal, sizeof(literal) - 1)

/* A text whose opening quote was passed over: printable ASCII without escapes; its closing quote is passed over,
 * too. */
static inline bool ten_plain_text(ten_plain *plain, const char **ret_text, size_t *ret_size) {
    const char *at = plain->at;
    while (at < plain->end && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
        at++;
    if (at == plain->end || *at != '"')
        return false;
    *ret_text = plain->at;
    *ret_size = (size_t)(at - plain->at);
    plain->at = at + 1;
    return true;
}

static inline bool ten_plain_number(ten_plain *plain, uint64_t *ret_number) {
    const char *start = plain->at;
    const char *at = start;
    uint64_t number = 0;
    for (; at < plain->end && *at >= '0' && *at <= '9' && at - start <= (ptrdiff_t)TEN_PLAIN_DIGITS; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    size_t digits = (size_t)(at - start);
    /* What follows it would be seen by the next look: a fraction or an exponent is no comma and no brace. */
    if (digits == 0 || digits > TEN_PLAIN_DIGITS || (digits > 1 && *start == '0'))
        return false;
    plain->at = at;
    *ret_number = number;
    return true;
}

/* Its copy with a NUL, if that fits. */
static inline bool ten_plain_copy(char *copy, size_t room, const char *text, size_t size) {
    if (size >= room)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return true;
}

#endif
