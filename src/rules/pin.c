/*
 * The text of a pin. See pin.h.
 */
#include "rules/pin.h"

#include <stdlib.h>
#include <string.h>

#include "base/encode.h"

static void write_part(ten_buf *text, const char *part) {
    ten_buf_char(text, ' ');
    if (part && part[0])
        ten_percent_encode(text, part, "@:+/,()");
    else
        ten_buf_char(text, '-');
}

void ten_pin_write(ten_buf *text, const ten_pin *pin) {
    ten_buf_text(text, pin->away ? "not" : "to");
    write_part(text, pin->instance);
    write_part(text, pin->actor);
    write_part(text, pin->reason);
}

/* The next word, decoded in place; NULL: there is none, or it is `-`. */
static const char *next_part(char **rest) {
    char *word = strsep(rest, " ");
    return word && strcmp(word, "-") != 0 && ten_percent_decode(word, false) ? word : NULL;
}

void ten_pin_read(const char *text, uint64_t now_ms, ten_pin_copy *copy) {
    copy->pin = (ten_pin){0};
    if (!text || strlen(text) > TEN_PIN_TEXT_MAX)
        return;
    memcpy(copy->text, text, strlen(text) + 1);
    char *rest;
    uint64_t until_ms = strtoull(copy->text, &rest, 10);
    if (until_ms <= now_ms || *rest != ' ')
        return;
    rest++;
    const char *word = next_part(&rest);
    bool away = word && strcmp(word, "not") == 0;
    if (!away && (!word || strcmp(word, "to") != 0))
        return;
    copy->pin.instance = next_part(&rest);
    copy->pin.actor = next_part(&rest);
    copy->pin.reason = next_part(&rest);
    copy->pin.away = away;
    copy->pin.until_ms = until_ms;
    copy->pin.left_ms = until_ms - now_ms;
}

void ten_pin_tell(const ten_target_edit *edit, ten_change *change) {
    if (edit->action == TEN_TARGET_PIN) {
        change->reason = edit->pin.away ? TEN_REASON_PINNED_AWAY : TEN_REASON_PINNED;
        change->instance = edit->pin.instance;
    } else if (edit->action == TEN_TARGET_UNPIN) {
        change->reason = TEN_REASON_UNPINNED;
    }
    change->actor = edit->pin.actor ? edit->pin.actor : "";
}
