/*
 * Listings, the registry and the feed over HTTP. Called through store.h.
 */
#include <string.h>

#include "base/duration.h"
#include "base/encode.h"
#include "base/json.h"
#include "store/http/http_state.h"

#define PAGE_MAX   10000u
#define EDITS_MAX  10000u
#define EDITS_SIZE ((size_t)512 * 1024) /* and one more */
#define QUERY_SIZE 4000u                /* of ids, and one more: servers and proxies take a request line of 8 KiB */
#define QUERY_IDS  100u                 /* parameters that a server takes */

static int not_a_list(ten_http_store *store) {
    return ten_fail(&store->base.error, TENURE_E_STORE,
                    "%s did not answer with the expected list; is it a Tenure server?", store->settings.base);
}

/* A request without a body, whose path is freed; the answer is a list, of *ret_count items. */
static int ask_list(ten_http_store *store, ten_buf *path, uint64_t deadline_ms, size_t *ret_count) {
    int r = path->failed ? ten_fail_memory(&store->base.error, "a request")
                         : ten_http_ask(store, "GET", path->data, NULL, deadline_ms);
    ten_buf_free(path);
    if (r == TENURE_OK && !json_is_array(store->answer))
        r = not_a_list(store);
    *ret_count = r == TENURE_OK ? json_array_size(store->answer) : 0;
    return r;
}

/* Sends store->out to a place of the namespace. */
static int post(ten_http_store *store, const char *namespace_name, const char *place, uint64_t deadline_ms) {
    char path[TENURE_NAMESPACE_MAX + 32];
    snprintf(path, sizeof path, "/api/v1/%s%s", namespace_name, place);
    return store->out.failed ? ten_fail_memory(&store->base.error, "a request")
                             : ten_http_ask(store, "POST", path, store->out.data, deadline_ms);
}

/* ---- the registry */

static void write_target(ten_buf *out, const tenure_target *target, bool whole) {
    char every[TEN_DURATION_SIZE];
    ten_json_open(out);
    ten_json_text(out, "id", target->id);
    if (whole && target->url)
        ten_json_text(out, "url", target->url);
    if (whole && target->exec)
        ten_json_text(out, "exec", target->exec);
    if (whole && target->every_ms) {
        snprintf(every, sizeof every, "%llums", (unsigned long long)target->every_ms);
        ten_json_text(out, "every", every);
    }
    if (whole && target->paused)
        ten_json_bool(out, "paused", true);
    if (whole && target->spec)
        ten_json_raw(out, "spec", target->spec);
    ten_json_close(out);
}

static void write_pin(ten_buf *out, const ten_pin *pin) {
    ten_buf_text(out, ",\"pin\":");
    ten_json_open(out);
    if (pin->instance) {
        ten_json_text(out, "instance", pin->instance);
        ten_json_bool(out, "away", pin->away);
        ten_json_number(out, "for_ms", pin->left_ms);
    }
    if (pin->reason)
        ten_json_text(out, "reason", pin->reason);
    if (pin->actor)
        ten_json_text(out, "actor", pin->actor);
    ten_json_close(out);
}

/* As many as fit into one request, at least one; how many they are. */
static size_t write_edits(ten_buf *out, const ten_target_edit *edits, size_t count) {
    size_t i = 0;
    ten_buf_clear(out);
    ten_buf_text(out, "{\"edits\":[");
    for (; i < count && i < EDITS_MAX && out->size < EDITS_SIZE; i++) {
        ten_buf_format(out, "%s{\"action\":\"%s\",\"target\":", i ? "," : "", ten_op_action_name(edits[i].action));
        write_target(out, &edits[i].target, edits[i].action == TEN_TARGET_PUT);
        if (edits[i].action == TEN_TARGET_PIN || edits[i].action == TEN_TARGET_UNPIN)
            write_pin(out, &edits[i].pin);
        ten_buf_char(out, '}');
    }
    ten_buf_text(out, "]}");
    return i;
}

/* All or none in one request; of more than fit into one, those of the first requests may be done when a later one
 * fails.
 */
int ten_http_edit_targets(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                          uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    int r = TENURE_OK;
    for (size_t at = 0, some; r == TENURE_OK && at < count; at += some) {
        some = write_edits(&store->out, edits + at, count - at);
        r = post(store, namespace_name, "", deadline_ms);
        if (r == TENURE_OK && json_array_size(store->answer) != some)
            return not_a_list(store);
        for (size_t i = 0; r == TENURE_OK && i < some; i++)
            edits[at + i].found = json_is_true(json_object_get(json_array_get(store->answer, i), "found"));
    }
    return r;
}

int ten_http_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    ten_buf_clear(&store->out);
    ten_buf_text(&store->out, "{\"ids\":[");
    for (size_t i = 0; i < count; i++)
        ten_buf_format(&store->out, "%s\"%s\"", i ? "," : "", items[i].id); /* an id needs no escape */
    ten_buf_text(&store->out, "]}");
    int r = post(store, namespace_name, "/forget", ten_now_ms() + timeout_ms);
    if (r == TENURE_OK && json_array_size(store->answer) != count)
        r = not_a_list(store);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        if (!ten_forget_parse(ten_http_text(json_array_get(store->answer, i), "outcome"), &items[i].outcome))
            r = not_a_list(store);
    return r;
}

/* The server looks at as many as its time-out allows. */
int ten_http_forget_unregistered(ten_store *base, const char *namespace_name, char after[TENURE_TARGET_MAX + 1],
                                 size_t *ret_forgotten, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    ten_buf_clear(&store->out);
    ten_json_open(&store->out);
    ten_json_bool(&store->out, "unregistered", true);
    ten_json_text(&store->out, "after", after[0] ? after : NULL);
    ten_json_close(&store->out);
    int r = post(store, namespace_name, "/forget", ten_now_ms() + timeout_ms);
    if (r < 0)
        return r;
    const char *next = ten_http_text(store->answer, "after");
    snprintf(after, TENURE_TARGET_MAX + 1, "%s", next ? next : "");
    *ret_forgotten = ten_http_number(store->answer, "forgotten");
    return TENURE_OK;
}

/* ---- listings */

static ten_pin read_pin(const json_t *pin) {
    return (ten_pin){.instance = ten_http_text(pin, "instance"),
                     .away = json_is_true(json_object_get(pin, "away")),
                     .left_ms = ten_http_number(pin, "remaining_ms"),
                     .until_ms = ten_http_number(pin, "until_ms"),
                     .actor = ten_http_text(pin, "actor"),
                     .reason = ten_http_text(pin, "reason")};
}

static int hand_out_row(const json_t *item, ten_row_fn each, void *userdata) {
    json_t *spec = json_object_get(item, "spec");
    char *spec_text = spec ? json_dumps(spec, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    ten_row row = {.target = {.id = ten_http_text(item, "id"),
                              .url = ten_http_text(item, "url"),
                              .exec = ten_http_text(item, "exec"),
                              .spec = spec_text,
                              .every_ms = ten_http_number(item, "every_ms"),
                              .paused = json_is_true(json_object_get(item, "paused"))},
                   .pin = read_pin(json_object_get(item, "pin")),
                   .registered = json_is_true(json_object_get(item, "registered")),
                   .barred = json_is_true(json_object_get(item, "barred")),
                   .holder = ten_http_text(item, "holder_id"),
                   .token = ten_http_number(item, "version"),
                   .ttl_ms = ten_http_number(item, "ttl_ms"),
                   .remaining_ms = ten_http_number(item, "remaining_ms"),
                   .acquired_at_ms = ten_http_number(item, "acquired_at_ms")};
    int stopped = row.target.id ? each(&row, userdata) : TENURE_E_STORE;
    free(spec_text);
    return stopped;
}

/* One answer of the server's; *ret_count: how many rows came. The path is freed. */
static int take_rows(ten_http_store *store, ten_buf *path, ten_row_fn each, void *userdata, uint64_t deadline_ms,
                     size_t *ret_count, char last[TENURE_TARGET_MAX + 1]) {
    int r = ask_list(store, path, deadline_ms, ret_count);
    for (size_t i = 0; r == TENURE_OK && i < *ret_count; i++) {
        const json_t *item = json_array_get(store->answer, i);
        const char *id = ten_http_text(item, "id");
        snprintf(last, TENURE_TARGET_MAX + 1, "%s", id ? id : "");
        r = hand_out_row(item, each, userdata);
    }
    return r;
}

static void add_id(ten_buf *path, const char *parameter, const char *id) {
    ten_buf_text(path, parameter);
    ten_percent_encode_only(path, id, "/+%&#?@:~");
}

/* One page, up to `limit` rows. */
static int list_page(ten_http_store *store, const ten_query *query, const char *after, size_t limit, ten_row_fn each,
                     void *userdata, uint64_t deadline_ms, size_t *ret_count, char last[TENURE_TARGET_MAX + 1]) {
    static const char *const filters[] = {"", "&leased=true", "&leased=false", "&registered=true"};
    ten_buf path = {0};
    ten_buf_format(&path, "/api/v1/%s?limit=%zu%s%s", query->namespace_name, limit, filters[query->filter],
                   query->current ? "&current=true" : "");
    if (after[0])
        add_id(&path, "&after=", after);
    return take_rows(store, &path, each, userdata, deadline_ms, ret_count, last);
}

int ten_http_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    char last[TENURE_TARGET_MAX + 1];
    size_t left = query->limit;
    int r = TENURE_OK;
    ten_http_begin(store);
    snprintf(last, sizeof last, "%s", query->after ? query->after : "");
    while (r == TENURE_OK && left > 0) {
        size_t wanted = ten_min_u64(left, PAGE_MAX);
        size_t count = 0;
        char after[TENURE_TARGET_MAX + 1];
        memcpy(after, last, sizeof after);
        r = list_page(store, query, after, wanted, each, userdata, deadline_ms, &count, last);
        left -= ten_min_u64(count, left);
        if (!store->more || count == 0)
            break;
    }
    return r;
}

/* As many ids as fit into one request, at least one; how many they are. */
static size_t write_ids(ten_buf *path, const char *namespace_name, const char *const *ids, size_t count) {
    size_t i = 0;
    ten_buf_format(path, "/api/v1/%s", namespace_name);
    for (; i < count && i < QUERY_IDS && path->size < QUERY_SIZE && !path->failed; i++)
        add_id(path, i ? "&id=" : "?id=", ids[i]);
    return i;
}

/* The ids that were asked for; the rows come in their order. */
struct asked {
    ten_http_store *store;
    const char *const *ids;
    size_t count;
    size_t at; /* behind the last row */
    ten_row_fn each;
    void *userdata;
};

static int take_asked(const ten_row *row, void *userdata) {
    struct asked *asked = userdata;
    while (asked->at < asked->count && strcmp(asked->ids[asked->at], row->target.id) != 0)
        asked->at++;
    if (asked->at == asked->count)
        return not_a_list(asked->store);
    asked->at++;
    return asked->each(row, asked->userdata);
}

int ten_http_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                          ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    int r = TENURE_OK;
    ten_http_begin(store);
    for (size_t at = 0; r == TENURE_OK && at < count;) {
        ten_buf path = {0};
        char last[TENURE_TARGET_MAX + 1];
        size_t rows = 0;
        struct asked asked = {.store = store, .ids = ids + at, .each = each, .userdata = userdata};
        asked.count = write_ids(&path, namespace_name, ids + at, count - at);
        r = take_rows(store, &path, take_asked, &asked, deadline_ms, &rows, last);
        at += store->more && asked.at > 0 ? asked.at : asked.count; /* an answer that is too large is cut short */
    }
    return r;
}

/* `after` becomes the last one of the page; "": there was none. */
static int list_instance_page(ten_http_store *store, const char *namespace_name, char after[TENURE_HOLDER_MAX + 1],
                              ten_instance_fn each, void *userdata, uint64_t deadline_ms) {
    ten_buf path = {0};
    ten_buf_format(&path, "/api/v1/%s/nodes?shares=false", namespace_name);
    if (after[0])
        add_id(&path, "&after=", after);
    after[0] = '\0';
    size_t count;
    int r = ask_list(store, &path, deadline_ms, &count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        const json_t *item = json_array_get(store->answer, i);
        ten_instance instance = {.instance = ten_http_text(item, "instance"),
                                 .weight = (uint32_t)ten_http_number(item, "weight"),
                                 .metadata = ten_http_text(item, "metadata"),
                                 .ttl_ms = ten_http_number(item, "ttl_ms"),
                                 .remaining_ms = ten_http_number(item, "remaining_ms"),
                                 .since_ms = ten_http_number(item, "since_ms"),
                                 .ask = (enum ten_ask)ten_http_number(item, "ask"),
                                 .has_session = json_is_true(json_object_get(item, "session"))};
        r = instance.instance ? each(&instance, userdata) : not_a_list(store);
        snprintf(after, TENURE_HOLDER_MAX + 1, "%s", instance.instance ? instance.instance : "");
    }
    return r;
}

int ten_http_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                            uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    uint64_t deadline_ms = ten_now_ms() + timeout_ms;
    char after[TENURE_HOLDER_MAX + 1] = "";
    int r;
    ten_http_begin(store);
    do
        r = list_instance_page(store, namespace_name, after, each, userdata, deadline_ms);
    while (r == TENURE_OK && store->more && after[0]);
    return r;
}

int ten_http_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    ten_buf path = {0};
    size_t count;
    ten_http_begin(store);
    ten_buf_text(&path, "/api/v1");
    int r = ask_list(store, &path, ten_now_ms() + timeout_ms, &count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        const char *name = json_string_value(json_array_get(store->answer, i));
        r = name ? each(name, userdata) : not_a_list(store);
    }
    return r;
}

/* ---- the feed */

/* The texts are the JSON's. False: it is not a change that this version knows. */
static bool read_change(const json_t *item, const char *namespace_name, ten_change *change) {
    *change = (ten_change){.cursor = ten_http_number(item, "cursor"),
                           .at_ms = ten_http_number(item, "at_ms"),
                           .kind = (enum tenure_event_kind)ten_event_parse(ten_http_text(item, "event")),
                           .reason = ten_reason_parse(ten_http_text(item, "reason")),
                           .namespace_name = namespace_name,
                           .target = ten_http_text(item, "target"),
                           .instance = ten_http_text(item, "instance"),
                           .actor = ten_http_text(item, "actor"),
                           .token = ten_http_number(item, "token")};
    return (int)change->kind != TEN_EVENT_COUNT && change->target && change->instance && change->actor;
}

int ten_http_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit, ten_change_fn each,
                     void *userdata, uint64_t timeout_ms) {
    ten_http_store *store = (ten_http_store *)base;
    char path[TENURE_NAMESPACE_MAX + 96];
    char after[24] = "now";
    if (*cursor == TEN_CURSOR_OLDEST)
        snprintf(after, sizeof after, "oldest");
    else if (*cursor != TEN_CURSOR_NOW)
        snprintf(after, sizeof after, "%llu", (unsigned long long)*cursor);
    snprintf(path, sizeof path, "/api/v1/%s/history?limit=%zu&after=%s", namespace_name,
             (size_t)ten_min_u64(limit, PAGE_MAX), after);
    ten_http_begin(store);
    int r = ten_http_ask(store, "GET", path, NULL, ten_now_ms() + timeout_ms);
    if (r < 0)
        return r;
    if (!json_is_array(store->answer) || store->cursor[0] == '\0')
        return not_a_list(store);
    bool resync = strstr(store->cursor, "resync") != NULL;
    uint64_t to = strtoull(store->cursor, NULL, 10);
    bool epoch = resync && json_array_size(store->answer) > 0;
    size_t count = resync ? 0 : json_array_size(store->answer);
    for (size_t i = 0; i < count; i++) {
        ten_change change;
        /* What a newer server tells and this does not know is passed over. */
        bool known = read_change(json_array_get(store->answer, i), namespace_name, &change);
        int stopped = known ? each(&change, userdata) : 0;
        if (stopped) {
            *cursor = change.cursor;
            return stopped;
        }
    }
    *cursor = to;
    return resync ? ten_store_missed(base, namespace_name, to, epoch, each, userdata) : TENURE_OK;
}
