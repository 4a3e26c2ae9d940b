/*
 * Who tries first when a role is free. Called by the election. See turns.h.
 */
#include "core/turns.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/util.h"

#define STEP_PART   100u /* of the TTL: what one place in the line costs */
#define STEP_MIN_MS 1u
#define STEP_MAX_MS 20u
#define RANK_MAX    32u /* one further back waits as if it stood here */

void ten_turns_init(ten_turns *turns, const char *role, const char *self, uint64_t ttl_ms) {
    *turns = (ten_turns){.role = role,
                         .self = ten_hash_text(self),
                         .step_ms = ten_max_u64(ten_min_u64(ttl_ms / STEP_PART, STEP_MAX_MS), STEP_MIN_MS),
                         .list_ms = UINT64_MAX};
}

void ten_turns_free(ten_turns *turns) {
    ten_free(turns->places);
    ten_free(turns->old);
    turns->places = turns->old = NULL;
    turns->count = turns->room = turns->old_count = 0;
}

/* ---- metadata */

/* The value of a member of the outermost object, as our own programs write it; NULL: there is none. Nothing in a JSON
 * string can look like a quoted name, because its quotes are escaped. "labels", an object of any names, is the last. */
static const char *member_of(const char *metadata, const char *name) {
    const char *end = strstr(metadata, "\"labels\":");
    const char *found = strstr(metadata, name);
    return found && (!end || found < end) ? found + strlen(name) : NULL;
}

bool ten_turns_read_metadata(const char *metadata, const char *role, int64_t *ret_priority) {
    const char *found = metadata ? member_of(metadata, "\"role\":\"") : NULL;
    size_t size = strlen(role);
    if (!found || strncmp(found, role, size) != 0 || found[size] != '"')
        return false;
    const char *priority = member_of(metadata, "\"priority\":");
    *ret_priority = priority ? strtoll(priority, NULL, 10) : 0;
    return true;
}

bool ten_turns_is_lock(const char *metadata) {
    return metadata && member_of(metadata, "\"role\":\"") && member_of(metadata, "\"kind\":\"" TEN_TURNS_LOCK "\"");
}

/* ---- the line */

static ten_turns_place *find(ten_turns_place *places, uint32_t count, uint64_t instance) {
    for (uint32_t i = 0; i < count; i++)
        if (places[i].instance == instance)
            return &places[i];
    return NULL;
}

void ten_turns_list_begin(ten_turns *turns) {
    ten_free(turns->old);
    turns->old = turns->places;
    turns->old_count = turns->count;
    turns->places = NULL;
    turns->count = turns->room = 0;
    turns->list_ms = UINT64_MAX;
}

void ten_turns_list(ten_turns *turns, const ten_instance *instance, uint64_t now_ms) {
    int64_t priority;
    uint64_t hash = ten_hash_text(instance->instance);
    if (instance->ask == TEN_ASK_DRAIN && hash != turns->self)
        return; /* it does not campaign */
    if (!ten_turns_read_metadata(instance->metadata, turns->role, &priority) || turns->count >= TEN_TURNS_MAX ||
        !TEN_GROW(turns->places, turns->room, turns->count + 1))
        return; /* this candidate may then try too early, which costs a request */
    const ten_turns_place *old = find(turns->old, turns->old_count, hash);
    turns->places[turns->count++] = (ten_turns_place){.instance = hash,
                                                      .priority = priority,
                                                      .since_ms = instance->since_ms,
                                                      .seen_ms = old ? old->seen_ms : now_ms,
                                                      .ttl_ms = instance->ttl_ms,
                                                      .served = old ? old->served : 0};
}

void ten_turns_list_end(ten_turns *turns, bool complete) {
    if (!complete) {
        ten_free(turns->places);
        turns->places = turns->old;
        turns->count = turns->room = turns->old_count;
        turns->old = NULL;
    }
    ten_free(turns->old);
    turns->old = NULL;
    turns->old_count = 0;
    turns->listed = find(turns->places, turns->count, turns->self) != NULL;
}

void ten_turns_left(ten_turns *turns, const char *instance) {
    ten_turns_place *place = find(turns->places, turns->count, ten_hash_text(instance));
    if (place)
        *place = turns->places[--turns->count];
}

void ten_turns_served(ten_turns *turns, const char *instance) {
    ten_turns_place *place = find(turns->places, turns->count, ten_hash_text(instance));
    if (place)
        place->served = ++turns->served;
}

/* ---- ranks */

static bool is_before(const ten_turns_place *left, const ten_turns_place *right) {
    if (left->priority != right->priority)
        return left->priority > right->priority;
    if (left->served != right->served)
        return left->served < right->served;
    if (left->since_ms != right->since_ms)
        return left->since_ms < right->since_ms;
    return left->instance < right->instance;
}

size_t ten_turns_rank(const ten_turns *turns, bool (*is_holder)(const void *arg, uint64_t instance), const void *arg) {
    const ten_turns_place *self = turns->listed ? find(turns->places, turns->count, turns->self) : NULL;
    size_t rank = 0;
    if (!self)
        return SIZE_MAX;
    for (uint32_t i = 0; i < turns->count; i++)
        rank += is_before(&turns->places[i], self) && !is_holder(arg, turns->places[i].instance);
    return rank;
}

uint64_t ten_turns_better_ms(const ten_turns *turns, int64_t priority) {
    uint64_t seen_ms = UINT64_MAX;
    for (uint32_t i = 0; i < turns->count; i++)
        if (turns->places[i].priority > priority && turns->places[i].instance != turns->self)
            seen_ms = ten_min_u64(seen_ms, turns->places[i].seen_ms);
    return seen_ms;
}

uint64_t ten_turns_ttl_ms(const ten_turns *turns, uint64_t instance) {
    const ten_turns_place *place = find(turns->places, turns->count, instance);
    return place ? place->ttl_ms : 0;
}

uint64_t ten_turns_delay_ms(const ten_turns *turns, size_t rank) {
    return ten_min_u64(rank, RANK_MAX) * turns->step_ms;
}
