/*
 * fork() with a context open (fault 23): the child holds nothing, every call says so, closing is harmless, cancelling
 * does not reach the parent, and the child can open a context of its own.
 */
#include "unit/runtime/handles.h"

#include <tenure.h>

struct fixture {
    char url[300];
    tenure_context *context;
    tenure_lease *lease;
};

static void fixture_open(struct fixture *fixture, const char *url) {
    snprintf(fixture->url, sizeof fixture->url, "%s", url);
    assert_int_equal(tenure_open(url, NULL, &fixture->context), TENURE_OK);
    fixture->lease = acquire(fixture->context, "x", 0);
}

static void fixture_close(struct fixture *fixture) {
    assert_true(tenure_lease_valid(fixture->lease));
    assert_int_equal(tenure_renew(fixture->lease), TENURE_OK);
    assert_int_equal(tenure_lease_token(fixture->lease), 1);
    assert_int_equal(tenure_release(fixture->lease), TENURE_OK);
    tenure_lease_free(fixture->lease);
    tenure_close(fixture->context);
}

static int no_info(const tenure_info *info, void *userdata) {
    (void)info;
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

static void no_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                     void *userdata) {
    (void)level;
    (void)check;
    (void)found;
    (void)advice;
    (void)userdata;
}

static void try_lease_calls(const struct fixture *fixture) {
    tenure_context *context = fixture->context;
    tenure_lease *lease = NULL;
    bool released;
    CHILD_CHECK(!tenure_lease_valid(fixture->lease));
    CHILD_CHECK(tenure_lease_remaining_ms(fixture->lease) == 0);
    CHILD_CHECK(tenure_renew(fixture->lease) == TENURE_E_FORKED);
    CHILD_CHECK(strstr(tenure_message(context), "open another one after fork()"));
    CHILD_CHECK(tenure_release(fixture->lease) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_acquire(context, "y", 0, 0, &lease) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_acquire(context, "y", UINT64_MAX, 0, &lease) == TENURE_E_FORKED);
    CHILD_CHECK(!lease);
    CHILD_CHECK(tenure_token_renew(context, "x", 1, 0) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_token_release(context, "x", 1, &released) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_force_release(context, "x", NULL, TENURE_NOW, &released) == TENURE_E_FORKED);
}

static void try_other_calls(const struct fixture *fixture) {
    tenure_context *context = fixture->context;
    tenure_info info = {.size = sizeof info};
    uint64_t number = 0;
    tenure_target target = {.size = sizeof target, .id = "t"};
    CHILD_CHECK(tenure_target_read(context, "x", &info) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_target_list(context, TENURE_ALL, no_info, NULL) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_registry_put(context, &target, 1, NULL) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_registry_remove(context, "t") == TENURE_E_FORKED);
    CHILD_CHECK(tenure_registry_pause(context, "t") == TENURE_E_FORKED);
    CHILD_CHECK(tenure_registry_list(context, no_target, NULL) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_watch_start(context, &number) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_watch_wait(context, &number, UINT64_MAX, no_change, NULL) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_store_ping(context, &number) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_store_check(context, no_check, NULL) == TENURE_E_FORKED);
}

static void use_in_child(void *arg) {
    struct fixture *fixture = arg;
    try_lease_calls(fixture);
    try_other_calls(fixture);
    tenure_cancel(fixture->context);
    tenure_lease_free(fixture->lease);
    tenure_close(fixture->context);
}

/* The parent is not cancelled by what the child did. */
static void assert_not_cancelled(tenure_context *context) {
    uint64_t cursor;
    assert_int_equal(tenure_watch_start(context, &cursor), TENURE_OK);
    assert_int_equal(tenure_watch_wait(context, &cursor, 1, no_change, NULL), TENURE_OK);
}

TEST(a_child_can_do_nothing_with_its_parents_context) {
    struct fixture fixture;
    fixture_open(&fixture, "memory:unit-fork");
    for (int i = 0; i < 3; i++)
        assert_child_is_content(use_in_child, &fixture);
    assert_not_cancelled(fixture.context);
    fixture_close(&fixture);
}

TEST(a_child_holds_nothing_even_before_it_calls_anything) {
    struct fixture fixture;
    fixture_open(&fixture, "memory:unit-fork");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(tenure_lease_valid(fixture.lease) ? 1 : 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fixture_close(&fixture);
}

#ifdef TEN_STORE_SQLITE
static void open_own_in_child(void *arg) {
    const char *url = arg;
    tenure_context *own = NULL;
    CHILD_CHECK(tenure_open(url, NULL, &own) == TENURE_OK);
    tenure_lease *lease = NULL;
    /* Without a thread: ThreadSanitizer allows none after fork(). */
    CHILD_CHECK(tenure_acquire(own, "child", 0, TENURE_MANUAL, &lease) == TENURE_OK);
    CHILD_CHECK(tenure_lease_valid(lease));
    CHILD_CHECK(tenure_release(lease) == TENURE_OK);
    tenure_lease_free(lease);
    tenure_close(own);
}

/* SQLite cannot have a file open on both sides of fork(): the child would have the table of locks without the locks. */
static void open_same_in_child(void *arg) {
    const struct fixture *fixture = arg;
    tenure_context *own = NULL;
    CHILD_CHECK(tenure_open(fixture->url, NULL, &own) == TENURE_E_FORKED);
    CHILD_CHECK(strstr(tenure_message(NULL), "exec") != NULL);
}

TEST(a_child_uses_no_connection_of_its_parents_and_is_refused_the_same_file) {
    char directory[256];
    char url[300];
    struct fixture fixture;
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    fixture_open(&fixture, url);
    assert_child_is_content(use_in_child, &fixture);
    assert_not_cancelled(fixture.context);
    assert_child_is_content(open_same_in_child, &fixture);
    assert_true(tenure_lease_valid(fixture.lease));
    assert_int_equal(tenure_renew(fixture.lease), TENURE_OK);
    fixture_close(&fixture);
    directory_remove(directory);
}

TEST(a_child_can_open_another_file_and_the_same_one_after_the_parent_closed_it) {
    char directory[256];
    char url[300];
    char other[300];
    struct fixture fixture;
    directory_make(directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    snprintf(other, sizeof other, "sqlite:%s/other.db", directory);
    fixture_open(&fixture, url);
    assert_child_is_content(open_own_in_child, other);
    fixture_close(&fixture);
    assert_child_is_content(open_own_in_child, url);
    directory_remove(directory);
}
#endif
