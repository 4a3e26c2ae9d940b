/*
 * Stories of a fleet member: what goes in at the core's door (core/engine.h) and what comes out, line by line, compared
 * as text, so that a failure shows what happened instead. The reason stands beside the line. A line that begins with
 * `-` is something that was published. The clock is the test's; the store is who writes the answers here.
 */
#include "unit/unit.h"

#include <stdarg.h>

#include "core/fleet.h"

#define TTL_MS 3000u /* renewed after 1000, believed for 2625 */

struct story {
    char text[8192];
    size_t length;
    ten_event_queue events;
    ten_engine engine;
    ten_fleet *fleet;
    ten_call call; /* under way */
};

static void TEN_PRINTF(2, 3) write_line(struct story *story, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(story->text + story->length, sizeof story->text - story->length, format, arguments);
    va_end(arguments);
    assert_in_range(length, 0, sizeof story->text - story->length - 1);
    story->length += (size_t)length;
}

/* ---- what comes out */

static void on_fact(void *userdata, const ten_fact *fact) {
    struct story *story = userdata;
    const tenure_event *event = fact->event;
    if (fact->kind == TEN_FACT_EVENT)
        write_line(story, "     - %s%s%s%s%s\n", ten_event_name(event->kind), event->target[0] ? " " : "",
                   event->target, event->reason[0] ? ", " : "", event->reason);
    else if (fact->kind == TEN_FACT_BELIEF && ten_fleet_holding(story->fleet, fact->target).deadline_ms)
        write_line(story, "     - believed until %llu\n",
                   (unsigned long long)ten_fleet_holding(story->fleet, fact->target).deadline_ms);
    else if (fact->kind == TEN_FACT_BELIEF)
        write_line(story, "     - not believed\n");
}

static const char *op_name(enum ten_op_kind kind) {
    switch (kind) {
    case TEN_OP_ANNOUNCE:
        return "announce";
    case TEN_OP_ACQUIRE:
        return "acquire";
    case TEN_OP_RENEW:
        return "renew";
    case TEN_OP_RELEASE:
        return "release";
    case TEN_OP_LEAVE:
        return "leave";
    default:
        return "?";
    }
}

static void write_call(struct story *story, const ten_call *call) {
    static const char *const names[] = {[TEN_CALL_CHANGES] = "read the feed",
                                        [TEN_CALL_INSTANCES] = "list the instances",
                                        [TEN_CALL_LIST] = "list everything",
                                        [TEN_CALL_READ] = "read registrations"};
    if (call->kind != TEN_CALL_APPLY) {
        write_line(story, "%s\n", names[call->kind]);
        return;
    }
    for (size_t i = 0; i < call->count; i++)
        write_line(story, "%s%s%s%s", i ? ", " : "", op_name(call->ops[i].kind), call->ops[i].target ? " " : "",
                   call->ops[i].target ? call->ops[i].target : "");
    write_line(story, "\n");
}

/* ---- what goes in */

static void hand(struct story *story, uint64_t now_ms, const char *what, ten_engine_event event) {
    ten_update update;
    event.now_ms = now_ms;
    write_line(story, "%4llu %s\n", (unsigned long long)now_ms, what);
    ten_engine_step(&story->engine, &event, &update);
    if (event.kind != TEN_ON_TIMER)
        return;
    if (update.call.kind == TEN_CALL_NONE && update.next_ms == UINT64_MAX)
        write_line(story, "     nothing to do until something happens\n");
    else if (update.call.kind == TEN_CALL_NONE)
        write_line(story, "     nothing to do until %llu\n", (unsigned long long)update.next_ms);
    else
        write_line(story, "     > ");
    if (update.call.kind != TEN_CALL_NONE)
        write_call(story, &update.call);
    story->call = update.call;
}

static void timer(struct story *story, uint64_t now_ms) {
    hand(story, now_ms, "timer", (ten_engine_event){.kind = TEN_ON_TIMER});
}

/* The store grants everything, under the token 7. */
static void yes(struct story *story, uint64_t now_ms) {
    ten_result results[4];
    for (size_t i = 0; i < story->call.count; i++)
        results[i] = (ten_result){.outcome = TEN_OK, .token = 7, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    hand(story, now_ms, "answer", (ten_engine_event){.kind = TEN_ON_ANSWER, .results = results, .cursor = 40});
}

static void no_answer(struct story *story, uint64_t now_ms) {
    hand(story, now_ms, "no answer", (ten_engine_event){.kind = TEN_ON_ANSWER, .error = TENURE_E_TIMEOUT});
}

/* ---- the beginning, which all have in common */

static int begin(void **state) {
    struct story *story = calloc(1, sizeof *story);
    assert_non_null(story);
    assert_true(ten_event_queue_open(&story->events));
    ten_fleet_config config = {.namespace_name = "poll",
                               .instance = "me",
                               .timing = {.ttl_ms = TTL_MS},
                               .settle_ms = 100,
                               .weight = 1,
                               .registry = true,
                               .events = &story->events};
    ten_timing_defaults(&config.timing);
    story->fleet = ten_fleet_new(&config, 0);
    assert_non_null(story->fleet);
    story->events.publish = on_fact;
    story->events.userdata = story;
    ten_engine_config engine = {.step = ten_fleet_step,
                                .due = ten_fleet_due,
                                .part = story->fleet,
                                .events = &story->events,
                                .backoff_max_ms = 250,
                                .feed_gap_ms = 5,
                                .feed_size = 100,
                                .page_size = 100,
                                .lists = true,
                                .registrations = true};
    ten_engine_init(&story->engine, &engine, 0);
    *state = story;
    return 0;
}

static int end(void **state) {
    struct story *story = *state;
    ten_engine_free(&story->engine);
    ten_fleet_free(story->fleet);
    ten_event_queue_free(&story->events);
    free(story);
    return 0;
}

#define STORY(name) TEST_WITH(name, begin, end)

/* Until it holds the target `t`, alone in its fleet. */
static void acquire(struct story *story) {
    ten_row row = {.target = {.id = "t"}, .registered = true};
    ten_instance me = {.instance = "me", .weight = 1, .ttl_ms = TTL_MS, .remaining_ms = TTL_MS};
    timer(story, 0);
    yes(story, 1);
    timer(story, 1);
    hand(story, 2, "row t", (ten_engine_event){.kind = TEN_ON_ROW, .row = &row});
    yes(story, 2);
    timer(story, 2);
    yes(story, 3);
    timer(story, 3);
    hand(story, 4, "instance me", (ten_engine_event){.kind = TEN_ON_INSTANCE, .instance = &me});
    yes(story, 4);
    timer(story, 4);
    timer(story, 103);
    yes(story, 104);
    timer(story, 104);
    yes(story, 105);
}

static void expect(struct story *story, const char *text) {
    assert_string_equal(story->text, text);
    story->length = 0;
    story->text[0] = '\0';
}

/* ---- the stories */

STORY(an_instance_reads_everything_joins_waits_for_others_and_takes_what_is_planned_for_it) {
    struct story *story = *state;
    acquire(story);
    timer(story, 105);
    expect(story, "   0 timer\n"
                  "     > read the feed\n" /* nothing is held: the feed is followed before anything else */
                  "   1 answer\n"
                  "   1 timer\n"
                  "     > list everything\n" /* what was there before the feed was followed */
                  "   2 row t\n"
                  "     - not believed\n" /* it is known from now on */
                  "   2 answer\n"
                  "   2 timer\n"
                  "     > announce\n" /* only now: nobody plans with one that does not know the targets */
                  "   3 answer\n"
                  "     - plan_changed\n"
                  "   3 timer\n"
                  "     > list the instances\n"
                  "   4 instance me\n"
                  "   4 answer\n"
                  "   4 timer\n"
                  "     nothing to do until 5\n"
                  " 103 timer\n"
                  "     > acquire t\n" /* no other has come for the settle time */
                  " 104 answer\n"
                  "     - believed until 2728\n" /* from when it was sent: TTL - margin */
                  "     - lease_acquired t\n"
                  " 104 timer\n"
                  "     > read the feed\n" /* after a heartbeat, since a notice can be lost */
                  " 105 answer\n"
                  " 105 timer\n"
                  "     nothing to do until 935\n");
}

STORY(a_renewal_without_an_answer_pauses_work_and_the_deadline_ends_it) {
    struct story *story = *state;
    acquire(story);
    story->length = 0;
    timer(story, 1103);
    no_answer(story, 1600);
    timer(story, 1601);
    timer(story, 1700);
    no_answer(story, 2200);
    timer(story, 2728);
    expect(story, "1103 timer\n"
                  "     > announce, renew t\n"
                  "1600 no answer\n"
                  "     - believed until 2728\n"  /* as before: no answer is never "held" for longer */
                  "     - lease_renew_failed t\n" /* uncertain: no new work */
                  "     - store_down\n"
                  "1601 timer\n"
                  "     nothing to do until 1634\n" /* the backoff */
                  "1700 timer\n"
                  "     > announce, renew t\n"
                  "2200 no answer\n"
                  "2728 timer\n"
                  "     - not believed\n" /* before the store lets anybody else in */
                  "     - lease_lost t, expired\n"
                  "     > announce\n");
}

STORY(what_somebody_else_has_got_is_lost_at_once) {
    struct story *story = *state;
    ten_change taken = {.kind = TENURE_EVENT_ACQUIRED, .target = "t", .instance = "other", .token = 8};
    acquire(story);
    story->length = 0;
    hand(story, 200, "notice", (ten_engine_event){.kind = TEN_ON_NOTICE});
    timer(story, 200);
    hand(story, 201, "the feed: other has acquired t", (ten_engine_event){.kind = TEN_ON_CHANGE, .change = &taken});
    hand(story, 201, "answer", (ten_engine_event){.kind = TEN_ON_ANSWER, .cursor = 41});
    timer(story, 201);
    expect(story, " 200 notice\n"
                  " 200 timer\n"
                  "     > read the feed\n"
                  " 201 the feed: other has acquired t\n"
                  "     - not believed\n" /* its token is above the own one */
                  "     - lease_lost t, taken\n"
                  " 201 answer\n"
                  " 201 timer\n"
                  "     nothing to do until 205\n" /* the feed is read to its end */);
}

STORY(a_stop_releases_what_is_held_and_leaves) {
    struct story *story = *state;
    acquire(story);
    story->length = 0;
    ten_fleet_stop(story->fleet, 300);
    timer(story, 300);
    yes(story, 301);
    timer(story, 306);
    yes(story, 307);
    timer(story, 307);
    timer(story, 900);
    yes(story, 901);
    timer(story, 901);
    expect(story, " 300 timer\n"
                  "     - believed until 2728\n" /* closing: no new work, and none is under way */
                  "     - lease_closing t, shutdown\n"
                  "     - not believed\n"        /* before the release is sent */
                  "     > announce, release t\n" /* without weight: nobody hands anything over to it */
                  " 301 answer\n"
                  "     - lease_released t, shutdown\n"
                  " 306 timer\n"
                  "     > read the feed\n"
                  " 307 answer\n"
                  " 307 timer\n"
                  "     nothing to do until 900\n" /* somebody may just have handed something over to it */
                  " 900 timer\n"
                  "     > leave\n"
                  " 901 answer\n"
                  "     - instance_stopped\n"
                  " 901 timer\n"
                  "     nothing to do until something happens\n");
}
