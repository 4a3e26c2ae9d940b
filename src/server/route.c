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
    static const struct {
        enum ten_route_kind kind;
        enum ten_method method;
    } operations[] = {
#define OPERATION(kind, method, handler, role, urgency, size, place) {TEN_ROUTE_##kind, TEN_##method},
#include "server/api.def"
    };
    unsigned methods = 0;
    for (size_t i = 0; i < TEN_COUNT(operations); i++)
        if (operations[i].kind == kind)
            methods |= operations[i].method;
    return methods;
}

const char *ten_route_name(enum ten_route_kind kind) {
    static const char *const names[] = {
#define ROUTE(kind, word, template) word,
#include "server/api.def"
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

/* Whether the segments are those of a template, such as "/api/v1/{ns}". A word of ours is no target. */
static bool matches(const char *template, char *const *segments, size_t count) {
    const char *at = template + 1;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(at, "/");
        bool is_target = strncmp(at, "{id}", 4) == 0;
        bool good = at[0] == '{' ? !is_target || !ten_route_is_reserved(segments[i])
                                 : strlen(segments[i]) == length && memcmp(segments[i], at, length) == 0;
        if (!good)
            return false;
        at += length;
        if ((at[0] == '\0') != (i + 1 == count))
            return false;
        at += at[0] == '/';
    }
    return true;
}

/* Keeps what the names in braces stand for. False: one of them is no name. */
static bool keep_names(ten_route *route, const char *template, char *const *segments) {
    size_t at = 0;
    for (const char *name = template; (name = strchr(name, '/')); name++, at++) {
        const char *given = segments[at];
        if (strncmp(name, "/{ns}", 5) == 0) {
            if (ten_id_check_namespace(given, &route->error) < 0)
                return false;
            ten_copy_text(route->namespace_name, sizeof route->namespace_name, given);
        } else if (name[1] == '{' || strcmp(name, "/forget") == 0) { /* which may be a target, too */
            bool is_target = strncmp(name, "/{id}", 5) == 0;
            bool is_instance = strncmp(name, "/{instance}", 11) == 0;
            if ((is_target && ten_id_check_target(given, &route->error) < 0) ||
                (is_instance && ten_id_check_holder(given, &route->error) < 0))
                return false;
            ten_copy_text(route->id, sizeof route->id, given);
        }
    }
    return true;
}

static enum ten_route_kind find(ten_route *route, char *path) {
    static const struct {
        enum ten_route_kind kind;
        const char *template;
    } paths[] = {
#define ROUTE(kind, word, template) {TEN_ROUTE_##kind, template},
#define PATH(kind, template)        {TEN_ROUTE_##kind, template},
#include "server/api.def"
    };
    char *segments[SEGMENTS_MAX] = {0};
    size_t count = 0;
    if (!split(path, segments, &count))
        return bad_path(route, "the path is malformed: an id in it is percent-encoded, its slashes as %2F");
    if (strcmp(segments[0], "scenes") == 0)
        return TEN_ROUTE_REDIRECT;
    for (size_t i = 0; i < TEN_COUNT(paths); i++)
        if (paths[i].template && matches(paths[i].template, segments, count))
            return keep_names(route, paths[i].template, segments) ? paths[i].kind : TEN_ROUTE_BAD_PATH;
    return TEN_ROUTE_NOT_FOUND;
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
