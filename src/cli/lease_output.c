/*
 * A lease on standard output. Called by show, ls and status.
 */
#include "cli/lease_output.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/util.h"
#include "cli/table.h"

const char *ten_state_word(const tenure_info *info) {
    if (info->holder[0] == '\0')
        return "free";
    return info->barred ? "forced" : "held";
}

void ten_print_pin_words(const tenure_info *info, char words[TEN_PIN_WORDS_SIZE]) {
    char instance[TENURE_HOLDER_MAX + 1];
    ten_id_shorten(info->pin_instance, instance);
    snprintf(words, TEN_PIN_WORDS_SIZE, "%s%s",
             info->pin_instance[0] == '\0' ? ""
             : info->pin_away              ? "kept away from "
                                           : "pinned to ",
             instance);
}

static void print(const tenure_info *info, const char *namespace_name, const char *planned, const char *pin,
                  const char *pin_reason, bool json) {
    const char *pinned = ten_or_null(info->pin_instance);
    const ten_cell cells[] = {
        {"target", "target", .text = info->target},
        {"namespace", "namespace", .text = namespace_name},
        {"state", NULL, .text = ten_state_word(info)},
        {"instance", "instance", .text = ten_or_null(info->holder)},
        {"token", "token", TEN_COLUMN_NUMBER, .number = info->token},
        {NULL, "state", .text = ten_state_word(info)},
        {NULL, "planned", .text = ten_or_null(planned)},
        {"acquired_at", "acquired_at", TEN_COLUMN_TIME, .number = info->acquired_at_ms},
        {"renewed_at", "renewed_at", TEN_COLUMN_TIME, .number = info->renewed_at_ms},
        {"expires_at", "expires_at", TEN_COLUMN_TIME, .number = info->expires_at_ms},
        {"remaining", NULL, TEN_COLUMN_PERIOD, .number = info->holder[0] ? info->remaining_ms : TEN_NONE},
        {NULL, "remaining_ms", TEN_COLUMN_NUMBER, .number = info->remaining_ms},
        {NULL, "ttl_ms", TEN_COLUMN_NUMBER, .number = info->ttl_ms},
        {"registered", NULL,
         .text = !info->registered ? "no"
                 : info->paused    ? "yes, paused"
                                   : "yes"},
        {NULL, "registered", TEN_COLUMN_BOOL, .number = info->registered},
        {NULL, "paused", TEN_COLUMN_BOOL, .number = info->paused},
        {"pinned", NULL, .text = pin},
        {"reason", NULL, .text = pin_reason},
        {NULL, "pinned", TEN_COLUMN_TEXT, .optional = true, .text = info->pin_away ? NULL : pinned},
        {NULL, "pinned_away", TEN_COLUMN_TEXT, .optional = true, .text = info->pin_away ? pinned : NULL},
        {NULL, "pin_remaining_ms", TEN_COLUMN_NUMBER, .number = pinned ? info->pin_remaining_ms : TEN_NONE},
    };
    if (json)
        ten_print_row(true, cells, TEN_COUNT(cells));
    else
        ten_print_lines(cells, TEN_COUNT(cells));
}

int ten_lease_print_json(const tenure_info *info, const char *namespace_name, const char *planned) {
    print(info, namespace_name, planned, NULL, NULL, true);
    return ferror(stdout) ? 1 : 0;
}

void ten_lease_print_lines(const tenure_info *info, const char *namespace_name, const tenure_pin *pin) {
    char instance[TENURE_HOLDER_MAX + 1];
    char left[TEN_DURATION_SIZE];
    char text[2 * TENURE_HOLDER_MAX + 64] = "";
    ten_id_shorten(pin->instance, instance);
    ten_duration_show(pin->remaining_ms, left);
    if (pin->instance[0])
        snprintf(text, sizeof text, "%s%s, for %s, by %s", pin->away ? "away from " : "to ", instance, left,
                 pin->actor[0] ? pin->actor : "-");
    print(info, namespace_name, NULL, ten_or_null(text), ten_or_null(pin->reason), false);
}
