/*
 * The engine (core/engine.h) with a part that only counts: which call is wanted when, and what an answer leads to. It
 * is told the time, so nothing here waits.
 */
#include "unit/unit.h"

#include "core/engine.h"

enum { START = 1000, GAP = 50, PAGE = 3, FEED = 10000 };

struct fake {
    ten_event_queue events;
    ten_engine engine;
    uint64_t request_ms; /* when it wants to send */
    uint64_t urgent_ms;
    uint64_t deadline_ms;
    uint64_t list_instances_ms;
    uint64_t list_again_ms;
    unsigned requests, answers, errors, expired, followed, changes, fed, instances, rows, listings, checked, removed;
    ten_op op;
};

static void request(struct fake *fake, uint64_t now_ms, ten_part_update *update) {
    if (now_ms < fake->request_ms)
        return;
    fake->requests++;
    update->ops = &fake->op;
    update->count = 1;
}

static void step(void *part, const ten_engine_event *event, ten_part_update *update) {
    struct fake *fake = part;
    fake->expired += event->kind == TEN_ON_TIMER && event->now_ms >= fake->deadline_ms;
    fake->answers += event->kind == TEN_ON_ANSWER;
    fake->errors += event->kind == TEN_ON_ANSWER && event->error < 0;
    fake->followed += event->kind == TEN_ON_FOLLOW;
    fake->changes += event->kind == TEN_ON_CHANGE;
    fake->fed += event->kind == TEN_ON_FED;
    fake->instances += event->kind == TEN_ON_INSTANCE;
    fake->listings += event->kind == TEN_ON_LISTING;
    fake->rows += event->kind == TEN_ON_ROW;
    fake->checked += event->kind == TEN_ON_CHECKED;
    fake->removed += event->kind == TEN_ON_ABSENT;
    if (event->kind == TEN_ON_REQUEST)
        request(fake, event->now_ms, update);
    else if (event->kind == TEN_ON_INSTANCES)
        fake->list_instances_ms = UINT64_MAX;
    else if (event->kind == TEN_ON_LISTING_END)
        update->lacks = fake->list_again_ms != UINT64_MAX;
    else if (event->kind == TEN_ON_CHECKED)
        update->at_ms = fake->list_again_ms;
}

static void due(const void *part, uint64_t now_ms, ten_part_due *ret_due) {
    const struct fake *fake = part;
    (void)now_ms;
    ret_due->next_ms = fake->request_ms;
    ret_due->urgent_ms = fake->urgent_ms;
    ret_due->deadline_ms = fake->deadline_ms;
    ret_due->instances_ms = fake->list_instances_ms;
}

/* ---- a store that does as it is told */

static int open_fake(void **state) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    assert_true(ten_event_queue_open(&fake->events));
    fake->request_ms = fake->urgent_ms = fake->deadline_ms = UINT64_MAX;
    fake->list_instances_ms = fake->list_again_ms = UINT64_MAX;
    ten_engine_config config = {.step = step,
                                .due = due,
                                .part = fake,
                                .events = &fake->events,
                                .backoff_max_ms = 400,
                                .feed_gap_ms = GAP,
                                .feed_size = FEED,
                                .page_size = PAGE,
                                .lists = true,
                                .registrations = true};
    ten_engine_init(&fake->engine, &config, START);
    *state = fake;
    return 0;
}

static int close_fake(void **state) {
    struct fake *fake = *state;
    ten_engine_free(&fake->engine);
    ten_event_queue_free(&fake->events);
    free(fake);
    return 0;
}

#define ENGINE_TEST(name) TEST_WITH(name, open_fake, close_fake)

static void hand(struct fake *fake, uint64_t now_ms, ten_engine_event event) {
    event.now_ms = now_ms;
    ten_engine_step(&fake->engine, &event, NULL);
}

static ten_call next_call(struct fake *fake, uint64_t now_ms) {
    ten_update update;
    ten_engine_step(&fake->engine, &(ten_engine_event){.kind = TEN_ON_TIMER, .now_ms = now_ms}, &update);
    assert_true(update.call.kind || update.next_ms == ten_engine_look(&fake->engine, now_ms).next_ms);
    return update.call;
}

static uint64_t next_ms(const struct fake *fake, uint64_t now_ms) {
    return ten_engine_look(&fake->engine, now_ms).next_ms;
}

static void notice(struct fake *fake, uint64_t now_ms) {
    hand(fake, now_ms, (ten_engine_event){.kind = TEN_ON_NOTICE});
}

static ten_call expect(struct fake *fake, uint64_t now_ms, enum ten_call_kind kind) {
    ten_call call = next_call(fake, now_ms);
    assert_int_equal(call.kind, kind);
    return call;
}

static void answer_with(struct fake *fake, uint64_t now_ms, int error, uint64_t cursor) {
    hand(fake, now_ms, (ten_engine_event){.kind = TEN_ON_ANSWER, .error = error, .cursor = cursor});
}

static void bring_rows(struct fake *fake, uint64_t now_ms, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        hand(fake, now_ms,
             (ten_engine_event){.kind = TEN_ON_ROW, .row = &(ten_row){.target = {.id = id}, .registered = true}});
    }
}

static void bring_change(struct fake *fake, uint64_t now_ms, enum tenure_event_kind kind, const char *target) {
    hand(fake, now_ms,
         (ten_engine_event){.kind = TEN_ON_CHANGE,
                            .change = &(ten_change){.kind = kind, .target = target, .instance = ""}});
}

/* The first cursor, and an empty listing. */
static void settle(struct fake *fake) {
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_NONE);
    assert_int_equal(next_ms(fake, START), UINT64_MAX);
}

/* ---- reading everything */

ENGINE_TEST(the_cursor_comes_first_then_everything_page_by_page) {
    struct fake *fake = *state;
    ten_call call = expect(fake, START, TEN_CALL_CHANGES);
    assert_int_equal(call.cursor, TEN_CURSOR_NOW);
    expect(fake, START, TEN_CALL_NONE); /* one call at a time */
    answer_with(fake, START, TENURE_OK, 7);
    assert_int_equal(fake->followed, 1);
    call = expect(fake, START, TEN_CALL_LIST);
    assert_string_equal(call.after, "");
    assert_int_equal(call.limit, PAGE);
    bring_rows(fake, START, 0, PAGE);
    answer_with(fake, START, TENURE_OK, 0);
    call = expect(fake, START, TEN_CALL_LIST);
    assert_string_equal(call.after, "t-2");
    bring_rows(fake, START, PAGE, PAGE - 1);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_NONE);
    assert_int_equal(fake->listings, 1);
    assert_int_equal(fake->rows, 2 * PAGE - 1);
}

/* The feed is followed meanwhile: nothing is missed, and the cursor of before can show an epoch. */
ENGINE_TEST(a_page_that_fails_is_read_again_where_it_was) {
    struct fake *fake = *state;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    bring_rows(fake, START, 0, PAGE);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_E_TIMEOUT, 0);
    expect(fake, START, TEN_CALL_NONE);
    uint64_t again_ms = next_ms(fake, START);
    assert_in_range(again_ms, START + 1, START + 1000);
    assert_string_equal(expect(fake, again_ms, TEN_CALL_LIST).after, "t-2");
    answer_with(fake, again_ms, TENURE_OK, 0);
    assert_int_equal(fake->listings, 1);
    assert_int_equal(fake->followed, 1);
    notice(fake, again_ms);
    assert_int_equal(expect(fake, again_ms + GAP, TEN_CALL_CHANGES).cursor, 7);
}

ENGINE_TEST(entries_that_were_missed_lead_to_one_listing_not_to_many) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + GAP);
    assert_int_equal(expect(fake, START + GAP, TEN_CALL_CHANGES).cursor, 7);
    answer_with(fake, START + GAP, TENURE_E_RESYNC, 20);
    assert_int_equal(fake->followed, 2);
    expect(fake, START + GAP, TEN_CALL_LIST);
    answer_with(fake, START + GAP, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(fake->listings, 2);
    notice(fake, START + 3 * GAP);
    assert_int_equal(expect(fake, START + 3 * GAP, TEN_CALL_CHANGES).cursor, 20);
}

ENGINE_TEST(a_listing_under_way_is_read_to_its_end_when_entries_were_missed_and_then_once_more) {
    struct fake *fake = *state;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    for (unsigned i = 0; i < 3; i++) { /* between all pages */
        uint64_t now_ms = START + (i + 1) * GAP;
        expect(fake, now_ms, TEN_CALL_LIST);
        bring_rows(fake, now_ms, i * PAGE, PAGE);
        answer_with(fake, now_ms, TENURE_OK, 0);
        notice(fake, now_ms);
        expect(fake, now_ms, TEN_CALL_CHANGES);
        bring_change(fake, now_ms, TENURE_EVENT_TARGET_ADDED, "not-remembered");
        answer_with(fake, now_ms, TENURE_E_RESYNC, 100 * i);
    }
    assert_string_equal(expect(fake, START + 4 * GAP, TEN_CALL_LIST).after, "t-8");
    answer_with(fake, START + 4 * GAP, TENURE_OK, 0);
    assert_int_equal(fake->listings, 1);
    assert_string_equal(expect(fake, START + 4 * GAP, TEN_CALL_LIST).after, "");
    answer_with(fake, START + 4 * GAP, TENURE_OK, 0);
    expect(fake, START + 4 * GAP, TEN_CALL_NONE);
    assert_int_equal(fake->listings, 2);
}

/* A feed that goes on shows that the store had lost nothing. */
ENGINE_TEST(what_a_listing_lacks_is_believed_after_the_feed_was_read_once_more) {
    struct fake *fake = *state;
    fake->list_again_ms = START + 500;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + GAP, TENURE_E_TIMEOUT, 0);
    assert_int_equal(fake->checked, 0);
    notice(fake, START + 2 * GAP);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + 2 * GAP, TENURE_OK, 7);
    assert_int_equal(fake->checked, 1);
    assert_int_equal(next_ms(fake, START + 2 * GAP), START + 500);
    expect(fake, START + 499, TEN_CALL_NONE);
    expect(fake, START + 500, TEN_CALL_LIST);
}

ENGINE_TEST(whoever_lost_a_registration_has_them_listed_again) {
    struct fake *fake = *state;
    settle(fake);
    hand(fake, START + 1, (ten_engine_event){.kind = TEN_ON_RELIST});
    expect(fake, START + 1, TEN_CALL_LIST);
    hand(fake, START + 2,
         (ten_engine_event){.kind = TEN_ON_RELIST}); /* of the listing under way it may have lost something, too */
    answer_with(fake, START + 2, TENURE_OK, 0);
    expect(fake, START + 2, TEN_CALL_LIST);
    answer_with(fake, START + 2, TENURE_OK, 0);
    expect(fake, START + 3, TEN_CALL_NONE);
    assert_int_equal(fake->followed, 1);
}

ENGINE_TEST(an_epoch_leads_to_a_listing) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    bring_change(fake, START + GAP, TENURE_EVENT_RECOVERING, "");
    answer_with(fake, START + GAP, TENURE_OK, 8);
    expect(fake, START + GAP, TEN_CALL_LIST);
    assert_int_equal(fake->followed, 1);
}

/* ---- the feed */

ENGINE_TEST(the_feed_is_read_after_a_notice_until_there_is_no_more_but_not_too_often) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + 1);
    expect(fake, START + 1, TEN_CALL_CHANGES);
    bring_change(fake, START + 1, TENURE_EVENT_RELEASED, "t");
    answer_with(fake, START + 1, TENURE_OK, 8);
    assert_int_equal(fake->fed, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(next_ms(fake, START + 1), START + 1 + GAP);
    assert_int_equal(expect(fake, START + 1 + GAP, TEN_CALL_CHANGES).cursor, 8);
    answer_with(fake, START + 1 + GAP, TENURE_OK, 8);
    assert_int_equal(fake->fed, 1);
    assert_int_equal(fake->changes, 1);
    assert_int_equal(next_ms(fake, START + 1 + GAP), UINT64_MAX);
}

ENGINE_TEST(a_notice_during_a_reading_leads_to_another_one) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    notice(fake, START + GAP + 1);
    answer_with(fake, START + GAP + 2, TENURE_OK, 7);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
}

ENGINE_TEST(a_store_without_notices_is_read_several_times_a_second) {
    struct fake *fake = *state;
    settle(fake);
    hand(fake, START, (ten_engine_event){.kind = TEN_ON_WATCHED});
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + GAP, TENURE_OK, 7);
    assert_in_range(next_ms(fake, START + GAP), START + GAP + 1, START + GAP + 500);
}

ENGINE_TEST(registrations_that_changed_are_read_together_and_removed_if_they_are_gone) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    bring_change(fake, START + GAP, TENURE_EVENT_TARGET_ADDED, "a");
    bring_change(fake, START + GAP, TENURE_EVENT_TARGET_CHANGED, "a");
    bring_change(fake, START + GAP, TENURE_EVENT_TARGET_REMOVED, "b");
    bring_change(fake, START + GAP, TENURE_EVENT_TARGET_REMOVED, "c");
    answer_with(fake, START + GAP, TENURE_OK, 9);
    ten_call call = expect(fake, START + GAP, TEN_CALL_READ);
    assert_int_equal(call.count, 3);
    assert_string_equal(call.ids[0], "a");
    assert_string_equal(call.ids[1], "b");
    assert_string_equal(call.ids[2], "c");
    hand(fake, START + GAP,
         (ten_engine_event){.kind = TEN_ON_ROW, .row = &(ten_row){.target = {.id = "a"}, .registered = true}});
    hand(fake, START + GAP,
         (ten_engine_event){.kind = TEN_ON_ROW, .row = &(ten_row){.target = {.id = "b"}}}); /* it is only leased */
    answer_with(fake, START + GAP, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(fake->rows, 2);
    assert_int_equal(fake->removed, 2);
}

static void bring_registrations(struct fake *fake, unsigned count) {
    notice(fake, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        bring_change(fake, START + GAP, TENURE_EVENT_TARGET_ADDED, id);
    }
    answer_with(fake, START + GAP, TENURE_OK, 7 + count);
}

ENGINE_TEST(a_reading_of_the_feed_that_is_full_is_followed_by_the_next_without_a_gap) {
    struct fake *fake = *state;
    settle(fake);
    notice(fake, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    for (unsigned i = 0; i < FEED; i++)
        hand(fake, START + GAP,
             (ten_engine_event){.kind = TEN_ON_CHANGE,
                                .change = &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "t"}});
    answer_with(fake, START + GAP, TENURE_OK, FEED);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    hand(fake, START + GAP,
         (ten_engine_event){.kind = TEN_ON_CHANGE,
                            .change = &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "t"}});
    answer_with(fake, START + GAP, TENURE_OK, FEED + 1);
    expect(fake, START + GAP, TEN_CALL_NONE);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
}

/* What was saved up in a quiet time is used up by notices; from then on each waits for its gap. */
ENGINE_TEST(after_a_quiet_time_a_few_notices_wait_for_no_gap_and_then_each_does) {
    struct fake *fake = *state;
    uint64_t now_ms = START + 100 * GAP;
    unsigned readings = 0;
    settle(fake);
    for (uint64_t end_ms = now_ms + 10 * GAP; now_ms < end_ms; now_ms++) {
        notice(fake, now_ms);
        if (next_call(fake, now_ms).kind != TEN_CALL_CHANGES)
            continue;
        readings++;
        assert_true(readings > 4 || now_ms < START + 100 * GAP + 4);
        answer_with(fake, now_ms, TENURE_OK, 1);
    }
    assert_in_range(readings, 4 + 8, 4 + 10);
}

ENGINE_TEST(many_registrations_are_read_in_steps_and_a_renewal_goes_between_two) {
    struct fake *fake = *state;
    settle(fake);
    bring_registrations(fake, 600);
    assert_int_equal(expect(fake, START + GAP, TEN_CALL_READ).count, TEN_CALL_READ_MAX);
    bring_rows(fake, START + GAP, 0, TEN_CALL_READ_MAX);
    fake->request_ms = fake->urgent_ms = START + GAP;
    answer_with(fake, START + GAP, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_APPLY);
    fake->request_ms = fake->urgent_ms = UINT64_MAX;
    answer_with(fake, START + GAP, TENURE_OK, 0);
    assert_string_equal(expect(fake, START + GAP, TEN_CALL_READ).ids[0], "t-250");
    bring_rows(fake, START + GAP, 250, TEN_CALL_READ_MAX);
    answer_with(fake, START + GAP, TENURE_OK, 0);
    assert_int_equal(expect(fake, START + GAP, TEN_CALL_READ).count, 100);
    bring_rows(fake, START + GAP, 500, 100);
    answer_with(fake, START + GAP, TENURE_OK, 0);
    assert_int_equal(fake->rows, 600);
    assert_int_equal(fake->removed, 0);
}

ENGINE_TEST(registrations_that_cannot_be_read_are_listed) {
    struct fake *fake = *state;
    settle(fake);
    bring_registrations(fake, 2);
    expect(fake, START + GAP, TEN_CALL_READ);
    answer_with(fake, START + GAP, TENURE_E_UNSUPPORTED, 0);
    assert_int_equal(fake->removed, 0);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES); /* it goes on meanwhile */
    answer_with(fake, START + 2 * GAP, TENURE_OK, 9);
    uint64_t again_ms = next_ms(fake, START + 2 * GAP);
    assert_in_range(again_ms, START + 2 * GAP + 1, START + GAP + 1000);
    expect(fake, again_ms, TEN_CALL_LIST);
}

ENGINE_TEST(a_flood_of_registrations_is_answered_by_a_listing) {
    struct fake *fake = *state;
    settle(fake);
    bring_registrations(fake, 5000);
    expect(fake, START + GAP, TEN_CALL_LIST);
    assert_int_equal(fake->followed, 1); /* nothing was missed: the fleet starts nothing anew */
}

/* ---- the order */

ENGINE_TEST(an_urgent_request_goes_before_everything_else) {
    struct fake *fake = *state;
    fake->request_ms = fake->urgent_ms = START;
    fake->deadline_ms = START + 1000;
    fake->list_instances_ms = START;
    for (unsigned i = 0; i < 3; i++) {
        expect(fake, START, TEN_CALL_APPLY);
        answer_with(fake, START, TENURE_OK, 0);
    }
    fake->urgent_ms = START + 100;
    expect(fake, START, TEN_CALL_APPLY);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START + 100, TEN_CALL_APPLY);
}

ENGINE_TEST(while_nothing_is_held_the_feed_is_followed_first) {
    struct fake *fake = *state;
    fake->request_ms = fake->urgent_ms = START;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_E_TIMEOUT, 0);
    expect(fake, START, TEN_CALL_APPLY); /* it does not wait for the feed */
    answer_with(fake, START, TENURE_OK, 0);
    uint64_t again_ms = START + 1000;
    expect(fake, again_ms, TEN_CALL_CHANGES);
    answer_with(fake, again_ms, TENURE_OK, 7);
    expect(fake, again_ms, TEN_CALL_APPLY);
}

/* There is always a request that is not urgent, and a next page, and a list of instances, and the feed. */
ENGINE_TEST(what_is_not_urgent_takes_turns) {
    struct fake *fake = *state;
    unsigned counts[TEN_CALL_COUNT] = {0};
    fake->request_ms = START;
    fake->list_again_ms = START;
    for (unsigned i = 0; i < 40; i++) {
        uint64_t now_ms = START + i * GAP;
        fake->list_instances_ms = START;
        notice(fake, now_ms);
        ten_call call = next_call(fake, now_ms);
        counts[call.kind]++;
        answer_with(fake, now_ms, TENURE_OK, 7);
    }
    assert_int_equal(counts[TEN_CALL_NONE], 0);
    assert_in_range(counts[TEN_CALL_APPLY], 9, 11);
    assert_in_range(counts[TEN_CALL_CHANGES], 9, 11);
    assert_in_range(counts[TEN_CALL_INSTANCES], 9, 11);
    assert_in_range(counts[TEN_CALL_LIST], 9, 11);
}

/* ---- failures */

ENGINE_TEST(after_a_failure_nothing_is_sent_until_the_backoff_is_over_but_deadlines_are_noticed) {
    struct fake *fake = *state;
    tenure_event event;
    settle(fake);
    fake->request_ms = fake->urgent_ms = START;
    fake->deadline_ms = START + 10;
    uint64_t now_ms = START;
    uint64_t longest_ms = 0;
    for (unsigned i = 0; i < 8; i++) {
        expect(fake, now_ms, TEN_CALL_APPLY);
        answer_with(fake, now_ms, TENURE_E_TIMEOUT, 0);
        notice(fake, now_ms);
        fake->deadline_ms = UINT64_MAX;
        uint64_t next = next_ms(fake, now_ms);
        assert_in_range(next - now_ms, 25, 400);
        longest_ms = next - now_ms > longest_ms ? next - now_ms : longest_ms;
        fake->deadline_ms = now_ms + 10;
        assert_int_equal(next_ms(fake, now_ms), now_ms + 10);
        unsigned expired = fake->expired;
        expect(fake, next - 1, TEN_CALL_NONE);
        assert_int_equal(fake->expired, expired + 1);
        now_ms = next;
    }
    assert_in_range(longest_ms, 200, 400); /* they grow */
    assert_int_equal(fake->errors, 8);
    expect(fake, now_ms, TEN_CALL_APPLY);
    answer_with(fake, now_ms, TENURE_OK, 0);
    expect(fake, now_ms, TEN_CALL_APPLY);
    assert_true(ten_event_queue_take(&fake->events, &event));
    assert_int_equal(event.kind, TENURE_EVENT_STORE_DOWN);
    assert_int_equal(event.error, TENURE_E_TIMEOUT);
    assert_true(ten_event_queue_take(&fake->events, &event));
    assert_int_equal(event.kind, TENURE_EVENT_STORE_UP);
    assert_false(ten_event_queue_take(&fake->events, &event));
}

ENGINE_TEST(a_store_that_takes_requests_and_cannot_be_read_is_told_once) {
    struct fake *fake = *state;
    tenure_event event;
    uint64_t now_ms = START;
    expect(fake, now_ms, TEN_CALL_CHANGES);
    answer_with(fake, now_ms, TENURE_OK, 7);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ten_event_queue_take(&fake->events, &event), i == 3);
        expect(fake, now_ms, TEN_CALL_LIST);
        answer_with(fake, now_ms, TENURE_E_STORE, 0);
        now_ms = next_ms(fake, now_ms);
    }
    assert_int_equal(event.kind, TENURE_EVENT_STORE_DOWN);
    assert_int_equal(event.error, TENURE_E_STORE);
    expect(fake, now_ms, TEN_CALL_LIST);
    answer_with(fake, now_ms, TENURE_OK, 0);
    assert_true(ten_event_queue_take(&fake->events, &event));
    assert_int_equal(event.kind, TENURE_EVENT_STORE_UP);
    assert_false(ten_event_queue_take(&fake->events, &event));
}
