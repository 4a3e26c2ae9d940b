/*
 * One request: its headers are checked, its body is collected, its handler prepares a job for the store or answers at
 * once, and its answer is sent. Called by libmicrohttpd, in the HTTP thread.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "server/server_state.h"

#define LARGE_BODY   ((size_t)16 * 1024)
#define LOCATION_MAX ((size_t)2392)
#define BESIDE_US    15u /* what a request costs libmicrohttpd */

static const ten_operation operations[] = {
#define OPERATION(kind, method, handler, role, urgency, size, place)                                                   \
    {TEN_ROUTE_##kind, TEN_##method, ten_server_##handler, TEN_ROLE_##role, TEN_##urgency, size, TEN_IN_##place},
#define SMALL TEN_BODY_MAX
#define LARGE TEN_BATCH_BODY_MAX
#include "server/api.def"
};

static const ten_operation *find_operation(enum ten_route_kind kind, enum ten_method method) {
    for (size_t i = 0; i < TEN_COUNT(operations); i++)
        if (operations[i].kind == kind && operations[i].method == method)
            return &operations[i];
    return NULL;
}

const char *ten_request_argument(ten_request *request, const char *name) {
    /* Decoded in libmicrohttpd's own copy, which nothing else reads. */
    const char *value = MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    if (!value)
        return NULL;
    union {
        const char *given;
        char *ours;
    } text = {value};
    return ten_percent_decode(text.ours, true) ? value : "%";
}

void *ten_request_own(ten_request *request, size_t size, void (*release)(void *own)) {
    request->own = ten_calloc(1, size);
    request->free_own = release;
    if (!request->own)
        ten_reply_no_memory(request);
    return request->own;
}

/* ---- the way to the store */

/* Called in the thread of the lane. */
static int work(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    return request->work(request, store);
}

static void finish(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    /* Without the gauges there are still the other metrics; that the store does not answer is one of them. */
    if (error < 0 && request->route.kind != TEN_ROUTE_METRICS) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    if (request->done)
        request->done(request);
    else if (request->answer)
        request->answer(request, results);
}

static bool wait(ten_request *request, enum ten_lane_number lane, enum ten_urgency urgency) {
    if (!ten_gate_queue(request, urgency))
        return false;
    request->state = TEN_REQUEST_WAITING;
    /* From here on it is the lane's. */
    ten_lane_put(request->server->lanes[lane], &request->job, urgency, request->account, 2 * (unsigned)lane);
    return true;
}

bool ten_request_apply(ten_request *request, const ten_op *ops, size_t count, enum ten_urgency urgency,
                       void (*answer)(ten_request *request, const ten_result *results)) {
    request->job.ops = ops;
    request->job.op_count = count;
    request->job.finish = finish;
    request->answer = answer;
    return wait(request, TEN_LEASES, urgency);
}

bool ten_request_work(ten_request *request, enum ten_lane_number lane,
                      int (*own_work)(ten_request *request, ten_store *store), void (*done)(ten_request *request)) {
    request->job.work = work;
    request->job.finish = finish;
    request->work = own_work;
    request->done = done;
    if (request->method == TEN_GET || lane == TEN_READING)
        request->job.client_fd = ten_connection_fd(request);
    return wait(request, lane, TEN_USUAL);
}

/* ---- from the headers to the answer */

/* As its header says; 0: it does not. */
static size_t body_size(const ten_request *request) {
    const char *length = ten_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length ? strtoull(length, NULL, 10) : 0;
}

/* A large body of a client that may not send one is not waited for. */
static bool identify(ten_request *request) {
    if (ten_request_identify(request))
        return true;
    bool chunked = ten_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    request->unread = chunked || body_size(request) > TEN_BATCH_BODY_MAX;
    return false;
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
    TEN_CLEANUP(ten_buf_free) ten_buf query = {0};
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, add_argument, &query);
    const char *more = ten_buf_string(&query);
    if (query.failed || strlen(path) + strlen(more) > LOCATION_MAX) {
        ten_reply_wrong(request, "the path is too long");
        return;
    }
    ten_reply_error(request, 308, "not_found", "the API is at /api/v1%s", path);
    ten_reply_header(request, "Location", "/api/v1%s%s", path, more);
}

static void refuse_method(ten_request *request) {
    static const char *const words[] = {"GET, HEAD", "POST", "PUT", "DELETE"};
    unsigned known = ten_route_methods(request->route.kind);
    char allow[64] = "";
    for (size_t i = 0; i < TEN_COUNT(words); i++)
        if (known & 1u << i)
            snprintf(allow + strlen(allow), sizeof allow - strlen(allow), "%s%s", allow[0] ? ", " : "", words[i]);
    ten_reply_error(request, 405, "method_not_allowed", "method not allowed; use %s", allow);
    ten_reply_header(request, "Allow", "%s", allow);
}

/* Everything that can be known before the body has come. */
static void check_headers(ten_request *request, const char *path, const char *method, const char *version) {
    enum ten_route_kind kind = request->route.kind;
    if (!ten_headers_check_framing(request, method, version) || !ten_headers_check_host(request))
        return;
    if (!ten_connection_is_certified(request))
        ten_reply_error(request, 403, "forbidden", "a client certificate is required");
    else if (kind == TEN_ROUTE_BAD_PATH)
        ten_reply_wrong(request, "%s", request->route.error.message);
    else if (kind == TEN_ROUTE_REDIRECT)
        redirect(request, path);
    else if (kind == TEN_ROUTE_NOT_FOUND)
        ten_reply_error(request, 404, "not_found", "not found; /openapi.json describes what is there");
    else if (!request->operation)
        refuse_method(request);
    else if (identify(request) && ten_headers_check_type(request) && ten_headers_check_length(request))
        (void)ten_gate_enter(request, body_size(request));
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
    request->operation = find_operation(request->route.kind, request->method);
    request->urgency = request->operation ? request->operation->urgency : TEN_USUAL;
    check_headers(request, path, method, version);
    return request;
}

static void take_body(ten_request *request, const char *data, size_t size) {
    if (request->state != TEN_REQUEST_COLLECTING)
        return;
    size_t whole = request->body.size + size;
    if (whole > request->operation->body_max)
        request->too_large = true;
    else if (request->share.memory.amount >= whole || ten_gate_grow(request, whole))
        ten_buf_add(&request->body, data, size);
}

/* False: there is nothing to wait for. */
static bool delay_refusal(ten_request *request) {
    uint64_t delay_ms = ten_gate_delay_ms(request);
    return delay_ms > 0 && ten_connection_pause(request, delay_ms);
}

/* Its body is there, or will not be read. */
static enum MHD_Result carry_out(ten_request *request) {
    if (request->state == TEN_REQUEST_COLLECTING && request->too_large)
        ten_reply_error(request, 413, "too_large", "the body is over %zu bytes", request->operation->body_max);
    if (request->state == TEN_REQUEST_COLLECTING && ten_gate_read(request) && request->operation->handle(request)) {
        if (request->reader)
            return ten_reply_stream(request);
        ten_connection_expect(request, false);
        /* A lane may have the answer already; it is taken from there by this very thread. */
        MHD_suspend_connection(request->connection);
        return MHD_YES;
    }
    return delay_refusal(request) ? MHD_YES : ten_reply_send(request);
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
        request->early = delay_refusal(request);
        return MHD_YES;
    }
    if (request->early) { /* a small body is read, so that the connection can go on; a large one is not waited for */
        request->early = false;
        request->unread = *size == 0 && body_size(request) > LARGE_BODY;
        if (*size == 0)
            return request->unread ? ten_reply_send(request) : MHD_YES;
    }
    if (*size == 0)
        return carry_out(request);
    take_body(request, data, *size);
    *size = 0;
    return MHD_YES;
}

enum MHD_Result ten_request_take(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                                 const char *version, const char *data, size_t *size, void **taken) {
    /* Real time, not the processor's: on a busy machine there is less of it, and that is what is shared. */
    uint64_t began_us = ten_boot_us();
    uint64_t beside_us = *taken ? 0 : BESIDE_US;
    enum MHD_Result result = take(server, connection, path, method, version, data, size, taken);
    uint64_t ended_us = ten_boot_us(); /* read once: this is called four times for a request */
    if (*taken)
        ten_gate_spend(*taken, ended_us - began_us + beside_us, ended_us / 1000);
    return result;
}

void ten_request_free_input(ten_request *request) {
    if (request->own && request->free_own)
        request->free_own(request->own);
    ten_free(request->own);
    request->own = NULL;
    json_decref(request->json);
    request->json = NULL;
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
    request->server->requests--;
    ten_connection_expect(request, true);
    if (request->reader) {
        ten_events_leave(request->reader);
        ten_accounts_stream_end(&request->server->accounts, request->route.namespace_name);
    }
    ten_request_free_input(request);
    ten_buf_free(&request->reply);
    ten_buf_free(&request->value);
    ten_free(request->trouble);
    ten_gate_leave(request);
    ten_free(request);
}
