/*
 * Namespaces in byte order, each once, collected from keys that come in another order. For backends whose server has no
 * list of them.
 */
#ifndef TEN_STORE_NAME_LIST_H
#define TEN_STORE_NAME_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure.h"

typedef struct ten_name_list {
    char (*names)[TENURE_NAMESPACE_MAX + 1];
    size_t count;
    uint32_t room;
} ten_name_list;

/* False: out of memory. */
bool ten_name_list_add(ten_name_list *list, const char *name);
/* Calls `each` for all of them until it returns non-zero, which is returned, and frees the list. */
int ten_name_list_end(ten_name_list *list, tenure_name_fn each, void *userdata);

#endif
