/*
 * Namespaces in byte order. See name_list.h.
 */
#include "store/common/name_list.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Where a name is, or would be. */
static size_t place_of(const ten_name_list *list, const char *name, bool *ret_found) {
    size_t low = 0;
    size_t high = list->count;
    *ret_found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(list->names[middle], name);
        *ret_found |= order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ten_name_list_add(ten_name_list *list, const char *name) {
    bool found;
    size_t place = place_of(list, name, &found);
    if (found)
        return true;
    if (!TEN_GROW(list->names, list->room, (uint32_t)list->count + 1))
        return false;
    memmove(list->names + place + 1, list->names + place, (list->count - place) * sizeof *list->names);
    snprintf(list->names[place], sizeof *list->names, "%s", name);
    list->count++;
    return true;
}

int ten_name_list_end(ten_name_list *list, tenure_name_fn each, void *userdata) {
    int stopped = 0;
    for (size_t i = 0; !stopped && i < list->count; i++)
        stopped = each(list->names[i], userdata);
    ten_free(list->names);
    *list = (ten_name_list){0};
    return stopped;
}
