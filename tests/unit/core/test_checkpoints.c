/*
 * The checkpoints of what a fleet member holds: what is known, what is sent, and what is told.
 */
#include "unit.h"

#include "core/checkpoints.h"
#include "part.h"

static struct {
    unsigned count;
    char target[32];
    uint64_t token;
    int error;
} told;

static void note(void *userdata, const ten_fact *fact) {
    (void)userdata;
    told.count++;
    snprintf(told.target, sizeof told.target, "%s", fact->id);
    told.token = fact->token;
    told.error = fact->error;
}

static ten_event_queue events = {.publish = note};

static ten_checkpoints book;

static int setup(void **state) {
    (void)state;
    memset(&told, 0, sizeof told);
    book = (ten_checkpoints){.namespace_name = "n", .instance = "me", .events = &events};
    ten_checkpoints_init(&book);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ten_checkpoints_free(&book);
    return 0;
}

static const ten_op *request(uint64_t now_ms, size_t *count) {
    return part_request(ten_checkpoints_step, &book, now_ms, count);
}

static void answer(uint64_t now_ms, int error, ten_result result) {
    part_answer(ten_checkpoints_step, &book, now_ms, error, &result);
}

TEST_WITH(what_came_with_the_grant_is_known_under_its_token, setup, teardown) {
    assert_true(ten_checkpoints_grant(&book, "t", 7, "here"));
    assert_string_equal(ten_checkpoints_value(&book, "t", 7), "here");
    assert_null(ten_checkpoints_value(&book, "t", 6));
    assert_null(ten_checkpoints_value(&book, "u", 7));
    assert_true(ten_checkpoints_grant(&book, "t", 8, NULL));
    assert_null(ten_checkpoints_value(&book, "t", 8));
    assert_int_equal(part_due(ten_checkpoints_due, &book, 5).next_ms, UINT64_MAX);
}

TEST_WITH(a_write_is_sent_once_told_and_known, setup, teardown) {
    size_t count;
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "a"), TENURE_OK);
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "b"), TENURE_E_INVALID);
    assert_int_equal(part_due(ten_checkpoints_due, &book, 5).next_ms, 5);
    const ten_op *op = request(5, &count);
    assert_int_equal(count, 1);
    assert_int_equal(op->kind, TEN_OP_CHECKPOINT);
    assert_string_equal(op->holder, "me");
    assert_int_equal(op->token, 7);
    assert_string_equal(op->checkpoint, "a");
    assert_null(ten_checkpoints_value(&book, "t", 7));
    answer(6, TENURE_OK, (ten_result){.outcome = TEN_OK});
    assert_int_equal(told.count, 1);
    assert_int_equal(told.error, TENURE_OK);
    assert_string_equal(ten_checkpoints_value(&book, "t", 7), "a");
    assert_null(request(7, &count));
    /* "" removes it. */
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, ""), TENURE_OK);
    assert_non_null(request(8, &count));
    answer(9, TENURE_OK, (ten_result){.outcome = TEN_OK});
    assert_null(ten_checkpoints_value(&book, "t", 7));
}

TEST_WITH(a_write_without_an_answer_is_repeated_as_it_was, setup, teardown) {
    size_t count;
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "a"), TENURE_OK);
    assert_non_null(request(1, &count));
    answer(2, TENURE_E_TIMEOUT, (ten_result){0});
    assert_int_equal(told.count, 0);
    const ten_op *op = request(3, &count);
    assert_non_null(op);
    assert_string_equal(op->checkpoint, "a");
    answer(4, TENURE_OK, (ten_result){.outcome = TEN_LOST});
    assert_int_equal(told.error, TENURE_E_LOST);
    assert_null(ten_checkpoints_value(&book, "t", 7));
}

TEST_WITH(a_store_that_recovers_is_asked_again_later, setup, teardown) {
    size_t count;
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "a"), TENURE_OK);
    assert_non_null(request(10, &count));
    answer(11, TENURE_OK, (ten_result){.outcome = TEN_HELD, .recovering = true, .remaining_ms = 100});
    assert_int_equal(told.count, 0);
    assert_null(request(50, &count));
    assert_int_equal(part_due(ten_checkpoints_due, &book, 50).next_ms, 111);
    assert_non_null(request(111, &count));
    answer(112, TENURE_OK, (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_UNSUPPORTED});
    assert_int_equal(told.error, TENURE_E_UNSUPPORTED);
}

TEST_WITH(a_newer_grant_ends_what_waits_and_a_late_answer_changes_nothing, setup, teardown) {
    size_t count;
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "a"), TENURE_OK);
    assert_non_null(request(1, &count));
    assert_true(ten_checkpoints_grant(&book, "t", 9, "theirs"));
    assert_int_equal(told.count, 1);
    assert_int_equal(told.token, 7);
    assert_int_equal(told.error, TENURE_E_LOST);
    answer(2, TENURE_OK, (ten_result){.outcome = TEN_OK});
    assert_int_equal(told.count, 1);
    assert_string_equal(ten_checkpoints_value(&book, "t", 9), "theirs");
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "late"), TENURE_E_LOST);
    assert_null(request(3, &count));
}

TEST_WITH(the_end_of_a_lease_ends_its_write, setup, teardown) {
    size_t count;
    assert_int_equal(ten_checkpoints_write(&book, "t", 7, "a"), TENURE_OK);
    assert_int_equal(ten_checkpoints_write(&book, "u", 7, "b"), TENURE_OK);
    ten_checkpoints_drop(&book, "t");
    assert_int_equal(told.error, TENURE_E_LOST);
    const ten_op *op = request(1, &count);
    assert_int_equal(count, 1);
    assert_string_equal(op->target, "u");
    ten_checkpoints_drop(&book, "u"); /* in flight */
    answer(2, TENURE_OK, (ten_result){.outcome = TEN_OK});
    assert_int_equal(told.count, 2);
    assert_null(ten_checkpoints_value(&book, "u", 7));
    assert_int_equal(ten_checkpoints_write(&book, "v", 1, "x"), TENURE_OK); /* left to the end */
    assert_non_null(request(3, &count));
    ten_checkpoints_drop(&book, "v");
}

TEST_WITH(many_go_in_several_requests, setup, teardown) {
    static ten_result results[TEN_CHECKPOINTS_BATCH];
    char target[16];
    size_t count;
    for (unsigned i = 0; i < 2 * TEN_CHECKPOINTS_BATCH - 10; i++) {
        snprintf(target, sizeof target, "t-%u", i);
        assert_int_equal(ten_checkpoints_write(&book, target, i + 1, "x"), TENURE_OK);
    }
    for (size_t i = 0; i < TEN_COUNT(results); i++)
        results[i].outcome = TEN_OK;
    for (unsigned i = 0; i < 2; i++) {
        assert_non_null(request(1, &count));
        assert_int_equal(count, i ? TEN_CHECKPOINTS_BATCH - 10 : TEN_CHECKPOINTS_BATCH);
        part_answer(ten_checkpoints_step, &book, 2, TENURE_OK, results);
    }
    assert_int_equal(told.count, 2 * TEN_CHECKPOINTS_BATCH - 10);
    assert_null(request(3, &count));
}
