/*
 * A newer client and an older Tenure server, which cannot hand a lease over and refuses a request in which it finds that
 * word. The test plays the server: it answers every request of the HTTP store.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/suite.h"
#include "store/http/http_state.h"

static struct {
    bool hands;        /* this version can */
    bool checkpoints;  /* this version knows them */
    bool sessions;     /* its store has them */
    bool groups;       /* this version knows them */
    bool says_nothing; /* /readyz of a version that does not know the question */
    bool broken;       /* refuses every batch */
    unsigned asked;
    unsigned batches;
    unsigned handed;
    unsigned on_session; /* operations */
    unsigned in_group;   /* operations */
    size_t ops;          /* that took effect */
} server;

int __wrap_ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body,
                        uint64_t deadline_ms);
int __wrap_ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body,
                         uint64_t deadline_ms);

static int answer(ten_http_store *store, long status, json_t *text) {
    json_decref(store->answer);
    store->answer = text;
    store->status = status;
    return status == 200 ? TENURE_OK : ten_fail(&store->base.error, TENURE_E_INVALID, "the server refuses the request");
}

static json_t *carry_out(const json_t *ops) {
    json_t *outcomes = json_array();
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        bool hand = strcmp(json_string_value(json_object_get(op, "op")), "hand") == 0;
        server.ops++;
        server.handed += hand;
        server.on_session += json_is_true(json_object_get(op, "session"));
        server.in_group += json_is_integer(json_object_get(op, "group"));
        const char *successor = json_string_value(json_object_get(op, "successor_id"));
        json_array_append_new(outcomes, json_pack("{s:s,s:i,s:s,s:i}", "outcome", "ok", "version", hand ? 8 : 7,
                                                  "holder_id", hand && successor ? successor : "a", "ttl_ms", 5000));
    }
    return outcomes;
}

int __wrap_ten_http_ask(ten_http_store *store, const char *method, const char *path, const char *body,
                        uint64_t deadline_ms) {
    (void)deadline_ms;
    if (strcmp(path, "/readyz") == 0) {
        assert_string_equal(method, "GET");
        server.asked++;
        return answer(store, 200,
                      server.says_nothing
                          ? json_object()
                          : json_pack("{s:b,s:b,s:b,s:b}", "hands", server.hands, "checkpoints", server.checkpoints,
                                      "sessions", server.sessions, "groups", server.groups));
    }
    server.batches++;
    json_t *request = json_loads(body, 0, NULL);
    assert_non_null(request);
    bool refused = server.broken || (!server.hands && strstr(body, "\"hand\"")) ||
                   (!server.checkpoints && strstr(body, "checkpoint")) ||
                   (!server.sessions && strstr(body, "\"session\"")) || (!server.groups && strstr(body, "\"group\""));
    json_t *outcomes = refused ? json_object() : carry_out(json_object_get(request, "ops"));
    json_decref(request);
    return answer(store, refused ? 400 : 200, outcomes);
}

/* The same, with the answer as a text. */
int __wrap_ten_http_send(ten_http_store *store, const char *method, const char *path, const char *body,
                         uint64_t deadline_ms) {
    int r = __wrap_ten_http_ask(store, method, path, body, deadline_ms);
    char *text = json_dumps(store->answer, JSON_COMPACT);
    ten_buf_clear(&store->body);
    ten_buf_text(&store->body, text);
    free(text);
    return r;
}

static ten_store *open_fake(void) {
    ten_store *store;
    ten_error error;
    memset(&server, 0, sizeof server);
    assert_int_equal(ten_store_open("http://127.0.0.1:1", NULL, &store, &error), TENURE_OK);
    return store;
}

/* A renewal, a hand and a release. */
static int send_three(ten_store *store, ten_result results[3]) {
    ten_op ops[3] = {{.kind = TEN_OP_RENEW, .target = "s", .token = 7, .ttl_ms = 5000},
                     {.kind = TEN_OP_HAND, .target = "t", .token = 7, .ttl_ms = 5000, .successor = "b"},
                     {.kind = TEN_OP_RELEASE, .target = "u", .token = 7}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = "n";
        ops[i].holder = "a";
    }
    return ten_store_apply(store, ops, results, TEN_COUNT(ops), 1000);
}

static void expect_refused_alone(const ten_result results[3]) {
    assert_int_equal(results[0].outcome, TEN_OK);
    assert_int_equal(results[1].outcome, TEN_UNKNOWN); /* so that it is released */
    assert_int_equal(results[2].outcome, TEN_OK);
    assert_int_equal(server.handed, 0);
}

static void a_server_that_can_is_asked_once_and_gets_the_successor(void **state) {
    (void)state;
    ten_result results[3];
    ten_store *store = open_fake();
    server.hands = true;
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(send_three(store, results), TENURE_OK);
        assert_int_equal(results[1].outcome, TEN_OK);
        assert_string_equal(results[1].holder, "b");
        assert_int_equal(results[1].token, 8);
        assert_int_equal(server.batches, i);
    }
    assert_int_equal(server.asked, 1);
    ten_store_close(store);
}

static void an_older_server_does_not_get_to_see_a_hand(void **state) {
    (void)state;
    ten_result results[3];
    ten_store *store = open_fake();
    server.says_nothing = true;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(send_three(store, results), TENURE_OK);
        expect_refused_alone(results);
    }
    assert_int_equal(server.asked, 1);
    assert_int_equal(server.ops, 6);
    ten_store_close(store);
}

static void an_older_server_that_took_the_place_of_a_newer_one_is_noticed(void **state) {
    (void)state;
    ten_result results[3];
    ten_store *store = open_fake();
    server.hands = true;
    assert_int_equal(send_three(store, results), TENURE_OK);
    server.hands = false;
    server.handed = 0;
    server.ops = 0;
    assert_int_equal(send_three(store, results), TENURE_OK);
    expect_refused_alone(results);
    assert_int_equal(server.ops, 2); /* and each took effect once */
    assert_int_equal(server.asked, 2);
    ten_store_close(store);
}

static void a_batch_that_is_refused_for_another_reason_has_failed(void **state) {
    (void)state;
    ten_result results[3];
    ten_store *store = open_fake();
    server.hands = server.broken = true;
    assert_int_equal(send_three(store, results), TENURE_E_INVALID);
    assert_int_equal(results[1].outcome, TEN_ERROR);
    assert_int_equal(server.batches, 1);
    ten_store_close(store);
}

static void whoever_hands_nothing_over_asks_nothing(void **state) {
    (void)state;
    ten_store *store = open_fake();
    ten_op op = {.kind = TEN_OP_READ, .namespace_name = "n", .target = "t"};
    ten_result result;
    assert_int_equal(ten_store_apply(store, &op, &result, 1, 1000), TENURE_OK);
    assert_int_equal(server.asked, 0);
    ten_store_close(store);
}

/* A renewal, a write, an acquire and a read with a checkpoint. */
static int send_four(ten_store *store, ten_result results[4]) {
    ten_op ops[4] = {{.kind = TEN_OP_RENEW, .target = "s", .token = 7, .ttl_ms = 5000},
                     {.kind = TEN_OP_CHECKPOINT, .target = "s", .token = 7, .checkpoint = "1"},
                     {.kind = TEN_OP_ACQUIRE, .target = "t", .ttl_ms = 5000, .flags = TEN_OP_WITH_CHECKPOINT},
                     {.kind = TEN_OP_READ, .target = "t", .flags = TEN_OP_WITH_CHECKPOINT}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].namespace_name = "n";
        ops[i].holder = i == 3 ? NULL : "a";
    }
    return ten_store_apply(store, ops, results, TEN_COUNT(ops), 1000);
}

static void an_older_server_does_not_get_to_see_a_checkpoint(void **state) {
    (void)state;
    ten_result results[4];
    ten_store *store = open_fake();
    server.says_nothing = true;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(send_four(store, results), TENURE_OK);
        assert_int_equal(results[0].outcome, TEN_OK);
        assert_int_equal(results[1].outcome, TEN_ERROR);
        assert_int_equal(results[1].error, TENURE_E_UNSUPPORTED);
        assert_int_equal(results[2].outcome, TEN_OK); /* it grants, and has none to bring along */
        assert_null(results[2].checkpoint);
        assert_int_equal(results[3].error, TENURE_E_UNSUPPORTED);
    }
    assert_int_equal(server.asked, 1);
    ten_store_close(store);
}

static void an_older_server_in_the_place_of_a_newer_one_refuses_checkpoints_alone(void **state) {
    (void)state;
    ten_result results[4];
    ten_store *store = open_fake();
    server.checkpoints = true;
    assert_int_equal(send_four(store, results), TENURE_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(results[i].outcome, TEN_OK);
    server.checkpoints = false;
    server.ops = 0;
    assert_int_equal(send_four(store, results), TENURE_OK);
    assert_int_equal(results[0].outcome, TEN_OK);
    assert_int_equal(results[1].error, TENURE_E_UNSUPPORTED);
    assert_int_equal(results[2].outcome, TEN_OK);
    assert_int_equal(server.ops, 2); /* and each took effect once */
    ten_store_close(store);
}

/* A heartbeat and an acquire. */
static int send_with_session(ten_store *store, ten_result results[2]) {
    ten_op ops[2] = {{.kind = TEN_OP_ANNOUNCE, .ttl_ms = 5000, .weight = 1},
                     {.kind = TEN_OP_ACQUIRE, .target = "s", .ttl_ms = 5000}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].flags = TEN_OP_SESSION;
        ops[i].namespace_name = "n";
        ops[i].holder = "a";
    }
    return ten_store_apply(store, ops, results, TEN_COUNT(ops), 1000);
}

static void a_server_without_sessions_is_asked_for_none(void **state) {
    (void)state;
    ten_result results[2];
    ten_store *store = open_fake();
    assert_int_equal(send_with_session(store, results), TENURE_OK);
    assert_int_equal(send_with_session(store, results), TENURE_OK);
    assert_int_equal(server.on_session, 0);
    assert_int_equal(server.asked, 1);
    assert_int_equal(results[0].session, 0);
    ten_store_close(store);
}

static void an_older_server_in_the_place_of_one_with_sessions_gets_the_batch_without(void **state) {
    (void)state;
    ten_result results[2];
    ten_store *store = open_fake();
    server.sessions = true;
    assert_int_equal(send_with_session(store, results), TENURE_OK);
    assert_int_equal(server.on_session, 2);
    server.sessions = false;
    assert_int_equal(send_with_session(store, results), TENURE_OK);
    assert_int_equal(server.on_session, 2);
    assert_int_equal(results[1].outcome, TEN_OK);
    assert_int_equal(results[1].session, 0);
    ten_store_close(store);
}

/* Two acquires that belong together. */
static int send_group(ten_store *store, ten_result results[2]) {
    ten_op ops[2] = {{.kind = TEN_OP_ACQUIRE, .target = "s"}, {.kind = TEN_OP_ACQUIRE, .target = "t"}};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ops[i].ttl_ms = 5000;
        ops[i].namespace_name = "n";
        ops[i].holder = "a";
        ops[i].group = 1;
    }
    return ten_store_apply(store, ops, results, TEN_COUNT(ops), 1000);
}

static void an_older_server_gets_the_acquires_of_a_group_one_by_one(void **state) {
    (void)state;
    ten_result results[2];
    ten_store *store = open_fake();
    server.groups = true;
    assert_int_equal(send_group(store, results), TENURE_OK);
    assert_int_equal(server.in_group, 2);
    server.groups = false;
    assert_int_equal(send_group(store, results), TENURE_OK);
    assert_int_equal(server.in_group, 2);
    assert_int_equal(results[1].outcome, TEN_OK);
    ten_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_can_is_asked_once_and_gets_the_successor),
        cmocka_unit_test(an_older_server_does_not_get_to_see_a_hand),
        cmocka_unit_test(an_older_server_that_took_the_place_of_a_newer_one_is_noticed),
        cmocka_unit_test(a_batch_that_is_refused_for_another_reason_has_failed),
        cmocka_unit_test(whoever_hands_nothing_over_asks_nothing),
        cmocka_unit_test(an_older_server_does_not_get_to_see_a_checkpoint),
        cmocka_unit_test(an_older_server_in_the_place_of_a_newer_one_refuses_checkpoints_alone),
        cmocka_unit_test(a_server_without_sessions_is_asked_for_none),
        cmocka_unit_test(an_older_server_in_the_place_of_one_with_sessions_gets_the_batch_without),
        cmocka_unit_test(an_older_server_gets_the_acquires_of_a_group_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
