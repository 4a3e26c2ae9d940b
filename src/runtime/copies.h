/*
 * Copies of what a store lists, so that the program's function can be called without the turn, and may use the context.
 */
#ifndef TEN_RUNTIME_COPIES_H
#define TEN_RUNTIME_COPIES_H

#include "rules/op.h"

/* Items of one size, and the texts that they point to. */
typedef struct ten_copies {
    char *items;
    uint32_t count;
    uint32_t room;
    struct ten_copied_text *texts;
} ten_copies;

/* Adds a copy of the item. NULL: out of memory. */
void *ten_copies_add(ten_copies *copies, const void *item, size_t size);
/* Replaces the text by a copy of it; NULL stays NULL. False: out of memory. */
bool ten_copies_keep(ten_copies *copies, const char **text);
static inline const void *ten_copies_at(const ten_copies *copies, size_t number, size_t size) {
    return copies->items + number * size;
}
/* Forgets all, also the memory. */
void ten_copies_free(ten_copies *copies);

#endif
