/*
 * What is said to etcd, as text: keys, and the JSON of transactions; and what is read from
 * answers, good and bad. No network.
 */
#include "base/encode.h"
#include "unit/unit.h"

#include <stdlib.h>

#include "store/etcd/etcd_txn.h"

/* ---- keys */

TEST(each_kind_of_key_has_its_place) {
    const ten_etcd_dir dir = {"fleets", "poll"};
    assert_string_equal(ten_etcd_record_key(&dir, (ten_key){TEN_KIND_LEASE, "a/b"}).text,
                        "fleets/poll/record/lease/a/b");
    assert_string_equal(ten_etcd_life_key(&dir, (ten_key){TEN_KIND_LEASE, "a/b"}).text, "fleets/poll/lease/a/b");
    assert_string_equal(ten_etcd_life_key(&dir, (ten_key){TEN_KIND_INSTANCE, "i"}).text, "fleets/poll/node/i");
    assert_string_equal(ten_etcd_place(&dir, TEN_ETCD_NAMED, "t").text, "fleets/poll/named/t");
    assert_string_equal(ten_etcd_place(&dir, TEN_ETCD_WAIT, NULL).text, "fleets/poll/state/wait");
    assert_string_equal(ten_etcd_place(&dir, TEN_ETCD_FEED, "r").text, "fleets/poll/feed/r");
}

TEST(the_longest_names_fit_into_a_key) {
    char prefix[TEN_ETCD_PREFIX_MAX + 1] = "";
    char ns[TENURE_NAMESPACE_MAX + 1] = "";
    char name[TENURE_HOLDER_MAX + 1] = "";
    memset(prefix, 'p', sizeof prefix - 1);
    memset(ns, 'n', sizeof ns - 1);
    memset(name, 't', sizeof name - 2);
    name[sizeof name - 2] = 'z';
    ten_etcd_key key = ten_etcd_record_key(&(ten_etcd_dir){prefix, ns}, (ten_key){TEN_KIND_CHECKPOINT, name});
    assert_int_equal(key.text[strlen(key.text) - 1], 'z');
    assert_true(sizeof name - 1 >= TENURE_TARGET_MAX);
}

/* ---- requests */

static json_t *body_of(ten_etcd_txn *txn) {
    json_error_t error;
    json_t *body = json_loads(ten_etcd_txn_body(txn), JSON_REJECT_DUPLICATES, &error);
    if (!body)
        fail_msg("the body is no JSON: %s", error.text);
    return body;
}

static const json_t *operation(const json_t *body, size_t index, const char *kind) {
    const json_t *found = json_object_get(json_array_get(json_object_get(body, "success"), index), kind);
    if (!found)
        fail_msg("operation %zu is no %s", index, kind);
    return found;
}

/* A member is text in base64. */
static void assert_data(const json_t *object, const char *name, const char *data, size_t size) {
    ten_buf out = {0};
    const char *text = json_string_value(json_object_get(object, name));
    assert_non_null(text);
    assert_true(ten_base64_decode(&out, text));
    assert_int_equal(out.size, size);
    assert_memory_equal(ten_buf_string(&out), data, size);
    ten_buf_free(&out);
}

static void assert_number(const json_t *object, const char *name, const char *number) {
    const char *text = json_string_value(json_object_get(object, name));
    assert_string_equal(text ? text : "none", number);
}

TEST(an_empty_transaction_is_one) {
    ten_etcd_txn txn = {0};
    assert_string_equal(ten_etcd_txn_body(&txn), "{\"compare\":[],\"success\":[],\"failure\":[]}");
    ten_etcd_txn_free(&txn);
}

TEST(comparisons_are_of_the_revision_of_the_last_write) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_compare(&txn, "a", 0);
    ten_etcd_txn_compare(&txn, "b", UINT64_MAX);
    assert_int_equal(txn.compares.count, 2);
    json_t *body = body_of(&txn);
    const json_t *compares = json_object_get(body, "compare");
    assert_int_equal(json_array_size(compares), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(compares, i);
        assert_string_equal(json_string_value(json_object_get(one, "target")), "MOD");
        assert_null(json_object_get(one, "result")); /* EQUAL */
        assert_data(one, "key", i ? "b" : "a", 1);
        assert_number(one, "mod_revision", i ? "18446744073709551615" : "0");
    }
    json_decref(body);
    ten_etcd_txn_free(&txn);
}

TEST(puts_and_deletions_name_key_value_and_lease) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_put(&txn, "k", "{\"a\":1}", 0);
    ten_etcd_txn_put(&txn, "k", "", 77);
    ten_etcd_txn_put(&txn, "gone", NULL, 0);
    ten_etcd_txn_delete_between(&txn, "a", "c");
    assert_int_equal(txn.operations.count, 4);
    json_t *body = body_of(&txn);
    const json_t *put = operation(body, 0, "requestPut");
    assert_data(put, "value", "{\"a\":1}", 7);
    assert_null(json_object_get(put, "lease"));
    put = operation(body, 1, "requestPut");
    assert_data(put, "value", "", 0);
    assert_number(put, "lease", "77");
    assert_data(operation(body, 2, "requestDeleteRange"), "key", "gone", 4);
    assert_null(json_object_get(operation(body, 2, "requestDeleteRange"), "range_end"));
    assert_data(operation(body, 3, "requestDeleteRange"), "range_end", "c", 1);
    json_decref(body);
    ten_etcd_txn_free(&txn);
}

/* Written only where it is, and on the etcd lease that it has: else it would be left behind for ever. */
TEST(what_is_raised_is_written_only_if_it_is_there) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_raise(&txn, "g");
    json_t *body = body_of(&txn);
    const json_t *inner = operation(body, 0, "requestTxn");
    const json_t *compare = json_array_get(json_object_get(inner, "compare"), 0);
    assert_string_equal(json_string_value(json_object_get(compare, "target")), "VERSION");
    assert_string_equal(json_string_value(json_object_get(compare, "result")), "GREATER");
    assert_number(compare, "version", "0");
    assert_data(compare, "key", "g", 1);
    const json_t *put = operation(inner, 0, "requestPut");
    assert_data(put, "key", "g", 1);
    assert_true(json_is_true(json_object_get(put, "ignore_lease")));
    assert_true(json_is_true(json_object_get(put, "prev_kv")));
    json_decref(body);
    ten_etcd_txn_free(&txn);
}

TEST(a_mark_is_attached_and_tells_when_it_was_written_before) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_put_mark(&txn, "m", 7);
    json_t *body = body_of(&txn);
    const json_t *put = operation(body, 0, "requestPut");
    assert_data(put, "key", "m", 1);
    assert_number(put, "lease", "7");
    assert_true(json_is_true(json_object_get(put, "prev_kv")));
    json_decref(body);
    ten_etcd_txn_free(&txn);
    json_t *answer = json_loads("{\"responses\":[{\"response_put\":{}},"
                                "{\"response_put\":{\"prev_kv\":{\"mod_revision\":\"41\"}}}]}",
                                0, NULL);
    assert_int_equal(ten_etcd_written_before(answer, 0), 0);
    assert_int_equal(ten_etcd_written_before(answer, 1), 41);
    assert_int_equal(ten_etcd_written_before(answer, 2), 0);
    json_decref(answer);
}

TEST(a_range_ends_behind_everything_below_its_key) {
    ten_etcd_txn txn = {0};
    ten_etcd_get(&txn.operations, "p/lease/t");
    ten_etcd_get_all(&txn.operations, "p/lease/", &(struct ten_etcd_range){0});
    ten_etcd_get_all(&txn.operations, "p/lease/", &(struct ten_etcd_range){.after = "p/lease/t", .limit = 5});
    ten_etcd_get_all(&txn.operations, "p/feed/",
                     &(struct ten_etcd_range){.from = "p/feed/7", .created_since = 9, .by_creation = true});
    json_t *body = body_of(&txn);
    assert_null(json_object_get(operation(body, 0, "requestRange"), "range_end"));
    const json_t *all = operation(body, 1, "requestRange");
    assert_data(all, "key", "p/lease/", 8);
    assert_data(all, "range_end", "p/lease0", 8);
    assert_null(json_object_get(all, "limit"));
    const json_t *page = operation(body, 2, "requestRange");
    assert_data(page, "key", "p/lease/t\x01", 10);
    assert_number(page, "limit", "5");
    const json_t *changes = operation(body, 3, "requestRange");
    assert_data(changes, "key", "p/feed/7", 8);
    assert_data(changes, "range_end", "p/feed0", 7);
    assert_number(changes, "min_create_revision", "9");
    assert_string_equal(json_string_value(json_object_get(changes, "sort_target")), "CREATE");
    json_decref(body);
    ten_etcd_txn_free(&txn);
}

TEST(what_is_read_otherwise_is_no_operation) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_compare(&txn, "g", 7);
    ten_etcd_get(&txn.otherwise, "g");
    ten_etcd_get(&txn.otherwise, "h");
    assert_int_equal(txn.operations.count, 0);
    json_t *body = body_of(&txn);
    const json_t *failure = json_object_get(body, "failure");
    assert_int_equal(json_array_size(json_object_get(body, "success")), 0);
    assert_int_equal(json_array_size(failure), 2);
    assert_data(json_object_get(json_array_get(failure, 1), "requestRange"), "key", "h", 1);
    json_decref(body);
    ten_etcd_txn_free(&txn);
}

TEST(a_part_is_a_transaction_of_its_own) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn part = {0};
    ten_etcd_txn_compare_exists(&part, "a");
    ten_etcd_txn_compare_lease(&part, "a", 7);
    ten_etcd_txn_put(&part, "a", "b", 0);
    assert_int_equal(ten_etcd_txn_size(&part), 2);
    ten_etcd_txn_add_part(&txn, &part);
    ten_etcd_txn_add_part(&txn, &part);
    assert_int_equal(ten_etcd_txn_size(&txn), 2);
    json_t *body = body_of(&txn);
    const json_t *inner = operation(body, 1, "requestTxn");
    assert_number(json_array_get(json_object_get(inner, "compare"), 1), "lease", "7");
    assert_data(operation(inner, 0, "requestPut"), "value", "b", 1);
    json_decref(body);
    ten_etcd_txn_free(&txn);
    ten_etcd_txn_free(&part);
}

TEST(a_transaction_that_was_cleared_starts_anew) {
    ten_etcd_txn txn = {0};
    ten_etcd_txn_compare(&txn, "a", 1);
    ten_etcd_txn_put(&txn, "a", "b", 0);
    ten_etcd_get(&txn.otherwise, "a");
    ten_etcd_txn_clear(&txn);
    assert_int_equal(txn.compares.count + txn.operations.count, 0);
    assert_string_equal(ten_etcd_txn_body(&txn), "{\"compare\":[],\"success\":[],\"failure\":[]}");
    ten_etcd_txn_free(&txn);
}

/* ---- answers */

static ten_etcd_kv read_kv(const char *text, ten_buf *value) {
    json_t *item = json_loads(text, 0, NULL);
    assert_non_null(item);
    ten_etcd_kv kv = ten_etcd_kv_read(item, value);
    json_decref(item);
    return kv;
}

TEST(a_key_is_read_with_its_revisions_and_its_lease) {
    ten_buf value = {0};
    ten_etcd_kv kv =
        read_kv("{\"create_revision\":\"9007199254740993\",\"mod_revision\":\"12\",\"lease\":\"7587848112\","
                "\"value\":\"eyJhIjoxfQ==\"}",
                &value);
    assert_true(kv.created == UINT64_C(9007199254740993));
    assert_int_equal(kv.revision, 12);
    assert_int_equal(kv.lease, UINT64_C(7587848112));
    assert_string_equal(kv.value, "{\"a\":1}");
    ten_buf_free(&value);
}

/* It is there, whatever it is: nobody may take it for free. */
TEST(a_value_that_is_no_text_is_a_key_that_is_there) {
    static const char *const values[] = {"!!!!", "", "eyJhIjoxfQ==x"};
    ten_buf value = {0};
    for (size_t i = 0; i < TEN_COUNT(values); i++) {
        char text[120];
        snprintf(text, sizeof text, "{\"create_revision\":\"3\",\"mod_revision\":\"4\",\"value\":\"%s\"}", values[i]);
        ten_etcd_kv kv = read_kv(text, &value);
        assert_int_equal(kv.revision, 4);
        assert_string_equal(kv.value, "");
    }
    ten_buf_free(&value);
}

TEST(an_answers_parts_are_found_or_missing) {
    ten_buf scratch = {0};
    json_t *answer = json_loads("{\"responses\":[{\"response_put\":{}},{\"response_range\":{\"more\":true,\"kvs\":["
                                "{\"mod_revision\":\"5\"}]}},{\"response_range\":{}}]}",
                                0, NULL);
    assert_non_null(answer);
    assert_null(ten_etcd_kvs(answer, 0));
    assert_int_equal(json_array_size(ten_etcd_kvs(answer, 1)), 1);
    assert_true(ten_etcd_has_more(answer, 1));
    assert_false(ten_etcd_has_more(answer, 2));
    assert_int_equal(ten_etcd_kv_at(answer, 1, &scratch).revision, 5);
    assert_int_equal(ten_etcd_kv_at(answer, 2, &scratch).revision, 0);
    assert_int_equal(ten_etcd_kv_at(answer, 9, &scratch).revision, 0);
    json_decref(answer);
    ten_buf_free(&scratch);
}
