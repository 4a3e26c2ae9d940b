/*
 * Waiting for a lease or for changes, cancelling, and many threads on one context. The clock stands still, so that a
 * waiter can only be woken by what happens, never by its own clock; the threads and signals are real.
 */
#include "unit/runtime/handles.h"

#include <pthread.h>

#include "base/io.h"
#include "runtime/context.h"

enum { FOREVER_MS = 3600000, SOON_MS = HANG_MS };

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    tenure_context *holder;
    tenure_context *waiter;
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tenure_options options = {.size = sizeof options, .timeout_ms = 30000};
    fixture->clock = fake_clock_make(&fixture->fake);
    assert_int_equal(ten_context_open("memory:unit-wait", &options, &fixture->clock, &fixture->holder), TENURE_OK);
    assert_int_equal(ten_context_open("memory:unit-wait", &options, &fixture->clock, &fixture->waiter), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_close(fixture->holder);
    tenure_close(fixture->waiter);
    free(fixture);
    return 0;
}

#define WAITING_TEST(name) TEST_WITH(name, set_up, tear_down)

/* ---- a waiting thread */

struct waiting {
    pthread_t thread;
    tenure_context *context;
    char target[32];
    int result;
    uint64_t token;
    char message[512];
};

/* On a cancelled context nobody waits: whoever asks again and again meets the context's thread when that writes the
 * outcome. For ThreadSanitizer. */
WAITING_TEST(the_outcome_of_an_acquire_can_be_asked_for_at_any_moment) {
    struct fixture *fixture = *state;
    tenure_lease *held = acquire(fixture->holder, "x", TENURE_MANUAL);
    tenure_cancel(fixture->waiter);
    for (int i = 0; i < 50; i++) {
        tenure_lease *lease = NULL;
        int r = TENURE_E_CANCELLED;
        assert_int_equal(tenure_acquire(fixture->waiter, "x", 0, TENURE_ASYNC | TENURE_MANUAL, &lease), TENURE_OK);
        while (r == TENURE_E_CANCELLED)
            r = tenure_lease_wait(lease, FOREVER_MS);
        assert_int_equal(r, TENURE_E_HELD);
        assert_contains(tenure_message(fixture->waiter), tenure_instance_id(fixture->holder));
        tenure_lease_free(lease);
    }
    tenure_lease_free(held);
}

static void *wait_for_lease(void *arg) {
    struct waiting *waiting = arg;
    tenure_lease *lease = NULL;
    waiting->result = tenure_acquire(waiting->context, waiting->target, FOREVER_MS, TENURE_MANUAL, &lease);
    if (waiting->result == TENURE_OK)
        waiting->token = tenure_lease_token(lease);
    else
        snprintf(waiting->message, sizeof waiting->message, "%s", tenure_message(waiting->context));
    tenure_lease_free(lease);
    return NULL;
}

static void start_waiting(struct waiting *waiting, tenure_context *context, const char *target) {
    *waiting = (struct waiting){.context = context, .result = 1};
    snprintf(waiting->target, sizeof waiting->target, "%s", target);
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_for_lease, waiting), 0);
}

/* Whether the thread ended soon; one that did not is cancelled, so that the test can fail instead of hanging. */
static bool ended_soon(struct waiting *waiting) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += SOON_MS / 1000;
    if (pthread_timedjoin_np(waiting->thread, NULL, &end) == 0)
        return true;
    tenure_cancel(waiting->context);
    pthread_join(waiting->thread, NULL);
    return false;
}

/* On the system's clock, with a TTL that a busy machine does not use up before the first wait is over. */
WAITING_TEST(a_wait_ends_when_its_time_has_passed_and_the_lease_when_its_own_has) {
    tenure_options options = {.size = sizeof options, .ttl_ms = 2000};
    tenure_context *holder = NULL;
    tenure_context *waiter = NULL;
    assert_int_equal(tenure_open("memory:unit-real", &options, &holder), TENURE_OK);
    assert_int_equal(tenure_open("memory:unit-real", &options, &waiter), TENURE_OK);
    uint64_t held_us = ten_boot_us();
    tenure_lease *held = acquire(holder, "x", TENURE_MANUAL);
    tenure_lease *lease = NULL;
    uint64_t start_us = ten_boot_us();
    assert_int_equal(tenure_acquire(waiter, "x", 50, TENURE_MANUAL, &lease), TENURE_E_HELD);
    assert_took(start_us, 50, HANG_MS);
    assert_contains(tenure_message(waiter), tenure_instance_id(holder));
    assert_int_equal(tenure_acquire(waiter, "x", UINT64_MAX, TENURE_MANUAL, &lease), TENURE_OK);
    assert_took(held_us, 2000, HANG_MS);
    assert_false(tenure_lease_valid(held));
    assert_int_equal(tenure_lease_token(lease), 2);
    tenure_lease_free(held);
    tenure_lease_free(lease);
    tenure_close(holder);
    tenure_close(waiter);
}

WAITING_TEST(signals_do_not_end_a_wait) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->holder, "x", TENURE_MANUAL);
    struct waiting waiting;
    storm_start();
    start_waiting(&waiting, fixture->waiter, "x");
    ten_sleep_us(30000);
    assert_int_equal(tenure_release(lease), TENURE_OK);
    assert_true(ended_soon(&waiting));
    storm_stop();
    assert_int_equal(waiting.result, TENURE_OK);
    tenure_lease_free(lease);
}

/* ---- cancelling */

WAITING_TEST(cancelling_ends_waits_now_and_from_now_on) {
    struct fixture *fixture = *state;
    tenure_lease *held = acquire(fixture->holder, "x", TENURE_MANUAL);
    struct waiting waiting;
    start_waiting(&waiting, fixture->waiter, "x");
    ten_sleep_us(5000);
    tenure_cancel(fixture->waiter);
    assert_true(ended_soon(&waiting));
    assert_int_equal(waiting.result, TENURE_E_CANCELLED);
    assert_contains(waiting.message, "cancelled");
    tenure_lease *lease = NULL;
    assert_int_equal(tenure_acquire(fixture->waiter, "x", FOREVER_MS, TENURE_MANUAL, &lease), TENURE_E_CANCELLED);
    uint64_t cursor;
    assert_int_equal(tenure_watch_start(fixture->waiter, &cursor), TENURE_OK);
    assert_int_equal(tenure_watch_wait(fixture->waiter, &cursor, FOREVER_MS, NULL, NULL), TENURE_E_CANCELLED);
    assert_int_equal(tenure_renew(held), TENURE_OK);      /* another context is not concerned */
    lease = acquire(fixture->waiter, "y", TENURE_MANUAL); /* nor is what does not wait */
    tenure_lease_free(lease);
    tenure_lease_free(held);
}

static tenure_context *context_to_cancel;

static void cancel_from_handler(int signal_number) {
    (void)signal_number;
    tenure_cancel(context_to_cancel);
}

WAITING_TEST(cancelling_works_in_a_signal_handler) {
    struct fixture *fixture = *state;
    tenure_lease *held = acquire(fixture->holder, "x", TENURE_MANUAL);
    tenure_lease *lease = NULL;
    context_to_cancel = fixture->waiter;
    struct sigaction action = {.sa_handler = cancel_from_handler};
    struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    assert_int_equal(tenure_acquire(fixture->waiter, "x", FOREVER_MS, TENURE_MANUAL, &lease), TENURE_E_CANCELLED);
    signal(SIGALRM, SIG_IGN);
    assert_null(lease);
    tenure_lease_free(held);
}

/* ---- changes */

struct watching {
    pthread_t thread;
    tenure_context *context;
    uint64_t cursor;
    int result;
    size_t count;
};

static int count_change(const tenure_change *change, void *userdata) {
    (void)change;
    ++*(size_t *)userdata;
    return 0;
}

static void *watch(void *arg) {
    struct watching *watching = arg;
    while (watching->count == 0) {
        watching->result =
            tenure_watch_wait(watching->context, &watching->cursor, FOREVER_MS, count_change, &watching->count);
        if (watching->result < 0)
            break;
    }
    return NULL;
}

/* ---- many threads on one context */

/* The store has one descriptor for a context: whoever clears it must not sleep the others' news away. */
WAITING_TEST(waiters_on_one_context_are_all_woken) {
    struct fixture *fixture = *state;
    enum { WAITERS = 6, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        tenure_lease *leases[WAITERS];
        struct waiting waiting[WAITERS];
        char target[32];
        for (int i = 0; i < WAITERS; i++) {
            snprintf(target, sizeof target, "t-%d", i);
            leases[i] = acquire(fixture->holder, target, TENURE_MANUAL);
            start_waiting(&waiting[i], fixture->waiter, target);
        }
        ten_sleep_us(2000);
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(tenure_release(leases[i]), TENURE_OK);
        bool all = true;
        for (int i = 0; i < WAITERS; i++) {
            all &= ended_soon(&waiting[i]) && waiting[i].result == TENURE_OK;
            tenure_lease_free(leases[i]);
        }
        if (!all)
            fail_msg("round %d: a waiter slept through its news", round);
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(tenure_token_release(fixture->waiter, waiting[i].target, waiting[i].token, NULL),
                             TENURE_OK);
    }
}

WAITING_TEST(a_watcher_does_not_take_a_waiters_change) {
    struct fixture *fixture = *state;
    for (int round = 0; round < 40; round++) {
        tenure_lease *lease = acquire(fixture->holder, "x", TENURE_MANUAL);
        struct waiting waiting;
        struct watching watching = {.context = fixture->waiter};
        assert_int_equal(tenure_watch_start(fixture->waiter, &watching.cursor), TENURE_OK);
        assert_int_equal(pthread_create(&watching.thread, NULL, watch, &watching), 0);
        start_waiting(&waiting, fixture->waiter, "x");
        ten_sleep_us(2000);
        assert_int_equal(tenure_release(lease), TENURE_OK);
        bool woken = ended_soon(&waiting);
        pthread_join(watching.thread, NULL);
        assert_true(woken);
        assert_int_equal(waiting.result, TENURE_OK);
        assert_true(watching.count > 0);
        assert_int_equal(tenure_token_release(fixture->waiter, "x", waiting.token, NULL), TENURE_OK);
        tenure_lease_free(lease);
    }
}

/* ---- any of several */

static const char *const three[] = {"x", "y", "z"};

WAITING_TEST(the_first_of_several_targets_is_acquired_in_their_order) {
    struct fixture *fixture = *state;
    for (size_t held = 0; held < 3; held++) {
        tenure_lease *lease = NULL;
        assert_int_equal(tenure_acquire_any(fixture->waiter, three, 3, 0, TENURE_MANUAL, &lease), TENURE_OK);
        assert_string_equal(tenure_lease_target(lease), three[held]);
        assert_true(tenure_lease_valid(lease));
        assert_int_equal(tenure_release(lease), TENURE_OK);
        tenure_lease_free(lease);
        tenure_lease_free(acquire(fixture->holder, three[held], TENURE_MANUAL));
    }
    tenure_lease *none = NULL;
    assert_int_equal(tenure_acquire_any(fixture->waiter, three, 3, 0, TENURE_MANUAL, &none), TENURE_E_HELD);
    assert_null(none);
    assert_int_equal(tenure_acquire_any(fixture->waiter, three, 0, 0, TENURE_MANUAL, &none), TENURE_E_INVALID);
    assert_int_equal(tenure_acquire_any(fixture->waiter, three, 3, 0, TENURE_ASYNC, &none), TENURE_E_INVALID);
    assert_contains(tenure_message(fixture->waiter), "TENURE_ASYNC");
    assert_null(none);
}

static void *wait_for_any(void *arg) {
    struct waiting *waiting = arg;
    tenure_lease *lease = NULL;
    waiting->result = tenure_acquire_any(waiting->context, three, 3, FOREVER_MS, TENURE_MANUAL, &lease);
    if (waiting->result == TENURE_OK) {
        waiting->token = tenure_lease_token(lease);
        snprintf(waiting->target, sizeof waiting->target, "%s", tenure_lease_target(lease));
    }
    tenure_lease_free(lease);
    return NULL;
}

WAITING_TEST(a_waiter_for_any_of_several_targets_is_woken_by_the_release_of_one) {
    struct fixture *fixture = *state;
    tenure_lease *leases[3];
    for (size_t i = 0; i < 3; i++)
        leases[i] = acquire(fixture->holder, three[i], TENURE_MANUAL);
    struct waiting waiting = {.context = fixture->waiter, .result = 1};
    assert_int_equal(pthread_create(&waiting.thread, NULL, wait_for_any, &waiting), 0);
    ten_sleep_us(3000);
    assert_int_equal(tenure_release(leases[2]), TENURE_OK);
    assert_true(ended_soon(&waiting));
    assert_int_equal(waiting.result, TENURE_OK);
    assert_string_equal(waiting.target, "z");
    assert_int_equal(waiting.token, 2);
    for (size_t i = 0; i < 3; i++)
        tenure_lease_free(leases[i]);
}

struct worker {
    pthread_t thread;
    tenure_context *context;
    int number;
    int failed;
};

static int count_info(const tenure_info *info, void *userdata) {
    (void)info;
    ++*(size_t *)userdata;
    return 0;
}

static void *work(void *arg) {
    struct worker *worker = arg;
    char target[32];
    snprintf(target, sizeof target, "own-%d", worker->number);
    for (int i = 0; i < 100 && worker->failed == 0; i++) {
        tenure_lease *lease = NULL;
        tenure_info info = {.size = sizeof info};
        size_t count = 0;
        int r = tenure_acquire(worker->context, target, 0, TENURE_MANUAL, &lease);
        if (r < 0) {
            worker->failed = r;
            break;
        }
        bool good = tenure_lease_token(lease) == (uint64_t)i + 1 && tenure_lease_valid(lease) &&
                    tenure_renew(lease) == TENURE_OK && tenure_lease_valid(lease) &&
                    tenure_target_read(worker->context, target, &info) == TENURE_OK &&
                    strcmp(info.holder, tenure_instance_id(worker->context)) == 0 &&
                    tenure_target_list(worker->context, TENURE_LEASED, count_info, &count) == TENURE_OK && count > 0 &&
                    tenure_release(lease) == TENURE_OK && !tenure_lease_valid(lease);
        worker->failed = good ? 0 : 1;
        tenure_lease_free(lease);
    }
    return NULL;
}

WAITING_TEST(many_threads_share_one_context) {
    struct fixture *fixture = *state;
    struct worker workers[6] = {0};
    for (int i = 0; i < 6; i++) {
        workers[i].context = fixture->holder;
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 6; i++)
        assert_int_equal(workers[i].failed, 0);
}

/* One thread renews while others check and one releases: after the release nobody sees it valid again. */
struct checker {
    pthread_t thread;
    tenure_lease *lease;
    atomic_bool *released;
    bool revived;
};

static void *renew_on_and_on(void *arg) {
    struct checker *checker = arg;
    while (tenure_renew(checker->lease) == TENURE_OK)
        ;
    return NULL;
}

static void *check_on_and_on(void *arg) {
    struct checker *checker = arg;
    for (int after = 0; after < 2000;) {
        bool released = atomic_load(checker->released);
        bool valid = tenure_lease_valid(checker->lease) || tenure_lease_remaining_ms(checker->lease) > 0;
        checker->revived |= released && valid;
        after += released;
    }
    return NULL;
}

WAITING_TEST(a_released_lease_stays_invalid_whatever_other_threads_do) {
    struct fixture *fixture = *state;
    for (int round = 0; round < 50; round++) {
        atomic_bool released = false;
        tenure_lease *lease = acquire(fixture->holder, "x", TENURE_MANUAL);
        struct checker renewer = {.lease = lease};
        struct checker checker = {.lease = lease, .released = &released};
        assert_int_equal(pthread_create(&renewer.thread, NULL, renew_on_and_on, &renewer), 0);
        assert_int_equal(pthread_create(&checker.thread, NULL, check_on_and_on, &checker), 0);
        ten_sleep_us(500);
        assert_int_equal(tenure_release(lease), TENURE_OK);
        atomic_store(&released, true);
        pthread_join(renewer.thread, NULL);
        pthread_join(checker.thread, NULL);
        assert_false(checker.revived);
        tenure_lease_free(lease);
    }
}
