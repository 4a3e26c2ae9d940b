/*
 * Names: cut from blocks, in steps of 8 bytes. Called by the plan for the ids of targets.
 */
#include "base/names.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

#define BLOCK_SIZE ((size_t)16 * 1024)

struct ten_names_block {
    struct ten_names_block *next;
    char bytes[BLOCK_SIZE - sizeof(void *)];
};

static size_t class_of(const char *text) {
    size_t class = strlen(text) / TEN_NAME_STEP; /* its size, with the end, is at most (class + 1) steps */
    TEN_INVARIANT(class < TEN_NAME_CLASSES);
    return class;
}

/* The addresses are at the beginning of a place, which is aligned for that. */
static char *next_of(const char *place) {
    char *next;
    memcpy(&next, place, sizeof next);
    return next;
}

static char *cut(ten_names *names, size_t size) {
    if (names->left < size) {
        struct ten_names_block *block = ten_malloc(sizeof *block);
        if (!block)
            return NULL;
        block->next = names->blocks;
        names->blocks = block;
        names->left = sizeof block->bytes;
    }
    char *place = names->blocks->bytes + (sizeof names->blocks->bytes - names->left);
    names->left -= size;
    return place;
}

char *ten_names_add(ten_names *names, const char *text) {
    size_t class = class_of(text);
    char *place = names->free[class];
    if (place)
        names->free[class] = next_of(place);
    else
        place = cut(names, (class + 1) * TEN_NAME_STEP);
    if (place)
        memcpy(place, text, strlen(text) + 1);
    return place;
}

void ten_names_remove(ten_names *names, char *name) {
    size_t class = class_of(name);
    memcpy(name, &names->free[class], sizeof names->free[class]);
    names->free[class] = name;
}

void ten_names_free(ten_names *names) {
    while (names->blocks) {
        struct ten_names_block *block = names->blocks;
        names->blocks = block->next;
        ten_free(block);
    }
    *names = (ten_names){0};
}
