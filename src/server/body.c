/*
 * A request's body as JSON. jansson refuses duplicate keys, bad UTF-8 and trailing text, and keeps integers exact.
 * Depth and size are checked before, because it would parse deeper than any request needs, and its result can be a
 * hundred times as large as the body. Called by fields.c and target_requests.c.
 */
#include <jansson.h>
#include <string.h>

#include "base/utf8.h"
#include "server/server_state.h"

#define DEPTH_MAX      16u
#define CONTAINER_SIZE 256u /* of an object or array, in memory */
#define VALUE_SIZE     64u  /* of anything else */
#define PARSED_MAX     ((size_t)12 * 1024 * 1024)

/* The most memory that the parsed body can take; SIZE_MAX: it is nested too deep. */
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

bool ten_body_parse(ten_request *request) {
    json_error_t problem = {.text = "out of memory"};
    const ten_buf *body = &request->body;
    size_t size = estimate(body->data, body->size);
    if (size == SIZE_MAX)
        return ten_reply_wrong(request, "the body is nested deeper than %u levels", DEPTH_MAX);
    if (size > PARSED_MAX)
        return ten_reply_error(request, 413, "too_large",
                               "the body has too many values: it would need %zu bytes, over %zu", size, PARSED_MAX);
    if (!ten_gate_grow(request, size))
        return false;
    if (ten_text_has_nul(body->data, body->size))
        return ten_reply_wrong(request, "the body is not JSON: it contains a NUL");
    request->json =
        body->size == 0 ? json_object() : json_loadb(body->data, body->size, JSON_REJECT_DUPLICATES, &problem);
    ten_buf_free(&request->body);
    if (json_is_object(request->json))
        return true;
    return request->json ? ten_reply_wrong(request, "the request body must be a JSON object")
                         : ten_reply_wrong(request, "the body is not JSON: %s", problem.text);
}
