/*
 * Requests about leases: one, or a batch of them. They become operations of the store; its outcomes become answers. One
 * function authorizes an operation, however it came. A batch may also have heartbeats.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "rules/instance_row.h"
#include "server/server_state.h"

/* Of a batch, operations that return a checkpoint: with it an answer is at most about as large as a page. */
#define CHECKPOINTS_MAX 160u

/* What a request about leases keeps until it is answered. */
struct leases {
    const char *holder;
    char actor[TENURE_HOLDER_MAX + 1]; /* who forces or asks; "": no operation has needed it yet */
    enum ten_role role;                /* what was found that the principal may do here */
    bool owned;                        /* the holder is one of its own */
    bool require_target;
    bool only_reads;
    enum ten_urgency urgency;
    size_t checkpoints;
    size_t forced; /* what only an admin may do; the first of them: */
    const ten_op *first_forced;
    size_t count;
    ten_op *ops;
    ten_op first[2]; /* these, or of a batch its own */
};

static void free_leases(void *own) {
    struct leases *leases = own;
    if (leases->ops != leases->first)
        ten_free(leases->ops);
}

static bool forbidden(ten_request *request, const char *what) {
    return ten_reply_error(request, 403, "forbidden", "token '%s' may not %s in namespace %s", request->principal.name,
                           what, request->route.namespace_name);
}

/* ---- one operation: what it may do, and what it lacks */

static bool is_forced(const ten_op *op) {
    return (op->flags & (TEN_OP_FORCE | TEN_OP_FORCE_NOW)) != 0;
}

/* It may be about another holder than the one who sends it. */
static bool is_admins(const ten_op *op) {
    return op->kind == TEN_OP_ASK || is_forced(op);
}

static enum ten_role role_for(const ten_op *op) {
    return is_admins(op) ? TEN_ROLE_ADMIN : op->kind == TEN_OP_READ ? TEN_ROLE_READ : TEN_ROLE_HOLD;
}

static bool has_role(const ten_request *request, struct leases *leases, enum ten_role role) {
    if (leases->role < role && ten_request_has_role(request, role))
        leases->role = role;
    return leases->role >= role;
}

static bool owns_holder(ten_request *request, struct leases *leases) {
    leases->owned = leases->owned || ten_request_owns(request, leases->holder);
    return leases->owned;
}

/* Whether it matches by its version alone, for any holder. */
static bool names_no_holder(const ten_op *op, const ten_fields *fields) {
    bool possible = op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_CHECKPOINT;
    return possible && !is_forced(op) && fields->subject.is_null;
}

/* Whether the principal may do it, and for which holder. An admin's operation may name another holder, or none; any
 * other is for the holder that the request names. */
static bool authorize(ten_request *request, struct leases *leases, const ten_fields *fields, ten_op *op) {
    ten_error error;
    if (!has_role(request, leases, role_for(op)))
        return forbidden(request, ten_op_word(op));
    if (is_admins(op)) {
        op->actor = leases->actor;
        op->holder = fields->subject.text;
        if (op->holder && ten_id_check_holder(op->holder, &error) < 0)
            return ten_reply_wrong(request, "%s", error.message);
        if (leases->actor[0] == '\0')
            ten_request_name_actor(request, leases->holder, leases->actor);
        return true;
    }
    if (op->kind == TEN_OP_READ)
        return true;
    if (names_no_holder(op, fields)) {
        bool may = !request->server->has_auth ||
                   (request->principal.role == TEN_ROLE_ADMIN && strcmp(request->principal.holders, "*") == 0);
        return may || forbidden(request, "act for a holder that it does not name");
    }
    op->holder = leases->holder;
    return owns_holder(request, leases);
}

static bool take_target(ten_request *request, const char *id, ten_op *op) {
    ten_error error;
    op->target = op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_LEAVE ? NULL : id;
    if (!op->target)
        return op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_LEAVE || op->kind == TEN_OP_ASK ||
               ten_reply_wrong(request, "id is required and must be a string: the target of the operation");
    if (ten_route_is_reserved(id))
        return ten_reply_wrong(request, "id: nodes, leases, events and history are words of this API");
    return ten_id_check_target(id, &error) == TENURE_OK || ten_reply_wrong(request, "%s", error.message);
}

static bool take_ttl(ten_request *request, uint64_t given_ms, ten_op *op) {
    const ten_server_config *config = request->server->config;
    bool is_given = given_ms != TEN_NOT_GIVEN;
    op->ttl_ms = is_given ? given_ms : 0;
    if (op->kind == TEN_OP_LEAVE) {
        /* A tombstone outlasts requests of the dead, which no TTL of this server does for longer. */
        op->ttl_ms = ten_min_u64(op->ttl_ms, config->ttl_max_ms);
    } else if (op->flags & TEN_OP_KEEP) {
        /* What is left of a time that others are kept out for: a store that cannot do so little keeps it longer. */
        if (op->ttl_ms)
            op->ttl_ms = ten_max_u64(op->ttl_ms, ten_fields_least_ttl_ms(request));
    } else if (is_given) {
        return ten_fields_check_ttl(request, given_ms);
    } else if (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_HAND) {
        op->ttl_ms = config->ttl_ms;
    }
    return true;
}

/* What a holder says of its own release. It cannot say that it was forced: the history would lack by whom. */
static enum ten_reason reason_of(const ten_op *op, const char *word) {
    enum ten_reason reason = ten_reason_parse(word);
    if (reason != TEN_REASON_NONE && (reason != TEN_REASON_FORCED || is_forced(op)))
        return reason;
    return op->kind == TEN_OP_HAND ? TEN_REASON_REBALANCE : TEN_REASON_DONE;
}

static unsigned flags_of(const ten_request *request, const struct leases *leases, const ten_op *op,
                         const ten_fields *fields) {
    unsigned flags = fields->session == TEN_YES ? TEN_OP_SESSION : 0;
    /* A principal of some namespaces must not begin an epoch, in which no store on this server grants anything new. */
    if (op->kind == TEN_OP_RENEW && !ten_request_is_everywhere(request))
        flags |= TEN_OP_NO_PROOF;
    if (leases->require_target && (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_READ))
        flags |= TEN_OP_REQUIRE_TARGET;
    return flags;
}

/* What only these kinds of operations need. A release may leave the version out, but a lease that another instance has
 * by now must not be handed on by its holder's name alone. The successor may be any instance: it decides for itself
 * whether it takes the lease. */
static bool is_complete(ten_request *request, const ten_op *op, const ten_fields *fields) {
    if (op->kind == TEN_OP_ASK && !op->target && !op->holder)
        return ten_reply_wrong(request, "ask needs an id or a holder_id");
    if (op->kind == TEN_OP_CHECKPOINT)
        return ten_fields_check(request, TEN_IN_CHECKPOINTING, fields);
    if (op->kind != TEN_OP_HAND)
        return true;
    if (!ten_lane_capabilities(request->server->lanes[TEN_LEASES])->hands)
        return ten_reply_wrong(request, "the store of this server cannot hand a lease over; release it instead");
    return ten_fields_check(request, TEN_IN_HANDING, fields);
}

/* A batch that keeps or frees a lease, or is a heartbeat, is urgent. Its other operations go with it: accounts have
 * equal turns, so only its own account pays for them. */
static bool is_urgent(const ten_op *op) {
    return op->kind == TEN_OP_RENEW || op->kind == TEN_OP_RELEASE || op->kind == TEN_OP_HAND ||
           op->kind == TEN_OP_ANNOUNCE || op->kind == TEN_OP_LEAVE;
}

static void count_op(struct leases *leases, const ten_op *op) {
    leases->checkpoints += (op->flags & TEN_OP_WITH_CHECKPOINT) != 0;
    leases->only_reads = (leases->count == 0 || leases->only_reads) && op->kind == TEN_OP_READ;
    if (is_urgent(op))
        leases->urgency = TEN_URGENT;
    if (is_admins(op) && leases->forced++ == 0)
        leases->first_forced = op;
    leases->count++;
}

/* Adds an operation; there is room for it. False: it has been answered. */
static bool add_op(ten_request *request, enum ten_op_kind kind, unsigned flags, const char *id,
                   const ten_fields *fields) {
    struct leases *leases = request->own;
    ten_op *op = &leases->ops[leases->count];
    *op = (ten_op){.kind = kind,
                   .flags = flags,
                   .namespace_name = request->route.namespace_name,
                   .token = fields->version,
                   .successor = fields->successor_id,
                   .weight = (uint32_t)fields->weight,
                   .metadata = fields->metadata,
                   .ask = (enum ten_ask)fields->ask,
                   .checkpoint = fields->value,
                   .group = (uint32_t)fields->group};
    if (!authorize(request, leases, fields, op) || !take_target(request, id, op) || !is_complete(request, op, fields) ||
        !take_ttl(request, fields->ttl_ms, op))
        return false;
    op->flags |= flags_of(request, leases, op, fields);
    op->reason = reason_of(op, fields->reason);
    count_op(leases, op);
    return true;
}

/* ---- answers about one lease */

static uint64_t expires_at(const ten_result *result) {
    return result->remaining_ms ? ten_wall_ms(&ten_system_clock) + result->remaining_ms : 0;
}

/* The outcomes that every single request shares. True: it has been answered. */
static bool answer_usual(ten_request *request, const ten_result *result) {
    if (result->outcome == TEN_ERROR)
        ten_reply_store_error(request, result->error, tenure_strerror(result->error));
    else if (result->outcome == TEN_UNKNOWN)
        ten_reply_unknown_target(request);
    else if (result->outcome == TEN_HELD)
        ten_reply_held(request, result);
    else
        return false;
    return true;
}

static void answer_get(ten_request *request, const ten_result *result) {
    if (answer_usual(request, result))
        return;
    ten_buf *reply = ten_reply_open(request, 200);
    ten_json_text(reply, "holder_id", result->holder);
    ten_json_number(reply, "version", result->token);
    ten_json_time(reply, "expires_at", result->holder ? expires_at(result) : 0);
    if (result->holder)
        ten_json_number(reply, "remaining_ms", result->remaining_ms);
    ten_reply_close(request);
}

/* After the release the lease was read: a target that is not known is another answer than one that was not held. */
static void answer_release(ten_request *request, const ten_result *results) {
    const struct leases *leases = request->own;
    if (answer_usual(request, &results[0]) || answer_usual(request, &results[1]))
        return;
    if (results[0].outcome == TEN_LOST && results[1].holder && strcmp(results[1].holder, leases->holder) != 0)
        ten_reply_held(request, &results[1]);
    else
        ten_reply_status(request, 204);
}

static void answer_checkpoint(ten_request *request, const ten_result *result) {
    if (answer_usual(request, result))
        return;
    ten_buf *reply = ten_reply_open(request, 200);
    ten_json_text(reply, "value", result->checkpoint);
    if (result->checkpoint)
        ten_json_number(reply, "version", result->checkpoint_token);
    else
        ten_json_text(reply, "version", NULL);
    ten_reply_close(request);
}

static void answer_written(ten_request *request, const ten_result *result) {
    if (result->outcome == TEN_HELD)
        ten_reply_error(request, 503, "unavailable", "the store is recovering; try again in %llu ms",
                        (unsigned long long)result->remaining_ms);
    else if (result->outcome == TEN_LOST)
        ten_reply_stale(request, result);
    else if (!answer_usual(request, result))
        ten_reply_status(request, 204);
}

static const char refused_hand[] =
    "the lease was not handed over: the successor is not announced, drains or has left, the lease was forced, "
    "or the store is recovering";

/* An acquire, a renewal or a handoff. */
static void answer_grant(ten_request *request, const ten_result *result) {
    const ten_op *op = request->job.ops;
    if (op->kind == TEN_OP_HAND && result->outcome == TEN_UNKNOWN) {
        ten_reply_error(request, 409, "refused", "%s: %s", op->successor, refused_hand);
        return;
    }
    if (answer_usual(request, result))
        return;
    if (result->outcome == TEN_LOST) {
        ten_reply_lost(request, result);
        return;
    }
    ten_buf *reply = ten_reply_open(request, op->kind == TEN_OP_ACQUIRE ? 201 : 200);
    if (op->kind == TEN_OP_HAND)
        ten_json_text(reply, "holder_id", result->holder);
    ten_json_number(reply, "version", result->token);
    ten_json_time(reply, "expires_at", expires_at(result));
    ten_json_number(reply, "ttl_ms", result->ttl_ms);
    if (result->checkpoint)
        ten_json_text(reply, "checkpoint", result->checkpoint);
    ten_reply_close(request);
}

/* ---- one lease */

static struct leases *own_leases(ten_request *request) {
    struct leases *leases = ten_request_own(request, sizeof *leases, free_leases);
    if (leases)
        leases->ops = leases->first;
    return leases;
}

/* An operation on the target of the path, with the fields of the request. */
static bool apply_one(ten_request *request, enum ten_op_kind kind, unsigned flags,
                      void (*answer)(ten_request *request, const ten_result *results)) {
    ten_fields fields = {.ttl_ms = TEN_NOT_GIVEN};
    struct leases *leases = own_leases(request);
    if (!leases || !ten_fields_take(request, &fields))
        return false;
    leases->holder = fields.holder_id;
    if (!add_op(request, kind, flags, request->route.id, &fields))
        return false;
    if (kind == TEN_OP_RELEASE)
        leases->ops[leases->count++] = (ten_op){.kind = TEN_OP_READ,
                                                .flags = TEN_OP_REQUIRE_TARGET,
                                                .namespace_name = request->route.namespace_name,
                                                .target = request->route.id};
    return ten_request_apply(request, leases->ops, leases->count, request->operation->urgency, answer);
}

bool ten_server_lease_get(ten_request *request) {
    return apply_one(request, TEN_OP_READ, TEN_OP_REQUIRE_TARGET, answer_get);
}

bool ten_server_lease_acquire(ten_request *request) {
    return apply_one(request, TEN_OP_ACQUIRE, TEN_OP_FRESH | TEN_OP_REQUIRE_TARGET | TEN_OP_WITH_CHECKPOINT,
                     answer_grant);
}

bool ten_server_lease_renew(ten_request *request) {
    return apply_one(request, TEN_OP_RENEW, 0, answer_grant);
}

bool ten_server_lease_release(ten_request *request) {
    return apply_one(request, TEN_OP_RELEASE, 0, answer_release);
}

bool ten_server_lease_hand(ten_request *request) {
    return apply_one(request, TEN_OP_HAND, 0, answer_grant);
}

bool ten_server_checkpoint_get(ten_request *request) {
    return apply_one(request, TEN_OP_READ, TEN_OP_REQUIRE_TARGET | TEN_OP_WITH_CHECKPOINT, answer_checkpoint);
}

bool ten_server_checkpoint_put(ten_request *request) {
    return apply_one(request, TEN_OP_CHECKPOINT, 0, answer_written);
}

/* ---- a batch */

static void write_outcome(ten_buf *reply, const ten_op *op, const ten_result *result) {
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
    ten_json_some(reply, "acquired_at_ms", result->acquired_at_ms);
    ten_json_flag(reply, "registered", result->registered);
    ten_json_flag(reply, "paused", result->paused);
    ten_json_flag(reply, "barred", result->barred);
    ten_json_flag(reply, "recovering", result->recovering);
    ten_json_some(reply, "ask", result->ask);
    ten_json_some(reply, "session", result->session);
    ten_json_some(reply, "session_version", result->session_version);
    if (result->checkpoint) {
        ten_json_text(reply, "checkpoint", result->checkpoint);
        ten_json_number(reply, "checkpoint_version", result->checkpoint_token);
    }
    ten_json_close(reply);
}

static void write_outcomes(ten_request *request, const ten_result *results) {
    ten_buf_char(&request->reply, '[');
    for (size_t i = 0; i < request->job.op_count; i++) {
        ten_json_item(&request->reply, i);
        write_outcome(&request->reply, &request->job.ops[i], &results[i]);
    }
    ten_buf_text(&request->reply, "]\n");
}

static int read_leases(ten_request *request, ten_store *store) {
    const ten_job *job = &request->job;
    ten_result *results = ten_calloc(job->op_count, sizeof *results);
    int r = results ? ten_store_apply(store, job->ops, results, job->op_count, request->server->config->timeout_ms)
                    : ten_fail_memory(&store->error, "the answer");
    if (r == TENURE_OK)
        write_outcomes(request, results);
    ten_free(results);
    return r;
}

static bool take_op(ten_request *request, ten_items *items) {
    const struct leases *leases = request->own;
    ten_fields fields = {.holder_id = leases->holder, .ttl_ms = TEN_NOT_GIVEN};
    enum ten_op_kind kind;
    unsigned flags;
    if (!ten_fields_next(request, items, TEN_IN_ITEM, &fields))
        return false;
    if (!ten_op_word_parse(fields.op, &kind, &flags))
        return ten_reply_wrong(request, "op must be acquire, renew, release, hand, checkpoint or read");
    return add_op(request, kind, flags, fields.id, &fields);
}

bool ten_server_lease_batch(ten_request *request) {
    ten_fields fields = {0};
    struct leases *leases = own_leases(request);
    if (!leases || !ten_fields_take(request, &fields))
        return false;
    leases->holder = fields.holder_id;
    leases->require_target = fields.require_target == TEN_YES;
    leases->ops = ten_calloc(fields.ops.count, sizeof *leases->ops);
    if (!leases->ops)
        return ten_reply_no_memory(request);
    while (fields.ops.at < fields.ops.count)
        if (!take_op(request, &fields.ops))
            return false;
    if (leases->checkpoints > CHECKPOINTS_MAX)
        return ten_reply_wrong(request, "at most 160 operations of a batch may return a checkpoint");
    if (leases->only_reads) { /* it needs no place among the renewals */
        request->job.ops = leases->ops;
        request->job.op_count = leases->count;
        return ten_request_work(request, TEN_READING, read_leases, NULL);
    }
    if (leases->forced > 0) {
        const ten_op *first = leases->first_forced;
        ten_request_log_admin(request, leases->actor, first->kind == TEN_OP_ASK ? "ask" : "force", first->target,
                              leases->forced);
    }
    return ten_request_apply(request, leases->ops, leases->count, leases->urgency, write_outcomes);
}
