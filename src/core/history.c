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
#include "core/cron_job.h"

/* What the entries so far say about a target. */
struct hands {
    uint64_t token;
    uint64_t acquired_ms; /* 0: before the feed begins */
    uint64_t ended_ms;    /* 0: it is held */
    enum ten_reason reason;
    const char *instance; /* the last holder */
};

/* Who had which token, if the history is of one target. */
struct grant {
    uint64_t token;
    const char *instance;
};

struct ten_history {
    ten_history_config config;
    char *target;
    struct grant *grants;
    uint32_t grant_count;
    uint32_t grant_room;
    ten_map hands; /* by target */
    ten_arena texts;
    ten_change *entries;
    uint32_t count;
    uint32_t room;
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
    ten_free(history->grants);
    ten_free(history->target);
    ten_free(history);
}

/* ---- keeping what is wanted */

static int keep(ten_history *history, const ten_change *change) {
    if (change->at_ms < history->config.since_ms)
        return TENURE_OK;
    if (!TEN_GROW(history->entries, history->room, history->count + 1))
        return TENURE_E_NOMEM;
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

/* Whether another holder was wanted after that end: the work was not over, and the target was neither removed nor
 * paused. */
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

/* Also of entries that are too old to be shown. */
static int note_grant(ten_history *history, uint64_t token, const char *instance) {
    if (!TEN_GROW(history->grants, history->grant_room, history->grant_count + 1))
        return TENURE_E_NOMEM;
    history->grants[history->grant_count++] = (struct grant){.token = token, .instance = instance};
    return TENURE_OK;
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
    if (acquired && r == TENURE_OK && history->target)
        r = note_grant(history, change->token, instance);
    if (!acquired)
        note_ended(hands, change);
    hands->instance = instance;
    return r;
}

/* A forced lease has ended once; that its holder has released it when its work had stopped only says since when the
 * target is free. What a person did is kept in any case. */
static bool is_end_of_forced(const struct hands *hands, const ten_change *change) {
    return hands && hands->ended_ms && hands->reason == TEN_REASON_FORCED && hands->token == change->token &&
           change->kind == TENURE_EVENT_RELEASED && change->actor[0] == '\0';
}

int ten_history_add(const ten_change *entry, void *userdata) {
    ten_history *history = userdata;
    ten_change change = *entry;
    if (history->target && strcmp(change.target, history->target) != 0)
        return TENURE_OK;
    struct hands *hands = ten_map_get(&history->hands, change.target);
    if (is_end_of_forced(hands, &change)) {
        hands->ended_ms = change.at_ms;
        return TENURE_OK;
    }
    int r = understand(history, &change);
    return r < 0 ? r : keep(history, &change);
}

/* ---- the runs of a job */

struct runs {
    ten_history *history;
    const char *namespace_name;
    const ten_cron_memory *memory;
    bool newest; /* nothing was taken yet */
};

/* The feed may not reach back as far as the runs do; who ran the last one is beside them. */
static const char *runner_of(const struct runs *runs, const ten_cron_run *run) {
    for (size_t i = runs->history->grant_count; run->token && i-- > 0;)
        if (runs->history->grants[i].token == run->token)
            return runs->history->grants[i].instance;
    return runs->newest && !runs->memory->open ? runs->memory->holder : "";
}

static int take_run(const ten_cron_run *run, void *userdata) {
    struct runs *runs = userdata;
    bool ran = run->end <= TEN_CRON_NOT_STARTED;
    bool lost = run->end == TEN_CRON_LOST;
    ten_change change = {.kind = ran    ? TENURE_EVENT_CRON_ENDED
                                 : lost ? TENURE_EVENT_CRON_LOST
                                        : TENURE_EVENT_CRON_MISSED,
                         .at_ms = (uint64_t)run->instant_ms + run->late_ms + run->duration_ms,
                         .namespace_name = runs->namespace_name,
                         .target = runs->history->target,
                         .instance = runner_of(runs, run),
                         .actor = "",
                         .token = run->token,
                         .result = lost ? "" : ten_cron_end_name(run->end),
                         .instant_ms = (uint64_t)run->instant_ms,
                         .late_ms = ran ? run->late_ms : 0,
                         .duration_ms = run->duration_ms,
                         .count = ran || lost ? 0 : run->code};
    if (ran)
        change.exit_code = (int)(run->code & 0xffff) + (run->end == TEN_CRON_KILLED ? 128 : 0);
    runs->newest = false;
    return keep(runs->history, &change);
}

int ten_history_add_runs(ten_history *history, const char *namespace_name, const char *checkpoint, const char *holder) {
    ten_cron_memory memory;
    if (!history->target || !ten_cron_memory_read(checkpoint, &memory))
        return TENURE_OK;
    struct runs runs = {.history = history, .namespace_name = namespace_name, .memory = &memory, .newest = true};
    int r = ten_cron_log_each(checkpoint, take_run, &runs);
    if (r < 0 || !memory.open)
        return r;
    /* Its runner is at work, or is not known to have died: only the next holder says so. */
    bool runs_now = holder && strcmp(holder, memory.holder) == 0;
    uint64_t token = 0;
    for (size_t i = history->grant_count; token == 0 && i-- > 0;)
        token = strcmp(history->grants[i].instance, memory.holder) == 0 ? history->grants[i].token : 0;
    return keep(history, &(ten_change){.kind = runs_now ? TENURE_EVENT_CRON_STARTED : TENURE_EVENT_CRON_LOST,
                                       .at_ms = (uint64_t)memory.ran_ms,
                                       .namespace_name = namespace_name,
                                       .target = history->target,
                                       .instance = memory.holder,
                                       .actor = "",
                                       .token = token,
                                       .result = "",
                                       .instant_ms = (uint64_t)memory.ran_ms});
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
