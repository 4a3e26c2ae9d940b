/*
 * A hash map from text to a pointer: open addressing with linear probing, and removal by shifting back. Called by
 * code that keeps something by its id.
 */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

void ten_map_free(ten_map *map) {
    for (size_t i = 0; i < map->room; i++)
        ten_free(map->entries[i].key);
    ten_free(map->entries);
    *map = (ten_map){0};
}

static size_t find(const ten_map *map, const char *key, uint64_t hash) {
    size_t at = (size_t)hash & (map->room - 1);
    while (map->entries[at].key && (map->entries[at].hash != hash || strcmp(map->entries[at].key, key) != 0))
        at = (at + 1) & (map->room - 1);
    return at;
}

void *ten_map_get(const ten_map *map, const char *key) {
    if (map->count == 0)
        return NULL;
    const ten_map_entry *entry = &map->entries[find(map, key, ten_hash_keyed(key, map->key))];
    return entry->key ? entry->value : NULL;
}

const char *ten_map_key(const ten_map *map, const char *key) {
    return map->count ? map->entries[find(map, key, ten_hash_keyed(key, map->key))].key : NULL;
}

static bool grow(ten_map *map) {
    if (map->room == 0)
        map->key = ten_hash_key_now();
    ten_map larger = {.room = map->room ? map->room * 2 : 16, .key = map->key};
    larger.entries = ten_calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < map->room; i++)
        if (map->entries[i].key)
            larger.entries[find(&larger, map->entries[i].key, map->entries[i].hash)] = map->entries[i];
    larger.count = map->count;
    ten_free(map->entries);
    *map = larger;
    return true;
}

bool ten_map_put(ten_map *map, const char *key, void *value) {
    if (map->count * 4 >= map->room * 3 && !grow(map))
        return false;
    uint64_t hash = ten_hash_keyed(key, map->key);
    ten_map_entry *entry = &map->entries[find(map, key, hash)];
    if (!entry->key) {
        char *copy = ten_strdup(key);
        if (!copy)
            return false;
        entry->key = copy;
        entry->hash = hash;
        map->count++;
    }
    entry->value = value;
    return true;
}

void *ten_map_remove(ten_map *map, const char *key) {
    if (map->count == 0)
        return NULL;
    size_t mask = map->room - 1;
    size_t hole = find(map, key, ten_hash_keyed(key, map->key));
    void *value = map->entries[hole].value;
    if (!map->entries[hole].key)
        return NULL;
    ten_free(map->entries[hole].key);
    map->count--;
    for (size_t at = (hole + 1) & mask; map->entries[at].key; at = (at + 1) & mask) {
        size_t home = (size_t)map->entries[at].hash & mask;
        /* An entry may fill the hole only if that does not put it before its home. */
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole] = (ten_map_entry){0};
    return value;
}

const ten_map_entry *ten_map_next(const ten_map *map, size_t *at) {
    while (*at < map->room) {
        const ten_map_entry *entry = &map->entries[(*at)++];
        if (entry->key)
            return entry;
    }
    return NULL;
}
