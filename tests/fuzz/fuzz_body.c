/*
 * Bodies of REST requests, through the handlers up to where the store would be asked. Whatever an operation asks for is
 * within its bounds and has good names, and every answer is JSON. The first byte is the request, the rest its body. A
 * body that is read in place means what it means when jansson reads it.
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

bool ten_gate_grow(ten_request *request, size_t size) {
    (void)request;
    FUZZ_CHECK(size < (size_t)16 * 1024 * 1024);
    return true;
}

void ten_gate_answer(ten_request *request) {
    (void)request;
}

void *ten_request_own(ten_request *request, size_t size, void (*release)(void *own)) {
    request->own = ten_calloc(1, size);
    request->free_own = release;
    FUZZ_CHECK(request->own);
    return request->own;
}

bool ten_request_apply(ten_request *request, const ten_op *ops, size_t count, enum ten_urgency urgency,
                       void (*answer)(ten_request *request, const ten_result *results)) {
    (void)urgency;
    (void)answer;
    waits = true;
    request->job.ops = ops;
    request->job.op_count = count;
    for (size_t i = 0; i < count; i++)
        check_op(&ops[i]);
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
        FUZZ_CHECK(edits[i].action <= TEN_TARGET_UNPIN);
        FUZZ_CHECK(ten_id_check_target(edits[i].target.id, &error) == TENURE_OK);
        if (edits[i].target.spec)
            FUZZ_CHECK(fuzz_is_json(edits[i].target.spec, strlen(edits[i].target.spec)));
    }
    return TENURE_OK;
}

bool ten_request_work(ten_request *request, enum ten_lane_number lane,
                      int (*work)(ten_request *request, ten_store *store), void (*done)(ten_request *request)) {
    static const ten_store_ops ops = {.edit_targets = look_at_edits};
    ten_store store = {.ops = &ops};
    (void)lane;
    waits = true;
    for (size_t i = 0; i < request->job.op_count; i++)
        check_op(&request->job.ops[i]);
    if (request->job.op_count > 0 || request->operation->place == TEN_IN_FORGETTING)
        return true;
    (void)work(request, &store);
    ten_reply_status(request, 200);
    if (done)
        done(request);
    return true;
}

const char *ten_request_header(const ten_request *request, const char *name) {
    (void)request;
    (void)name;
    return NULL;
}

ssize_t ten_events_read(ten_event_reader *reader, char *text, size_t size) {
    (void)reader;
    (void)text;
    (void)size;
    return 0;
}

const char *ten_request_argument(ten_request *request, const char *name) {
    (void)request;
    return strcmp(name, "holder_id") == 0 ? "holder-of-the-query" : NULL;
}

const ten_capabilities *ten_lane_capabilities(const ten_lane *lane) {
    static const ten_capabilities capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS, .hands = true};
    (void)lane;
    return &capabilities;
}

const char *ten_lane_store_name(const ten_lane *lane) {
    (void)lane;
    return "none";
}

void ten_page_headers(const ten_request *request, struct MHD_Response *response) {
    (void)request;
    (void)response;
}

void ten_connection_expect(const ten_request *request, bool bounded) {
    (void)request;
    (void)bounded;
}

static const ten_operation operations[] = {
    {.handle = ten_server_lease_acquire, .place = TEN_IN_ACQUIRING},
    {.handle = ten_server_lease_renew, .place = TEN_IN_RENEWING},
    {.handle = ten_server_lease_release, .place = TEN_IN_RELEASING},
    {.handle = ten_server_lease_batch, .place = TEN_IN_BATCH},
    {.handle = ten_server_target_put, .place = TEN_IN_REGISTRATION},
    {.handle = ten_server_targets_edit, .place = TEN_IN_EDITS},
    {.handle = ten_server_instance_put, .place = TEN_IN_HEARTBEAT},
    {.handle = ten_server_lease_hand, .place = TEN_IN_HANDING},
    {.handle = ten_server_checkpoint_put, .place = TEN_IN_CHECKPOINTING},
    {.handle = ten_server_pin_put, .place = TEN_IN_PINNING},
    {.handle = ten_server_pin_delete, .place = TEN_IN_UNPINNING},
    {.handle = ten_server_targets_forget, .place = TEN_IN_FORGETTING},
};

static void handle(struct ten_server *server, unsigned which, const char *before, const uint8_t *data, size_t size,
                   ten_request *request) {
    request->server = server;
    request->method = TEN_POST;
    request->operation = &operations[which];
    snprintf(request->route.namespace_name, sizeof request->route.namespace_name, "scenes");
    snprintf(request->route.id, sizeof request->route.id, "scene-1");
    ten_buf_text(&request->body, before);
    ten_buf_add(&request->body, (const char *)data, size);
    waits = false;
    bool taken = operations[which].handle(request);
    FUZZ_CHECK(taken ? waits : request->state == TEN_REQUEST_ANSWERED);
    if (request->state == TEN_REQUEST_ANSWERED && request->status != 204)
        FUZZ_CHECK(fuzz_is_json(ten_buf_string(&request->reply), request->reply.size));
}

void ten_request_free_input(ten_request *request) {
    if (request->own && request->free_own)
        request->free_own(request->own);
    ten_free(request->own);
    json_decref(request->json);
    ten_buf_free(&request->body);
}

static void discard(ten_request *request) {
    ten_request_free_input(request);
    ten_buf_free(&request->reply);
    ten_buf_free(&request->value);
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
        const ten_op *a = &request->job.ops[i], *b = &parsed.job.ops[i];
        FUZZ_CHECK(parsed.job.op_count == request->job.op_count);
        FUZZ_CHECK(a->kind == b->kind && a->flags == b->flags && a->token == b->token && a->ttl_ms == b->ttl_ms &&
                   a->reason == b->reason && a->weight == b->weight && a->ask == b->ask && a->group == b->group);
        FUZZ_CHECK(is_same_text(a->target, b->target) && is_same_text(a->holder, b->holder) &&
                   is_same_text(a->actor, b->actor) && is_same_text(a->metadata, b->metadata) &&
                   is_same_text(a->successor, b->successor) && is_same_text(a->checkpoint, b->checkpoint));
    }
    discard(&parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned which = fuzz_choice(&data, &size, TEN_COUNT(operations));
    ten_server_config config = {.ttl_ms = 30000, .ttl_max_ms = TENURE_TTL_MAX_MS};
    struct ten_server server = {.config = &config};
    ten_request request = {0};
    handle(&server, which, "", data, size, &request);
    if (size > 0)
        compare_with_parsed(&server, which, &request, data, size);
    discard(&request);
    return 0;
}
