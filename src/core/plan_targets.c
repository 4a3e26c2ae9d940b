/*
 * The plan's targets: columns by number and an index by id. Called by plan.c; plan_match.c reads and writes the
 * columns.
 */
#include "core/plan_targets.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/util.h"
#include "core/plan.h"

static uint64_t hash_id(const char *id) {
    return ten_hash_mix(ten_hash_text(id));
}

void ten_plan_targets_free(struct ten_plan_targets *targets) {
    ten_names_free(&targets->names);
    ten_free(targets->ids);
    ten_free(targets->hashes);
    ten_free(targets->holders);
    ten_free(targets->told_holders);
    ten_free(targets->aside);
    ten_free(targets->index);
    *targets = (struct ten_plan_targets){0};
}

/* ---- the index: linear probing, removal by shifting back */

/* Where an id with this hash belongs. The hash is no secret, because the plan goes by it. */
static uint32_t home_of(const struct ten_plan_targets *targets, uint64_t hash, uint32_t room) {
    return (uint32_t)ten_hash_mix(hash ^ targets->secret) & (room - 1);
}

/* The place of the id, or the empty place where it would be inserted. */
static uint32_t find_place(const struct ten_plan_targets *targets, const char *id, uint64_t hash) {
    uint32_t mask = targets->index_room - 1;
    uint32_t place = home_of(targets, hash, targets->index_room);
    for (uint32_t entry; (entry = targets->index[place]); place = (place + 1) & mask)
        if (targets->hashes[entry - 1] == hash && strcmp(targets->ids[entry - 1], id) == 0)
            break;
    return place;
}

static bool grow_index(struct ten_plan_targets *targets) {
    if (targets->count < targets->index_room / 2)
        return true;
    uint32_t room = targets->index_room ? targets->index_room * 2 : 16;
    uint32_t *index = ten_calloc(room, sizeof *index);
    if (!index)
        return false;
    if (targets->index_room == 0)
        targets->secret = ten_hash_key_now().words[0];
    for (uint32_t number = 0; number < targets->bound; number++) {
        if (!targets->ids[number])
            continue;
        uint32_t place = home_of(targets, targets->hashes[number], room);
        while (index[place])
            place = (place + 1) & (room - 1);
        index[place] = number + 1;
    }
    ten_free(targets->index);
    targets->index = index;
    targets->index_room = room;
    return true;
}

static void remove_from_index(struct ten_plan_targets *targets, uint32_t number) {
    uint32_t mask = targets->index_room - 1;
    uint32_t hole = find_place(targets, targets->ids[number], targets->hashes[number]);
    for (uint32_t at = (hole + 1) & mask; targets->index[at]; at = (at + 1) & mask) {
        uint32_t home = home_of(targets, targets->hashes[targets->index[at] - 1], targets->index_room);
        /* An entry may fill the hole only if that does not move it before its home place. */
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            targets->index[hole] = targets->index[at];
            hole = at;
        }
    }
    targets->index[hole] = 0;
}

/* ---- the columns */

static bool grow_column(void *column, uint32_t room, size_t size) {
    void **array = column;
    void *larger = ten_realloc(*array, room * size);
    if (larger)
        *array = larger;
    return larger != NULL;
}

/* If one column has grown and the next could not, the first is merely larger than necessary. */
static bool grow_columns(struct ten_plan_targets *targets) {
    if (targets->bound < targets->room)
        return true;
    TEN_INVARIANT(targets->room < UINT32_MAX / 2);
    uint32_t room = targets->room ? targets->room * 2 : 16;
    if (!grow_column(&targets->ids, room, sizeof *targets->ids) ||
        !grow_column(&targets->hashes, room, sizeof *targets->hashes) ||
        !grow_column(&targets->holders, room, sizeof *targets->holders) ||
        !grow_column(&targets->told_holders, room, sizeof *targets->told_holders) ||
        !grow_column(&targets->aside, room, sizeof *targets->aside))
        return false;
    targets->room = room;
    return true;
}

uint32_t ten_plan_targets_find(const struct ten_plan_targets *targets, const char *id) {
    if (targets->count == 0)
        return TEN_PLAN_NONE;
    uint32_t entry = targets->index[find_place(targets, id, hash_id(id))];
    return entry ? entry - 1 : TEN_PLAN_NONE;
}

uint32_t ten_plan_targets_add(struct ten_plan_targets *targets, const char *id) {
    if (!grow_index(targets) || !grow_columns(targets))
        return TEN_PLAN_NONE;
    char *copy = ten_names_add(&targets->names, id);
    if (!copy)
        return TEN_PLAN_NONE;
    uint32_t number = targets->first_free ? targets->first_free - 1 : targets->bound++;
    if (targets->first_free)
        targets->first_free = (uint32_t)targets->hashes[number];
    uint64_t hash = hash_id(id);
    targets->index[find_place(targets, id, hash)] = number + 1;
    targets->ids[number] = copy;
    targets->hashes[number] = hash;
    targets->holders[number] = TEN_PLAN_NONE;
    targets->told_holders[number] = TEN_PLAN_NONE;
    targets->aside[number] = 0;
    targets->count++;
    return number;
}

void ten_plan_targets_remove(struct ten_plan_targets *targets, uint32_t number) {
    remove_from_index(targets, number);
    targets->aside_count -= targets->aside[number] & TEN_PLAN_ASIDE;
    ten_names_remove(&targets->names, targets->ids[number]);
    targets->ids[number] = NULL;
    targets->holders[number] = TEN_PLAN_NONE;
    targets->told_holders[number] = TEN_PLAN_NONE;
    targets->hashes[number] = targets->first_free;
    targets->first_free = number + 1;
    targets->count--;
}
