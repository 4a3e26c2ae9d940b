/*
 * Looking, the target registry and the feed of changes, through the C API on the memory store and a clock that stands
 * still.
 */
#include "unit/unit.h"

#include "runtime/context.h"

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    tenure_context *context;
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->clock = fake_clock_make(&fixture->fake);
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN};
    assert_int_equal(ten_context_open("memory:", &options, &fixture->clock, &fixture->context), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_close(fixture->context);
    free(fixture);
    return 0;
}

#define REGISTRY_TEST(name) TEST_WITH(name, set_up, tear_down)

static void acquire(tenure_context *context, const char *target) {
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(context, target, 0, TENURE_MANUAL, &lease), TENURE_OK);
    tenure_lease_free(lease);
}

static void put(tenure_context *context, const char *id, bool paused) {
    assert_int_equal(tenure_registry_put(
                         context, &(tenure_target){.size = sizeof(tenure_target), .id = id, .paused = paused}, 1, NULL),
                     TENURE_OK);
}

/* ---- looking */

REGISTRY_TEST(a_held_target_is_described) {
    struct fixture *fixture = *state;
    tenure_info info = {.size = sizeof info};
    acquire(fixture->context, "x");
    uint64_t acquired_at_ms = fixture->fake.wall_ms;
    fixture->fake.boot_ms += 1000;
    fixture->fake.wall_ms += 1000;
    assert_int_equal(tenure_target_read(fixture->context, "x", &info), TENURE_OK);
    assert_string_equal(info.target, "x");
    assert_string_equal(info.holder, tenure_instance_id(fixture->context));
    assert_int_equal(info.token, 1);
    assert_int_equal(info.ttl_ms, 30000);
    assert_int_equal(info.remaining_ms, 29000);
    assert_int_equal(info.acquired_at_ms, acquired_at_ms);
    assert_int_equal(info.renewed_at_ms, acquired_at_ms);
    assert_int_equal(info.expires_at_ms, acquired_at_ms + 30000);
    assert_false(info.registered || info.paused || info.barred);
}

REGISTRY_TEST(an_unknown_target_is_said_to_be_unknown) {
    struct fixture *fixture = *state;
    tenure_info info = {.size = sizeof info, .token = 77};
    assert_int_equal(tenure_target_read(fixture->context, "x", &info), TENURE_E_UNKNOWN_TARGET);
    assert_int_equal(info.token, 77);
    assert_contains(tenure_message(fixture->context), "no target x in the namespace poll");
}

/* ---- listing */

struct seen {
    char text[512];
    size_t count;
};

static int note_info(const tenure_info *info, void *userdata) {
    struct seen *seen = userdata;
    seen->count++;
    snprintf(seen->text + strlen(seen->text), sizeof seen->text - strlen(seen->text), "%s ", info->target);
    return 0;
}

static void assert_listed(tenure_context *context, enum tenure_filter filter, const char *expected) {
    struct seen seen = {0};
    assert_int_equal(tenure_target_list(context, filter, note_info, &seen), TENURE_OK);
    assert_string_equal(seen.text, expected);
}

REGISTRY_TEST(a_listing_is_in_byte_order_and_filtered) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    assert_listed(context, TENURE_ALL, "");
    acquire(context, "d");
    fixture->fake.boot_ms += 30000; /* d is free again */
    acquire(context, "b");
    acquire(context, "B");
    put(context, "a/1", false);
    put(context, "a", true);
    put(context, "b", true);
    assert_listed(context, TENURE_ALL, "B a a/1 b d ");
    assert_listed(context, TENURE_LEASED, "B b ");
    assert_listed(context, TENURE_FREE, "a/1 d ");
    assert_listed(context, TENURE_REGISTERED, "a a/1 b ");
}

static int count_in_order(const tenure_info *info, void *userdata) {
    struct seen *seen = userdata;
    assert_true(strcmp(info->target, seen->text) > 0);
    snprintf(seen->text, sizeof seen->text, "%s", info->target);
    seen->count++;
    return 0;
}

REGISTRY_TEST(a_listing_of_many_pages_has_every_target_once) {
    struct fixture *fixture = *state;
    static const size_t sizes[] = {255, 256, 257, 1025};
    size_t made = 0;
    for (size_t i = 0; i < TEN_COUNT(sizes); i++) {
        for (char id[32]; made < sizes[i]; made++) {
            snprintf(id, sizeof id, "t-%zu", made);
            put(fixture->context, id, false);
        }
        struct seen seen = {0};
        assert_int_equal(tenure_target_list(fixture->context, TENURE_ALL, count_in_order, &seen), TENURE_OK);
        assert_int_equal(seen.count, sizes[i]);
    }
}

struct stopper {
    tenure_context *context;
    size_t count;
    int answer;
};

static int stop_at_second(const tenure_info *info, void *userdata) {
    struct stopper *stopper = userdata;
    tenure_info again = {.size = sizeof again};
    assert_int_equal(tenure_target_read(stopper->context, info->target, &again),
                     TENURE_OK); /* the context may be used */
    return ++stopper->count == 2 ? stopper->answer : 0;
}

REGISTRY_TEST(a_listing_ends_when_it_is_told_to) {
    struct fixture *fixture = *state;
    static const int answers[] = {1, 42, -5};
    put(fixture->context, "a", false);
    put(fixture->context, "b", false);
    put(fixture->context, "c", false);
    for (size_t i = 0; i < TEN_COUNT(answers); i++) {
        struct stopper stopper = {.context = fixture->context, .answer = answers[i]};
        assert_int_equal(tenure_target_list(fixture->context, TENURE_ALL, stop_at_second, &stopper), answers[i]);
        assert_int_equal(stopper.count, 2);
    }
}

/* ---- the registry */

static int note_target(const tenure_target *target, void *userdata) {
    struct seen *seen = userdata;
    seen->count++;
    snprintf(seen->text + strlen(seen->text), sizeof seen->text - strlen(seen->text), "%s,%s,%s,%s,%llu,%d ",
             target->id, target->url ? target->url : "-", target->exec ? target->exec : "-",
             target->spec ? target->spec : "-", (unsigned long long)target->every_ms, target->paused);
    return 0;
}

static void assert_registry(tenure_context *context, const char *expected) {
    struct seen seen = {0};
    assert_int_equal(tenure_registry_list(context, note_target, &seen), TENURE_OK);
    assert_string_equal(seen.text, expected);
}

REGISTRY_TEST(targets_are_registered_changed_and_removed) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    tenure_target targets[] = {
        {.size = sizeof(tenure_target), .id = "b", .url = "http://h/", .every_ms = 5000},
        {.size = sizeof(tenure_target), .id = "a", .exec = "true", .spec = "{}", .paused = true}};
    size_t added = 77;
    assert_int_equal(tenure_registry_put(context, targets, 2, &added), TENURE_OK);
    assert_int_equal(added, 2);
    assert_registry(context, "a,-,true,{},0,1 b,http://h/,-,-,5000,0 ");
    targets[0] = (tenure_target){.size = sizeof(tenure_target), .id = "b"};
    targets[1] = (tenure_target){.size = sizeof(tenure_target), .id = "c"};
    assert_int_equal(tenure_registry_put(context, targets, 2, &added), TENURE_OK);
    assert_int_equal(added, 1);
    assert_int_equal(tenure_registry_resume(context, "a"), TENURE_OK);
    assert_int_equal(tenure_registry_pause(context, "c"), TENURE_OK);
    assert_registry(context, "a,-,true,{},0,0 b,-,-,-,0,0 c,-,-,-,0,1 ");
    assert_int_equal(tenure_registry_remove(context, "a"), TENURE_OK);
    assert_registry(context, "b,-,-,-,0,0 c,-,-,-,0,1 ");
    assert_int_equal(tenure_registry_put(context, NULL, 0, &added), TENURE_OK);
    assert_int_equal(added, 0);
}

REGISTRY_TEST(what_is_not_registered_is_neither_removed_nor_paused) {
    struct fixture *fixture = *state;
    acquire(fixture->context, "leased");
    assert_int_equal(tenure_registry_remove(fixture->context, "leased"), TENURE_E_UNKNOWN_TARGET);
    assert_int_equal(tenure_registry_pause(fixture->context, "x"), TENURE_E_UNKNOWN_TARGET);
    assert_contains(tenure_message(fixture->context), "no target x in the registry");
}

REGISTRY_TEST(an_instance_that_is_not_there_cannot_be_drained) {
    struct fixture *fixture = *state;
    assert_int_equal(tenure_instance_drain(fixture->context, "nobody-1-abc"), TENURE_E_UNKNOWN_INSTANCE);
    assert_contains(tenure_message(fixture->context), "nobody-1-abc");
    assert_int_equal(tenure_instance_undrain(fixture->context, "nobody-1-abc"), TENURE_E_UNKNOWN_INSTANCE);
}

REGISTRY_TEST(a_bad_target_among_good_ones_registers_none) {
    struct fixture *fixture = *state;
    tenure_target targets[] = {{.size = sizeof(tenure_target), .id = "a"},
                               {.size = sizeof(tenure_target), .id = "../b"},
                               {.size = sizeof(tenure_target), .id = "c"}};
    size_t added = 77;
    assert_int_equal(tenure_registry_put(fixture->context, targets, 3, &added), TENURE_E_INVALID);
    assert_contains(tenure_message(fixture->context), "../b");
    targets[1] = (tenure_target){.size = sizeof(tenure_target), .id = NULL};
    assert_int_equal(tenure_registry_put(fixture->context, targets, 3, &added), TENURE_E_INVALID);
    targets[1] = (tenure_target){.size = sizeof(tenure_target), .id = "b", .every_ms = TENURE_TTL_MAX_MS + 1};
    assert_int_equal(tenure_registry_put(fixture->context, targets, 3, &added), TENURE_E_INVALID);
    assert_contains(tenure_message(fixture->context), "at most 366 days");
    targets[1] = (tenure_target){.size = sizeof(tenure_target), .id = "b", .spec = "{\"a\": 1"};
    assert_int_equal(tenure_registry_put(fixture->context, targets, 3, &added), TENURE_E_INVALID);
    assert_contains(tenure_message(fixture->context), "target b: spec is not JSON");
    assert_int_equal(added, 77);
    assert_registry(fixture->context, "");
    assert_int_equal(tenure_registry_remove(fixture->context, "..\n"), TENURE_E_INVALID);
    assert_lacks(tenure_message(fixture->context), "\n");
}

static int count_targets(const tenure_target *target, void *userdata) {
    (void)target;
    return ++*(int *)userdata == 300 ? 9 : 0;
}

REGISTRY_TEST(the_registry_is_listed_page_by_page_until_told_to_end) {
    struct fixture *fixture = *state;
    char id[32];
    int count = -1000;
    for (int i = 0; i < 600; i++) {
        snprintf(id, sizeof id, "t-%d", i);
        put(fixture->context, id, false);
    }
    assert_int_equal(tenure_registry_list(fixture->context, count_targets, &count), TENURE_OK);
    assert_int_equal(count, -400);
    count = 0;
    assert_int_equal(tenure_registry_list(fixture->context, count_targets, &count), 9);
    assert_int_equal(count, 300);
}

/* ---- changes */

static int note_change(const tenure_change *change, void *userdata) {
    struct seen *seen = userdata;
    seen->count++;
    snprintf(seen->text + strlen(seen->text), sizeof seen->text - strlen(seen->text), "%s,%s,%s,%llu%s ",
             tenure_event_name(change->kind), change->target, change->reason, (unsigned long long)change->token,
             change->actor[0] ? ",forced" : "");
    return 0;
}

REGISTRY_TEST(changes_come_in_order_and_once) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    tenure_lease *lease = NULL;
    uint64_t cursor;
    struct seen seen = {0};
    acquire(context, "before");
    assert_int_equal(tenure_watch_start(context, &cursor), TENURE_OK);
    assert_int_equal(tenure_watch_wait(context, &cursor, 0, note_change, &seen), TENURE_OK);
    assert_int_equal(seen.count, 0);
    put(context, "x", false);
    assert_int_equal(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_renew(lease), TENURE_OK); /* not a change */
    assert_int_equal(tenure_release(lease), TENURE_OK);
    tenure_lease_free(lease);
    acquire(context, "y");
    assert_int_equal(tenure_force_release(context, "y", NULL, TENURE_NOW, NULL), TENURE_OK);
    assert_int_equal(tenure_registry_pause(context, "x"), TENURE_OK);
    assert_int_equal(tenure_registry_remove(context, "x"), TENURE_OK);
    assert_int_equal(tenure_watch_wait(context, &cursor, UINT64_MAX, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "target_added,x,,0 lease_acquired,x,,1 lease_released,x,done,1 lease_acquired,y,,1 "
                                   "lease_released,y,forced,1,forced target_changed,x,,0 target_removed,x,,0 ");
    assert_int_equal(tenure_watch_wait(context, &cursor, 0, note_change, &seen), TENURE_OK);
    assert_int_equal(seen.count, 7);
}

REGISTRY_TEST(a_cursor_that_the_store_no_longer_has_is_set_to_this_moment) {
    struct fixture *fixture = *state;
    uint64_t cursor = 999999;
    struct seen seen = {0};
    acquire(fixture->context, "x");
    assert_int_equal(tenure_watch_wait(fixture->context, &cursor, UINT64_MAX, note_change, &seen), TENURE_E_RESYNC);
    assert_int_equal(seen.count, 0);
    acquire(fixture->context, "y");
    assert_int_equal(tenure_watch_wait(fixture->context, &cursor, 0, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "lease_acquired,y,,1 ");
}

REGISTRY_TEST(many_changes_come_in_pieces) {
    struct fixture *fixture = *state;
    uint64_t cursor;
    char id[32];
    struct seen seen = {0};
    assert_int_equal(tenure_watch_start(fixture->context, &cursor), TENURE_OK);
    for (int i = 0; i < 700; i++) {
        snprintf(id, sizeof id, "t-%d", i);
        put(fixture->context, id, false);
    }
    while (seen.count < 700) {
        size_t before = seen.count;
        seen.text[0] = '\0';
        assert_int_equal(tenure_watch_wait(fixture->context, &cursor, 0, note_change, &seen), TENURE_OK);
        assert_true(seen.count > before);
    }
    assert_int_equal(seen.count, 700);
}

struct reader {
    tenure_context *context;
    size_t count;
    uint64_t last;
    int answer;
};

static int stop_at_second_change(const tenure_change *change, void *userdata) {
    struct reader *reader = userdata;
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(reader->context, change->target, &info), TENURE_OK); /* it may be used */
    reader->last = change->cursor;
    return ++reader->count == 2 ? reader->answer : 0;
}

REGISTRY_TEST(a_watch_ends_when_it_is_told_to_and_goes_on_after_that_change) {
    struct fixture *fixture = *state;
    struct reader reader = {.context = fixture->context, .answer = 42};
    struct seen seen = {0};
    uint64_t cursor;
    assert_int_equal(tenure_watch_start(fixture->context, &cursor), TENURE_OK);
    put(fixture->context, "a", false);
    put(fixture->context, "b", false);
    put(fixture->context, "c", false);
    assert_int_equal(tenure_watch_wait(fixture->context, &cursor, 0, stop_at_second_change, &reader), 42);
    assert_int_equal(reader.count, 2);
    assert_int_equal(cursor, reader.last);
    assert_int_equal(tenure_watch_wait(fixture->context, &cursor, 0, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "target_added,c,,0 ");
}

REGISTRY_TEST(the_history_is_read_until_it_is_told_to_end) {
    struct fixture *fixture = *state;
    struct reader reader = {.context = fixture->context, .answer = 7};
    struct seen seen = {0};
    acquire(fixture->context, "a");
    acquire(fixture->context, "b");
    acquire(fixture->context, "c");
    assert_int_equal(tenure_history_read(fixture->context, NULL, 0, 100, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "lease_acquired,a,,1 lease_acquired,b,,1 lease_acquired,c,,1 ");
    assert_int_equal(tenure_history_read(fixture->context, NULL, 0, 100, stop_at_second_change, &reader), 7);
    assert_int_equal(reader.count, 2);
    seen = (struct seen){0};
    assert_int_equal(tenure_history_read(fixture->context, "b", 0, 100, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "lease_acquired,b,,1 ");
    seen = (struct seen){0};
    assert_int_equal(tenure_history_read(fixture->context, NULL, 0, 1, note_change, &seen), TENURE_OK);
    assert_string_equal(seen.text, "lease_acquired,c,,1 ");
}
