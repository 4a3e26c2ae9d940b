/*
 * The driver (core/driver.h) with a part that only counts: which call is wanted when, and what an answer leads to. It
 * is told the time, so nothing here waits.
 */
#include "unit/unit.h"

#include "core/driver.h"

enum { START = 1000, GAP = 50, PAGE = 3, FEED = 10000 };

struct fake {
    ten_event_queue events;
    ten_driver driver;
    uint64_t request_ms; /* when it wants to send */
    uint64_t urgent_ms;
    uint64_t deadline_ms;
    uint64_t list_instances_ms;
    uint64_t list_again_ms;
    unsigned requests, answers, errors, expired, followed, changes, fed, instances, rows, listings, checked, removed;
    ten_op op;
};

static const ten_op *request(void *self, uint64_t now_ms, size_t *ret_count) {
    struct fake *fake = self;
    if (now_ms < fake->request_ms)
        return NULL;
    fake->requests++;
    *ret_count = 1;
    return &fake->op;
}

static void answer(void *self, uint64_t now_ms, int error, const ten_result *results) {
    struct fake *fake = self;
    (void)now_ms;
    (void)results;
    fake->answers++;
    fake->errors += error < 0;
}

static void expire(void *self, uint64_t now_ms) {
    struct fake *fake = self;
    fake->expired += now_ms >= fake->deadline_ms;
}

static uint64_t next_ms(const void *self, uint64_t now_ms) {
    (void)now_ms;
    return ((const struct fake *)self)->request_ms;
}

static uint64_t deadline_ms(const void *self) {
    return ((const struct fake *)self)->deadline_ms;
}

static uint64_t urgent_ms(const void *self) {
    return ((const struct fake *)self)->urgent_ms;
}

static void follow(void *self, uint64_t now_ms) {
    (void)now_ms;
    ((struct fake *)self)->followed++;
}

static void change(void *self, uint64_t now_ms, const ten_change *entry) {
    (void)now_ms;
    (void)entry;
    ((struct fake *)self)->changes++;
}

static void fed(void *self) {
    ((struct fake *)self)->fed++;
}

static uint64_t instances_ms(const void *self) {
    return ((const struct fake *)self)->list_instances_ms;
}

static void instances_begin(void *self, uint64_t now_ms) {
    (void)now_ms;
    ((struct fake *)self)->list_instances_ms = UINT64_MAX;
}

static void instance(void *self, uint64_t now_ms, const ten_instance *listed) {
    (void)now_ms;
    (void)listed;
    ((struct fake *)self)->instances++;
}

static void instances_end(void *self, uint64_t now_ms, int error) {
    (void)self;
    (void)now_ms;
    (void)error;
}

static void listing_begin(void *self) {
    ((struct fake *)self)->listings++;
}

static void row(void *self, uint64_t now_ms, const ten_row *listed) {
    (void)now_ms;
    (void)listed;
    ((struct fake *)self)->rows++;
}

static bool listing_end(void *self, uint64_t now_ms) {
    (void)now_ms;
    return ((struct fake *)self)->list_again_ms != UINT64_MAX;
}

static uint64_t listing_checked(void *self, uint64_t now_ms) {
    struct fake *fake = self;
    (void)now_ms;
    fake->checked++;
    return fake->list_again_ms;
}

static void unregistered(void *self, uint64_t now_ms, const char *target) {
    (void)now_ms;
    (void)target;
    ((struct fake *)self)->removed++;
}

static void registrations_end(void *self, uint64_t now_ms) {
    (void)self;
    (void)now_ms;
}

static const ten_driver_part part = {.request = request,
                                     .answer = answer,
                                     .expire = expire,
                                     .next_ms = next_ms,
                                     .deadline_ms = deadline_ms,
                                     .urgent_ms = urgent_ms,
                                     .follow = follow,
                                     .change = change,
                                     .fed = fed,
                                     .instances_ms = instances_ms,
                                     .instances_begin = instances_begin,
                                     .instance = instance,
                                     .instances_end = instances_end,
                                     .listing_begin = listing_begin,
                                     .row = row,
                                     .listing_end = listing_end,
                                     .listing_checked = listing_checked,
                                     .unregistered = unregistered,
                                     .registrations_end = registrations_end};

/* ---- a store that does as it is told */

static int open_fake(void **state) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    assert_true(ten_event_queue_open(&fake->events));
    fake->request_ms = fake->urgent_ms = fake->deadline_ms = UINT64_MAX;
    fake->list_instances_ms = fake->list_again_ms = UINT64_MAX;
    ten_driver_config config = {.part = &part,
                                .self = fake,
                                .events = &fake->events,
                                .backoff_max_ms = 400,
                                .feed_gap_ms = GAP,
                                .feed_size = FEED,
                                .page_size = PAGE,
                                .registrations = true};
    ten_driver_init(&fake->driver, &config, START);
    *state = fake;
    return 0;
}

static int close_fake(void **state) {
    struct fake *fake = *state;
    ten_driver_free(&fake->driver);
    ten_event_queue_free(&fake->events);
    free(fake);
    return 0;
}

#define DRIVER_TEST(name) TEST_WITH(name, open_fake, close_fake)

static ten_call expect(struct fake *fake, uint64_t now_ms, enum ten_call_kind kind) {
    ten_call call = ten_driver_next(&fake->driver, now_ms);
    assert_int_equal(call.kind, kind);
    return call;
}

static void answer_with(struct fake *fake, uint64_t now_ms, int error, uint64_t cursor) {
    ten_driver_answer(&fake->driver, now_ms, error, NULL, cursor);
}

static void bring_rows(struct fake *fake, uint64_t now_ms, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        ten_driver_row(&fake->driver, now_ms, &(ten_row){.target = {.id = id}, .registered = true});
    }
}

static void bring_change(struct fake *fake, uint64_t now_ms, enum tenure_event_kind kind, const char *target) {
    ten_driver_change(&fake->driver, now_ms, &(ten_change){.kind = kind, .target = target, .instance = ""});
}

/* The first cursor, and an empty listing. */
static void settle(struct fake *fake) {
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_NONE);
    assert_int_equal(ten_driver_next_ms(&fake->driver, START), UINT64_MAX);
}

/* ---- reading everything */

DRIVER_TEST(the_cursor_comes_first_then_everything_page_by_page) {
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
DRIVER_TEST(a_page_that_fails_is_read_again_where_it_was) {
    struct fake *fake = *state;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    bring_rows(fake, START, 0, PAGE);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_E_TIMEOUT, 0);
    expect(fake, START, TEN_CALL_NONE);
    uint64_t again_ms = ten_driver_next_ms(&fake->driver, START);
    assert_in_range(again_ms, START + 1, START + 1000);
    assert_string_equal(expect(fake, again_ms, TEN_CALL_LIST).after, "t-2");
    answer_with(fake, again_ms, TENURE_OK, 0);
    assert_int_equal(fake->listings, 1);
    assert_int_equal(fake->followed, 1);
    ten_driver_notice(&fake->driver, again_ms);
    assert_int_equal(expect(fake, again_ms + GAP, TEN_CALL_CHANGES).cursor, 7);
}

DRIVER_TEST(entries_that_were_missed_lead_to_one_listing_not_to_many) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + GAP);
    assert_int_equal(expect(fake, START + GAP, TEN_CALL_CHANGES).cursor, 7);
    answer_with(fake, START + GAP, TENURE_E_RESYNC, 20);
    assert_int_equal(fake->followed, 2);
    expect(fake, START + GAP, TEN_CALL_LIST);
    answer_with(fake, START + GAP, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(fake->listings, 2);
    ten_driver_notice(&fake->driver, START + 3 * GAP);
    assert_int_equal(expect(fake, START + 3 * GAP, TEN_CALL_CHANGES).cursor, 20);
}

DRIVER_TEST(a_listing_under_way_is_read_to_its_end_when_entries_were_missed_and_then_once_more) {
    struct fake *fake = *state;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    for (unsigned i = 0; i < 3; i++) { /* between all pages */
        uint64_t now_ms = START + (i + 1) * GAP;
        expect(fake, now_ms, TEN_CALL_LIST);
        bring_rows(fake, now_ms, i * PAGE, PAGE);
        answer_with(fake, now_ms, TENURE_OK, 0);
        ten_driver_notice(&fake->driver, now_ms);
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
DRIVER_TEST(what_a_listing_lacks_is_believed_after_the_feed_was_read_once_more) {
    struct fake *fake = *state;
    fake->list_again_ms = START + 500;
    expect(fake, START, TEN_CALL_CHANGES);
    answer_with(fake, START, TENURE_OK, 7);
    expect(fake, START, TEN_CALL_LIST);
    answer_with(fake, START, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + GAP, TENURE_E_TIMEOUT, 0);
    assert_int_equal(fake->checked, 0);
    ten_driver_notice(&fake->driver, START + 2 * GAP);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + 2 * GAP, TENURE_OK, 7);
    assert_int_equal(fake->checked, 1);
    assert_int_equal(ten_driver_next_ms(&fake->driver, START + 2 * GAP), START + 500);
    expect(fake, START + 499, TEN_CALL_NONE);
    expect(fake, START + 500, TEN_CALL_LIST);
}

DRIVER_TEST(whoever_lost_a_registration_has_them_listed_again) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_list(&fake->driver, START + 1);
    expect(fake, START + 1, TEN_CALL_LIST);
    ten_driver_list(&fake->driver, START + 2); /* of the listing under way it may have lost something, too */
    answer_with(fake, START + 2, TENURE_OK, 0);
    expect(fake, START + 2, TEN_CALL_LIST);
    answer_with(fake, START + 2, TENURE_OK, 0);
    expect(fake, START + 3, TEN_CALL_NONE);
    assert_int_equal(fake->followed, 1);
}

DRIVER_TEST(an_epoch_leads_to_a_listing) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    bring_change(fake, START + GAP, TENURE_EVENT_RECOVERING, "");
    answer_with(fake, START + GAP, TENURE_OK, 8);
    expect(fake, START + GAP, TEN_CALL_LIST);
    assert_int_equal(fake->followed, 1);
}

/* ---- the feed */

DRIVER_TEST(the_feed_is_read_after_a_notice_until_there_is_no_more_but_not_too_often) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + 1);
    expect(fake, START + 1, TEN_CALL_CHANGES);
    bring_change(fake, START + 1, TENURE_EVENT_RELEASED, "t");
    answer_with(fake, START + 1, TENURE_OK, 8);
    assert_int_equal(fake->fed, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(ten_driver_next_ms(&fake->driver, START + 1), START + 1 + GAP);
    assert_int_equal(expect(fake, START + 1 + GAP, TEN_CALL_CHANGES).cursor, 8);
    answer_with(fake, START + 1 + GAP, TENURE_OK, 8);
    assert_int_equal(fake->fed, 1);
    assert_int_equal(fake->changes, 1);
    assert_int_equal(ten_driver_next_ms(&fake->driver, START + 1 + GAP), UINT64_MAX);
}

DRIVER_TEST(a_notice_during_a_reading_leads_to_another_one) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    ten_driver_notice(&fake->driver, START + GAP + 1);
    answer_with(fake, START + GAP + 2, TENURE_OK, 7);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
}

DRIVER_TEST(a_store_without_notices_is_read_several_times_a_second) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_watched(&fake->driver, START, false);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    answer_with(fake, START + GAP, TENURE_OK, 7);
    assert_in_range(ten_driver_next_ms(&fake->driver, START + GAP), START + GAP + 1, START + GAP + 500);
}

DRIVER_TEST(registrations_that_changed_are_read_together_and_removed_if_they_are_gone) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + GAP);
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
    ten_driver_row(&fake->driver, START + GAP, &(ten_row){.target = {.id = "a"}, .registered = true});
    ten_driver_row(&fake->driver, START + GAP, &(ten_row){.target = {.id = "b"}}); /* it is only leased */
    answer_with(fake, START + GAP, TENURE_OK, 0);
    expect(fake, START + GAP, TEN_CALL_NONE);
    assert_int_equal(fake->rows, 2);
    assert_int_equal(fake->removed, 2);
}

static void bring_registrations(struct fake *fake, unsigned count) {
    ten_driver_notice(&fake->driver, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t-%u", i);
        bring_change(fake, START + GAP, TENURE_EVENT_TARGET_ADDED, id);
    }
    answer_with(fake, START + GAP, TENURE_OK, 7 + count);
}

DRIVER_TEST(a_reading_of_the_feed_that_is_full_is_followed_by_the_next_without_a_gap) {
    struct fake *fake = *state;
    settle(fake);
    ten_driver_notice(&fake->driver, START + GAP);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    for (unsigned i = 0; i < FEED; i++)
        ten_driver_change(&fake->driver, START + GAP, &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "t"});
    answer_with(fake, START + GAP, TENURE_OK, FEED);
    expect(fake, START + GAP, TEN_CALL_CHANGES);
    ten_driver_change(&fake->driver, START + GAP, &(ten_change){.kind = TENURE_EVENT_RELEASED, .target = "t"});
    answer_with(fake, START + GAP, TENURE_OK, FEED + 1);
    expect(fake, START + GAP, TEN_CALL_NONE);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES);
}

/* What was saved up in a quiet time is used up by notices; from then on each waits for its gap. */
DRIVER_TEST(after_a_quiet_time_a_few_notices_wait_for_no_gap_and_then_each_does) {
    struct fake *fake = *state;
    uint64_t now_ms = START + 100 * GAP;
    unsigned readings = 0;
    settle(fake);
    for (uint64_t end_ms = now_ms + 10 * GAP; now_ms < end_ms; now_ms++) {
        ten_driver_notice(&fake->driver, now_ms);
        if (ten_driver_next(&fake->driver, now_ms).kind != TEN_CALL_CHANGES)
            continue;
        readings++;
        assert_true(readings > 4 || now_ms < START + 100 * GAP + 4);
        answer_with(fake, now_ms, TENURE_OK, 1);
    }
    assert_in_range(readings, 4 + 8, 4 + 10);
}

DRIVER_TEST(many_registrations_are_read_in_steps_and_a_renewal_goes_between_two) {
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

DRIVER_TEST(registrations_that_cannot_be_read_are_listed) {
    struct fake *fake = *state;
    settle(fake);
    bring_registrations(fake, 2);
    expect(fake, START + GAP, TEN_CALL_READ);
    answer_with(fake, START + GAP, TENURE_E_UNSUPPORTED, 0);
    assert_int_equal(fake->removed, 0);
    expect(fake, START + 2 * GAP, TEN_CALL_CHANGES); /* it goes on meanwhile */
    answer_with(fake, START + 2 * GAP, TENURE_OK, 9);
    uint64_t again_ms = ten_driver_next_ms(&fake->driver, START + 2 * GAP);
    assert_in_range(again_ms, START + 2 * GAP + 1, START + GAP + 1000);
    expect(fake, again_ms, TEN_CALL_LIST);
}

DRIVER_TEST(a_flood_of_registrations_is_answered_by_a_listing) {
    struct fake *fake = *state;
    settle(fake);
    bring_registrations(fake, 5000);
    expect(fake, START + GAP, TEN_CALL_LIST);
    assert_int_equal(fake->followed, 1); /* nothing was missed: the fleet starts nothing anew */
}

/* ---- the order */

DRIVER_TEST(an_urgent_request_goes_before_everything_else) {
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

DRIVER_TEST(while_nothing_is_held_the_feed_is_followed_first) {
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
DRIVER_TEST(what_is_not_urgent_takes_turns) {
    struct fake *fake = *state;
    unsigned counts[TEN_CALL_COUNT] = {0};
    fake->request_ms = START;
    fake->list_again_ms = START;
    for (unsigned i = 0; i < 40; i++) {
        uint64_t now_ms = START + i * GAP;
        fake->list_instances_ms = START;
        ten_driver_notice(&fake->driver, now_ms);
        ten_call call = ten_driver_next(&fake->driver, now_ms);
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

DRIVER_TEST(after_a_failure_nothing_is_sent_until_the_backoff_is_over_but_deadlines_are_noticed) {
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
        ten_driver_notice(&fake->driver, now_ms);
        fake->deadline_ms = UINT64_MAX;
        uint64_t next = ten_driver_next_ms(&fake->driver, now_ms);
        assert_in_range(next - now_ms, 25, 400);
        longest_ms = next - now_ms > longest_ms ? next - now_ms : longest_ms;
        fake->deadline_ms = now_ms + 10;
        assert_int_equal(ten_driver_next_ms(&fake->driver, now_ms), now_ms + 10);
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

DRIVER_TEST(a_store_that_takes_requests_and_cannot_be_read_is_told_once) {
    struct fake *fake = *state;
    tenure_event event;
    uint64_t now_ms = START;
    expect(fake, now_ms, TEN_CALL_CHANGES);
    answer_with(fake, now_ms, TENURE_OK, 7);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ten_event_queue_take(&fake->events, &event), i == 3);
        expect(fake, now_ms, TEN_CALL_LIST);
        answer_with(fake, now_ms, TENURE_E_STORE, 0);
        now_ms = ten_driver_next_ms(&fake->driver, now_ms);
    }
    assert_int_equal(event.kind, TENURE_EVENT_STORE_DOWN);
    assert_int_equal(event.error, TENURE_E_STORE);
    expect(fake, now_ms, TEN_CALL_LIST);
    answer_with(fake, now_ms, TENURE_OK, 0);
    assert_true(ten_event_queue_take(&fake->events, &event));
    assert_int_equal(event.kind, TENURE_EVENT_STORE_UP);
    assert_false(ten_event_queue_take(&fake->events, &event));
}
