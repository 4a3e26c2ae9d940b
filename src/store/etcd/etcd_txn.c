/*
 * See etcd_txn.h. Called by the other files of the etcd store.
 */
#include "store/etcd/etcd_txn.h"

#include <string.h>

#include "base/encode.h"
#include "base/json.h"
#include "store/etcd/etcd_link.h"

/* ---- keys ------------------------------------------------------------------------------------------------ */

void ten_etcd_key(char key[TEN_ETCD_KEY_MAX + 1], const char *prefix, const char *namespace_name,
                  enum ten_etcd_kind kind, const char *name) {
    static const char *const kinds[] = {"lease/", "fence/",  "target/", "node/", "member/", "gone/",      "group/",
                                        "feed/",  "trimmed", "term",    "wait",  "epoch",   "checkpoint/"};
    snprintf(key, TEN_ETCD_KEY_MAX + 1, "%s/%s/%s%s", prefix, namespace_name, kinds[kind], name ? name : "");
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

static void add_base64(ten_buf *out, const char *name, const char *data, size_t size) {
    ten_buf_format(out, "\"%s\":\"", name);
    ten_base64_encode(out, data, size);
    ten_buf_char(out, '"');
}

static void add_number(ten_buf *out, const char *name, uint64_t number) {
    ten_buf_format(out, ",\"%s\":\"%llu\"", name, (unsigned long long)number);
}

void ten_etcd_txn_compare(ten_etcd_txn *txn, const char *key, uint64_t revision) {
    ten_buf *out = &txn->compares;
    ten_buf_text(out, txn->compare_count++ ? ",{\"target\":\"MOD\"," : "{\"target\":\"MOD\",");
    add_base64(out, "key", key, strlen(key));
    add_number(out, "mod_revision", revision);
    ten_buf_char(out, '}');
}

void ten_etcd_txn_compare_value(ten_etcd_txn *txn, const char *key, const char *value) {
    ten_buf *out = &txn->compares;
    ten_buf_text(out, txn->compare_count++ ? ",{\"target\":\"VALUE\"," : "{\"target\":\"VALUE\",");
    add_base64(out, "key", key, strlen(key));
    ten_buf_char(out, ',');
    add_base64(out, "value", value, strlen(value));
    ten_buf_char(out, '}');
}

static ten_buf *begin(ten_etcd_txn *txn, const char *what) {
    ten_buf_format(&txn->operations, "%s{\"%s\":{", txn->operation_count++ ? "," : "", what);
    return &txn->operations;
}

void ten_etcd_txn_put(ten_etcd_txn *txn, const char *key, const char *value, uint64_t lease) {
    ten_buf *out = begin(txn, "requestPut");
    add_base64(out, "key", key, strlen(key));
    ten_buf_char(out, ',');
    add_base64(out, "value", value, strlen(value));
    if (lease)
        add_number(out, "lease", lease);
    ten_buf_text(out, "}}");
}

/* If the key is there: put it, and what follows. */
static ten_buf *begin_where_it_is(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestTxn");
    ten_buf_text(out, "\"compare\":[{\"target\":\"VERSION\",\"result\":\"GREATER\",");
    add_base64(out, "key", key, strlen(key));
    ten_buf_text(out, ",\"version\":\"0\"}],\"success\":[{\"requestPut\":{");
    add_base64(out, "key", key, strlen(key));
    return out;
}

void ten_etcd_txn_touch(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin_where_it_is(txn, key);
    ten_buf_text(out, ",\"ignore_value\":true,\"ignore_lease\":true}}]}}");
}

void ten_etcd_txn_put_again(ten_etcd_txn *txn, const char *key, const char *value) {
    ten_buf *out = begin_where_it_is(txn, key);
    ten_buf_char(out, ',');
    add_base64(out, "value", value, strlen(value));
    ten_buf_text(out, ",\"ignore_lease\":true}}]}}");
}

void ten_etcd_txn_delete(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestDeleteRange");
    add_base64(out, "key", key, strlen(key));
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_delete_between(ten_etcd_txn *txn, const char *from, const char *to) {
    ten_buf *out = begin(txn, "requestDeleteRange");
    add_base64(out, "key", from, strlen(from));
    ten_buf_char(out, ',');
    add_base64(out, "range_end", to, strlen(to));
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_get(ten_etcd_txn *txn, const char *key) {
    ten_buf *out = begin(txn, "requestRange");
    add_base64(out, "key", key, strlen(key));
    ten_buf_text(out, "}}");
}

void ten_etcd_txn_get_otherwise(ten_etcd_txn *txn, const char *key) {
    ten_buf_text(&txn->otherwise, txn->otherwise_count++ ? ",{\"requestRange\":{" : "{\"requestRange\":{");
    add_base64(&txn->otherwise, "key", key, strlen(key));
    ten_buf_text(&txn->otherwise, "}}");
}

void ten_etcd_txn_get_all(ten_etcd_txn *txn, const char *prefix_key, const struct ten_etcd_range *range) {
    char end[TEN_ETCD_KEY_MAX + 1];
    ten_buf *out = begin(txn, "requestRange");
    snprintf(end, sizeof end, "%s", prefix_key);
    end[strlen(end) - 1]++; /* the last byte is a slash: what follows it sorts behind everything below */
    if (range->after)
        add_base64(out, "key", range->after, strlen(range->after) + 1); /* with its NUL: the next possible key */
    else
        add_base64(out, "key", range->from ? range->from : prefix_key, strlen(range->from ? range->from : prefix_key));
    ten_buf_char(out, ',');
    add_base64(out, "range_end", end, strlen(end));
    if (range->limit)
        add_number(out, "limit", range->limit);
    if (range->created_since)
        add_number(out, "min_create_revision", range->created_since);
    if (range->keys_only)
        ten_buf_text(out, ",\"keys_only\":true");
    if (range->by_creation)
        ten_buf_text(out, ",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"");
    ten_buf_text(out, "}}");
}

const char *ten_etcd_txn_body(ten_etcd_txn *txn) {
    ten_buf_clear(&txn->body);
    ten_buf_format(&txn->body, "{\"compare\":[%s],\"success\":[%s],\"failure\":[%s]}", ten_buf_string(&txn->compares),
                   ten_buf_string(&txn->operations), ten_buf_string(&txn->otherwise));
    bool failed = txn->body.failed || txn->compares.failed || txn->operations.failed || txn->otherwise.failed;
    return failed ? NULL : txn->body.data;
}

/* ---- answers ------------------------------------------------------------------------------------------------ */

static const json_t *range_of(const json_t *answer, size_t operation) {
    const json_t *response = json_array_get(json_object_get(answer, "responses"), operation);
    return json_object_get(response, "response_range");
}

const json_t *ten_etcd_kvs(const json_t *answer, size_t operation) {
    return json_object_get(range_of(answer, operation), "kvs");
}

bool ten_etcd_has_more(const json_t *answer, size_t operation) {
    return json_is_true(json_object_get(range_of(answer, operation), "more"));
}

uint64_t ten_etcd_count(const json_t *answer, size_t operation) {
    return ten_etcd_number(range_of(answer, operation), "count");
}

ten_etcd_kv ten_etcd_kv_read(const json_t *item, ten_buf *scratch) {
    ten_etcd_kv kv = {.revision = ten_etcd_number(item, "mod_revision"),
                      .created = ten_etcd_number(item, "create_revision"),
                      .lease = ten_etcd_number(item, "lease")};
    const char *value = json_string_value(json_object_get(item, "value"));
    if (value && ten_base64_decode(scratch, value))
        kv.value = json_loadb(ten_buf_string(scratch), scratch->size, JSON_REJECT_DUPLICATES, NULL);
    return kv;
}

ten_etcd_kv ten_etcd_kv_at(const json_t *answer, size_t operation, ten_buf *scratch) {
    const json_t *item = json_array_get(ten_etcd_kvs(answer, operation), 0);
    return item ? ten_etcd_kv_read(item, scratch) : (ten_etcd_kv){0};
}

void ten_etcd_kv_free(ten_etcd_kv *kv) {
    json_decref(kv->value);
    kv->value = NULL;
}
