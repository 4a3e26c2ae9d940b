/*
 * What a source's passes have shown. Called by source_feed.c.
 */
#include "agent/sources/target_list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

#define PASSES_TO_BE_GONE 2u

/* A target that is known, or an entry that was refused. */
struct listed {
    const char *key; /* the map's */
    char *text;      /* of a target */
    size_t size;
    uint64_t reason;          /* of an entry that was refused */
    uint32_t pass;            /* the last that showed it */
    unsigned missed;          /* passes in a row that did not */
    uint64_t missed_since_ms; /* the end of the first of them */
    struct listed *next_gone;
};

static void free_map(ten_map *map) {
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(map, &at));) {
        ten_free(((struct listed *)entry->value)->text);
        ten_free(entry->value);
    }
    ten_map_free(map);
}

void ten_target_list_free(ten_target_list *list) {
    free_map(&list->targets);
    free_map(&list->bad);
}

static struct listed *add(ten_map *map, const char *key) {
    struct listed *listed = ten_calloc(1, sizeof *listed);
    if (!listed || !ten_map_put(map, key, listed)) {
        ten_free(listed);
        return NULL;
    }
    listed->key = ten_map_key(map, key);
    return listed;
}

static void drop(ten_map *map, struct listed *listed) {
    (void)ten_map_remove(map, listed->key);
    ten_free(listed->text);
    ten_free(listed);
}

/* ---- during a pass */

void ten_target_list_begin(ten_target_list *list) {
    list->pass++;
    list->known = list->targets.count;
}

enum ten_listed ten_target_list_look(ten_target_list *list, const char *id, const char *text, size_t size) {
    struct listed *listed = ten_map_get(&list->targets, id);
    if (!listed)
        return TEN_LISTED_CHANGED;
    if (listed->size != size || memcmp(listed->text, text, size) != 0)
        return listed->pass == list->pass ? TEN_LISTED_TWICE : TEN_LISTED_CHANGED;
    listed->pass = list->pass;
    return TEN_LISTED_SAME;
}

bool ten_target_list_keep(ten_target_list *list, const char *id, const char *text, size_t size) {
    char *copy = ten_malloc(size + 1);
    struct listed *listed = copy ? ten_map_get(&list->targets, id) : NULL;
    if (copy && !listed)
        listed = add(&list->targets, id);
    if (!listed) {
        ten_free(copy);
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    ten_free(listed->text);
    listed->text = copy;
    listed->size = size;
    listed->pass = list->pass;
    return true;
}

bool ten_target_list_refuse(ten_target_list *list, const char *entry, uint64_t reason) {
    struct listed *refused = ten_map_get(&list->bad, entry);
    bool is_known = refused && refused->reason == reason;
    if (!refused)
        refused = add(&list->bad, entry); /* without memory it is reported once more: better than not at all */
    if (refused) {
        refused->reason = reason;
        refused->pass = list->pass;
    }
    return !is_known;
}

bool ten_target_list_is_refused(ten_target_list *list, const char *entry, uint64_t reason) {
    struct listed *refused = ten_map_get(&list->bad, entry);
    if (!refused || refused->reason != reason)
        return false;
    refused->pass = list->pass;
    return true;
}

void ten_target_list_doubt(ten_target_list *list, uint64_t now_ms) {
    list->in_doubt = true;
    list->doubt_until_ms = ten_add_saturating(now_ms, list->ttl_ms);
}

/* ---- after it */

static bool looks_lost(size_t known, size_t shown) {
    return (shown == 0 && known > 0) || (known > 2 && shown * 2 < known);
}

static bool is_gone(const ten_target_list *list, const struct listed *listed, uint64_t now_ms) {
    if (list->whole)
        return true;
    if (listed->missed < PASSES_TO_BE_GONE)
        return false;
    return !list->in_doubt || now_ms - listed->missed_since_ms >= list->ttl_ms;
}

/* What is no longer there may come back as bad as it was, and is reported anew then. */
static void forget_refused(ten_target_list *list) {
    struct listed *first = NULL;
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&list->bad, &at));) {
        struct listed *refused = entry->value;
        if (refused->pass == list->pass)
            continue;
        refused->next_gone = first;
        first = refused;
    }
    for (struct listed *next; first; first = next) {
        next = first->next_gone;
        drop(&list->bad, first);
    }
}

/* Marks what this pass missed; returns what is gone. *ret_missing: how many more are missing. */
static struct listed *find_gone(ten_target_list *list, uint64_t now_ms, size_t *ret_missing) {
    struct listed *first = NULL;
    const ten_map_entry *entry;
    size_t shown = 0;
    for (size_t at = 0; (entry = ten_map_next(&list->targets, &at));)
        shown += ((const struct listed *)entry->value)->pass == list->pass;
    list->in_doubt |= looks_lost(list->known, shown);
    *ret_missing = 0;
    for (size_t at = 0; (entry = ten_map_next(&list->targets, &at));) {
        struct listed *listed = entry->value;
        if (listed->pass == list->pass) {
            listed->missed = 0;
            continue;
        }
        if (listed->missed++ == 0)
            listed->missed_since_ms = now_ms;
        if (!is_gone(list, listed, now_ms)) {
            ++*ret_missing;
            continue;
        }
        listed->next_gone = first;
        first = listed;
    }
    return first;
}

void ten_target_list_end(ten_target_list *list, uint64_t now_ms, bool (*gone)(const char *id, void *userdata),
                         void *userdata) {
    size_t missing;
    struct listed *next;
    for (struct listed *listed = find_gone(list, now_ms, &missing); listed; listed = next) {
        next = listed->next_gone;
        if (gone(listed->key, userdata))
            drop(&list->targets, listed);
    }
    if (missing == 0 && now_ms >= list->doubt_until_ms)
        list->in_doubt = false;
    forget_refused(list);
}
