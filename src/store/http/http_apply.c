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
#define OLD_MS     10000u               /* an older server is asked again after that time what it can do now */
#define PLAIN_MS   60000u               /* one whose store has no sessions */

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

/* What an older server does not know. */
static bool is_about_checkpoint(const ten_op *op) {
    return op->kind == TEN_OP_CHECKPOINT || (op->flags & TEN_OP_WITH_CHECKPOINT) != 0;
}

/* An older server, or one on a store that cannot hand over, does not get to see the operation. */
static bool is_kept_back(const ten_http_store *store, const ten_op *op) {
    if (op->kind == TEN_OP_HAND)
        return !store->hands;
    return is_about_checkpoint(op) && op->kind != TEN_OP_ACQUIRE && !store->checkpoints;
}

/* What its text takes in a body, at most: each byte may be written as six. One that comes back takes its part of as many as
 * a batch may have. */
static size_t size_of(const ten_op *op) {
    return op->checkpoint                       ? 6 * strlen(op->checkpoint)
           : op->flags & TEN_OP_WITH_CHECKPOINT ? BATCH_SIZE / RETURN_MAX
                                                : 0;
}

/* How many from the first on can go in one request. */
static size_t run_length(const ten_http_store *store, const ten_op *ops, size_t count, const char **ret_sender) {
    const char *sender = sender_of(&ops[0]);
    size_t length = 1;
    size_t size = size_of(&ops[0]);
    while (length < count && length < BATCH_MAX && strcmp(ops[length].namespace_name, ops[0].namespace_name) == 0 &&
           requires_target(&ops[length]) == requires_target(&ops[0]) && !is_kept_back(store, &ops[length])) {
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

static void write_op(const ten_http_store *store, ten_buf *out, const ten_op *op) {
    ten_op known = *op;
    if (!store->checkpoints)
        known.flags &= ~(unsigned)TEN_OP_WITH_CHECKPOINT;
    ten_json_open(out);
    ten_json_text(out, "op", ten_op_word(&known));
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
    if ((op->flags & TEN_OP_SESSION) && store->sessions)
        ten_json_bool(out, "session", true);
    if (op->group && store->groups)
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
        write_op(store, out, &ops[i]);
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
        return ten_fail(&store->base.error, TENURE_E_STORE, "%s answered a batch with something else",
                        store->settings.base);
    return TENURE_OK;
}

/* What the server has to be able to do for these. */
struct needs {
    bool hands;
    bool checkpoints;
    bool sessions;
    bool groups;
};

static struct needs needs_of(const ten_op *ops, size_t count) {
    struct needs needs = {0};
    for (size_t i = 0; i < count; i++) {
        needs.hands |= ops[i].kind == TEN_OP_HAND;
        needs.checkpoints |= is_about_checkpoint(&ops[i]);
        needs.sessions |= (ops[i].flags & TEN_OP_SESSION) != 0;
        needs.groups |= ops[i].group != 0;
    }
    return needs;
}

static int ask_what_it_can_do(ten_http_store *store, uint64_t deadline_ms) {
    int r = ten_http_ask(store, "GET", "/readyz", NULL, deadline_ms);
    if (r < 0)
        return r;
    store->hands = json_is_true(json_object_get(store->answer, "hands"));
    store->checkpoints = json_is_true(json_object_get(store->answer, "checkpoints"));
    store->sessions = json_is_true(json_object_get(store->answer, "sessions"));
    store->groups = json_is_true(json_object_get(store->answer, "groups"));
    store->asked_ms = ten_boot_ms(store->base.clock);
    return TENURE_OK;
}

static int learn_what_it_can_do(ten_http_store *store, const struct needs *needs, uint64_t deadline_ms) {
    bool can = (store->hands || !needs->hands) && (store->checkpoints || !needs->checkpoints) &&
               (store->groups || !needs->groups);
    bool has_sessions = store->sessions || !needs->sessions;
    uint64_t since_ms = ten_boot_ms(store->base.clock) - store->asked_ms;
    bool known = store->asked_ms > 0 && (can || since_ms < OLD_MS) && (has_sessions || since_ms < PLAIN_MS);
    bool wanted = needs->hands || needs->checkpoints || needs->sessions || needs->groups;
    return known || !wanted ? TENURE_OK : ask_what_it_can_do(store, deadline_ms);
}

/* There may be an older server behind the address than the one that was asked. It refuses the whole request, because it
 * has a word in it that it does not know, so it may be sent without. */
static bool was_it_a_new_word(ten_http_store *store, const struct needs *needs, uint64_t deadline_ms) {
    ten_error error = store->base.error;
    bool hands = store->hands && needs->hands;
    bool checkpoints = store->checkpoints && needs->checkpoints;
    bool sessions = store->sessions && needs->sessions;
    bool groups = store->groups && needs->groups;
    if (store->status != 400 || !(hands || checkpoints || sessions || groups))
        return false;
    bool asked = ask_what_it_can_do(store, deadline_ms) == TENURE_OK;
    store->base.error = error;
    return asked && ((hands && !store->hands) || (checkpoints && !store->checkpoints) ||
                     (sessions && !store->sessions) || (groups && !store->groups));
}

/* Its outcome is the one that leaves everything as it was: a lease is released instead of handed over. */
static ten_result kept_back(const ten_op *op) {
    if (op->kind == TEN_OP_HAND)
        return (ten_result){.outcome = TEN_UNKNOWN};
    return (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_UNSUPPORTED};
}

int ten_http_apply(ten_store *base, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    ten_http_begin(store);
    struct needs needs = needs_of(ops, count);
    int r = learn_what_it_can_do(store, &needs, deadline_ms);
    for (size_t at = 0; r == TENURE_OK && at < count;) {
        const char *sender;
        if (is_kept_back(store, &ops[at])) {
            results[at] = kept_back(&ops[at]);
            at++;
            continue;
        }
        size_t length = run_length(store, ops + at, count - at, &sender);
        needs = needs_of(ops + at, length);
        r = send_run(store, ops + at, results + at, length, sender, deadline_ms);
        if (r == TENURE_E_INVALID && was_it_a_new_word(store, &needs, deadline_ms))
            r = TENURE_OK; /* once more, without */
        else
            at += length;
    }
    return r;
}
