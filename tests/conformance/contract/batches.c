/*
 * The store contract: a batch gives each operation its own outcome, in order, and after an error nothing is believed.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY 1000u

struct batch {
    size_t count;
    ten_op ops[MANY];
    ten_result results[MANY];
    char targets[MANY][16];
};

static struct batch *make_batch(const struct place *place) {
    struct batch *batch = calloc(1, sizeof *batch);
    assert_non_null(batch);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(batch->targets[i], sizeof batch->targets[i], "t%04zu", i);
        batch->ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                                 .namespace_name = place->ns,
                                 .target = batch->targets[i],
                                 .holder = "a",
                                 .ttl_ms = LONG_MS};
    }
    batch->count = MANY;
    return batch;
}

static void apply_batch(const struct place *place, struct batch *batch) {
    assert_int_equal(ten_store_apply(place->store, batch->ops, batch->results, batch->count, 30000), TENURE_OK);
}

/* The five cases, by the target's number: renewed, refused to another, released, lost by a wrong token, unknown. */
static void mix(struct batch *batch) {
    for (size_t i = 0; i < MANY; i++) {
        ten_op *op = &batch->ops[i];
        uint64_t token = batch->results[i].token;
        switch (i % 5) {
        case 0:
            op->kind = TEN_OP_RENEW;
            op->token = token;
            break;
        case 1:
            op->holder = "b";
            break;
        case 2:
            op->kind = TEN_OP_RELEASE;
            op->token = token;
            break;
        case 3:
            op->kind = TEN_OP_RENEW;
            op->token = TENURE_TOKEN_MAX; /* one that was never granted, and is too large to prove a loss */
            break;
        default:
            op->kind = TEN_OP_READ;
            op->flags = TEN_OP_REQUIRE_TARGET;
            batch->targets[i][0] = 'x';
            break;
        }
    }
}

CASE(a_thousand_mixed_operations_get_their_own_outcomes_in_order) {
    static const enum ten_outcome expected[] = {TEN_OK, TEN_HELD, TEN_OK, TEN_LOST, TEN_UNKNOWN};
    const struct place *place = *state;
    struct batch *batch = make_batch(place);
    apply_batch(place, batch);
    uint64_t tokens[MANY];
    for (size_t i = 0; i < MANY; i++) {
        expect_outcome(batch->results[i], TEN_OK);
        tokens[i] = batch->results[i].token;
    }
    mix(batch);
    apply_batch(place, batch);
    for (size_t i = 0; i < MANY; i++) {
        const ten_result *result = &batch->results[i];
        expect_outcome(*result, expected[i % 5]);
        if (i % 5 != 4)
            assert_int_equal(result->token, tokens[i]);
        if (i % 5 == 1 || i % 5 == 3)
            expect_holder(*result, "a");
    }
    for (size_t i = 0; i < MANY; i += 111) {
        snprintf(batch->targets[i], sizeof batch->targets[i], "t%04zu", i);
        expect_holder(read_lease(place, batch->targets[i]), i % 5 == 2 ? NULL : "a");
    }
    free(batch);
}

CASE(operations_of_one_batch_see_what_earlier_ones_did) {
    const struct place *place = *state;
    ten_op a = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS};
    ten_op b = a;
    b.holder = "b";
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"};
    ten_op now = {.kind = TEN_OP_RELEASE, .flags = TEN_OP_FORCE_NOW, .namespace_name = place->ns, .target = "t"};
    ten_op ops[] = {read, a, a, b, read, now, read, b, a};
    ten_result results[TEN_COUNT(ops)];
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    static const enum ten_outcome expected[] = {TEN_OK, TEN_OK, TEN_OK, TEN_HELD, TEN_OK,
                                                TEN_OK, TEN_OK, TEN_OK, TEN_HELD};
    static const char *const holders[] = {NULL, "a", "a", "a", "a", NULL, NULL, "b", "b"};
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        expect_outcome(results[i], expected[i]);
        if (ops[i].kind == TEN_OP_READ || results[i].outcome == TEN_HELD)
            expect_holder(results[i], holders[i]);
    }
    assert_int_equal(results[1].token, results[2].token);
    assert_true(results[7].token > results[1].token);
}

CASE(the_same_renewal_twice_in_one_batch_is_harmless) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op renewal = {.kind = TEN_OP_RENEW,
                      .namespace_name = place->ns,
                      .target = "t",
                      .holder = "a",
                      .token = token,
                      .ttl_ms = LONG_MS};
    ten_op ops[] = {renewal, renewal};
    ten_result results[2];
    assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_OK);
    expect_outcome(results[0], TEN_OK);
    expect_outcome(results[1], TEN_OK);
}

/* What extends a lease and what ends it behind that meet in one record: the first is not decided again by what the second
 * has left. */
CASE(what_extends_a_lease_comes_before_what_ends_it_in_one_batch) {
    const struct place *place = *state;
    static const enum ten_op_kind kinds[] = {TEN_OP_RENEW, TEN_OP_ACQUIRE};
    for (size_t i = 0; i < TEN_COUNT(kinds); i++) {
        ten_op extends = {
            .kind = kinds[i], .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS};
        uint64_t token = must_acquire(place, "t", "a", LONG_MS);
        ten_op ends = {.kind = TEN_OP_RELEASE, .namespace_name = place->ns, .target = "t", .token = token};
        extends.token = kinds[i] == TEN_OP_RENEW ? token : 0;
        ten_op ops[] = {extends, ends, {.kind = TEN_OP_READ, .namespace_name = place->ns, .target = "t"}};
        ten_result results[TEN_COUNT(ops)];
        assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
        for (size_t j = 0; j < TEN_COUNT(ops); j++) {
            expect_outcome(results[j], TEN_OK);
            assert_int_equal(results[j].token, token);
        }
        expect_holder(results[2], NULL);
    }
}

CASE(kept_and_plain_renewals_and_what_is_asked_travel_in_one_batch) {
    const struct place *place = *state;
    ten_op plain = {.kind = TEN_OP_RENEW,
                    .namespace_name = place->ns,
                    .target = "plain",
                    .holder = "a",
                    .token = must_acquire(place, "plain", "a", LONG_MS),
                    .ttl_ms = LONG_MS};
    ten_op kept = plain;
    kept.target = "kept";
    kept.token = must_acquire(place, "kept", "a", LONG_MS);
    kept.ttl_ms = 2 * LONG_MS;
    kept.flags = TEN_OP_KEEP;
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = place->ns, .target = "kept", .ask = TEN_ASK_RESIGN};
    ten_op undo = ask;
    undo.ask = TEN_ASK_UNDO;
    ten_op ops[] = {plain, kept, plain, ask, kept, undo, kept};
    ten_result results[TEN_COUNT(ops)];
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        expect_outcome(results[i], TEN_OK);
        if (ops[i].kind == TEN_OP_RENEW) {
            assert_in_range(results[i].ttl_ms, ops[i].ttl_ms, ops[i].ttl_ms + 1000);
            assert_int_equal(results[i].ask, i == 4 ? TEN_ASK_RESIGN : TEN_ASK_NOTHING);
        }
    }
    assert_in_range(read_lease(place, "plain").remaining_ms, 1, LONG_MS + 1000);
    assert_in_range(read_lease(place, "kept").remaining_ms, 2 * LONG_MS - LONG_MS / 4, 2 * LONG_MS + 1000);
}

CASE(heartbeats_and_renewals_travel_in_one_batch) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op ops[] = {
        {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1},
        {.kind = TEN_OP_RENEW,
         .namespace_name = place->ns,
         .target = "t",
         .holder = "a",
         .token = token,
         .ttl_ms = LONG_MS},
    };
    ten_result results[2];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ten_store_apply(place->store, ops, results, 2, CALL_MS), TENURE_OK);
        expect_outcome(results[0], TEN_OK);
        expect_outcome(results[1], TEN_OK);
        assert_int_equal(results[1].token, token);
    }
}

CASE(after_an_error_every_result_of_the_batch_is_that_error) {
    const struct place *place = *state;
    struct batch *batch = make_batch(place);
    batch->ops[MANY / 2].ttl_ms = 0;
    memset(batch->results, 0x7f, sizeof batch->results);
    assert_int_equal(ten_store_apply(place->store, batch->ops, batch->results, MANY, CALL_MS), TENURE_E_TTL);
    assert_true(place->store->error.message[0] != '\0');
    for (size_t i = 0; i < MANY; i++) {
        expect_outcome(batch->results[i], TEN_ERROR);
        assert_int_equal(batch->results[i].error, TENURE_E_TTL);
        expect_holder(batch->results[i], NULL);
        assert_int_equal(batch->results[i].token, 0);
    }
    /* The same batch, put right, may be sent again without harm. */
    batch->ops[MANY / 2].ttl_ms = LONG_MS;
    apply_batch(place, batch);
    for (size_t i = 0; i < MANY; i++)
        expect_outcome(batch->results[i], TEN_OK);
    free(batch);
}

CASE(the_same_batch_may_be_sent_again) {
    const struct place *place = *state;
    struct batch *batch = make_batch(place);
    uint64_t tokens[MANY];
    apply_batch(place, batch);
    for (size_t i = 0; i < MANY; i++)
        tokens[i] = batch->results[i].token;
    apply_batch(place, batch);
    for (size_t i = 0; i < MANY; i++) {
        expect_outcome(batch->results[i], TEN_OK);
        assert_int_equal(batch->results[i].token, tokens[i]);
    }
    free(batch);
}

CASE(an_empty_batch_is_nothing) {
    const struct place *place = *state;
    ten_op op = {0};
    ten_result result;
    assert_int_equal(ten_store_apply(place->store, &op, &result, 0, CALL_MS), TENURE_OK);
}

CASE(a_ping_works_and_leaves_nothing_to_see) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (int i = 0; i < 3; i++)
        assert_int_equal(place->store->ops->ping(place->store, CALL_MS), TENURE_OK);
    assert_int_equal(cursor_now(place->store, place->ns), cursor);
}

static void count_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                        void *userdata) {
    int *count = userdata;
    assert_in_range(level, TENURE_CHECK_OK, TENURE_CHECK_FAIL);
    assert_true(check[0] != '\0' && found[0] != '\0');
    assert_int_equal(advice[0] == '\0', level == TENURE_CHECK_OK);
    ++*count;
}

CASE(a_check_says_something_about_the_store) {
    const struct place *place = *state;
    int count = 0;
    assert_int_equal(place->store->ops->check(place->store, count_check, &count, CALL_MS), TENURE_OK);
    assert_true(count > 0);
    assert_true(place->store->capabilities.expiry_clock && place->store->capabilities.change_notice);
}
