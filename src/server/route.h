/*
 * Which request a method and a path mean. Pure: text in, a route out. Paths are split at their slashes before they are
 * decoded, so an id may contain an encoded one.
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

/* X(name, word for metrics, methods that it knows) */
#define TEN_ROUTES(X)                                                                                                  \
    X(NOT_FOUND, "not_found", 0)                                                                                       \
    X(BAD_PATH, "bad_path", 0)                                                                                         \
    X(REDIRECT, "redirect", 0)                                                                                         \
    X(PAGE, "page", TEN_GET)                                                                                           \
    X(HEALTHZ, "healthz", TEN_GET)                                                                                     \
    X(READYZ, "readyz", TEN_GET)                                                                                       \
    X(METRICS, "metrics", TEN_GET)                                                                                     \
    X(OPENAPI, "openapi", TEN_GET)                                                                                     \
    X(NAMESPACES, "namespaces", TEN_GET)                                                                               \
    X(TARGETS, "targets", TEN_GET | TEN_POST)                                                                          \
    X(TARGET, "target", TEN_PUT | TEN_DELETE)                                                                          \
    X(PIN, "pin", TEN_PUT | TEN_DELETE)                                                                                \
    X(FORGET, "forget", TEN_POST | TEN_PUT | TEN_DELETE) /* also a target of that name */                              \
    X(LEASE, "lease", TEN_GET | TEN_POST | TEN_DELETE)                                                                 \
    X(CHECKPOINT, "checkpoint", TEN_GET | TEN_PUT)                                                                     \
    X(OWNER, "owner", TEN_GET)                                                                                         \
    X(RENEW, "renew", TEN_POST)                                                                                        \
    X(HAND, "hand", TEN_POST)                                                                                          \
    X(BATCH, "batch", TEN_POST)                                                                                        \
    X(NODES, "nodes", TEN_GET)                                                                                         \
    X(NODE, "node", TEN_PUT | TEN_DELETE)                                                                              \
    X(EVENTS, "events", TEN_GET)                                                                                       \
    X(HISTORY, "history", TEN_GET)

enum ten_route_kind {
#define X(name, word, methods) TEN_ROUTE_##name,
    TEN_ROUTES(X)
#undef X
};

typedef struct ten_route {
    enum ten_route_kind kind;
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    char id[TENURE_HOLDER_MAX + 1]; /* a target; of NODE an instance, of PAGE a file of the page, "" the page itself */
    ten_error error;                /* of BAD_PATH: what is wrong with it */
} ten_route;

/* `path` as it came, without the query. */
void ten_route_parse(const char *path, ten_route *route);
/* The methods that a kind of route knows. */
unsigned ten_route_methods(enum ten_route_kind kind);
/* The low-cardinality name for metrics: "lease", "renew"... */
const char *ten_route_name(enum ten_route_kind kind);
enum ten_method ten_method_parse(const char *word);
const char *ten_method_name(enum ten_method method);

/* Words of ours, which cannot be ids over REST. */
bool ten_route_is_reserved(const char *id);

#endif
