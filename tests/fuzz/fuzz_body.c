/*
 * Bodies of REST requests, through the handlers up to where the store would be asked. Whatever an operation asks for is
 * within its bounds and has good names, and every answer is JSON. The first byte is the request, the rest its body. A batch
 * that is read without parsing means what it means when it is parsed.
 */
#include "base/alloc.h"
#include "base/id.h"
#include "fuzz.h"
#include "server/server_state.h"

static bool waits;

/* ---- in place of the rest of the server (request.c, lane.c...), which is not linked */

static void check_op(const ten_op *op) {
    ten_error error;
    FUZZ_CHECK(op->token <= TENURE_TOKEN_MAX && op->ttl_ms <= TENURE_TTL_MAX_MS && op->ask <= TEN_ASK_UNDO);
    if (op->kind == TEN_OP_ACQUIRE || op->kind == TEN_OP_ANNOUNCE)
        FUZZ_CHECK(op->ttl_ms >= TENURE_TTL_MIN_MS && op->holder);
    if (op->kind != TEN_OP_ANNOUNCE && op->kind != TEN_OP_LEAVE && op->kind != TEN_OP_ASK)
        FUZZ_CHECK(op->target);
    if (op->target)
        FUZZ_CHECK(ten_id_check_target(op->target, &error) == TENURE_OK);
    if (op->holder)
        FUZZ_CHECK(ten_id_check_holder(op->holder, &error) == TENURE_OK);
}

bool ten_request_uses(ten_request *request, size_t size) {
    (void)request;
    FUZZ_CHECK(size < (size_t)16 * 1024 * 1024);
    return true;
}

void ten_request_refuse(ten_request *request, enum ten_resource resource) {
    (void)request;
    (void)resource;
}

void ten_request_free_input(ten_request *request) {
    (void)request;
}

bool ten_request_wait(ten_request *request, ten_lane *lane, enum ten_urgency urgency) {
    (void)lane;
    (void)urgency;
    waits = true;
    for (size_t i = 0; i < request->job.op_count; i++)
        check_op(&request->job.ops[i]);
    return true;
}

/* The edits of the registry: seen by a store that looks at them. */
static int look_at_edits(ten_store *store, const char *namespace_name, ten_target_edit *edits, size_t count,
                         uint64_t timeout_ms) {
    ten_error error;
    (void)store;
    (void)namespace_name;
    (void)timeout_ms;
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(edits[i].action <= TEN_TARGET_RESUME);
        FUZZ_CHECK(ten_id_check_target(edits[i].target.id, &error) == TENURE_OK);
        if (edits[i].target.spec)
            FUZZ_CHECK(fuzz_is_json(edits[i].target.spec, strlen(edits[i].target.spec)));
    }
    return TENURE_OK;
}

bool ten_request_wait_for_listing(ten_request *request) {
    static const ten_store_ops ops = {.edit_targets = look_at_edits};
    ten_store store = {.ops = &ops};
    waits = true;
    FUZZ_CHECK(request->job.work(&request->job, &store) == TENURE_OK);
    request->job.finish(&request->job, TENURE_OK, "", NULL);
    return true;
}

bool ten_request_wait_for_reading(ten_request *request) {
    return ten_request_wait(request, NULL, TEN_USUAL);
}

const char *ten_request_argument(ten_request *request, const char *name) {
    (void)request;
    return strcmp(name, "holder_id") == 0 ? "holder-of-the-query" : NULL;
}

bool ten_request_owns(ten_request *request, const char *holder) {
    (void)request;
    FUZZ_CHECK(ten_id_check_holder(holder, NULL) == TENURE_OK);
    return true;
}

const ten_capabilities *ten_lane_capabilities(const ten_lane *lane) {
    static const ten_capabilities capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS};
    (void)lane;
    return &capabilities;
}

const char *ten_lane_store_name(const ten_lane *lane) {
    (void)lane;
    return "none";
}

void ten_metrics_count(ten_metrics *metrics, enum ten_route_kind kind, unsigned status, uint64_t took_us) {
    (void)metrics;
    (void)kind;
    (void)status;
    (void)took_us;
}

void ten_page_headers(const ten_request *request, struct MHD_Response *response) {
    (void)request;
    (void)response;
}

void ten_connection_expect(const ten_request *request, bool bounded) {
    (void)request;
    (void)bounded;
}

static void (*const handlers[])(ten_request *) = {
    ten_server_lease_acquire, ten_server_lease_renew,  ten_server_lease_release, ten_server_lease_batch,
    ten_server_target_put,    ten_server_targets_edit, ten_server_instance_put};

static void handle(struct ten_server *server, unsigned which, const char *before, const uint8_t *data, size_t size,
                   ten_request *request) {
    request->server = server;
    snprintf(request->route.namespace_name, sizeof request->route.namespace_name, "scenes");
    snprintf(request->route.id, sizeof request->route.id, "scene-1");
    ten_buf_text(&request->body, before);
    ten_buf_add(&request->body, (const char *)data, size);
    waits = false;
    handlers[which](request);
    FUZZ_CHECK(waits || request->state == TEN_REQUEST_ANSWERED);
    if (request->state == TEN_REQUEST_ANSWERED && request->status != 204)
        FUZZ_CHECK(fuzz_is_json(ten_buf_string(&request->reply), request->reply.size));
}

static void discard(unsigned which, ten_request *request) {
    if (handlers[which] == ten_server_target_put || handlers[which] == ten_server_targets_edit)
        ten_server_target_edits_free(request->storage);
    else
        json_decref(request->storage);
    if (request->ops != request->first_ops)
        ten_free(request->ops);
    ten_buf_free(&request->body);
    ten_buf_free(&request->reply);
}

static bool is_same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* A space before it: then it is parsed. */
static void compare_with_parsed(struct ten_server *server, unsigned which, const ten_request *request,
                                const uint8_t *data, size_t size) {
    ten_request parsed = {0};
    bool waited = waits;
    handle(server, which, " ", data, size, &parsed);
    FUZZ_CHECK(waits == waited && parsed.status == request->status);
    for (size_t i = 0; waits && i < request->job.op_count; i++) {
        const ten_op *a = &request->ops[i], *b = &parsed.ops[i];
        FUZZ_CHECK(parsed.job.op_count == request->job.op_count);
        FUZZ_CHECK(a->kind == b->kind && a->flags == b->flags && a->token == b->token && a->ttl_ms == b->ttl_ms &&
                   a->reason == b->reason && a->weight == b->weight && a->ask == b->ask);
        FUZZ_CHECK(is_same_text(a->target, b->target) && is_same_text(a->holder, b->holder) &&
                   is_same_text(a->actor, b->actor) && is_same_text(a->metadata, b->metadata));
    }
    discard(which, &parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned which = fuzz_choice(&data, &size, TEN_COUNT(handlers));
    ten_server_config config = {.ttl_ms = 30000, .ttl_max_ms = TENURE_TTL_MAX_MS};
    struct ten_server server = {.config = &config};
    ten_request request = {0};
    handle(&server, which, "", data, size, &request);
    if (handlers[which] == ten_server_lease_batch && size > 0)
        compare_with_parsed(&server, which, &request, data, size);
    discard(which, &request);
    return 0;
}
