/*
 * The fleet member of the C API: one instance of a fleet, alone and with others, on the memory store. Real time, since
 * its thread is the subject; TTLs are short, and nothing asserts how fast, only that it comes.
 */
#include "unit/unit.h"

#include <tenure.h>

#include "base/io.h"

#define SOON_MS HANG_MS

static tenure_member *open_member(const char *url, bool from_store) {
    tenure_member_options options = {
        .size = sizeof options, .ttl_ms = 1000, .settle_ms = 50, .timeout_ms = 3000, .targets_from_store = from_store};
    tenure_member *member = NULL;
    assert_int_equal(tenure_member_open(url, &options, &member), TENURE_OK);
    return member;
}

static tenure_member *start_member(const char *url, bool from_store) {
    tenure_member *member = open_member(url, from_store);
    assert_int_equal(tenure_member_start(member), TENURE_OK);
    return member;
}

static void stop_member(tenure_member *member) {
    assert_int_equal(tenure_member_stop(member, SOON_MS), TENURE_OK);
    tenure_member_close(member);
}

static int count_one(const char *name, void *userdata) {
    (void)name;
    ++*(size_t *)userdata;
    return 0;
}

static size_t owned(tenure_member *member) {
    size_t count = 0;
    assert_int_equal(tenure_member_list_held(member, count_one, &count), TENURE_OK);
    return count;
}

/* Waits until the fleet member owns that many. */
static bool owns_soon(tenure_member *member, size_t count) {
    for (unsigned i = 0; i < SOON_MS / 5; i++) {
        if (owned(member) == count)
            return true;
        ten_sleep_us(5000);
    }
    return false;
}

static void put_targets(tenure_member *member, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_put(member, id, 0), TENURE_OK);
    }
}

static void a_single_member_acquires_every_target_and_gives_it_back_when_stopped(void **state) {
    (void)state;
    tenure_member *member = start_member("memory:fleet member-1", false);
    put_targets(member, 10);
    assert_true(owns_soon(member, 10));
    assert_true(tenure_member_is_held(member, "t03"));
    const tenure_handle *handle = tenure_member_handle(member, "t03");
    assert_non_null(handle);
    assert_true(tenure_handle_is_held(handle));
    assert_int_equal(tenure_handle_token(handle), 1);
    assert_in_range(tenure_handle_remaining_ms(handle), 1, 1000);
    assert_int_equal(tenure_member_confirm(member, "t03"), TENURE_OK);
    tenure_member_info info = {.size = sizeof info};
    assert_int_equal(tenure_member_read(member, "t03", &info), TENURE_OK);
    assert_int_equal(info.state, TENURE_STATE_OWNED);
    assert_string_equal(info.holder, tenure_member_instance_id(member));
    assert_string_equal(info.planned, tenure_member_instance_id(member));
    assert_true(info.acquired_at_ms > 0 && info.last_renewed_at_ms >= info.acquired_at_ms);
    /* Somebody keeps the store alive, to look at it afterwards. */
    tenure_context *context = NULL;
    assert_int_equal(tenure_open("memory:fleet member-1", NULL, &context), TENURE_OK);
    stop_member(member);
    tenure_info after = {.size = sizeof after};
    assert_int_equal(tenure_target_read(context, "t03", &after), TENURE_OK);
    assert_string_equal(after.holder, "");
    tenure_close(context);
}

static void two_members_share_and_agree_and_one_takes_over_from_the_other(void **state) {
    (void)state;
    tenure_member *first = start_member("memory:fleet member-2", false);
    put_targets(first, 9);
    assert_true(owns_soon(first, 9));
    tenure_member *second = start_member("memory:fleet member-2", false);
    put_targets(second, 9);
    for (unsigned i = 0; i < SOON_MS / 5 && (owned(second) < 4 || owned(first) > 5); i++)
        ten_sleep_us(5000);
    assert_in_range(owned(second), 4, 5);
    assert_true(owns_soon(first, 9 - owned(second)));
    size_t live = 0;
    assert_int_equal(tenure_member_list_instances(first, count_one, &live), TENURE_OK);
    assert_int_equal(live, 2);
    for (unsigned i = 0; i < 9; i++) {
        char id[16];
        char one[TENURE_HOLDER_MAX + 1];
        char other[TENURE_HOLDER_MAX + 1];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_planned_holder(first, id, one), TENURE_OK);
        assert_int_equal(tenure_member_planned_holder(second, id, other), TENURE_OK);
        assert_string_equal(one, other);
        assert_false(tenure_member_is_held(first, id) && tenure_member_is_held(second, id));
    }
    stop_member(second);
    assert_true(owns_soon(first, 9));
    stop_member(first);
}

static void a_busy_target_is_not_given_back_before_its_work_has_stopped(void **state) {
    (void)state;
    tenure_member *member = start_member("memory:fleet member-3", false);
    put_targets(member, 1);
    assert_true(owns_soon(member, 1));
    uint64_t token = 0;
    assert_int_equal(tenure_member_begin(member, "t00", &token), TENURE_OK);
    assert_int_equal(token, 1);
    assert_int_equal(tenure_member_remove(member, "t00"), TENURE_OK);
    for (int i = 0; i < 40 && tenure_member_is_held(member, "t00"); i++)
        ten_sleep_us(5000);
    /* No new work, but the lease is kept and renewed past its TTL while the old work goes on. */
    assert_false(tenure_member_is_held(member, "t00"));
    ten_sleep_us(1200000);
    assert_int_equal(owned(member), 1);
    assert_int_equal(tenure_member_begin(member, "t00", &token), TENURE_E_LOST);
    tenure_member_end(member, "t00");
    assert_true(owns_soon(member, 0));
    stop_member(member);
}

static void end_work(const tenure_event *event, void *userdata) {
    if (event->kind == TENURE_EVENT_STOP)
        tenure_member_end(*(tenure_member **)userdata, event->target);
}

/* Nothing else is due for an hour: the thread must not sleep on what it has to tell. */
static void the_program_is_told_to_end_its_work_as_soon_as_there_is_a_reason(void **state) {
    (void)state;
    tenure_member *member = NULL;
    tenure_member_options options = {.size = sizeof options,
                                     .ttl_ms = 3 * 3600 * 1000,
                                     .settle_ms = 50,
                                     .timeout_ms = 3000,
                                     .on_event = end_work,
                                     .userdata = &member};
    assert_int_equal(tenure_member_open("memory:fleet member-told", &options, &member), TENURE_OK);
    assert_int_equal(tenure_member_start(member), TENURE_OK);
    put_targets(member, 1);
    assert_true(owns_soon(member, 1));
    uint64_t token = 0;
    assert_int_equal(tenure_member_begin(member, "t00", &token), TENURE_OK);
    stop_member(member);
}

static void try_acquire_takes_a_target_whatever_the_plan_says_and_keeps_it(void **state) {
    (void)state;
    tenure_member *first = start_member("memory:fleet member-4", false);
    tenure_member *second = start_member("memory:fleet member-4", false);
    bool acquired = false;
    assert_int_equal(tenure_member_try_acquire(first, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_member_try_acquire(first, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_member_try_acquire(second, "mine", &acquired), TENURE_OK);
    assert_false(acquired);
    ten_sleep_us(1200000);
    assert_true(tenure_member_is_held(first, "mine"));
    assert_int_equal(tenure_member_release(first, "mine"), TENURE_OK);
    assert_true(owns_soon(first, 0));
    assert_int_equal(tenure_member_try_acquire(second, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_member_release(first, "mine"), TENURE_E_UNKNOWN_TARGET);
    stop_member(first);
    stop_member(second);
}

static void a_drained_member_hands_everything_over_and_takes_it_back(void **state) {
    (void)state;
    tenure_member *first = start_member("memory:fleet member-5", false);
    tenure_member *second = start_member("memory:fleet member-5", false);
    put_targets(first, 6);
    put_targets(second, 6);
    assert_true(owns_soon(first, 3) && owns_soon(second, 3));
    assert_int_equal(tenure_member_set_weight(first, 0), TENURE_OK);
    assert_true(owns_soon(first, 0) && owns_soon(second, 6));
    assert_int_equal(tenure_member_set_weight(first, 2), TENURE_OK);
    assert_true(owns_soon(first, 4) && owns_soon(second, 2));
    stop_member(first);
    stop_member(second);
}

static void paused_targets_are_left_alone_and_do_not_count_for_the_balance(void **state) {
    (void)state;
    tenure_member *first = start_member("memory:fleet member-6", false);
    tenure_member *second = start_member("memory:fleet member-6", false);
    put_targets(first, 8);
    put_targets(second, 8);
    assert_true(owns_soon(first, 4) && owns_soon(second, 4));
    for (unsigned i = 0; i < 4; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_put(first, id, TENURE_PAUSED), TENURE_OK);
        assert_int_equal(tenure_member_put(second, id, TENURE_PAUSED), TENURE_OK);
    }
    assert_true(owns_soon(first, 2) && owns_soon(second, 2));
    assert_false(tenure_member_is_held(first, "t00") || tenure_member_is_held(second, "t00"));
    stop_member(first);
    stop_member(second);
}

static void targets_from_the_registry_follow_it(void **state) {
    (void)state;
    tenure_context *context = NULL;
    assert_int_equal(tenure_open("memory:fleet member-7", NULL, &context), TENURE_OK);
    tenure_target targets[] = {{.id = "a"}, {.id = "b"}, {.id = "c", .paused = true}};
    assert_int_equal(tenure_registry_put(context, targets, 3, NULL), TENURE_OK);
    tenure_member *member = start_member("memory:fleet member-7", true);
    assert_true(owns_soon(member, 2));
    assert_int_equal(tenure_registry_resume(context, "c"), TENURE_OK);
    assert_true(owns_soon(member, 3));
    assert_int_equal(tenure_registry_remove(context, "a"), TENURE_OK);
    assert_true(owns_soon(member, 2));
    assert_false(tenure_member_is_held(member, "a"));
    assert_int_equal(tenure_member_put(member, "x", 0), TENURE_E_INVALID);
    stop_member(member);
    tenure_close(context);
}

static void events_can_be_pulled(void **state) {
    (void)state;
    tenure_member *member = start_member("memory:fleet member-8", false);
    put_targets(member, 1);
    tenure_event event = {.size = sizeof event};
    bool acquired = false;
    for (int i = 0; i < 50 && !acquired; i++) {
        assert_int_equal(tenure_member_next_event(member, SOON_MS, &event), TENURE_OK);
        acquired = event.kind == TENURE_EVENT_ACQUIRED;
    }
    assert_true(acquired);
    assert_string_equal(event.name, "lease_acquired");
    assert_string_equal(event.target, "t00");
    assert_int_equal(event.token, 1);
    stop_member(member);
}

static void a_fleet_with_another_ttl_is_refused(void **state) {
    (void)state;
    tenure_member *first = start_member("memory:fleet member-9", false);
    put_targets(first, 1);
    assert_true(owns_soon(first, 1));
    tenure_member_options options = {.size = sizeof options, .ttl_ms = 2000};
    tenure_member *other = NULL;
    assert_int_equal(tenure_member_open("memory:fleet member-9", &options, &other), TENURE_OK);
    assert_int_equal(tenure_member_start(other), TENURE_OK);
    tenure_event event = {.size = sizeof event};
    assert_int_equal(tenure_member_next_event(other, SOON_MS, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_REFUSED);
    assert_int_equal(event.error, TENURE_E_TTL);
    assert_int_equal(event.remaining_ms, 1000);
    tenure_member_close(other);
    stop_member(first);
}

static void unsafe_options_and_bad_names_are_refused(void **state) {
    (void)state;
    tenure_member *member = NULL;
    tenure_member_options options = {.size = sizeof options, .ttl_ms = 1000, .renew_ms = 600};
    assert_int_equal(tenure_member_open("memory:", &options, &member), TENURE_E_TTL);
    assert_non_null(strstr(tenure_member_message(NULL), "cannot be safe"));
    member = open_member("memory:", false);
    assert_int_equal(tenure_member_put(member, "a b", 0), TENURE_E_INVALID);
    assert_int_equal(tenure_member_remove(member, "x"), TENURE_E_UNKNOWN_TARGET);
    assert_null(tenure_member_handle(member, "x"));
    assert_false(tenure_member_is_held(member, "x"));
    bool acquired;
    assert_int_equal(tenure_member_try_acquire(member, "x", &acquired), TENURE_E_INVALID);
    tenure_member_close(member);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_member_acquires_every_target_and_gives_it_back_when_stopped),
        cmocka_unit_test(two_members_share_and_agree_and_one_takes_over_from_the_other),
        cmocka_unit_test(a_busy_target_is_not_given_back_before_its_work_has_stopped),
        cmocka_unit_test(the_program_is_told_to_end_its_work_as_soon_as_there_is_a_reason),
        cmocka_unit_test(try_acquire_takes_a_target_whatever_the_plan_says_and_keeps_it),
        cmocka_unit_test(a_drained_member_hands_everything_over_and_takes_it_back),
        cmocka_unit_test(paused_targets_are_left_alone_and_do_not_count_for_the_balance),
        cmocka_unit_test(targets_from_the_registry_follow_it),
        cmocka_unit_test(events_can_be_pulled),
        cmocka_unit_test(a_fleet_with_another_ttl_is_refused),
        cmocka_unit_test(unsafe_options_and_bad_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
