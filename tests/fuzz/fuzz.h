/*
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(): it hands foreign bytes to one parser
 * and checks what must be true of whatever comes out. libFuzzer calls it (`./dev fuzz`), or replay.c with the committed
 * corpus (`./dev test`).
 */
#ifndef TEN_TESTS_FUZZ_H
#define TEN_TESTS_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that a target checks: broken is a crash, which libFuzzer keeps as an input. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The bytes as a text of its own size, so that a sanitizer sees who reads beyond it. It ends at a NUL, if there is one.
 */
static inline char *fuzz_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* Takes the first byte as a number below `below`; 0 when there is none. */
static inline unsigned fuzz_choice(const uint8_t **data, size_t *size, unsigned below) {
    if (*size == 0)
        return 0;
    unsigned chosen = **data % below;
    (*data)++;
    (*size)--;
    return chosen;
}

static inline bool fuzz_has_control(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return true;
    return false;
}

static inline bool fuzz_is_json(const char *text, size_t size) {
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
    json_t *value = json_loadb(text, size, flags, NULL);
    json_decref(value);
    return value != NULL;
}

#endif
