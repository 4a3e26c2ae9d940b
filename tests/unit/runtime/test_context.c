/*
 * Contexts: opening with options of every age, refusals with their reasons, and messages that belong to a thread and a
 * context.
 */
#include "unit/runtime/handles.h"

#include <pthread.h>

#include "base/id.h"
#include "base/io.h"
#include "runtime/context.h"
#include "store/store.h"

static void assert_not_opened(const char *url, const tenure_options *options, int error, const char *why) {
    tenure_context *context = (tenure_context *)&error;
    assert_int_equal(tenure_open(url, options, &context), error);
    assert_ptr_equal(context, &error);
    assert_contains(tenure_message(NULL), why);
}

/* ---- what the store is asked: the linker puts this one between the runtime and the store (--wrap) */

static struct {
    char namespace_name[TENURE_NAMESPACE_MAX + 1];
    uint64_t timeout_ms;
    atomic_bool hangs;
    atomic_bool is_hanging;
} asked;

int __real_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count,
                           uint64_t timeout_ms) {
    if (count == 1 && ops[0].kind == TEN_OP_ACQUIRE) {
        snprintf(asked.namespace_name, sizeof asked.namespace_name, "%s", ops[0].namespace_name);
        asked.timeout_ms = timeout_ms;
        for (uint64_t start_us = ten_boot_us(); atomic_load(&asked.hangs) && elapsed_ms(start_us) < 5000;) {
            atomic_store(&asked.is_hanging, true);
            ten_sleep_us(500);
        }
    }
    return __real_ten_store_apply(store, ops, results, count, timeout_ms);
}

/* What a context believes of itself is seen by what it asks for. */
static void assert_timing(const char *url, const tenure_options *options, uint64_t ttl_ms, uint64_t margin_ms,
                          uint64_t timeout_ms) {
    struct fake_clock fake;
    ten_clock clock = fake_clock_make(&fake);
    tenure_context *context = NULL;
    tenure_lease *lease = NULL;
    assert_int_equal(ten_context_open(url, options, &clock, &context), TENURE_OK);
    assert_int_equal(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_lease_ttl_ms(lease), ttl_ms);
    assert_int_equal(tenure_lease_remaining_ms(lease), ttl_ms - margin_ms);
    assert_int_equal(asked.timeout_ms, timeout_ms);
    tenure_lease_free(lease);
    tenure_close(context);
}

TEST(a_context_without_options_has_the_defaults) {
    assert_timing("memory:", NULL, 30000, 3750, 5000);
    assert_string_equal(asked.namespace_name, "poll");
    tenure_context *context = open_with("memory:", NULL);
    ten_error error;
    assert_int_equal(ten_id_check_holder(tenure_instance_id(context), &error), TENURE_OK);
    assert_int_equal(tenure_close(context), TENURE_OK);
    assert_int_equal(tenure_close(NULL), TENURE_OK);
}

TEST(options_are_taken) {
    tenure_options options = {.size = sizeof options,
                              .namespace_name = "scenes",
                              .instance_name = "node-1",
                              .ttl_ms = 10000,
                              .margin_ms = 500,
                              .timeout_ms = 700};
    assert_timing("memory:", &options, 10000, 500, 700);
    assert_string_equal(asked.namespace_name, "scenes");
    tenure_context *context = open_with("memory:", &options);
    assert_int_equal(strncmp(tenure_instance_id(context), "node-1-", 7), 0);
    tenure_close(context);
}

TEST(a_store_that_does_not_exist_is_refused_with_those_that_do) {
    assert_not_opened("mysql://x", NULL, TENURE_E_INVALID, "sqlite: ");
    assert_not_opened("localhost:6379", NULL, TENURE_E_INVALID, "redis: ");
}

TEST(bad_options_are_refused_with_their_rule) {
    tenure_options options = {.size = sizeof options, .namespace_name = "a/b"};
    assert_not_opened("memory:", &options, TENURE_E_INVALID, "namespace 'a/b' is not valid");
    options.namespace_name = "tenure";
    assert_not_opened("memory:", &options, TENURE_E_INVALID, "kept for Tenure itself");
    options.namespace_name = "";
    assert_not_opened("memory:", &options, TENURE_E_INVALID, "1 to 63 bytes");
    options.namespace_name = NULL;
    options.instance_name = "a b";
    assert_not_opened("memory:", &options, TENURE_E_INVALID, "instance name 'a b' is not valid");
    options.instance_name = NULL;
    options.ttl_ms = 99;
    assert_not_opened("memory:", &options, TENURE_E_TTL, "too short");
    options.ttl_ms = UINT64_MAX;
    assert_not_opened("memory:", &options, TENURE_E_TTL, "too long");
    options.ttl_ms = 1000;
    options.margin_ms = 501;
    assert_not_opened("memory:", &options, TENURE_E_TTL, "half of the TTL");
    options.margin_ms = 1;
    assert_not_opened("memory:", &options, TENURE_E_TTL, "at least 20ms");
}

TEST(a_bad_url_is_refused_without_its_password) {
    assert_not_opened("", NULL, TENURE_E_INVALID, "scheme");
    assert_not_opened("memroy:", NULL, TENURE_E_INVALID, "did you mean 'memory:'?");
    assert_not_opened("memory:?timeuot=1s", NULL, TENURE_E_INVALID, "did you mean 'timeout'?");
    assert_not_opened("memory:?timeout=1", NULL, TENURE_E_INVALID, "has no unit");
    assert_not_opened("memory:?timeout=0s", NULL, TENURE_E_INVALID, "timeout is 0");
    assert_not_opened("memory://me:secret@h%zz", NULL, TENURE_E_INVALID, "***");
    assert_lacks(tenure_message(NULL), "secret");
}

TEST(a_urls_timeout_counts_unless_the_options_have_one) {
    tenure_options options = {.size = sizeof options, .timeout_ms = 700};
    assert_timing("memory:?timeout=2s", NULL, 30000, 3750, 2000);
    assert_timing("memory:?timeout=2s", &options, 30000, 3750, 700);
}

/* ---- messages */

TEST(a_message_belongs_to_its_context) {
    tenure_context *a = open_with("memory:", NULL);
    tenure_context *b = open_with("memory:", NULL);
    tenure_info info = {.size = sizeof info};
    assert_string_equal(tenure_message(a), "");
    assert_int_equal(tenure_target_read(a, "nothing", &info), TENURE_E_UNKNOWN_TARGET);
    assert_contains(tenure_message(a), "nothing");
    assert_string_equal(tenure_message(b), "");
    assert_contains(tenure_message(NULL), "nothing");
    assert_int_equal(tenure_target_read(b, "other", &info), TENURE_E_UNKNOWN_TARGET);
    assert_contains(tenure_message(b), "other");
    assert_string_equal(tenure_message(a), ""); /* the last failed call was another's */
    assert_contains(tenure_message(NULL), "other");
    tenure_close(b);
    tenure_close(a);
}

/* The context of what failed, and what was opened on it, both have its message; others on the same context do not. */
TEST(a_message_belongs_to_the_handle_and_to_its_context) {
    tenure_context *context = open_with("memory:", NULL);
    tenure_lease *lease = NULL;
    tenure_lease *other = NULL;
    assert_int_equal(tenure_acquire(context, "x", 0, TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_acquire(context, "y", 0, TENURE_MANUAL, &other), TENURE_OK);
    assert_int_equal(tenure_release(lease), TENURE_OK);
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_contains(tenure_message(lease), "x");
    assert_contains(tenure_message(context), "x");
    assert_contains(tenure_message(NULL), "x");
    assert_string_equal(tenure_message(other), "");
    tenure_lease_free(lease);
    tenure_lease_free(other);
    tenure_close(context);
}

struct other_thread {
    tenure_context *context;
    char before[64];
    char after[512];
};

static void *fail_in_a_thread(void *arg) {
    struct other_thread *job = arg;
    tenure_info info = {.size = sizeof info};
    snprintf(job->before, sizeof job->before, "%s", tenure_message(job->context));
    tenure_target_read(job->context, "theirs", &info);
    snprintf(job->after, sizeof job->after, "%s", tenure_message(job->context));
    return NULL;
}

TEST(a_message_belongs_to_its_thread) {
    tenure_context *context = open_with("memory:", NULL);
    struct other_thread job = {.context = context};
    tenure_info info = {.size = sizeof info};
    pthread_t thread;
    assert_int_equal(tenure_target_read(context, "mine", &info), TENURE_E_UNKNOWN_TARGET);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_a_thread, &job), 0);
    pthread_join(thread, NULL);
    assert_string_equal(job.before, "");
    assert_contains(job.after, "theirs");
    assert_contains(tenure_message(context), "mine");
    tenure_close(context);
}

/* ---- threads that use the context for too long */

static void *hang_in_a_call(void *arg) {
    tenure_lease *lease = NULL;
    (void)tenure_acquire(arg, "slow", 0, TENURE_MANUAL, &lease);
    tenure_lease_free(lease);
    return NULL;
}

TEST(a_context_that_others_use_for_too_long_is_a_timeout) {
    tenure_options options = {.size = sizeof options, .timeout_ms = 50};
    tenure_context *context = open_with("memory:", &options);
    tenure_info info = {.size = sizeof info};
    pthread_t thread;
    atomic_store(&asked.hangs, true);
    assert_int_equal(pthread_create(&thread, NULL, hang_in_a_call, context), 0);
    while (!atomic_load(&asked.is_hanging))
        ten_sleep_us(500);
    uint64_t start_us = ten_boot_us();
    int r = tenure_target_read(context, "a", &info);
    char message[512];
    snprintf(message, sizeof message, "%s", tenure_message(context));
    uint64_t took_ms = elapsed_ms(start_us);
    atomic_store(&asked.hangs, false);
    pthread_join(thread, NULL);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_true(took_ms + MACHINE_ROUNDING_MS >= 50);
    assert_contains(message, "other threads");
    assert_int_equal(tenure_target_read(context, "a", &info), TENURE_E_UNKNOWN_TARGET);
    tenure_close(context);
}

/* ---- health */

static void count_check(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                        void *userdata) {
    assert_non_null(found);
    assert_true(check[0] != '\0');
    assert_int_equal(advice[0] != '\0', level != TENURE_CHECK_OK);
    ++*(size_t *)userdata;
}

TEST(health_is_told) {
    tenure_context *context = open_with("memory:", NULL);
    uint64_t elapsed_us = UINT64_MAX;
    size_t count = 0;
    assert_int_equal(tenure_store_ping(context, &elapsed_us), TENURE_OK);
    assert_in_range(elapsed_us, 0, HANG_MS * 1000);
    assert_int_equal(tenure_store_check(context, count_check, &count), TENURE_OK);
    assert_true(count > 0);
    tenure_close(context);
}

#ifdef TEN_STORE_SQLITE
TEST(without_a_url_the_store_is_in_the_state_directory) {
    char directory[256];
    char path[300];
    directory_make(directory);
    setenv("XDG_STATE_HOME", directory, 1);
    tenure_context *context = open_with(NULL, NULL);
    tenure_close(context);
    snprintf(path, sizeof path, "%s/tenure/tenure.db", directory);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/tenure", directory);
    directory_remove(path);
    directory_remove(directory);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_not_opened(NULL, NULL, TENURE_E_INVALID, "XDG_STATE_HOME");
}
#endif
