/*
 * Memory that is freed all at once. Called by the backends for the strings in their results.
 */
#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

#define BLOCK_SIZE ((size_t)16 * 1024)

struct ten_arena_block {
    struct ten_arena_block *older;
    size_t used;
    size_t room;
    char data[];
};

void ten_arena_reset(ten_arena *arena) {
    if (!arena->newest)
        return;
    while (arena->newest->older) {
        struct ten_arena_block *older = arena->newest->older;
        arena->newest->older = older->older;
        ten_free(older);
    }
    arena->newest->used = 0;
}

void ten_arena_free(ten_arena *arena) {
    ten_arena_reset(arena);
    ten_free(arena->newest);
    arena->newest = NULL;
}

const char *ten_arena_text(ten_arena *arena, const char *text) {
    size_t size = strlen(text) + 1;
    struct ten_arena_block *block = arena->newest;
    if (!block || block->room - block->used < size) {
        /* Each block is twice the last, so the one that a reset keeps soon fits a whole call. */
        size_t room = ten_max_u64(size, block ? block->room * 2 : BLOCK_SIZE);
        block = ten_malloc(sizeof *block + room);
        if (!block)
            return NULL;
        *block = (struct ten_arena_block){.older = arena->newest, .room = room};
        arena->newest = block;
    }
    char *copy = block->data + block->used;
    memcpy(copy, text, size);
    block->used += size;
    return copy;
}
