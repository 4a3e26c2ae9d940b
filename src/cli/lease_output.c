/*
 * A lease on standard output. Called by show and ls.
 */
#include "cli/lease_output.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"

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

void ten_print_info_json(const tenure_info *info, const char *namespace_name, const char *planned) {
    ten_buf line = {0};
    ten_json_open(&line);
    ten_json_text(&line, "target", info->target);
    ten_json_text(&line, "namespace", namespace_name);
    ten_json_text(&line, "instance", info->holder[0] ? info->holder : NULL);
    ten_json_number(&line, "token", info->token);
    ten_json_text(&line, "state", ten_state_word(info));
    ten_json_text(&line, "planned", planned && planned[0] ? planned : NULL);
    ten_json_time(&line, "acquired_at", info->acquired_at_ms);
    ten_json_time(&line, "renewed_at", info->renewed_at_ms);
    ten_json_time(&line, "expires_at", info->expires_at_ms);
    ten_json_number(&line, "remaining_ms", info->remaining_ms);
    ten_json_number(&line, "ttl_ms", info->ttl_ms);
    ten_json_bool(&line, "registered", info->registered);
    ten_json_bool(&line, "paused", info->paused);
    if (info->pin_instance[0]) {
        ten_json_text(&line, info->pin_away ? "pinned_away" : "pinned", info->pin_instance);
        ten_json_number(&line, "pin_remaining_ms", info->pin_remaining_ms);
    }
    ten_json_close(&line);
    puts(ten_buf_string(&line));
    ten_buf_free(&line);
}
