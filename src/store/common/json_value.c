/*
 * See json_value.h. Called by the registry of the C API, and by whoever writes targets out.
 */
#include "store/common/json_value.h"

#include <jansson.h>

#include "base/json.h"

int ten_json_value_check(const char *text, ten_error *error) {
    /* Its numbers may be larger than a machine's; nobody computes with them here. */
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
    json_error_t why;
    json_t *value = json_loads(text, flags, &why);
    if (!value)
        return ten_fail(error, TENURE_E_INVALID, "not JSON: %s (column %d)", why.text, why.column);
    json_decref(value);
    return TENURE_OK;
}

void ten_json_value(ten_buf *buf, const char *key, const char *text) {
    ten_error error;
    if (text && ten_json_value_check(text, &error) == TENURE_OK)
        ten_json_raw(buf, key, text);
    else
        ten_json_text(buf, key, text);
}
