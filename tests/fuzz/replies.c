/*
 * The calls of a store, and what is checked of their results.
 */
#include "replies.h"

#define CALL_MS 50u

static int look_at_row(const ten_row *row, void *userdata) {
    size_t *rows = userdata;
    FUZZ_CHECK(row->target.id);
    if (row->target.spec)
        FUZZ_CHECK(strlen(row->target.spec) < SIZE_MAX);
    return ++*rows > 1000;
}

static int look_at_instance(const ten_instance *instance, void *userdata) {
    size_t *rows = userdata;
    FUZZ_CHECK(instance->instance);
    return ++*rows > 1000;
}

static int look_at_change(const ten_change *change, void *userdata) {
    size_t *rows = userdata;
    FUZZ_CHECK((int)change->kind < TEN_EVENT_COUNT && change->reason < TEN_REASON_COUNT);
    FUZZ_CHECK(change->target && change->instance && change->actor && change->namespace_name);
    return ++*rows > 1000;
}

static void check_result(const ten_op *op, const ten_result *result) {
    FUZZ_CHECK(result->outcome <= TEN_UNKNOWN);
    FUZZ_CHECK((result->outcome == TEN_ERROR) == (result->error < 0));
    if (result->outcome == TEN_OK && (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_RENEW))
        FUZZ_CHECK(result->token >= 1 && result->token <= TENURE_TOKEN_MAX);
    if (result->outcome == TEN_OK && op->kind == TEN_OP_RENEW)
        FUZZ_CHECK(result->token == op->token);
}

static void apply(ten_store *store) {
    static const char me[] = "a-1-0a1b2c3d";
    ten_op ops[] = {
        {.kind = TEN_OP_RENEW, .namespace_name = "poll", .target = "x", .holder = me, .token = 3, .ttl_ms = 30000},
        {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "y", .holder = me, .ttl_ms = 30000},
        {.kind = TEN_OP_RELEASE, .namespace_name = "poll", .target = "z", .holder = me, .token = 2},
        {.kind = TEN_OP_READ, .namespace_name = "poll", .target = "x"},
    };
    ten_result results[TEN_COUNT(ops)];
    int r = ten_store_apply(store, ops, results, TEN_COUNT(ops), CALL_MS);
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        if (r < 0)
            FUZZ_CHECK(results[i].outcome == TEN_ERROR);
        check_result(&ops[i], &results[i]);
    }
}

static void edit(ten_store *store) {
    ten_target_edit edits[] = {
        {.action = TEN_TARGET_PUT, .target = {.id = "x", .url = "http://127.0.0.1/", .every_ms = 1000}},
        {.action = TEN_TARGET_REMOVE, .target = {.id = "y"}},
    };
    (void)store->ops->edit_targets(store, "poll", edits, TEN_COUNT(edits), CALL_MS);
}

static void renew_one(ten_store *store) {
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = "poll",
                 .target = "x",
                 .holder = "a-1-0a1b2c3d",
                 .token = 3,
                 .ttl_ms = 30000};
    ten_result result;
    (void)ten_store_apply(store, &op, &result, 1, CALL_MS);
    check_result(&op, &result);
}

void fuzz_replies(ten_store *store, unsigned which) {
    ten_query query = {.namespace_name = "poll", .filter = TENURE_ALL, .limit = 10};
    uint64_t cursor = which & 0x20 ? UINT64_MAX : 5;
    size_t rows = 0;
    switch (which % 6) {
    case 0:
        apply(store);
        break;
    case 1:
        (void)store->ops->list(store, &query, look_at_row, &rows, CALL_MS);
        break;
    case 2:
        (void)store->ops->list_instances(store, "poll", look_at_instance, &rows, CALL_MS);
        break;
    case 3:
        (void)store->ops->changes(store, "poll", &cursor, 100, look_at_change, &rows, CALL_MS);
        break;
    case 4:
        edit(store);
        break;
    default:
        renew_one(store);
        break;
    }
    FUZZ_CHECK(!fuzz_has_control(store->error.message, strlen(store->error.message)));
}
