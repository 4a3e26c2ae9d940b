/*
 * How an entry of the feed is written: a value as rules/value.h has it. The store adds the number and the time. Pure.
 * Called by store/apply.c and store/changes.c.
 */
#ifndef TEN_RULES_FEED_H
#define TEN_RULES_FEED_H

#include "base/buf.h"
#include "rules/op.h"

/* change->at_ms: when it happened, if that was before wall_ms; 0: now. */
void ten_feed_write(ten_buf *text, const ten_change *change, uint64_t wall_ms);
/* The rest of *change than the cursor. The texts lie in `texts`. False: it says nothing, or nothing that this version
 * knows. */
bool ten_feed_read(const char *text, uint64_t at_ms, ten_change *change, ten_buf *texts);
/* Whether it goes with the counter of its target when that is forgotten. That a target was registered or removed stays:
 * whoever has not read it yet must hear of it, since it is not told again. */
bool ten_feed_is_of_lease(const ten_change *change);

#endif
