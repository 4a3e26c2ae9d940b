/*
 * What an instance says of itself. Called by context.c, member.c and candidate.c to write it, and by the commands and
 * the server to read it.
 */
#include "runtime/metadata.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/utf8.h"
#include "core/plan.h"
#include "core/turns.h"

/* ---- checks */

static bool is_port(const char *text) {
    size_t size = strlen(text);
    return size > 0 && size <= 5 && strspn(text, "0123456789") == size && atoi(text) > 0 && atoi(text) <= 65535;
}

static bool is_address(const char *text) {
    const char *colon = strrchr(text, ':');
    size_t size = strlen(text);
    return colon && colon != text && size <= TEN_ADDRESS_MAX && is_port(colon + 1) &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:[]%") == size;
}

static bool is_label_name(const char *text, size_t size) {
    return size > 0 && size <= TEN_LABEL_MAX &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") >= size;
}

static bool is_label_value(const char *text) {
    return strlen(text) <= TEN_VALUE_MAX && ten_utf8_is_printable(text, strlen(text));
}

/* ---- writing */

static int check_labels(const tenure_options *options, ten_error *error) {
    if (options->label_count > TEN_LABELS_MAX)
        return ten_fail(error, TENURE_E_INVALID, "an instance has at most %u labels, and %zu were given",
                        TEN_LABELS_MAX, options->label_count);
    for (size_t i = 0; i < options->label_count; i++) {
        const char *label = options->labels ? options->labels[i] : NULL;
        size_t size = label ? strcspn(label, "=") : 0;
        if (!label || label[size] == '\0' || !is_label_name(label, size) || !is_label_value(label + size + 1))
            return ten_fail(error, TENURE_E_INVALID,
                            "label '%.80s' is not valid: it is NAME=VALUE; a name has 1 to %u of A-Z a-z 0-9 . _ - /, "
                            "a value up to %u bytes without control characters",
                            label ? label : "", TEN_LABEL_MAX, TEN_VALUE_MAX);
        for (size_t j = 0; j < i; j++)
            if (strncmp(options->labels[j], label, size + 1) == 0)
                return ten_fail(error, TENURE_E_INVALID, "label '%.*s' is given twice", (int)size, label);
    }
    return TENURE_OK;
}

int ten_metadata_identity(const tenure_options *options, ten_buf *members, ten_error *error) {
    if (options->address && !is_address(options->address))
        return ten_fail(error, TENURE_E_INVALID, "address '%.80s' is not valid: it is HOST:PORT", options->address);
    int r = check_labels(options, error);
    if (r < 0)
        return r;
    if (options->address) {
        ten_buf_text(members, ",\"address\":");
        ten_json_string(members, options->address);
    }
    for (size_t i = 0; i < options->label_count; i++) {
        char name[TEN_LABEL_MAX + 1];
        size_t size = strcspn(options->labels[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)size, options->labels[i]);
        ten_buf_text(members, i ? "," : ",\"labels\":{");
        ten_json_string(members, name);
        ten_buf_char(members, ':');
        ten_json_string(members, options->labels[i] + size + 1);
    }
    if (options->label_count)
        ten_buf_char(members, '}');
    return members->failed ? ten_fail_memory(error, "the labels") : TENURE_OK;
}

void ten_metadata_write(const ten_metadata *metadata, ten_buf *text) {
    ten_json_open(text);
    ten_json_text(text, "version", TENURE_VERSION);
    ten_json_number(text, "plan", TEN_PLAN_VERSION);
    if (metadata->role)
        ten_json_text(text, "role", metadata->role);
    if (metadata->is_lock)
        ten_json_text(text, "kind", TEN_TURNS_LOCK);
    if (metadata->priority)
        ten_buf_format(text, ",\"priority\":%lld", (long long)metadata->priority);
    if (metadata->isolation)
        ten_json_text(text, "isolation", metadata->isolation);
    ten_buf_text(text, metadata->identity ? metadata->identity : "");
    ten_json_close(text);
}

/* ---- reading */

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void read_labels(const json_t *labels, ten_buf *to) {
    const char *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach((json_t *)labels, name, value) {
        if (!is_label_name(name, strlen(name)) || !json_is_string(value) || !is_label_value(json_string_value(value)) ||
            count == TEN_LABELS_MAX)
            continue;
        if (count++ == 0)
            ten_json_open(to);
        ten_json_text(to, name, json_string_value(value));
    }
    if (count)
        ten_json_close(to);
}

void ten_metadata_read(const char *text, ten_metadata_shown *shown) {
    ten_error error;
    *shown = (ten_metadata_shown){0};
    json_t *metadata = text ? json_loads(text, 0, NULL) : NULL;
    const char *role = text_of(metadata, "role");
    const char *address = text_of(metadata, "address");
    const char *isolation = text_of(metadata, "isolation");
    if (role[0] && ten_id_check_role(role, &error) == TENURE_OK)
        snprintf(shown->role, sizeof shown->role, "%s", role);
    if (is_address(address))
        snprintf(shown->address, sizeof shown->address, "%s", address);
    if (isolation[strspn(isolation, "abcdefghijklmnopqrstuvwxyz-")] == '\0')
        snprintf(shown->isolation, sizeof shown->isolation, "%.20s", isolation);
    shown->is_lock = shown->role[0] && strcmp(text_of(metadata, "kind"), TEN_TURNS_LOCK) == 0;
    shown->priority = json_integer_value(json_object_get(metadata, "priority"));
    read_labels(json_object_get(metadata, "labels"), &shown->labels);
    json_decref(metadata);
}

void ten_metadata_free(ten_metadata_shown *shown) {
    ten_buf_free(&shown->labels);
}

void ten_metadata_show_labels(const ten_metadata_shown *shown, ten_buf *text) {
    json_t *labels = shown->labels.size ? json_loads(ten_buf_string(&shown->labels), 0, NULL) : NULL;
    const char *name;
    json_t *value;
    json_object_foreach(labels, name, value) {
        ten_buf_format(text, "%s%s=%s", text->size ? "," : "", name, json_string_value(value));
    }
    json_decref(labels);
}
