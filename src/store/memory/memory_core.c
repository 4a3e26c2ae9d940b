/*
 * What the memory backend keeps. Called by memory.c only.
 */
#include "store/memory/memory_core.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"

static pthread_mutex_t cores_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ten_memory_core *cores;

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void make_key(char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2], const char *namespace_name,
                     const char *id) {
    snprintf(key, TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2, "%s/%s", namespace_name, id);
}

static void free_entry(struct ten_memory_entry *entry) {
    ten_free(entry->namespace_name);
    ten_free(entry->id);
    ten_free(entry->url);
    ten_free(entry->exec);
    ten_free(entry->spec);
    ten_free(entry->pin);
    ten_free(entry->checkpoint);
    ten_free(entry);
}

static void free_member(struct ten_memory_instance *instance) {
    ten_free(instance->namespace_name);
    ten_free(instance->id);
    ten_free(instance->metadata);
    ten_free(instance);
}

struct ten_memory_entry *ten_memory_find(struct ten_memory_core *core, const char *namespace_name, const char *id) {
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    make_key(key, namespace_name, id);
    return ten_map_get(&core->entries, key);
}

static bool room_to_sort(struct ten_memory_core *core) {
    if (core->entries.count < core->sorted_room)
        return true;
    size_t room = core->sorted_room ? core->sorted_room * 2 : 64;
    struct ten_memory_entry **sorted = ten_realloc(core->sorted, room * sizeof(struct ten_memory_entry *));
    if (!sorted)
        return false;
    core->sorted = sorted;
    core->sorted_room = room;
    return true;
}

struct ten_memory_entry *ten_memory_make(struct ten_memory_core *core, const char *namespace_name, const char *id) {
    struct ten_memory_entry *entry = ten_memory_find(core, namespace_name, id);
    if (entry || !room_to_sort(core))
        return entry;
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    make_key(key, namespace_name, id);
    entry = ten_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->namespace_name = ten_strdup(namespace_name);
    entry->id = ten_strdup(id);
    if (!entry->namespace_name || !entry->id || !ten_map_put(&core->entries, key, entry)) {
        free_entry(entry);
        return NULL;
    }
    core->sorted[core->entries.count - 1] = entry;
    core->in_order = false;
    return entry;
}

uint64_t ten_memory_forgotten(const struct ten_memory_core *core, const char *namespace_name) {
    return (uintptr_t)ten_map_get(&core->forgotten, namespace_name);
}

bool ten_memory_set_forgotten(struct ten_memory_core *core, const char *namespace_name, uint64_t token) {
    return ten_map_put(&core->forgotten, namespace_name, (void *)(uintptr_t)token); // NOLINT(performance-no-int-to-ptr)
}

void ten_memory_remove(struct ten_memory_core *core, struct ten_memory_entry *entry) {
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    size_t at = 0;
    while (core->sorted[at] != entry)
        at++;
    core->sorted[at] = core->sorted[core->entries.count - 1];
    core->in_order = false;
    make_key(key, entry->namespace_name, entry->id);
    ten_map_remove(&core->entries, key);
    free_entry(entry);
}

struct ten_memory_instance *ten_memory_find_instance(struct ten_memory_core *core, const char *namespace_name,
                                                     const char *id) {
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    make_key(key, namespace_name, id);
    return ten_map_get(&core->instances, key);
}

struct ten_memory_instance *ten_memory_make_instance(struct ten_memory_core *core, const char *namespace_name,
                                                     const char *id) {
    struct ten_memory_instance *instance = ten_memory_find_instance(core, namespace_name, id);
    if (instance)
        return instance;
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    make_key(key, namespace_name, id);
    instance = ten_calloc(1, sizeof *instance);
    if (!instance)
        return NULL;
    instance->namespace_name = ten_strdup(namespace_name);
    instance->id = ten_strdup(id);
    if (!instance->namespace_name || !instance->id || !ten_map_put(&core->instances, key, instance)) {
        free_member(instance);
        return NULL;
    }
    return instance;
}

ten_lease_row ten_memory_lease(struct ten_memory_core *core, const struct ten_memory_entry *entry) {
    ten_lease_row row = entry->lease;
    if (row.session != 0) {
        const struct ten_memory_instance *holder = ten_memory_find_instance(core, entry->namespace_name, row.holder);
        row.ends_ms = holder ? ten_instance_row_session_end_ms(&holder->row, row.session) : 0;
    }
    return row;
}

void ten_memory_remove_instance(struct ten_memory_core *core, struct ten_memory_instance *instance) {
    char key[TENURE_NAMESPACE_MAX + TENURE_HOLDER_MAX + 2];
    make_key(key, instance->namespace_name, instance->id);
    free_member(ten_map_remove(&core->instances, key));
}

/* ---- the feed ------------------------------------------------------------------------------------------ */

static char *add_feed_text(char *at, const char *text, const char **ret_text) {
    size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    *ret_text = at;
    return at + size;
}

bool ten_memory_feed(struct ten_memory_core *core, const ten_change *event, uint64_t wall_ms) {
    ten_change change = *event;
    if (!core->feed)
        core->feed = ten_calloc(core->feed_room, sizeof *core->feed);
    size_t size =
        strlen(change.namespace_name) + strlen(change.target) + strlen(change.instance) + strlen(change.actor) + 4;
    char *texts = core->feed ? ten_malloc(size) : NULL;
    if (!texts)
        return false;
    char *at = add_feed_text(texts, change.namespace_name, &change.namespace_name);
    at = add_feed_text(at, change.target, &change.target);
    at = add_feed_text(at, change.instance, &change.instance);
    add_feed_text(at, change.actor, &change.actor);
    change.cursor = ++core->last_cursor;
    change.at_ms = change.at_ms ? change.at_ms : wall_ms;
    struct ten_memory_feed_entry *place = &core->feed[change.cursor % core->feed_room];
    ten_free(place->texts);
    *place = (struct ten_memory_feed_entry){.change = change, .texts = texts};
    return true;
}

void ten_memory_feed_blank(struct ten_memory_core *core, const char *namespace_name) {
    for (size_t i = 0; core->feed && i < core->feed_room; i++) {
        ten_change *change = &core->feed[i].change;
        bool of_lease = change->kind == TENURE_EVENT_ACQUIRED || change->kind == TENURE_EVENT_RELEASED ||
                        change->kind == TENURE_EVENT_LOST || change->kind == TENURE_EVENT_ASKED;
        if (of_lease && change->target && strcmp(change->namespace_name, namespace_name) == 0 &&
            !ten_memory_find(core, namespace_name, change->target))
            *change = (ten_change){.cursor = change->cursor};
    }
}

bool ten_memory_begin_epoch(struct ten_memory_core *core, uint64_t until_ms, uint64_t wall_ms) {
    core->token_floor = ten_max_u64(core->token_floor, wall_ms);
    core->recovering_until_ms = ten_max_u64(core->recovering_until_ms, until_ms);
    return ten_memory_feed(
        core,
        &(ten_change){.kind = TENURE_EVENT_RECOVERING, .namespace_name = "", .target = "", .instance = "", .actor = ""},
        wall_ms);
}

void ten_memory_wake_all(struct ten_memory_core *core) {
    for (struct ten_memory_store *handle = core->handles; handle; handle = handle->next)
        if (handle->watch_fd >= 0)
            ten_eventfd_poke(handle->watch_fd);
}

/* ---- cores --------------------------------------------------------------------------------------------- */

static void free_core(struct ten_memory_core *core) {
    const ten_map_entry *found;
    for (size_t at = 0; (found = ten_map_next(&core->entries, &at));)
        free_entry(found->value);
    for (size_t at = 0; (found = ten_map_next(&core->instances, &at));)
        free_member(found->value);
    for (size_t i = 0; core->feed && i < core->feed_room; i++)
        ten_free(core->feed[i].texts);
    ten_map_free(&core->entries);
    ten_map_free(&core->instances);
    ten_map_free(&core->forgotten);
    ten_free(core->sorted);
    ten_free(core->feed);
    ten_free(core->name);
    pthread_mutex_destroy(&core->lock);
    ten_free(core);
}

static struct ten_memory_core *get_locked(const char *name) {
    for (struct ten_memory_core *core = cores; core; core = core->next) {
        if (name[0] != '\0' && strcmp(core->name, name) == 0) {
            core->references++;
            return core;
        }
    }
    struct ten_memory_core *core = ten_calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->name = ten_strdup(name);
    if (!core->name) {
        ten_free(core);
        return NULL;
    }
    pthread_mutex_init(&core->lock, NULL);
    core->references = 1;
    core->feed_room = TEN_FEED_MAX;
    core->next = cores;
    cores = core;
    return core;
}

static void drop_locked(struct ten_memory_core *core) {
    if (--core->references > 0)
        return;
    for (struct ten_memory_core **at = &cores; *at; at = &(*at)->next) {
        if (*at == core) {
            *at = core->next;
            break;
        }
    }
    free_core(core);
}

struct ten_memory_core *ten_memory_core_get(const char *name) {
    pthread_mutex_lock(&cores_lock);
    struct ten_memory_core *core = get_locked(name);
    pthread_mutex_unlock(&cores_lock);
    return core;
}

void ten_memory_core_drop(struct ten_memory_core *core) {
    pthread_mutex_lock(&cores_lock);
    drop_locked(core);
    pthread_mutex_unlock(&cores_lock);
}
