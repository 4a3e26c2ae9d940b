/*
 * What an edit does to the registration of a target, pins included, and what a listing shows of it. Pure. Called by
 * store/registry.c and store/listing.c.
 */
#ifndef TEN_RULES_TARGET_ROW_H
#define TEN_RULES_TARGET_ROW_H

#include "base/buf.h"
#include "rules/op.h"
#include "rules/record.h"

typedef struct ten_target_row {
    bool registered;
    tenure_target target; /* without its id */
    const char *pin;      /* as rules/pin.h writes it; NULL: none */
} ten_target_row;

/* The texts lie in `texts`. False: the record is damaged, or out of memory. */
bool ten_target_row_read(const ten_record *record, ten_target_row *row, ten_buf *texts);
void ten_target_row_write(ten_buf *value, const char *old, const ten_target_row *row);

/* Carries out the edit; edit->found says whether the target was registered. `pin`: where the text of a pin lies.
 * Whether something changed, and then *ret_change is for the feed. */
bool ten_target_row_edit(ten_target_row *row, const char *namespace_name, ten_target_edit *edit, uint64_t wall_ms,
                         ten_buf *pin, ten_change *ret_change);

#endif
