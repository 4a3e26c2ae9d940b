/*
 * Requests about targets: listing, registering, removing.
 */
#include <jansson.h>
#include <string.h>

#include "agent/sources/target_file.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/id.h"
#include "base/json.h"
#include "base/utf8.h"
#include "server/server_state.h"
#include "store/common/json_value.h"

/* Targets that a request is about: to be edited, or only to be read. */
struct edits {
    size_t count;
    ten_target_edit *edits;
    ten_target_line **lines; /* what the edits point into */
    json_t *body;            /* what their pins point into */
    ten_arena actors;        /* the same */
};

void ten_server_target_edits_free(void *storage) {
    struct edits *edits = storage;
    if (!edits)
        return;
    for (size_t i = 0; edits->lines && i < edits->count; i++)
        if (edits->lines[i])
            ten_target_file_line_free(edits->lines[i]);
    json_decref(edits->body);
    ten_arena_free(&edits->actors);
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
    if (edits && edits->edits && edits->lines)
        return edits;
    ten_reply_error(request, 503, "unavailable", "out of memory");
    return NULL;
}

/* ---- listing */

static void write_pin(ten_buf *reply, const ten_pin *pin) {
    ten_buf_text(reply, ",\"pin\":");
    ten_json_open(reply);
    ten_json_text(reply, "instance", pin->instance);
    ten_json_bool(reply, "away", pin->away);
    ten_json_time(reply, "until", pin->until_ms);
    ten_json_number(reply, "until_ms", pin->until_ms);
    ten_json_number(reply, "remaining_ms", pin->left_ms);
    ten_json_text(reply, "actor", pin->actor);
    ten_json_text(reply, "reason", pin->reason);
    ten_json_close(reply);
}

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
        ten_json_value(reply, "spec", row->target.spec);
    if (row->pin.instance)
        write_pin(reply, &row->pin);
    ten_json_close(reply);
    snprintf(list->after, sizeof list->after, "%s", row->target.id);
    list->cut = reply->size > TEN_PAGE_SIZE;
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
                       .limit = list->limit,
                       .current = list->current};
    list->now_ms = ten_wall_ms(&ten_system_clock);
    ten_buf_char(&request->reply, '[');
    int r = store->ops->list(store, &query, write_row, request, request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return list->cut ? TENURE_OK : r;
}

/* Certain targets; request->storage has their ids. */
static int read_targets(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct ten_list_request *list = &request->list;
    const struct edits *wanted = request->storage;
    const char **ids = ten_calloc(wanted->count, sizeof *ids);
    if (!ids)
        return ten_fail_memory(&store->error, "the answer");
    for (size_t i = 0; i < wanted->count; i++)
        ids[i] = wanted->edits[i].target.id;
    list->now_ms = ten_wall_ms(&ten_system_clock);
    ten_buf_char(&request->reply, '[');
    int r = store->ops->read_targets(store, request->route.namespace_name, ids, wanted->count, write_row, request,
                                     request->server->config->timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    ten_free(ids);
    return list->cut ? TENURE_OK : r;
}

/* An answer that became too large ends early: Link names the first id that it does not cover. */
static void finish_read(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct edits *wanted = request->storage;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    size_t at = 0;
    while (at < wanted->count && strcmp(wanted->edits[at].target.id, request->list.after) != 0)
        at++;
    if (request->list.cut && at + 1 < wanted->count)
        ten_reply_next(request, "?id=", wanted->edits[at + 1].target.id);
}

static void finish_list(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct ten_list_request *list = &request->list;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
    if (list->count < list->limit && !list->cut)
        return;
    char query[64];
    snprintf(query, sizeof query, "?limit=%zu%s%s&after=", list->limit, list->current ? "&current=true" : "",
             list->filter == TENURE_LEASED       ? "&leased=true"
             : list->filter == TENURE_FREE       ? "&leased=false"
             : list->filter == TENURE_REGISTERED ? "&registered=true"
                                                 : "");
    ten_reply_next(request, query, list->after);
}

/* ---- certain targets */

struct arguments {
    ten_request *request;
    size_t count; /* of ids */
    size_t others;
    bool good; /* has not been answered */
};

static enum MHD_Result count_argument(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct arguments *arguments = userdata;
    (void)kind;
    (void)value;
    if (strcmp(name, "id") == 0)
        arguments->count++;
    else
        arguments->others++;
    return MHD_YES;
}

static enum MHD_Result take_id(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct arguments *arguments = userdata;
    struct edits *wanted = arguments->request->storage;
    char id[TENURE_TARGET_MAX * 3 + 2];
    ten_error error = {0};
    size_t at = arguments->count;
    (void)kind;
    if (strcmp(name, "id") != 0)
        return MHD_YES;
    snprintf(id, sizeof id, "%s", value ? value : "");
    int r = ten_percent_decode(id, true) ? ten_id_check_target(id, &error)
                                         : ten_fail(&error, TENURE_E_INVALID, "id is not percent-encoded text");
    if (r == TENURE_OK)
        r = ten_target_file_line_parse(id, &wanted->edits[at].target, &wanted->lines[at], &error);
    if (r < 0)
        ten_reply_error(arguments->request, 400, "bad_request", "%s", error.message);
    arguments->good = r == TENURE_OK;
    arguments->count++;
    return arguments->good ? MHD_YES : MHD_NO;
}

static void get_certain(ten_request *request, const struct arguments *given) {
    struct arguments arguments = {.request = request, .good = true};
    if (given->others > 0) {
        ten_reply_error(request, 400, "bad_request", "id cannot be combined with other parameters");
        return;
    }
    if (!new_edits(request, given->count))
        return;
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_id, &arguments);
    request->job.work = read_targets;
    request->job.finish = finish_read;
    if (arguments.good)
        ten_request_wait_for_reading(request);
}

/* ---- a page */

void ten_server_targets_get(ten_request *request) {
    struct ten_list_request *list = &request->list;
    struct arguments arguments = {0};
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, count_argument, &arguments);
    if (arguments.count > 0) {
        get_certain(request, &arguments);
        return;
    }
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
    const char *current = ten_request_argument(request, "current");
    list->current = current && strcmp(current, "true") == 0;
    list->limit = (size_t)wanted;
    if (leased && strcmp(leased, "true") != 0 && strcmp(leased, "false") != 0) {
        ten_reply_error(request, 400, "bad_request", "leased is true or false");
    } else if (limit && (limit[0] < '0' || limit[0] > '9' || *end != '\0' || wanted == 0 || wanted > TEN_PAGE_MAX)) {
        ten_reply_error(request, 400, "bad_request", "limit is a number from 1 to %u", TEN_PAGE_MAX);
    } else if (after && after[0] && ten_id_check_target(after, &error) < 0) {
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    } else {
        snprintf(list->after, sizeof list->after, "%s", after ? after : "");
        request->job.work = list_targets;
        request->job.finish = finish_list;
        ten_request_wait_for_listing(request);
    }
}

/* ---- registering */

static int edit_targets(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    struct edits *edits = request->storage;
    return store->ops->edit_targets(store, request->route.namespace_name, edits->edits, edits->count,
                                    request->server->config->timeout_ms);
}

/* In the name of the principal; pins have an actor already. */
static void go(ten_request *request) {
    struct edits *edits = request->storage;
    const ten_target_edit *first = &edits->edits[0];
    for (size_t i = 0; request->server->has_auth && i < edits->count; i++)
        if (!edits->edits[i].pin.actor)
            edits->edits[i].pin.actor = request->principal.name;
    request->job.work = edit_targets;
    ten_request_log_admin(request, first->pin.actor ? first->pin.actor : ten_request_sender(request),
                          ten_op_action_name(first->action), first->target.id, edits->count);
    ten_request_wait_for_listing(request);
}

/* A line of a target file as an object. */
static bool read_target(ten_request *request, const json_t *object, struct edits *edits, size_t at) {
    ten_error error = {0};
    char *line = json_dumps(object, JSON_COMPACT);
    int r = line ? ten_target_file_line_parse(line, &edits->edits[at].target, &edits->lines[at], &error)
                 : ten_fail(&error, TENURE_E_INVALID, "the body cannot be used");
    free(line);
    if (r == TENURE_OK && ten_route_is_reserved(edits->edits[at].target.id))
        r = ten_fail(&error, TENURE_E_INVALID, "id: nodes, leases, events and history are words of this API");
    if (r < 0)
        ten_reply_error(request, 400, "bad_request", "%s", error.message);
    return r == TENURE_OK;
}

static void finish_edit(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const ten_target_edit *edit = &((struct edits *)request->storage)->edits[0];
    (void)results;
    if (error < 0)
        ten_reply_store_error(request, error, message);
    else if (edit->action != TEN_TARGET_PUT && !edit->found)
        ten_reply_unknown_target(request);
    else if (edit->action != TEN_TARGET_PUT)
        ten_reply_status(request, 204);
    else {
        ten_reply_status(request, edit->found ? 200 : 201);
        ten_json_open(&request->reply);
        ten_json_text(&request->reply, "id", request->route.id);
        ten_json_close(&request->reply);
        ten_buf_char(&request->reply, '\n');
    }
}

/* The body is a line of a target file, without its id or with the same one. */
void ten_server_target_put(ten_request *request) {
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

void ten_server_target_delete(ten_request *request) {
    struct edits *edits = new_edits(request, 1);
    request->job.finish = finish_edit;
    if (!edits)
        return;
    edits->edits[0] = (ten_target_edit){.action = TEN_TARGET_REMOVE, .target = {.id = request->route.id}};
    go(request);
}

/* ---- pinning */

static bool wrong_pin(ten_request *request, const char *why) {
    ten_reply_error(request, 400, "bad_request", "%s", why);
    return false;
}

/* `actor`: what the client calls whoever asked for it. The principal, if there is one, is named in any case. */
static bool get_pin_actor(ten_request *request, const json_t *object, ten_pin *pin) {
    struct edits *edits = request->storage;
    const json_t *value = json_object_get(object, "actor");
    const char *called = value ? json_string_value(value) : ten_request_sender(request);
    char actor[TENURE_HOLDER_MAX + 1];
    ten_error error;
    if (!called || ten_id_check_holder(called, &error) < 0)
        return wrong_pin(request, "actor must be a name such as user@host");
    ten_request_name_actor(request, called, actor);
    pin->actor = ten_arena_text(&edits->actors, actor);
    if (!pin->actor)
        ten_reply_error(request, 503, "unavailable", "out of memory");
    return pin->actor != NULL;
}

static bool get_pin(ten_request *request, const json_t *object, ten_target_edit *edit) {
    static const char *const members[] = {"instance", "away", "for_ms", "reason", "actor", NULL};
    const json_t *reason = json_object_get(object, "reason");
    const json_t *for_ms = json_object_get(object, "for_ms");
    const json_t *away = json_object_get(object, "away");
    ten_error error;
    edit->pin = (ten_pin){.instance = json_string_value(json_object_get(object, "instance")),
                          .away = json_is_true(away),
                          .left_ms = for_ms ? (uint64_t)json_integer_value(for_ms) : TENURE_PIN_DEFAULT_MS,
                          .reason = json_string_value(reason)};
    if (!ten_body_knows(request, object, members) || !get_pin_actor(request, object, &edit->pin))
        return false;
    if (edit->action == TEN_TARGET_UNPIN)
        return true;
    if (!edit->pin.instance)
        return wrong_pin(request, "instance is required and must be a string");
    if (ten_id_check_holder(edit->pin.instance, &error) < 0)
        return wrong_pin(request, error.message);
    if (away && !json_is_boolean(away))
        return wrong_pin(request, "away must be true or false");
    if (for_ms && (json_integer_value(for_ms) < 1 || edit->pin.left_ms > TENURE_TTL_MAX_MS))
        return wrong_pin(request, "for_ms must be an integer between 1 and 31622400000");
    if (reason && (!edit->pin.reason || json_string_length(reason) > TENURE_PIN_REASON_MAX ||
                   !ten_utf8_is_printable(edit->pin.reason, json_string_length(reason))))
        return wrong_pin(request, "reason must be a text of at most 200 bytes without control characters");
    return true;
}

static void edit_pin(ten_request *request, enum ten_target_action action) {
    json_t *body = ten_body_parse(request);
    struct edits *edits = body ? new_edits(request, 1) : NULL;
    request->job.finish = finish_edit;
    if (!edits) {
        json_decref(body);
        return;
    }
    edits->body = body;
    edits->edits[0] = (ten_target_edit){.action = action, .target = {.id = request->route.id}};
    if (get_pin(request, body, &edits->edits[0]))
        go(request);
}

void ten_server_pin_put(ten_request *request) {
    edit_pin(request, TEN_TARGET_PIN);
}

void ten_server_pin_delete(ten_request *request) {
    edit_pin(request, TEN_TARGET_UNPIN);
}

/* ---- many of them */

static void finish_edits(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    const struct edits *edits = request->storage;
    (void)results;
    if (error < 0) {
        ten_reply_store_error(request, error, message);
        return;
    }
    ten_reply_status(request, 200);
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
    const char *word = json_string_value(json_object_get(item, "action"));
    const json_t *target = json_object_get(item, "target");
    if (!read_target(request, target ? target : item, edits, at))
        return false;
    if (!ten_op_action_parse(word, &edits->edits[at].action)) {
        ten_reply_error(request, 400, "bad_request", "action: must be put, remove, pause, resume, pin or unpin");
        return false;
    }
    bool pins = edits->edits[at].action == TEN_TARGET_PIN || edits->edits[at].action == TEN_TARGET_UNPIN;
    return !pins || get_pin(request, json_object_get(item, "pin"), &edits->edits[at]);
}

void ten_server_targets_edit(ten_request *request) {
    json_t *body = ten_body_parse(request);
    const json_t *items = json_object_get(body, "edits");
    size_t count = json_array_size(items);
    struct edits *edits = NULL;
    if (body && (count == 0 || count > TEN_PAGE_MAX))
        ten_reply_error(request, 400, "bad_request", "edits: must be an array of 1 to %u edits", TEN_PAGE_MAX);
    else if (body)
        edits = new_edits(request, count);
    if (edits)
        edits->body = json_incref(body);
    bool good = edits != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = read_edit(request, json_array_get(items, i), edits, i);
    request->job.finish = finish_edits;
    if (good)
        go(request);
    json_decref(body);
}

/* ---- forgetting */

static int forget_named(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    const struct edits *named = request->storage;
    ten_forget *items = ten_calloc(named->count, sizeof *items);
    if (!items)
        return ten_fail_memory(&store->error, "the answer");
    for (size_t i = 0; i < named->count; i++)
        items[i].id = named->edits[i].target.id;
    int r = ten_store_forget(store, request->route.namespace_name, items, named->count,
                             request->server->config->timeout_ms);
    ten_buf_char(&request->reply, '[');
    for (size_t i = 0; r == TENURE_OK && i < named->count; i++) {
        ten_buf_text(&request->reply, i ? ",\n" : "");
        ten_json_open(&request->reply);
        ten_json_text(&request->reply, "id", items[i].id);
        ten_json_text(&request->reply, "outcome", ten_forget_name(items[i].outcome));
        ten_json_close(&request->reply);
    }
    ten_buf_text(&request->reply, "]\n");
    ten_free(items);
    return r;
}

/* As many as half of the time-out allows; the client asks again for the rest. */
static int forget_unregistered(ten_job *job, ten_store *store) {
    ten_request *request = (ten_request *)job;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    uint64_t enough_ms = ten_now_ms() + timeout_ms / 2;
    uint64_t forgotten = 0;
    int r;
    do {
        size_t some = 0;
        r = ten_store_forget_unregistered(store, request->route.namespace_name, request->list.after, &some,
                                          timeout_ms / 2);
        forgotten += some;
    } while (r == TENURE_OK && request->list.after[0] && ten_now_ms() < enough_ms);
    ten_json_open(&request->reply);
    ten_json_number(&request->reply, "forgotten", forgotten);
    ten_json_text(&request->reply, "after", request->list.after[0] ? request->list.after : NULL);
    ten_json_close(&request->reply);
    ten_buf_char(&request->reply, '\n');
    return r;
}

static void finish_forget(ten_job *job, int error, const char *message, const ten_result *results) {
    ten_request *request = (ten_request *)job;
    (void)results;
    if (error < 0) {
        ten_buf_clear(&request->reply);
        ten_reply_store_error(request, error, message);
    } else {
        ten_reply_status(request, 200);
    }
}

static bool take_named(ten_request *request, const json_t *ids) {
    size_t count = json_array_size(ids);
    struct edits *named = count > 0 && count <= TEN_PAGE_MAX ? new_edits(request, count) : NULL;
    if (!named) {
        if (count == 0 || count > TEN_PAGE_MAX)
            ten_reply_error(request, 400, "bad_request",
                            "the body must have ids, an array of 1 to %u ids, or \"unregistered\":true", TEN_PAGE_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ten_error error = {0};
        const char *id = json_string_value(json_array_get(ids, i));
        int r = id ? ten_id_check_target(id, &error) : ten_fail(&error, TENURE_E_INVALID, "ids must be strings");
        if (r == TENURE_OK)
            r = ten_target_file_line_parse(id, &named->edits[i].target, &named->lines[i], &error);
        if (r < 0) {
            ten_reply_error(request, 400, "bad_request", "%s", error.message);
            return false;
        }
    }
    return true;
}

void ten_server_targets_forget(ten_request *request) {
    json_t *body = ten_body_parse(request);
    const char *after = json_string_value(json_object_get(body, "after"));
    bool all = json_is_true(json_object_get(body, "unregistered"));
    request->job.finish = finish_forget;
    request->job.work = all ? forget_unregistered : forget_named;
    if (all)
        snprintf(request->list.after, sizeof request->list.after, "%s", after ? after : "");
    if (body && (all || take_named(request, json_object_get(body, "ids")))) {
        const struct edits *named = request->storage;
        ten_request_log_admin(request, ten_request_sender(request), all ? "forget_unregistered" : "forget",
                              all ? NULL : named->edits[0].target.id, all ? 0 : named->count);
        ten_request_wait_for_listing(request);
    }
    json_decref(body);
}
