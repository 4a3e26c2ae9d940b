/*
 * The history: combines the entries of each target. A store only writes what happened; how long something lasted is
 * derived here, so that no store has to keep it and no holder pays for it. Called by runtime/context_history.c.
 */
#include "core/history.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

/* What the entries so far say about a target. */
struct hands {
    uint64_t token;
    uint64_t acquired_ms; /* 0: before the feed begins */
    uint64_t ended_ms;    /* 0: it is held */
    enum ten_reason reason;
    const char *instance; /* the last holder */
};

struct ten_history {
    ten_history_config config;
    char *target;
    ten_map hands; /* by target */
    ten_arena texts;
    ten_change *entries;
    size_t count;
    size_t room;
};

ten_history *ten_history_new(const ten_history_config *config) {
    ten_history *history = ten_calloc(1, sizeof *history);
    if (!history)
        return NULL;
    history->config = *config;
    history->config.since_ms = ten_max_u64(config->since_ms, ten_sub_saturating(config->now_ms, TEN_FEED_AGE_MS));
    history->target = config->target ? ten_strdup(config->target) : NULL;
    if (!config->target || history->target)
        return history;
    ten_free(history);
    return NULL;
}

void ten_history_free(ten_history *history) {
    const ten_map_entry *found;
    if (!history)
        return;
    for (size_t at = 0; (found = ten_map_next(&history->hands, &at));)
        ten_free(found->value);
    ten_map_free(&history->hands);
    ten_arena_free(&history->texts);
    ten_free(history->entries);
    ten_free(history->target);
    ten_free(history);
}

/* ---- keeping what is wanted */

static int keep(ten_history *history, const ten_change *change) {
    if (change->at_ms < history->config.since_ms)
        return TENURE_OK;
    if (history->count == history->room) {
        size_t room = history->room ? history->room * 2 : 64;
        ten_change *entries = ten_realloc(history->entries, room * sizeof *entries);
        if (!entries)
            return TENURE_E_NOMEM;
        history->entries = entries;
        history->room = room;
    }
    ten_change *entry = &history->entries[history->count];
    *entry = *change;
    entry->namespace_name = ten_arena_text(&history->texts, change->namespace_name);
    entry->target = ten_arena_text(&history->texts, change->target);
    entry->instance = ten_arena_text(&history->texts, change->instance);
    entry->actor = ten_arena_text(&history->texts, change->actor);
    if (!entry->namespace_name || !entry->target || !entry->instance || !entry->actor)
        return TENURE_E_NOMEM;
    history->count++;
    return TENURE_OK;
}

/* ---- targets without a holder */

/* Whether another holder was wanted after that end: the work was not over, and the target was neither removed nor paused. */
static bool is_missed(enum ten_reason reason) {
    switch (reason) {
    case TEN_REASON_SHUTDOWN:
    case TEN_REASON_REBALANCE:
    case TEN_REASON_DRAIN:
    case TEN_REASON_FORCED:
    case TEN_REASON_EXPIRED:
    case TEN_REASON_TAKEN:
    case TEN_REASON_STORE:
    case TEN_REASON_CRASHED:
        return true;
    case TEN_REASON_NONE:
    case TEN_REASON_REMOVED:
    case TEN_REASON_RESIGNED:
    case TEN_REASON_DONE:
    case TEN_REASON_PAUSED:
    case TEN_REASON_PINNED:
    case TEN_REASON_PINNED_AWAY:
    case TEN_REASON_UNPINNED:
    case TEN_REASON_COUNT:
        break;
    }
    return false;
}

static int tell_unowned(ten_history *history, const char *namespace_name, const char *target, const struct hands *hands,
                        uint64_t until_ms) {
    uint64_t ttl_ms = history->config.ttl_ms;
    if (ttl_ms == 0 || hands->ended_ms == 0 || !is_missed(hands->reason) || until_ms <= hands->ended_ms + ttl_ms)
        return TENURE_OK;
    return keep(history, &(ten_change){.kind = TENURE_EVENT_UNOWNED,
                                       .at_ms = hands->ended_ms + ttl_ms,
                                       .reason = hands->reason,
                                       .namespace_name = namespace_name,
                                       .target = target,
                                       .instance = hands->instance,
                                       .actor = "",
                                       .token = hands->token,
                                       .free_ms = until_ms - hands->ended_ms});
}

/* ---- combining entries */

static struct hands *hands_of(ten_history *history, const char *target) {
    struct hands *hands = ten_map_get(&history->hands, target);
    if (hands)
        return hands;
    hands = ten_calloc(1, sizeof *hands);
    if (hands && ten_map_put(&history->hands, target, hands))
        return hands;
    ten_free(hands);
    return NULL;
}

static int note_acquired(ten_history *history, struct hands *hands, ten_change *change) {
    bool goes_on = hands->token == change->token && hands->ended_ms == 0; /* put back after the store lost it */
    int r = tell_unowned(history, change->namespace_name, change->target, hands, change->at_ms);
    if (hands->ended_ms)
        change->free_ms = ten_sub_saturating(change->at_ms, hands->ended_ms);
    if (!goes_on)
        hands->acquired_ms = change->at_ms;
    hands->token = change->token;
    hands->ended_ms = 0;
    return r;
}

static void note_ended(struct hands *hands, ten_change *change) {
    if (hands->acquired_ms && hands->token == change->token)
        change->held_ms = ten_sub_saturating(change->at_ms, hands->acquired_ms);
    hands->token = change->token;
    hands->ended_ms = change->at_ms;
    hands->reason = change->reason;
}

static int understand(ten_history *history, ten_change *change) {
    int r = TENURE_OK;
    if (change->kind == TENURE_EVENT_TARGET_REMOVED) {
        ten_free(ten_map_remove(&history->hands, change->target));
        return r;
    }
    bool acquired = change->kind == TENURE_EVENT_ACQUIRED;
    if (!acquired && change->kind != TENURE_EVENT_RELEASED && change->kind != TENURE_EVENT_LOST)
        return r;
    struct hands *hands = hands_of(history, change->target);
    const char *instance = hands ? ten_arena_text(&history->texts, change->instance) : NULL;
    if (!instance)
        return TENURE_E_NOMEM;
    if (acquired)
        r = note_acquired(history, hands, change);
    else
        note_ended(hands, change);
    hands->instance = instance;
    return r;
}

int ten_history_add(const ten_change *entry, void *userdata) {
    ten_history *history = userdata;
    ten_change change = *entry;
    if (history->target && strcmp(change.target, history->target) != 0)
        return TENURE_OK;
    int r = understand(history, &change);
    return r < 0 ? r : keep(history, &change);
}

/* ---- reading */

static int by_time(const void *a, const void *b) {
    const ten_change *first = a;
    const ten_change *second = b;
    if (first->at_ms != second->at_ms)
        return first->at_ms < second->at_ms ? -1 : 1;
    return (first->cursor > second->cursor) - (first->cursor < second->cursor);
}

/* Those that still have no holder. */
static int tell_unowned_now(ten_history *history, const char *namespace_name) {
    const ten_map_entry *found;
    int r = TENURE_OK;
    for (size_t at = 0; r == TENURE_OK && (found = ten_map_next(&history->hands, &at));)
        r = tell_unowned(history, namespace_name, found->key, found->value, history->config.now_ms);
    return r;
}

int ten_history_each(ten_history *history, const char *namespace_name, ten_change_fn each, void *userdata) {
    int r = tell_unowned_now(history, namespace_name);
    if (history->count > 1)
        qsort(history->entries, history->count, sizeof *history->entries, by_time);
    size_t first = history->count > history->config.limit ? history->count - history->config.limit : 0;
    for (size_t i = first; r == TENURE_OK && i < history->count; i++)
        r = each(&history->entries[i], userdata);
    return r;
}
