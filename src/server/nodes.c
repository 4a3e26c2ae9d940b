/*
 * Requests about instances: the live ones with their shares, heartbeats, leaving; and whether the store answers at all.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/json.h"
#include "base/map.h"
#include "server/server_state.h"

/* How many leases each holder has; the number is the value itself. */
struct nodes {
    ten_request *request;
    ten_map shares;
    char after[TENURE_TARGET_MAX + 1];
    size_t count;
};

static int count_share(const ten_row *row, void *userdata) {
    struct nodes *nodes = userdata;
    uintptr_t held = (uintptr_t)ten_map_get(&nodes->shares, row->holder ? row->holder : "");
    nodes->count++;
    snprintf(nodes->after, sizeof nodes->after, "%s", row->target.id);
    return ten_map_put(&nodes->shares, row->holder ? row->holder : "", (void *)(held + 1)) ? 0 : TENURE_E_NOMEM;
}

static int count_shares(struct nodes *nodes, ten_store *store) {
    const ten_request *request = nodes->request;
    int done = TENURE_OK;
    do {
        char after[TENURE_TARGET_MAX + 1];
        memcpy(after, nodes->after, sizeof after);
        ten_query query = {.namespace_name = request->route.namespace_name,
                           .filter = TENURE_LEASED,
                           .after = after[0] ? after : NULL,
                           .limit = TEN_PAGE_MAX};
        nodes->count = 0;
        done = store->ops->list(store, &query, count_share, nodes, request->server->config->timeout_ms);
    } while (done == TENURE_OK && nodes->count == TEN_PAGE_MAX);
    return done;
}

static int write_instance(const ten_instance *instance, void *userdata) {
    const struct nodes *nodes = userdata;
    ten_request *request = nodes->request;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_text(reply, "instance", instance->instance);
    ten_json_number(reply, "weight", instance->weight);
    if (request->list.shares)
        ten_json_number(reply, "share", (uintptr_t)ten_map_get(&nodes->shares, instance->instance));
    ten_json_bool(reply, "draining", instance->weight == 0 || instance->ask == TEN_ASK_DRAIN);
    ten_json_time(reply, "since", instance->since_ms);
    ten_json_number(reply, "since_ms", instance->since_ms);
    ten_json_number(reply, "ttl_ms", instance->ttl_ms);
    ten_json_number(reply, "remaining_ms", instance->remaining_ms);
    if (instance->ask)
        ten_json_number(reply, "ask", instance->ask);
    if (instance->metadata)
        ten_json_text(reply, "metadata", instance->metadata);
    ten_json_close(reply);
    return 0;
}

static int list_nodes(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct nodes nodes = {.request = request};
    ten_buf_char(&request->reply, '[');
    int done = request->list.shares ? count_shares(&nodes, store) : TENURE_OK;
    if (done == TENURE_OK)
        done = store->ops->list_instances(store, request->route.namespace_name, write_instance, &nodes,
                                          request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    ten_map_free(&nodes.shares);
    return done;
}

static void finish_nodes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else
        ten_reply_status(request, 200);
}

void ten_nodes_get(ten_request *request) {
    const char *shares = ten_request_argument(request, "shares");
    request->list.shares = !shares || strcmp(shares, "false") != 0; /* our own clients count for themselves */
    request->job.work = list_nodes;
    request->job.finish = finish_nodes;
    ten_request_wait_for_listing(request);
}

static void finish_node(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (results->outcome == TEN_ERROR && results->error == TENURE_E_TTL)
        ten_reply_error(request, 409, "held", "the instances of this namespace use a TTL of %llu ms: all use the same",
                        (unsigned long long)results->ttl_ms);
    else if (results->outcome == TEN_ERROR)
        ten_reply_error(request, 409, "lost", "%s", tenure_strerror(results->error));
    else
        ten_reply_status(request, 204);
}

static void go_with_heartbeat(ten_request *request, const ten_op *op) {
    request->first_ops[0] = *op;
    request->ops = request->first_ops;
    request->job.ops = request->ops;
    request->job.op_count = 1;
    request->job.finish = finish_node;
    ten_request_wait(request, request->server->leases, true);
}

void ten_node_put(ten_request *request) {
    json_t *body = ten_body_parse(request);
    if (!body)
        return;
    const json_t *weight = json_object_get(body, "weight");
    const json_t *ttl = json_object_get(body, "ttl_ms");
    uint64_t ttl_ms = ttl ? (uint64_t)json_integer_value(ttl) : request->server->config->ttl_ms;
    bool valid = (!weight || (json_is_integer(weight) && json_integer_value(weight) >= 0 &&
                              json_integer_value(weight) <= 1000000)) &&
                 (!ttl || json_is_integer(ttl)) && ttl_ms >= TENURE_TTL_MIN_MS && ttl_ms <= TENURE_TTL_MAX_MS;
    ten_op op = {.kind = TEN_OP_ANNOUNCE,
                 .namespace_name = request->route.namespace_name,
                 .holder = request->route.id,
                 .ttl_ms = ttl_ms,
                 .weight = weight ? (uint32_t)json_integer_value(weight) : 1};
    json_decref(body);
    if (!valid)
        ten_reply_error(request, 400, "bad_request", "weight is a number from 0 on, ttl_ms a lease's time in ms");
    else if (ten_request_owns(request, request->route.id))
        go_with_heartbeat(request, &op);
}

void ten_node_delete(ten_request *request) {
    ten_op op = {.kind = TEN_OP_LEAVE, .namespace_name = request->route.namespace_name, .holder = request->route.id};
    if (ten_request_owns(request, request->route.id))
        go_with_heartbeat(request, &op);
}

/* ---- whether the store answers */

static int ping(ten_job *job, ten_store *store) {
    const ten_request *request = (ten_request *)job;
    return store->ops->ping(store, request->server->config->timeout_ms);
}

static void finish_ready(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    const struct ten_server *server = request->server;
    ten_reply_status(request, 200);
    ten_json_open(&request->reply);
    ten_json_text(&request->reply, "status", "ready");
    ten_json_text(&request->reply, "store", ten_lane_store_name(server->listing));
    ten_json_number(&request->reply, "ttl_min_ms", ten_lane_capabilities(server->listing)->ttl_min_ms);
    ten_json_text(&request->reply, "version", tenure_version());
    ten_json_number(&request->reply, "at_ms", ten_wall_ms(&ten_system_clock));
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

void ten_server_ready(ten_request *request) {
    request->job.work = ping;
    request->job.finish = finish_ready;
    ten_request_wait_for_listing(request);
}
