/*
 * Memory with a countdown to one failing call. Called by every layer; the countdown is set by tests only.
 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static atomic_long countdown = -1;
static atomic_int failed = 0;

void ten_alloc_fail_after(long skip) {
    atomic_store(&failed, 0);
    atomic_store(&countdown, skip);
}

int ten_alloc_has_failed(void) {
    return atomic_load(&failed);
}

static int this_one_fails(void) {
    if (atomic_load_explicit(&countdown, memory_order_relaxed) < 0)
        return 0;
    if (atomic_fetch_sub(&countdown, 1) != 0)
        return 0;
    atomic_store(&failed, 1);
    return 1;
}

void *ten_malloc(size_t size) {
    return this_one_fails() ? NULL : malloc(size);
}

void *ten_calloc(size_t count, size_t size) {
    return this_one_fails() ? NULL : calloc(count, size);
}

void *ten_realloc(void *memory, size_t size) {
    return this_one_fails() ? NULL : realloc(memory, size);
}

char *ten_strdup(const char *text) {
    return this_one_fails() ? NULL : strdup(text);
}

void ten_free(void *memory) {
    free(memory);
}

bool ten_grow(void *array, uint32_t *room, uint32_t needed, size_t size) {
    if (needed <= *room)
        return true;
    TEN_INVARIANT(needed <= UINT32_MAX / 2); /* or the doubling would never get there */
    uint32_t larger = *room ? *room : 16;
    while (larger < needed)
        larger *= 2;
    void **memory = array;
    void *grown = ten_realloc(*memory, larger * size);
    if (!grown)
        return false;
    *memory = grown;
    *room = larger;
    return true;
}

void ten_free_string(char **text) {
    ten_free(*text);
    *text = NULL;
}
