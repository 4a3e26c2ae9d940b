/*
 * How a pin of a target is written down: one text, the same in every store, which people can read. Pure. Called by the
 * stores; what a pin does is the plan's business (core/plan.h).
 *
 *   UNTIL to INSTANCE ACTOR REASON        or `not` in the place of `to`
 *
 * UNTIL is Unix time in milliseconds by the store's clock. The others are percent-coded, so that there is no blank, no
 * quote and no backslash in them; `-` is nothing.
 */
#ifndef TEN_RULES_PIN_H
#define TEN_RULES_PIN_H

#include "base/buf.h"
#include "rules/op.h"

#define TEN_PIN_TEXT_MAX 2303u

typedef struct ten_pin_copy {
    ten_pin pin; /* instance NULL: there is none, or it has ended */
    char text[TEN_PIN_TEXT_MAX + 1];
} ten_pin_copy;

/* All but UNTIL, which only the store knows. */
void ten_pin_write(ten_buf *text, const ten_pin *pin);
/* The pin that a store has; NULL: none. now_ms: the store's clock. */
void ten_pin_read(const char *text, uint64_t now_ms, ten_pin_copy *copy);
/* What the feed says of an edit of a registration: reason, instance and actor. */
void ten_pin_tell(const ten_target_edit *edit, ten_change *change);

#endif
