/*
 * The message of a poll, and the name of the place that it goes to. Called by the agent when a poll is over, and by
 * sinks.
 */
#include "agent/common/message.h"

#include <jansson.h>
#include <string.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/utf8.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The text goes in as it came, so that numbers keep their digits; white space between its tokens may hold line ends,
 * which become blanks. (Inside a JSON string there are none.) */
static void add_json(ten_buf *line, const char *data, size_t size) {
    while (size > 0 && is_blank(data[size - 1]))
        size--;
    ten_buf_text(line, ",\"data\":");
    for (size_t i = 0; i < size; i++)
        ten_buf_char(line, is_blank(data[i]) ? ' ' : data[i]);
}

/* Numbers that are too large for a machine's integer are JSON all the same. */
static bool is_one_json_value(const char *data, size_t size) {
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *value = ten_text_has_nul(data, size) ? NULL : json_loadb(data, size, flags, &error);
    json_decref(value);
    return value != NULL;
}

static void add_data(ten_buf *line, const ten_message *message) {
    size_t size = message->data_size;
    if (is_one_json_value(message->data, size)) {
        add_json(line, message->data, size);
        return;
    }
    /* As text: up to a NUL, and without the newline at its end. */
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    ten_buf_add(&text, message->data, size);
    if (text.size > 0 && text.data[text.size - 1] == '\n')
        text.data[text.size - 1] = '\0';
    line->failed |= text.failed;
    ten_json_text(line, "data", ten_buf_string(&text));
}

void ten_message_write(const ten_message *message, ten_buf *line) {
    ten_json_open(line);
    ten_json_text(line, "target", message->target);
    if (strcmp(message->namespace_name, "scenes") == 0)
        ten_json_text(line, "scene_id", message->target);
    ten_json_text(line, "instance", message->instance);
    ten_json_number(line, "_version", message->token);
    ten_json_time(line, "at", message->at_ms);
    ten_json_bool(line, "ok", !message->error);
    ten_json_number(line, "duration_ms", message->duration_ms);
    if (message->error)
        ten_json_text(line, "error", message->error);
    else
        add_data(line, message);
    ten_json_close(line);
    ten_buf_char(line, '\n');
}

/* ---- names */

enum part { PART_BYTE, PART_BRACE, PART_TARGET, PART_NAMESPACE, PART_WRONG };

static const struct {
    const char *text;
    enum part part;
} parts[] = {{"{target}", PART_TARGET}, {"{namespace}", PART_NAMESPACE}, {"{{", PART_BRACE}, {"{", PART_WRONG}};

/* What the pattern goes on with, and how long that is. */
static enum part next_part(const char *at, size_t *ret_size) {
    for (size_t i = 0; i < TEN_COUNT(parts); i++) {
        *ret_size = strlen(parts[i].text);
        if (strncmp(at, parts[i].text, *ret_size) == 0)
            return parts[i].part;
    }
    *ret_size = 1;
    return PART_BYTE;
}

int ten_message_name_check(const char *pattern, ten_error *error) {
    size_t size;
    for (const char *at = pattern; *at; at += size)
        if (next_part(at, &size) == PART_WRONG)
            return ten_fail(error, TENURE_E_INVALID,
                            "'%.200s' has a brace that means nothing: write {target}, {namespace}, or {{ for a brace",
                            pattern);
    return TENURE_OK;
}

void ten_message_name(const char *pattern, const ten_message *message, const char *reserved, ten_buf *name) {
    size_t size;
    for (const char *at = pattern; *at; at += size) {
        switch (next_part(at, &size)) {
        case PART_TARGET:
            ten_percent_encode_only(name, message->target, reserved);
            break;
        case PART_NAMESPACE:
            ten_percent_encode_only(name, message->namespace_name, reserved);
            break;
        default:
            ten_buf_char(name, *at);
        }
    }
}
