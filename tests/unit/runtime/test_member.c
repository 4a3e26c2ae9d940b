/*
 * The fleet member of the C API: one instance of a fleet, alone and with others, on the memory store. Real time, since
 * its thread is the subject; TTLs are short, and nothing asserts how fast, only that it comes.
 */
#include "unit/unit.h"

#include <tenure.h>

#include "base/io.h"
#include "runtime/member.h"

#define SOON_MS HANG_MS

/* A fleet member on a context of its own. */
struct instance {
    tenure_context *context;
    tenure_member *member;
    unsigned seen;
};

static tenure_context *open_context(const char *url, uint64_t ttl_ms) {
    tenure_options options = {.size = sizeof options, .ttl_ms = ttl_ms, .timeout_ms = 3000};
    tenure_context *context = NULL;
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static struct instance start_instance(const char *url, unsigned flags) {
    tenure_member_options options = {.size = sizeof options, .flags = flags, .settle_ms = 50};
    struct instance instance = {.context = open_context(url, 1000)};
    if (tenure_member_open(instance.context, &options, &instance.member) < 0)
        fail_msg("%s", tenure_message(instance.context));
    return instance;
}

static void stop_instance(struct instance instance) {
    assert_int_equal(tenure_member_stop(instance.member, SOON_MS), TENURE_OK);
    tenure_member_close(instance.member);
    assert_int_equal(tenure_close(instance.context), TENURE_OK);
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

TEST(a_single_member_acquires_every_target_and_gives_it_back_when_stopped) {
    struct instance member = start_instance("memory:member-1", 0);
    put_targets(member.member, 10);
    assert_true(owns_soon(member.member, 10));
    assert_true(tenure_member_is_held(member.member, "t03"));
    tenure_handle handle;
    assert_int_equal(tenure_member_handle(member.member, "t03", &handle), TENURE_OK);
    assert_true(tenure_handle_is_held(handle));
    assert_int_equal(tenure_handle_token(handle), 1);
    assert_in_range(tenure_handle_remaining_ms(handle), 1, 1000);
    assert_int_equal(tenure_member_confirm(member.member, "t03"), TENURE_OK);
    tenure_member_info info = {.size = sizeof info};
    assert_int_equal(tenure_member_read(member.member, "t03", &info), TENURE_OK);
    assert_int_equal(info.state, TENURE_STATE_HELD);
    assert_string_equal(info.holder, tenure_instance_id(member.context));
    assert_string_equal(info.planned, tenure_instance_id(member.context));
    assert_true(info.acquired_at_ms > 0 && info.renewed_at_ms >= info.acquired_at_ms);
    /* Somebody keeps the store alive, to look at it afterwards. */
    tenure_context *context = NULL;
    assert_int_equal(tenure_open("memory:member-1", NULL, &context), TENURE_OK);
    stop_instance(member);
    tenure_info after = {.size = sizeof after};
    assert_int_equal(tenure_target_read(context, "t03", &after), TENURE_OK);
    assert_string_equal(after.holder, "");
    tenure_close(context);
}

TEST(two_members_share_and_agree_and_one_takes_over_from_the_other) {
    struct instance first = start_instance("memory:member-2", 0);
    put_targets(first.member, 9);
    assert_true(owns_soon(first.member, 9));
    struct instance second = start_instance("memory:member-2", 0);
    put_targets(second.member, 9);
    for (unsigned i = 0; i < SOON_MS / 5 && (owned(second.member) < 4 || owned(first.member) > 5); i++)
        ten_sleep_us(5000);
    assert_in_range(owned(second.member), 4, 5);
    assert_true(owns_soon(first.member, 9 - owned(second.member)));
    size_t live = 0;
    assert_int_equal(tenure_member_list_instances(first.member, count_one, &live), TENURE_OK);
    assert_int_equal(live, 2);
    for (unsigned i = 0; i < 9; i++) {
        char id[16];
        tenure_member_info one = {.size = sizeof one};
        tenure_member_info other = {.size = sizeof other};
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_read(first.member, id, &one), TENURE_OK);
        assert_int_equal(tenure_member_read(second.member, id, &other), TENURE_OK);
        assert_string_equal(one.planned, other.planned);
        assert_false(tenure_member_is_held(first.member, id) && tenure_member_is_held(second.member, id));
    }
    stop_instance(second);
    assert_true(owns_soon(first.member, 9));
    stop_instance(first);
}

TEST(each_piece_of_work_begins_and_ends_by_itself) {
    struct instance member = start_instance("memory:member-nested", 0);
    put_targets(member.member, 1);
    assert_true(owns_soon(member.member, 1));
    uint64_t token = 0;
    assert_int_equal(tenure_member_end(member.member, "t00"), TENURE_E_INVALID);
    assert_contains(tenure_message(member.member), "t00");
    assert_int_equal(tenure_member_begin(member.member, "t00", &token), TENURE_OK);
    assert_int_equal(tenure_member_begin(member.member, "t00", &token), TENURE_OK);
    assert_int_equal(tenure_member_remove(member.member, "t00"), TENURE_OK);
    assert_int_equal(tenure_member_end(member.member, "t00"), TENURE_OK);
    /* Another piece is under way: the lease is kept and renewed past its TTL. */
    ten_sleep_us(1200000);
    assert_int_equal(owned(member.member), 1);
    assert_int_equal(tenure_member_end(member.member, "t00"), TENURE_OK);
    assert_true(owns_soon(member.member, 0));
    stop_instance(member);
}

static void end_work(const tenure_event *event, void *userdata) {
    if (event->kind == TENURE_EVENT_STOP)
        (void)tenure_member_end(*(tenure_member **)userdata, event->target);
}

/* Nothing else is due for an hour: the thread must not sleep on what it has to tell. */
TEST(the_program_is_told_to_end_its_work_as_soon_as_there_is_a_reason) {
    struct instance member = {.context = open_context("memory:member-told", 3 * 3600 * 1000)};
    tenure_member_options options = {
        .size = sizeof options, .settle_ms = 50, .on_event = end_work, .userdata = &member.member};
    assert_int_equal(tenure_member_open(member.context, &options, &member.member), TENURE_OK);
    put_targets(member.member, 1);
    assert_true(owns_soon(member.member, 1));
    uint64_t token = 0;
    assert_int_equal(tenure_member_begin(member.member, "t00", &token), TENURE_OK);
    stop_instance(member);
}

TEST(acquiring_takes_a_target_whatever_the_plan_says_and_keeps_it) {
    struct instance first = start_instance("memory:member-4", 0);
    struct instance second = start_instance("memory:member-4", 0);
    assert_int_equal(tenure_member_acquire(first.member, "mine"), TENURE_OK);
    assert_int_equal(tenure_member_acquire(first.member, "mine"), TENURE_OK);
    assert_int_equal(tenure_member_acquire(second.member, "mine"), TENURE_E_HELD);
    assert_contains(tenure_message(second.member), "mine");
    ten_sleep_us(1200000);
    assert_true(tenure_member_is_held(first.member, "mine"));
    assert_int_equal(tenure_member_release(first.member, "mine"), TENURE_OK);
    assert_true(owns_soon(first.member, 0));
    assert_int_equal(tenure_member_acquire(second.member, "mine"), TENURE_OK);
    assert_int_equal(tenure_member_release(first.member, "mine"), TENURE_E_UNKNOWN_TARGET);
    stop_instance(first);
    stop_instance(second);
}

TEST(a_drained_member_hands_everything_over_and_takes_it_back) {
    struct instance first = start_instance("memory:member-5", 0);
    struct instance second = start_instance("memory:member-5", 0);
    put_targets(first.member, 6);
    put_targets(second.member, 6);
    assert_true(owns_soon(first.member, 3) && owns_soon(second.member, 3));
    assert_int_equal(tenure_member_set_weight(first.member, 0), TENURE_OK);
    assert_true(owns_soon(first.member, 0) && owns_soon(second.member, 6));
    assert_int_equal(tenure_member_set_weight(first.member, 2), TENURE_OK);
    assert_true(owns_soon(first.member, 4) && owns_soon(second.member, 2));
    stop_instance(first);
    stop_instance(second);
}

TEST(paused_targets_are_left_alone_and_do_not_count_for_the_balance) {
    struct instance first = start_instance("memory:member-6", 0);
    struct instance second = start_instance("memory:member-6", 0);
    put_targets(first.member, 8);
    put_targets(second.member, 8);
    assert_true(owns_soon(first.member, 4) && owns_soon(second.member, 4));
    for (unsigned i = 0; i < 4; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        assert_int_equal(tenure_member_put(first.member, id, TENURE_PAUSED), TENURE_OK);
        assert_int_equal(tenure_member_put(second.member, id, TENURE_PAUSED), TENURE_OK);
    }
    assert_true(owns_soon(first.member, 2) && owns_soon(second.member, 2));
    assert_false(tenure_member_is_held(first.member, "t00") || tenure_member_is_held(second.member, "t00"));
    stop_instance(first);
    stop_instance(second);
}

TEST(targets_from_the_registry_follow_it) {
    tenure_context *context = NULL;
    assert_int_equal(tenure_open("memory:member-7", NULL, &context), TENURE_OK);
    tenure_target targets[] = {{.size = sizeof(tenure_target), .id = "a"},
                               {.size = sizeof(tenure_target), .id = "b"},
                               {.size = sizeof(tenure_target), .id = "c", .paused = true}};
    assert_int_equal(tenure_registry_put(context, targets, 3, NULL), TENURE_OK);
    struct instance member = start_instance("memory:member-7", TENURE_TARGETS_FROM_STORE);
    assert_true(owns_soon(member.member, 2));
    assert_int_equal(tenure_registry_resume(context, "c"), TENURE_OK);
    assert_true(owns_soon(member.member, 3));
    assert_int_equal(tenure_registry_remove(context, "a"), TENURE_OK);
    assert_true(owns_soon(member.member, 2));
    assert_false(tenure_member_is_held(member.member, "a"));
    assert_int_equal(tenure_member_put(member.member, "x", 0), TENURE_E_INVALID);
    stop_instance(member);
    tenure_close(context);
}

TEST(events_can_be_pulled) {
    struct instance member = start_instance("memory:member-8", 0);
    put_targets(member.member, 1);
    tenure_event event = {.size = sizeof event};
    bool acquired = false;
    for (int i = 0; i < 50 && !acquired; i++) {
        assert_int_equal(tenure_member_next_event(member.member, SOON_MS, &event), TENURE_OK);
        acquired = event.kind == TENURE_EVENT_ACQUIRED;
    }
    assert_true(acquired);
    assert_string_equal(tenure_event_name(event.kind), "lease_acquired");
    assert_string_equal(event.target, "t00");
    assert_int_equal(event.token, 1);
    stop_instance(member);
}

TEST(a_fleet_with_another_ttl_is_refused) {
    struct instance first = start_instance("memory:member-9", 0);
    put_targets(first.member, 1);
    assert_true(owns_soon(first.member, 1));
    struct instance other = {.context = open_context("memory:member-9", 2000)};
    assert_int_equal(tenure_member_open(other.context, NULL, &other.member), TENURE_OK);
    tenure_event event = {.size = sizeof event};
    assert_int_equal(tenure_member_next_event(other.member, SOON_MS, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_REFUSED);
    assert_int_equal(event.error, TENURE_E_TTL);
    assert_int_equal(event.remaining_ms, 1000);
    tenure_member_close(other.member);
    assert_int_equal(tenure_close(other.context), TENURE_OK);
    stop_instance(first);
}

TEST(a_handle_of_a_removed_target_is_never_held_again) {
    struct instance member = start_instance("memory:member-10", 0);
    put_targets(member.member, 2);
    assert_true(owns_soon(member.member, 2));
    tenure_handle handle;
    assert_int_equal(tenure_member_handle(member.member, "t00", &handle), TENURE_OK);
    assert_true(tenure_handle_is_held(handle));
    assert_int_equal(tenure_member_remove(member.member, "t00"), TENURE_OK);
    assert_true(owns_soon(member.member, 1));
    assert_false(tenure_handle_is_held(handle));
    /* Whatever gets its place, the old handle is not about it. */
    assert_int_equal(tenure_member_put(member.member, "other", 0), TENURE_OK);
    assert_true(owns_soon(member.member, 2));
    assert_false(tenure_handle_is_held(handle));
    assert_int_equal(tenure_member_put(member.member, "t00", 0), TENURE_OK);
    assert_true(owns_soon(member.member, 3));
    assert_true(tenure_member_is_held(member.member, "t00"));
    assert_false(tenure_handle_is_held(handle));
    assert_int_equal(tenure_handle_token(handle), 0);
    assert_int_equal(tenure_handle_remaining_ms(handle), 0);
    tenure_handle again;
    assert_int_equal(tenure_member_handle(member.member, "t00", &again), TENURE_OK);
    assert_true(tenure_handle_is_held(again));
    assert_int_equal(tenure_handle_token(again), 2);
    stop_instance(member);
}

/* The word behind the last place is the warden's: a target without a place must not reach it. */
TEST(a_target_more_than_there_are_places_is_refused) {
    enum { ROOM = 2 };
    ten_beliefs beliefs;
    assert_true(ten_beliefs_share(&beliefs, ROOM));
    ten_member_extras extras = {.beliefs = &beliefs};
    struct instance member = {.context = open_context("memory:member-room", 1000)};
    assert_int_equal(ten_member_open(member.context, NULL, &extras, &member.member), TENURE_OK);
    put_targets(member.member, ROOM);
    assert_true(owns_soon(member.member, ROOM));
    assert_int_equal(tenure_member_put(member.member, "more", 0), TENURE_E_TOO_MANY);
    assert_contains(tenure_message(member.member), "more");
    assert_contains(tenure_message(member.member), "max_targets");
    assert_int_equal(tenure_member_acquire(member.member, "more"), TENURE_E_TOO_MANY);
    assert_false(tenure_member_is_held(member.member, "more"));
    assert_null(ten_beliefs_at(&beliefs, ROOM));
    assert_in_range(atomic_load(beliefs.last_end_ms), ten_now_ms() - HANG_MS, ten_now_ms() + 1000);
    assert_int_equal(tenure_member_remove(member.member, "t00"), TENURE_OK);
    assert_true(owns_soon(member.member, ROOM - 1));
    assert_int_equal(tenure_member_put(member.member, "more", 0), TENURE_OK); /* there is a place again */
    assert_true(owns_soon(member.member, ROOM));
    stop_instance(member);
    ten_beliefs_free(&beliefs);
}

static size_t address_space(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Whoever limits its address space, or forbids overcommitment, can have a fleet member, too. */
TEST(a_member_takes_memory_only_for_the_targets_that_it_has) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN};
    tenure_context *context = NULL;
    tenure_member *member = NULL;
    assert_int_equal(tenure_open("memory:member-small", &options, &context), TENURE_OK);
    size_t before = address_space();
    assert_int_equal(tenure_member_open(context, NULL, &member), TENURE_OK);
    put_targets(member, 10);
    assert_true(address_space() < before + (16u << 20));
    tenure_handle handle;
    assert_int_equal(tenure_member_handle(member, "t00", &handle), TENURE_OK);
    for (unsigned i = 0; i < 2 * TEN_BELIEFS_PART; i++) { /* its place stays where it is */
        char id[16];
        snprintf(id, sizeof id, "more-%u", i);
        assert_int_equal(tenure_member_put(member, id, TENURE_PAUSED), TENURE_OK);
    }
    tenure_handle again;
    assert_int_equal(tenure_member_handle(member, "t00", &again), TENURE_OK);
    assert_ptr_equal(again.belief, handle.belief);
    assert_false(tenure_handle_is_held(handle));
    tenure_member_close(member);
    tenure_close(context);
}

static int remove_others(const char *name, void *userdata) {
    struct instance *member = userdata;
    for (unsigned i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%02u", i);
        if (strcmp(id, name) != 0)
            (void)tenure_member_remove(member->member, id);
    }
    ++member->seen;
    return 0;
}

TEST(a_list_is_what_was_there_when_it_was_asked_for) {
    struct instance member = start_instance("memory:member-list", 0);
    put_targets(member.member, 3);
    assert_true(owns_soon(member.member, 3));
    assert_int_equal(tenure_member_list_held(member.member, remove_others, &member), TENURE_OK);
    assert_int_equal(member.seen, 3);
    stop_instance(member);
}

TEST(unsafe_options_and_bad_names_are_refused) {
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options, .ttl_ms = 1000, .renew_ms = 600};
    assert_int_equal(tenure_open("memory:", &options, &context), TENURE_E_TTL);
    assert_contains(tenure_message(NULL), "cannot be safe");
    struct instance member = start_instance("memory:", 0);
    tenure_handle handle = {0};
    assert_int_equal(tenure_member_put(member.member, "a b", 0), TENURE_E_INVALID);
    assert_contains(tenure_message(member.member), "a b");
    assert_int_equal(tenure_member_remove(member.member, "x"), TENURE_E_UNKNOWN_TARGET);
    assert_int_equal(tenure_member_handle(member.member, "x", &handle), TENURE_E_UNKNOWN_TARGET);
    assert_contains(tenure_message(member.member), "x");
    assert_null(handle.belief);
    assert_false(tenure_handle_is_held(handle));
    assert_false(tenure_member_is_held(member.member, "x"));
    assert_int_equal(tenure_member_acquire(member.member, "a b"), TENURE_E_INVALID);
    stop_instance(member);
}
