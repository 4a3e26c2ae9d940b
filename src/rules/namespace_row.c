/*
 * Namespaces and their epochs. See namespace_row.h.
 */
#include "rules/namespace_row.h"

#include <tenure.h>

#include "base/util.h"
#include "rules/value.h"

static const ten_value_field namespace_fields[] = {
    {"floor", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, token_floor)},
    {"forgotten", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, forgotten)},
    {"longest", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, longest_ms)},
    {"fleet", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, fleet_ttl_ms)},
    {"keyed", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, fleet_keyed)},
    {"first", TEN_VALUE_NUMBER, offsetof(ten_namespace_row, first)},
};

bool ten_namespace_row_read(const ten_record *record, ten_namespace_row *row) {
    *row = (ten_namespace_row){.exists = record->version != 0, .epoch = record->version ? record->number : 0};
    return !row->exists || ten_value_read(record->value, namespace_fields, TEN_COUNT(namespace_fields), row, NULL);
}

void ten_namespace_row_write(ten_buf *value, const char *old, const ten_namespace_row *row) {
    ten_value_write(value, old, namespace_fields, TEN_COUNT(namespace_fields), row);
}

ten_namespace_row ten_namespace_row_new(void) {
    return (ten_namespace_row){.exists = true, .epoch = 1};
}

/* The number of the epoch is above the wall clock, too: a store that was emptied begins again with a row of zeros, and
 * what was prepared before must not find the number that it relies on. Cursors of the feed leap over all that a lost
 * part of it may have given: more than a million entries a second there are not. */
uint64_t ten_namespace_row_begin_epoch(ten_namespace_row *row, const ten_loss *loss) {
    uint64_t known_ms = ten_max_u64(row->longest_ms, loss->shown_ms);
    row->exists = true;
    row->epoch = ten_max_u64(row->epoch + 1, ten_min_u64(loss->wall_ms, TENURE_TOKEN_MAX / 2));
    /* What was granted in this very millisecond may be lost, too. */
    row->token_floor = ten_max_u64(row->token_floor, ten_min_u64(loss->wall_ms + 1, TENURE_TOKEN_MAX / 2));
    row->first = ten_max_u64(row->first + 1, ten_min_u64(loss->wall_ms, TENURE_TOKEN_MAX / 2000) * 1000);
    row->longest_ms = known_ms;
    return loss->lost_ms == TEN_FOREVER ? ten_max_u64(known_ms, loss->least_ms) : loss->lost_ms;
}

uint64_t ten_quarantine_left_ms(const ten_record *quarantine, uint64_t ttl_ms) {
    if (quarantine->alive)
        return quarantine->left_ms;
    bool is_for_all = quarantine->version == 0 || quarantine->number == 0;
    return is_for_all ? 0 : ten_sub_saturating(ten_sub_saturating(ttl_ms, quarantine->number), quarantine->ended_ms);
}
