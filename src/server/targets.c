/*
 * Requests about targets and instances: listing, registering, removing, heartbeats.
 */
#include <jansson.h>
#include <string.h>

#include "agent/target_file.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/map.h"
#include "server/server_state.h"

#define PAGE_SIZE ((size_t)4 * 1024 * 1024) /* a page that has become so large ends, whatever its limit */

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
        ten_json_number(reply, "acquired_at_ms", row->acquired_at_ms);
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
    list->cut = reply->size > PAGE_SIZE;
    return list->cut ? 1 : 0;
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
    return list->cut ? TENURE_OK : done;
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
    if (list->count < list->limit && !list->cut)
        return;
    char after[3 * TENURE_TARGET_MAX + 8];
    percent_encode(list->after, after, sizeof after);
    snprintf(request->header[0], sizeof request->header[0], "Link");
    snprintf(request->header[1], sizeof request->header[1], "</api/v1/%s?limit=%zu%s&after=%s>; rel=\"next\"",
             request->route.namespace_name, list->limit,
             list->filter == TENURE_LEASED       ? "&leased=true"
             : list->filter == TENURE_FREE       ? "&leased=false"
             : list->filter == TENURE_REGISTERED ? "&registered=true"
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
    const char *registered = ten_request_argument(request, "registered");
    list->filter = registered && strcmp(registered, "true") == 0 ? TENURE_REGISTERED
                   : !leased                                     ? TENURE_ALL
                   : strcmp(leased, "true") == 0                 ? TENURE_LEASED
                                                                 : TENURE_FREE;
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

struct edits {
    size_t count;
    ten_target_edit *edits;
    ten_target_line **lines; /* what the edits point into */
};

static int edit_targets(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct edits *edits = request->storage;
    return store->ops->edit_targets(store, request->route.namespace_name, edits->edits, edits->count,
                                    request->server->config->timeout_ms);
}

void ten_target_edits_free(void *storage) {
    struct edits *edits = storage;
    if (!edits)
        return;
    for (size_t i = 0; edits->lines && i < edits->count; i++)
        if (edits->lines[i])
            ten_target_line_free(edits->lines[i]);
    ten_free(edits->lines);
    ten_free(edits->edits);
    ten_free(edits);
}

static struct edits *new_edits(ten_request *request, size_t count) {
    struct edits *edits = ten_calloc(1, sizeof *edits);
    if (edits) {
        edits->count = count;
        edits->edits = ten_calloc(count, sizeof *edits->edits);
        edits->lines = ten_calloc(count, sizeof *edits->lines);
    }
    request->storage = edits;
    request->job.work = edit_targets;
    if (edits && edits->edits && edits->lines)
        return edits;
    ten_reply_error(request, 503, "unavailable", "out of memory");
    return NULL;
}

/* A line of a target file as an object. */
static bool read_target(ten_request *request, const json_t *object, struct edits *edits, size_t at) {
    ten_error error = {0};
    char *line = json_dumps(object, JSON_COMPACT);
    int done = line ? ten_target_line_parse(line, &edits->edits[at].target, &edits->lines[at], &error)
                    : ten_fail(&error, TENURE_E_INVALID, "the body cannot be used");
    free(line);
    if (done == TENURE_OK && ten_id_is_reserved(edits->edits[at].target.id))
        done = ten_fail(&error, TENURE_E_INVALID, "id: nodes, leases, events and history are words of this API");
    if (done < 0)
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    return done == TENURE_OK;
}

static void finish_edit(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const ten_target_edit *edit = &((struct edits *)request->storage)->edits[0];
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (edit->action == TEN_TARGET_REMOVE && !edit->found)
        ten_reply_unknown_target(request);
    else if (edit->action == TEN_TARGET_REMOVE)
        answer(request, 204);
    else {
        answer(request, edit->found ? 200 : 201);
        ten_json_open(&request->reply);
        ten_json_text(&request->reply, "id", request->route.id);
        ten_json_close(&request->reply);
        ten_buf_char(&request->reply, '\n');
    }
}

/* The body is a line of a target file, without its id or with the same one. */
void ten_target_put(ten_request *request) {
    json_t *body = ten_body_parse(request);
    struct edits *edits = body ? new_edits(request, 1) : NULL;
    const char *id = json_string_value(json_object_get(body, "id"));
    request->job.finish = finish_edit;
    if (edits && id && strcmp(id, request->route.id) != 0)
        ten_reply_error(request, 400, "bad_request", "the id in the body is another than the one in the path");
    else if (edits && json_object_set_new(body, "id", json_string(request->route.id)) == 0 &&
             read_target(request, body, edits, 0))
        go(request);
    json_decref(body);
}

void ten_target_delete(ten_request *request) {
    struct edits *edits = new_edits(request, 1);
    request->job.finish = finish_edit;
    if (!edits)
        return;
    edits->edits[0] = (ten_target_edit){.action = TEN_TARGET_REMOVE, .target = {.id = request->route.id}};
    go(request);
}

/* ---- many of them, all or none */

static void finish_edits(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct edits *edits = request->storage;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    answer(request, 200);
    ten_buf_char(&request->reply, '[');
    for (size_t i = 0; i < edits->count; i++) {
        ten_buf_text(&request->reply, i ? ",\n" : "");
        ten_json_open(&request->reply);
        ten_json_text(&request->reply, "id", edits->edits[i].target.id);
        ten_json_bool(&request->reply, "found", edits->edits[i].found);
        ten_json_close(&request->reply);
    }
    ten_buf_text(&request->reply, "]\n");
}

static bool read_edit(ten_request *request, const json_t *item, struct edits *edits, size_t at) {
    static const char *const words[] = {"put", "remove", "pause", "resume"};
    const char *word = json_string_value(json_object_get(item, "action"));
    const json_t *target = json_object_get(item, "target");
    if (!read_target(request, target ? target : item, edits, at))
        return false;
    for (size_t i = 0; word && i < TEN_COUNT(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            edits->edits[at].action = (enum ten_target_action)i;
            return true;
        }
    }
    ten_reply_error(request, 400, "bad_request", "action: put, remove, pause or resume is wanted");
    return false;
}

void ten_targets_edit(ten_request *request) {
    json_t *body = ten_body_parse(request);
    const json_t *items = json_object_get(body, "edits");
    size_t count = json_array_size(items);
    struct edits *edits = NULL;
    if (body && (count == 0 || count > TEN_PAGE_MAX))
        ten_reply_error(request, 400, "bad_request", "edits: an array of 1 to %u is wanted", TEN_PAGE_MAX);
    else if (body)
        edits = new_edits(request, count);
    bool good = edits != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = read_edit(request, json_array_get(items, i), edits, i);
    request->job.finish = finish_edits;
    if (good)
        go(request);
    json_decref(body);
}

/* ---- what has changed: the feed, as far back as it is kept */

static int write_change(const ten_change *change, void *userdata) {
    ten_request *request = userdata;
    ten_buf *reply = &request->reply;
    ten_buf_text(reply, request->list.count++ ? ",\n" : "");
    ten_json_open(reply);
    ten_json_number(reply, "cursor", change->cursor);
    ten_json_time(reply, "at", change->at_ms);
    ten_json_number(reply, "at_ms", change->at_ms);
    ten_json_text(reply, "event", ten_change_name(change->kind));
    ten_json_text(reply, "target", change->target);
    ten_json_text(reply, "instance", change->instance);
    ten_json_number(reply, "token", change->token);
    ten_json_text(reply, "reason", ten_reason_name(change->reason));
    ten_json_text(reply, "actor", change->actor);
    ten_json_close(reply);
    return 0;
}

/* Without a cursor, the last ones: cursors grow by one with each change, or faster. */
static int read_changes(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct ten_list_request *list = &request->list;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_buf_char(&request->reply, '[');
    int done = TENURE_OK;
    if (list->recent) {
        done = store->ops->changes(store, where, &list->cursor, 1, write_change, request, timeout_ms);
        list->cursor = ten_left_u64(list->cursor, list->limit);
    }
    if (done == TENURE_OK)
        done = store->ops->changes(store, where, &list->cursor, list->limit, write_change, request, timeout_ms);
    list->resync = done == TENURE_E_RESYNC;
    ten_buf_text(&request->reply, "]\n");
    return list->resync ? TENURE_OK : done;
}

static void finish_changes(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    answer(request, 200);
    snprintf(request->header[0], sizeof request->header[0], "X-Tenure-Cursor");
    snprintf(request->header[1], sizeof request->header[1], "%llu%s", (unsigned long long)request->list.cursor,
             request->list.resync ? "; resync" : "");
}

void ten_history_get(ten_request *request) {
    struct ten_list_request *list = &request->list;
    const char *after = ten_request_argument(request, "after");
    const char *limit = ten_request_argument(request, "limit");
    bool is_number = !limit || (limit[0] != '\0' && strspn(limit, "0123456789") == strlen(limit));
    list->limit = !is_number ? 0 : limit ? strtoul(limit, NULL, 10) : 100;
    list->recent = after == NULL;
    bool is_now = after && strcmp(after, "now") == 0;
    list->cursor = !after || is_now ? UINT64_MAX : strtoull(after, NULL, 10);
    if (list->limit == 0 || list->limit > TEN_PAGE_MAX)
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
    else if (after && !is_now && (after[0] == '\0' || strspn(after, "0123456789") != strlen(after)))
        ten_reply_error(request, 400, "bad_request", "after is a cursor, or now");
    else {
        request->job.work = read_changes;
        request->job.finish = finish_changes;
        go(request);
    }
}

/* ---- instances */

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
        answer(request, 200);
}

void ten_nodes_get(ten_request *request) {
    const char *shares = ten_request_argument(request, "shares");
    request->list.shares = !shares || strcmp(shares, "false") != 0; /* our own clients count for themselves */
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
    const struct ten_server *server = request->server;
    answer(request, 200);
    ten_json_open(&request->reply);
    ten_json_text(&request->reply, "status", "ready");
    ten_json_text(&request->reply, "store", ten_lane_store_name(server->listing));
    ten_json_number(&request->reply, "ttl_min_ms", ten_lane_capabilities(server->listing)->ttl_min_ms);
    ten_json_text(&request->reply, "version", tenure_version());
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
}

void ten_server_ready(ten_request *request) {
    request->job.work = ping;
    request->job.finish = finish_ready;
    go(request);
}
