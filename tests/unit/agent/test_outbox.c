/*
 * Messages on their way: their order, their end, and how many there may be.
 */
#include "unit/unit.h"

#include "agent/sinks/outbox.h"
#include "base/alloc.h"
#include "base/io.h"

#define NEVER UINT64_MAX

static bool put(ten_outbox *outbox, const char *json, uint64_t ends_ms) {
    const ten_message message = {.namespace_name = "poll", .target = "t", .instance = "i", .token = 7};
    return ten_outbox_put(outbox, "name", &message, NULL, ends_ms, json, strlen(json));
}

static uint64_t soon_ms(uint64_t ms) {
    return ten_boot_ms(&ten_system_clock) + ms;
}

/* What is sent, one after the other, with blanks between. */
static const char *send_all(ten_outbox *outbox) {
    static char sent[256];
    sent[0] = '\0';
    for (const ten_outgoing *next; (next = ten_outbox_send_next(outbox));) {
        size_t used = strlen(sent);
        snprintf(sent + used, sizeof sent - used, "%s%s", used ? " " : "", next->json);
    }
    return sent;
}

static uint64_t dropped(ten_outbox *outbox) {
    ten_sink_event event;
    ten_outbox_take_event(outbox, &event);
    return event.dropped;
}

TEST(a_message_keeps_what_it_was_given) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    assert_true(put(&outbox, "{}", NEVER));
    const ten_outgoing *sent = ten_outbox_send_next(&outbox);
    assert_string_equal(sent->name, "name");
    assert_string_equal(sent->target, "t");
    assert_string_equal(sent->instance, "i");
    assert_int_equal(sent->token, 7);
    assert_string_equal(sent->json, "{}");
    assert_int_equal(sent->json_size, 2);
    ten_outbox_free(&outbox);
}

TEST(what_was_not_confirmed_is_sent_again_in_order) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    put(&outbox, "1", NEVER);
    put(&outbox, "2", NEVER);
    put(&outbox, "3", NEVER);
    assert_string_equal(send_all(&outbox), "1 2 3");
    ten_outbox_finish(&outbox, TAILQ_NEXT(TAILQ_FIRST(&outbox.sent), link), false);
    put(&outbox, "4", NEVER);
    ten_outbox_go_back(&outbox);
    assert_int_equal(outbox.sent_count, 0);
    assert_string_equal(send_all(&outbox), "1 3 4");
    while (!TAILQ_EMPTY(&outbox.sent))
        ten_outbox_finish(&outbox, TAILQ_FIRST(&outbox.sent), false);
    assert_int_equal(ten_outbox_count(&outbox), 0);
    put(&outbox, "5", NEVER);
    assert_string_equal(send_all(&outbox), "5");
    ten_outbox_free(&outbox);
}

TEST(the_last_one_sent_can_be_confirmed_first) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    put(&outbox, "1", NEVER);
    put(&outbox, "2", NEVER);
    (void)send_all(&outbox);
    ten_outbox_finish(&outbox, TAILQ_NEXT(TAILQ_FIRST(&outbox.sent), link), false);
    put(&outbox, "3", NEVER);
    (void)send_all(&outbox);
    ten_outbox_go_back(&outbox);
    assert_string_equal(send_all(&outbox), "1 3");
    ten_outbox_free(&outbox);
}

TEST(a_message_whose_lease_has_ended_is_dropped) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    put(&outbox, "1", soon_ms(0));
    put(&outbox, "2", NEVER);
    assert_string_equal(send_all(&outbox), "2");
    assert_int_equal(dropped(&outbox), 1);
    ten_outbox_free(&outbox);
}

TEST(a_message_whose_lease_has_ended_is_not_sent_again) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    put(&outbox, "1", NEVER);
    put(&outbox, "2", NEVER);
    put(&outbox, "3", NEVER);
    (void)send_all(&outbox);
    TAILQ_NEXT(TAILQ_FIRST(&outbox.sent), link)->ends_ms = soon_ms(0);
    ten_outbox_go_back(&outbox);
    ten_outbox_drop_late(&outbox);
    assert_int_equal(dropped(&outbox), 1);
    assert_string_equal(send_all(&outbox), "1 3");
    ten_outbox_free(&outbox);
}

/* ---- receipts */

static bool put_with(ten_outbox *outbox, ten_receipt *receipt) {
    const ten_message message = {.namespace_name = "poll", .target = "t", .instance = "i", .token = 7};
    return ten_outbox_put(outbox, "name", &message, receipt, NEVER, "x", 1);
}

/* Two sinks, and a message that both have. */
struct two {
    ten_receipts *receipts;
    ten_receipt *receipt;
    ten_outbox boxes[2];
};

static struct two *open_two(void) {
    static struct two two;
    ten_error error;
    assert_int_equal(ten_receipts_open(&two.receipts, &error), TENURE_OK);
    two.receipt = ten_receipt_make(two.receipts, &two);
    for (size_t i = 0; i < 2; i++) {
        ten_outbox_init(&two.boxes[i]);
        assert_true(put_with(&two.boxes[i], two.receipt));
    }
    return &two;
}

static void close_two(struct two *two) {
    for (size_t i = 0; i < 2; i++)
        ten_outbox_free(&two->boxes[i]);
    ten_receipts_close(two->receipts);
}

TEST(the_loop_hears_of_a_message_when_it_has_left_all_sinks) {
    struct two *two = open_two();
    assert_true(ten_receipt_is_open(two->receipt));
    ten_outbox_finish(&two->boxes[0], ten_outbox_send_next(&two->boxes[0]), false);
    assert_true(ten_receipt_is_open(two->receipt));
    assert_null(ten_receipts_take(two->receipts));
    ten_outgoing *second = ten_outbox_send_next(&two->boxes[1]);
    assert_null(ten_receipts_take(two->receipts));
    ten_outbox_finish(&two->boxes[1], second, true);
    assert_false(ten_receipt_is_open(two->receipt));
    assert_int_equal(ten_wait_readable(ten_receipts_fd(two->receipts), -1, 0), 1);
    assert_ptr_equal(ten_receipts_take(two->receipts), two);
    assert_null(ten_receipts_take(two->receipts));
    assert_int_equal(ten_wait_readable(ten_receipts_fd(two->receipts), -1, 0), 0);
    ten_receipt_forget(two->receipt);
    close_two(two);
}

TEST(a_message_that_was_withdrawn_does_not_leave) {
    struct two *two = open_two();
    (void)ten_outbox_send_next(&two->boxes[0]);
    ten_receipt_withdraw(two->receipt);
    assert_null(ten_outbox_send_next(&two->boxes[1]));
    assert_int_equal(dropped(&two->boxes[1]), 1);
    assert_true(ten_receipt_is_open(two->receipt)); /* the first has begun to leave */
    ten_outbox_go_back(&two->boxes[0]);             /* and has not: it never will */
    assert_false(ten_receipt_is_open(two->receipt));
    assert_ptr_equal(ten_receipts_take(two->receipts), two);
    ten_outbox_drop_late(&two->boxes[0]);
    assert_int_equal(dropped(&two->boxes[0]), 1);
    ten_receipt_forget(two->receipt);
    close_two(two);
}

TEST(a_receipt_that_the_loop_has_forgotten_lives_until_the_sinks_have_let_go) {
    struct two *two = open_two();
    ten_outgoing *first = ten_outbox_send_next(&two->boxes[0]);
    ten_receipt_withdraw(two->receipt);
    ten_receipt_forget(two->receipt);
    ten_outbox_finish(&two->boxes[0], first, false);
    assert_null(ten_receipts_take(two->receipts));
    ten_receipts_close(two->receipts); /* the second sink still has it */
    ten_outbox_free(&two->boxes[1]);
    ten_outbox_free(&two->boxes[0]);
}

TEST(one_that_was_told_and_then_forgotten_is_not_taken) {
    struct two *two = open_two();
    for (size_t i = 0; i < 2; i++)
        ten_outbox_finish(&two->boxes[i], ten_outbox_send_next(&two->boxes[i]), false);
    ten_receipt_forget(two->receipt);
    assert_null(ten_receipts_take(two->receipts));
    close_two(two);
}

TEST(there_is_an_end_to_its_size) {
    enum { SIZE = 1024 * 1024 };
    static char large[SIZE + 1];
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    memset(large, 'x', SIZE);
    unsigned taken = 0;
    while (taken < 100 && put(&outbox, large, NEVER))
        taken++;
    assert_int_equal(taken, 7);
    /* What is late makes room. */
    TAILQ_FIRST(&outbox.waiting)->ends_ms = soon_ms(0);
    assert_true(put(&outbox, large, NEVER));
    assert_int_equal(dropped(&outbox), 1);
    assert_false(put(&outbox, large, NEVER));
    ten_outbox_free(&outbox);
}

TEST(a_failure_is_told_once_and_its_end_when_a_message_got_there) {
    ten_outbox outbox;
    ten_sink_event event;
    ten_error error;
    ten_outbox_init(&outbox);
    ten_fail(&error, TENURE_E_UNREACHABLE, "away");
    ten_outbox_note_problem(&outbox, &error);
    ten_outbox_note_problem(&outbox, &error);
    ten_outbox_take_event(&outbox, &event);
    assert_int_equal(event.problem.code, TENURE_E_UNREACHABLE);
    assert_false(event.works_again);
    ten_outbox_note_problem(&outbox, &error);
    ten_outbox_take_event(&outbox, &event);
    assert_int_equal(event.problem.code, 0);
    put(&outbox, "1", NEVER);
    put(&outbox, "2", NEVER);
    (void)send_all(&outbox);
    ten_outbox_finish(&outbox, TAILQ_FIRST(&outbox.sent), true);
    ten_outbox_take_event(&outbox, &event);
    assert_false(event.works_again);
    ten_outbox_finish(&outbox, TAILQ_FIRST(&outbox.sent), false);
    ten_outbox_take_event(&outbox, &event);
    assert_true(event.works_again);
    ten_outbox_free(&outbox);
}

TEST(without_memory_a_message_is_not_taken) {
    ten_outbox outbox;
    ten_outbox_init(&outbox);
    ten_alloc_fail_after(0);
    assert_false(put(&outbox, "1", NEVER));
    ten_alloc_fail_after(-1);
    assert_int_equal(ten_outbox_count(&outbox), 0);
    ten_outbox_free(&outbox);
}
