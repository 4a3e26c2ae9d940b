/*
 * Requests about instances: the live ones with their shares and the plan, heartbeats, leaving; and whether the store
 * answers at all.
 */
#include <jansson.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "server/server_state.h"
#include "server/shares.h"

#define MOVING_MAX 100u /* that are named, of each instance; the rest is counted */

struct nodes {
    ten_request *request;
    ten_shares shares;
    size_t moving; /* of the instance that is written */
};

static void write_moving(const char *target, const char *planned, void *userdata) {
    struct nodes *nodes = userdata;
    ten_buf *reply = &nodes->request->reply;
    if (nodes->moving++ >= MOVING_MAX)
        return;
    ten_buf_text(reply, nodes->moving > 1 ? "," : "");
    ten_json_open(reply);
    ten_json_text(reply, "id", target);
    ten_json_text(reply, "planned", planned);
    ten_json_close(reply);
}

/* What it should hold, and what of that which it holds another should. */
static void write_plan(struct nodes *nodes, const char *instance) {
    ten_buf *reply = &nodes->request->reply;
    ten_json_number(reply, "planned", ten_shares_planned(&nodes->shares, instance));
    ten_json_raw(reply, "moving", "[");
    nodes->moving = 0;
    ten_shares_moving(&nodes->shares, instance, write_moving, nodes);
    ten_buf_char(reply, ']');
    ten_json_number(reply, "moving_count", nodes->moving);
}

static int write_instance(const ten_instance *instance, void *userdata) {
    struct nodes *nodes = userdata;
    ten_request *request = nodes->request;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_text(reply, "instance", instance->instance);
    ten_json_number(reply, "weight", instance->weight);
    if (request->list.shares)
        ten_json_number(reply, "share", ten_shares_held(&nodes->shares, instance->instance));
    if (request->list.plan)
        write_plan(nodes, instance->instance);
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
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    struct nodes nodes = {.request = request};
    ten_buf_char(&request->reply, '[');
    int r =
        request->list.shares ? ten_shares_read(&nodes.shares, store, where, request->list.plan, timeout_ms) : TENURE_OK;
    if (r == TENURE_OK)
        r = store->ops->list_instances(store, where, write_instance, &nodes, timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    ten_shares_free(&nodes.shares);
    return r;
}

static void finish_nodes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else
        ten_reply_status(request, 200);
}

void ten_server_instances_get(ten_request *request) {
    const char *shares = ten_request_argument(request, "shares");
    const char *plan = ten_request_argument(request, "plan");
    request->list.plan = plan && strcmp(plan, "true") == 0;
    /* Our own clients count for themselves. */
    request->list.shares = request->list.plan || !shares || strcmp(shares, "false") != 0;
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
    ten_request_wait(request, request->server->leases, TEN_URGENT);
}

void ten_server_instance_put(ten_request *request) {
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

void ten_server_instance_delete(ten_request *request) {
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
    ten_json_bool(&request->reply, "hands", ten_lane_capabilities(server->listing)->hands);
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
