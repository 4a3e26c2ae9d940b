/*
 * The guard's rules. Called by the runtime. See guard.h.
 */
#include "core/guard.h"

#include "base/alloc.h"
#include "base/util.h"

void ten_guard_init(ten_guard *guard, const ten_guard_config *config) {
    TEN_INVARIANT(config->max_targets > 0 && config->cache_ttl_ms > 0);
    *guard = (ten_guard){.config = *config};
}

void ten_guard_free(ten_guard *guard) {
    while (guard->first) {
        ten_guard_entry *next = guard->first->older;
        ten_free(guard->first);
        guard->first = next;
    }
    ten_map_free(&guard->entries);
    *guard = (ten_guard){0};
}

/* ---- the targets, in the order of their last use */

static void unlink_entry(ten_guard *guard, ten_guard_entry *entry) {
    *(entry->newer ? &entry->newer->older : &guard->first) = entry->older;
    *(entry->older ? &entry->older->newer : &guard->last) = entry->newer;
}

static void link_first(ten_guard *guard, ten_guard_entry *entry) {
    entry->newer = NULL;
    entry->older = guard->first;
    *(guard->first ? &guard->first->newer : &guard->last) = entry;
    guard->first = entry;
}

static void use(ten_guard *guard, ten_guard_entry *entry) {
    if (guard->first == entry)
        return;
    unlink_entry(guard, entry);
    link_first(guard, entry);
}

static void evict_one(ten_guard *guard) {
    ten_guard_entry *entry = guard->last;
    unlink_entry(guard, entry);
    (void)ten_map_remove(&guard->entries, entry->target);
    ten_free(entry);
    guard->forgetful = true;
}

/* NULL: out of memory. The target is then not remembered, and read again the next time. */
static ten_guard_entry *remember(ten_guard *guard, const char *target, uint64_t newest) {
    ten_guard_entry *entry = ten_calloc(1, sizeof *entry);
    if (!entry || !ten_map_put(&guard->entries, target, entry)) {
        ten_free(entry);
        guard->forgetful = true;
        return NULL;
    }
    entry->target = ten_map_key(&guard->entries, target);
    entry->newest = newest;
    if (guard->entries.count > guard->config.max_targets)
        evict_one(guard);
    link_first(guard, entry);
    return entry;
}

/* ---- judging */

static bool is_covered(const ten_guard *guard, const ten_guard_entry *entry) {
    return entry->stretch == guard->stretch;
}

/* The last moment at which the store is known to have had no newer token. */
static uint64_t confirmed_ms(const ten_guard *guard, const ten_guard_entry *entry) {
    uint64_t fed_ms = is_covered(guard, entry) ? guard->fed_ms : 0;
    if (entry->stretch + 1 == guard->stretch)
        fed_ms = ten_max_u64(fed_ms, guard->former_fed_ms);
    return ten_max_u64(entry->confirmed_ms, fed_ms);
}

static bool is_confirmed(const ten_guard *guard, const ten_guard_entry *entry, uint64_t now_ms) {
    return now_ms < ten_add_saturating(confirmed_ms(guard, entry), guard->config.cache_ttl_ms);
}

/* The verdict without the store. */
static enum ten_guard_verdict judge_alone(const ten_guard *guard, const ten_guard_entry *entry, uint64_t token,
                                          uint64_t now_ms) {
    bool newest = entry && token == entry->newest;
    if (newest && is_confirmed(guard, entry, now_ms))
        return TEN_GUARD_ACCEPT;
    if (guard->config.accept_expired && newest)
        return TEN_GUARD_ACCEPT_EXPIRED;
    return TEN_GUARD_UNCONFIRMED;
}

enum ten_guard_verdict ten_guard_check(ten_guard *guard, uint64_t now_ms, const char *target, uint64_t token,
                                       uint64_t *ret_newest) {
    ten_guard_entry *entry = ten_map_get(&guard->entries, target);
    *ret_newest = entry ? entry->newest : 0;
    if (entry)
        use(guard, entry);
    if (entry && token < entry->newest)
        return TEN_GUARD_STALE;
    if (guard->down)
        return judge_alone(guard, entry, token, now_ms);
    /* While the store is reachable, only targets that the feed covers are judged from memory. */
    bool known = entry && token == entry->newest && is_covered(guard, entry) && is_confirmed(guard, entry, now_ms);
    return known ? TEN_GUARD_ACCEPT : TEN_GUARD_ASK;
}

/* Whether the answer says which token is the newest. A token below one that is known comes from a store that lost
 * data. */
static bool tells_newest(const ten_guard_entry *entry, const ten_result *answer) {
    if (!answer || answer->outcome != TEN_OK || answer->recovering)
        return false;
    return !entry || answer->token >= entry->newest;
}

enum ten_guard_verdict ten_guard_answer(ten_guard *guard, uint64_t now_ms, uint64_t sent_ms, const char *target,
                                        uint64_t token, const ten_result *answer, uint64_t *ret_newest) {
    TEN_INVARIANT(sent_ms <= now_ms);
    ten_guard_entry *entry = ten_map_get(&guard->entries, target);
    bool told = tells_newest(entry, answer);
    /* A target that was never leased is not remembered: invented ids would evict real targets. */
    if (told && !entry && answer->token > 0)
        entry = remember(guard, target, answer->token);
    uint64_t newest = told ? answer->token : entry ? entry->newest : 0;
    if (told && entry) {
        entry->newest = newest;
        entry->confirmed_ms = ten_max_u64(entry->confirmed_ms, sent_ms);
        entry->stretch = guard->stretch;
    }
    *ret_newest = newest;
    if (token < newest)
        return TEN_GUARD_STALE;
    if (!told)
        return judge_alone(guard, entry, token, now_ms);
    if (token > newest)
        return TEN_GUARD_UNGRANTED;
    /* The answer counts from when its request was sent, however long it took. */
    bool late = now_ms >= ten_add_saturating(sent_ms, guard->config.cache_ttl_ms);
    return !late ? TEN_GUARD_ACCEPT : judge_alone(guard, entry, token, now_ms);
}

void ten_guard_reached(ten_guard *guard, bool reached) {
    guard->down = !reached;
}

/* ---- the feed */

void ten_guard_follow(ten_guard *guard, uint64_t sent_ms) {
    guard->stretch++;
    guard->former_fed_ms = guard->fed_ms;
    guard->fed_ms = sent_ms;
}

void ten_guard_change(ten_guard *guard, const ten_change *change) {
    if (change->kind != TENURE_EVENT_ACQUIRED || change->token == 0)
        return;
    ten_guard_entry *entry = ten_map_get(&guard->entries, change->target);
    if (entry) {
        entry->newest = ten_max_u64(entry->newest, change->token);
        return;
    }
    /* A target that was not checked yet is remembered too, but evicts no other. Not after an eviction: this entry may
     * be older than what was read of the evicted target. */
    if (guard->entries.count < guard->config.max_targets && !guard->forgetful)
        entry = remember(guard, change->target, change->token);
    if (entry)
        entry->stretch = guard->stretch;
}

void ten_guard_fed(ten_guard *guard, uint64_t sent_ms) {
    guard->fed_ms = ten_max_u64(guard->fed_ms, sent_ms);
}
