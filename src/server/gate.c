/*
 * The gate: where a request is charged to the budget of its account, from its headers until its answer has been
 * taken. What an account may have is for core/budget.h to say; connections are charged in connections.c, and turns at
 * the store in lane.c. Called by request.c, reply.c and whatever reads a body, in the HTTP thread.
 */
#include <string.h>

#include "base/clock.h"
#include "server/server_state.h"

#define LARGE_BODY   ((size_t)16 * 1024)
#define SMALL_REPLY  ((size_t)4 * 1024)
#define OUTCOME_SIZE 384u /* of the answer, for an operation */
#define JSON_GROWTH  6u   /* a control character is six in a JSON string */

static ten_budget *budget_of(const ten_request *request) {
    return &request->server->accounts.budget;
}

static bool refuse(ten_request *request, enum ten_resource resource) {
    struct ten_server *server = request->server;
    ten_accounts_log_limit(&server->accounts, request->account, resource, server->log);
    return ten_reply_error(
        request, 429, "rate_limited",
        "%s has reached its share of this server's %s: wait as long as Retry-After says, then try again",
        request->account->name, ten_resource_name(resource));
}

static bool has_time(ten_request *request) {
    return ten_budget_may_spend(budget_of(request), request->account, request->urgency, ten_now_ms());
}

bool ten_gate_grow(ten_request *request, size_t size) {
    return ten_budget_resize(budget_of(request), &request->share.memory, request->account, TEN_RESOURCE_MEMORY, size,
                             request->urgency) ||
           refuse(request, TEN_RESOURCE_MEMORY);
}

bool ten_gate_enter(ten_request *request, size_t body_size) {
    if (!ten_connection_charge(request)) {
        request->unread = true;
        return refuse(request, TEN_RESOURCE_CONNECTIONS);
    }
    if (!has_time(request)) {
        request->unread = request->account->stranger && body_size > LARGE_BODY;
        return refuse(request, TEN_RESOURCE_TIME);
    }
    return ten_gate_grow(request, body_size);
}

/* A large body is read only if its account may use more of this thread's time. */
bool ten_gate_read(ten_request *request) {
    return request->body.size < LARGE_BODY || has_time(request) || refuse(request, TEN_RESOURCE_TIME);
}

/* ---- before the store */

/* Where a namespace becomes known to the store. */
static bool begins_namespace(const ten_request *request) {
    const ten_job *job = &request->job;
    if (!job->ops)
        return request->method != TEN_GET && request->route.namespace_name[0] != '\0';
    for (size_t i = 0; i < job->op_count; i++)
        if (job->ops[i].kind == TEN_OP_ACQUIRE || job->ops[i].kind == TEN_OP_ANNOUNCE)
            return true;
    return false;
}

/* What its answer may take. */
static size_t answer_size(const ten_job *job) {
    size_t size = ten_job_weight(job) * OUTCOME_SIZE;
    for (size_t i = 0; i < job->op_count; i++)
        if (job->ops[i].flags & TEN_OP_WITH_CHECKPOINT)
            size += JSON_GROWTH * TENURE_CHECKPOINT_MAX;
    return size;
}

bool ten_gate_queue(ten_request *request, enum ten_urgency urgency) {
    ten_accounts *accounts = &request->server->accounts;
    if (begins_namespace(request) &&
        !ten_accounts_write_to(accounts, request->account, request->route.namespace_name, ten_now_ms()))
        return refuse(request, TEN_RESOURCE_NAMESPACES);
    /* A write needs room for its answer before it is carried out, because the client must learn what was done. A
     * listing can be refused afterwards. */
    if (request->method != TEN_GET &&
        !ten_gate_grow(request, request->share.memory.amount + answer_size(&request->job)))
        return false;
    return ten_budget_resize(&accounts->budget, &request->share.waiting, request->account, TEN_RESOURCE_WAITING,
                             ten_job_weight(&request->job), urgency) ||
           refuse(request, TEN_RESOURCE_WAITING);
}

bool ten_gate_stream(ten_request *request) {
    if (!ten_budget_resize(budget_of(request), &request->share.stream, request->account, TEN_RESOURCE_STREAMS, 1,
                           TEN_USUAL))
        return refuse(request, TEN_RESOURCE_STREAMS);
    return ten_accounts_stream(&request->server->accounts, request->account, request->route.namespace_name) ||
           refuse(request, TEN_RESOURCE_FEEDS);
}

/* ---- afterwards */

void ten_gate_answer(ten_request *request) {
    ten_budget *budget = budget_of(request);
    ten_share *share = &request->share;
    size_t size = request->reply.size;
    ten_request_free_input(request);
    ten_budget_return(budget, &share->waiting, TEN_RESOURCE_WAITING);
    if (request->method == TEN_GET && size > SMALL_REPLY &&
        !ten_budget_resize(budget, &share->memory, request->account, TEN_RESOURCE_MEMORY, size, request->urgency)) {
        ten_buf_free(&request->reply);
        (void)refuse(request, TEN_RESOURCE_MEMORY);
    }
    ten_budget_note(budget, &share->memory, request->account, TEN_RESOURCE_MEMORY, request->reply.size);
}

void ten_gate_spend(ten_request *request, uint64_t spent_us, uint64_t now_ms) {
    ten_budget_spend(budget_of(request), request->account, request->urgency, spent_us, now_ms);
}

/* A refusal because of a full share or of an unknown token may be delayed. Asked before the body is read, too: what
 * is not read keeps the client waiting, and costs nothing. */
uint64_t ten_gate_delay_ms(ten_request *request) {
    bool refused = request->status == 429 || (request->status == 401 && request->account->stranger);
    if (request->state != TEN_REQUEST_ANSWERED || !refused || request->paused || request->unread ||
        request->server->draining)
        return 0;
    request->paused = true;
    return ten_account_refusal_ms(request->account, ten_now_ms());
}

void ten_gate_leave(ten_request *request) {
    ten_budget *budget = budget_of(request);
    ten_budget_return(budget, &request->share.memory, TEN_RESOURCE_MEMORY);
    ten_budget_return(budget, &request->share.waiting, TEN_RESOURCE_WAITING);
    ten_budget_return(budget, &request->share.stream, TEN_RESOURCE_STREAMS);
}
