/*
 * The queue of events (core/event_queue.h): order, growth, and the one rule for a program that does not take them.
 */
#include "unit/unit.h"

#include "base/alloc.h"
#include "core/event_queue.h"

static size_t take_all(ten_event_queue *queue, uint64_t first_token) {
    tenure_event event;
    size_t count = 0;
    for (; ten_event_queue_take(queue, &event); count++)
        assert_int_equal(event.token, first_token + count);
    return count;
}

static void put(ten_event_queue *queue, size_t count) {
    for (size_t i = 0; i < count; i++)
        ten_event_queue_put(queue, (tenure_event){.kind = TENURE_EVENT_RENEWED, .token = i + 1});
}

TEST(events_come_out_in_their_order_with_their_words) {
    ten_event_queue queue;
    tenure_event event;
    assert_true(ten_event_queue_open(&queue));
    ten_event_queue_put(&queue, (tenure_event){.kind = TENURE_EVENT_STORE_UP});
    ten_event_queue_put_about(&queue, (tenure_event){.kind = TENURE_EVENT_ACQUIRED, .reason = "expired"}, "t", "i");
    assert_true(ten_event_queue_take(&queue, &event));
    assert_string_equal(tenure_event_name(event.kind), "store_up");
    assert_string_equal(event.reason, "");
    assert_string_equal(event.target, "");
    assert_true(ten_event_queue_take(&queue, &event));
    assert_string_equal(tenure_event_name(event.kind), "lease_acquired");
    assert_string_equal(event.reason, "expired");
    assert_string_equal(event.target, "t");
    assert_string_equal(event.instance, "i");
    assert_false(ten_event_queue_take(&queue, &event));
    ten_event_queue_free(&queue);
}

TEST(it_grows_until_its_bound_then_the_oldest_goes) {
    ten_event_queue queue;
    assert_true(ten_event_queue_open(&queue));
    put(&queue, 5);
    assert_int_equal(take_all(&queue, 1), 5); /* so that it begins in the middle of the ring */
    put(&queue, TEN_EVENT_QUEUE_MAX);
    assert_int_equal(take_all(&queue, 1), TEN_EVENT_QUEUE_MAX);
    put(&queue, TEN_EVENT_QUEUE_MAX + 3);
    assert_int_equal(take_all(&queue, 4), TEN_EVENT_QUEUE_MAX);
    ten_event_queue_free(&queue);
}

TEST(one_that_is_unbounded_keeps_all) {
    ten_event_queue queue;
    assert_true(ten_event_queue_open(&queue));
    queue.unbounded = true;
    put(&queue, 3 * TEN_EVENT_QUEUE_MAX);
    assert_int_equal(take_all(&queue, 1), 3 * TEN_EVENT_QUEUE_MAX);
    ten_event_queue_free(&queue);
}

TEST(without_memory_the_oldest_goes_too) {
    ten_event_queue queue;
    assert_true(ten_event_queue_open(&queue));
    ten_alloc_fail_after(0);
    put(&queue, TEN_EVENT_QUEUE_MIN + 1);
    ten_alloc_fail_after(-1);
    assert_int_equal(take_all(&queue, 2), TEN_EVENT_QUEUE_MIN);
    ten_event_queue_free(&queue);
}

static void count_seen(void *userdata, const ten_fact *fact) {
    *(uint64_t *)userdata += fact->event->token;
}

TEST(each_is_seen_as_it_is_put) {
    uint64_t sum = 0;
    ten_event_queue queue;
    assert_true(ten_event_queue_open(&queue));
    queue.publish = count_seen;
    queue.userdata = &sum;
    put(&queue, 3);
    assert_int_equal(sum, 6);
    ten_event_queue_free(&queue);
}
