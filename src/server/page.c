/*
 * The web page: the files of web/ at / and /web/NAME, with headers that let a browser run and fetch nothing else. It
 * knows nothing of leases: the page reads the API like any other client, with the token of its user. Called
 * by request.c and reply.c.
 */
#include "server/page.h"

#include <string.h>

#include "server/server_state.h"

static const ten_page_file *find_file(const char *name) {
    for (const ten_page_file *file = ten_page_files; file->name; file++)
        if (strcmp(file->name, name[0] ? name : "index.html") == 0)
            return file;
    return NULL;
}

static const char *type_of(const char *name) {
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < TEN_COUNT(types); i++)
        if (strcmp(ending, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

/* If-None-Match is a list of tags, weak ones too, or a star. A tag has its quotes, so that it is found whole. */
static bool is_known(const ten_request *request, const char *etag) {
    const char *known = ten_request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    return known && (strcmp(known, "*") == 0 || strstr(known, etag));
}

bool ten_server_page_get(ten_request *request) {
    const ten_page_file *file = find_file(request->route.id);
    if (!file)
        return ten_reply_error(request, 404, "not_found", "not found");
    ten_reply_header(request, "ETag", "%s", file->etag);
    if (is_known(request, file->etag))
        return ten_reply_status(request, 304);
    ten_reply_status(request, 200);
    request->type = type_of(file->name);
    ten_buf_text(&request->reply, file->text);
    return false;
}

void ten_page_headers(const ten_request *request, struct MHD_Response *response) {
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
         "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
    };
    for (size_t i = 0; i < TEN_COUNT(headers); i++)
        (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
    /* Kept, and asked for again each time: another version of the program may be there by then. */
    bool is_file = request->status == 200 || request->status == 304;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, is_file ? "no-cache" : "no-store");
}
