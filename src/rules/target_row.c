/*
 * Registrations. See target_row.h.
 */
#include "rules/target_row.h"

#include "rules/pin.h"
#include "rules/value.h"

struct target_value {
    const char *url, *exec, *spec, *pin;
    uint64_t every_ms, paused;
};

static const ten_value_field target_fields[] = {
    {"url", TEN_VALUE_TEXT, offsetof(struct target_value, url)},
    {"exec", TEN_VALUE_TEXT, offsetof(struct target_value, exec)},
    {"spec", TEN_VALUE_TEXT, offsetof(struct target_value, spec)},
    {"pin", TEN_VALUE_TEXT, offsetof(struct target_value, pin)},
    {"every", TEN_VALUE_NUMBER, offsetof(struct target_value, every_ms)},
    {"paused", TEN_VALUE_NUMBER, offsetof(struct target_value, paused)},
};

bool ten_target_row_read(const ten_record *record, ten_target_row *row, ten_buf *texts) {
    struct target_value value = {0};
    *row = (ten_target_row){.registered = record->version != 0};
    if (row->registered && !ten_value_read(record->value, target_fields, TEN_COUNT(target_fields), &value, texts))
        return false;
    row->target = (tenure_target){.url = value.url,
                                  .exec = value.exec,
                                  .spec = value.spec,
                                  .every_ms = value.every_ms,
                                  .paused = value.paused != 0};
    row->pin = value.pin;
    return true;
}

void ten_target_row_write(ten_buf *out, const char *old, const ten_target_row *row) {
    struct target_value value = {.url = row->target.url,
                                 .exec = row->target.exec,
                                 .spec = row->target.spec,
                                 .pin = row->pin,
                                 .every_ms = row->target.every_ms,
                                 .paused = row->target.paused};
    ten_value_write(out, old, target_fields, TEN_COUNT(target_fields), &value);
}

static void set_pin(ten_target_row *row, const ten_pin *pin, uint64_t wall_ms, ten_buf *text) {
    ten_buf_clear(text);
    ten_buf_format(text, "%llu ", (unsigned long long)(wall_ms + pin->left_ms));
    ten_pin_write(text, pin);
    row->pin = ten_buf_string(text);
}

bool ten_target_row_edit(ten_target_row *row, const char *namespace_name, ten_target_edit *edit, uint64_t wall_ms,
                         ten_buf *pin, ten_change *ret_change) {
    edit->found = row->registered;
    if (!edit->found && edit->action != TEN_TARGET_PUT)
        return false;
    switch (edit->action) {
    case TEN_TARGET_PUT:
        row->target = edit->target;
        row->registered = true;
        break;
    case TEN_TARGET_REMOVE:
        row->registered = false;
        break;
    case TEN_TARGET_PAUSE:
    case TEN_TARGET_RESUME:
        row->target.paused = edit->action == TEN_TARGET_PAUSE;
        break;
    case TEN_TARGET_PIN:
        set_pin(row, &edit->pin, wall_ms, pin);
        break;
    case TEN_TARGET_UNPIN:
        row->pin = NULL;
        break;
    }
    *ret_change = (ten_change){.kind = !row->registered ? TENURE_EVENT_TARGET_REMOVED
                                       : edit->found    ? TENURE_EVENT_TARGET_CHANGED
                                                        : TENURE_EVENT_TARGET_ADDED,
                               .namespace_name = namespace_name,
                               .target = edit->target.id,
                               .instance = "",
                               .actor = ""};
    ten_pin_tell(edit, ret_change);
    return true;
}
