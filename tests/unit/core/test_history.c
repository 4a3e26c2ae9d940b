/*
 * The history: what lies between the entries of a feed, at the feed's edges, too.
 */
#include "unit/unit.h"

#include "core/history.h"

#define NOW_MS UINT64_C(1800000000000)
#define TTL_MS UINT64_C(30000)

struct seen {
    ten_change at[32];
    size_t count;
};

static int see(const ten_change *change, void *userdata) {
    struct seen *seen = userdata;
    seen->at[seen->count++] = *change;
    return 0;
}

static ten_history *begin(const char *target, uint64_t since_ms, size_t limit) {
    ten_history *history = ten_history_new(&(ten_history_config){
        .target = target, .now_ms = NOW_MS, .since_ms = since_ms, .ttl_ms = TTL_MS, .limit = limit});
    assert_non_null(history);
    return history;
}

/* `ago_ms` before now. */
static void add(ten_history *history, uint64_t ago_ms, enum tenure_event_kind kind, const char *target,
                const char *instance, uint64_t token, enum ten_reason reason) {
    static uint64_t cursor;
    ten_change change = {.cursor = ++cursor,
                         .at_ms = NOW_MS - ago_ms,
                         .kind = kind,
                         .reason = reason,
                         .namespace_name = "poll",
                         .target = target,
                         .instance = instance,
                         .actor = "",
                         .token = token};
    assert_int_equal(ten_history_add(&change, history), TENURE_OK);
}

static void end(ten_history *history, struct seen *seen) {
    /* The texts are the history's: it lives until the test is over. */
    *seen = (struct seen){0};
    assert_int_equal(ten_history_each(history, "poll", see, seen), 0);
}

TEST(a_forced_lease_has_one_end_and_is_free_when_its_holder_has_released_it) {
    ten_history *history = begin(NULL, 0, 100);
    struct seen seen;
    add(history, 9000, TENURE_EVENT_ACQUIRED, "t", "a", 1, TEN_REASON_NONE);
    add(history, 8000, TENURE_EVENT_LOST, "t", "a", 1, TEN_REASON_FORCED);
    add(history, 7000, TENURE_EVENT_RELEASED, "t", "a", 1, TEN_REASON_REBALANCE);
    add(history, 6500, TENURE_EVENT_ACQUIRED, "t", "b", 2, TEN_REASON_NONE);
    end(history, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.at[1].reason, TEN_REASON_FORCED);
    assert_int_equal(seen.at[2].free_ms, 500);
    ten_history_free(history);
}

TEST(what_began_before_the_feed_is_not_known) {
    ten_history *history = begin(NULL, 0, 100);
    struct seen seen;
    add(history, 9000, TENURE_EVENT_RELEASED, "t", "a", 1, TEN_REASON_REBALANCE);
    add(history, 8500, TENURE_EVENT_ACQUIRED, "t", "b", 2, TEN_REASON_NONE);
    add(history, 8000, TENURE_EVENT_ACQUIRED, "u", "b", 5, TEN_REASON_NONE);
    end(history, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.at[0].held_ms, 0);
    assert_int_equal(seen.at[1].free_ms, 500);
    assert_int_equal(seen.at[2].free_ms, 0);
    ten_history_free(history);
}

TEST(a_holder_whose_acquire_was_not_seen_is_not_given_the_time_of_another) {
    ten_history *history = begin("t", 0, 100);
    struct seen seen;
    add(history, 9000, TENURE_EVENT_ACQUIRED, "t", "a", 1, TEN_REASON_NONE);
    add(history, 5000, TENURE_EVENT_RELEASED, "t", "b", 3, TEN_REASON_DONE);
    end(history, &seen);
    assert_int_equal(seen.at[1].held_ms, 0);
    ten_history_free(history);
}

TEST(a_lease_that_was_put_back_goes_on) {
    ten_history *history = begin("t", 0, 100);
    struct seen seen;
    add(history, 9000, TENURE_EVENT_ACQUIRED, "t", "a", 7, TEN_REASON_NONE);
    add(history, 6000, TENURE_EVENT_RECOVERING, "", "", 0, TEN_REASON_NONE);
    add(history, 5000, TENURE_EVENT_ACQUIRED, "t", "a", 7, TEN_REASON_NONE);
    add(history, 1000, TENURE_EVENT_RELEASED, "t", "a", 7, TEN_REASON_SHUTDOWN);
    end(history, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.at[1].free_ms, 0);
    assert_int_equal(seen.at[2].held_ms, 8000);
    ten_history_free(history);
}

TEST(a_target_that_nobody_took_for_longer_than_the_ttl_was_unowned) {
    ten_history *history = begin(NULL, 0, 100);
    struct seen seen;
    add(history, 200000, TENURE_EVENT_ACQUIRED, "t", "a", 1, TEN_REASON_NONE);
    add(history, 190000, TENURE_EVENT_LEFT, "", "a", 0, TEN_REASON_EXPIRED);
    /* Noticed by the next acquire, but it ended before. */
    add(history, 180000, TENURE_EVENT_LOST, "t", "a", 1, TEN_REASON_EXPIRED);
    add(history, 100000, TENURE_EVENT_ACQUIRED, "t", "b", 2, TEN_REASON_NONE);
    end(history, &seen);
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.at[2].kind, TENURE_EVENT_LOST);
    assert_int_equal(seen.at[2].held_ms, 20000);
    assert_int_equal(seen.at[3].kind, TENURE_EVENT_UNOWNED);
    assert_string_equal(ten_event_name(seen.at[3].kind), "target_unowned");
    assert_int_equal(seen.at[3].at_ms, NOW_MS - 180000 + TTL_MS);
    assert_int_equal(seen.at[3].free_ms, 80000);
    assert_int_equal(seen.at[3].reason, TEN_REASON_EXPIRED);
    assert_string_equal(seen.at[3].instance, "a");
    assert_int_equal(seen.at[4].free_ms, 80000);
    ten_history_free(history);
}

TEST(a_target_that_is_nobodys_still_is_unowned_and_one_whose_work_is_over_is_not) {
    static const enum ten_reason over[] = {TEN_REASON_DONE, TEN_REASON_REMOVED, TEN_REASON_RESIGNED};
    ten_history *history = begin(NULL, 0, 100);
    struct seen seen;
    for (size_t i = 0; i < TEN_COUNT(over); i++)
        add(history, 90000, TENURE_EVENT_RELEASED, i == 0 ? "r" : i == 1 ? "s" : "u", "a", 1, over[i]);
    add(history, 80000, TENURE_EVENT_RELEASED, "gone", "a", 1, TEN_REASON_SHUTDOWN);
    add(history, 70000, TENURE_EVENT_TARGET_REMOVED, "gone", "", 0, TEN_REASON_NONE);
    add(history, 60000, TENURE_EVENT_RELEASED, "t", "a", 1, TEN_REASON_SHUTDOWN);
    add(history, 20000, TENURE_EVENT_RELEASED, "v", "a", 1, TEN_REASON_SHUTDOWN);
    end(history, &seen);
    size_t unowned = 0;
    for (size_t i = 0; i < seen.count; i++) {
        if (seen.at[i].kind != TENURE_EVENT_UNOWNED)
            continue;
        unowned++;
        assert_string_equal(seen.at[i].target, "t");
        assert_int_equal(seen.at[i].free_ms, 60000);
    }
    assert_int_equal(unowned, 1);
    ten_history_free(history);
}

TEST(only_what_is_wanted_is_shown_and_nothing_older_than_thirty_days) {
    struct seen seen;
    for (int all = 0; all < 2; all++) {
        ten_history *history = begin(all ? NULL : "t", all ? NOW_MS - 10000 : 0, all ? 2 : 100);
        add(history, TEN_FEED_AGE_MS + 1000, TENURE_EVENT_ACQUIRED, "t", "a", 1, TEN_REASON_NONE);
        add(history, TEN_FEED_AGE_MS - 1000, TENURE_EVENT_RELEASED, "t", "a", 1, TEN_REASON_DONE);
        add(history, 9000, TENURE_EVENT_ACQUIRED, "u", "a", 1, TEN_REASON_NONE);
        add(history, 8000, TENURE_EVENT_ACQUIRED, "t", "a", 2, TEN_REASON_NONE);
        add(history, 7000, TENURE_EVENT_RELEASED, "t", "a", 2, TEN_REASON_DONE);
        end(history, &seen);
        assert_int_equal(seen.count, all ? 2 : 3);
        assert_int_equal(seen.at[0].kind, all ? TENURE_EVENT_ACQUIRED : TENURE_EVENT_RELEASED);
        /* What is not shown explains what is. */
        assert_int_equal(seen.at[0].held_ms, all ? 0 : 2000);
        assert_int_equal(seen.at[seen.count - 1].held_ms, 1000);
        ten_history_free(history);
    }
}
