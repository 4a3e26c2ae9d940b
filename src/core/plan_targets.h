/*
 * The plan's targets: a table by number, and an index from id to number. The table is kept in columns, because loops
 * over a million targets read only one or two of them, and are faster the narrower these are. 25 bytes a target, 8 to
 * 16 for the index, and the id. Part of the plan; of instances it knows only the numbers.
 */
#ifndef TEN_CORE_PLAN_TARGETS_H
#define TEN_CORE_PLAN_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/names.h"

#define TEN_PLAN_ASIDE  1u /* set aside: it has no planned holder */
#define TEN_PLAN_PINNED 2u /* a pin decides who its planned holder is */

struct ten_plan_targets {
    ten_names names;
    char **ids;             /* NULL: a free number */
    uint64_t *hashes;       /* mixed; of a free number: the next free number + 1, or 0 */
    uint32_t *holders;      /* an instance's number or TEN_PLAN_NONE, which free numbers have too */
    uint32_t *told_holders; /* as last reported */
    uint8_t *aside;         /* has a number, but no part in the matching: TEN_PLAN_ASIDE, TEN_PLAN_PINNED */
    uint32_t bound;         /* all numbers, used and free, are below this */
    uint32_t room;
    uint32_t count;
    uint32_t aside_count; /* of TEN_PLAN_ASIDE */
    uint32_t first_free;  /* number + 1, or 0 */
    uint32_t *index;      /* open addressing: number + 1, or 0 */
    uint32_t index_room;  /* a power of two, at least twice the count */
    uint64_t secret;      /* of the index: who registers targets must not know where they land */
};

void ten_plan_targets_free(struct ten_plan_targets *targets);
/* TEN_PLAN_NONE: not there. */
uint32_t ten_plan_targets_find(const struct ten_plan_targets *targets, const char *id);
/* Adds an id that is not there yet. TEN_PLAN_NONE: out of memory. */
uint32_t ten_plan_targets_add(struct ten_plan_targets *targets, const char *id);
void ten_plan_targets_remove(struct ten_plan_targets *targets, uint32_t number);

#endif
