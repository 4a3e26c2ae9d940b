/*
 * Requests about instances: the live ones with their shares and the plan, heartbeats, leaving; and whether the store
 * answers at all.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "base/json.h"
#include "runtime/metadata.h"
#include "server/server_state.h"
#include "server/shares.h"

#define MOVING_MAX 100u /* that are named, of each instance; the rest is counted */

/* One instance as it is answered. */
struct node {
    char *id;
    char *text;
};

struct nodes {
    ten_request *request;
    ten_shares shares;
    size_t moving; /* of the instance that is written */
    ten_buf text;  /* of it */
    struct node *found;
    size_t count;
    size_t room;
};

static void write_moving(const char *target, const char *planned, void *userdata) {
    struct nodes *nodes = userdata;
    ten_buf *reply = &nodes->text;
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
    ten_buf *reply = &nodes->text;
    ten_json_number(reply, "planned", ten_shares_planned(&nodes->shares, instance));
    ten_json_raw(reply, "moving", "[");
    nodes->moving = 0;
    ten_shares_moving(&nodes->shares, instance, write_moving, nodes);
    ten_buf_char(reply, ']');
    ten_json_number(reply, "moving_count", nodes->moving);
}

static int keep_text(struct nodes *nodes, const char *id) {
    if (nodes->count == nodes->room) {
        size_t room = nodes->room ? nodes->room * 2 : 64;
        struct node *found = ten_realloc(nodes->found, room * sizeof *found);
        if (!found)
            return TENURE_E_NOMEM;
        nodes->found = found;
        nodes->room = room;
    }
    struct node node = {ten_strdup(id), ten_strdup(ten_buf_string(&nodes->text))};
    nodes->found[nodes->count++] = node;
    return node.id && node.text && !nodes->text.failed ? 0 : TENURE_E_NOMEM;
}

static void write_identity(ten_buf *reply, const ten_metadata_shown *shown) {
    if (shown->role[0])
        ten_json_text(reply, "role", shown->role);
    if (shown->is_lock)
        ten_json_bool(reply, "lock", true);
    if (shown->address[0])
        ten_json_text(reply, "address", shown->address);
    if (shown->labels.size)
        ten_json_raw(reply, "labels", ten_buf_string(&shown->labels));
}

static int write_instance(const ten_instance *instance, void *userdata) {
    struct nodes *nodes = userdata;
    const ten_request *request = nodes->request;
    ten_buf *reply = &nodes->text;
    if (strcmp(instance->instance, request->holder) <= 0)
        return 0; /* of an earlier page */
    ten_buf_clear(reply);
    ten_json_open(reply);
    ten_json_text(reply, "instance", instance->instance);
    ten_json_number(reply, "weight", instance->weight);
    if (request->list.shares)
        ten_json_number(reply, "share", ten_shares_held(&nodes->shares, instance->instance));
    if (request->list.plan)
        write_plan(nodes, instance->instance);
    ten_metadata_shown shown;
    ten_metadata_read(instance->metadata, &shown);
    bool no_weight = instance->weight == 0 && shown.role[0] == '\0'; /* a candidate has none */
    ten_json_bool(reply, "draining", no_weight || instance->ask == TEN_ASK_DRAIN);
    ten_json_time(reply, "since", instance->since_ms);
    ten_json_number(reply, "since_ms", instance->since_ms);
    ten_json_number(reply, "ttl_ms", instance->ttl_ms);
    ten_json_number(reply, "remaining_ms", instance->remaining_ms);
    if (instance->ask)
        ten_json_number(reply, "ask", instance->ask);
    if (instance->has_session)
        ten_json_bool(reply, "session", true);
    if (instance->metadata)
        ten_json_text(reply, "metadata", instance->metadata);
    write_identity(reply, &shown);
    ten_json_close(reply);
    ten_metadata_free(&shown);
    return keep_text(nodes, instance->instance);
}

static int compare_nodes(const void *one, const void *other) {
    return strcmp(((const struct node *)one)->id, ((const struct node *)other)->id);
}

/* Those that come first, up to the bounds of a page. */
static void write_page(struct nodes *nodes) {
    ten_request *request = nodes->request;
    ten_buf *reply = &request->reply;
    if (nodes->count > 0)
        qsort(nodes->found, nodes->count, sizeof *nodes->found, compare_nodes);
    ten_buf_char(reply, '[');
    size_t at = 0;
    for (; at < nodes->count && at < request->list.limit && reply->size < TEN_PAGE_SIZE; at++) {
        ten_buf_text(reply, at ? ",\n" : "");
        ten_buf_text(reply, nodes->found[at].text);
    }
    ten_buf_text(reply, "]\n");
    request->list.count = at;
    request->list.cut = at < nodes->count;
    if (request->list.cut)
        snprintf(request->holder, sizeof request->holder, "%s", nodes->found[at - 1].id);
}

static void free_nodes(struct nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        ten_free(nodes->found[i].id);
        ten_free(nodes->found[i].text);
    }
    ten_free(nodes->found);
    ten_buf_free(&nodes->text);
    ten_shares_free(&nodes->shares);
}

static int list_nodes(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    struct nodes nodes = {.request = request};
    int r =
        request->list.shares ? ten_shares_read(&nodes.shares, store, where, request->list.plan, timeout_ms) : TENURE_OK;
    if (r == TENURE_OK)
        r = store->ops->list_instances(store, where, write_instance, &nodes, timeout_ms);
    if (r == TENURE_OK)
        write_page(&nodes);
    free_nodes(&nodes);
    return r;
}

static void finish_nodes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    if (!request->list.cut)
        return;
    char query[80];
    snprintf(query, sizeof query, "/nodes?limit=%zu&shares=%s&plan=%s&after=", request->list.limit,
             request->list.shares ? "true" : "false", request->list.plan ? "true" : "false");
    ten_reply_next(request, query, request->holder);
}

void ten_server_instances_get(ten_request *request) {
    const char *limit = ten_request_argument(request, "limit");
    const char *after = ten_request_argument(request, "after");
    ten_error error;
    request->list.limit = limit ? strtoul(limit, NULL, 10) : TEN_PAGE_MAX;
    if (request->list.limit == 0 || request->list.limit > TEN_PAGE_MAX ||
        (limit && strspn(limit, "0123456789") != strlen(limit))) {
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
        return;
    }
    if (after && after[0] && ten_id_check_holder(after, &error) < 0) {
        ten_reply_error(request, 400, "bad_request", "after: %s", error.message);
        return;
    }
    snprintf(request->holder, sizeof request->holder, "%s", after ? after : "");
    const char *shares = ten_request_argument(request, "shares");
    const char *plan = ten_request_argument(request, "plan");
    request->list.plan = plan && strcmp(plan, "true") == 0;
    /* Our own clients count for themselves. */
    request->list.shares = request->list.plan || !shares || strcmp(shares, "false") != 0;
    request->job.work = list_nodes;
    request->job.finish = finish_nodes;
    if (request->list.shares)
        ten_request_wait_for_listing(request);
    else
        ten_request_wait_for_reading(request);
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
    static const char *const members[] = {"weight", "ttl_ms", NULL};
    if (!ten_body_knows(request, body, members)) {
        json_decref(body);
        return;
    }
    const json_t *weight = json_object_get(body, "weight");
    const json_t *ttl = json_object_get(body, "ttl_ms");
    uint64_t most_ms = request->server->config->ttl_max_ms;
    uint64_t ttl_ms = ttl ? (uint64_t)json_integer_value(ttl) : request->server->config->ttl_ms;
    bool valid = (!weight || (json_is_integer(weight) && json_integer_value(weight) >= 0 &&
                              json_integer_value(weight) <= TEN_WEIGHT_MAX)) &&
                 (!ttl || json_is_integer(ttl)) && ttl_ms >= TENURE_TTL_MIN_MS && ttl_ms <= most_ms;
    ten_op op = {.kind = TEN_OP_ANNOUNCE,
                 .namespace_name = request->route.namespace_name,
                 .holder = request->route.id,
                 .ttl_ms = ttl_ms,
                 .weight = weight ? (uint32_t)json_integer_value(weight) : 1};
    json_decref(body);
    if (!valid)
        ten_reply_error(
            request, 400, "bad_request",
            "weight must be an integer between 0 and %u, and ttl_ms one between %llu and %llu on this server "
            "(tenure serve --max-ttl)",
            TEN_WEIGHT_MAX, (unsigned long long)TENURE_TTL_MIN_MS, (unsigned long long)most_ms);
    else if (ten_request_owns(request, request->route.id))
        go_with_heartbeat(request, &op);
}

void ten_server_instance_delete(ten_request *request) {
    ten_op op = {.kind = TEN_OP_LEAVE, .namespace_name = request->route.namespace_name, .holder = request->route.id};
    if (!ten_request_owns(request, request->route.id))
        return;
    if (!request->server->has_auth || request->principal.role == TEN_ROLE_ADMIN)
        ten_request_log_admin(request, ten_request_sender(request), "leave", request->route.id, 1);
    go_with_heartbeat(request, &op);
}

/* ---- who holds a target, and where it is */

struct owner {
    char holder[TENURE_HOLDER_MAX + 1];
    ten_metadata_shown shown;
};

static int look_for_owner(const ten_instance *instance, void *userdata) {
    struct owner *owner = userdata;
    if (strcmp(instance->instance, owner->holder) != 0)
        return 0;
    ten_metadata_read(instance->metadata, &owner->shown);
    return 1;
}

static void write_owner(ten_request *request, const struct owner *owner, uint64_t token) {
    ten_buf *reply = &request->reply;
    const ten_metadata_shown *shown = &owner->shown;
    ten_json_open(reply);
    ten_json_text(reply, "holder_id", owner->holder);
    ten_json_text(reply, "address", shown->address[0] ? shown->address : NULL);
    ten_json_number(reply, "version", token);
    ten_json_raw(reply, "labels", shown->labels.size ? ten_buf_string(&shown->labels) : "{}");
    ten_json_close(reply);
    ten_buf_char(reply, '\n');
}

/* Writes nothing if the target is free or unknown. */
static int find_owner(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = request->route.namespace_name, .target = request->route.id};
    ten_result result;
    struct owner owner = {0};
    int r = ten_store_apply(store, &op, &result, 1, timeout_ms);
    if (r < 0 || result.outcome == TEN_ERROR)
        return r < 0 ? r : result.error;
    if (!result.holder)
        return TENURE_OK;
    snprintf(owner.holder, sizeof owner.holder, "%s", result.holder);
    uint64_t token = result.token; /* the next call on the store ends the result */
    r = store->ops->list_instances(store, request->route.namespace_name, look_for_owner, &owner, timeout_ms);
    if (r >= 0)
        write_owner(request, &owner, token);
    ten_metadata_free(&owner.shown);
    return r < 0 ? r : TENURE_OK;
}

static void finish_owner(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (request->reply.size == 0)
        ten_reply_error(request, 404, "not_found", "nobody holds %s", request->route.id);
    else
        ten_reply_status(request, 200);
}

void ten_server_owner_get(ten_request *request) {
    request->job.work = find_owner;
    request->job.finish = finish_owner;
    ten_request_wait_for_reading(request);
}

/* ---- whether the store answers */

static int ping(ten_job *job, ten_store *store) {
    const ten_request *request = (ten_request *)job;
    return store->ops->ping(store, request->server->config->timeout_ms);
}

static void finish_ready(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct ten_server *server = request->server;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
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
