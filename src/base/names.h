/*
 * Names: copies of short texts that stay where they are until they are removed. A million of them with malloc() would
 * cost 8 to 24 bytes more each. A removed one leaves its place to another of about the same length.
 */
#ifndef TEN_BASE_NAMES_H
#define TEN_BASE_NAMES_H

#include <stddef.h>

#define TEN_NAME_STEP    8u
#define TEN_NAME_CLASSES 40u /* by length, in steps: up to 319 characters */

typedef struct ten_names {
    char *free[TEN_NAME_CLASSES]; /* removed ones, of each class: each begins with the address of the next */
    struct ten_names_block *blocks;
    size_t left; /* bytes of the first block that were never used */
} ten_names;

/* A copy; the text is shorter than TEN_NAME_STEP * TEN_NAME_CLASSES. NULL: out of memory. */
char *ten_names_add(ten_names *names, const char *text);
/* What ten_names_add() returned, unchanged. */
void ten_names_remove(ten_names *names, char *name);
/* All of them. */
void ten_names_free(ten_names *names);

#endif
