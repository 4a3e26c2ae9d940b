/*
 * The event stream: which changes each reader gets, as which text, and whose stream ends. The store is the memory
 * store, which the test writes to; the thread of the events is a real one, and is waited for.
 */
#include "unit/unit.h"

#include <poll.h>

#include "base/buf.h"
#include "server/events.h"
#include "store/store.h"

#define URL "memory:unit-events"

enum { TIMEOUT = 5000, BATCH = 1000 };

struct fixture {
    ten_store *store;
    ten_events *events;
    unsigned resumed; /* by ten_events_wake(): how often, of any reader */
    unsigned cut;
};

struct reader {
    struct fixture *fixture;
    ten_event_reader *reader;
    ten_buf text; /* all that it has got */
    bool resumed;
    bool cut;
    bool over;
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    ten_error error;
    assert_int_equal(ten_store_open(URL, NULL, &fixture->store, &error), TENURE_OK);
    assert_int_equal(ten_events_open(URL, TIMEOUT, &fixture->events, &error), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    ten_events_close(fixture->events);
    ten_store_close(fixture->store);
    free(fixture);
    return 0;
}

#define EVENTS(name) TEST_WITH(name, set_up, tear_down)

static void join(struct fixture *fixture, struct reader *reader, const char *namespace_name, uint64_t cursor) {
    *reader = (struct reader){.fixture = fixture};
    reader->reader = ten_events_join(fixture->events, namespace_name, cursor, reader);
    assert_non_null(reader->reader);
}

static void leave(struct reader *reader) {
    ten_events_leave(reader->reader);
    ten_buf_free(&reader->text);
}

static void resume(void *userdata) {
    ((struct reader *)userdata)->resumed = true;
}

static void cut(void *userdata) {
    ((struct reader *)userdata)->cut = true;
}

/* Takes what is there; true: all of it. */
static bool take(struct reader *reader) {
    char part[4096];
    ssize_t count;
    while ((count = ten_events_read(reader->reader, part, sizeof part)) > 0)
        ten_buf_add(&reader->text, part, (size_t)count);
    reader->over |= count < 0;
    return reader->over;
}

static void wait_for_news(struct fixture *fixture) {
    struct pollfd polled = {.fd = ten_events_fd(fixture->events), .events = POLLIN};
    assert_int_equal(poll(&polled, 1, (int)HANG_MS), 1);
    ten_events_wake(fixture->events, resume, cut);
}

static void read_until(struct reader *reader, const char *part) {
    while (!take(reader) && !strstr(ten_buf_string(&reader->text), part))
        wait_for_news(reader->fixture);
    assert_contains(ten_buf_string(&reader->text), part);
}

static void read_to_end(struct reader *reader) {
    while (!take(reader))
        wait_for_news(reader->fixture);
}

/* Acquires and releases, so that it can be done again. */
static void change(struct fixture *fixture, const char *namespace_name, const char *target) {
    ten_op ops[] = {
        {.kind = TEN_OP_ACQUIRE, .namespace_name = namespace_name, .target = target, .holder = "me", .ttl_ms = 60000},
        {.kind = TEN_OP_RELEASE,
         .namespace_name = namespace_name,
         .target = target,
         .holder = "me",
         .reason = TEN_REASON_DONE}};
    ten_result results[2];
    assert_int_equal(ten_store_apply(fixture->store, ops, results, 2, TIMEOUT), TENURE_OK);
    assert_int_equal(results[1].outcome, TEN_OK);
}

static uint64_t id_before(const char *text, const char *part) {
    const char *at = strstr(text, part);
    uint64_t id = 0;
    for (const char *line = strstr(text, "id: "); line && line < at; line = strstr(line + 1, "id: "))
        id = strtoull(line + 4, NULL, 10);
    return id;
}

EVENTS(a_reader_gets_the_changes_that_follow_as_server_sent_events) {
    struct reader reader;
    join(*state, &reader, "plain", UINT64_MAX);
    read_until(&reader, ": ok\n\n");
    change(*state, "plain", "t");
    read_until(&reader, "event: lease_released\n");
    const char *text = ten_buf_string(&reader.text);
    assert_contains(text, "event: lease_acquired\ndata: {\"at\":\"");
    assert_contains(text, "\"namespace\":\"plain\",\"target\":\"t\",\"instance\":\"me\",\"token\":1");
    assert_contains(text, "\"reason\":\"done\"}\n\n");
    assert_true(id_before(text, "lease_acquired") > 0);
    assert_true(id_before(text, "lease_acquired") < id_before(text, "lease_released"));
    leave(&reader);
}

EVENTS(a_reader_that_comes_back_gets_what_it_has_missed_and_nothing_twice) {
    struct reader first, again;
    join(*state, &first, "back", UINT64_MAX);
    read_until(&first, ": ok\n\n");
    change(*state, "back", "seen");
    read_until(&first, "lease_released");
    uint64_t last = id_before(ten_buf_string(&first.text), "lease_released");
    leave(&first);
    change(*state, "back", "missed");
    join(*state, &again, "back", last);
    read_until(&again, ": ok\n\n");
    assert_contains(ten_buf_string(&again.text), "\"target\":\"missed\"");
    assert_lacks(ten_buf_string(&again.text), "\"target\":\"seen\"");
    leave(&again);
}

EVENTS(a_reader_with_a_cursor_of_another_store_is_to_read_the_state_anew) {
    struct reader reader;
    change(*state, "other", "t");
    join(*state, &reader, "other", UINT64_C(1) << 50);
    read_until(&reader, ": ok\n\n");
    assert_contains(ten_buf_string(&reader.text), "event: resync\ndata: {\"event\":\"resync\"}\n\n");
    assert_lacks(ten_buf_string(&reader.text), "lease_acquired");
    leave(&reader);
}

EVENTS(readers_of_two_namespaces_get_only_their_own) {
    struct reader one, other;
    join(*state, &one, "one", UINT64_MAX);
    join(*state, &other, "two", UINT64_MAX);
    read_until(&one, ": ok\n\n");
    read_until(&other, ": ok\n\n");
    change(*state, "one", "mine");
    change(*state, "two", "yours");
    read_until(&one, "lease_released");
    read_until(&other, "lease_released");
    assert_lacks(ten_buf_string(&one.text), "yours");
    assert_lacks(ten_buf_string(&other.text), "mine");
    assert_int_equal(ten_events_count(((struct fixture *)*state)->events), 2);
    leave(&one);
    leave(&other);
    assert_int_equal(ten_events_count(((struct fixture *)*state)->events), 0);
}

EVENTS(a_reader_that_does_not_read_is_cut_off_and_the_others_go_on) {
    struct fixture *fixture = *state;
    struct reader asleep, awake;
    static char ids[BATCH][8];
    static ten_op ops[2 * BATCH];
    static ten_result results[2 * BATCH];
    join(fixture, &asleep, "slow", UINT64_MAX);
    join(fixture, &awake, "slow", UINT64_MAX);
    read_until(&asleep, ": ok\n\n");
    read_until(&awake, ": ok\n\n");
    for (size_t i = 0; i < BATCH; i++) {
        snprintf(ids[i], sizeof ids[i], "t%zu", i);
        ops[i] = (ten_op){
            .kind = TEN_OP_ACQUIRE, .namespace_name = "slow", .target = ids[i], .holder = "me", .ttl_ms = 60000};
        ops[BATCH + i] = (ten_op){.kind = TEN_OP_RELEASE,
                                  .namespace_name = "slow",
                                  .target = ids[i],
                                  .holder = "me",
                                  .reason = TEN_REASON_DONE};
    }
    for (int round = 0; !asleep.cut; round++) {
        assert_true(round < 20); /* half a MiB is enough */
        assert_int_equal(ten_store_apply(fixture->store, ops, results, 2 * BATCH, TIMEOUT), TENURE_OK);
        change(fixture, "slow", (char[]){(char)('A' + round), '\0'});
        read_until(&awake, (char[]){'"', (char)('A' + round), '"', '\0'});
        ten_events_wake(fixture->events, resume, cut);
    }
    assert_false(awake.cut);
    /* What it has is still there for it; then its stream ends. */
    read_to_end(&asleep);
    assert_true(asleep.text.size <= 512 * 1024);
    assert_contains(ten_buf_string(&asleep.text), "lease_acquired");
    change(fixture, "slow", "last");
    read_until(&awake, "\"last\"");
    leave(&asleep);
    leave(&awake);
}

EVENTS(a_reader_that_waits_is_resumed_once_there_is_something) {
    struct fixture *fixture = *state;
    struct reader reader;
    join(fixture, &reader, "wait", UINT64_MAX);
    read_until(&reader, ": ok\n\n");
    reader.resumed = false;
    assert_false(take(&reader));
    ten_events_wake(fixture->events, resume, cut);
    assert_false(reader.resumed);
    change(fixture, "wait", "t");
    while (!reader.resumed)
        wait_for_news(fixture);
    reader.resumed = false;
    ten_events_wake(fixture->events, resume, cut); /* it has not read meanwhile */
    assert_false(reader.resumed);
    leave(&reader);
}

EVENTS(a_stream_that_is_cut_ends_for_its_reader_alone) {
    struct reader one, other;
    join(*state, &one, "cut", UINT64_MAX);
    join(*state, &other, "cut", UINT64_MAX);
    read_until(&one, ": ok\n\n");
    read_until(&other, ": ok\n\n");
    ten_events_cut(one.reader);
    read_to_end(&one);
    change(*state, "cut", "t");
    read_until(&other, "lease_released");
    assert_false(other.over);
    leave(&one);
    leave(&other);
}

EVENTS(all_streams_end_and_nobody_joins_any_more_when_the_server_stops) {
    struct fixture *fixture = *state;
    struct reader reader;
    join(fixture, &reader, "end", UINT64_MAX);
    read_until(&reader, ": ok\n\n");
    ten_events_end(fixture->events);
    read_to_end(&reader);
    assert_null(ten_events_join(fixture->events, "end", UINT64_MAX, &reader));
    leave(&reader);
}

EVENTS(a_namespace_more_than_there_is_room_for_ends_its_stream_at_once) {
    static struct reader readers[65];
    char name[16];
    for (size_t i = 0; i < TEN_COUNT(readers); i++) {
        snprintf(name, sizeof name, "many-%zu", i);
        join(*state, &readers[i], name, UINT64_MAX);
        if (i + 1 < TEN_COUNT(readers))
            read_until(&readers[i], ": ok\n\n");
    }
    read_to_end(&readers[64]);
    change(*state, "many-0", "t");
    read_until(&readers[0], "lease_released");
    for (size_t i = 0; i < TEN_COUNT(readers); i++)
        leave(&readers[i]);
}
