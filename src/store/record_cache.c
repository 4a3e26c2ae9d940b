/*
 * Records that a handle knows. See record_cache.h.
 */
#include "store/record_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "tenure.h"

#define KEY_SIZE (TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 4u)

static void free_known(ten_map *map) {
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(map, &at));) {
        ten_known *known = found->value;
        ten_free(known->texts);
        ten_free(known);
    }
    ten_map_free(map);
    *map = (ten_map){0};
}

void ten_record_cache_begin(ten_record_cache *cache) {
    cache->call++;
    if (cache->generation == 0)
        cache->generation = 1;
    if (cache->recent.count <= cache->room)
        return;
    free_known(&cache->older);
    cache->older = cache->recent;
    cache->recent = (ten_map){0};
}

void ten_record_cache_free(ten_record_cache *cache) {
    free_known(&cache->older);
    free_known(&cache->recent);
}

/* Kind, namespace and id; a namespace has no slash. */
static void make_key(char key[KEY_SIZE], const char *namespace_name, enum ten_kind kind, const char *id) {
    size_t size = strnlen(namespace_name, TENURE_NAMESPACE_MAX);
    size_t id_size = strnlen(id, TENURE_HOLDER_MAX);
    key[0] = (char)('a' + (int)kind);
    memcpy(key + 1, namespace_name, size);
    key[size + 1] = '/';
    memcpy(key + size + 2, id, id_size);
    key[size + 2 + id_size] = '\0';
}

static ten_known *make(ten_record_cache *cache, const char *key, enum ten_kind kind) {
    ten_known *known = ten_calloc(1, sizeof *known);
    if (!known || !ten_map_put(&cache->recent, key, known)) {
        ten_free(known);
        return NULL;
    }
    known->record.key.kind = kind;
    return known;
}

ten_known *ten_record_cache_get(ten_record_cache *cache, const char *namespace_name, enum ten_kind kind,
                                const char *id) {
    char key[KEY_SIZE];
    make_key(key, namespace_name, kind, id);
    ten_known *known = ten_map_get(&cache->recent, key);
    if (known)
        return known;
    known = ten_map_remove(&cache->older, key);
    if (known && !ten_map_put(&cache->recent, key, known)) {
        ten_free(known->texts);
        ten_free(known);
        return NULL;
    }
    if (!known)
        known = make(cache, key, kind);
    if (known) /* the map has a copy of the key */
        known->record.key.id = strchr(ten_map_key(&cache->recent, key), '/') + 1;
    return known;
}

bool ten_record_cache_set(ten_record_cache *cache, ten_known *known, const ten_record *record) {
    const char *value = record->version ? record->value : "";
    const char *name = record->version || record->foreign ? record->name : "";
    size_t value_size = strlen(value) + 1;
    size_t name_size = strlen(name) + 1;
    ten_key key = known->record.key;
    if (value_size + name_size > known->room) {
        char *texts = ten_malloc(value_size + name_size);
        if (!texts) {
            ten_record_cache_forget(known);
            return false;
        }
        memcpy(texts, value, value_size);
        memcpy(texts + value_size, name, name_size);
        ten_free(known->texts);
        known->texts = texts;
        known->room = value_size + name_size;
    } else if (value != known->texts || name != known->texts + value_size) {
        char kept[TENURE_HOLDER_MAX + 1]; /* the name may lie where the value goes */
        ten_copy_text(kept, sizeof kept, name);
        memmove(known->texts, value, value_size);
        memcpy(known->texts + value_size, kept, strlen(kept) + 1);
    }
    known->record = *record;
    known->record.key = key;
    known->record.value = known->texts;
    known->record.name = known->texts + value_size;
    known->known_in = cache->generation;
    known->fresh_in = cache->call;
    known->seen = 0;
    known->wanted = false;
    return true;
}

void ten_record_cache_forget(ten_known *known) {
    known->known_in = 0;
    known->touched_in = 0;
}

void ten_record_cache_forget_all(ten_record_cache *cache) {
    cache->generation++;
}
