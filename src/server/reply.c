/*
 * Answers: errors in their one form, and how an answer is sent. Called by everything that handles requests.
 */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/json.h"
#include "server/server_state.h"

#define TROUBLE_EVERY_MS 10000u
#define STREAM_BLOCK     8192u

bool ten_reply_status(ten_request *request, unsigned status) {
    request->state = TEN_REQUEST_ANSWERED;
    request->status = status;
    request->type = status == 204 || status == 304 ? NULL : "application/json";
    return false;
}

ten_buf *ten_reply_open(ten_request *request, unsigned status) {
    ten_reply_status(request, status);
    ten_json_open(&request->reply);
    return &request->reply;
}

void ten_reply_close(ten_request *request) {
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

static void begin_error(ten_request *request, unsigned status, const char *code, const char *message) {
    ten_buf *reply = &request->reply;
    ten_buf_clear(reply);
    ten_reply_status(request, status);
    ten_buf_text(reply, "{\"error\":");
    ten_json_open(reply);
    ten_json_text(reply, "code", code);
    ten_json_text(reply, "message", message);
}

static void end_error(ten_request *request) {
    ten_json_close(&request->reply);
    ten_buf_text(&request->reply, "}\n");
}

static void reply_error(ten_request *request, unsigned status, const char *code, const char *format, va_list args) {
    char message[600];
    vsnprintf(message, sizeof message, format, args);
    begin_error(request, status, code, message);
    end_error(request);
}

bool ten_reply_error(ten_request *request, unsigned status, const char *code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_error(request, status, code, format, args);
    va_end(args);
    return false;
}

bool ten_reply_wrong(ten_request *request, const char *format, ...) {
    va_list args;
    va_start(args, format);
    reply_error(request, 400, "bad_request", format, args);
    va_end(args);
    return false;
}

bool ten_reply_no_memory(ten_request *request) {
    return ten_reply_error(request, 503, "unavailable", "out of memory");
}

void ten_reply_store_error(ten_request *request, int error, const char *message) {
    if (error == TENURE_E_INVALID || error == TENURE_E_TTL) {
        ten_reply_wrong(request, "%s", message);
    } else if (error == TENURE_E_UNSUPPORTED || error == TENURE_E_CANCELLED) {
        ten_reply_error(request, 503, "unavailable", "%s", message);
    } else {
        ten_reply_error(request, 503, "unavailable", "%s; the server's log says more", tenure_strerror(error));
        ten_free(request->trouble);
        request->trouble = ten_strdup(message);
    }
}

/* With the lease as it is. */
static void reply_lease(ten_request *request, unsigned status, const char *code, const char *message,
                        const ten_result *result) {
    begin_error(request, status, code, message);
    ten_json_text(&request->reply, "holder_id", result->holder);
    ten_json_number(&request->reply, "version", result->token);
    ten_json_number(&request->reply, "remaining_ms", result->remaining_ms);
    end_error(request);
}

void ten_reply_held(ten_request *request, const ten_result *result) {
    char message[400];
    if (result->holder)
        snprintf(message, sizeof message, "%s is held by %s", request->route.id, result->holder);
    else
        snprintf(message, sizeof message, "the store is recovering: it grants nothing new before %llu ms have passed",
                 (unsigned long long)result->remaining_ms);
    reply_lease(request, 409, "held", message, result);
}

void ten_reply_lost(ten_request *request, const ten_result *result) {
    static const char message[] = "the lease is lost: stop the work";
    if (result->holder)
        reply_lease(request, 404, "lost", message, result);
    else
        ten_reply_error(request, 404, "lost", "%s", message);
}

void ten_reply_stale(ten_request *request, const ten_result *result) {
    begin_error(request, 409, "stale", "the version is stale: the lease was lost, and nothing was written");
    if (result->holder)
        ten_json_text(&request->reply, "holder_id", result->holder);
    ten_json_number(&request->reply, "version", result->token);
    end_error(request);
}

void ten_reply_unknown_target(ten_request *request) {
    ten_reply_error(request, 404, "unknown_target",
                    "%s is neither registered nor was it ever leased: PUT /api/v1/%s/%s registers it",
                    request->route.id, request->route.namespace_name, request->route.id);
}

void ten_reply_header(ten_request *request, const char *name, const char *format, ...) {
    char value[2400]; /* a path, or an id with every byte encoded */
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    request->name = name;
    ten_buf_clear(&request->value);
    ten_buf_text(&request->value, value);
}

void ten_reply_next(ten_request *request, const char *query, const char *id) {
    TEN_CLEANUP(ten_buf_free) ten_buf text = {0};
    ten_percent_encode(&text, id, "");
    if (text.failed)
        ten_reply_store_error(request, TENURE_E_NOMEM, "out of memory for the answer");
    else
        ten_reply_header(request, "Link", "</api/v1/%s%s%s>; rel=\"next\"", request->route.namespace_name, query,
                         ten_buf_string(&text));
}

/* What the page may offer to its reader. */
static const char *role_name(const ten_request *request) {
    return ten_auth_role_name(request->server->has_auth ? request->principal.role : TEN_ROLE_ADMIN);
}

void ten_reply_add_safety(struct MHD_Response *response) {
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
}

static void add_headers(const ten_request *request, struct MHD_Response *response) {
    ten_reply_add_safety(response);
    if (request->route.kind == TEN_ROUTE_PAGE)
        ten_page_headers(request, response);
    else
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (request->route.kind == TEN_ROUTE_NODES && request->status == 200)
        (void)MHD_add_response_header(response, "X-Tenure-Role", role_name(request));
    if (request->type)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->type);
    if (request->name)
        (void)MHD_add_response_header(response, request->name, ten_buf_string(&request->value));
    if (request->status == 503 || request->status == 429)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (request->server->draining || request->unread)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (request->status == 401)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tenure\"");
}

/* A namespace with something in it gets a place in the metrics, at the expense of who has used it first. */
static void note_namespace(const ten_request *request) {
    struct ten_server *server = request->server;
    const char *where = request->route.namespace_name;
    bool used = request->in_use || (request->urgency == TEN_URGENT && request->status == 200) ||
                ten_map_get(&server->accounts.uses[TEN_RESOURCE_NAMESPACES], where);
    if (request->status < 400 && used && ten_accounts_measure(&server->accounts, request->account, where))
        ten_gauges_note(server->gauges, where);
}

/* At a bounded rate. */
static void log_denial(const ten_request *request) {
    char what[TENURE_NAMESPACE_MAX + 64];
    struct ten_server *server = request->server;
    snprintf(what, sizeof what, "%s %s%s%s", ten_method_name(request->method), ten_route_name(request->route.kind),
             request->route.namespace_name[0] ? " in " : "", request->route.namespace_name);
    ten_accounts_log_denied(&server->accounts, request->account, request->status, what, server->log);
}

/* Where the store is, and what is wrong with it, is for the log and not for clients. */
static void log_trouble(const ten_request *request) {
    struct ten_server *server = request->server;
    uint64_t missed;
    if (ten_line_gate_pass(&server->trouble_gate, TROUBLE_EVERY_MS, ten_now_ms(), &missed))
        TEN_LOG(server->log, TEN_LOG_WARN, "store_down", TEN_TEXT("error", request->trouble),
                TEN_NUMBER("more", missed));
}

enum MHD_Result ten_reply_send(ten_request *request) {
    if (request->reply.failed || request->value.failed)
        (void)ten_reply_no_memory(request);
    ten_gate_answer(request);
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(request->reply.size, request->reply.data, ten_free);
    if (!response)
        return MHD_NO;
    request->reply = (ten_buf){0}; /* the response's */
    ten_connection_expect(request, true);
    add_headers(request, response);
    enum MHD_Result queued = MHD_queue_response(request->connection, request->status, response);
    MHD_destroy_response(response);
    ten_metrics_count(&request->server->metrics, request->route.kind, request->status,
                      ten_boot_us() - request->began_us);
    note_namespace(request);
    if (request->trouble)
        log_trouble(request);
    if (request->status == 401 || request->status == 403)
        log_denial(request);
    return queued;
}

static ssize_t read_stream(void *userdata, uint64_t position, char *text, size_t size) {
    ten_request *request = userdata;
    (void)position;
    ssize_t count = ten_events_read(request->reader, text, size);
    if (count == 0)
        MHD_suspend_connection(request->connection);
    return count < 0 ? MHD_CONTENT_READER_END_OF_STREAM : count;
}

enum MHD_Result ten_reply_stream(ten_request *request) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, request, NULL);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    ten_reply_add_safety(response);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    ten_connection_expect(request, false);
    enum MHD_Result queued = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    ten_metrics_count(&request->server->metrics, request->route.kind, MHD_HTTP_OK, 0);
    return queued;
}
