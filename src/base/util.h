/*
 * Small things that every layer uses: array length, minimum, maximum, cleanup attributes and the invariant check.
 * No functions with state live here.
 */
#ifndef TEN_BASE_UTIL_H
#define TEN_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEN_COUNT(array)               (sizeof(array) / sizeof((array)[0]))
#define TEN_CLEANUP(fn)                __attribute__((cleanup(fn)))
#define TEN_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

/* A broken invariant is an abort, in release builds too: going on could make two holders. */
#define TEN_INVARIANT(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition);                          \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Takes an item out of a list that is linked by that member; one that is not in it is ignored. */
#define TEN_UNLINK(first, item, next)                                                                                  \
    do {                                                                                                               \
        __typeof__(first) *at_ = &(first);                                                                             \
        while (*at_ && *at_ != (item))                                                                                 \
            at_ = &(*at_)->next;                                                                                       \
        if (*at_)                                                                                                      \
            *at_ = (*at_)->next;                                                                                       \
    } while (0)

/* Where the item with that number is among `count` items of `size` bytes, or would be inserted. The number is the first
 * member of each, and they are in its order. */
static inline uint32_t ten_place_of(const void *items, uint32_t count, size_t size, uint32_t number) {
    uint32_t low = 0;
    while (low < count) {
        uint32_t middle = low + (count - low) / 2;
        uint32_t found;
        memcpy(&found, (const char *)items + middle * size, sizeof found);
        if (found < number)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* For qsort() and bsearch(): of int, and of numbers of processes. */
static inline int ten_compare_ints(const void *a, const void *b) {
    int first = *(const int *)a;
    int second = *(const int *)b;
    return (first > second) - (first < second);
}

static inline uint64_t ten_min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t ten_max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* a - b, or 0 where that would be negative: times that have passed have nothing left. */
static inline uint64_t ten_sub_saturating(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* a + b, or the largest number where that would wrap: "without end" plus something is still without end. */
static inline uint64_t ten_add_saturating(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/* What fits of it, ended: for what is copied with every request, where snprintf() takes ten times as long. */
static inline void ten_copy_text(char *field, size_t size, const char *text) {
    size_t length = strnlen(text, size - 1);
    memcpy(field, text, length);
    field[length] = '\0';
}

#endif
