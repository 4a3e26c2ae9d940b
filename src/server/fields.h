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

/* Where a field may stand. */
enum ten_place {
    TEN_IN_NOWHERE = 0,
    TEN_IN_LISTING = 1u << 0,
    TEN_IN_EDITS = 1u << 1,
    TEN_IN_EDIT = 1u << 2, /* an item of those */
    TEN_IN_REGISTRATION = 1u << 3,
    TEN_IN_PINNING = 1u << 4,
    TEN_IN_UNPINNING = 1u << 5,
    TEN_IN_FORGETTING = 1u << 6,
    TEN_IN_ACQUIRING = 1u << 7,
    TEN_IN_RENEWING = 1u << 8,
    TEN_IN_RELEASING = 1u << 9,
    TEN_IN_HANDING = 1u << 10,
    TEN_IN_CHECKPOINTING = 1u << 11,
    TEN_IN_BATCH = 1u << 12,
    TEN_IN_ITEM = 1u << 13, /* an operation of a batch */
    TEN_IN_INSTANCES = 1u << 14,
    TEN_IN_HEARTBEAT = 1u << 15,
    TEN_IN_STREAM = 1u << 16,
    TEN_IN_HISTORY = 1u << 17,
};

enum ten_truth { TEN_UNSAID, TEN_NO, TEN_YES };

#define TEN_NOT_GIVEN UINT64_MAX /* for a number that may be 0: its value before it is read */

/* Items of a body, which are read one after the other. */
struct json_t;
typedef struct ten_items {
    size_t count; /* 0: they are not given */
    size_t at;
    const struct json_t *array;
    const char *text; /* NULL: they are in the array */
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
/* A part of a body that is an object of its own; NULL is none, without members. */
bool ten_fields_read(struct ten_request *request, const struct json_t *object, enum ten_place place,
                     ten_fields *fields);
/* The next item, an object; there is one. */
bool ten_fields_next(struct ten_request *request, ten_items *items, enum ten_place place, ten_fields *fields);
/* Whether what was read elsewhere is also good for this place: what it requires is there, and names are names. */
bool ten_fields_check(struct ten_request *request, enum ten_place place, const ten_fields *fields);
bool ten_fields_check_ttl(struct ten_request *request, uint64_t ttl_ms);
/* The least TTL that the store grants. */
uint64_t ten_fields_least_ttl_ms(const struct ten_request *request);

#endif
