/*
 * Leases of the C API on the memory store and a clock that stands still: who may believe what, until when. Nothing is
 * renewed but by the test: the contexts are driven, and the leases manual. The last ones use a SQLite file, because a
 * store that is out of reach is their subject.
 */
#include "unit/runtime/handles.h"

#include <pthread.h>

#include "base/io.h"
#include "runtime/context.h"
#include "store/store.h"

enum { TTL = 30000, MARGIN = 3750, HANGS_MS = 5000 };

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    tenure_context *a;
    tenure_context *b;
};

/* ---- requests that are slow on their way. The linker puts this one between the runtime and the store (--wrap) */

static struct fake_clock *flight_clock; /* moves on by so much while a request is on its way, once */
static uint64_t flight_ms;
static atomic_bool hangs; /* so does an acquire of `slow`, for a while */
static atomic_bool is_hanging;

int __real_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count,
                           uint64_t timeout_ms) {
    if (flight_clock && flight_ms) {
        flight_clock->boot_ms += flight_ms;
        flight_ms = 0;
    }
    bool slow = count == 1 && ops[0].kind == TEN_OP_ACQUIRE && strcmp(ops[0].target, "slow") == 0;
    for (uint64_t start_us = ten_boot_us(); slow && atomic_load(&hangs) && elapsed_ms(start_us) < HANGS_MS;) {
        atomic_store(&is_hanging, true);
        ten_sleep_us(500);
    }
    return __real_ten_store_apply(store, ops, results, count, timeout_ms);
}

static tenure_context *open_named(const struct fixture *fixture, const char *url, const char *name) {
    tenure_options options = {
        .size = sizeof options, .flags = TENURE_DRIVEN, .instance_name = name, .timeout_ms = 2000};
    tenure_context *context = NULL;
    if (ten_context_open(url, &options, &fixture->clock, &context) != TENURE_OK)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->clock = fake_clock_make(&fixture->fake);
    fixture->a = open_named(fixture, "memory:unit-lease", "a");
    fixture->b = open_named(fixture, "memory:unit-lease", "b");
    flight_clock = &fixture->fake;
    flight_ms = 0;
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_close(fixture->a);
    tenure_close(fixture->b);
    free(fixture);
    return 0;
}

#define LEASE_TEST(name) TEST_WITH(name, set_up, tear_down)

static void assert_held(tenure_context *context, const char *target) {
    tenure_lease *lease = (tenure_lease *)&lease;
    assert_int_equal(tenure_acquire(context, target, 0, TENURE_MANUAL, &lease), TENURE_E_HELD);
    assert_ptr_equal(lease, &lease);
}

LEASE_TEST(an_acquired_lease_is_valid_for_the_ttl_less_the_margin) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_true(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_token(lease), 1);
    assert_int_equal(tenure_lease_ttl_ms(lease), TTL);
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN);
    assert_string_equal(tenure_lease_target(lease), "x");
    tenure_lease_free(lease);
    tenure_lease_free(NULL);
}

/* Nobody renews, no store is asked: the clock is enough. */
LEASE_TEST(a_lease_turns_invalid_by_the_clock_alone) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    fixture->fake.boot_ms += TTL - MARGIN - 1;
    assert_true(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), 1);
    fixture->fake.boot_ms += 1;
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), 0);
    assert_held(fixture->b, "x"); /* the store lets nobody in yet */
    fixture->fake.boot_ms += MARGIN - 1;
    assert_held(fixture->b, "x");
    fixture->fake.boot_ms += 1;
    tenure_lease *next = acquire(fixture->b, "x", TENURE_MANUAL);
    assert_int_equal(tenure_lease_token(next), 2);
    tenure_lease_free(lease);
    tenure_lease_free(next);
}

/* Time passes on the way to the store: the deadline counts from before, the store's lease from after. */
LEASE_TEST(an_acquires_deadline_counts_from_sending) {
    struct fixture *fixture = *state;
    tenure_info info = {.size = sizeof info};
    flight_ms = 5000;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_true(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN - 5000);
    assert_int_equal(tenure_target_read(fixture->b, "x", &info), TENURE_OK);
    assert_int_equal(info.remaining_ms, TTL);
    tenure_lease_free(lease);
}

LEASE_TEST(a_renewals_deadline_counts_from_sending) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    fixture->fake.boot_ms += 1000;
    flight_ms = 7000;
    assert_int_equal(tenure_renew(lease), TENURE_OK);
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN - 7000);
    assert_true(tenure_lease_valid(lease));
    tenure_lease_free(lease);
}

LEASE_TEST(an_answer_that_comes_after_the_lease_is_over_is_a_timeout) {
    struct fixture *fixture = *state;
    tenure_lease *lease = NULL;
    flight_ms = TTL - MARGIN;
    assert_int_equal(tenure_acquire(fixture->a, "x", 0, TENURE_MANUAL, &lease), TENURE_E_TIMEOUT);
    assert_null(lease);
    assert_contains(tenure_message(fixture->a), "over again");
}

LEASE_TEST(a_renewal_that_is_answered_too_late_leaves_the_lease_invalid) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    flight_ms = TTL - MARGIN;
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST); /* its deadline passed meanwhile */
    assert_false(tenure_lease_valid(lease));
    /* The store still has it, but a token whose deadline has passed is not believed again; a new one is. */
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_false(tenure_lease_valid(lease));
    tenure_lease *next = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_int_equal(tenure_lease_token(next), 2);
    tenure_lease_free(next);
    tenure_lease_free(lease);
}

LEASE_TEST(two_handles_on_one_grant_end_together) {
    struct fixture *fixture = *state;
    tenure_lease *first = acquire(fixture->a, "x", TENURE_MANUAL);
    tenure_lease *second = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_int_equal(tenure_lease_token(second), tenure_lease_token(first));
    assert_int_equal(tenure_release(first), TENURE_OK);
    tenure_lease *other = acquire(fixture->b, "x", TENURE_MANUAL);
    assert_true(tenure_lease_valid(other));
    assert_false(tenure_lease_valid(second));
    assert_int_equal(tenure_renew(second), TENURE_E_LOST);
    tenure_lease_free(first);
    tenure_lease_free(second);
    tenure_lease_free(other);
}

/* They share the grant: its fresh TTL, its end, and that its token is over then for both. */
LEASE_TEST(a_token_that_is_spent_for_one_handle_is_for_all) {
    struct fixture *fixture = *state;
    tenure_lease *first = acquire(fixture->a, "x", TENURE_MANUAL);
    fixture->fake.boot_ms += 1000;
    tenure_lease *second = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_int_equal(tenure_lease_remaining_ms(first), TTL - MARGIN);
    assert_int_equal(tenure_lease_remaining_ms(second), TTL - MARGIN);
    fixture->fake.boot_ms += TTL - MARGIN;
    assert_false(tenure_lease_valid(first) || tenure_lease_valid(second));
    assert_int_equal(tenure_renew(first), TENURE_E_LOST);
    tenure_lease *third = acquire(fixture->a, "x", TENURE_MANUAL); /* the store still had the old one */
    assert_int_equal(tenure_lease_token(third), tenure_lease_token(first) + 1);
    assert_true(tenure_lease_valid(third));
    assert_false(tenure_lease_valid(first) || tenure_lease_valid(second));
    assert_int_equal(tenure_lease_remaining_ms(second), 0);
    assert_int_equal(tenure_renew(second), TENURE_E_LOST);
    assert_int_equal(tenure_release(second), TENURE_OK); /* not the new one's */
    assert_true(tenure_lease_valid(third));
    assert_int_equal(tenure_renew(third), TENURE_OK);
    tenure_lease_free(first);
    tenure_lease_free(second);
    tenure_lease_free(third);
}

LEASE_TEST(the_token_of_a_freed_lease_is_not_believed_again_after_its_deadline) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    tenure_lease_free(lease);
    fixture->fake.boot_ms += TTL - MARGIN - 1;
    lease = acquire(fixture->a, "x", TENURE_MANUAL); /* before its deadline it is the same lease */
    assert_int_equal(tenure_lease_token(lease), 1);
    assert_true(tenure_lease_valid(lease));
    tenure_lease_free(lease);
    fixture->fake.boot_ms += TTL - MARGIN;
    assert_held(fixture->b, "x");
    lease = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_int_equal(tenure_lease_token(lease), 2);
    assert_true(tenure_lease_valid(lease));
    tenure_lease_free(lease);
    /* Also if it had expired before it was freed. */
    lease = acquire(fixture->a, "y", TENURE_MANUAL);
    fixture->fake.boot_ms += TTL - MARGIN;
    assert_false(tenure_lease_valid(lease));
    tenure_lease_free(lease);
    lease = acquire(fixture->a, "y", TENURE_MANUAL);
    assert_int_equal(tenure_lease_token(lease), 2);
    tenure_lease_free(lease);
}

LEASE_TEST(a_released_target_is_free_at_once_and_its_token_grows) {
    struct fixture *fixture = *state;
    for (uint64_t token = 1; token <= 5; token++) {
        tenure_context *context = token % 2 ? fixture->a : fixture->b;
        tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
        assert_int_equal(tenure_lease_token(lease), token);
        assert_int_equal(tenure_release(lease), TENURE_OK);
        assert_false(tenure_lease_valid(lease));
        assert_int_equal(tenure_lease_remaining_ms(lease), 0);
        assert_int_equal(tenure_release(lease), TENURE_OK); /* again: nothing is held */
        assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
        assert_contains(tenure_message(context), "released or lost before");
        assert_false(tenure_lease_valid(lease));
        tenure_lease_free(lease);
    }
}

/* Before its deadline has passed, it is the store that says so, and who has it now. */
LEASE_TEST(a_lease_that_was_taken_is_lost_to_the_one_who_has_it) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    assert_int_equal(tenure_token_release(fixture->b, "x", 1, NULL), TENURE_OK);
    tenure_lease *next = acquire(fixture->b, "x", TENURE_MANUAL);
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_contains(tenure_message(lease), tenure_instance_id(fixture->b));
    assert_contains(tenure_message(lease), "with token 2");
    assert_contains(tenure_message(fixture->a), "with token 2");
    assert_false(tenure_lease_valid(lease));
    assert_true(tenure_lease_valid(next));
    tenure_lease_free(lease);
    tenure_lease_free(next);
}

LEASE_TEST(a_lease_that_ended_is_lost_even_when_nobody_took_it) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->a, "x", TENURE_MANUAL);
    fixture->fake.boot_ms += TTL;
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_contains(tenure_message(lease), "x");
    assert_false(tenure_lease_valid(lease));
    tenure_lease *other = acquire(fixture->a, "y", TENURE_MANUAL);
    assert_int_equal(tenure_token_release(fixture->b, "y", 1, NULL), TENURE_OK);
    assert_int_equal(tenure_renew(other), TENURE_E_LOST);
    assert_contains(tenure_message(other), "nobody holds it now");
    assert_false(tenure_lease_valid(other));
    tenure_lease_free(lease);
    tenure_lease_free(other);
}

/* ---- by token, by force */

LEASE_TEST(a_token_alone_renews_and_releases) {
    struct fixture *fixture = *state;
    tenure_info info = {.size = sizeof info};
    bool released = false;
    tenure_lease_free(acquire(fixture->a, "x", TENURE_MANUAL));
    fixture->fake.boot_ms += 10000;
    assert_int_equal(tenure_token_renew(fixture->b, "x", 1, 0), TENURE_OK);
    assert_int_equal(tenure_target_read(fixture->b, "x", &info), TENURE_OK);
    assert_int_equal(info.remaining_ms, TTL);
    assert_int_equal(tenure_token_renew(fixture->b, "x", 1, 5000), TENURE_OK);
    assert_int_equal(tenure_target_read(fixture->b, "x", &info), TENURE_OK);
    assert_int_equal(info.remaining_ms, TTL); /* its holder would not hear of a shorter one */
    assert_int_equal(tenure_token_renew(fixture->b, "x", 1, 2 * TTL), TENURE_OK);
    assert_int_equal(tenure_target_read(fixture->b, "x", &info), TENURE_OK);
    assert_int_equal(info.remaining_ms, 2 * TTL);
    assert_int_equal(tenure_token_release(fixture->b, "x", 1, &released), TENURE_OK);
    assert_true(released);
    assert_int_equal(tenure_token_release(fixture->b, "x", 1, &released), TENURE_OK);
    assert_false(released);
    assert_int_equal(tenure_token_release(fixture->b, "never", 1, NULL), TENURE_OK);
    assert_int_equal(tenure_token_renew(fixture->b, "x", 1, 0), TENURE_E_LOST);
    assert_contains(tenure_message(fixture->b), "nobody holds it now");
}

/* Whoever has noticed says that the work has stopped. */
LEASE_TEST(a_forced_lease_that_is_released_lets_others_in_at_once) {
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 2; i++) {
        const char *target = i ? "dropped" : "released";
        tenure_lease *lease = acquire(fixture->a, target, TENURE_MANUAL);
        assert_int_equal(tenure_force_release(fixture->b, target, NULL, 0, NULL), TENURE_OK);
        assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
        assert_held(fixture->b, target);
        if (i) {
            tenure_lease_drop(lease);
            assert_int_equal(tenure_process(fixture->a), TENURE_OK);
        } else {
            assert_int_equal(tenure_release(lease), TENURE_OK);
            assert_int_equal(tenure_release(lease), TENURE_OK);
            tenure_lease_free(lease);
        }
        tenure_lease *next = acquire(fixture->b, target, TENURE_MANUAL);
        assert_int_equal(tenure_lease_token(next), 2);
        tenure_lease_free(next);
    }
}

/* The store keeps others out for the margin, and longer. */
LEASE_TEST(a_lease_whose_deadline_has_passed_is_released_all_the_same) {
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 2; i++) {
        const char *target = i ? "dropped" : "released";
        tenure_lease *lease = acquire(fixture->a, target, TENURE_MANUAL);
        fixture->fake.boot_ms += TTL - MARGIN;
        assert_int_equal(tenure_process(fixture->a), TENURE_OK);
        assert_false(tenure_lease_valid(lease));
        assert_held(fixture->b, target);
        if (i) {
            tenure_lease_drop(lease);
            assert_int_equal(tenure_process(fixture->a), TENURE_OK);
        } else {
            assert_int_equal(tenure_release(lease), TENURE_OK);
            tenure_lease_free(lease);
        }
        tenure_lease *next = acquire(fixture->b, target, TENURE_MANUAL);
        assert_int_equal(tenure_lease_token(next), 2);
        tenure_lease_free(next);
    }
}

LEASE_TEST(waiting_for_a_lease_that_is_over_says_so) {
    struct fixture *fixture = *state;
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(fixture->a, "x", 0, TENURE_ASYNC | TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, HANG_MS), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, 0), TENURE_OK);
    assert_int_equal(tenure_release(lease), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, 0), TENURE_E_LOST);
    assert_contains(tenure_message(lease), "is over: it was released");
    tenure_lease_free(lease);
    assert_int_equal(tenure_acquire(fixture->a, "x", 0, TENURE_ASYNC | TENURE_MANUAL, &lease), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, HANG_MS), TENURE_OK);
    fixture->fake.boot_ms += TTL;
    assert_int_equal(tenure_process(fixture->a), TENURE_OK);
    assert_int_equal(tenure_lease_wait(lease, 0), TENURE_E_LOST);
    assert_contains(tenure_message(lease), "expired");
    tenure_lease_free(lease);
}

/* ---- bad input */

static int count_info(const tenure_info *info, void *userdata) {
    (void)info;
    ++*(size_t *)userdata;
    return 0;
}

static void count_lost(tenure_lease *lease, const char *reason, void *userdata) {
    (void)lease;
    assert_string_equal(reason, "expired");
    ++*(unsigned *)userdata;
}

static uint64_t cpu_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* How much this thread computes until so many leases that expire together are reported, and freed. */
static uint64_t lose_us(struct fixture *fixture, unsigned count) {
    tenure_lease **leases = calloc(count, sizeof *leases);
    unsigned lost = 0;
    for (unsigned i = 0; i < count; i++) {
        char target[32];
        snprintf(target, sizeof target, "many-%u", i);
        assert_int_equal(tenure_acquire(fixture->a, target, 0, TENURE_ASYNC | TENURE_MANUAL, &leases[i]), TENURE_OK);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(tenure_lease_wait(leases[i], HANG_MS), TENURE_OK);
        assert_int_equal(tenure_lease_on_lost(leases[i], count_lost, &lost), TENURE_OK);
    }
    fixture->fake.boot_ms += TTL;
    uint64_t start_us = cpu_us();
    for (uint64_t begin_us = ten_boot_us(); lost < count && elapsed_ms(begin_us) < HANG_MS;)
        assert_int_equal(tenure_process(fixture->a), TENURE_OK);
    for (unsigned i = 0; i < count; i++)
        tenure_lease_free(leases[i]);
    uint64_t took_us = cpu_us() - start_us;
    assert_int_equal(lost, count);
    free(leases);
    return took_us;
}

/* Everything else of the context waits meanwhile. */
LEASE_TEST(the_time_to_report_many_lost_leases_grows_with_their_number_only) {
    struct fixture *fixture = *state;
    enum { SOME = 2000, MANY = 16 * SOME };
    uint64_t some_us = lose_us(fixture, SOME);
    uint64_t many_us = lose_us(fixture, MANY);
    if (many_us > 64 * some_us)
        fail_msg("%u leases: %llu us; %u leases: %llu us", SOME, (unsigned long long)some_us, MANY,
                 (unsigned long long)many_us);
}

LEASE_TEST(a_bad_target_is_refused_and_nothing_is_written) {
    struct fixture *fixture = *state;
    char longest[300];
    memset(longest, 'a', 256);
    longest[256] = '\0';
    const char *const bad[] = {NULL,   "", "..", "a/../b", "%2e%2e", "a\nb", "\xff", "a'; DROP TABLE leases; --",
                               longest};
    uint64_t before;
    uint64_t after;
    assert_int_equal(tenure_watch_start(fixture->a, &before), TENURE_OK);
    for (size_t i = 0; i < TEN_COUNT(bad); i++) {
        tenure_lease *lease = NULL;
        tenure_info info = {.size = sizeof info};
        bool released;
        assert_int_equal(tenure_acquire(fixture->a, bad[i], 0, TENURE_MANUAL, &lease), TENURE_E_INVALID);
        assert_int_equal(tenure_acquire(fixture->a, bad[i], UINT64_MAX, 0, &lease), TENURE_E_INVALID);
        assert_null(lease);
        assert_int_equal(tenure_target_read(fixture->a, bad[i], &info), TENURE_E_INVALID);
        assert_int_equal(tenure_token_renew(fixture->a, bad[i], 1, 0), TENURE_E_INVALID);
        assert_int_equal(tenure_token_release(fixture->a, bad[i], 1, &released), TENURE_E_INVALID);
        assert_int_equal(tenure_force_release(fixture->a, bad[i], NULL, TENURE_NOW, &released), TENURE_E_INVALID);
        assert_lacks(tenure_message(fixture->a), "\n");
    }
    size_t count = 0;
    assert_int_equal(tenure_target_list(fixture->a, TENURE_ALL, count_info, &count), TENURE_OK);
    assert_int_equal(count, 0);
    assert_int_equal(tenure_watch_start(fixture->a, &after), TENURE_OK);
    assert_int_equal(before, after);
}

/* ---- when another thread has the context */

static void *hang_in_a_call(void *arg) {
    tenure_lease *lease = NULL;
    (void)tenure_acquire(arg, "slow", 0, TENURE_MANUAL, &lease);
    tenure_lease_free(lease);
    return NULL;
}

static pthread_t occupy(tenure_context *context) {
    pthread_t thread;
    atomic_store(&is_hanging, false);
    atomic_store(&hangs, true);
    assert_int_equal(pthread_create(&thread, NULL, hang_in_a_call, context), 0);
    while (!atomic_load(&is_hanging))
        ten_sleep_us(500);
    return thread;
}

static void end_occupation(pthread_t thread) {
    atomic_store(&hangs, false);
    pthread_join(thread, NULL);
}

/* On the system's clock: how long a call waits for others is the subject. */
static tenure_context *open_impatient(const char *url) {
    tenure_options options = {.size = sizeof options, .flags = TENURE_DRIVEN, .timeout_ms = 50};
    tenure_context *context = NULL;
    assert_int_equal(tenure_open(url, &options, &context), TENURE_OK);
    return context;
}

LEASE_TEST(a_renewal_that_finds_the_context_busy_pauses_the_work) {
    tenure_context *context = open_impatient("memory:unit-busy-renew");
    tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
    pthread_t busy = occupy(context);
    int r = tenure_renew(lease);
    end_occupation(busy);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_false(tenure_lease_valid(lease));
    assert_true(tenure_lease_remaining_ms(lease) > 0); /* until then what is under way may go on */
    assert_int_equal(tenure_renew(lease), TENURE_OK);
    assert_true(tenure_lease_valid(lease));
    tenure_lease_free(lease);
    tenure_close(context);
}

/* "Invalid from the moment of the call, whatever the store answers": no renewal, not even one of another thread that
 * was under way, makes it valid again. */
LEASE_TEST(a_release_that_finds_the_context_busy_is_final_all_the_same) {
    tenure_context *context = open_impatient("memory:unit-busy-release");
    tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
    pthread_t busy = occupy(context);
    int r = tenure_release(lease);
    end_occupation(busy);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), 0);
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), 0);
    assert_int_equal(tenure_release(lease), TENURE_OK); /* the second try tells the store, if nobody did */
    tenure_context *other = open_impatient("memory:unit-busy-release");
    tenure_lease_free(acquire(other, "x", TENURE_MANUAL));
    tenure_close(other);
    tenure_lease_free(lease);
    tenure_close(context);
}

/* "After an error the context repeats the release until the lease has ended." */
LEASE_TEST(a_release_that_failed_is_repeated_by_the_context) {
    tenure_context *context = open_impatient("memory:unit-busy-repeat");
    tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
    pthread_t busy = occupy(context);
    int r = tenure_release(lease);
    end_occupation(busy);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    tenure_context *other = open_impatient("memory:unit-busy-repeat");
    tenure_lease *next = NULL;
    for (uint64_t start_us = ten_boot_us(); !next && elapsed_ms(start_us) < TTL / 2; ten_sleep_us(1000)) {
        assert_int_equal(tenure_process(context), TENURE_OK);
        (void)tenure_acquire(other, "x", 0, TENURE_MANUAL, &next);
    }
    assert_non_null(next); /* long before the TTL ended */
    tenure_lease_free(next);
    tenure_lease_free(lease);
    tenure_close(context);
    tenure_close(other);
}

/* ---- a store that is out of reach */

#ifdef TEN_STORE_SQLITE
LEASE_TEST(a_failed_renewal_makes_the_lease_uncertain_and_a_good_one_valid_again) {
    struct fixture *fixture = *state;
    char directory[256];
    char away[300];
    char url[300];
    directory_make(directory);
    snprintf(away, sizeof away, "%s-away", directory);
    snprintf(url, sizeof url, "sqlite:%s/tenure.db", directory);
    tenure_context *context = open_named(fixture, url, "s");
    tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
    fixture->fake.boot_ms += 1000;
    assert_int_equal(rename(directory, away), 0);
    int failed = tenure_renew(lease);
    assert_true(failed < 0);
    assert_int_not_equal(failed, TENURE_E_LOST);
    assert_true(tenure_error_retryable(failed));
    assert_true(tenure_message(context)[0] != '\0');
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN - 1000); /* the old deadline */
    assert_int_equal(rename(away, directory), 0);
    assert_int_equal(tenure_renew(lease), TENURE_OK);
    assert_true(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN);
    assert_int_equal(tenure_lease_token(lease), 1);
    tenure_lease_free(lease);
    tenure_close(context);
    directory_remove(directory);
}

#endif
