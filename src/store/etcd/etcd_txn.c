/*
 * See etcd_txn.h. Called by the other files of the etcd store.
 */
#include "store/etcd/etcd_txn.h"

#include <stdarg.h>
#include <string.h>

#include "base/encode.h"
#include "store/etcd/etcd_link.h"

/* ---- keys ------------------------------------------------------------------------------------------------ */

static const char *const kinds[TEN_KIND_COUNT] = {
    [TEN_KIND_NAMESPACE] = "namespace", [TEN_KIND_QUARANTINE] = "quarantine", [TEN_KIND_INSTANCE] = "node",
    [TEN_KIND_TARGET] = "target",       [TEN_KIND_LEASE] = "lease",           [TEN_KIND_CHECKPOINT] = "checkpoint"};

static ten_etcd_key make_key(const char *format, ...) TEN_PRINTF(1, 2);

static ten_etcd_key make_key(const char *format, ...) {
    ten_etcd_key key;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key.text, sizeof key.text, format, arguments);
    va_end(arguments);
    return key;
}

ten_etcd_key ten_etcd_place(const ten_etcd_dir *dir, enum ten_etcd_place place, const char *name) {
    static const char *const places[] = {"epoch",         "state/", "state/term", "state/wait", "state/newest",
                                         "state/trimmed", "feed/",  "mark/",      "named/"};
    return make_key("%s/%s/%s%s", dir->prefix, dir->namespace_name, places[place], name ? name : "");
}

ten_etcd_key ten_etcd_record_key(const ten_etcd_dir *dir, ten_key of) {
    return make_key("%s/%s/record/%s/%s", dir->prefix, dir->namespace_name, kinds[of.kind], of.id);
}

bool ten_etcd_has_life(enum ten_kind kind) {
    return kind == TEN_KIND_QUARANTINE || kind == TEN_KIND_INSTANCE || kind == TEN_KIND_LEASE;
}

ten_etcd_key ten_etcd_life_key(const ten_etcd_dir *dir, ten_key of) {
    return make_key("%s/%s/%s/%s", dir->prefix, dir->namespace_name, kinds[of.kind], of.id);
}

ten_etcd_key ten_etcd_namespace_key(const ten_etcd_dir *dir) {
    return make_key("%s/tenure/%s", dir->prefix, dir->namespace_name);
}

ten_etcd_key ten_etcd_top_key(const char *prefix, const char *name) {
    return make_key("%s/%s", prefix, name);
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

void ten_etcd_txn_clear(ten_etcd_txn *txn) {
    ten_etcd_list *lists[] = {&txn->compares, &txn->operations, &txn->otherwise};
    for (size_t i = 0; i < TEN_COUNT(lists); i++) {
        ten_buf_clear(&lists[i]->text);
        lists[i]->text.failed = false;
        lists[i]->count = 0;
    }
}

void ten_etcd_txn_free(ten_etcd_txn *txn) {
    ten_buf_free(&txn->compares.text);
    ten_buf_free(&txn->operations.text);
    ten_buf_free(&txn->otherwise.text);
    ten_buf_free(&txn->body);
}

size_t ten_etcd_txn_size(const ten_etcd_txn *txn) {
    return ten_max_u64(txn->compares.count, ten_max_u64(txn->operations.count, txn->otherwise.count));
}

/* A member of a JSON object, whose value is in base64. */
static void add_text(ten_buf *out, const char *name, const char *text) {
    ten_buf_text(out, name);
    ten_buf_text(out, ":\"");
    ten_base64_encode(out, text, strlen(text));
    ten_buf_char(out, '"');
}

static void add_number(ten_buf *out, const char *name, uint64_t number) {
    ten_buf_format(out, ",\"%s\":\"%llu\"", name, (unsigned long long)number);
}

/* An item of the list begins with this and a key. */
static ten_buf *begin(ten_etcd_list *list, const char *what, const char *key) {
    ten_buf_text(&list->text, list->count++ ? ",{" : "{");
    ten_buf_text(&list->text, what);
    add_text(&list->text, "\"key\"", key);
    return &list->text;
}

void ten_etcd_txn_compare(ten_etcd_txn *txn, const char *key, uint64_t revision) {
    ten_buf *out = begin(&txn->compares, "\"target\":\"MOD\",", key);
    add_number(out, "mod_revision", revision);
    ten_buf_char(out, '}');
}

void ten_etcd_txn_compare_exists(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(&txn->compares, "\"target\":\"VERSION\",", key);
    ten_buf_text(out, ",\"result\":\"GREATER\",\"version\":\"0\"}");
}

void ten_etcd_txn_compare_value(ten_etcd_txn *txn, const char *key, const char *value) {
    ten_buf *out = begin(&txn->compares, "\"target\":\"VALUE\",", key);
    add_text(out, ",\"value\"", value);
    ten_buf_char(out, '}');
}

void ten_etcd_txn_compare_lease(ten_etcd_txn *txn, const char *key, uint64_t lease) {
    ten_buf *out = begin(&txn->compares, "\"target\":\"LEASE\",", key);
    add_number(out, "lease", lease);
    ten_buf_char(out, '}');
}

void ten_etcd_txn_put(ten_etcd_txn *txn, const char *key, const char *value, uint64_t lease) {
    ten_buf *out = begin(&txn->operations, value ? "\"requestPut\":{" : "\"requestDeleteRange\":{", key);
    if (value)
        add_text(out, ",\"value\"", value);
    if (lease)
        add_number(out, "lease", lease);
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_put_mark(ten_etcd_txn *txn, const char *key, uint64_t lease) {
    ten_buf *out = begin(&txn->operations, "\"requestPut\":{", key);
    add_number(out, "lease", lease);
    ten_buf_text(out, ",\"prev_kv\":true}}");
}

void ten_etcd_txn_raise(ten_etcd_txn *txn, const char *key) {
    ten_buf *out =
        begin(&txn->operations, "\"requestTxn\":{\"compare\":[{\"target\":\"VERSION\",\"result\":\"GREATER\",", key);
    add_text(out, ",\"version\":\"0\"}],\"success\":[{\"requestPut\":{\"key\"", key);
    ten_buf_text(out, ",\"ignore_value\":true,\"ignore_lease\":true,\"prev_kv\":true}}]}}");
}

void ten_etcd_txn_delete_between(ten_etcd_txn *txn, const char *from, const char *to) {
    ten_buf *out = begin(&txn->operations, "\"requestDeleteRange\":{", from);
    add_text(out, ",\"range_end\"", to);
    ten_buf_text(out, "}}");
}

void ten_etcd_get(ten_etcd_list *list, const char *key) {
    ten_buf_text(begin(list, "\"requestRange\":{", key), "}}");
}

void ten_etcd_get_all(ten_etcd_list *list, const char *prefix_key, const struct ten_etcd_range *range) {
    ten_etcd_key next = make_key("%s\x01", range->after ? range->after : ""); /* keys have no NUL */
    ten_etcd_key end = make_key("%s", prefix_key);
    ten_buf *out = begin(list, "\"requestRange\":{", range->after ? next.text : range->from ? range->from : prefix_key);
    end.text[strlen(end.text) - 1]++; /* a slash: what follows it sorts behind everything below */
    add_text(out, ",\"range_end\"", end.text);
    if (range->limit)
        add_number(out, "limit", range->limit);
    if (range->created_since)
        add_number(out, "min_create_revision", range->created_since);
    if (range->by_creation)
        ten_buf_text(out, ",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"");
    ten_buf_text(out, "}}");
}

static void add_list(ten_buf *body, const char *name, const ten_etcd_list *list) {
    ten_buf_text(body, name);
    ten_buf_add(body, ten_buf_string(&list->text), list->text.size);
    body->failed |= list->text.failed;
}

const char *ten_etcd_txn_body(ten_etcd_txn *txn) {
    ten_buf *body = &txn->body;
    ten_buf_clear(body);
    body->failed = false;
    add_list(body, "{\"compare\":[", &txn->compares);
    add_list(body, "],\"success\":[", &txn->operations);
    add_list(body, "],\"failure\":[", &txn->otherwise);
    ten_buf_text(body, "]}");
    return body->failed ? NULL : body->data;
}

void ten_etcd_txn_add_part(ten_etcd_txn *txn, ten_etcd_txn *part) {
    const char *body = ten_etcd_txn_body(part);
    ten_buf *out = &txn->operations.text;
    ten_buf_text(out, txn->operations.count++ ? ",{\"requestTxn\":" : "{\"requestTxn\":");
    ten_buf_text(out, body ? body : "");
    ten_buf_char(out, '}');
    out->failed |= !body;
}

/* ---- answers ------------------------------------------------------------------------------------------------ */

static const json_t *response_of(const json_t *answer, size_t operation, const char *kind) {
    return json_object_get(json_array_get(json_object_get(answer, "responses"), operation), kind);
}

const json_t *ten_etcd_kvs(const json_t *answer, size_t operation) {
    return json_object_get(response_of(answer, operation, "response_range"), "kvs");
}

const json_t *ten_etcd_part(const json_t *answer, size_t operation) {
    return response_of(answer, operation, "response_txn");
}

uint64_t ten_etcd_written_before(const json_t *answer, size_t operation) {
    const json_t *put = response_of(answer, operation, "response_put");
    return ten_etcd_number(json_object_get(put, "prev_kv"), "mod_revision");
}

bool ten_etcd_succeeded(const json_t *answer) {
    return json_is_true(json_object_get(answer, "succeeded"));
}

bool ten_etcd_has_more(const json_t *answer, size_t operation) {
    return json_is_true(json_object_get(response_of(answer, operation, "response_range"), "more"));
}

uint64_t ten_etcd_count(const json_t *answer, size_t operation) {
    return ten_etcd_number(response_of(answer, operation, "response_range"), "count");
}

ten_etcd_kv ten_etcd_kv_read(const json_t *item, ten_buf *value) {
    ten_etcd_kv kv = {.revision = ten_etcd_number(item, "mod_revision"),
                      .created = ten_etcd_number(item, "create_revision"),
                      .lease = ten_etcd_number(item, "lease")};
    const char *text = json_string_value(json_object_get(item, "value"));
    bool good = text && ten_base64_decode(value, text);
    kv.value = good ? ten_buf_string(value) : "";
    return kv;
}

ten_etcd_kv ten_etcd_kv_at(const json_t *answer, size_t operation, ten_buf *value) {
    return ten_etcd_kv_read(json_array_get(ten_etcd_kvs(answer, operation), 0), value);
}

const char *ten_etcd_kv_key(const json_t *item, ten_buf *key) {
    const char *text = json_string_value(json_object_get(item, "key"));
    return text && ten_base64_decode(key, text) ? ten_buf_string(key) : "";
}
