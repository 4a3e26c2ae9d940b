/*
 * Copies of what a store lists. See copies.h.
 */
#include "runtime/copies.h"

#include <string.h>

#include "base/alloc.h"

struct ten_copied_text {
    struct ten_copied_text *next;
    char text[];
};

void *ten_copies_add(ten_copies *copies, const void *item, size_t size) {
    if (!ten_grow(&copies->items, &copies->room, copies->count + 1, size))
        return NULL;
    return memcpy(copies->items + copies->count++ * size, item, size);
}

bool ten_copies_keep(ten_copies *copies, const char **text) {
    if (!*text)
        return true;
    size_t size = strlen(*text) + 1;
    struct ten_copied_text *copy = ten_malloc(sizeof *copy + size);
    if (!copy)
        return false;
    memcpy(copy->text, *text, size);
    copy->next = copies->texts;
    copies->texts = copy;
    *text = copy->text;
    return true;
}

void ten_copies_free(ten_copies *copies) {
    while (copies->texts) {
        struct ten_copied_text *text = copies->texts;
        copies->texts = text->next;
        ten_free(text);
    }
    ten_free(copies->items);
    *copies = (ten_copies){0};
}
