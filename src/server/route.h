/*
 * Which request a path means, by the templates of api.def. Pure: text in, a route out. Paths are split at their slashes
 * before they are decoded, so an id may contain an encoded one.
 */
#ifndef TEN_SERVER_ROUTE_H
#define TEN_SERVER_ROUTE_H

#include <stdbool.h>

#include "base/error.h"

enum ten_method {
    TEN_GET = 1u << 0, /* HEAD is taken for it */
    TEN_POST = 1u << 1,
    TEN_PUT = 1u << 2,
    TEN_DELETE = 1u << 3,
    TEN_OTHER_METHOD = 1u << 4,
};

enum ten_route_kind {
#define ROUTE(kind, word, template) TEN_ROUTE_##kind,
#include "server/api.def"
    TEN_ROUTE_COUNT
};

typedef struct ten_route {
    enum ten_route_kind kind;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    char id[TENURE_HOLDER_MAX + 1]; /* a target; of NODE an instance, of PAGE a file of the page, "" the page itself */
    ten_error error;                /* of BAD_PATH: what is wrong with it */
} ten_route;

/* `path` as it came, without the query. */
void ten_route_parse(const char *path, ten_route *route);
/* The methods of a kind of route. */
unsigned ten_route_methods(enum ten_route_kind kind);
/* The low-cardinality name for metrics: "lease", "renew"... */
const char *ten_route_name(enum ten_route_kind kind);
enum ten_method ten_method_parse(const char *word);
const char *ten_method_name(enum ten_method method);

/* Words of ours, which cannot be ids over REST. */
bool ten_route_is_reserved(const char *id);

#endif
