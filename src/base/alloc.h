/*
 * Memory: the only allocator calls of the library. They exist so that a test can fail the Nth one, then the N+1st,
 * until a run is clean; otherwise they are malloc and friends.
 */
#ifndef TEN_BASE_ALLOC_H
#define TEN_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *ten_malloc(size_t size);
void *ten_calloc(size_t count, size_t size);
void *ten_realloc(void *memory, size_t size);
char *ten_strdup(const char *text);
void ten_free(void *memory);

/* Room for `needed` elements of that size in an array, whose address is given; doubles it. False: out of memory. */
bool ten_grow(void *array, uint32_t *room, uint32_t needed, size_t size);
#define TEN_GROW(array, room, needed) ten_grow(&(array), &(room), (needed), sizeof *(array))

/* For TEN_CLEANUP on a `char *`. */
void ten_free_string(char **text);

/* Tests: the call after `skip` more successful ones fails, once. A negative number: none fails. */
void ten_alloc_fail_after(long skip);
/* Tests: whether the call that was to fail has come. */
int ten_alloc_has_failed(void);

#endif
