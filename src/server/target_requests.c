/*
 * Requests about targets: listing, registering, removing, pinning, forgetting.
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
#include "server/server_state.h"
#include "store/common/json_value.h"

/* ---- listing */

/* A page of targets, or certain ones. */
struct listing {
    enum tenure_filter filter;
    bool current; /* without what is free and not registered */
    const char *after;
    size_t limit;
    const char **ids; /* certain ones; NULL: a page */
    size_t id_count;
    /* What was written. */
    uint64_t now_ms; /* Unix time, for when leases end */
    size_t count;
    bool cut; /* it became too large before its end */
    char last[TENURE_TARGET_MAX + 1];
};

static void free_listing(void *own) {
    ten_free(((struct listing *)own)->ids);
}

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
    struct listing *listing = request->own;
    ten_buf *reply = &request->reply;
    ten_json_item(reply, listing->count++);
    ten_json_text(reply, "id", row->target.id);
    if (strcmp(request->route.namespace_name, "scenes") == 0)
        ten_json_text(reply, "scene_id", row->target.id);
    ten_json_text(reply, "holder_id", row->holder);
    ten_json_number(reply, "version", row->token);
    ten_json_time(reply, "expires_at", row->holder ? listing->now_ms + row->remaining_ms : 0);
    ten_json_bool(reply, "paused", row->target.paused);
    ten_json_bool(reply, "registered", row->registered);
    if (row->holder) {
        ten_json_number(reply, "remaining_ms", row->remaining_ms);
        ten_json_number(reply, "ttl_ms", row->ttl_ms);
        ten_json_time(reply, "acquired_at", row->acquired_at_ms);
        ten_json_number(reply, "acquired_at_ms", row->acquired_at_ms);
        ten_json_flag(reply, "barred", row->barred);
    }
    if (row->target.url)
        ten_json_text(reply, "url", row->target.url);
    if (row->target.exec)
        ten_json_text(reply, "exec", row->target.exec);
    ten_json_some(reply, "every_ms", row->target.every_ms);
    if (row->target.spec)
        ten_json_value(reply, "spec", row->target.spec);
    if (row->pin.instance)
        write_pin(reply, &row->pin);
    ten_json_close(reply);
    snprintf(listing->last, sizeof listing->last, "%s", row->target.id);
    listing->cut = reply->size > TEN_PAGE_SIZE;
    return listing->cut ? 1 : 0;
}

static int list_targets(ten_request *request, ten_store *store) {
    struct listing *listing = request->own;
    const char *where = request->route.namespace_name;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    ten_query query = {.namespace_name = where,
                       .filter = listing->filter,
                       .after = listing->after,
                       .limit = listing->limit,
                       .current = listing->current};
    listing->now_ms = ten_wall_ms(&ten_system_clock);
    ten_buf_char(&request->reply, '[');
    int r = listing->ids ? store->ops->read_targets(store, where, listing->ids, listing->id_count, write_row, request,
                                                    timeout_ms)
                         : store->ops->list(store, &query, write_row, request, timeout_ms);
    ten_buf_text(&request->reply, "]\n");
    return listing->cut ? TENURE_OK : r;
}

static void answer_page(ten_request *request) {
    const struct listing *listing = request->own;
    const char *filter = listing->filter == TENURE_LEASED       ? "&leased=true"
                         : listing->filter == TENURE_FREE       ? "&leased=false"
                         : listing->filter == TENURE_REGISTERED ? "&registered=true"
                                                                : "";
    char query[64];
    request->in_use = listing->count > 0;
    snprintf(query, sizeof query, "?limit=%zu%s%s&after=", listing->limit, listing->current ? "&current=true" : "",
             filter);
    if (listing->count >= listing->limit || listing->cut)
        ten_reply_next(request, query, listing->last);
}

/* An answer that became too large ends early: Link names the first id that it does not cover. */
static void answer_certain(ten_request *request) {
    const struct listing *listing = request->own;
    size_t at = 0;
    request->in_use = listing->count > 0;
    while (at < listing->id_count && strcmp(listing->ids[at], listing->last) != 0)
        at++;
    if (listing->cut && at + 1 < listing->id_count)
        ten_reply_next(request, "?id=", listing->ids[at + 1]);
}

/* ---- certain targets */

struct arguments {
    ten_request *request;
    size_t ids;
    size_t others;
    bool good; /* has not been answered */
};

static enum MHD_Result count_argument(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct arguments *arguments = userdata;
    (void)kind;
    (void)value;
    *(strcmp(name, "id") == 0 ? &arguments->ids : &arguments->others) += 1;
    return MHD_YES;
}

/* Decoded where it is, as by ten_request_argument(). */
static enum MHD_Result take_id(void *userdata, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct arguments *arguments = userdata;
    struct listing *listing = arguments->request->own;
    ten_error error = {0};
    union {
        const char *given;
        char *ours;
    } id = {value};
    (void)kind;
    (void)name; /* all are ids */
    int r = !value || ten_percent_decode(id.ours, true)
                ? ten_id_check_target(value ? value : "", &error)
                : ten_fail(&error, TENURE_E_INVALID, "id is not percent-encoded text");
    arguments->good = r == TENURE_OK || ten_reply_wrong(arguments->request, "%s", error.message);
    if (arguments->good)
        listing->ids[listing->id_count++] = value;
    return arguments->good ? MHD_YES : MHD_NO;
}

static bool get_certain(ten_request *request, struct arguments *arguments) {
    struct listing *listing = request->own;
    if (arguments->others > 0)
        return ten_reply_wrong(request, "id cannot be combined with other parameters");
    listing->ids = ten_calloc(arguments->ids, sizeof *listing->ids);
    if (!listing->ids)
        return ten_reply_no_memory(request);
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_id, arguments);
    return arguments->good && ten_request_work(request, TEN_READING, list_targets, answer_certain);
}

bool ten_server_targets_get(ten_request *request) {
    struct arguments arguments = {.request = request, .good = true};
    struct listing *listing = ten_request_own(request, sizeof *listing, free_listing);
    ten_fields fields = {.limit = 1000};
    if (!listing)
        return false;
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, count_argument, &arguments);
    if (arguments.ids > 0)
        return get_certain(request, &arguments);
    if (!ten_fields_take(request, &fields))
        return false;
    listing->filter = fields.registered == TEN_YES  ? TENURE_REGISTERED
                      : fields.leased == TEN_UNSAID ? TENURE_ALL
                      : fields.leased == TEN_YES    ? TENURE_LEASED
                                                    : TENURE_FREE;
    listing->current = fields.current == TEN_YES;
    listing->after = fields.after;
    listing->limit = fields.limit;
    return ten_request_work(request, TEN_LISTING, list_targets, answer_page);
}

/* ---- editing */

struct edits {
    size_t count;
    ten_target_edit *edits;
    ten_target_line **lines; /* what the edits point into, beside the body */
    ten_arena actors;        /* the same */
};

static void free_edits(void *own) {
    struct edits *edits = own;
    for (size_t i = 0; edits->lines && i < edits->count; i++)
        if (edits->lines[i])
            ten_target_file_line_free(edits->lines[i]);
    ten_arena_free(&edits->actors);
    ten_free(edits->lines);
    ten_free(edits->edits);
}

static struct edits *own_edits(ten_request *request, size_t count) {
    struct edits *edits = ten_request_own(request, sizeof *edits, free_edits);
    if (!edits)
        return NULL;
    edits->count = count;
    edits->edits = ten_calloc(count, sizeof *edits->edits);
    edits->lines = ten_calloc(count, sizeof *edits->lines);
    if (edits->edits && edits->lines)
        return edits;
    ten_reply_no_memory(request);
    return NULL;
}

static int edit_targets(ten_request *request, ten_store *store) {
    struct edits *edits = request->own;
    return store->ops->edit_targets(store, request->route.namespace_name, edits->edits, edits->count,
                                    request->server->config->timeout_ms);
}

/* In the name of the principal; pins have an actor already. */
static bool edit_all(ten_request *request, void (*answer)(ten_request *request)) {
    struct edits *edits = request->own;
    const ten_target_edit *first = &edits->edits[0];
    for (size_t i = 0; request->server->has_auth && i < edits->count; i++)
        if (!edits->edits[i].pin.actor)
            edits->edits[i].pin.actor = request->principal.name;
    ten_request_log_admin(request, first->pin.actor ? first->pin.actor : ten_request_sender(request),
                          ten_op_action_name(first->action), first->target.id, edits->count);
    return ten_request_work(request, TEN_LISTING, edit_targets, answer);
}

/* A line of a target file as an object. */
static bool take_target(ten_request *request, const json_t *object, size_t at) {
    struct edits *edits = request->own;
    ten_error error = {0};
    char *line = json_dumps(object, JSON_COMPACT);
    int r = line ? ten_target_file_line_parse(line, &edits->edits[at].target, &edits->lines[at], &error)
                 : ten_fail(&error, TENURE_E_INVALID, "the body cannot be used");
    free(line);
    if (r == TENURE_OK && ten_route_is_reserved(edits->edits[at].target.id))
        r = ten_fail(&error, TENURE_E_INVALID, "id: nodes, leases, events and history are words of this API");
    return r == TENURE_OK || ten_reply_wrong(request, "%s", error.message);
}

/* `actor`: who asked for it, as the client says. The principal, if there is one, is named in any case. */
static bool take_pin(ten_request *request, const ten_fields *fields, ten_target_edit *edit) {
    struct edits *edits = request->own;
    char actor[TENURE_HOLDER_MAX + 1];
    ten_request_name_actor(request, fields->actor ? fields->actor : ten_request_sender(request), actor);
    edit->pin = (ten_pin){.instance = fields->instance,
                          .away = fields->away == TEN_YES,
                          .left_ms = fields->for_ms,
                          .reason = fields->reason,
                          .actor = ten_arena_text(&edits->actors, actor)};
    if (!edit->pin.actor)
        ten_reply_no_memory(request);
    return edit->pin.actor != NULL;
}

static void answer_edit(ten_request *request) {
    const ten_target_edit *edit = ((struct edits *)request->own)->edits;
    if (edit->action != TEN_TARGET_PUT && !edit->found) {
        ten_reply_unknown_target(request);
    } else if (edit->action != TEN_TARGET_PUT) {
        ten_reply_status(request, 204);
    } else {
        ten_json_text(ten_reply_open(request, edit->found ? 200 : 201), "id", request->route.id);
        ten_reply_close(request);
    }
}

/* The body is a line of a target file, without its id or with the same one. */
bool ten_server_target_put(ten_request *request) {
    if (!ten_body_parse(request) || !own_edits(request, 1))
        return false;
    const char *id = json_string_value(json_object_get(request->json, "id"));
    if (id && strcmp(id, request->route.id) != 0)
        return ten_reply_wrong(request, "the id in the body must be the one in the path");
    if (json_object_set_new(request->json, "id", json_string(request->route.id)) != 0)
        return ten_reply_no_memory(request);
    return take_target(request, request->json, 0) && edit_all(request, answer_edit);
}

/* An edit of the target of the path that needs no registration. */
static bool edit_one(ten_request *request, enum ten_target_action action) {
    ten_fields fields = {.for_ms = TENURE_PIN_DEFAULT_MS};
    struct edits *edits = own_edits(request, 1);
    if (!edits)
        return false;
    edits->edits[0] = (ten_target_edit){.action = action, .target = {.id = request->route.id}};
    return (action == TEN_TARGET_REMOVE ||
            (ten_fields_take(request, &fields) && take_pin(request, &fields, &edits->edits[0]))) &&
           edit_all(request, answer_edit);
}

bool ten_server_target_delete(ten_request *request) {
    return edit_one(request, TEN_TARGET_REMOVE);
}

bool ten_server_pin_put(ten_request *request) {
    return edit_one(request, TEN_TARGET_PIN);
}

bool ten_server_pin_delete(ten_request *request) {
    return edit_one(request, TEN_TARGET_UNPIN);
}

/* ---- many of them */

static void answer_edits(ten_request *request) {
    const struct edits *edits = request->own;
    ten_buf_char(&request->reply, '[');
    for (size_t i = 0; i < edits->count; i++) {
        ten_json_item(&request->reply, i);
        ten_json_text(&request->reply, "id", edits->edits[i].target.id);
        ten_json_bool(&request->reply, "found", edits->edits[i].found);
        ten_json_close(&request->reply);
    }
    ten_buf_text(&request->reply, "]\n");
}

static bool take_edit(ten_request *request, ten_items *items) {
    struct edits *edits = request->own;
    ten_target_edit *edit = &edits->edits[items->at];
    ten_fields fields = {0};
    ten_fields pin = {.for_ms = TENURE_PIN_DEFAULT_MS};
    size_t at = items->at;
    if (!ten_fields_next(request, items, TEN_IN_EDIT, &fields) || !ten_fields_check(request, TEN_IN_EDIT, &fields) ||
        !take_target(request, fields.target, at))
        return false;
    if (!ten_op_action_parse(fields.action, &edit->action))
        return ten_reply_wrong(request, "action must be put, remove, pause, resume, pin or unpin");
    if (edit->action != TEN_TARGET_PIN && edit->action != TEN_TARGET_UNPIN)
        return true;
    enum ten_place place = edit->action == TEN_TARGET_PIN ? TEN_IN_PINNING : TEN_IN_UNPINNING;
    return ten_fields_read(request, fields.pin, place, &pin) && ten_fields_check(request, place, &pin) &&
           take_pin(request, &pin, edit);
}

bool ten_server_targets_edit(ten_request *request) {
    ten_fields fields = {0};
    if (!ten_fields_take(request, &fields) || !own_edits(request, fields.edits.count))
        return false;
    while (fields.edits.at < fields.edits.count)
        if (!take_edit(request, &fields.edits))
            return false;
    return edit_all(request, answer_edits);
}

/* ---- forgetting */

struct forgetting {
    size_t count; /* 0: all that are not registered */
    ten_forget *items;
    char after[TENURE_TARGET_MAX + 1];
};

static void free_forgetting(void *own) {
    ten_free(((struct forgetting *)own)->items);
}

static int forget_named(ten_request *request, ten_store *store) {
    const struct forgetting *named = request->own;
    ten_buf *reply = &request->reply;
    int r = ten_store_forget(store, request->route.namespace_name, named->items, named->count,
                             request->server->config->timeout_ms);
    ten_buf_char(reply, '[');
    for (size_t i = 0; r == TENURE_OK && i < named->count; i++) {
        ten_json_item(reply, i);
        ten_json_text(reply, "id", named->items[i].id);
        ten_json_text(reply, "outcome", ten_forget_name(named->items[i].outcome));
        ten_json_close(reply);
    }
    ten_buf_text(reply, "]\n");
    return r;
}

/* As many as half of the time-out allows; the client asks again for the rest. */
static int forget_unregistered(ten_request *request, ten_store *store) {
    struct forgetting *all = request->own;
    uint64_t timeout_ms = request->server->config->timeout_ms;
    uint64_t enough_ms = ten_now_ms() + timeout_ms / 2;
    uint64_t forgotten = 0;
    int r;
    do {
        size_t some = 0;
        r = ten_store_forget_unregistered(store, request->route.namespace_name, all->after, &some, timeout_ms / 2);
        forgotten += some;
    } while (r == TENURE_OK && all->after[0] && ten_now_ms() < enough_ms);
    ten_buf *reply = ten_reply_open(request, 200);
    ten_json_number(reply, "forgotten", forgotten);
    ten_json_text(reply, "after", all->after[0] ? all->after : NULL);
    ten_reply_close(request);
    return r;
}

static bool take_ids(ten_request *request, const ten_items *ids) {
    struct forgetting *named = request->own;
    named->count = ids->count;
    named->items = ten_calloc(ids->count, sizeof *named->items);
    if (!named->items)
        return ten_reply_no_memory(request);
    for (size_t i = 0; i < ids->count; i++) {
        ten_error error = {0};
        const json_t *item = json_array_get(ids->array, i);
        named->items[i].id = json_string_value(item);
        if (!named->items[i].id || strlen(named->items[i].id) != json_string_length(item))
            return ten_reply_wrong(request, "ids must be strings without a NUL");
        if (ten_id_check_target(named->items[i].id, &error) < 0)
            return ten_reply_wrong(request, "%s", error.message);
    }
    return true;
}

bool ten_server_targets_forget(ten_request *request) {
    struct forgetting *forgetting = ten_request_own(request, sizeof *forgetting, free_forgetting);
    ten_fields fields = {0};
    if (!forgetting || !ten_fields_take(request, &fields))
        return false;
    bool all = fields.unregistered == TEN_YES;
    if (!all && fields.ids.count == 0)
        return ten_reply_wrong(request, "the body must have ids, an array of 1 to 10000 ids, or \"unregistered\":true");
    if (all)
        snprintf(forgetting->after, sizeof forgetting->after, "%s", fields.after ? fields.after : "");
    else if (!take_ids(request, &fields.ids))
        return false;
    ten_request_log_admin(request, ten_request_sender(request), all ? "forget_unregistered" : "forget",
                          all ? NULL : forgetting->items[0].id, forgetting->count);
    return ten_request_work(request, TEN_LISTING, all ? forget_unregistered : forget_named, NULL);
}
