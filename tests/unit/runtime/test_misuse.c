/*
 * Whatever a caller can get wrong is an error with a message that names the thing: NULL, handles that were closed,
 * unknown flags, structures without a size, and two things in one place. What is wrong inside a callback or in a child
 * of fork() is in test_misuse_callback.c and test_misuse_fork.c.
 */
#include <pthread.h>

#include "unit/runtime/calls.h"
#include "unit/runtime/handles.h"

#define UNKNOWN_FLAG 0x40000000u

static void refused(const char *call, int r, int expected, const char *word) {
    const char *message = tenure_message(NULL);
    if (r != expected)
        fail_msg("%s: %s instead of %s (%s)", call, tenure_error_name(r), tenure_error_name(expected), message);
    if (!strcasestr(message, word))
        fail_msg("%s: the message '%s' does not name '%s'", call, message, word);
}

/* The call returns that error, and the message has the word in it. */
#define REFUSED(call, expected, word) refused(#call, (call), expected, word)

struct fixture {
    tenure_context *context;
    tenure_lease *lease;
    tenure_member *member; /* in the namespace `fleet` */
    tenure_election *election;
    tenure_guard *guard;
};

static void fixture_open(struct fixture *fixture, const char *url) {
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    fixture->context = open_context(url);
    assert_int_equal(tenure_acquire(fixture->context, "x", 0, 0, &fixture->lease), TENURE_OK);
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &fixture->member), TENURE_OK);
    assert_int_equal(tenure_election_open(fixture->context, "web", NULL, &fixture->election), TENURE_OK);
    assert_int_equal(tenure_guard_open(fixture->context, NULL, &fixture->guard), TENURE_OK);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture_open(fixture, "memory:unit-misuse");
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_guard_close(fixture->guard);
    tenure_election_close(fixture->election);
    tenure_member_close(fixture->member);
    tenure_lease_free(fixture->lease);
    tenure_close(fixture->context);
    free(fixture);
    return 0;
}

#define MISUSE_TEST(name) TEST_WITH(name, set_up, tear_down)

static void no_event(const tenure_event *event, void *userdata) {
    (void)event;
    (void)userdata;
}

/* ---- every function with this handle, which cannot be used; the error and the word say why */

static void check_refused(const struct calls *calls, const char *call, int r) {
    refused(call, r, calls->error, calls->word);
}

#define TRY(kind, handle, expected, expected_word)                                                                     \
    call_##kind(&(struct calls){.check = check_refused, .error = (expected), .word = (expected_word)}, handle)

/* ---- NULL */

TEST(every_call_without_a_handle_is_refused) {
    TRY(context, NULL, TENURE_E_INVALID, "context");
    TRY(lease, NULL, TENURE_E_INVALID, "lease");
    TRY(member, NULL, TENURE_E_INVALID, "member");
    TRY(election, NULL, TENURE_E_INVALID, "election");
    TRY(guard, NULL, TENURE_E_INVALID, "guard");
}

TEST(closing_nothing_does_nothing) {
    assert_int_equal(tenure_close(NULL), TENURE_OK);
    tenure_lease_free(NULL);
    tenure_lease_drop(NULL);
    tenure_member_close(NULL);
    tenure_election_close(NULL);
    tenure_guard_close(NULL);
    tenure_cancel(NULL);
    tenure_handle none = {0};
    assert_false(tenure_handle_is_held(none));
    assert_int_equal(tenure_handle_token(none), 0);
    assert_int_equal(tenure_handle_remaining_ms(none), 0);
}

MISUSE_TEST(a_missing_target_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    const char *const targets[] = {"free", NULL};
    tenure_lease *lease = NULL;
    tenure_info info = {.size = sizeof info};
    tenure_target target = {.size = sizeof target};
    REFUSED(tenure_acquire(context, NULL, 0, 0, &lease), TENURE_E_INVALID, "target");
    REFUSED(tenure_acquire(context, NULL, UINT64_MAX, TENURE_ASYNC, &lease), TENURE_E_INVALID, "target");
    REFUSED(tenure_acquire_any(context, targets, 2, 0, 0, &lease), TENURE_E_INVALID, "target");
    REFUSED(tenure_acquire_any(context, NULL, 2, 0, 0, &lease), TENURE_E_INVALID, "target");
    REFUSED(tenure_acquire_any(context, targets, 0, 0, 0, &lease), TENURE_E_INVALID, "target");
    assert_null(lease);
    REFUSED(tenure_token_renew(context, NULL, 1, 0), TENURE_E_INVALID, "target");
    REFUSED(tenure_token_release(context, NULL, 1, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_force_release(context, NULL, NULL, 0, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_target_read(context, NULL, &info), TENURE_E_INVALID, "target");
    REFUSED(tenure_registry_put(context, &target, 1, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_registry_put(context, NULL, 1, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_registry_remove(context, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_registry_pause(context, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_registry_resume(context, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_guard_check(fixture->guard, NULL, 1), TENURE_E_INVALID, "target");
}

MISUSE_TEST(a_missing_target_of_a_member_is_refused) {
    struct fixture *fixture = *state;
    tenure_member *member = fixture->member;
    tenure_handle handle = {0};
    tenure_member_info info = {.size = sizeof info};
    uint64_t token;
    REFUSED(tenure_member_put(member, NULL, 0), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_remove(member, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_acquire(member, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_release(member, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_handle(member, NULL, &handle), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_begin(member, NULL, &token), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_end(member, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_confirm(member, NULL), TENURE_E_INVALID, "target");
    REFUSED(tenure_member_read(member, NULL, &info), TENURE_E_INVALID, "target");
    assert_false(tenure_member_is_held(member, NULL));
}

MISUSE_TEST(a_missing_role_or_instance_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    tenure_election *election = NULL;
    tenure_leader leader = {.size = sizeof leader};
    REFUSED(tenure_election_open(context, NULL, NULL, &election), TENURE_E_INVALID, "role");
    REFUSED(tenure_election_run(context, NULL, NULL, 0, no_work, NULL), TENURE_E_INVALID, "role");
    REFUSED(tenure_leader_read(context, NULL, NULL, &leader), TENURE_E_INVALID, "role");
    REFUSED(tenure_leader_observe(context, NULL, NULL, no_leader, NULL), TENURE_E_INVALID, "role");
    REFUSED(tenure_leader_resign(context, NULL, NULL, "i"), TENURE_E_INVALID, "role");
    REFUSED(tenure_leader_resign(context, NULL, "web", NULL), TENURE_E_INVALID, "instance");
    REFUSED(tenure_instance_drain(context, NULL), TENURE_E_INVALID, "instance");
    REFUSED(tenure_instance_undrain(context, NULL), TENURE_E_INVALID, "instance");
    assert_null(election);
}

MISUSE_TEST(a_missing_place_for_the_result_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    const char *const targets[] = {"x", "y"};
    REFUSED(tenure_open("memory:", NULL, NULL), TENURE_E_INVALID, "context");
    REFUSED(tenure_acquire(context, "free", 0, 0, NULL), TENURE_E_INVALID, "lease");
    REFUSED(tenure_acquire_any(context, targets, 2, 0, 0, NULL), TENURE_E_INVALID, "lease");
    REFUSED(tenure_next_event(context, 0, NULL), TENURE_E_INVALID, "event");
    REFUSED(tenure_target_read(context, "x", NULL), TENURE_E_INVALID, "info");
    REFUSED(tenure_watch_start(context, NULL), TENURE_E_INVALID, "cursor");
    REFUSED(tenure_watch_wait(context, NULL, 0, no_change, NULL), TENURE_E_INVALID, "cursor");
    REFUSED(tenure_member_open(context, NULL, NULL), TENURE_E_INVALID, "member");
    REFUSED(tenure_member_handle(fixture->member, "t", NULL), TENURE_E_INVALID, "handle");
    REFUSED(tenure_member_read(fixture->member, "t", NULL), TENURE_E_INVALID, "info");
    REFUSED(tenure_member_next_event(fixture->member, 0, NULL), TENURE_E_INVALID, "event");
    REFUSED(tenure_election_open(context, "other", NULL, NULL), TENURE_E_INVALID, "election");
    REFUSED(tenure_leader_read(context, NULL, "web", NULL), TENURE_E_INVALID, "leader");
    REFUSED(tenure_guard_open(context, NULL, NULL), TENURE_E_INVALID, "guard");
    REFUSED(tenure_guard_read(fixture->guard, NULL), TENURE_E_INVALID, "totals");
    REFUSED(tenure_guard_check_many(fixture->guard, NULL, 1, sizeof(tenure_guard_item)), TENURE_E_INVALID, "items");
    /* What was refused has left nothing behind. */
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(context, "free", &info), TENURE_E_UNKNOWN_TARGET);
}

MISUSE_TEST(a_missing_function_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    REFUSED(tenure_target_list(context, TENURE_ALL, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_instance_list(context, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_namespace_list(context, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_registry_list(context, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_history_read(context, NULL, 0, 10, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_leader_observe(context, NULL, "web", NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_member_list_held(fixture->member, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_member_list_instances(fixture->member, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_election_run(context, "other", NULL, 0, NULL, NULL), TENURE_E_INVALID, "function");
    REFUSED(tenure_store_check(context, NULL, NULL), TENURE_E_INVALID, "function");
}

MISUSE_TEST(a_value_out_of_its_range_is_refused) {
    struct fixture *fixture = *state;
    REFUSED(tenure_target_list(fixture->context, (enum tenure_filter)99, no_info, NULL), TENURE_E_INVALID, "99");
    REFUSED(tenure_history_read(fixture->context, NULL, 0, 0, no_change, NULL), TENURE_E_INVALID, "limit");
    REFUSED(tenure_token_renew(fixture->context, "x", 0, 0), TENURE_E_INVALID, "token");
    REFUSED(tenure_token_release(fixture->context, "x", TENURE_TOKEN_MAX + 1, NULL), TENURE_E_INVALID, "token");
    tenure_guard_item item = {.target = "x", .token = 1};
    REFUSED(tenure_guard_check_many(fixture->guard, &item, 1, 0), TENURE_E_INVALID, "stride");
}

MISUSE_TEST(a_duration_that_is_too_long_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = NULL;
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_guard *guard = NULL;
    tenure_options options = {.size = sizeof options, .timeout_ms = UINT64_MAX};
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "third", .settle_ms = UINT64_MAX};
    tenure_election_options campaign = {.size = sizeof campaign, .at_least_ms = UINT64_MAX};
    tenure_guard_options cache = {.size = sizeof cache, .cache_ttl_ms = UINT64_MAX};
    REFUSED(tenure_open("memory:", &options, &context), TENURE_E_INVALID, "time-out");
    options = (tenure_options){.size = sizeof options, .ttl_ms = UINT64_MAX};
    REFUSED(tenure_open("memory:", &options, &context), TENURE_E_TTL, "TTL");
    options = (tenure_options){.size = sizeof options, .renew_ms = UINT64_MAX};
    REFUSED(tenure_open("memory:", &options, &context), TENURE_E_TTL, "renewing");
    options = (tenure_options){.size = sizeof options, .margin_ms = UINT64_MAX};
    REFUSED(tenure_open("memory:", &options, &context), TENURE_E_TTL, "margin");
    REFUSED(tenure_member_open(fixture->context, &fleet, &member), TENURE_E_INVALID, "settle_ms");
    REFUSED(tenure_election_open(fixture->context, "db", &campaign, &election), TENURE_E_INVALID, "at_least_ms");
    REFUSED(tenure_guard_open(fixture->context, &cache, &guard), TENURE_E_TTL, "cache TTL");
    REFUSED(tenure_token_renew(fixture->context, "x", 1, UINT64_MAX), TENURE_E_TTL, "TTL");
}

/* ---- closed and freed */

TEST(a_context_that_was_closed_is_refused_everywhere) {
    tenure_context *context = open_context("memory:unit-closed");
    assert_int_equal(tenure_close(context), TENURE_OK);
    TRY(context, context, TENURE_E_CLOSED, "context");
    REFUSED(tenure_close(context), TENURE_E_CLOSED, "context");
}

MISUSE_TEST(a_lease_that_was_freed_is_refused_and_freed_once) {
    struct fixture *fixture = *state;
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(fixture->context, "freed", 0, 0, &lease), TENURE_OK);
    tenure_lease_free(lease);
    TRY(lease, lease, TENURE_E_CLOSED, "lease");
    tenure_lease_free(lease);
    tenure_lease_drop(lease);
    assert_true(tenure_lease_valid(fixture->lease));
    assert_int_equal(tenure_acquire(fixture->context, "dropped", 0, 0, &lease), TENURE_OK);
    tenure_lease_drop(lease);
    TRY(lease, lease, TENURE_E_CLOSED, "lease");
    tenure_lease_drop(lease);
    tenure_lease_free(lease);
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
}

/* The memory of what was freed is not used again at once. */
MISUSE_TEST(a_lease_that_was_freed_is_not_taken_for_a_new_one) {
    struct fixture *fixture = *state;
    enum { NEW_LEASES = 50 };
    tenure_lease *old = NULL;
    tenure_lease *leases[NEW_LEASES] = {NULL};
    assert_int_equal(tenure_acquire(fixture->context, "old", 0, 0, &old), TENURE_OK);
    assert_int_equal(tenure_release(old), TENURE_OK);
    tenure_lease_free(old);
    for (unsigned i = 0; i < NEW_LEASES; i++) {
        char target[16];
        snprintf(target, sizeof target, "n%02u", i); /* as long as the old one, for the allocator */
        assert_int_equal(tenure_acquire(fixture->context, target, 0, 0, &leases[i]), TENURE_OK);
        assert_ptr_not_equal(leases[i], old);
        tenure_lease_free(old);
        REFUSED(tenure_release(old), TENURE_E_CLOSED, "lease");
        assert_true(tenure_lease_valid(leases[i]));
    }
    for (unsigned i = 0; i < NEW_LEASES; i++)
        tenure_lease_drop(leases[i]);
}

struct rival {
    pthread_barrier_t *start;
    tenure_context *context;
    int r;
};

static void *close_as_rival(void *arg) {
    struct rival *rival = arg;
    pthread_barrier_wait(rival->start);
    rival->r = tenure_close(rival->context);
    return NULL;
}

TEST(of_two_threads_that_close_a_context_one_does) {
    for (unsigned round = 0; round < 50; round++) {
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, 2);
        tenure_context *context = open_context("memory:unit-misuse");
        struct rival rivals[] = {{.start = &start, .context = context}, {.start = &start, .context = context}};
        pthread_t threads[2];
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, close_as_rival, &rivals[i]), 0);
        for (unsigned i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&start);
        assert_int_equal(rivals[0].r + rivals[1].r, TENURE_E_CLOSED);
    }
}

MISUSE_TEST(what_was_closed_is_refused_and_closed_once) {
    struct fixture *fixture = *state;
    tenure_member_close(fixture->member);
    TRY(member, fixture->member, TENURE_E_CLOSED, "member");
    tenure_member_close(fixture->member);
    tenure_election_close(fixture->election);
    TRY(election, fixture->election, TENURE_E_CLOSED, "election");
    tenure_election_close(fixture->election);
    tenure_guard_close(fixture->guard);
    TRY(guard, fixture->guard, TENURE_E_CLOSED, "guard");
    tenure_guard_close(fixture->guard);
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
    fixture->member = NULL;
    fixture->election = NULL;
    fixture->guard = NULL;
}

/* The local reads still work then, and say that nothing is held. */
TEST(what_was_opened_on_a_closed_context_holds_nothing_and_is_refused) {
    struct fixture fixture;
    fixture_open(&fixture, "memory:unit-orphans");
    tenure_handle handle;
    assert_int_equal(tenure_election_wait(fixture.election, HANG_MS), TENURE_OK);
    assert_int_equal(tenure_member_acquire(fixture.member, "t"), TENURE_OK);
    assert_int_equal(tenure_member_handle(fixture.member, "t", &handle), TENURE_OK);
    assert_true(tenure_handle_is_held(handle));
    assert_int_equal(tenure_close(fixture.context), TENURE_OK);
    assert_false(tenure_lease_valid(fixture.lease));
    assert_int_equal(tenure_lease_remaining_ms(fixture.lease), 0);
    assert_false(tenure_election_leads(fixture.election));
    assert_int_equal(tenure_election_token(fixture.election), 0);
    assert_int_equal(tenure_election_remaining_ms(fixture.election), 0);
    assert_false(tenure_handle_is_held(handle));
    assert_int_equal(tenure_handle_token(handle), 0);
    TRY(lease, fixture.lease, TENURE_E_CLOSED, "context");
    TRY(member, fixture.member, TENURE_E_CLOSED, "context");
    TRY(election, fixture.election, TENURE_E_CLOSED, "context");
    TRY(guard, fixture.guard, TENURE_E_CLOSED, "context");
    tenure_guard_close(fixture.guard);
    tenure_election_close(fixture.election);
    tenure_member_close(fixture.member);
    tenure_lease_free(fixture.lease);
    REFUSED(tenure_renew(fixture.lease), TENURE_E_CLOSED, "lease");
}

TEST(a_lease_can_be_dropped_after_its_context_was_closed) {
    tenure_context *context = open_context("memory:unit-drop");
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(context, "x", 0, 0, &lease), TENURE_OK);
    assert_int_equal(tenure_close(context), TENURE_OK);
    tenure_lease_drop(lease);
}

MISUSE_TEST(a_handle_of_another_kind_is_refused) {
    struct fixture *fixture = *state;
    TRY(context, (tenure_context *)fixture->lease, TENURE_E_INVALID, "context");
    TRY(lease, (tenure_lease *)fixture->member, TENURE_E_INVALID, "lease");
    TRY(member, (tenure_member *)fixture->context, TENURE_E_INVALID, "member");
    TRY(election, (tenure_election *)fixture->guard, TENURE_E_INVALID, "election");
    TRY(guard, (tenure_guard *)fixture->election, TENURE_E_INVALID, "guard");
    REFUSED(tenure_renew((tenure_lease *)fixture->election), TENURE_E_INVALID, "is an election, not a lease");
    REFUSED(tenure_member_begin(fixture->member, "nobody-put-it", &(uint64_t){0}), TENURE_E_UNKNOWN_TARGET,
            "tenure_member_put()");
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
}

/* ---- flags and sizes */

MISUSE_TEST(an_unknown_flag_is_not_supported) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    const char *const targets[] = {"free", "also-free"};
    tenure_lease *lease = NULL;
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_guard *guard = NULL;
    tenure_options options = {.size = sizeof options, .flags = UNKNOWN_FLAG};
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "other", .flags = UNKNOWN_FLAG};
    tenure_election_options campaign = {.size = sizeof campaign, .flags = UNKNOWN_FLAG | TENURE_WORK_ELSEWHERE};
    tenure_guard_options check = {.size = sizeof check, .flags = UNKNOWN_FLAG | TENURE_ACCEPT_EXPIRED};
    tenure_context *another = NULL;
    REFUSED(tenure_open("memory:", &options, &another), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_acquire(context, "free", 0, UNKNOWN_FLAG, &lease), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_acquire(context, "free", 0, TENURE_ASYNC | 4u, &lease), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_acquire_any(context, targets, 2, 0, UNKNOWN_FLAG, &lease), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_force_release(context, "x", NULL, 2, NULL), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_member_open(context, &fleet, &member), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_member_put(fixture->member, "t", 2), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_election_open(context, "other", &campaign, &election), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_election_run(context, "other", &campaign, 0, no_work, NULL), TENURE_E_UNSUPPORTED, "flag");
    REFUSED(tenure_guard_open(context, &check, &guard), TENURE_E_UNSUPPORTED, "flag");
    assert_true(!another && !lease && !member && !election && !guard);
    assert_true(tenure_lease_valid(fixture->lease)); /* it was not forced */
}

MISUSE_TEST(a_structure_without_a_size_is_refused) {
    struct fixture *fixture = *state;
    tenure_context *context = fixture->context;
    tenure_context *another = NULL;
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_guard *guard = NULL;
    REFUSED(tenure_open("memory:", &(tenure_options){0}, &another), TENURE_E_INVALID, "tenure_options");
    REFUSED(tenure_member_open(context, &(tenure_member_options){.namespace_name = "other"}, &member), TENURE_E_INVALID,
            "tenure_member_options");
    REFUSED(tenure_election_open(context, "other", &(tenure_election_options){0}, &election), TENURE_E_INVALID,
            "tenure_election_options");
    REFUSED(tenure_election_run(context, "other", &(tenure_election_options){0}, 0, no_work, NULL), TENURE_E_INVALID,
            "tenure_election_options");
    REFUSED(tenure_guard_open(context, &(tenure_guard_options){0}, &guard), TENURE_E_INVALID, "tenure_guard_options");
    REFUSED(tenure_next_event(context, 0, &(tenure_event){0}), TENURE_E_INVALID, "tenure_event");
    REFUSED(tenure_member_next_event(fixture->member, 0, &(tenure_event){0}), TENURE_E_INVALID, "tenure_event");
    REFUSED(tenure_target_read(context, "x", &(tenure_info){0}), TENURE_E_INVALID, "tenure_info");
    REFUSED(tenure_registry_put(context, &(tenure_target){.id = "t"}, 1, NULL), TENURE_E_INVALID, "tenure_target");
    assert_int_equal(tenure_member_put(fixture->member, "t", 0), TENURE_OK);
    REFUSED(tenure_member_read(fixture->member, "t", &(tenure_member_info){0}), TENURE_E_INVALID, "tenure_member_info");
    REFUSED(tenure_leader_read(context, NULL, "web", &(tenure_leader){0}), TENURE_E_INVALID, "tenure_leader");
    REFUSED(tenure_guard_read(fixture->guard, &(tenure_guard_totals){0}), TENURE_E_INVALID, "tenure_guard_totals");
    assert_true(!another && !member && !election && !guard);
}

/* ---- two things in one place */

TEST(a_lease_in_the_namespace_of_a_member_is_refused) {
    const char *const targets[] = {"x", "y"};
    tenure_context *context = open_context("memory:unit-places");
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_lease *lease = NULL;
    tenure_election_options campaign = {.size = sizeof campaign, .namespace_name = "poll"};
    assert_int_equal(tenure_member_open(context, NULL, &member), TENURE_OK);
    REFUSED(tenure_acquire(context, "x", 0, 0, &lease), TENURE_E_INVALID, "poll");
    REFUSED(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_E_INVALID, "poll");
    REFUSED(tenure_acquire(context, "x", 0, TENURE_ASYNC, &lease), TENURE_E_INVALID, "poll");
    REFUSED(tenure_acquire_any(context, targets, 2, 0, 0, &lease), TENURE_E_INVALID, "poll");
    REFUSED(tenure_election_open(context, "web", &campaign, &election), TENURE_E_INVALID, "poll");
    assert_null(lease);
    assert_null(election);
    tenure_member_close(member);
    /* Its place is free again; but an instance that has left is gone for a TTL, if it was announced at all. */
    int r = tenure_acquire(context, "x", 0, 0, &lease);
    assert_true(r == TENURE_OK || r == TENURE_E_GONE);
    tenure_lease_free(lease);
    tenure_close(context);
}

TEST(a_member_in_the_namespace_of_a_lease_is_refused) {
    tenure_context *context = open_context("memory:unit-places");
    tenure_member *member = NULL;
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(context, "z", 0, 0, &lease), TENURE_OK);
    REFUSED(tenure_member_open(context, NULL, &member), TENURE_E_INVALID, "poll");
    assert_null(member);
    tenure_lease_free(lease);
    tenure_close(context);
}

MISUSE_TEST(a_second_member_in_a_namespace_is_refused) {
    struct fixture *fixture = *state;
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    tenure_member *second = NULL;
    REFUSED(tenure_member_open(fixture->context, &fleet, &second), TENURE_E_INVALID, "fleet");
    assert_null(second);
    fleet.namespace_name = "another";
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &second), TENURE_OK);
    tenure_member_close(second);
    tenure_member_close(fixture->member);
    fleet.namespace_name = "fleet";
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &fixture->member), TENURE_OK);
}

MISUSE_TEST(a_second_election_for_a_role_is_refused) {
    struct fixture *fixture = *state;
    tenure_election *second = NULL;
    REFUSED(tenure_election_open(fixture->context, "web", NULL, &second), TENURE_E_INVALID, "web");
    REFUSED(tenure_election_run(fixture->context, "web", NULL, 0, no_work, NULL), TENURE_E_INVALID, "web");
    assert_null(second);
    assert_int_equal(tenure_election_open(fixture->context, "db", NULL, &second), TENURE_OK);
    tenure_election_close(second);
    tenure_election_close(fixture->election);
    assert_int_equal(tenure_election_open(fixture->context, "web", NULL, &fixture->election), TENURE_OK);
}

TEST(the_role_of_an_election_cannot_be_acquired) {
    tenure_options options = {.size = sizeof options, .namespace_name = "leader"};
    tenure_context *context = NULL;
    tenure_election *election = NULL;
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_open("memory:unit-role", &options, &context), TENURE_OK);
    assert_int_equal(tenure_election_open(context, "web", NULL, &election), TENURE_OK);
    REFUSED(tenure_acquire(context, "web", 0, 0, &lease), TENURE_E_INVALID, "web");
    REFUSED(tenure_acquire(context, "web", 0, TENURE_ASYNC, &lease), TENURE_E_INVALID, "web");
    assert_null(lease);
    assert_int_equal(tenure_acquire(context, "db", 0, 0, &lease), TENURE_OK);
    REFUSED(tenure_election_open(context, "db", NULL, &election), TENURE_E_INVALID, "db");
    tenure_lease_free(lease);
    tenure_election_close(election);
    tenure_close(context);
}

/* ---- the same, by two threads at the same time */

struct racer {
    tenure_context *context;
    pthread_barrier_t *start;
    bool member; /* opens one, or an election */
    int r;
    tenure_member *opened_member;
    tenure_election *opened_election;
};

static void *race(void *arg) {
    struct racer *racer = arg;
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "leader"};
    pthread_barrier_wait(racer->start);
    racer->r = racer->member ? tenure_member_open(racer->context, &fleet, &racer->opened_member)
                             : tenure_election_open(racer->context, "web", NULL, &racer->opened_election);
    return NULL;
}

/* A round: both open what only one of them may have. */
static void race_once(tenure_context *context, bool first_is_member) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    struct racer racers[2] = {{.context = context, .start = &start, .member = first_is_member},
                              {.context = context, .start = &start}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    int winner = racers[0].r == TENURE_OK ? 0 : 1;
    assert_int_equal(racers[winner].r, TENURE_OK);
    assert_int_equal(racers[1 - winner].r, TENURE_E_INVALID);
    tenure_member_close(racers[winner].opened_member);
    tenure_election_close(racers[winner].opened_election);
}

TEST(of_two_threads_one_gets_the_place) {
    for (int i = 0; i < 100; i++) {
        tenure_context *context = open_context("memory:unit-race");
        race_once(context, i % 2 == 0);
        tenure_close(context);
    }
}

/* ---- events and driving */

TEST(events_that_are_pushed_cannot_be_pulled) {
    tenure_options options = {.size = sizeof options, .on_event = no_event};
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet", .on_event = no_event};
    tenure_context *context = NULL;
    tenure_member *member = NULL;
    tenure_event event = {.size = sizeof event};
    assert_int_equal(tenure_open("memory:unit-pushed", &options, &context), TENURE_OK);
    assert_int_equal(tenure_member_open(context, &fleet, &member), TENURE_OK);
    REFUSED(tenure_next_event(context, 0, &event), TENURE_E_INVALID, "on_event");
    REFUSED(tenure_next_event(context, UINT64_MAX, &event), TENURE_E_INVALID, "on_event");
    REFUSED(tenure_member_next_event(member, UINT64_MAX, &event), TENURE_E_INVALID, "on_event");
    tenure_member_close(member);
    tenure_close(context);
}

MISUSE_TEST(a_threaded_context_may_be_driven_as_well) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(tenure_process(fixture->context), TENURE_OK);
    assert_true(tenure_lease_valid(fixture->lease));
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
}
