/*
 * One request: its headers are checked, its body is collected, it is handed to what answers it, and its answer is sent.
 * Called by libmicrohttpd, in the HTTP thread.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "server/server_state.h"

#define STREAM_BLOCK 8192u
#define LARGE_BODY   ((size_t)16 * 1024)
#define OUTCOME_SIZE 384u /* of the answer, for an operation */
#define JSON_GROWTH  6u   /* a control character is six in a JSON string */
#define BESIDE_US    15u  /* what a request costs libmicrohttpd */

const char *ten_request_argument(ten_request *request, const char *name) {
    /* Decoded in libmicrohttpd's own copy, which nobody else reads. */
    const char *value = MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    if (!value)
        return NULL;
    union {
        const char *given;
        char *ours;
    } text = {value};
    return ten_percent_decode(text.ours, true) ? value : "%";
}

/* ---- the budget of its account */

void ten_request_refuse(ten_request *request, enum ten_resource resource) {
    struct ten_server *server = request->server;
    ten_accounts_log_limit(&server->accounts, request->account, resource, server->log);
    ten_reply_error(request, 429, "rate_limited",
                    "%s has reached its share of this server's %s: wait as long as Retry-After says, then try again",
                    request->account->name, ten_resource_name(resource));
}

bool ten_request_uses(ten_request *request, size_t size) {
    if (ten_budget_resize(&request->server->accounts.budget, &request->memory, request->account, TEN_RESOURCE_MEMORY,
                          size, request->urgency))
        return true;
    ten_request_refuse(request, TEN_RESOURCE_MEMORY);
    return false;
}

/* What may be a renewal, a heartbeat or a release. A batch is looked at when it has come; it costs no more than a body
 * that is not one, and an account that calls other things urgent has only its own share of the reserve. */
static enum ten_urgency urgency_of(const ten_request *request) {
    switch (request->route.kind) {
    case TEN_ROUTE_RENEW:
    case TEN_ROUTE_HAND:
    case TEN_ROUTE_BATCH:
        return TEN_URGENT;
    case TEN_ROUTE_LEASE:
        return request->method == TEN_DELETE ? TEN_URGENT : TEN_USUAL;
    case TEN_ROUTE_NODE:
        return request->method == TEN_GET ? TEN_USUAL : TEN_URGENT;
    default:
        return TEN_USUAL;
    }
}

/* Where a namespace becomes known to the store. */
static bool begins_namespace(const ten_request *request) {
    if (!request->ops)
        return request->method != TEN_GET && request->route.namespace_name[0] != '\0';
    for (size_t i = 0; i < request->job.op_count; i++)
        if (request->ops[i].kind == TEN_OP_ACQUIRE || request->ops[i].kind == TEN_OP_ANNOUNCE)
            return true;
    return false;
}

/* What its answer may take. */
static size_t answer_size(const ten_request *request) {
    size_t size = ten_job_weight(&request->job) * OUTCOME_SIZE;
    for (size_t i = 0; i < request->job.op_count; i++)
        if (request->ops[i].flags & TEN_OP_WITH_CHECKPOINT)
            size += JSON_GROWTH * TENURE_CHECKPOINT_MAX;
    return size;
}

/* The first of the two numbers of a lane for ten_account_turn(). */
static unsigned queue_of(const struct ten_server *server, const ten_lane *lane) {
    return lane == server->leases ? 0 : lane == server->reading ? 2 : 4;
}

bool ten_request_wait(ten_request *request, ten_lane *lane, enum ten_urgency urgency) {
    struct ten_server *server = request->server;
    ten_accounts *accounts = &server->accounts;
    if (begins_namespace(request) &&
        !ten_accounts_write_to(accounts, request->account, request->route.namespace_name, ten_now_ms())) {
        ten_request_refuse(request, TEN_RESOURCE_NAMESPACES);
        return false;
    }
    /* A write needs room for its answer before it is carried out: the client must hear what has happened. A listing can
     * be refused afterwards. */
    if (request->method != TEN_GET && !ten_request_uses(request, request->memory.amount + answer_size(request)))
        return false;
    if (!ten_budget_resize(&accounts->budget, &request->waiting, request->account, TEN_RESOURCE_WAITING,
                           ten_job_weight(&request->job), urgency)) {
        ten_request_refuse(request, TEN_RESOURCE_WAITING);
        return false;
    }
    request->state = TEN_REQUEST_WAITING;
    request->queued = true; /* from here on it is the lane's */
    ten_lane_put(lane, &request->job, urgency, request->account, queue_of(server, lane));
    return true;
}

static bool wait_for_work(ten_request *request, ten_lane *lane) {
    if (request->method == TEN_GET || lane == request->server->reading)
        request->job.client_fd = ten_connection_fd(request);
    return ten_request_wait(request, lane, TEN_USUAL);
}

bool ten_request_wait_for_listing(ten_request *request) {
    return wait_for_work(request, request->server->listing);
}

bool ten_request_wait_for_reading(ten_request *request) {
    return wait_for_work(request, request->server->reading);
}

/* ---- who sent it */

static enum ten_role role_for(const ten_request *request) {
    switch (request->route.kind) {
    case TEN_ROUTE_PAGE:
    case TEN_ROUTE_HEALTHZ:
    case TEN_ROUTE_READYZ:
    case TEN_ROUTE_OPENAPI:
        return TEN_ROLE_NONE;
    case TEN_ROUTE_TARGET:
    case TEN_ROUTE_PIN:
    case TEN_ROUTE_FORGET:
        return TEN_ROLE_ADMIN;
    case TEN_ROUTE_TARGETS:
        return request->method == TEN_GET ? TEN_ROLE_READ : TEN_ROLE_ADMIN;
    case TEN_ROUTE_BATCH:
        return TEN_ROLE_READ; /* each operation is looked at */
    default:
        return request->method == TEN_GET ? TEN_ROLE_READ : TEN_ROLE_HOLD;
    }
}

/* As its header says; 0: it does not. */
static size_t body_size(const ten_request *request) {
    const char *length = ten_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length ? strtoull(length, NULL, 10) : 0;
}

/* A body of somebody who may not send one is not waited for, if it is large. */
static void refuse_body(ten_request *request) {
    bool chunked = ten_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    request->unread = chunked || body_size(request) > TEN_BATCH_BODY_MAX;
}

static bool check_principal(ten_request *request) {
    struct ten_server *server = request->server;
    enum ten_role role = role_for(request);
    if (!server->has_auth || role == TEN_ROLE_NONE)
        return true;
    const char *given = ten_request_header(request, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *token = given && strncasecmp(given, "Bearer ", 7) == 0 ? given + 7 : NULL;
    const ten_principal *principal = token ? ten_auth_find(&server->auth, token) : NULL;
    if (!principal) {
        ten_reply_error(request, 401, "unauthorized", token ? "unknown token" : "missing bearer token");
        refuse_body(request);
        return false;
    }
    ten_account *account = ten_accounts_of_principal(&server->accounts, principal->name);
    if (!account) {
        ten_reply_error(request, 503, "unavailable", "out of memory");
        return false;
    }
    request->principal = *principal;
    request->account = account;
    const char *where = request->route.namespace_name;
    bool may = where[0] ? ten_principal_may(principal, role, where) : principal->role >= role;
    if (!may) {
        const char *what = role == TEN_ROLE_READ ? "read" : role == TEN_ROLE_HOLD ? "hold leases in" : "administer";
        ten_reply_error(request, 403, "forbidden", "token '%s' may not %s %s%s", principal->name, what,
                        where[0] ? "namespace " : "this server", where);
        refuse_body(request);
    }
    return may;
}

bool ten_request_owns(ten_request *request, const char *holder) {
    if (!request->server->has_auth || ten_principal_owns(&request->principal, holder))
        return true;
    ten_reply_error(request, 403, "forbidden", "%s may not act for %s", request->principal.name, holder);
    return false;
}

/* Whether its account may have what the request needs before it is understood. */
static bool check_budget(ten_request *request) {
    struct ten_server *server = request->server;
    size_t size = body_size(request);
    if (!ten_connection_charge(request)) {
        ten_request_refuse(request, TEN_RESOURCE_CONNECTIONS);
        request->unread = true;
        return false;
    }
    if (!ten_budget_may_spend(&server->accounts.budget, request->account, request->urgency, ten_now_ms())) {
        ten_request_refuse(request, TEN_RESOURCE_TIME);
        request->unread = request->account->stranger && size > LARGE_BODY;
        return false;
    }
    return ten_request_uses(request, size);
}

/* ---- the event stream */

static ssize_t read_stream(void *userdata, uint64_t position, char *text, size_t size) {
    ten_request *request = userdata;
    (void)position;
    ssize_t count = ten_events_read(request->reader, text, size);
    if (count == 0)
        MHD_suspend_connection(request->connection);
    return count < 0 ? MHD_CONTENT_READER_END_OF_STREAM : count;
}

static bool join_stream(ten_request *request, uint64_t cursor) {
    ten_accounts *accounts = &request->server->accounts;
    const char *where = request->route.namespace_name;
    if (!ten_budget_resize(&accounts->budget, &request->stream, request->account, TEN_RESOURCE_STREAMS, 1, TEN_USUAL)) {
        ten_request_refuse(request, TEN_RESOURCE_STREAMS);
        return false;
    }
    if (!ten_accounts_stream(accounts, request->account, where)) {
        ten_request_refuse(request, TEN_RESOURCE_FEEDS);
        return false;
    }
    request->reader = ten_events_join(request->server->events, where, cursor, request);
    if (request->reader)
        return true;
    ten_accounts_stream_end(accounts, where);
    ten_reply_error(request, 503, "unavailable", "too many event streams are open");
    return false;
}

static enum MHD_Result send_stream(ten_request *request) {
    const char *last = ten_request_header(request, "Last-Event-ID");
    const char *asked = ten_request_argument(request, "last_event_id");
    const char *given = last && last[0] ? last : asked;
    uint64_t cursor = given ? strtoull(given, NULL, 10) : UINT64_MAX;
    if (given && (given[0] == '\0' || strspn(given, "0123456789") != strlen(given) || cursor == UINT64_MAX)) {
        ten_reply_error(request, 400, "bad_request", "Last-Event-ID is the id of an event, a number");
        return ten_reply_send(request);
    }
    if (!join_stream(request, cursor))
        return ten_reply_send(request);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, request, NULL);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    ten_reply_add_safety(response);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    ten_connection_streams(request);
    enum MHD_Result queued = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    ten_metrics_count(&request->server->metrics, request->route.kind, MHD_HTTP_OK, 0);
    return queued;
}

/* ---- answering */

#define METRICS_TYPE "text/plain; version=0.0.4"

extern const char ten_openapi_text[];

static void answer_text(ten_request *request, const char *type, const char *text) {
    request->state = TEN_REQUEST_ANSWERED;
    request->status = 200;
    request->type = type;
    ten_buf_text(&request->reply, text);
}

bool ten_request_may_read(const ten_request *request, const char *namespace_name) {
    return !request->server->has_auth || ten_principal_may(&request->principal, TEN_ROLE_READ, namespace_name);
}

static bool is_shown(const char *namespace_name, const void *userdata) {
    return ten_request_may_read(userdata, namespace_name);
}

static int read_gauges(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    return ten_gauges_write(request->server->gauges, store, request->server->config->timeout_ms, is_shown, request,
                            &request->reply);
}

/* Without the gauges there is still the rest: that the store does not answer is part of it. */
static void finish_metrics(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)error;
    (void)message;
    (void)results;
    ten_reply_status(request, 200);
    request->type = METRICS_TYPE;
}

static void write_metrics(ten_request *request, bool up) {
    struct ten_server *server = request->server;
    ten_buf_clear(&request->reply);
    answer_text(request, METRICS_TYPE, "");
    ten_metrics_write(&server->metrics, ten_lane_store_name(server->leases),
                      ten_lane_errors(server->leases) + ten_lane_errors(server->reading) +
                          ten_lane_errors(server->listing),
                      up, ten_events_count(server->events), &request->reply);
    bool all = !server->has_auth || strcmp(request->principal.namespaces, "*") == 0;
    ten_accounts_metrics(&server->accounts, all ? NULL : request->account, &request->reply);
}

static void answer_metrics(ten_request *request) {
    struct ten_server *server = request->server;
    char message[256];
    bool up = ten_lane_is_up(server->leases, message);
    write_metrics(request, up);
    if (!up)
        return;
    request->job.work = read_gauges;
    request->job.finish = finish_metrics;
    if (!ten_request_wait_for_listing(request)) /* without what the store would say */
        write_metrics(request, up);
}

/* The query is there in parts only, each still encoded, but for blanks. */
static enum MHD_Result add_argument(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    ten_buf *query = userdata;
    const char *const parts[] = {query->size ? "&" : "?", name, value ? "=" : "", value ? value : ""};
    (void)kind;
    for (size_t i = 0; i < TEN_COUNT(parts); i++)
        for (const char *at = parts[i]; *at; at++)
            ten_buf_text(query, *at == ' ' ? "%20" : (char[]){*at, '\0'});
    return MHD_YES;
}

static void redirect(ten_request *request, const char *path) {
    ten_buf query = {0};
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_argument, &query);
    const char *more = ten_buf_string(&query);
    ten_reply_error(request, 308, "not_found", "the API is at /api/v1%s", path);
    snprintf(request->header[0], sizeof request->header[0], "Location");
    int size = snprintf(request->header[1], sizeof request->header[1], "/api/v1%s%s", path, more);
    if (query.failed || size >= (int)sizeof request->header[1])
        ten_reply_error(request, 400, "bad_request", "the path is too long");
    ten_buf_free(&query);
}

static void dispatch(ten_request *request) {
    static void (*const handlers[TEN_METRIC_ROUTES][4])(ten_request *) = {
        [TEN_ROUTE_PAGE] = {ten_page_get},
        [TEN_ROUTE_READYZ] = {ten_server_ready},
        [TEN_ROUTE_METRICS] = {answer_metrics},
        [TEN_ROUTE_NAMESPACES] = {ten_server_namespaces_get},
        [TEN_ROUTE_TARGETS] = {ten_server_targets_get, ten_server_targets_edit},
        [TEN_ROUTE_HISTORY] = {ten_server_history_get},
        [TEN_ROUTE_TARGET] = {NULL, NULL, ten_server_target_put, ten_server_target_delete},
        [TEN_ROUTE_PIN] = {NULL, NULL, ten_server_pin_put, ten_server_pin_delete},
        [TEN_ROUTE_FORGET] = {NULL, ten_server_targets_forget, ten_server_target_put, ten_server_target_delete},
        [TEN_ROUTE_LEASE] = {ten_server_lease_get, ten_server_lease_acquire, NULL, ten_server_lease_release},
        [TEN_ROUTE_CHECKPOINT] = {ten_server_checkpoint_get, NULL, ten_server_checkpoint_put},
        [TEN_ROUTE_OWNER] = {ten_server_owner_get},
        [TEN_ROUTE_RENEW] = {NULL, ten_server_lease_renew},
        [TEN_ROUTE_HAND] = {NULL, ten_server_lease_hand},
        [TEN_ROUTE_BATCH] = {NULL, ten_server_lease_batch},
        [TEN_ROUTE_NODES] = {ten_server_instances_get},
        [TEN_ROUTE_NODE] = {NULL, NULL, ten_server_instance_put, ten_server_instance_delete},
    };
    unsigned column = 0;
    while (column < 3 && request->method != 1u << column)
        column++;
    if (request->route.kind == TEN_ROUTE_HEALTHZ)
        answer_text(request, "application/json", "{\"status\":\"alive\"}\n");
    else if (request->route.kind == TEN_ROUTE_OPENAPI)
        answer_text(request, "application/json", ten_openapi_text);
    else
        handlers[request->route.kind][column](request);
}

static void refuse_method(ten_request *request) {
    static const char *const words[] = {"GET, HEAD", "POST", "PUT", "DELETE"};
    unsigned known = ten_route_methods(request->route.kind);
    char allow[64] = "";
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (known & 1u << i)
            snprintf(allow + strlen(allow), sizeof allow - strlen(allow), "%s%s", allow[0] ? ", " : "", words[i]);
    ten_reply_error(request, 405, "method_not_allowed", "method not allowed; use %s", allow);
    snprintf(request->header[0], sizeof request->header[0], "Allow");
    snprintf(request->header[1], sizeof request->header[1], "%s", allow);
}

/* Everything that can be known before the body has come. */
static void look_at_headers(ten_request *request, const char *path, const char *method, const char *version) {
    if (!ten_headers_check_framing(request, method, version) || !ten_headers_check_host(request))
        return;
    if (!ten_connection_is_certified(request)) {
        ten_reply_error(request, 403, "forbidden", "a client certificate is required");
        return;
    }
    if (request->route.kind == TEN_ROUTE_BAD_PATH)
        ten_reply_error(request, 400, "bad_request", "%s", request->route.error.message);
    else if (request->route.kind == TEN_ROUTE_REDIRECT)
        redirect(request, path);
    else if (request->route.kind == TEN_ROUTE_NOT_FOUND)
        ten_reply_error(request, 404, "not_found", "there is nothing here; /openapi.json describes what there is");
    else if (!(ten_route_methods(request->route.kind) & request->method))
        refuse_method(request);
    else if (check_principal(request) && ten_headers_check_type(request) && ten_headers_check_length(request))
        (void)check_budget(request);
}

static ten_request *new_request(struct ten_server *server, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version) {
    ten_request *request = ten_calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->server = server;
    request->connection = connection;
    request->account = ten_connection_account(connection);
    if (!request->account) {
        ten_free(request);
        return NULL;
    }
    request->job.client_fd = -1;
    request->began_us = ten_boot_us();
    ten_connection_greeted(server, connection);
    server->requests++;
    request->method = ten_method_parse(method);
    ten_route_parse(path, &request->route);
    request->urgency = urgency_of(request);
    look_at_headers(request, path, method, version);
    return request;
}

static void take_body(ten_request *request, const char *data, size_t size) {
    if (request->state != TEN_REQUEST_COLLECTING)
        return;
    if (request->body.size + size > request->body_max)
        request->too_large = true;
    else if (request->memory.amount >= request->body.size + size ||
             ten_request_uses(request, request->body.size + size))
        ten_buf_add(&request->body, data, size);
}

/* A large body is understood only if its account may use more of this thread's time. */
static bool may_understand(ten_request *request) {
    if (request->body.size < LARGE_BODY ||
        ten_budget_may_spend(&request->server->accounts.budget, request->account, request->urgency, ten_now_ms()))
        return true;
    ten_request_refuse(request, TEN_RESOURCE_TIME);
    return false;
}

/* Whether the answer is a refusal that may be delayed: over the share of its account, or without a known token. */
static bool may_be_delayed(const ten_request *request) {
    if (request->state != TEN_REQUEST_ANSWERED || request->paused || request->unread || request->server->draining)
        return false;
    return request->status == 429 || (request->status == 401 && request->account->stranger);
}

/* Called before the body is read, too: what is not read keeps the client waiting, and costs nothing. */
static bool tell_later(ten_request *request) {
    if (!may_be_delayed(request))
        return false;
    request->paused = true;
    uint64_t pause_ms = ten_account_refusal_ms(request->account, ten_now_ms());
    return pause_ms > 0 && ten_connection_pause(request, pause_ms);
}

static enum MHD_Result take(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                            const char *version, const char *data, size_t *size, void **taken) {
    ten_request *request = *taken;
    if (!request) {
        *taken = request = new_request(server, connection, path, method, version);
        if (!request)
            return MHD_NO;
        if (request->unread)
            return ten_reply_send(request);
        request->early = tell_later(request);
        return MHD_YES;
    }
    if (request->early) { /* a small body is read, so that the connection can go on; a large one is not waited for */
        request->early = false;
        request->unread = *size == 0 && body_size(request) > LARGE_BODY;
        if (*size == 0)
            return request->unread ? ten_reply_send(request) : MHD_YES;
    }
    if (*size > 0) {
        take_body(request, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (request->state == TEN_REQUEST_COLLECTING && request->too_large)
        ten_reply_error(request, 413, "too_large", "the body is over %zu bytes", request->body_max);
    if (request->state == TEN_REQUEST_COLLECTING && request->route.kind == TEN_ROUTE_EVENTS)
        return send_stream(request);
    if (request->state == TEN_REQUEST_COLLECTING && may_understand(request)) {
        dispatch(request);
        if (request->queued) {
            ten_connection_expect(request, false);
            /* A lane may have the answer already; it is taken from there by this very thread. */
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
    }
    return tell_later(request) ? MHD_YES : ten_reply_send(request);
}

enum MHD_Result ten_request_take(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                                 const char *version, const char *data, size_t *size, void **taken) {
    /* Real time, not the processor's: on a busy machine there is less of it, and that is what is shared. */
    uint64_t began_us = ten_boot_us();
    uint64_t beside_us = *taken ? 0 : BESIDE_US;
    enum MHD_Result result = take(server, connection, path, method, version, data, size, taken);
    const ten_request *request = *taken;
    uint64_t ended_us = ten_boot_us(); /* read once: this is called four times for a request */
    if (request)
        ten_budget_spend(&request->server->accounts.budget, request->account, request->urgency,
                         ended_us - began_us + beside_us, ended_us / 1000);
    return result;
}

void ten_request_free_input(ten_request *request) {
    if (request->ops != request->first_ops)
        ten_free(request->ops);
    request->ops = NULL;
    if (request->route.kind == TEN_ROUTE_TARGET || request->route.kind == TEN_ROUTE_TARGETS ||
        request->route.kind == TEN_ROUTE_PIN || request->route.kind == TEN_ROUTE_FORGET)
        ten_server_target_edits_free(request->storage);
    else
        json_decref(request->storage);
    request->storage = NULL;
    ten_buf_free(&request->body);
}

void ten_request_done(void *server, struct MHD_Connection *connection, void **taken,
                      enum MHD_RequestTerminationCode how) {
    ten_request *request = *taken;
    (void)server;
    (void)connection;
    (void)how;
    *taken = NULL;
    if (!request)
        return;
    ten_accounts *accounts = &request->server->accounts;
    request->server->requests--;
    ten_connection_expect(request, true);
    if (request->reader) {
        ten_events_leave(request->reader);
        ten_accounts_stream_end(accounts, request->route.namespace_name);
    }
    ten_request_free_input(request);
    ten_buf_free(&request->reply);
    ten_free(request->trouble);
    ten_budget_return(&accounts->budget, &request->memory, TEN_RESOURCE_MEMORY);
    ten_budget_return(&accounts->budget, &request->waiting, TEN_RESOURCE_WAITING);
    ten_budget_return(&accounts->budget, &request->stream, TEN_RESOURCE_STREAMS);
    ten_free(request);
}
