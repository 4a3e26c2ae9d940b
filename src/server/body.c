/*
 * A request's body as JSON. jansson refuses duplicate keys, bad UTF-8 and trailing junk, and has whole numbers exactly;
 * the depth is looked at before, because it would parse deeper than anybody needs.
 */
#include <jansson.h>
#include <string.h>

#include "base/utf8.h"
#include "server/server_state.h"

#define DEPTH_MAX 16u

static bool is_too_deep(const char *text, size_t size) {
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > DEPTH_MAX)
            return true;
    }
    return false;
}

/* An object; one without a body is empty. NULL: it has been answered. */
struct json_t *ten_body_parse(ten_request *request) {
    json_error_t problem;
    if (request->body.size == 0)
        return json_object();
    if (is_too_deep(request->body.data, request->body.size)) {
        ten_reply_error(request, 400, "bad_request", "the body is nested deeper than %u levels", DEPTH_MAX);
        return NULL;
    }
    if (ten_text_has_nul(request->body.data, request->body.size)) {
        ten_reply_error(request, 400, "bad_request", "the body is not JSON: it contains a NUL");
        return NULL;
    }
    json_t *body = json_loadb(request->body.data, request->body.size, JSON_REJECT_DUPLICATES, &problem);
    if (body && json_is_object(body))
        return body;
    if (body)
        ten_reply_error(request, 400, "bad_request", "the body is to be a JSON object");
    else
        ten_reply_error(request, 400, "bad_request", "the body is not JSON: %s", problem.text);
    json_decref(body);
    return NULL;
}
