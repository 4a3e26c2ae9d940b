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
    static const char *const places[] = {"epoch",        "state/",        "state/term", "state/wait",
                                         "state/newest", "state/trimmed", "feed/",      "mark/"};
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

ten_etcd_key ten_etcd_name_key(const ten_etcd_dir *dir, const char *id) {
    return make_key("%s/%s/named/%s", dir->prefix, dir->namespace_name, id);
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

void ten_etcd_txn_clear(ten_etcd_txn *txn) {
    ten_buf_clear(&txn->compares);
    ten_buf_clear(&txn->operations);
    ten_buf_clear(&txn->otherwise);
    txn->compares.failed = txn->operations.failed = txn->otherwise.failed = false;
    txn->compare_count = txn->operation_count = txn->otherwise_count = 0;
}

void ten_etcd_txn_free(ten_etcd_txn *txn) {
    ten_buf_free(&txn->compares);
    ten_buf_free(&txn->operations);
    ten_buf_free(&txn->otherwise);
    ten_buf_free(&txn->body);
}

size_t ten_etcd_txn_size(const ten_etcd_txn *txn) {
    return ten_max_u64(txn->compare_count, ten_max_u64(txn->operation_count, txn->otherwise_count));
}

static void add_base64(ten_buf *out, const char *name, const char *data, size_t size) {
    ten_buf_format(out, "\"%s\":\"", name);
    ten_base64_encode(out, data, size);
    ten_buf_char(out, '"');
}

static void add_number(ten_buf *out, const char *name, uint64_t number) {
    ten_buf_format(out, ",\"%s\":\"%llu\"", name, (unsigned long long)number);
}

static ten_buf *begin_compare(ten_etcd_txn *txn, const char *key, const char *target) {
    ten_buf *out = &txn->compares;
    ten_buf_format(out, "%s{\"target\":\"%s\",", txn->compare_count++ ? "," : "", target);
    add_base64(out, "key", key, strlen(key));
    return out;
}

void ten_etcd_txn_compare(ten_etcd_txn *txn, const char *key, uint64_t revision) {
    ten_buf *out = begin_compare(txn, key, "MOD");
    add_number(out, "mod_revision", revision);
    ten_buf_char(out, '}');
}

void ten_etcd_txn_compare_exists(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin_compare(txn, key, "VERSION");
    ten_buf_text(out, ",\"result\":\"GREATER\",\"version\":\"0\"}");
}

void ten_etcd_txn_compare_value(ten_etcd_txn *txn, const char *key, const char *value) {
    ten_buf *out = begin_compare(txn, key, "VALUE");
    ten_buf_char(out, ',');
    add_base64(out, "value", value, strlen(value));
    ten_buf_char(out, '}');
}

void ten_etcd_txn_compare_lease(ten_etcd_txn *txn, const char *key, uint64_t lease) {
    ten_buf *out = begin_compare(txn, key, "LEASE");
    add_number(out, "lease", lease);
    ten_buf_char(out, '}');
}

static ten_buf *begin(ten_etcd_txn *txn, const char *what) {
    ten_buf_format(&txn->operations, "%s{\"%s\":{", txn->operation_count++ ? "," : "", what);
    return &txn->operations;
}

static void add_key(ten_buf *out, const char *key) {
    add_base64(out, "key", key, strlen(key));
}

void ten_etcd_txn_put(ten_etcd_txn *txn, const char *key, const char *value, uint64_t lease) {
    ten_buf *out = begin(txn, "requestPut");
    add_key(out, key);
    ten_buf_char(out, ',');
    add_base64(out, "value", value, strlen(value));
    if (lease)
        add_number(out, "lease", lease);
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_put_mark(ten_etcd_txn *txn, const char *key, uint64_t lease) {
    ten_buf *out = begin(txn, "requestPut");
    add_key(out, key);
    add_number(out, "lease", lease);
    ten_buf_text(out, ",\"prev_kv\":true}}");
}

void ten_etcd_txn_raise(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestTxn");
    ten_buf_text(out, "\"compare\":[{\"target\":\"VERSION\",\"result\":\"GREATER\",");
    add_key(out, key);
    ten_buf_text(out, ",\"version\":\"0\"}],\"success\":[{\"requestPut\":{");
    add_key(out, key);
    ten_buf_text(out, ",\"ignore_value\":true,\"ignore_lease\":true,\"prev_kv\":true}}]}}");
}

void ten_etcd_txn_delete(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestDeleteRange");
    add_key(out, key);
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_put_or_delete(ten_etcd_txn *txn, const char *key, const char *value) {
    if (value)
        ten_etcd_txn_put(txn, key, value, 0);
    else
        ten_etcd_txn_delete(txn, key);
}

void ten_etcd_txn_delete_between(ten_etcd_txn *txn, const char *from, const char *to) {
    ten_buf *out = begin(txn, "requestDeleteRange");
    add_key(out, from);
    ten_buf_char(out, ',');
    add_base64(out, "range_end", to, strlen(to));
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_get(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestRange");
    add_key(out, key);
    ten_buf_text(out, "}}");
}

static ten_buf *begin_otherwise(ten_etcd_txn *txn, const char *key) {
    ten_buf_text(&txn->otherwise, txn->otherwise_count++ ? ",{\"requestRange\":{" : "{\"requestRange\":{");
    add_key(&txn->otherwise, key);
    return &txn->otherwise;
}

void ten_etcd_txn_get_otherwise(ten_etcd_txn *txn, const char *key) {
    ten_buf_text(begin_otherwise(txn, key), "}}");
}

/* The last byte is a slash: what follows it sorts behind everything below. */
static void add_end(ten_buf *out, const char *prefix_key) {
    ten_etcd_key end = make_key("%s", prefix_key);
    end.text[strlen(end.text) - 1]++;
    ten_buf_char(out, ',');
    add_base64(out, "range_end", end.text, strlen(end.text));
}

void ten_etcd_txn_get_all_otherwise(ten_etcd_txn *txn, const char *prefix_key) {
    ten_buf *out = begin_otherwise(txn, prefix_key);
    add_end(out, prefix_key);
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_get_all(ten_etcd_txn *txn, const char *prefix_key, const struct ten_etcd_range *range) {
    ten_buf *out = begin(txn, "requestRange");
    if (range->after)
        add_base64(out, "key", range->after, strlen(range->after) + 1); /* with its NUL: the next possible key */
    else
        add_key(out, range->from ? range->from : prefix_key);
    add_end(out, prefix_key);
    if (range->limit)
        add_number(out, "limit", range->limit);
    if (range->created_since)
        add_number(out, "min_create_revision", range->created_since);
    if (range->by_creation)
        ten_buf_text(out, ",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"");
    ten_buf_text(out, "}}");
}

const char *ten_etcd_txn_body(ten_etcd_txn *txn) {
    ten_buf *body = &txn->body;
    ten_buf_clear(body);
    body->failed = txn->compares.failed || txn->operations.failed || txn->otherwise.failed;
    ten_buf_text(body, "{\"compare\":[");
    ten_buf_add(body, ten_buf_string(&txn->compares), txn->compares.size);
    ten_buf_text(body, "],\"success\":[");
    ten_buf_add(body, ten_buf_string(&txn->operations), txn->operations.size);
    ten_buf_text(body, "],\"failure\":[");
    ten_buf_add(body, ten_buf_string(&txn->otherwise), txn->otherwise.size);
    ten_buf_text(body, "]}");
    return body->failed ? NULL : body->data;
}

void ten_etcd_txn_add_part(ten_etcd_txn *txn, ten_etcd_txn *part) {
    const char *body = ten_etcd_txn_body(part);
    ten_buf_text(&txn->operations, txn->operation_count++ ? ",{\"requestTxn\":" : "{\"requestTxn\":");
    ten_buf_text(&txn->operations, body ? body : "");
    ten_buf_char(&txn->operations, '}');
    txn->operations.failed |= !body;
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
