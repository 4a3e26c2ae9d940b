/*
 * What a source's passes have shown. Called by source_feed.c.
 */
#include "agent/sources/target_list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/util.h"

#define PASSES_TO_BE_GONE 2u

struct listed {
    const char *id; /* the map's */
    char *text;
    size_t size;
    uint32_t pass;            /* the last that showed it */
    unsigned missed;          /* passes in a row that did not */
    uint64_t missed_since_ms; /* the end of the first of them */
    struct listed *next_gone;
};

struct refused {
    uint64_t reason;
    uint32_t pass;
    const char *entry; /* the map's */
    struct refused *next_gone;
};

static void free_listed(struct listed *listed) {
    ten_free(listed->text);
    ten_free(listed);
}

void ten_target_list_free(ten_target_list *list) {
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&list->targets, &at));)
        free_listed(entry->value);
    for (size_t at = 0; (entry = ten_map_next(&list->bad, &at));)
        ten_free(entry->value);
    ten_map_free(&list->targets);
    ten_map_free(&list->bad);
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

static struct listed *add(ten_target_list *list, const char *id) {
    struct listed *listed = ten_calloc(1, sizeof *listed);
    if (!listed || !ten_map_put(&list->targets, id, listed)) {
        ten_free(listed);
        return NULL;
    }
    listed->id = ten_map_key(&list->targets, id);
    return listed;
}

bool ten_target_list_keep(ten_target_list *list, const char *id, const char *text, size_t size) {
    char *copy = ten_malloc(size + 1);
    struct listed *listed = copy ? ten_map_get(&list->targets, id) : NULL;
    if (copy && !listed)
        listed = add(list, id);
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
    struct refused *refused = ten_map_get(&list->bad, entry);
    if (!refused) {
        refused = ten_calloc(1, sizeof *refused);
        if (!refused || !ten_map_put(&list->bad, entry, refused)) {
            ten_free(refused);
            return true; /* told once more: better than not at all */
        }
        refused->entry = ten_map_key(&list->bad, entry);
        refused->reason = ~reason;
    }
    bool is_news = refused->reason != reason;
    refused->reason = reason;
    refused->pass = list->pass;
    return is_news;
}

bool ten_target_list_is_refused(ten_target_list *list, const char *entry, uint64_t reason) {
    struct refused *refused = ten_map_get(&list->bad, entry);
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

/* What is no longer there may come back as bad as it was, and is told anew then. */
static void forget_refused(ten_target_list *list) {
    struct refused *first = NULL;
    const ten_map_entry *entry;
    for (size_t at = 0; (entry = ten_map_next(&list->bad, &at));) {
        struct refused *refused = entry->value;
        if (refused->pass == list->pass)
            continue;
        refused->next_gone = first;
        first = refused;
    }
    while (first) {
        struct refused *next = first->next_gone;
        ten_free(ten_map_remove(&list->bad, first->entry));
        first = next;
    }
}

static size_t count_shown(const ten_target_list *list) {
    const ten_map_entry *entry;
    size_t shown = 0;
    for (size_t at = 0; (entry = ten_map_next(&list->targets, &at));)
        shown += ((const struct listed *)entry->value)->pass == list->pass;
    return shown;
}

/* Marks what this pass missed; returns what is gone. *ret_missing: how many more are missing. */
static struct listed *find_gone(ten_target_list *list, uint64_t now_ms, size_t *ret_missing) {
    struct listed *first = NULL;
    const ten_map_entry *entry;
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
    if (looks_lost(list->known, count_shown(list)))
        list->in_doubt = true;
    for (struct listed *listed = find_gone(list, now_ms, &missing); listed;) {
        struct listed *next = listed->next_gone;
        if (gone(listed->id, userdata)) {
            (void)ten_map_remove(&list->targets, listed->id);
            free_listed(listed);
        }
        listed = next;
    }
    if (missing == 0 && now_ms >= list->doubt_until_ms)
        list->in_doubt = false;
    forget_refused(list);
}
