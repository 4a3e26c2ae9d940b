/*
 * Operations over HTTP: a batch is one request for each run of operations of one namespace and one holder, up to 1,000
 * at a time. Called through store.h.
 */
#include <string.h>

#include "base/json.h"
#include "store/http/http_state.h"

#define BATCH_MAX  1000u
#define BATCH_SIZE ((size_t)512 * 1024) /* of checkpoints in it; a body has 1 MiB at most */
#define RETURN_MAX 160u                 /* checkpoints that come back */

static bool is_forced(const ten_op *op) {
    return (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
}

/* In whose name the batch is sent; NULL: it does not matter. */
static const char *sender_of(const ten_op *op) {
    if (op->kind == TEN_OP_ASK || is_forced(op))
        return op->actor;
    return op->kind == TEN_OP_READ ? NULL : op->holder;
}

static bool requires_target(const ten_op *op) {
    return (op->flags & TEN_OP_REQUIRE_TARGET) != 0;
}

/* What its text takes in a body, at most: each byte may be written as six. One that comes back takes its part of as
 * many as a batch may have. */
static size_t size_of(const ten_op *op) {
    return op->checkpoint                       ? 6 * strlen(op->checkpoint)
           : op->flags & TEN_OP_WITH_CHECKPOINT ? BATCH_SIZE / RETURN_MAX
                                                : 0;
}

/* How many from the first on can go in one request. */
static size_t run_length(const ten_op *ops, size_t count, const char **ret_sender) {
    const char *sender = sender_of(&ops[0]);
    size_t length = 1;
    size_t size = size_of(&ops[0]);
    while (length < count && length < BATCH_MAX && strcmp(ops[length].namespace_name, ops[0].namespace_name) == 0 &&
           requires_target(&ops[length]) == requires_target(&ops[0])) {
        const char *other = sender_of(&ops[length]);
        if (sender && other && strcmp(sender, other) != 0)
            break;
        size += size_of(&ops[length]);
        if (size > BATCH_SIZE)
            break;
        sender = sender ? sender : other;
        length++;
    }
    *ret_sender = sender ? sender : "reader";
    /* A group is not cut. */
    while (length > 1 && length < count && ops[length].group && ops[length].group == ops[length - 1].group)
        length--;
    return length;
}

static void write_op(ten_buf *out, const ten_op *op) {
    ten_json_open(out);
    ten_json_text(out, "op", ten_op_word(op));
    if (op->target)
        ten_json_text(out, "id", op->target);
    if (op->token && !is_forced(op))
        ten_json_number(out, "version", op->token);
    if (op->ttl_ms)
        ten_json_number(out, "ttl_ms", op->ttl_ms);
    bool names_another = op->kind == TEN_OP_ASK || is_forced(op);
    if (names_another
            ? op->holder != NULL
            : !op->holder && (op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_CHECKPOINT))
        ten_json_text(out, "holder_id", op->holder);
    if (op->reason)
        ten_json_text(out, "reason", ten_reason_name(op->reason));
    if (op->kind == TEN_OP_HAND)
        ten_json_text(out, "successor_id", op->successor);
    if (op->kind == TEN_OP_ANNOUNCE)
        ten_json_number(out, "weight", op->weight);
    if (op->kind == TEN_OP_ASK)
        ten_json_number(out, "ask", op->ask);
    if (op->metadata)
        ten_json_text(out, "metadata", op->metadata);
    if (op->kind == TEN_OP_CHECKPOINT)
        ten_json_text(out, "value", op->checkpoint);
    if (op->flags & TEN_OP_SESSION)
        ten_json_bool(out, "session", true);
    if (op->group)
        ten_json_number(out, "group", op->group);
    ten_json_close(out);
}

static int error_of(const char *name) {
    for (int code = -1; name && code > -100; code--)
        if (strcmp(tenure_error_name(code), name) == 0)
            return code;
    return TENURE_E_STORE;
}

static bool read_outcome(const json_t *item, ten_result *result) {
    *result = (ten_result){.outcome = TEN_ERROR,
                           .error = error_of(ten_http_text(item, "error")),
                           .token = ten_http_number(item, "version"),
                           .ttl_ms = ten_http_number(item, "ttl_ms"),
                           .remaining_ms = ten_http_number(item, "remaining_ms"),
                           .acquired_at_ms = ten_http_number(item, "acquired_at_ms"),
                           .holder = ten_http_text(item, "holder_id"),
                           .registered = json_is_true(json_object_get(item, "registered")),
                           .paused = json_is_true(json_object_get(item, "paused")),
                           .barred = json_is_true(json_object_get(item, "barred")),
                           .recovering = json_is_true(json_object_get(item, "recovering")),
                           .ask = (enum ten_ask)ten_http_number(item, "ask"),
                           .session = ten_http_number(item, "session"),
                           .session_version = ten_http_number(item, "session_version"),
                           .checkpoint = ten_http_text(item, "checkpoint"),
                           .checkpoint_token = ten_http_number(item, "checkpoint_version")};
    bool known = ten_outcome_parse(ten_http_text(item, "outcome"), &result->outcome);
    if (result->outcome != TEN_ERROR)
        result->error = 0;
    return known;
}

static int send_run(ten_http_store *store, const ten_op *ops, ten_result *results, size_t count, const char *sender,
                    uint64_t deadline_ms) {
    char path[TENURE_NAMESPACE_MAX + 32];
    snprintf(path, sizeof path, "/api/v1/%s/leases", ops[0].namespace_name);
    ten_buf *out = &store->out;
    ten_buf_clear(out);
    ten_json_open(out);
    ten_json_text(out, "holder_id", sender);
    if (requires_target(&ops[0]))
        ten_json_bool(out, "require_target", true);
    ten_buf_text(out, ",\"ops\":[");
    bool once = false;
    for (size_t i = 0; i < count; i++) {
        ten_buf_text(out, i ? "," : "");
        write_op(out, &ops[i]);
        once |= is_forced(&ops[i]);
    }
    ten_buf_text(out, "]}");
    if (out->failed)
        return ten_fail_memory(&store->base.error, "a batch");
    /* When a connection that was used before ends without an answer, curl sends the request again by itself. A forced
     * release would then hit the next holder. */
    if (curl_easy_setopt(store->easy, CURLOPT_FRESH_CONNECT, once ? 1L : 0L) != CURLE_OK)
        return ten_fail_memory(&store->base.error, "a batch");
    int r = ten_http_send(store, "POST", path, out->data, deadline_ms);
    if (r < 0 || ten_http_read_plain(store, results, count))
        return r;
    bool complete = ten_http_parse(store) && json_array_size(store->answer) == count;
    for (size_t i = 0; complete && i < count; i++)
        complete = read_outcome(json_array_get(store->answer, i), &results[i]);
    if (!complete || !ten_http_keep(store))
        return ten_fail(&store->base.error, TENURE_E_STORE,
                        "%s did not answer with the outcomes of the batch; is it a Tenure server?",
                        store->settings.base);
    return TENURE_OK;
}

int ten_http_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    int r = TENURE_OK;
    ten_http_begin(store);
    for (size_t at = 0, length; r == TENURE_OK && at < count; at += length) {
        const char *sender;
        length = run_length(ops + at, count - at, &sender);
        r = send_run(store, ops + at, results + at, length, sender, deadline_ms);
    }
    return r;
}
