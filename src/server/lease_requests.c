/*
 * Requests about leases: one, or a batch of them. They become operations of the store; its outcomes become answers.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/plain.h"
#include "rules/instance_row.h"
#include "server/plain_batch.h"
#include "server/server_state.h"

/* ---- members of a body */

static bool wrong(ten_request *request, const char *name, const char *rule) {
    ten_reply_error(request, 400, "bad_request", "%s: %s", name, rule);
    return false;
}

static bool out_of_bounds(ten_request *request, const char *name, uint64_t least, uint64_t most) {
    ten_reply_error(request, 400, "bad_request", "%s: must be an integer between %llu and %llu", name,
                    (unsigned long long)least, (unsigned long long)most);
    return false;
}

/* A whole number within the bounds, or 0 when it is not given. */
static bool read_number(const json_t *object, const char *name, uint64_t least, uint64_t most, uint64_t *ret_number) {
    const json_t *value = json_object_get(object, name);
    *ret_number = 0;
    if (!value || json_is_null(value))
        return true;
    if (!json_is_integer(value) || json_integer_value(value) < (json_int_t)least ||
        (uint64_t)json_integer_value(value) > most)
        return false;
    *ret_number = (uint64_t)json_integer_value(value);
    return true;
}

/* The same. False: it has been answered. */
static bool get_number(ten_request *request, const json_t *object, const char *name, uint64_t least, uint64_t most,
                       uint64_t *ret_number) {
    return read_number(object, name, least, most, ret_number) || out_of_bounds(request, name, least, most);
}

static uint64_t least_ttl_ms(const ten_request *request) {
    return ten_max_u64(TENURE_TTL_MIN_MS, ten_lane_capabilities(request->server->leases)->ttl_min_ms);
}

static bool get_ttl(ten_request *request, const json_t *object, uint64_t *ret_ttl_ms) {
    uint64_t most_ms = request->server->config->ttl_max_ms;
    if (read_number(object, "ttl_ms", least_ttl_ms(request), most_ms, ret_ttl_ms))
        return true;
    ten_reply_error(request, 400, "bad_request",
                    "ttl_ms: must be an integer between %llu and %llu on this server (tenure serve --max-ttl)",
                    (unsigned long long)least_ttl_ms(request), (unsigned long long)most_ms);
    return false;
}

/* null is not "any version": a client that lost the version must not release what it no longer holds. */
static bool get_version(ten_request *request, const json_t *object, uint64_t *ret_version) {
    if (json_is_null(json_object_get(object, "version")))
        return out_of_bounds(request, "version", 1, TENURE_TOKEN_MAX);
    return get_number(request, object, "version", 1, TENURE_TOKEN_MAX, ret_version);
}

/* Of a release: from the body, or where that has none, from the query. */
static bool get_version_anywhere(ten_request *request, const json_t *object, uint64_t *ret_version) {
    const char *text = json_object_get(object, "version") ? NULL : ten_request_argument(request, "version");
    if (!text)
        return get_version(request, object, ret_version);
    unsigned long long number = strtoull(text, NULL, 10);
    if (strspn(text, "0123456789") != strlen(text) || number == 0 || number > TENURE_TOKEN_MAX)
        return out_of_bounds(request, "version", 1, TENURE_TOKEN_MAX);
    *ret_version = number;
    return true;
}

/* From the body, or where that has none, from the query. */
static bool get_holder(ten_request *request, const json_t *object) {
    const json_t *value = json_object_get(object, "holder_id");
    const char *holder = value ? json_string_value(value) : ten_request_argument(request, "holder_id");
    ten_error error;
    if (!holder)
        return wrong(request, "holder_id", "must be a string that names the holder of the lease");
    if (strlen(holder) != (value ? json_string_length(value) : strlen(holder)))
        return wrong(request, "holder_id", "it contains a NUL");
    if (ten_id_check_holder(holder, &error) < 0) {
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
        return false;
    }
    ten_copy_text(request->holder, sizeof request->holder, holder);
    return true;
}

static bool get_own_holder(ten_request *request, const json_t *object) {
    return get_holder(request, object) && ten_request_owns(request, request->holder);
}

/* ---- one lease */

static const char *const lease_members[] = {"holder_id", "version", "ttl_ms", "successor_id", NULL};

static void go(ten_request *request, size_t count, enum ten_urgency urgency) {
    request->job.ops = request->ops;
    request->job.op_count = count;
    ten_request_wait(request, request->server->leases, urgency);
}

/* Who is allowed in some namespaces only must not begin an epoch, in which nobody new is let in anywhere. */
static unsigned renewal_flags(const ten_request *request) {
    bool everywhere = !request->server->has_auth || strcmp(request->principal.namespaces, "*") == 0;
    return everywhere ? 0 : TEN_OP_NO_PROOF;
}

static ten_op *one_op(ten_request *request, enum ten_op_kind kind, unsigned flags) {
    request->ops = request->first_ops;
    request->first_ops[0] = (ten_op){.kind = kind,
                                     .flags = flags,
                                     .namespace_name = request->route.namespace_name,
                                     .target = request->route.id,
                                     .holder = request->holder};
    return request->first_ops;
}

static uint64_t expires_at(const ten_result *result) {
    return result->remaining_ms ? ten_wall_ms(&ten_system_clock) + result->remaining_ms : 0;
}

static void answer_grant(ten_request *request, unsigned status, const ten_result *result) {
    ten_reply_status(request, status);
    ten_json_open(&request->reply);
    ten_json_number(&request->reply, "version", result->token);
    ten_json_time(&request->reply, "expires_at", expires_at(result));
    ten_json_number(&request->reply, "ttl_ms", result->ttl_ms);
    if (result->checkpoint)
        ten_json_text(&request->reply, "checkpoint", result->checkpoint);
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

/* The outcomes that every single request shares. True: it has been answered. */
static bool answer_usual(ten_request *request, int error, const char *message, const ten_result *result) {
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (result->outcome == TEN_ERROR)
        ten_reply_store_error(request, result->error, tenure_strerror(result->error));
    else if (result->outcome == TEN_UNKNOWN)
        ten_reply_unknown_target(request);
    else if (result->outcome == TEN_HELD)
        ten_reply_held(request, result);
    else
        return false;
    return true;
}

static void finish_get(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (answer_usual(request, error, message, results))
        return;
    ten_reply_status(request, 200);
    ten_json_open(&request->reply);
    ten_json_text(&request->reply, "holder_id", results->holder);
    ten_json_number(&request->reply, "version", results->token);
    ten_json_time(&request->reply, "expires_at", results->holder ? expires_at(results) : 0);
    ten_json_number(&request->reply, "remaining_ms", results->holder ? results->remaining_ms : 0);
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

void ten_server_lease_get(ten_request *request) {
    one_op(request, TEN_OP_READ, TEN_OP_REQUIRE_TARGET)->holder = NULL;
    request->job.finish = finish_get;
    go(request, 1, TEN_USUAL);
}

static void finish_acquire(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (!answer_usual(request, error, message, results))
        answer_grant(request, 201, results);
}

void ten_server_lease_acquire(ten_request *request) {
    json_t *body = ten_body_parse(request);
    ten_op *op = one_op(request, TEN_OP_ACQUIRE, TEN_OP_FRESH | TEN_OP_REQUIRE_TARGET | TEN_OP_WITH_CHECKPOINT);
    if (body && ten_body_knows(request, body, lease_members) && get_own_holder(request, body) &&
        get_ttl(request, body, &op->ttl_ms)) {
        if (op->ttl_ms == 0)
            op->ttl_ms = request->server->config->ttl_ms;
        request->job.finish = finish_acquire;
        go(request, 1, TEN_USUAL);
    }
    json_decref(body);
}

static void finish_renew(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (answer_usual(request, error, message, results))
        return;
    if (results->outcome == TEN_LOST)
        ten_reply_lost(request, results);
    else
        answer_grant(request, 200, results);
}

void ten_server_lease_renew(ten_request *request) {
    json_t *body = ten_body_parse(request);
    ten_op *op = one_op(request, TEN_OP_RENEW, renewal_flags(request));
    if (body && ten_body_knows(request, body, lease_members) && get_own_holder(request, body) &&
        get_ttl(request, body, &op->ttl_ms) && get_version(request, body, &op->token)) {
        request->job.finish = finish_renew;
        go(request, 1, TEN_URGENT);
    }
    json_decref(body);
}

/* The release, then a look at what is there: a target that nobody knows is told apart from one that was not held. */
static void finish_release(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (answer_usual(request, error, message, &results[0]) || answer_usual(request, error, message, &results[1]))
        return;
    if (results[0].outcome == TEN_LOST && results[1].holder && strcmp(results[1].holder, request->holder) != 0)
        ten_reply_held(request, &results[1]);
    else
        ten_reply_status(request, 204);
}

void ten_server_lease_release(ten_request *request) {
    json_t *body = ten_body_parse(request);
    ten_op *op = one_op(request, TEN_OP_RELEASE, 0);
    op->reason = TEN_REASON_DONE;
    if (body && ten_body_knows(request, body, lease_members) && get_own_holder(request, body) &&
        get_version_anywhere(request, body, &op->token)) {
        request->first_ops[1] = (ten_op){.kind = TEN_OP_READ,
                                         .flags = TEN_OP_REQUIRE_TARGET,
                                         .namespace_name = op->namespace_name,
                                         .target = op->target};
        request->job.finish = finish_release;
        go(request, 2, TEN_URGENT);
    }
    json_decref(body);
}

/* ---- handing over */

/* A string without a NUL; NULL: not given, or not one. */
static const char *get_text(const json_t *item, const char *name) {
    const json_t *value = json_object_get(item, name);
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* To whom, and under which token: whoever releases may leave the token out, but a lease that somebody else has by now must
 * not be handed on by its holder's name alone. The successor may be any instance, also one for which the sender must not
 * speak: it decides for itself whether it takes the lease. */
static bool get_hand(ten_request *request, const json_t *item, ten_op *op) {
    ten_error error;
    if (!ten_lane_capabilities(request->server->leases)->hands)
        return wrong(request, "op", "the store of this server cannot hand a lease over; release it instead");
    op->successor = get_text(item, "successor_id");
    if (!op->successor)
        return wrong(request, "successor_id",
                     "it is required and must be a string: the instance that takes the lease over");
    if (ten_id_check_holder(op->successor, &error) < 0)
        return wrong(request, "successor_id", error.message);
    if (op->token == 0)
        return wrong(request, "version", "it is required to hand a lease over: the version that its holder has");
    if (op->ttl_ms == 0)
        op->ttl_ms = request->server->config->ttl_ms;
    return true;
}

/* ---- the checkpoint */

/* False: it has been answered. */
static bool get_checkpoint(ten_request *request, const json_t *item, ten_op *op) {
    op->checkpoint = get_text(item, "value");
    if (op->token == 0)
        return wrong(request, "version", "it is required to write a checkpoint: the version of the lease");
    if (!op->checkpoint)
        return wrong(request, "value", "it is required and must be a string without a NUL");
    if (strlen(op->checkpoint) <= TENURE_CHECKPOINT_MAX)
        return true;
    ten_reply_error(request, 413, "too_large", "value: must be at most %u bytes", TENURE_CHECKPOINT_MAX);
    return false;
}

static void finish_checkpoint_get(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (answer_usual(request, error, message, results))
        return;
    ten_reply_status(request, 200);
    ten_json_open(&request->reply);
    ten_json_text(&request->reply, "value", results->checkpoint);
    if (results->checkpoint)
        ten_json_number(&request->reply, "version", results->checkpoint_token);
    else
        ten_json_text(&request->reply, "version", NULL);
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

void ten_server_checkpoint_get(ten_request *request) {
    one_op(request, TEN_OP_READ, TEN_OP_REQUIRE_TARGET | TEN_OP_WITH_CHECKPOINT)->holder = NULL;
    request->job.finish = finish_checkpoint_get;
    go(request, 1, TEN_USUAL);
}

static void finish_checkpoint_put(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (error == TENURE_OK && results->outcome == TEN_HELD)
        ten_reply_error(request, 503, "unavailable", "the store is recovering; try again in %llu ms",
                        (unsigned long long)results->remaining_ms);
    else if (error == TENURE_OK && results->outcome == TEN_LOST)
        ten_reply_stale(request, results);
    else if (!answer_usual(request, error, message, results))
        ten_reply_status(request, 204);
}

void ten_server_checkpoint_put(ten_request *request) {
    static const char *const members[] = {"holder_id", "version", "value", NULL};
    json_t *body = ten_body_parse(request);
    ten_op *op = one_op(request, TEN_OP_CHECKPOINT, 0);
    request->storage = body; /* the operation points into it */
    if (body && ten_body_knows(request, body, members) && get_own_holder(request, body) &&
        get_version(request, body, &op->token) && get_checkpoint(request, body, op)) {
        request->job.finish = finish_checkpoint_put;
        go(request, 1, TEN_USUAL);
    }
}

static const char refused_hand[] =
    "the lease was not handed over: the successor is not announced, drains or has left, the lease was forced, "
    "or the store is recovering";

static void finish_hand(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (error == TENURE_OK && results->outcome == TEN_UNKNOWN) {
        ten_reply_error(request, 409, "refused", "%s: %s", request->first_ops[0].successor, refused_hand);
        return;
    }
    if (answer_usual(request, error, message, results))
        return;
    if (results->outcome == TEN_LOST) {
        ten_reply_lost(request, results);
        return;
    }
    ten_reply_status(request, 200);
    ten_json_open(&request->reply);
    ten_json_text(&request->reply, "holder_id", results->holder);
    ten_json_number(&request->reply, "version", results->token);
    ten_json_time(&request->reply, "expires_at", expires_at(results));
    ten_json_number(&request->reply, "ttl_ms", results->ttl_ms);
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

void ten_server_lease_hand(ten_request *request) {
    json_t *body = ten_body_parse(request);
    request->storage = body; /* the operation points into it */
    ten_op *op = one_op(request, TEN_OP_HAND, 0);
    op->reason = TEN_REASON_REBALANCE;
    if (!body || !ten_body_knows(request, body, lease_members) || !get_own_holder(request, body) ||
        !get_ttl(request, body, &op->ttl_ms) || !get_version(request, body, &op->token) || !get_hand(request, body, op))
        return;
    request->job.finish = finish_hand;
    go(request, 1, TEN_URGENT);
}

/* ---- a batch */

static void write_outcome(ten_buf *reply, const ten_op *op, const ten_result *result) {
    ten_json_open(reply);
    ten_json_text(reply, "id", op->target ? op->target : op->holder);
    ten_json_text(reply, "outcome", ten_outcome_name(result->outcome));
    if (result->outcome == TEN_ERROR)
        ten_json_text(reply, "error", tenure_error_name(result->error));
    if (op->kind == TEN_OP_HAND && result->outcome == TEN_UNKNOWN)
        ten_json_text(reply, "message", refused_hand);
    ten_json_number(reply, "version", result->token);
    ten_json_text(reply, "holder_id", result->holder);
    ten_json_number(reply, "ttl_ms", result->ttl_ms);
    ten_json_number(reply, "remaining_ms", result->remaining_ms);
    /* What a Tenure client wants to know besides. */
    if (result->acquired_at_ms)
        ten_json_number(reply, "acquired_at_ms", result->acquired_at_ms);
    if (result->registered)
        ten_json_bool(reply, "registered", true);
    if (result->paused)
        ten_json_bool(reply, "paused", true);
    if (result->barred)
        ten_json_bool(reply, "barred", true);
    if (result->recovering)
        ten_json_bool(reply, "recovering", true);
    if (result->ask)
        ten_json_number(reply, "ask", result->ask);
    if (result->session)
        ten_json_number(reply, "session", result->session);
    if (result->session_version)
        ten_json_number(reply, "session_version", result->session_version);
    if (result->checkpoint) {
        ten_json_text(reply, "checkpoint", result->checkpoint);
        ten_json_number(reply, "checkpoint_version", result->checkpoint_token);
    }
    ten_json_close(reply);
}

static void write_outcomes(ten_request *request, const ten_result *results) {
    ten_buf_char(&request->reply, '[');
    for (size_t i = 0; i < request->job.op_count; i++) {
        ten_buf_text(&request->reply, i ? ",\n" : "");
        write_outcome(&request->reply, &request->ops[i], &results[i]);
    }
    ten_buf_text(&request->reply, "]\n");
}

static void finish_batch(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    if (!job->work)
        write_outcomes(request, results);
}

/* A batch that only reads, which needs no place among the renewals. */
static int read_batch(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    ten_result *results = ten_calloc(job->op_count, sizeof *results);
    int r = results ? ten_store_apply(store, job->ops, results, job->op_count, request->server->config->timeout_ms)
                    : ten_fail_memory(&store->error, "the answer");
    if (r == TENURE_OK)
        write_outcomes(request, results);
    ten_free(results);
    return r;
}

static bool is_forced(const ten_op *op) {
    return (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
}

static enum ten_role role_for(const ten_op *op) {
    if (op->kind == TEN_OP_ASK || is_forced(op))
        return TEN_ROLE_ADMIN;
    return op->kind == TEN_OP_READ ? TEN_ROLE_READ : TEN_ROLE_HOLD;
}

static bool get_kind(ten_request *request, const json_t *item, ten_op *op) {
    const char *word = json_string_value(json_object_get(item, "op"));
    if (!ten_op_word_parse(word, &op->kind, &op->flags))
        return wrong(request, "op", "must be acquire, renew, release, hand, checkpoint or read");
    if (request->server->has_auth &&
        !ten_principal_may(&request->principal, role_for(op), request->route.namespace_name)) {
        ten_reply_error(request, 403, "forbidden", "token '%s' may not %s in namespace %s", request->principal.name,
                        word, request->route.namespace_name);
        return false;
    }
    return true;
}

static bool get_id(ten_request *request, const json_t *item, ten_op *op) {
    bool of_instance = op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_LEAVE;
    ten_error error;
    op->target = of_instance ? NULL : get_text(item, "id");
    if (of_instance || (op->kind == TEN_OP_ASK && !json_object_get(item, "id")))
        return true;
    if (!op->target)
        return wrong(request, "id", "each operation names its target, as a string");
    if (ten_route_is_reserved(op->target))
        return wrong(request, "id", "nodes, leases, events and history are words of this API");
    if (ten_id_check_target(op->target, &error) == TENURE_OK)
        return true;
    ten_reply_error(request, 400, "bad_request", "%s", error.message);
    return false;
}

/* Whom an operation is about: the batch's holder; who asks or forces may name another, or nobody; and where the token
 * alone is to decide, nobody. */
static bool get_subject(ten_request *request, const json_t *item, ten_op *op) {
    bool names_another = op->kind == TEN_OP_ASK || is_forced(op);
    bool by_token = (op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_CHECKPOINT) &&
                    !names_another && json_is_null(json_object_get(item, "holder_id"));
    ten_error error;
    op->actor = names_another ? request->actor : NULL;
    op->holder = names_another ? get_text(item, "holder_id") : request->holder;
    if (op->kind == TEN_OP_READ || by_token)
        op->holder = NULL;
    else if (!names_another && !ten_request_owns(request, request->holder))
        return false;
    if (by_token && request->server->has_auth &&
        (request->principal.role != TEN_ROLE_ADMIN || strcmp(request->principal.holders, "*") != 0)) {
        ten_reply_error(request, 403, "forbidden", "%s may not act for a holder that it does not name",
                        request->principal.name);
        return false;
    }
    if (names_another && op->holder && ten_id_check_holder(op->holder, &error) < 0)
        return wrong(request, "holder_id", error.message);
    if (op->kind == TEN_OP_ASK && !op->target && !op->holder)
        return wrong(request, "ask", "needs an id or a holder_id");
    return true;
}

/* What a holder says of its own release. That somebody has forced it is not its to say: the history would lack who. */
static enum ten_reason get_reason(const json_t *item, const ten_op *op) {
    enum ten_reason reason = ten_reason_parse(get_text(item, "reason"));
    enum ten_reason usual = op->kind == TEN_OP_HAND ? TEN_REASON_REBALANCE : TEN_REASON_DONE;
    bool unknown = reason == TEN_REASON_NONE || (reason == TEN_REASON_FORCED && !is_forced(op));
    return unknown ? usual : reason;
}

static bool get_op(ten_request *request, const json_t *item, bool require_target, ten_op *op) {
    static const char *const members[] = {"op",     "id",       "holder_id",    "version", "ttl_ms",  "weight", "ask",
                                          "reason", "metadata", "successor_id", "value",   "session", "group",  NULL};
    uint64_t weight;
    uint64_t ask;
    uint64_t group;
    *op = (ten_op){.namespace_name = request->route.namespace_name};
    if (!json_is_object(item))
        return wrong(request, "ops", "each operation is an object");
    if (!ten_body_knows(request, item, members))
        return false;
    if (!get_kind(request, item, op) || !get_id(request, item, op) || !get_subject(request, item, op) ||
        !get_version(request, item, &op->token) || !get_number(request, item, "weight", 0, TEN_WEIGHT_MAX, &weight) ||
        !get_number(request, item, "ask", 0, TEN_ASK_UNDO, &ask) ||
        !get_number(request, item, "group", 1, UINT32_MAX, &group))
        return false;
    bool any_ttl = op->kind == TEN_OP_LEAVE || (op->flags & TEN_OP_KEEP);
    if (any_ttl ? !get_number(request, item, "ttl_ms", 0, TENURE_TTL_MAX_MS, &op->ttl_ms)
                : !get_ttl(request, item, &op->ttl_ms))
        return false;
    /* A tombstone outlasts requests of the dead, which no TTL of this server does for longer. */
    if (op->kind == TEN_OP_LEAVE)
        op->ttl_ms = ten_min_u64(op->ttl_ms, request->server->config->ttl_max_ms);
    /* What is left of a time that others are kept out for: a store that cannot do so little keeps it longer. */
    if ((op->flags & TEN_OP_KEEP) && op->ttl_ms)
        op->ttl_ms = ten_max_u64(op->ttl_ms, least_ttl_ms(request));
    if (op->ttl_ms == 0 && (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_ANNOUNCE))
        op->ttl_ms = request->server->config->ttl_ms;
    if (op->kind == TEN_OP_RENEW)
        op->flags |= renewal_flags(request);
    if (require_target && (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_READ))
        op->flags |= TEN_OP_REQUIRE_TARGET;
    if (json_is_true(json_object_get(item, "session")))
        op->flags |= TEN_OP_SESSION;
    op->reason = get_reason(item, op);
    op->weight = (uint32_t)weight;
    op->ask = (enum ten_ask)ask;
    op->group = (uint32_t)group;
    op->metadata = get_text(item, "metadata");
    if (op->metadata && strlen(op->metadata) > TEN_METADATA_MAX)
        return wrong(request, "metadata", "must be at most 4096 bytes");
    if (op->kind == TEN_OP_CHECKPOINT)
        return get_checkpoint(request, item, op);
    return op->kind != TEN_OP_HAND || get_hand(request, item, op);
}

static bool get_ops(ten_request *request, const json_t *body) {
    const json_t *items = json_object_get(body, "ops");
    size_t count = json_array_size(items);
    const json_t *required = json_object_get(body, "require_target");
    bool require_target = json_is_true(required);
    if (required && !json_is_boolean(required))
        return wrong(request, "require_target", "must be true or false");
    if (!json_is_array(items) || count == 0 || count > TEN_BATCH_OPS_MAX)
        return wrong(request, "ops", "must be an array of 1 to 1000 operations");
    request->ops = ten_calloc(count, sizeof *request->ops);
    if (!request->ops) {
        ten_reply_error(request, 503, "unavailable", "out of memory");
        return false;
    }
    size_t checkpoints = 0;
    for (size_t i = 0; i < count; i++) {
        if (!get_op(request, json_array_get(items, i), require_target, &request->ops[i]))
            return false;
        checkpoints += (request->ops[i].flags & TEN_OP_WITH_CHECKPOINT) != 0;
    }
    if (checkpoints > TEN_BATCH_CHECKPOINTS_MAX)
        return wrong(request, "ops", "at most 160 operations of a batch may return a checkpoint");
    request->job.op_count = count;
    return true;
}

/* Forced releases, handoffs that are asked for, drains: a line for each batch. */
static void log_forced(const ten_request *request) {
    const ten_op *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < request->job.op_count; i++) {
        if (role_for(&request->ops[i]) != TEN_ROLE_ADMIN)
            continue;
        first = first ? first : &request->ops[i];
        count++;
    }
    if (first)
        ten_request_log_admin(request, request->actor, first->kind == TEN_OP_ASK ? "ask" : "force", first->target,
                              count);
}

static bool only_reads(const ten_request *request) {
    for (size_t i = 0; i < request->job.op_count; i++)
        if (request->ops[i].kind != TEN_OP_READ)
            return false;
    return true;
}

/* A batch that keeps or frees a lease, or is a heartbeat. Its other operations go with it: accounts have equal turns, so
 * nobody but its own account pays for them. */
static enum ten_urgency urgency_of(const ten_request *request) {
    for (size_t i = 0; i < request->job.op_count; i++) {
        enum ten_op_kind kind = request->ops[i].kind;
        if (kind == TEN_OP_RENEW || kind == TEN_OP_RELEASE || kind == TEN_OP_HAND || kind == TEN_OP_ANNOUNCE ||
            kind == TEN_OP_LEAVE)
            return TEN_URGENT;
    }
    return TEN_USUAL;
}

/* ---- the same, as the http store writes it. Whatever is not allowed in it is left to the other way, which says why. */

static bool take_plain(ten_request *request, const ten_plain_op *plain, bool require_target, ten_op *op) {
    const ten_server_config *config = request->server->config;
    char id[TENURE_TARGET_MAX + 1];
    ten_error error;
    *op = (ten_op){.kind = plain->kind,
                   .flags = plain->flags,
                   .namespace_name = request->route.namespace_name,
                   .target = plain->id,
                   .holder = request->holder,
                   .token = plain->version,
                   .ttl_ms = plain->ttl_ms,
                   .reason = TEN_REASON_DONE};
    if (!ten_plain_copy(id, sizeof id, plain->id, plain->id_size) || ten_id_check_target(id, &error) < 0 ||
        ten_route_is_reserved(id) || (plain->flags & TEN_OP_KEEP) || plain->version > TENURE_TOKEN_MAX)
        return false;
    if (plain->ttl_ms > 0 && (plain->ttl_ms < least_ttl_ms(request) || plain->ttl_ms > TENURE_TTL_MAX_MS ||
                              plain->ttl_ms > config->ttl_max_ms))
        return false;
    if (op->ttl_ms == 0 && op->kind == TEN_OP_ACQUIRE)
        op->ttl_ms = config->ttl_ms;
    if (op->kind == TEN_OP_RENEW)
        op->flags |= renewal_flags(request);
    else if (require_target)
        op->flags |= TEN_OP_REQUIRE_TARGET;
    return true;
}

static bool may_hold(const ten_request *request, const char *holder) {
    return !request->server->has_auth ||
           (ten_principal_may(&request->principal, TEN_ROLE_HOLD, request->route.namespace_name) &&
            ten_principal_owns(&request->principal, holder));
}

/* How many operations there are at most: each is an object, and so is the whole. */
static size_t count_objects(const ten_buf *body) {
    size_t count = 0;
    if (body->size == 0)
        return 0;
    const char *end = body->data + body->size;
    for (const char *at = body->data; at < end && (at = memchr(at, '{', (size_t)(end - at))); at++)
        count++;
    return count;
}

/* The operations point into the body, which stays. False: nothing has changed. */
static bool take_plain_batch(ten_request *request) {
    ten_plain_batch batch;
    ten_error error;
    size_t room = count_objects(&request->body);
    if (room < 2 || room - 1 > TEN_BATCH_OPS_MAX)
        return false;
    room--;
    ten_plain_op *plain = ten_calloc(room, sizeof *plain);
    ten_op *ops = ten_calloc(room, sizeof *ops);
    bool taken = plain && ops && ten_plain_batch_read(request->body.data, request->body.size, plain, room, &batch) &&
                 ten_id_check_holder(batch.holder, &error) == TENURE_OK && may_hold(request, batch.holder);
    for (size_t i = 0; taken && i < batch.count; i++)
        taken = take_plain(request, &plain[i], batch.require_target, &ops[i]);
    if (taken) {
        for (size_t i = 0; i < batch.count; i++) /* over its closing quote */
            request->body.data[(plain[i].id - request->body.data) + (ptrdiff_t)plain[i].id_size] = '\0';
        snprintf(request->holder, sizeof request->holder, "%s", batch.holder);
        request->job.op_count = batch.count;
        request->ops = ops;
    } else {
        ten_free(ops);
    }
    ten_free(plain);
    return taken;
}

void ten_server_lease_batch(ten_request *request) {
    if (take_plain_batch(request)) {
        request->job.finish = finish_batch;
        if (ten_request_uses(request, 2 * request->body.size))
            go(request, request->job.op_count, urgency_of(request));
        return;
    }
    json_t *body = ten_body_parse(request);
    static const char *const members[] = {"holder_id", "require_target", "ops", NULL};
    request->storage = body; /* the operations point into it */
    if (!body || !ten_body_knows(request, body, members) || !get_holder(request, body))
        return;
    ten_request_name_actor(request, request->holder, request->actor);
    if (!get_ops(request, body))
        return;
    request->job.finish = finish_batch;
    if (only_reads(request)) {
        request->job.ops = request->ops;
        request->job.work = read_batch;
        ten_request_wait_for_reading(request);
        return;
    }
    log_forced(request);
    go(request, request->job.op_count, urgency_of(request));
}
