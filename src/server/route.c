/*
 * Routes. Called by request.c.
 */
#include "server/route.h"

#include <string.h>

#include "base/encode.h"
#include "base/id.h"

#define SEGMENTS_MAX 6u

enum ten_method ten_method_parse(const char *word) {
    static const struct {
        const char *word;
        enum ten_method method;
    } methods[] = {{"GET", TEN_GET}, {"HEAD", TEN_GET}, {"POST", TEN_POST}, {"PUT", TEN_PUT}, {"DELETE", TEN_DELETE}};
    for (size_t i = 0; i < TEN_COUNT(methods); i++)
        if (strcmp(word, methods[i].word) == 0)
            return methods[i].method;
    return TEN_OTHER_METHOD;
}

const char *ten_method_name(enum ten_method method) {
    switch (method) {
    case TEN_GET:
        return "GET";
    case TEN_POST:
        return "POST";
    case TEN_PUT:
        return "PUT";
    case TEN_DELETE:
        return "DELETE";
    default:
        return "another method";
    }
}

unsigned ten_route_methods(enum ten_route_kind kind) {
    static const unsigned methods[] = {
#define X(name, word, known) known,
        TEN_ROUTES(X)
#undef X
    };
    return methods[kind];
}

const char *ten_route_name(enum ten_route_kind kind) {
    static const char *const names[] = {
#define X(name, word, known) word,
        TEN_ROUTES(X)
#undef X
    };
    return names[kind];
}

/* Splits at slashes, then decodes. False: malformed, or too many. */
static bool split(char *path, char *segments[SEGMENTS_MAX], size_t *ret_count) {
    size_t count = 0;
    for (char *at = path; at;) {
        char *slash = strchr(at, '/');
        if (slash)
            *slash++ = '\0';
        if (count == SEGMENTS_MAX || !ten_percent_decode(at, false))
            return false;
        segments[count++] = at;
        at = slash;
    }
    *ret_count = count;
    return true;
}

static enum ten_route_kind bad_path(ten_route *route, const char *why) {
    (void)ten_fail(&route->error, TENURE_E_INVALID, "%s", why);
    return TEN_ROUTE_BAD_PATH;
}

bool ten_route_is_reserved(const char *word) {
    static const char *const words[] = {"nodes", "leases", "events", "history"};
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static enum ten_route_kind collection(const char *word) {
    if (strcmp(word, "leases") == 0)
        return TEN_ROUTE_BATCH;
    if (strcmp(word, "events") == 0)
        return TEN_ROUTE_EVENTS;
    return strcmp(word, "history") == 0 ? TEN_ROUTE_HISTORY : TEN_ROUTE_NODES;
}

/* What follows /api/v1/{ns}/. */
static enum ten_route_kind below_namespace(ten_route *route, char *const *segments, size_t count) {
    if (count == 1 && ten_route_is_reserved(segments[0]))
        return collection(segments[0]);
    bool is_node = count == 2 && strcmp(segments[0], "nodes") == 0;
    const char *id = segments[is_node ? 1 : 0];
    if (!is_node && ten_route_is_reserved(id))
        return TEN_ROUTE_NOT_FOUND;
    if ((is_node ? ten_id_check_holder(id, &route->error) : ten_id_check_target(id, &route->error)) < 0)
        return TEN_ROUTE_BAD_PATH;
    ten_copy_text(route->id, sizeof route->id, id);
    if (is_node)
        return TEN_ROUTE_NODE;
    if (count == 1)
        return strcmp(id, "forget") == 0 ? TEN_ROUTE_FORGET : TEN_ROUTE_TARGET;
    if (count == 2 && strcmp(segments[1], "checkpoint") == 0)
        return TEN_ROUTE_CHECKPOINT;
    if (count == 2 && strcmp(segments[1], "pin") == 0)
        return TEN_ROUTE_PIN;
    if (count == 2 && strcmp(segments[1], "owner") == 0)
        return TEN_ROUTE_OWNER;
    if (strcmp(segments[1], "lease") != 0)
        return TEN_ROUTE_NOT_FOUND;
    if (count == 2)
        return TEN_ROUTE_LEASE;
    if (count != 3)
        return TEN_ROUTE_NOT_FOUND;
    return strcmp(segments[2], "renew") == 0  ? TEN_ROUTE_RENEW
           : strcmp(segments[2], "hand") == 0 ? TEN_ROUTE_HAND
                                              : TEN_ROUTE_NOT_FOUND;
}

static enum ten_route_kind single(const char *word) {
    static const struct {
        const char *word;
        enum ten_route_kind kind;
    } words[] = {{"", TEN_ROUTE_PAGE},
                 {"metrics", TEN_ROUTE_METRICS},
                 {"healthz", TEN_ROUTE_HEALTHZ},
                 {"readyz", TEN_ROUTE_READYZ},
                 {"openapi.json", TEN_ROUTE_OPENAPI}};
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (strcmp(word, words[i].word) == 0)
            return words[i].kind;
    return TEN_ROUTE_NOT_FOUND;
}

static enum ten_route_kind find(ten_route *route, char *path) {
    char *segments[SEGMENTS_MAX] = {0};
    size_t count = 0;
    if (!split(path, segments, &count))
        return bad_path(route, "the path is malformed: an id in it is percent-encoded, its slashes as %2F");
    if (strcmp(segments[0], "scenes") == 0)
        return TEN_ROUTE_REDIRECT;
    if (count == 1)
        return single(segments[0]);
    if (count == 2 && strcmp(segments[0], "web") == 0) {
        ten_copy_text(route->id, sizeof route->id, segments[1]);
        return TEN_ROUTE_PAGE;
    }
    if (count < 2 || strcmp(segments[0], "api") != 0 || strcmp(segments[1], "v1") != 0)
        return TEN_ROUTE_NOT_FOUND;
    if (count == 2)
        return TEN_ROUTE_NAMESPACES;
    if (ten_id_check_namespace(segments[2], &route->error) < 0)
        return TEN_ROUTE_BAD_PATH;
    ten_copy_text(route->namespace_name, sizeof route->namespace_name, segments[2]);
    return count == 3 ? TEN_ROUTE_TARGETS : below_namespace(route, segments + 3, count - 3);
}

void ten_route_parse(const char *path, ten_route *route) {
    char copy[2048];
    *route = (ten_route){.kind = TEN_ROUTE_NOT_FOUND};
    if (path[0] != '/')
        return;
    if (strlen(path) >= sizeof copy) {
        route->kind = bad_path(route, "the path is too long");
        return;
    }
    ten_copy_text(copy, sizeof copy, path + 1);
    route->kind = find(route, copy);
}
