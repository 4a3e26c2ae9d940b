/*
 * Memory that is freed all at once: what a call hands out stays valid until the next call. A reset keeps the
 * memory, so that a steady load allocates nothing.
 */
#ifndef TEN_BASE_ARENA_H
#define TEN_BASE_ARENA_H

#include <stddef.h>

typedef struct ten_arena {
    struct ten_arena_block *newest;
} ten_arena;

void ten_arena_reset(ten_arena *arena);
void ten_arena_free(ten_arena *arena);
/* A copy of the text, or NULL when out of memory. */
const char *ten_arena_text(ten_arena *arena, const char *text);

#endif
