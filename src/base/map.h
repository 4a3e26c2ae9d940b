/*
 * A hash map from text to a pointer. The map owns copies of its keys, not what the values point to. Keys come from
 * clients, so they are hashed with the process's secret (hash.h).
 */
#ifndef TEN_BASE_MAP_H
#define TEN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

typedef struct ten_map_entry {
    char *key; /* NULL: an empty place */
    uint64_t hash;
    void *value;
} ten_map_entry;

typedef struct ten_map {
    ten_map_entry *entries;
    size_t room; /* a power of two, or 0 */
    size_t count;
    ten_hash_key key;
} ten_map;

void ten_map_free(ten_map *map);
void *ten_map_get(const ten_map *map, const char *key);
/* The map's own copy of the key, which lives until the entry is removed; NULL when it is not there. */
const char *ten_map_key(const ten_map *map, const char *key);
/* Puts or replaces. False: out of memory, and nothing changed. */
bool ten_map_put(ten_map *map, const char *key, void *value);
/* Takes the entry out and returns its value; NULL when there was none. */
void *ten_map_remove(ten_map *map, const char *key);
/* The next entry from *at on, in no order; NULL at the end. Start with *at = 0; change nothing meanwhile, but
 * for removing the entry that was given: *at goes back by one then, because another one may have come to its place. */
const ten_map_entry *ten_map_next(const ten_map *map, size_t *at);

#endif
