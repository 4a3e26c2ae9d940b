/*
 * The store contract: the feed of changes, and its cursors.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

#define FEED_SURPLUS 2000u /* a backend may keep so many entries more than it promises */

CASE(the_feed_tells_changes_of_hands_in_order_with_growing_cursors) {
    const struct place *place = *state;
    uint64_t wall_ms = ten_wall_ms(&ten_system_clock);
    uint64_t cursor = cursor_now(place->store, place->ns);
    uint64_t start = cursor;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    uint64_t next = must_acquire(place, "t", "b", LONG_MS);
    struct seen seen;
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 3);
    static const enum tenure_event_kind kinds[] = {TENURE_EVENT_ACQUIRED, TENURE_EVENT_RELEASED, TENURE_EVENT_ACQUIRED};
    const uint64_t tokens[] = {token, token, next};
    for (size_t i = 0; i < 3; i++) {
        const ten_change *change = &seen.at[i].change;
        assert_true(change->cursor > (i ? seen.at[i - 1].change.cursor : start));
        assert_int_equal(change->kind, kinds[i]);
        assert_int_equal(change->token, tokens[i]);
        assert_string_equal(change->namespace_name, place->ns);
        assert_string_equal(change->target, "t");
        assert_string_equal(change->instance, i == 2 ? "b" : "a");
        assert_string_equal(change->actor, "");
        assert_in_range(change->at_ms, wall_ms - 60000, wall_ms + 60000);
    }
    assert_int_equal(seen.at[1].change.reason, TEN_REASON_DONE);
    assert_true(cursor >= seen.at[2].change.cursor);
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

CASE(the_reason_of_a_release_comes_back) {
    const struct place *place = *state;
    static const enum ten_reason reasons[] = {TEN_REASON_SHUTDOWN, TEN_REASON_REBALANCE, TEN_REASON_DRAIN,
                                              TEN_REASON_REMOVED,  TEN_REASON_RESIGNED,  TEN_REASON_DONE,
                                              TEN_REASON_STORE,    TEN_REASON_CRASHED,   TEN_REASON_PAUSED};
    for (size_t i = 0; i < TEN_COUNT(reasons); i++) {
        uint64_t token = must_acquire(place, "t", "a", LONG_MS);
        uint64_t cursor = cursor_now(place->store, place->ns);
        ten_op release = {.kind = TEN_OP_RELEASE,
                          .namespace_name = place->ns,
                          .target = "t",
                          .holder = "a",
                          .token = token,
                          .reason = reasons[i]};
        expect_outcome(apply_one(place->store, release), TEN_OK);
        struct seen seen;
        read_changes(place->other, place->ns, &cursor, &seen);
        assert_int_equal(seen.count, 1);
        assert_int_equal(seen.at[0].change.reason, reasons[i]);
    }
}

CASE(a_lease_that_expired_is_told_when_the_target_is_acquired_next) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    uint64_t token = must_acquire(place, "t", "a", short_ttl(place->store));
    expect_outcome(acquire_within(place, "t", "b", LONG_MS, HANG_MS), TEN_OK);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.at[1].change.kind, TENURE_EVENT_LOST);
    assert_int_equal(seen.at[1].change.reason, TEN_REASON_EXPIRED);
    assert_string_equal(seen.at[1].change.instance, "a");
    assert_int_equal(seen.at[1].change.token, token);
    assert_int_equal(seen.at[2].change.kind, TENURE_EVENT_ACQUIRED);
}

CASE(what_is_asked_of_a_holder_is_told_and_what_is_taken_back_is_not) {
    const struct place *place = *state;
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = place->ns, .target = "t", .ask = TEN_ASK_RESIGN};
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_outcome(apply_one(place->store, ask), TEN_OK);
    ask.holder = "b";
    expect_outcome(apply_one(place->store, ask), TEN_LOST);
    ask.holder = "a";
    ask.ask = TEN_ASK_UNDO;
    expect_outcome(apply_one(place->store, ask), TEN_OK);
    ask.target = "free";
    ask.ask = TEN_ASK_RESIGN;
    expect_outcome(apply_one(place->store, ask), TEN_LOST);
    ask.target = "t";
    expect_outcome(apply_one(place->store, ask), TEN_OK);
    struct seen seen;
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    for (size_t i = 0; i < seen.count; i++) {
        const ten_change *change = &seen.at[i].change;
        assert_int_equal(change->kind, TENURE_EVENT_ASKED);
        assert_int_equal(change->reason, TEN_REASON_NONE);
        assert_int_equal(change->token, token);
        assert_string_equal(change->target, "t");
        assert_string_equal(change->instance, "a");
    }
    assert_string_equal(ten_event_name(TENURE_EVENT_ASKED), "lease_asked");
}

CASE(renewals_heartbeats_and_refusals_are_not_in_the_feed) {
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (int i = 0; i < 5; i++) {
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
        expect_outcome(renew(place, "t", NULL, token, 0), TEN_OK);
        expect_outcome(acquire(place, "t", "a", LONG_MS), TEN_OK);
        expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
        expect_outcome(acquire(place, "t", "b", LONG_MS), TEN_HELD);
        expect_outcome(release(place, "t", "b", token), TEN_LOST);
        expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_LOST);
    }
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

CASE(a_reader_of_one_namespace_sees_only_that_and_a_reader_of_all_sees_all) {
    const struct place *place = *state;
    struct place elsewhere = *place;
    make_namespace(elsewhere.ns);
    uint64_t start = cursor_now(place->store, place->ns);
    uint64_t start_elsewhere = cursor_now(place->store, elsewhere.ns);
    must_acquire(place, "t", "a", LONG_MS);
    must_acquire(&elsewhere, "u", "b", LONG_MS);
    must_acquire(place, "v", "c", LONG_MS);
    struct seen seen;
    uint64_t cursor = start;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.at[0].change.target, "t");
    assert_string_equal(seen.at[1].change.target, "v");
    assert_string_equal(seen.at[1].namespace_name, place->ns);
    cursor = start_elsewhere;
    read_changes(place->store, elsewhere.ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].change.target, "u");
    assert_string_equal(seen.at[0].namespace_name, elsewhere.ns);
    read_changes(place->store, elsewhere.ns, &cursor, &seen);
    assert_int_equal(seen.count, 0);
}

CASE(a_limit_gives_the_oldest_first_and_the_rest_later) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    for (int i = 0; i < 10; i++) {
        char target[8];
        snprintf(target, sizeof target, "t%d", i);
        must_acquire(place, target, "a", LONG_MS);
    }
    struct seen seen = {0};
    for (size_t reads = 1; reads <= 4; reads++) {
        assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 3, see_change, &seen, CALL_MS),
                         TENURE_OK);
        assert_int_equal(seen.count, reads < 4 ? 3 * reads : 10);
    }
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(seen.at[i].target[1], '0' + (int)i);
}

static int stop_at_second(const ten_change *change, void *userdata) {
    uint64_t *last = userdata;
    bool second = *last != 0;
    *last = change->cursor;
    return second ? 9 : 0;
}

CASE(a_callback_that_says_stop_ends_the_reading_with_its_word) {
    const struct place *place = *state;
    uint64_t cursor = cursor_now(place->store, place->ns);
    must_acquire(place, "t", "a", LONG_MS);
    must_acquire(place, "u", "a", LONG_MS);
    must_acquire(place, "v", "a", LONG_MS);
    uint64_t last = 0;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 10, stop_at_second, &last, CALL_MS),
                     9);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].change.target, "v");
}

static int count_change(const ten_change *change, void *userdata) {
    size_t *count = userdata;
    (void)change;
    ++*count;
    return 0;
}

/* How many entries can be read. From how far back? By halving; cursors need not be without gaps. */
static size_t count_kept(const struct place *place, uint64_t before_all) {
    uint64_t low = before_all;
    uint64_t high = cursor_now(place->store, place->ns);
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t at = middle;
        size_t ignored = 0;
        int r = place->store->ops->changes(place->store, place->ns, &at, 1, count_change, &ignored, CALL_MS);
        assert_true(r == TENURE_OK || r == TENURE_E_RESYNC);
        if (r == TENURE_OK)
            high = middle;
        else
            low = middle;
    }
    size_t kept = 0;
    uint64_t from;
    do { /* a server has pages of its own */
        from = high;
        assert_int_equal(
            place->store->ops->changes(place->store, place->ns, &high, 100000, count_change, &kept, CALL_MS),
            TENURE_OK);
    } while (high != from);
    return kept;
}

static void change_all(const struct place *place, const ten_op *ops, ten_result *results, size_t count) {
    assert_int_equal(ten_store_apply(place->store, ops, results, count, 30000), TENURE_OK);
    for (size_t i = 0; i < count; i++)
        expect_outcome(results[i], TEN_OK);
}

/* More changes than the feed keeps, a thousand operations at a time. */
static void overflow_feed(const struct place *place, uint64_t before) {
    enum { TARGETS = 250, OPS = 4 * TARGETS };
    ten_op *ops = calloc(OPS, sizeof *ops);
    ten_result *results = calloc(OPS, sizeof *results);
    char(*targets)[8] = calloc(TARGETS, sizeof *targets);
    assert_true(ops && results && targets);
    for (size_t i = 0; i < TARGETS; i++) {
        snprintf(targets[i], sizeof targets[i], "f%zu", i);
        for (size_t j = 0; j < 4; j++)
            ops[j * TARGETS + i] = (ten_op){.kind = j % 2 ? TEN_OP_RELEASE : TEN_OP_ACQUIRE,
                                            .flags = j % 2 ? TEN_OP_FORCE_NOW : 0,
                                            .namespace_name = place->ns,
                                            .target = targets[i],
                                            .holder = j % 2 ? NULL : "a",
                                            .ttl_ms = j % 2 ? 0 : LONG_MS};
    }
    size_t written = 0;
    uint64_t begin_ms = now_ms();
    for (; written <= TEN_FEED_MAX + FEED_SURPLUS + 1000; written += OPS)
        change_all(place, ops, results, OPS);
    /* What is young stays, at the start of a large fleet; on a busy machine it may have become old meanwhile. */
    if (suite_fixture.kind && suite_fixture.kind->age_feed) {
        if (now_ms() - begin_ms < TEN_FEED_YOUNG_MS)
            assert_in_range(count_kept(place, before), written, written + 10);
        suite_fixture.kind->age_feed(&suite_fixture);
        for (int i = 0; i < 8 && (i == 0 || count_kept(place, before) > TEN_FEED_MAX + FEED_SURPLUS); i++)
            change_all(place, ops, results, OPS); /* a trimming has a bound */
    }
    free(ops);
    free(results);
    free(targets);
}

/* In one case, because filling it takes its time. */
CASE(a_feed_that_is_overrun_keeps_the_promised_number_and_readers_start_over_from_this_moment) {
    const struct place *place = *state;
    uint64_t old = cursor_now(place->store, place->ns);
    must_acquire(place, "t", "a", LONG_MS);
    overflow_feed(place, old);
    uint64_t moment = cursor_now(place->store, place->ns);
    size_t count = 0;
    uint64_t cursor = old;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 10, count_change, &count, CALL_MS),
                     TENURE_E_RESYNC);
    assert_int_equal(count, 0); /* nothing was lost: there is no epoch to hear of */
    assert_int_equal(cursor, moment);
    assert_true(place->store->error.message[0] != '\0');
    assert_in_range(count_kept(place, old), TEN_FEED_MAX, TEN_FEED_MAX + FEED_SURPLUS);
    must_acquire(place, "u", "a", LONG_MS);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].change.target, "u");
}

CASE(a_cursor_from_the_future_has_to_start_over) {
    const struct place *place = *state;
    uint64_t moment = cursor_now(place->store, place->ns);
    uint64_t cursor = moment + 1000000;
    struct seen seen = {0};
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 10, see_change, &seen, CALL_MS),
                     TENURE_E_RESYNC);
    assert_int_equal(cursor, moment);
    /* The store that gave it has been here, and is gone. */
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
}
