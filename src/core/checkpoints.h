/*
 * The checkpoints of what a fleet member holds: those that came with each grant, and those that its program writes.
 * Pure: it makes the requests and takes the answers, as a part of the engine (core/engine.h). It decides nothing about
 * leases: the store compares the token, and a stale write changes nothing. Used by the runtime's fleet member and by
 * tests.
 *
 * A write is repeated until the store has answered it: the same text under the same token is harmless to repeat, and a
 * target has one write at a time. While the store recovers from a loss it takes none, and is asked again.
 */
#ifndef TEN_CORE_CHECKPOINTS_H
#define TEN_CORE_CHECKPOINTS_H

#include "base/map.h"
#include "core/engine.h"

#define TEN_CHECKPOINTS_BATCH 250u /* writes of one request */

typedef struct ten_checkpoint_entry ten_checkpoint_entry;

typedef struct ten_checkpoints {
    const char *namespace_name; /* these two are the caller's, and outlive it */
    const char *instance;
    /* For TEN_FACT_WRITTEN. Its error is 0; TENURE_E_LOST: the lease is not held under that token, and nothing was
     * written; else the error for which the write was given up. It must not be called meanwhile, except for reading. */
    const ten_event_queue *events;
    ten_map entries;
    ten_checkpoint_entry *first; /* that wait to be sent, oldest first */
    ten_checkpoint_entry **last;
    uint64_t wait_until_ms; /* the store recovers: nothing is sent before */
    ten_op ops[TEN_CHECKPOINTS_BATCH];
    ten_checkpoint_entry *sent[TEN_CHECKPOINTS_BATCH];
    size_t sent_count; /* in flight */
} ten_checkpoints;

void ten_checkpoints_init(ten_checkpoints *checkpoints);
void ten_checkpoints_free(ten_checkpoints *checkpoints);

/* The target was granted under that token, and this came along; NULL: nothing. A write under an older token is over.
 * False: out of memory, and nothing is known. */
bool ten_checkpoints_grant(ten_checkpoints *checkpoints, const char *target, uint64_t token, const char *value);
/* The lease has ended: what is known is forgotten, and a write that waits is over. */
void ten_checkpoints_drop(ten_checkpoints *checkpoints, const char *target);
/* Writes this value; "" removes it. TEN_FACT_WRITTEN says when that is done. TENURE_E_LOST: a newer token is known;
 * TENURE_E_INVALID: the last write is not answered yet; TENURE_E_NOMEM. */
int ten_checkpoints_write(ten_checkpoints *checkpoints, const char *target, uint64_t token, const char *value);
/* What the store has, as far as is known under that token; NULL: nothing. Valid until something is written. */
const char *ten_checkpoints_value(const ten_checkpoints *checkpoints, const char *target, uint64_t token);

/* As a part of the engine. */
void ten_checkpoints_step(void *checkpoints, const ten_engine_event *event, ten_part_update *update);
void ten_checkpoints_due(const void *checkpoints, uint64_t now_ms, ten_part_due *due);

#endif
