/*
 * The fields of queries and bodies: the rows of api.def, obeyed. A body is read into one struct, whose members are as
 * the rows say: of their types, within their bounds, and there if they are required. A body as the `http` store
 * writes it is read in place, any other one by jansson (body.c); the rows are the same. What a value means is for the
 * handlers.
 */
#ifndef TEN_SERVER_FIELDS_H
#define TEN_SERVER_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a field may stand. An edit is an item of edits, and an item an operation of a batch. */
#define TEN_PLACES(X)                                                                                                  \
    X(LISTING)                                                                                                         \
    X(EDITS)                                                                                                           \
    X(EDIT)                                                                                                            \
    X(REGISTRATION)                                                                                                    \
    X(PINNING)                                                                                                         \
    X(UNPINNING)                                                                                                       \
    X(FORGETTING)                                                                                                      \
    X(ACQUIRING)                                                                                                       \
    X(RENEWING)                                                                                                        \
    X(RELEASING)                                                                                                       \
    X(HANDING)                                                                                                         \
    X(CHECKPOINTING)                                                                                                   \
    X(BATCH)                                                                                                           \
    X(ITEM)                                                                                                            \
    X(INSTANCES)                                                                                                       \
    X(HEARTBEAT)                                                                                                       \
    X(STREAM)                                                                                                          \
    X(HISTORY)

enum ten_place_number {
#define X(name) TEN_NUMBER_OF_##name,
    TEN_PLACES(X)
#undef X
};

enum ten_place {
#define X(name) TEN_IN_##name = 1u << TEN_NUMBER_OF_##name,
    TEN_PLACES(X)
#undef X
        TEN_IN_NOWHERE = 0
};

enum ten_truth { TEN_UNSAID, TEN_NO, TEN_YES };

#define TEN_NOT_GIVEN UINT64_MAX /* for a number that may be 0: its value before it is read */

/* Items of a body, which are read one after the other. */
struct json_t;
typedef struct ten_items {
    size_t count; /* 0: they are not given */
    size_t at;
    const struct json_t *array;
    const char *text; /* the next one; NULL: they are in the array */
} ten_items;

/* Members keep what the caller has put there until they are given. Texts last as long as the input of the request. */
typedef struct ten_fields {
    const char *holder_id, *successor_id, *value;
    const char *op, *id, *metadata, *reason;
    const char *after, *target_id, *since, *last_event_id;
    const char *action, *instance, *actor;
    struct ten_subject {
        const char *text;
        bool is_null;
    } subject;
    uint64_t version, ttl_ms, weight, ask, group;
    uint64_t limit, for_ms;
    enum ten_truth require_target, session;
    enum ten_truth leased, registered, current, shares, plan;
    enum ten_truth unregistered, away;
    ten_items ops, edits, ids;
    const struct json_t *target, *pin; /* objects, or NULL */
} ten_fields;

struct ten_request;

/* Reads the body and the query of a request, as its operation has them. Each returns false when it has answered. */
bool ten_fields_take(struct ten_request *request, ten_fields *fields);
/* A part of a body that is an object of its own; NULL: one without members. What it requires is not checked. */
bool ten_fields_read(struct ten_request *request, const struct json_t *object, enum ten_place place,
                     ten_fields *fields);
/* The same for the next item; there is one. */
bool ten_fields_next(struct ten_request *request, ten_items *items, enum ten_place place, ten_fields *fields);
/* Whether what this place requires is there, and names are names; wherever it was read. */
bool ten_fields_check(struct ten_request *request, enum ten_place place, const ten_fields *fields);
bool ten_fields_check_ttl(struct ten_request *request, uint64_t ttl_ms);
/* The least TTL that the store grants. */
uint64_t ten_fields_least_ttl_ms(const struct ten_request *request);

#endif
