/*
 * The manager of the C API: one instance of a fleet, alone and with others, on the memory store. Real time, since its
 * thread is the subject; TTLs are short, and nothing asserts how fast, only that it comes.
 */
#include "unit.h"

#include <tenure.h>

#include "base/io.h"

#define SOON_MS HANG_MS

static tenure_manager *open_manager(const char *url, bool from_store) {
    tenure_manager_options options = {
        .size = sizeof options, .ttl_ms = 1000, .settle_ms = 50, .timeout_ms = 3000, .targets_from_store = from_store};
    tenure_manager *manager = NULL;
    assert_int_equal(tenure_manager_open(url, &options, &manager), TENURE_OK);
    return manager;
}

static tenure_manager *start_manager(const char *url, bool from_store) {
    tenure_manager *manager = open_manager(url, from_store);
    assert_int_equal(tenure_manager_start(manager), TENURE_OK);
    return manager;
}

static void stop_manager(tenure_manager *manager) {
    assert_int_equal(tenure_manager_stop(manager, SOON_MS), TENURE_OK);
    tenure_manager_close(manager);
}

static int count_one(const char *name, void *userdata) {
    (void)name;
    ++*(size_t *)userdata;
    return 0;
}

static size_t owned(tenure_manager *manager) {
    size_t count = 0;
    assert_int_equal(tenure_manager_owned(manager, count_one, &count), TENURE_OK);
    return count;
}

/* Waits until the manager owns that many. */
static bool owns_soon(tenure_manager *manager, size_t count) {
    for (unsigned i = 0; i < SOON_MS / 5; i++) {
        if (owned(manager) == count)
            return true;
        ten_sleep_us(5000);
    }
    return false;
}

static void put_targets(tenure_manager *manager, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_manager_put_target(manager, id, false), TENURE_OK);
    }
}

static void a_single_manager_acquires_every_target_and_gives_it_back_when_stopped(void **state) {
    (void)state;
    tenure_manager *manager = start_manager("memory:manager-1", false);
    put_targets(manager, 10);
    assert_true(owns_soon(manager, 10));
    assert_true(tenure_manager_is_owned(manager, "t03"));
    const tenure_handle *handle = tenure_manager_handle(manager, "t03");
    assert_non_null(handle);
    assert_true(tenure_handle_is_owned(handle));
    assert_int_equal(tenure_handle_token(handle), 1);
    assert_in_range(tenure_handle_remaining_ms(handle), 1, 1000);
    assert_int_equal(tenure_manager_strict_check(manager, "t03"), TENURE_OK);
    tenure_lease_info info;
    assert_int_equal(tenure_manager_lease_info(manager, "t03", &info), TENURE_OK);
    assert_int_equal(info.state, TENURE_STATE_OWNED);
    assert_string_equal(info.owner, tenure_manager_instance_id(manager));
    assert_string_equal(info.planned, tenure_manager_instance_id(manager));
    assert_true(info.acquired_at_ms > 0 && info.last_renewed_at_ms >= info.acquired_at_ms);
    /* Somebody keeps the store alive, to look at it afterwards. */
    tenure_client *client = NULL;
    assert_int_equal(tenure_open("memory:manager-1", NULL, &client), TENURE_OK);
    stop_manager(manager);
    tenure_info after;
    assert_int_equal(tenure_get_info(client, "t03", &after), TENURE_OK);
    assert_string_equal(after.holder, "");
    tenure_close(client);
}

static void two_managers_share_and_agree_and_one_takes_over_from_the_other(void **state) {
    (void)state;
    tenure_manager *first = start_manager("memory:manager-2", false);
    put_targets(first, 9);
    assert_true(owns_soon(first, 9));
    tenure_manager *second = start_manager("memory:manager-2", false);
    put_targets(second, 9);
    for (unsigned i = 0; i < SOON_MS / 5 && (owned(second) < 4 || owned(first) > 5); i++)
        ten_sleep_us(5000);
    assert_in_range(owned(second), 4, 5);
    assert_true(owns_soon(first, 9 - owned(second)));
    size_t live = 0;
    assert_int_equal(tenure_manager_live_instances(first, count_one, &live), TENURE_OK);
    assert_int_equal(live, 2);
    for (unsigned i = 0; i < 9; i++) {
        char id[16];
        char one[TENURE_HOLDER_MAX + 1];
        char other[TENURE_HOLDER_MAX + 1];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_manager_preferred_owner(first, id, one), TENURE_OK);
        assert_int_equal(tenure_manager_preferred_owner(second, id, other), TENURE_OK);
        assert_string_equal(one, other);
        assert_false(tenure_manager_is_owned(first, id) && tenure_manager_is_owned(second, id));
    }
    stop_manager(second);
    assert_true(owns_soon(first, 9));
    stop_manager(first);
}

static void a_busy_target_is_not_given_back_before_its_work_has_stopped(void **state) {
    (void)state;
    tenure_manager *manager = start_manager("memory:manager-3", false);
    put_targets(manager, 1);
    assert_true(owns_soon(manager, 1));
    uint64_t token = 0;
    assert_int_equal(tenure_manager_begin(manager, "t00", &token), TENURE_OK);
    assert_int_equal(token, 1);
    assert_int_equal(tenure_manager_remove_target(manager, "t00"), TENURE_OK);
    for (int i = 0; i < 40 && tenure_manager_is_owned(manager, "t00"); i++)
        ten_sleep_us(5000);
    /* No new work, but the lease is kept and renewed past its TTL while the old work goes on. */
    assert_false(tenure_manager_is_owned(manager, "t00"));
    ten_sleep_us(1200000);
    assert_int_equal(owned(manager), 1);
    assert_int_equal(tenure_manager_begin(manager, "t00", &token), TENURE_E_LOST);
    tenure_manager_end(manager, "t00");
    assert_true(owns_soon(manager, 0));
    stop_manager(manager);
}

static void try_acquire_takes_a_target_whatever_the_plan_says_and_keeps_it(void **state) {
    (void)state;
    tenure_manager *first = start_manager("memory:manager-4", false);
    tenure_manager *second = start_manager("memory:manager-4", false);
    bool acquired = false;
    assert_int_equal(tenure_manager_try_acquire(first, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_manager_try_acquire(first, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_manager_try_acquire(second, "mine", &acquired), TENURE_OK);
    assert_false(acquired);
    ten_sleep_us(1200000);
    assert_true(tenure_manager_is_owned(first, "mine"));
    assert_int_equal(tenure_manager_release(first, "mine"), TENURE_OK);
    assert_true(owns_soon(first, 0));
    assert_int_equal(tenure_manager_try_acquire(second, "mine", &acquired), TENURE_OK);
    assert_true(acquired);
    assert_int_equal(tenure_manager_release(first, "mine"), TENURE_E_UNKNOWN_TARGET);
    stop_manager(first);
    stop_manager(second);
}

static void a_drained_manager_hands_everything_over_and_takes_it_back(void **state) {
    (void)state;
    tenure_manager *first = start_manager("memory:manager-5", false);
    tenure_manager *second = start_manager("memory:manager-5", false);
    put_targets(first, 6);
    put_targets(second, 6);
    assert_true(owns_soon(first, 3) && owns_soon(second, 3));
    assert_int_equal(tenure_manager_set_weight(first, 0), TENURE_OK);
    assert_true(owns_soon(first, 0) && owns_soon(second, 6));
    assert_int_equal(tenure_manager_set_weight(first, 2), TENURE_OK);
    assert_true(owns_soon(first, 4) && owns_soon(second, 2));
    stop_manager(first);
    stop_manager(second);
}

static void paused_targets_are_left_alone_and_do_not_count_for_the_balance(void **state) {
    (void)state;
    tenure_manager *first = start_manager("memory:manager-6", false);
    tenure_manager *second = start_manager("memory:manager-6", false);
    put_targets(first, 8);
    put_targets(second, 8);
    assert_true(owns_soon(first, 4) && owns_soon(second, 4));
    for (unsigned i = 0; i < 4; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_manager_put_target(first, id, true), TENURE_OK);
        assert_int_equal(tenure_manager_put_target(second, id, true), TENURE_OK);
    }
    assert_true(owns_soon(first, 2) && owns_soon(second, 2));
    assert_false(tenure_manager_is_owned(first, "t00") || tenure_manager_is_owned(second, "t00"));
    stop_manager(first);
    stop_manager(second);
}

static void targets_from_the_registry_follow_it(void **state) {
    (void)state;
    tenure_client *client = NULL;
    assert_int_equal(tenure_open("memory:manager-7", NULL, &client), TENURE_OK);
    tenure_target targets[] = {{.id = "a"}, {.id = "b"}, {.id = "c", .paused = true}};
    assert_int_equal(tenure_targets_put(client, targets, 3, NULL), TENURE_OK);
    tenure_manager *manager = start_manager("memory:manager-7", true);
    assert_true(owns_soon(manager, 2));
    assert_int_equal(tenure_target_pause(client, "c", false), TENURE_OK);
    assert_true(owns_soon(manager, 3));
    assert_int_equal(tenure_target_remove(client, "a"), TENURE_OK);
    assert_true(owns_soon(manager, 2));
    assert_false(tenure_manager_is_owned(manager, "a"));
    assert_int_equal(tenure_manager_put_target(manager, "x", false), TENURE_E_INVALID);
    stop_manager(manager);
    tenure_close(client);
}

static void events_can_be_pulled(void **state) {
    (void)state;
    tenure_manager *manager = start_manager("memory:manager-8", false);
    put_targets(manager, 1);
    tenure_event event;
    bool acquired = false;
    for (int i = 0; i < 50 && !acquired; i++) {
        assert_int_equal(tenure_manager_next_event(manager, SOON_MS, &event), TENURE_OK);
        acquired = event.kind == TENURE_EVENT_ACQUIRED;
    }
    assert_true(acquired);
    assert_string_equal(event.name, "lease_acquired");
    assert_string_equal(event.target, "t00");
    assert_int_equal(event.token, 1);
    stop_manager(manager);
}

static void a_fleet_with_another_ttl_is_refused(void **state) {
    (void)state;
    tenure_manager *first = start_manager("memory:manager-9", false);
    put_targets(first, 1);
    assert_true(owns_soon(first, 1));
    tenure_manager_options options = {.size = sizeof options, .ttl_ms = 2000};
    tenure_manager *other = NULL;
    assert_int_equal(tenure_manager_open("memory:manager-9", &options, &other), TENURE_OK);
    assert_int_equal(tenure_manager_start(other), TENURE_OK);
    tenure_event event;
    assert_int_equal(tenure_manager_next_event(other, SOON_MS, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_REFUSED);
    assert_int_equal(event.error, TENURE_E_TTL);
    assert_int_equal(event.remaining_ms, 1000);
    tenure_manager_close(other);
    stop_manager(first);
}

static void unsafe_options_and_bad_names_are_refused(void **state) {
    (void)state;
    tenure_manager *manager = NULL;
    tenure_manager_options options = {.size = sizeof options, .ttl_ms = 1000, .renew_ms = 600};
    assert_int_equal(tenure_manager_open("memory:", &options, &manager), TENURE_E_TTL);
    assert_non_null(strstr(tenure_manager_message(NULL), "cannot be safe"));
    manager = open_manager("memory:", false);
    assert_int_equal(tenure_manager_put_target(manager, "a b", false), TENURE_E_INVALID);
    assert_int_equal(tenure_manager_remove_target(manager, "x"), TENURE_E_UNKNOWN_TARGET);
    assert_null(tenure_manager_handle(manager, "x"));
    assert_false(tenure_manager_is_owned(manager, "x"));
    bool acquired;
    assert_int_equal(tenure_manager_try_acquire(manager, "x", &acquired), TENURE_E_INVALID);
    tenure_manager_close(manager);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_manager_acquires_every_target_and_gives_it_back_when_stopped),
        cmocka_unit_test(two_managers_share_and_agree_and_one_takes_over_from_the_other),
        cmocka_unit_test(a_busy_target_is_not_given_back_before_its_work_has_stopped),
        cmocka_unit_test(try_acquire_takes_a_target_whatever_the_plan_says_and_keeps_it),
        cmocka_unit_test(a_drained_manager_hands_everything_over_and_takes_it_back),
        cmocka_unit_test(paused_targets_are_left_alone_and_do_not_count_for_the_balance),
        cmocka_unit_test(targets_from_the_registry_follow_it),
        cmocka_unit_test(events_can_be_pulled),
        cmocka_unit_test(a_fleet_with_another_ttl_is_refused),
        cmocka_unit_test(unsafe_options_and_bad_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
