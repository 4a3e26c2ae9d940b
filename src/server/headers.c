/*
 * What the headers of a request say, beside who sent it: whether they can be understood in one way only, by which
 * name the server was called, from which site, and how long the body is. Each check answers the request if it fails.
 * Called by request.c, in the HTTP thread.
 */
#include <string.h>

#include "base/host.h"
#include "server/server_state.h"

const char *ten_request_header(const ten_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static bool is_host(const char *host, size_t length, const char *name) {
    return strlen(name) == length && strncasecmp(host, name, length) == 0;
}

/* By which names it may be called: a page of another site that has made its own name point here is refused. */
static bool is_our_host(const ten_request *request, const char *host) {
    const ten_server_config *config = request->server->config;
    size_t length = ten_host_length(host);
    if (length == SIZE_MAX)
        return false;
    if (ten_host_is_loopback(host))
        return true;
    const char *address = request->server->address;
    if (ten_host_length(address) == length && strncasecmp(host, address, length) == 0)
        return true;
    for (size_t i = 0; i < config->host_count; i++)
        if (is_host(host, length, config->hosts[i]) || is_host(host, strlen(host), config->hosts[i]))
            return true;
    return false;
}

static bool is_foreign(const char *origin, const char *host) {
    const char *at = strstr(origin, "://");
    return !at || !host || strcasecmp(at + 3, host) != 0;
}

/* libmicrohttpd has a bounded room for each connection, and closes one without an answer if the parts of a query do
 * not fit into it. So the query is cut before: in libmicrohttpd's own copy, which nothing else reads. */
void *ten_headers_note_uri(void *server, const char *uri, struct MHD_Connection *connection) {
    ten_connection *ours = ten_connection_of(connection);
    union {
        const char *given;
        char *ours;
    } text = {uri};
    (void)server;
    if (!ours || !uri)
        return NULL;
    ours->uri_end = uri + strlen(uri);
    char *at = strchr(text.ours, '?');
    for (size_t count = 0; at && count < TEN_ARGUMENTS_MAX; count++)
        at = strchr(at + 1, '&');
    ours->many_arguments = at != NULL;
    if (at)
        *at = '\0';
    return NULL;
}

/* Whether there are only line ends and blanks between two parts of the head. libmicrohttpd ends a text at a NUL that
 * the client has sent, and passes over what follows. Parts that are not in one buffer are not compared. */
static bool adjoins(const char *end, const char *next, size_t most) {
    uintptr_t distance = (uintptr_t)next - (uintptr_t)end;
    size_t ends = 0;
    for (size_t i = 0; distance <= TEN_HEADER_MAX && i < distance; i++) {
        if (end[i] != '\0' && !strchr(" \t\r\n", end[i]))
            return false;
        ends += end[i] != ' ' && end[i] != '\t';
    }
    return ends <= most;
}

/* Several of one of these, or two that say how long the body is, or one that is not written as RFC 9112 has it: a proxy
 * between the client and this server may have understood something else. */
struct framing {
    unsigned hosts, lengths, encodings, authorizations, types;
    const char *encoding;
    const char *end; /* of the last header that was checked */
    bool malformed;
};

/* The length of the token (RFC 9110) at the start; nearly all are letters and dashes. */
static size_t token_length(const char *text) {
    size_t length = 0;
    for (unsigned char c; (c = (unsigned char)text[length]); length++) {
        unsigned char lower = c | 0x20;
        if ((lower < 'a' || lower > 'z') && c != '-' && (c < '0' || c > '9') && !strchr("!#$%&'*+.^_`|~", c))
            break;
    }
    return length;
}

/* A name is a token, without blanks before its colon, and a value has no control character. libmicrohttpd (0.9.75)
 * appends a folded line to the name, not to the value, so "Content: 5" with "-Length" on the next line would become a
 * length. It has to move the name for that: one that its value does not follow was folded. */
static bool is_well_formed(const char *name, const char *value) {
    size_t length = strlen(name);
    if (length == 0 || token_length(name) != length || !value)
        return false;
    const char *between = name + length + 1;
    uintptr_t distance = (uintptr_t)value - (uintptr_t)between;
    if (value[0] && (distance > TEN_HEADER_MAX || strspn(between, " \t") < distance))
        return false;
    for (const char *at = value; *at; at++)
        if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return false;
    return true;
}

/* Whether it begins with the name of a header that is checked here, and goes on: a folded one without a value. */
static bool is_continued(const char *name, const char *framing_name) {
    size_t length = strlen(framing_name);
    return strncasecmp(name, framing_name, length) == 0 && name[length] != '\0';
}

static enum MHD_Result note_header(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct framing *framing = userdata;
    (void)kind;
    framing->malformed |= !is_well_formed(name, value) || !adjoins(framing->end, name, 2) ||
                          is_continued(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
                          is_continued(name, MHD_HTTP_HEADER_CONTENT_LENGTH);
    framing->end = value ? value + strlen(value) : name + strlen(name);
    framing->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    framing->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    framing->authorizations += strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0;
    framing->types += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_TYPE) == 0;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->encodings++;
        framing->encoding = value;
    }
    return MHD_YES;
}

bool ten_headers_check_framing(ten_request *request, const char *method, const char *version) {
    struct framing framing = {.end = version + strlen(version)};
    const ten_connection *ours = ten_connection_of(request->connection);
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, note_header, &framing);
    if (size && size->header_size > TEN_HEADER_MAX) {
        ten_reply_error(request, 431, "too_large", "the request line and the headers are over %u bytes",
                        TEN_HEADER_MAX);
    } else if (ours && ours->many_arguments) {
        ten_reply_error(request, 414, "too_large", "the query has more than %u parameters", TEN_ARGUMENTS_MAX);
    } else if ((ours && !adjoins(ours->uri_end, version, 1)) ||
               (size && !adjoins(framing.end, method + size->header_size, 4))) {
        ten_reply_wrong(request, "a header is folded over two lines, or it or the request line contains a NUL");
    } else if (framing.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0) {
        ten_reply_wrong(request, "missing Host header");
    } else if (framing.malformed) {
        ten_reply_error(
            request, 400, "bad_request",
            "malformed header: it has blanks before its colon, a folded line, a control character or a NUL");
    } else if (framing.hosts > 1 || framing.lengths > 1 || framing.authorizations > 1 || framing.types > 1 ||
               framing.lengths + framing.encodings > 1) {
        ten_reply_wrong(request, "duplicate or conflicting header");
    } else if (framing.encodings && (!framing.encoding || strcasecmp(framing.encoding, "chunked") != 0)) {
        ten_reply_wrong(request, "unsupported Transfer-Encoding: only chunked is accepted");
    } else {
        return true;
    }
    request->unread = true;
    return false;
}

bool ten_headers_check_host(ten_request *request) {
    const char *host = ten_request_header(request, MHD_HTTP_HEADER_HOST);
    const char *origin = ten_request_header(request, MHD_HTTP_HEADER_ORIGIN);
    if (host && host[0] && !is_our_host(request, host))
        return ten_reply_error(request, 421, "bad_request", "host '%.100s' is not allowed; allow it with --host", host);
    if (origin && request->method != TEN_GET && is_foreign(origin, host))
        return ten_reply_error(request, 403, "forbidden", "requests from pages of other sites are refused");
    return true;
}

bool ten_headers_check_type(ten_request *request) {
    const char *type = ten_request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    size_t length = type ? strcspn(type, "; \t") : 0;
    if (request->method == TEN_GET || length == 0 || is_host(type, length, "application/json") ||
        is_host(type, length, "application/x-www-form-urlencoded"))
        return true;
    return ten_reply_error(request, 415, "unsupported_type",
                           "the request body must be JSON (Content-Type: application/json)");
}

bool ten_headers_check_length(ten_request *request) {
    const char *length = ten_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    size_t most = request->operation->body_max;
    if (!length || strtoull(length, NULL, 10) <= most)
        return true;
    ten_reply_error(request, 413, "too_large", "the body is over %zu bytes", most);
    /* A client that does not wait to be asked for its body would not see an answer that comes before it was read. */
    request->unread =
        ten_request_header(request, MHD_HTTP_HEADER_EXPECT) != NULL || strtoull(length, NULL, 10) > TEN_DISCARD_MAX;
    return false;
}
