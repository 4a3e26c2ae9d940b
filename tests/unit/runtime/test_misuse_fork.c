/*
 * A child of fork() and what its parent had open: every call on each kind of handle is refused, nothing is held, closing
 * frees memory only and does not hang, even if another thread of the parent was inside a call at the fork; and the
 * parent notices nothing of it. test_context_fork.c has what a child may open itself.
 */
#include <pthread.h>

#include "base/io.h"
#include "unit/runtime/calls.h"
#include "unit/runtime/handles.h"

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

static void fixture_open(struct fixture *fixture, const char *url, unsigned flags) {
    tenure_options options = {.size = sizeof options, .flags = flags};
    tenure_member_options fleet = {.size = sizeof fleet, .namespace_name = "fleet"};
    *fixture = (struct fixture){0};
    assert_int_equal(tenure_open(url, &options, &fixture->context), TENURE_OK);
    assert_int_equal(tenure_open(url, NULL, &fixture->other), TENURE_OK);
    fixture->obstacle = acquire(fixture->other, "taken", 0);
    fixture->lease = acquire(fixture->context, "x", 0);
    fixture->spare = acquire(fixture->context, "spare", 0);
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

/* ---- in the child */

static void check_forked(const struct calls *calls, const char *call, int r) {
    if (r == calls->error && (strncmp(call, "tenure_", 7) != 0 || strstr(tenure_message(NULL), calls->word)))
        return;
    fprintf(stderr, "in the child: %s: %s (%s)\n", call, tenure_error_name(r), tenure_message(NULL));
    _exit(1);
}

static void check_nothing_is_held(const struct fixture *fixture) {
    CHILD_CHECK(!tenure_lease_valid(fixture->lease));
    CHILD_CHECK(tenure_lease_remaining_ms(fixture->lease) == 0);
    CHILD_CHECK(!tenure_lease_valid(fixture->pending));
    CHILD_CHECK(!tenure_handle_is_held(fixture->handle));
    CHILD_CHECK(tenure_handle_token(fixture->handle) == 0);
    CHILD_CHECK(tenure_handle_remaining_ms(fixture->handle) == 0);
    CHILD_CHECK(!tenure_election_leads(fixture->election));
    CHILD_CHECK(tenure_election_token(fixture->election) == 0);
    CHILD_CHECK(tenure_election_remaining_ms(fixture->election) == 0);
}

static void try_everything(const struct fixture *fixture) {
    static const struct calls calls = {.check = check_forked, .error = TENURE_E_FORKED, .word = "fork()"};
    alarm(HANG_MS / 1000); /* a call that hangs ends the child */
    check_nothing_is_held(fixture);
    call_lease(&calls, fixture->lease);
    call_lease(&calls, fixture->pending);
    call_member(&calls, fixture->member);
    call_election(&calls, fixture->election);
    call_guard(&calls, fixture->guard);
    call_context(&calls, fixture->context);
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

TEST(a_child_is_refused_everywhere_and_can_close_everything) {
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

TEST(a_child_of_a_child_is_refused_as_well) {
    struct fixture fixture;
    fixture_open(&fixture, "memory:unit-misuse-fork", 0);
    assert_child_is_content(a_grandchild_is_refused_too, &fixture);
    fixture_close(&fixture);
}

/* ---- a thread of the parent is inside a call */

#ifndef __SANITIZE_THREAD__ /* its own allocator does not outlive a fork beside a thread that allocates */

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

TEST(a_child_does_not_hang_although_a_thread_was_inside_a_call) {
    fork_beside_a_busy_thread("memory:unit-misuse-fork-busy");
}

#ifdef TEN_STORE_SQLITE
TEST(a_child_does_not_hang_although_a_thread_was_inside_a_call_on_sqlite) {
    char directory[256];
    char url[300];
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    fork_beside_a_busy_thread(url);
    directory_remove(directory);
}
#endif
#endif
