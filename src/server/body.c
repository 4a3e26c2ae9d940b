/*
 * A request's body as JSON. jansson refuses duplicate keys, bad UTF-8 and trailing junk, and has whole numbers exactly;
 * depth and size are looked at before, because it would parse deeper than anybody needs, and what it makes of a body can
 * be a hundred times as large.
 */
#include <jansson.h>
#include <string.h>

#include "base/utf8.h"
#include "server/server_state.h"

#define DEPTH_MAX      16u
#define CONTAINER_SIZE 256u /* of an object or array, in memory */
#define VALUE_SIZE     64u  /* of anything else */
#define PARSED_MAX     ((size_t)12 * 1024 * 1024)

/* How large what is parsed will be, at most; SIZE_MAX: it is nested too deep. */
static size_t estimate(const char *text, size_t size) {
    size_t depth = 0;
    size_t parsed = size + CONTAINER_SIZE;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '[')) {
            depth++;
            parsed += CONTAINER_SIZE;
        } else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        else if (!quoted && (c == ',' || c == ':'))
            parsed += VALUE_SIZE;
        if (depth > DEPTH_MAX)
            return SIZE_MAX;
    }
    return parsed;
}

bool ten_body_knows(ten_request *request, const struct json_t *object, const char *const *names) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        const char *const *known = names;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (*known)
            continue;
        ten_reply_error(request, 400, "bad_request", "%.60s: this member is unknown", name);
        return false;
    }
    return true;
}

/* An object; one without a body is empty. NULL: it has been answered. */
struct json_t *ten_body_parse(ten_request *request) {
    json_error_t problem;
    if (request->body.size == 0)
        return json_object();
    size_t size = estimate(request->body.data, request->body.size);
    if (size == SIZE_MAX) {
        ten_reply_error(request, 400, "bad_request", "the body is nested deeper than %u levels", DEPTH_MAX);
        return NULL;
    }
    if (size > PARSED_MAX) {
        ten_reply_error(request, 413, "too_large", "the body has too many values: it would need %zu bytes, over %zu",
                        size, PARSED_MAX);
        return NULL;
    }
    if (!ten_request_uses(request, size))
        return NULL;
    if (ten_text_has_nul(request->body.data, request->body.size)) {
        ten_reply_error(request, 400, "bad_request", "the body is not JSON: it contains a NUL");
        return NULL;
    }
    json_t *body = json_loadb(request->body.data, request->body.size, JSON_REJECT_DUPLICATES, &problem);
    ten_buf_free(&request->body);
    if (body && json_is_object(body))
        return body;
    if (body)
        ten_reply_error(request, 400, "bad_request", "request body must be a JSON object");
    else
        ten_reply_error(request, 400, "bad_request", "the body is not JSON: %s", problem.text);
    json_decref(body);
    return NULL;
}
