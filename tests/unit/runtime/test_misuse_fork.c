/*
 * A child of fork() and what its parent had open: every call on each kind of handle is refused, nothing is held, closing
 * frees memory only and does not hang, even if another thread of the parent was inside a call at the fork; and the
 * parent notices nothing of it. test_context_fork.c has what a child may open itself.
 */
#include "unit/unit.h"

#include <pthread.h>
#include <tenure.h>

#include "base/io.h"

enum { FORKS = 40 };

struct fixture {
    tenure_context *context;
    tenure_lease *lease;
    tenure_lease *pending; /* asynchronous, and held by another */
    tenure_lease *spare;
    tenure_member *member; /* in the namespace `fleet` */
    tenure_election *election;
    tenure_guard *guard;
    tenure_handle handle;
    tenure_context *other;
    tenure_lease *obstacle;
    atomic_uint lost; /* calls of on_lost */
};

static void count_lost(tenure_lease *lease, const char *reason, void *userdata) {
    (void)lease;
    (void)reason;
    atomic_fetch_add((atomic_uint *)userdata, 1);
}

static tenure_lease *acquire(tenure_context *context, const char *target) {
    tenure_lease *lease = NULL;
    if (tenure_acquire(context, target, 0, 0, &lease) < 0)
        fail_msg("%s", tenure_message(context));
    return lease;
}

static void fixture_open(struct fixture *fixture, const char *url, unsigned flags) {
    tenure_options options = {.size = sizeof options, .flags = flags};
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    *fixture = (struct fixture){0};
    assert_int_equal(tenure_open(url, &options, &fixture->context), TENURE_OK);
    assert_int_equal(tenure_open(url, NULL, &fixture->other), TENURE_OK);
    fixture->obstacle = acquire(fixture->other, "taken");
    fixture->lease = acquire(fixture->context, "x");
    fixture->spare = acquire(fixture->context, "spare");
    assert_int_equal(tenure_lease_on_lost(fixture->lease, count_lost, &fixture->lost), TENURE_OK);
    assert_int_equal(tenure_acquire(fixture->context, "taken", UINT64_MAX, TENURE_ASYNC, &fixture->pending), TENURE_OK);
    assert_int_equal(tenure_member_open(fixture->context, &fleet, &fixture->member), TENURE_OK);
    assert_int_equal(tenure_member_acquire(fixture->member, "t"), TENURE_OK);
    assert_int_equal(tenure_member_handle(fixture->member, "t", &fixture->handle), TENURE_OK);
    assert_int_equal(tenure_election_open(fixture->context, "web", NULL, &fixture->election), TENURE_OK);
    assert_int_equal(tenure_election_wait(fixture->election, HANG_MS), TENURE_OK);
    assert_int_equal(tenure_guard_open(fixture->context, NULL, &fixture->guard), TENURE_OK);
    assert_int_equal(tenure_guard_check(fixture->guard, "x", 1), TENURE_OK);
}

/* All that was held before the forks is held after them. */
static void fixture_close(struct fixture *fixture) {
    assert_true(tenure_lease_valid(fixture->lease));
    assert_int_equal(tenure_lease_token(fixture->lease), 1);
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
    assert_int_equal(tenure_renew(fixture->spare), TENURE_OK);
    assert_int_equal(tenure_lease_wait(fixture->pending, 0), TENURE_E_TIMEOUT);
    assert_true(tenure_handle_is_held(fixture->handle));
    assert_int_equal(tenure_member_confirm(fixture->member, "t"), TENURE_OK);
    assert_true(tenure_election_leads(fixture->election));
    assert_int_equal(tenure_guard_check(fixture->guard, "x", 1), TENURE_OK);
    assert_int_equal(atomic_load(&fixture->lost), 0);
    tenure_guard_close(fixture->guard);
    tenure_election_close(fixture->election);
    tenure_member_close(fixture->member);
    tenure_lease_free(fixture->lease);
    tenure_lease_free(fixture->pending);
    tenure_lease_free(fixture->spare);
    assert_int_equal(tenure_close(fixture->context), TENURE_OK);
    tenure_lease_free(fixture->obstacle);
    assert_int_equal(tenure_close(fixture->other), TENURE_OK);
}

static int no_info(const tenure_info *info, void *userdata) {
    (void)info;
    (void)userdata;
    return 1;
}

static int no_instance(const tenure_instance *instance, void *userdata) {
    (void)instance;
    (void)userdata;
    return 1;
}

static int no_target(const tenure_target *target, void *userdata) {
    (void)target;
    (void)userdata;
    return 1;
}

static int no_change(const tenure_change *change, void *userdata) {
    (void)change;
    (void)userdata;
    return 1;
}

static int no_name(const char *name, void *userdata) {
    (void)name;
    (void)userdata;
    return 1;
}

static int no_leader(const tenure_leader *leader, void *userdata) {
    (void)leader;
    (void)userdata;
    return 1;
}

static int no_work(tenure_election *election, void *arg) {
    (void)election;
    (void)arg;
    return 1;
}

static void no_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                     void *userdata) {
    (void)level;
    (void)check;
    (void)found;
    (void)advice;
    (void)userdata;
}

/* ---- in the child */

#define FORKED(call)                                                                                                   \
    do {                                                                                                               \
        CHILD_CHECK((call) == TENURE_E_FORKED);                                                                        \
        CHILD_CHECK(strstr(tenure_message(NULL), "fork()"));                                                           \
    } while (0)

static void try_context(tenure_context *context) {
    const char *const targets[] = {"y", "z"};
    tenure_event event = {.size = sizeof event};
    tenure_lease *lease = NULL;
    bool released = true;
    FORKED(tenure_next_event(context, UINT64_MAX, &event));
    FORKED(tenure_fd(context));
    FORKED(tenure_process(context));
    FORKED(tenure_acquire(context, "y", 0, 0, &lease));
    FORKED(tenure_acquire(context, "y", UINT64_MAX, 0, &lease));
    FORKED(tenure_acquire(context, "y", UINT64_MAX, TENURE_ASYNC, &lease));
    FORKED(tenure_acquire_any(context, targets, 2, UINT64_MAX, 0, &lease));
    FORKED(tenure_token_renew(context, "x", 1, 0));
    FORKED(tenure_token_release(context, "x", 1, &released));
    FORKED(tenure_force_release(context, "x", NULL, TENURE_NOW, &released));
    CHILD_CHECK(!lease && released);
}

static void try_reads(tenure_context *context) {
    tenure_info info = {.size = sizeof info};
    tenure_target target = {.size = sizeof target, .id = "t"};
    uint64_t number = 0;
    FORKED(tenure_target_read(context, "x", &info));
    FORKED(tenure_target_list(context, TENURE_ALL, no_info, NULL));
    FORKED(tenure_instance_list(context, no_instance, NULL));
    FORKED(tenure_instance_drain(context, "i"));
    FORKED(tenure_instance_undrain(context, "i"));
    FORKED(tenure_registry_put(context, &target, 1, NULL));
    FORKED(tenure_registry_remove(context, "t"));
    FORKED(tenure_registry_pause(context, "t"));
    FORKED(tenure_registry_resume(context, "t"));
    FORKED(tenure_registry_list(context, no_target, NULL));
    FORKED(tenure_watch_start(context, &number));
    FORKED(tenure_watch_wait(context, &number, UINT64_MAX, no_change, NULL));
    FORKED(tenure_history_read(context, NULL, 0, 10, no_change, NULL));
    FORKED(tenure_store_ping(context, &number));
    FORKED(tenure_store_check(context, no_check, NULL));
}

static void try_openings(tenure_context *context) {
    tenure_leader leader = {.size = sizeof leader};
    tenure_member *member = NULL;
    tenure_election *election = NULL;
    tenure_guard *guard = NULL;
    FORKED(tenure_member_open(context, NULL, &member));
    FORKED(tenure_election_open(context, "db", NULL, &election));
    FORKED(tenure_election_run(context, "db", NULL, UINT64_MAX, no_work, NULL));
    FORKED(tenure_guard_open(context, NULL, &guard));
    FORKED(tenure_leader_read(context, "web", &leader));
    FORKED(tenure_leader_observe(context, "web", no_leader, NULL));
    FORKED(tenure_leader_resign(context, "web", "i"));
    CHILD_CHECK(!member && !election && !guard);
}

static void try_leases(const struct fixture *fixture) {
    CHILD_CHECK(!tenure_lease_valid(fixture->lease));
    CHILD_CHECK(tenure_lease_remaining_ms(fixture->lease) == 0);
    CHILD_CHECK(!tenure_lease_valid(fixture->pending));
    FORKED(tenure_renew(fixture->lease));
    FORKED(tenure_release(fixture->lease));
    FORKED(tenure_lease_wait(fixture->lease, UINT64_MAX));
    FORKED(tenure_lease_wait(fixture->pending, UINT64_MAX));
    FORKED(tenure_lease_on_lost(fixture->lease, NULL, NULL));
}

static void try_member(const struct fixture *fixture) {
    tenure_member *member = fixture->member;
    tenure_handle handle = {0};
    tenure_member_info info = {.size = sizeof info};
    tenure_event event = {.size = sizeof event};
    uint64_t token = 77;
    CHILD_CHECK(!tenure_handle_is_held(fixture->handle));
    CHILD_CHECK(tenure_handle_token(fixture->handle) == 0);
    CHILD_CHECK(tenure_handle_remaining_ms(fixture->handle) == 0);
    CHILD_CHECK(!tenure_member_is_held(member, "t"));
    FORKED(tenure_member_stop(member, UINT64_MAX));
    FORKED(tenure_member_put(member, "u", 0));
    FORKED(tenure_member_remove(member, "t"));
    FORKED(tenure_member_acquire(member, "u"));
    FORKED(tenure_member_release(member, "t"));
    FORKED(tenure_member_handle(member, "t", &handle));
    FORKED(tenure_member_begin(member, "t", &token));
    FORKED(tenure_member_end(member, "t"));
    FORKED(tenure_member_confirm(member, "t"));
    FORKED(tenure_member_read(member, "t", &info));
    FORKED(tenure_member_list_held(member, no_name, NULL));
    FORKED(tenure_member_list_instances(member, no_name, NULL));
    FORKED(tenure_member_set_weight(member, 1));
    FORKED(tenure_member_next_event(member, UINT64_MAX, &event));
    CHILD_CHECK(token == 77 && !handle.belief);
}

static void try_election_and_guard(const struct fixture *fixture) {
    tenure_guard_item item = {.target = "x", .token = 1};
    tenure_guard_totals totals = {.size = sizeof totals};
    CHILD_CHECK(!tenure_election_leads(fixture->election));
    CHILD_CHECK(tenure_election_token(fixture->election) == 0);
    CHILD_CHECK(tenure_election_remaining_ms(fixture->election) == 0);
    FORKED(tenure_election_wait(fixture->election, UINT64_MAX));
    FORKED(tenure_election_resign(fixture->election));
    FORKED(tenure_guard_check(fixture->guard, "x", 1));
    FORKED(tenure_guard_check_many(fixture->guard, &item, 1, sizeof item));
    FORKED(tenure_guard_read(fixture->guard, &totals));
}

static void try_everything(const struct fixture *fixture) {
    alarm(HANG_MS / 1000); /* a call that hangs ends the child */
    try_leases(fixture);
    try_member(fixture);
    try_election_and_guard(fixture);
    try_context(fixture->context);
    try_reads(fixture->context);
    try_openings(fixture->context);
    tenure_cancel(fixture->context);
}

/* The parts first. What close says is not laid down, but it returns. */
static void close_parts_first(void *arg) {
    struct fixture *fixture = arg;
    try_everything(fixture);
    tenure_lease_free(fixture->lease);
    tenure_lease_free(fixture->pending);
    tenure_lease_drop(fixture->spare);
    tenure_guard_close(fixture->guard);
    tenure_election_close(fixture->election);
    tenure_member_close(fixture->member);
    (void)tenure_close(fixture->context);
}

static void close_context_first(void *arg) {
    struct fixture *fixture = arg;
    alarm(HANG_MS / 1000);
    (void)tenure_close(fixture->context);
    CHILD_CHECK(!tenure_lease_valid(fixture->lease));
    CHILD_CHECK(tenure_renew(fixture->lease) < 0);
    CHILD_CHECK(tenure_member_confirm(fixture->member, "t") < 0);
    tenure_member_close(fixture->member);
    tenure_election_close(fixture->election);
    tenure_guard_close(fixture->guard);
    tenure_lease_drop(fixture->spare);
    tenure_lease_free(fixture->pending);
    tenure_lease_free(fixture->lease);
}

static void open_own(void *arg) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN};
    tenure_context *own = NULL;
    tenure_lease *lease = NULL;
    alarm(HANG_MS / 1000);
    CHILD_CHECK(tenure_open(arg, &options, &own) == TENURE_OK);
    CHILD_CHECK(tenure_acquire(own, "child", 0, 0, &lease) == TENURE_OK);
    CHILD_CHECK(tenure_lease_valid(lease));
    CHILD_CHECK(tenure_release(lease) == TENURE_OK);
    tenure_lease_free(lease);
    CHILD_CHECK(tenure_close(own) == TENURE_OK);
}

static void a_child_is_refused_everywhere_and_can_close_everything(void **state) {
    (void)state;
    static const struct {
        const char *url;
        unsigned flags;
    } forms[] = {{"memory:unit-misuse-threaded", 0}, {"memory:unit-misuse-driven", TENURE_DRIVEN}};
    for (size_t i = 0; i < TEN_COUNT(forms); i++) {
        struct fixture fixture;
        fixture_open(&fixture, forms[i].url, forms[i].flags);
        assert_child_is_content(close_parts_first, &fixture);
        assert_child_is_content(close_context_first, &fixture);
        assert_child_is_content(open_own, (char[]){"memory:child"});
        fixture_close(&fixture);
    }
}

static void a_grandchild_is_refused_too(void *arg) {
    struct fixture *fixture = arg;
    pid_t grandchild = fork();
    CHILD_CHECK(grandchild >= 0);
    if (grandchild == 0) {
        close_parts_first(fixture);
        _exit(0);
    }
    int status = -1;
    CHILD_CHECK(waitpid(grandchild, &status, 0) == grandchild);
    CHILD_CHECK(status == 0);
    close_parts_first(fixture);
}

static void a_child_of_a_child_is_refused_as_well(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture, "memory:unit-misuse-fork", 0);
    assert_child_is_content(a_grandchild_is_refused_too, &fixture);
    fixture_close(&fixture);
}

/* ---- a thread of the parent is inside a call */

struct busy {
    struct fixture *fixture;
    pthread_t thread;
    atomic_bool over;
    atomic_uint rounds;
    atomic_uint failures;
};

static void *acquire_and_release(void *arg) {
    struct busy *busy = arg;
    while (!atomic_load(&busy->over)) {
        tenure_lease *lease = NULL;
        tenure_info info = {.size = sizeof info};
        bool good = tenure_acquire(busy->fixture->context, "busy", 1000, 0, &lease) == TENURE_OK &&
                    tenure_renew(lease) == TENURE_OK &&
                    tenure_target_read(busy->fixture->context, "busy", &info) == TENURE_OK &&
                    tenure_guard_check(busy->fixture->guard, "busy", tenure_lease_token(lease)) == TENURE_OK &&
                    tenure_release(lease) == TENURE_OK;
        tenure_lease_free(lease);
        atomic_fetch_add(&busy->failures, !good);
        atomic_fetch_add(&busy->rounds, 1);
    }
    return NULL;
}

static void fork_beside_a_busy_thread(const char *url) {
    struct fixture fixture;
    fixture_open(&fixture, url, 0);
    struct busy busy = {.fixture = &fixture};
    assert_int_equal(pthread_create(&busy.thread, NULL, acquire_and_release, &busy), 0);
    int failed = 0;
    for (int i = 0; i < FORKS && failed == 0; i++) {
        unsigned rounds = atomic_load(&busy.rounds);
        failed = child_status(i % 2 ? close_context_first : close_parts_first, &fixture, 0);
        for (uint64_t start_us = ten_boot_us();
             atomic_load(&busy.rounds) == rounds && elapsed_ms(start_us) < HANG_MS;) /* it goes on */
            ten_sleep_us(100);
    }
    atomic_store(&busy.over, true);
    pthread_join(busy.thread, NULL);
    assert_int_equal(failed, 0);
    assert_int_equal(atomic_load(&busy.failures), 0);
    assert_true(atomic_load(&busy.rounds) >= FORKS);
    fixture_close(&fixture);
}

UNIT_UNUSED static void a_child_does_not_hang_although_a_thread_was_inside_a_call(void **state) {
    (void)state;
    fork_beside_a_busy_thread("memory:unit-misuse-fork-busy");
}

#ifdef TEN_STORE_SQLITE
UNIT_UNUSED static void a_child_does_not_hang_although_a_thread_was_inside_a_call_on_sqlite(void **state) {
    (void)state;
    char directory[256];
    char url[300];
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    fork_beside_a_busy_thread(url);
    directory_remove(directory);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_refused_everywhere_and_can_close_everything),
        cmocka_unit_test(a_child_of_a_child_is_refused_as_well),
#ifndef __SANITIZE_THREAD__ /* its own allocator does not outlive a fork beside a thread that allocates */
        cmocka_unit_test(a_child_does_not_hang_although_a_thread_was_inside_a_call),
#ifdef TEN_STORE_SQLITE
        cmocka_unit_test(a_child_does_not_hang_although_a_thread_was_inside_a_call_on_sqlite),
#endif
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
