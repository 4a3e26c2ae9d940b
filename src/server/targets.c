/*
 * Requests about targets and instances: listing, registering, removing, heartbeats.
 */
#include <jansson.h>
#include <string.h>

#include "agent/target_file.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/id.h"
#include "base/json.h"
#include "server/server_state.h"

static void go(ten_request *request) {
    request->job.op_count = 0;
    ten_request_wait(request, request->server->listing, false);
}

static void answer(ten_request *request, unsigned status) {
    request->state = TEN_REQUEST_ANSWERED;
    request->status = status;
    request->type = status == 204 ? NULL : "application/json";
}

/* ---- listing */

static int write_row(const ten_row *row, void *userdata) {
    ten_request *request = userdata;
    struct ten_list_request *list = &request->list;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, list->count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_text(reply, "id", row->target.id);
    if (strcmp(request->route.namespace_name, "scenes") == 0)
        ten_json_text(reply, "scene_id", row->target.id);
    ten_json_text(reply, "holder_id", row->holder);
    ten_json_number(reply, "version", row->token);
    ten_json_time(reply, "expires_at", row->holder ? list->now_ms + row->remaining_ms : 0);
    ten_json_bool(reply, "paused", row->target.paused);
    ten_json_bool(reply, "registered", row->registered);
    if (row->holder) {
        ten_json_number(reply, "remaining_ms", row->remaining_ms);
        ten_json_number(reply, "ttl_ms", row->ttl_ms);
        ten_json_time(reply, "acquired_at", row->acquired_at_ms);
        if (row->barred)
            ten_json_bool(reply, "barred", true);
    }
    if (row->target.url)
        ten_json_text(reply, "url", row->target.url);
    if (row->target.exec)
        ten_json_text(reply, "exec", row->target.exec);
    if (row->target.every_ms)
        ten_json_number(reply, "every_ms", row->target.every_ms);
    if (row->target.spec)
        ten_json_raw(reply, "spec", row->target.spec);
    ten_json_close(reply);
    snprintf(list->after, sizeof list->after, "%s", row->target.id);
    return 0;
}

static int list_targets(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct ten_list_request *list = &request->list;
    char after[TENURE_TARGET_MAX + 1];
    memcpy(after, list->after, sizeof after);
    ten_query query = {.namespace_name = request->route.namespace_name,
                       .filter = list->filter,
                       .after = after[0] ? after : NULL,
                       .limit = list->limit};
    list->now_ms = ten_wall_ms(&ten_system_clock);
    ten_buf_char(&request->reply, '[');
    int done = store->ops->list(store, &query, write_row, request, request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return done;
}

/* An id as a part of a URL. */
static void percent_encode(const char *id, char *to, size_t size) {
    size_t at = 0;
    for (; *id && at + 4 < size; id++) {
        if (strchr("/+%&#?", *id))
            at += (size_t)snprintf(to + at, size - at, "%%%02X", (unsigned char)*id);
        else
            to[at++] = *id;
    }
    to[at] = '\0';
}

static void finish_list(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct ten_list_request *list = &request->list;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    answer(request, 200);
    if (list->count < list->limit)
        return;
    char after[sizeof request->header[1] - 120];
    percent_encode(list->after, after, sizeof after);
    snprintf(request->header[0], sizeof request->header[0], "Link");
    snprintf(request->header[1], sizeof request->header[1], "</api/v1/%s?limit=%zu%s&after=%s>; rel=\"next\"",
             request->route.namespace_name, list->limit,
             list->filter == TENURE_LEASED ? "&leased=true"
             : list->filter == TENURE_FREE ? "&leased=false"
                                           : "",
             after);
}

void ten_targets_get(ten_request *request) {
    struct ten_list_request *list = &request->list;
    const char *leased = ten_request_argument(request, "leased");
    const char *limit = ten_request_argument(request, "limit");
    const char *after = ten_request_argument(request, "after");
    char *end = NULL;
    unsigned long wanted = limit ? strtoul(limit, &end, 10) : 1000;
    ten_error error;
    list->filter = !leased ? TENURE_ALL : strcmp(leased, "true") == 0 ? TENURE_LEASED : TENURE_FREE;
    list->limit = (size_t)wanted;
    if (leased && strcmp(leased, "true") != 0 && strcmp(leased, "false") != 0) {
        ten_reply_error(request, 400, "bad_request", "leased is true or false");
    } else if (limit && (limit[0] < '0' || limit[0] > '9' || *end != '\0' || wanted == 0 || wanted > TEN_PAGE_MAX)) {
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
    } else if (after && after[0] && ten_target_check(after, &error) < 0) {
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    } else {
        snprintf(list->after, sizeof list->after, "%s", after ? after : "");
        request->job.work = list_targets;
        request->job.finish = finish_list;
        go(request);
    }
}

/* ---- registering */

struct edit {
    ten_target_edit edit;
    ten_target_line *storage;
};

static int edit_target(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct edit *edit = request->storage;
    return store->ops->edit_targets(store, request->route.namespace_name, &edit->edit, 1,
                                    request->server->config->timeout_ms);
}

static void finish_edit(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct edit *edit = request->storage;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (edit->edit.action == TEN_TARGET_REMOVE && !edit->edit.found)
        ten_reply_unknown_target(request);
    else if (edit->edit.action == TEN_TARGET_REMOVE)
        answer(request, 204);
    else
        answer(request, edit->edit.found ? 200 : 201);
    if (request->status == 200 || request->status == 201) {
        ten_json_open(&request->reply);
        ten_json_text(&request->reply, "id", request->route.id);
        ten_json_close(&request->reply);
        ten_buf_char(&request->reply, '\n');
    }
}

static struct edit *new_edit(ten_request *request, enum ten_target_action action) {
    static _Thread_local struct edit none;
    struct edit *edit = calloc(1, sizeof *edit);
    if (!edit) {
        ten_reply_error(request, 503, "unavailable", "out of memory");
        return &none;
    }
    edit->edit = (ten_target_edit){.action = action, .target = {.id = request->route.id}};
    request->storage = edit;
    request->job.work = edit_target;
    request->job.finish = finish_edit;
    return edit;
}

/* The body is a line of a target file, without its id or with the same one. */
static bool read_target(ten_request *request, struct edit *edit) {
    json_t *body = ten_body_parse(request);
    ten_error error = {0};
    if (!body)
        return false;
    const char *id = json_string_value(json_object_get(body, "id"));
    bool other = id && strcmp(id, request->route.id) != 0;
    char *line = NULL;
    if (!other && json_object_set_new(body, "id", json_string(request->route.id)) == 0)
        line = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (other) {
        ten_reply_error(request, 400, "bad_request", "the id in the body is another than the one in the path");
        return false;
    }
    int done = line ? ten_target_line_parse(line, &edit->edit.target, &edit->storage, &error)
                    : ten_fail(&error, TENURE_E_INVALID, "the body cannot be used");
    free(line);
    if (done < 0)
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    return done == TENURE_OK;
}

void ten_target_put(ten_request *request) {
    struct edit *edit = new_edit(request, TEN_TARGET_PUT);
    if (request->storage && read_target(request, edit))
        go(request);
}

void ten_target_delete(ten_request *request) {
    (void)new_edit(request, TEN_TARGET_REMOVE);
    if (request->storage)
        go(request);
}

void ten_target_edit_free(void *storage) {
    struct edit *edit = storage;
    if (edit && edit->storage)
        ten_target_line_free(edit->storage);
    free(edit);
}

/* ---- instances */

static int write_instance(const ten_instance *instance, void *userdata) {
    ten_request *request = userdata;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_text(reply, "instance", instance->instance);
    ten_json_number(reply, "weight", instance->weight);
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
    ten_buf_char(&request->reply, '[');
    int done = store->ops->list_instances(store, request->route.namespace_name, write_instance, request,
                                          request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return done;
}

static void finish_nodes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else
        answer(request, 200);
}

void ten_nodes_get(ten_request *request) {
    request->job.work = list_nodes;
    request->job.finish = finish_nodes;
    go(request);
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
        answer(request, 204);
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
    answer(request, 200);
    ten_buf_text(&request->reply, "{\"status\":\"ready\"}\n");
}

void ten_server_ready(ten_request *request) {
    request->job.work = ping;
    request->job.finish = finish_ready;
    go(request);
}
