/*
 * Requests about instances: the live ones with their shares and the plan, heartbeats, leaving, and where the holder
 * of a target is.
 */
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

/* A listing of instances. */
struct nodes {
    const char *after;
    size_t limit;
    bool with_shares;
    bool with_plan; /* too */
    ten_shares shares;
    size_t moving; /* of the instance that is written */
    ten_buf text;  /* of it */
    struct node *found;
    size_t count;
    uint32_t room;
    size_t shown; /* of those, from the first on */
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
    if (!TEN_GROW(nodes->found, nodes->room, (uint32_t)nodes->count + 1))
        return TENURE_E_NOMEM;
    struct node node = {ten_strdup(id), ten_strdup(ten_buf_string(&nodes->text))};
    nodes->found[nodes->count++] = node;
    return node.id && node.text && !nodes->text.failed ? 0 : TENURE_E_NOMEM;
}

static void write_identity(ten_buf *reply, const ten_metadata_shown *shown) {
    ten_json_some_text(reply, "role", shown->role);
    ten_json_flag(reply, "lock", shown->is_lock);
    ten_json_some_text(reply, "address", shown->address);
    if (shown->labels.size)
        ten_json_raw(reply, "labels", ten_buf_string(&shown->labels));
}

static int write_instance(const ten_instance *instance, void *userdata) {
    struct nodes *nodes = userdata;
    ten_buf *reply = &nodes->text;
    if (nodes->after && strcmp(instance->instance, nodes->after) <= 0)
        return 0; /* of an earlier page */
    ten_buf_clear(reply);
    ten_json_open(reply);
    ten_json_text(reply, "instance", instance->instance);
    ten_json_number(reply, "weight", instance->weight);
    if (nodes->with_shares)
        ten_json_number(reply, "share", ten_shares_held(&nodes->shares, instance->instance));
    if (nodes->with_plan)
        write_plan(nodes, instance->instance);
    ten_metadata_shown shown;
    ten_metadata_read(instance->metadata, &shown);
    bool no_weight = instance->weight == 0 && shown.role[0] == '\0'; /* a candidate has none */
    ten_json_bool(reply, "draining", no_weight || instance->ask == TEN_ASK_DRAIN);
    ten_json_time(reply, "since", instance->since_ms);
    ten_json_number(reply, "since_ms", instance->since_ms);
    ten_json_number(reply, "ttl_ms", instance->ttl_ms);
    ten_json_number(reply, "remaining_ms", instance->remaining_ms);
    ten_json_some(reply, "ask", instance->ask);
    ten_json_flag(reply, "session", instance->has_session);
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
static void write_page(struct nodes *nodes, ten_buf *reply) {
    if (nodes->count > 0)
        qsort(nodes->found, nodes->count, sizeof *nodes->found, compare_nodes);
    ten_buf_char(reply, '[');
    while (nodes->shown < nodes->count && nodes->shown < nodes->limit && reply->size < TEN_PAGE_SIZE) {
        ten_buf_text(reply, nodes->shown ? ",\n" : "");
        ten_buf_text(reply, nodes->found[nodes->shown++].text);
    }
    ten_buf_text(reply, "]\n");
}

static void free_nodes(void *own) {
    struct nodes *nodes = own;
    for (size_t i = 0; i < nodes->count; i++) {
        ten_free(nodes->found[i].id);
        ten_free(nodes->found[i].text);
    }
    ten_free(nodes->found);
    ten_buf_free(&nodes->text);
    ten_shares_free(&nodes->shares);
}

static int list_nodes(ten_request *request, ten_store *store) {
    struct nodes *nodes = request->own;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    int r = TENURE_OK;
    if (nodes->with_shares)
        r = ten_shares_read(&nodes->shares, store, where, nodes->with_plan, timeout_ms);
    TEN_STEP(r, store->ops->list_instances(store, where, write_instance, nodes, timeout_ms));
    if (r == TENURE_OK)
        write_page(nodes, &request->reply);
    return r;
}

static void answer_nodes(ten_request *request) {
    const struct nodes *nodes = request->own;
    char query[80];
    request->in_use = nodes->shown > 0;
    snprintf(query, sizeof query, "/nodes?limit=%zu&shares=%s&plan=%s&after=", nodes->limit,
             nodes->with_shares ? "true" : "false", nodes->with_plan ? "true" : "false");
    if (nodes->shown < nodes->count)
        ten_reply_next(request, query, nodes->found[nodes->shown - 1].id);
}

bool ten_server_instances_get(ten_request *request) {
    struct nodes *nodes = ten_request_own(request, sizeof *nodes, free_nodes);
    ten_fields fields = {.limit = TEN_PAGE_MAX};
    if (!nodes || !ten_fields_take(request, &fields))
        return false;
    nodes->after = fields.after;
    nodes->limit = fields.limit;
    nodes->with_plan = fields.plan == TEN_YES;
    nodes->with_shares = nodes->with_plan || fields.shares != TEN_NO; /* our own clients count for themselves */
    return ten_request_work(request, nodes->with_shares ? TEN_LISTING : TEN_READING, list_nodes, answer_nodes);
}

/* ---- heartbeats */

static void answer_heartbeat(ten_request *request, const ten_result *result) {
    if (result->outcome == TEN_ERROR && result->error == TENURE_E_TTL)
        ten_reply_error(request, 409, "held",
                        "the instances of this namespace use a TTL of %llu ms; all must use the same",
                        (unsigned long long)result->ttl_ms);
    else if (result->outcome == TEN_ERROR)
        ten_reply_error(request, 409, "lost", "%s", tenure_strerror(result->error));
    else
        ten_reply_status(request, 204);
}

static bool apply(ten_request *request, enum ten_op_kind kind, const ten_fields *fields) {
    ten_op *op = ten_request_own(request, sizeof *op, NULL);
    if (!op || !ten_request_owns(request, request->route.id))
        return false;
    *op = (ten_op){.kind = kind,
                   .namespace_name = request->route.namespace_name,
                   .holder = request->route.id,
                   .ttl_ms = fields->ttl_ms,
                   .weight = (uint32_t)fields->weight};
    if (kind == TEN_OP_LEAVE && ten_request_has_role(request, TEN_ROLE_ADMIN))
        ten_request_log_admin(request, ten_request_sender(request), "leave", request->route.id, 1);
    return ten_request_apply(request, op, 1, TEN_URGENT, answer_heartbeat);
}

bool ten_server_instance_put(ten_request *request) {
    ten_fields fields = {.weight = 1, .ttl_ms = request->server->config->ttl_ms};
    return ten_fields_take(request, &fields) && apply(request, TEN_OP_ANNOUNCE, &fields);
}

bool ten_server_instance_delete(ten_request *request) {
    return apply(request, TEN_OP_LEAVE, &(ten_fields){0});
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
    const ten_metadata_shown *shown = &owner->shown;
    ten_buf *reply = ten_reply_open(request, 200);
    ten_json_text(reply, "holder_id", owner->holder);
    ten_json_text(reply, "address", shown->address[0] ? shown->address : NULL);
    ten_json_number(reply, "version", token);
    ten_json_raw(reply, "labels", shown->labels.size ? ten_buf_string(&shown->labels) : "{}");
    ten_reply_close(request);
}

/* Writes nothing if the target is free or unknown. */
static int find_owner(ten_request *request, ten_store *store) {
    uint64_t timeout_ms = request->server->config->timeout_ms;
    const char *where = request->route.namespace_name;
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = where, .target = request->route.id};
    ten_result result;
    struct owner owner = {0};
    int r = ten_store_apply(store, &op, &result, 1, timeout_ms);
    if (r < 0 || result.outcome == TEN_ERROR)
        return r < 0 ? r : result.error;
    if (!result.holder)
        return TENURE_OK;
    snprintf(owner.holder, sizeof owner.holder, "%s", result.holder);
    uint64_t token = result.token; /* the next call on the store ends the result */
    r = store->ops->list_instances(store, where, look_for_owner, &owner, timeout_ms);
    if (r >= 0)
        write_owner(request, &owner, token);
    ten_metadata_free(&owner.shown);
    return r < 0 ? r : TENURE_OK;
}

static void answer_owner(ten_request *request) {
    if (request->reply.size == 0)
        ten_reply_error(request, 404, "not_found", "no instance holds %s", request->route.id);
}

bool ten_server_owner_get(ten_request *request) {
    return ten_request_work(request, TEN_READING, find_owner, answer_owner);
}
