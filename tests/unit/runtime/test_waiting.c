/*
 * Who wakes whom, and how long calls wait: several threads that poll, process and wait on one context, in the threaded
 * and in the driven form, on a store that fails, hangs, recovers or cannot be watched. The store is the one in memory,
 * with functions of the test before it. Time is real; what is compared is what happened, and how often the store was
 * asked, not how long it took.
 */
#include "unit/runtime/handles.h"

#include <poll.h>
#include <pthread.h>

#include "base/io.h"
#include "runtime/context_state.h"
#include "store/backends.h"

enum { FOREVER_MS = 3600000, TIMEOUT_MS = 600, ELECTIONS = 20 };

/* ---- the store: the linker puts ten_store_open() of the test between the runtime and the store (--wrap) */

static struct {
    const ten_store_ops *real;
    ten_store_ops ops;
    atomic_bool fails;       /* no call reaches it */
    atomic_bool hangs;       /* calls end at their time-out */
    atomic_bool recovers;    /* it lets nobody in */
    atomic_bool unwatchable; /* there are no notices */
    atomic_bool blocks;      /* a ping does not end */
    atomic_bool blocked;     /* ... and is there */
    atomic_uint calls;       /* of any kind but watch */
} fake;

static int fail_call(ten_store *store, uint64_t timeout_ms) {
    atomic_fetch_add(&fake.calls, 1);
    if (atomic_load(&fake.fails))
        return ten_fail(&store->error, TENURE_E_UNREACHABLE, "it fails on purpose");
    if (!atomic_load(&fake.hangs))
        return TENURE_OK;
    ten_sleep_us(timeout_ms * 1000);
    return ten_fail(&store->error, TENURE_E_TIMEOUT, "it hangs on purpose");
}

static int fake_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms) {
    int r = fail_call(store, timeout_ms);
    if (r == TENURE_OK)
        r = fake.real->apply(store, ops, results, count, timeout_ms);
    for (size_t i = 0; r == TENURE_OK && atomic_load(&fake.recovers) && i < count; i++)
        if (ops[i].kind == TEN_OP_ACQUIRE)
            results[i] = (ten_result){.outcome = TEN_HELD, .recovering = true, .remaining_ms = FOREVER_MS};
    return r;
}

static int fake_changes(ten_store *store, const char *namespace_name, uint64_t *cursor, size_t limit,
                        ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    int r = fail_call(store, timeout_ms);
    return r < 0 ? r : fake.real->changes(store, namespace_name, cursor, limit, each, userdata, timeout_ms);
}

static int fake_list(ten_store *store, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    int r = fail_call(store, timeout_ms);
    return r < 0 ? r : fake.real->list(store, query, each, userdata, timeout_ms);
}

static int fake_instances(ten_store *store, const char *namespace_name, ten_instance_fn each, void *userdata,
                          uint64_t timeout_ms) {
    int r = fail_call(store, timeout_ms);
    return r < 0 ? r : fake.real->list_instances(store, namespace_name, each, userdata, timeout_ms);
}

static int fake_watch(ten_store *store, const char *namespace_name, int *ret_fd) {
    if (atomic_load(&fake.unwatchable))
        return ten_fail(&store->error, TENURE_E_UNSUPPORTED, "it cannot be watched, on purpose");
    return fake.real->watch(store, namespace_name, ret_fd);
}

static int fake_ping(ten_store *store, uint64_t timeout_ms) {
    atomic_store(&fake.blocked, true);
    while (atomic_load(&fake.blocks))
        ten_sleep_us(1000);
    return fake.real->ping(store, timeout_ms);
}

int __real_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);
int __wrap_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error);

int __wrap_ten_store_open(const char *url, const ten_store_config *config, ten_store **ret_store, ten_error *error) {
    int r = __real_ten_store_open(url, config, ret_store, error);
    if (r == TENURE_OK)
        (*ret_store)->ops = &fake.ops;
    return r;
}

static int prepare_store(void **state) {
    (void)state;
    assert_int_equal(ten_backend_find("memory", &fake.real, NULL), TENURE_OK);
    fake.ops = *fake.real;
    fake.ops.apply = fake_apply;
    fake.ops.changes = fake_changes;
    fake.ops.list = fake_list;
    fake.ops.list_instances = fake_instances;
    fake.ops.watch = fake_watch;
    fake.ops.ping = fake_ping;
    return 0;
}

/* ---- contexts and threads */

static int set_up(void **state) {
    (void)state;
    atomic_store(&fake.fails, false);
    atomic_store(&fake.hangs, false);
    atomic_store(&fake.recovers, false);
    atomic_store(&fake.unwatchable, false);
    atomic_store(&fake.blocks, false);
    atomic_store(&fake.blocked, false);
    return 0;
}

#define WAITING_TEST(name) TEST_WITH(name, set_up, NULL)

/* Renewals are frequent and the TTL is long, so that a busy machine loses nothing. */
static tenure_context *open_listening(const char *url, unsigned flags, tenure_event_fn on_event) {
    tenure_context *context = NULL;
    tenure_options options = {.size = sizeof options,
                              .flags = flags,
                              .ttl_ms = 30000,
                              .renew_ms = 100,
                              .timeout_ms = TIMEOUT_MS,
                              .on_event = on_event};
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

static tenure_context *open_frequent(const char *url, unsigned flags) {
    return open_listening(url, flags, NULL);
}

/* A thread in a call that waits. */
struct waiting {
    pthread_t thread;
    tenure_context *context;
    uint64_t wait_ms;
    uint64_t cursor;
    tenure_event event;
    tenure_lease *lease;
    int r;
    char message[256];
};

static void start(struct waiting *waiting, tenure_context *context, void *(*body)(void *)) {
    *waiting = (struct waiting){
        .context = context, .wait_ms = FOREVER_MS, .cursor = waiting->cursor, .event = {.size = sizeof(tenure_event)}};
    assert_int_equal(pthread_create(&waiting->thread, NULL, body, waiting), 0);
}

/* One that does not end soon hangs: the process cannot go on. */
static void must_end(struct waiting *waiting, const char *what) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(HANG_MS / 1000);
    if (pthread_timedjoin_np(waiting->thread, NULL, &end) == 0)
        return;
    printf("Bail out! %s hangs\n", what);
    fflush(NULL);
    _exit(1);
}

#define UNTIL(condition)                                                                                               \
    do {                                                                                                               \
        uint64_t until_start_us = ten_boot_us();                                                                       \
        while (!(condition) && elapsed_ms(until_start_us) < HANG_MS)                                                   \
            ten_sleep_us(1000);                                                                                        \
        assert_true(condition);                                                                                        \
    } while (0)

static void *wait_for_event(void *arg) {
    struct waiting *waiting = arg;
    waiting->r = tenure_next_event(waiting->context, UINT64_MAX, &waiting->event);
    return NULL;
}

static void *wait_for_lease(void *arg) {
    struct waiting *waiting = arg;
    waiting->r = tenure_acquire(waiting->context, "x", waiting->wait_ms, 0, &waiting->lease);
    snprintf(waiting->message, sizeof waiting->message, "%s", tenure_message(NULL));
    return NULL;
}

static const char *const two[] = {"x", "y"};

static void *wait_for_any(void *arg) {
    struct waiting *waiting = arg;
    waiting->r = tenure_acquire_any(waiting->context, two, 2, waiting->wait_ms, 0, &waiting->lease);
    snprintf(waiting->message, sizeof waiting->message, "%s", tenure_message(NULL));
    return NULL;
}

static void *wait_for_change(void *arg) {
    struct waiting *waiting = arg;
    waiting->r = tenure_watch_wait(waiting->context, &waiting->cursor, waiting->wait_ms, NULL, NULL);
    return NULL;
}

static void *ping(void *arg) {
    struct waiting *waiting = arg;
    uint64_t took_us;
    waiting->r = tenure_store_ping(waiting->context, &took_us);
    return NULL;
}

/* ---- who is woken */

/* Whoever polls has a time-out of its own; what another call makes due earlier makes the descriptor readable. */
WAITING_TEST(a_loop_that_sleeps_is_woken_when_the_lease_of_another_thread_is_to_be_renewed) {
    tenure_context *context = open_frequent("memory:unit-waiting-loop", TENURE_DRIVEN);
    struct pollfd poll_fd = {.fd = tenure_fd(context), .events = POLLIN};
    while (tenure_timeout_ms(context) != -1)
        assert_int_equal(tenure_process(context), TENURE_OK);
    tenure_lease *lease = acquire(context, "x", 0); /* as another thread would, while this one sleeps */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll(&poll_fd, 1, HANG_MS), 1);
        assert_int_equal(tenure_process(context), TENURE_OK);
    }
    tenure_lease_free(lease);
    assert_int_equal(tenure_close(context), TENURE_OK);
}

WAITING_TEST(a_program_that_processes_takes_no_wake_up_from_the_thread) {
    tenure_context *context = open_frequent("memory:unit-waiting-process", 0);
    tenure_event event = {.size = sizeof event};
    assert_int_equal(tenure_next_event(context, 20, &event), TENURE_E_TIMEOUT); /* the thread runs */
    for (int i = 0; i < 10; i++) {
        ten_sleep_us(2000);
        assert_int_equal(tenure_process(context), TENURE_OK);
    }
    tenure_lease *lease = acquire(context, "x", 0);
    uint64_t granted_ms = tenure_lease_remaining_ms(lease);
    UNTIL(tenure_lease_remaining_ms(lease) < granted_ms);
    uint64_t least_ms = tenure_lease_remaining_ms(lease);
    for (int i = 0; i < 3; i++, least_ms = tenure_lease_remaining_ms(lease)) { /* renewals */
        UNTIL(tenure_lease_remaining_ms(lease) > least_ms || (least_ms = tenure_lease_remaining_ms(lease), false));
    }
    tenure_lease_free(lease);
    assert_int_equal(tenure_close(context), TENURE_OK);
}

static bool is_polled(tenure_context *context) {
    ten_carrier_lock(&context->carrier);
    bool polled = context->carrier.polled;
    pthread_mutex_unlock(&context->carrier.lock);
    return polled;
}

WAITING_TEST(a_waiter_that_polls_is_woken_by_what_another_thread_did) {
    tenure_context *context = open_frequent("memory:unit-waiting-other", TENURE_DRIVEN);
    for (int i = 0; i < 20; i++) {
        struct waiting waiting = {0};
        start(&waiting, context, wait_for_event);
        UNTIL(is_polled(context));
        tenure_lease *lease = acquire(context, "x", TENURE_MANUAL);
        for (int k = 0; k < i % 3; k++) /* it takes no wake-up from the waiter */
            assert_int_equal(tenure_process(context), TENURE_OK);
        must_end(&waiting, "a waiter for an event");
        assert_int_equal(waiting.r, TENURE_OK);
        assert_int_equal(waiting.event.kind, TENURE_EVENT_ACQUIRED);
        assert_int_equal(tenure_release(lease), TENURE_OK);
        tenure_lease_free(lease);
        while (tenure_next_event(context, 0, &waiting.event) == TENURE_OK)
            continue;
    }
    assert_int_equal(tenure_close(context), TENURE_OK);
}

/* ---- cancelling */

static bool is_waiting_for_turn(tenure_context *context) {
    ten_carrier_lock(&context->carrier);
    bool waits = context->carrier.turns && context->carrier.turns->next;
    pthread_mutex_unlock(&context->carrier.lock);
    return waits;
}

WAITING_TEST(a_cancel_that_comes_while_others_have_the_turn_is_not_lost) {
    tenure_context *context = open_frequent("memory:unit-waiting-cancel", TENURE_DRIVEN);
    struct waiting slow = {0};
    struct waiting waiting = {0};
    atomic_store(&fake.blocks, true);
    start(&slow, context, ping);
    UNTIL(atomic_load(&fake.blocked));
    start(&waiting, context, wait_for_event);
    UNTIL(is_waiting_for_turn(context));
    tenure_cancel(context);
    atomic_store(&fake.blocks, false);
    must_end(&slow, "a ping");
    must_end(&waiting, "a cancelled waiter");
    assert_int_equal(waiting.r, TENURE_E_CANCELLED);
    assert_int_equal(tenure_close(context), TENURE_OK);
}

WAITING_TEST(a_cancel_reaches_a_waiter_that_polls_although_others_process) {
    for (int i = 0; i < 20; i++) {
        tenure_context *context = open_frequent("memory:unit-waiting-cancel", TENURE_DRIVEN);
        struct waiting waiting[2] = {0};
        for (int k = 0; k < 2; k++)
            start(&waiting[k], context, wait_for_event);
        UNTIL(is_polled(context));
        tenure_cancel(context);
        assert_int_equal(tenure_process(context), TENURE_OK);
        for (int k = 0; k < 2; k++) {
            must_end(&waiting[k], "a cancelled waiter");
            assert_int_equal(waiting[k].r, TENURE_E_CANCELLED);
        }
        assert_int_equal(tenure_close(context), TENURE_OK);
    }
}

/* ---- a callback inside another */

static struct {
    tenure_context *outer;
    tenure_context *inner;
    atomic_uint inner_events;
    atomic_bool ended;
    int before;
    int after;
    int closed;
    int inside;
    int after_inner;
} nest;

static void on_inner(const tenure_event *event, void *userdata) {
    uint64_t took_us;
    (void)event;
    (void)userdata;
    atomic_fetch_add(&nest.inner_events, 1);
    nest.inside = tenure_store_ping(nest.outer, &took_us);
}

static void on_outer(const tenure_event *event, void *userdata) {
    uint64_t took_us;
    tenure_lease *lease = NULL;
    (void)userdata;
    if (event->kind != TENURE_EVENT_ACQUIRED)
        return;
    nest.before = tenure_store_ping(nest.outer, &took_us);
    if (tenure_acquire(nest.inner, "y", 0, TENURE_ASYNC, &lease) == TENURE_OK)
        for (int i = 0; i < 1000 && atomic_load(&nest.inner_events) == 0; i++)
            (void)tenure_process(nest.inner);
    nest.after_inner = tenure_store_ping(nest.inner, &took_us);
    nest.after = tenure_store_ping(nest.outer, &took_us);
    nest.closed = tenure_close(nest.outer);
    tenure_lease_free(lease);
    atomic_store(&nest.ended, true);
}

WAITING_TEST(a_callback_stays_one_after_the_callback_of_another_context_inside_it) {
    tenure_lease *lease = NULL;
    nest.outer = open_listening("memory:unit-waiting-outer", 0, on_outer);
    nest.inner = open_listening("memory:unit-waiting-inner", TENURE_DRIVEN, on_inner);
    assert_int_equal(tenure_acquire(nest.outer, "x", 0, TENURE_ASYNC, &lease), TENURE_OK);
    UNTIL(atomic_load(&nest.ended));
    assert_int_equal(atomic_load(&nest.inner_events), 1);
    assert_int_equal(nest.before, TENURE_E_CALLBACK);
    assert_int_equal(nest.inside, TENURE_E_CALLBACK);
    assert_int_equal(nest.after_inner, TENURE_OK);
    assert_int_equal(nest.after, TENURE_E_CALLBACK);
    assert_int_equal(nest.closed, TENURE_E_CALLBACK);
    tenure_lease_free(lease);
    assert_int_equal(tenure_close(nest.outer), TENURE_OK);
    assert_int_equal(tenure_close(nest.inner), TENURE_OK);
}

/* ---- a store that cannot be watched */

static void see_changes_of_what_cannot_be_watched(unsigned flags) {
    tenure_context *context = open_frequent("memory:unit-waiting-blind", flags);
    tenure_context *other = open_frequent("memory:unit-waiting-blind", 0);
    struct waiting waiting = {0};
    atomic_store(&fake.unwatchable, true);
    assert_int_equal(tenure_watch_start(context, &waiting.cursor), TENURE_OK);
    start(&waiting, context, wait_for_change);
    ten_sleep_us(20000);
    tenure_lease *lease = acquire(other, "x", 0);
    must_end(&waiting, "a waiter for a change");
    assert_int_equal(waiting.r, TENURE_OK);
    tenure_lease *second = acquire(other, "y", 0);
    start(&waiting, context, wait_for_any);
    ten_sleep_us(20000);
    assert_int_equal(tenure_release(second), TENURE_OK);
    must_end(&waiting, "a waiter for one of two targets");
    assert_int_equal(waiting.r, TENURE_OK);
    assert_string_equal(tenure_lease_target(waiting.lease), "y");
    tenure_lease_free(waiting.lease);
    tenure_lease_free(second);
    tenure_lease_free(lease);
    assert_int_equal(tenure_close(context), TENURE_OK);
    assert_int_equal(tenure_close(other), TENURE_OK);
}

WAITING_TEST(a_store_that_cannot_be_watched_is_read_again_and_again) {
    see_changes_of_what_cannot_be_watched(TENURE_DRIVEN);
    see_changes_of_what_cannot_be_watched(0);
}

/* ---- a store that hangs: each call takes the time-out, so few are made in the time that a call may wait */

static void open_elections(tenure_context *context, tenure_election **elections) {
    for (int i = 0; i < ELECTIONS; i++) {
        char role[32];
        snprintf(role, sizeof role, "role-%d", i);
        assert_int_equal(tenure_election_open(context, role, NULL, &elections[i]), TENURE_OK);
    }
    for (int i = 0; i < ELECTIONS; i++)
        assert_int_equal(tenure_election_wait(elections[i], HANG_MS), TENURE_OK);
}

static void close_while_the_store_hangs(unsigned flags) {
    tenure_context *context = open_frequent("memory:unit-waiting-close", flags);
    tenure_election *elections[ELECTIONS];
    open_elections(context, elections);
    atomic_store(&fake.hangs, true);
    if (flags & TENURE_DRIVEN)
        ten_sleep_us(150000); /* all renewals are due */
    atomic_store(&fake.calls, 0);
    assert_int_equal(tenure_close(context), TENURE_E_TIMEOUT);
    assert_in_range(atomic_load(&fake.calls), 1,
                    ELECTIONS - 1); /* few time-outs, and what ends with them; not one for each */
    atomic_store(&fake.hangs, false);
    for (int i = 0; i < ELECTIONS; i++)
        tenure_election_close(elections[i]);
}

WAITING_TEST(closing_does_not_wait_for_each_election_when_the_store_hangs) {
    close_while_the_store_hangs(0);
    close_while_the_store_hangs(TENURE_DRIVEN);
}

WAITING_TEST(a_call_of_the_driven_form_is_not_behind_those_of_all_others) {
    tenure_context *context = open_frequent("memory:unit-waiting-behind", TENURE_DRIVEN);
    tenure_election *elections[ELECTIONS];
    tenure_guard *guard = NULL;
    tenure_lease *lease = NULL;
    open_elections(context, elections);
    assert_int_equal(tenure_guard_open(context, NULL, &guard), TENURE_OK);
    while (tenure_guard_check(guard, "x", 1) == TENURE_E_UNREACHABLE) /* it follows the feed */
        continue;
    atomic_store(&fake.hangs, true);
    ten_sleep_us(150000); /* all renewals are due */
    atomic_store(&fake.calls, 0);
    assert_int_equal(tenure_guard_check(guard, "y", 1), TENURE_E_UNREACHABLE);
    assert_in_range(atomic_load(&fake.calls), 1, 2);
    atomic_store(&fake.calls, 0);
    assert_int_equal(tenure_acquire(context, "x", 0, 0, &lease), TENURE_E_TIMEOUT);
    assert_in_range(atomic_load(&fake.calls), 1, 2);
    atomic_store(&fake.calls, 0);
    tenure_event event = {.size = sizeof event};
    while (tenure_next_event(context, 0, &event) == TENURE_OK)
        continue;
    assert_in_range(atomic_load(&fake.calls), 0, 2);
    atomic_store(&fake.hangs, false);
    tenure_guard_close(guard);
    assert_int_equal(tenure_close(context), TENURE_OK);
    for (int i = 0; i < ELECTIONS; i++)
        tenure_election_close(elections[i]);
}

/* ---- a store that recovers */

WAITING_TEST(waiting_for_a_store_that_recovers_asks_it_rarely) {
    tenure_context *context = open_frequent("memory:unit-waiting-recovers", 0);
    tenure_lease *lease = NULL;
    atomic_store(&fake.recovers, true);
    atomic_store(&fake.calls, 0);
    assert_int_equal(tenure_acquire_any(context, two, 2, 300, 0, &lease), TENURE_E_HELD);
    assert_contains(tenure_message(context), "recovering");
    assert_in_range(atomic_load(&fake.calls), 2, 12); /* fewer on a busy machine */
    atomic_store(&fake.recovers, false);
    assert_int_equal(tenure_close(context), TENURE_OK);
}

/* ---- a store that fails for a while */

static void outlast_an_outage(unsigned flags, void *(*body)(void *)) {
    tenure_context *context = open_frequent("memory:unit-waiting-outage", flags);
    tenure_lease *lease = NULL;
    struct waiting waiting = {0};
    atomic_store(&fake.fails, true);
    assert_int_equal(tenure_acquire(context, "x", 0, 0, &lease), TENURE_E_UNREACHABLE);
    assert_int_equal(tenure_acquire_any(context, two, 2, 0, 0, &lease), TENURE_E_UNREACHABLE);
    atomic_store(&fake.calls, 0);
    start(&waiting, context, body);
    UNTIL(atomic_load(&fake.calls) >= 3); /* one that fails is not the end */
    atomic_store(&fake.fails, false);
    must_end(&waiting, "an acquire after an outage");
    assert_int_equal(waiting.r, TENURE_OK);
    assert_int_equal(tenure_release(waiting.lease), TENURE_OK);
    tenure_lease_free(waiting.lease);
    assert_int_equal(tenure_close(context), TENURE_OK);
}

WAITING_TEST(an_acquire_that_waits_outlasts_an_outage) {
    outlast_an_outage(0, wait_for_lease);
    outlast_an_outage(0, wait_for_any);
    outlast_an_outage(TENURE_DRIVEN, wait_for_lease);
    outlast_an_outage(TENURE_DRIVEN, wait_for_any);
}

WAITING_TEST(an_acquire_whose_time_ends_in_an_outage_says_what_is_wrong) {
    for (unsigned flags = 0; flags <= TENURE_DRIVEN; flags++) {
        tenure_context *context = open_frequent("memory:unit-waiting-late", flags);
        tenure_lease *lease = NULL;
        atomic_store(&fake.fails, true);
        uint64_t start_us = ten_boot_us();
        assert_int_equal(tenure_acquire(context, "x", 150, 0, &lease), TENURE_E_UNREACHABLE);
        assert_contains(tenure_message(context), "on purpose");
        assert_took(start_us, 150, HANG_MS);
        start_us = ten_boot_us();
        assert_int_equal(tenure_acquire_any(context, two, 2, 150, 0, &lease), TENURE_E_UNREACHABLE);
        assert_contains(tenure_message(context), "on purpose");
        assert_took(start_us, 150, HANG_MS);
        atomic_store(&fake.fails, false);
        assert_int_equal(tenure_close(context), TENURE_OK);
    }
}

WAITING_TEST(closing_what_never_held_anything_is_no_error) {
    tenure_context *context = open_frequent("memory:unit-waiting-nothing", 0);
    tenure_lease *lease = NULL;
    tenure_election *election = NULL;
    tenure_member *member = NULL;
    tenure_member_options options = {.size = sizeof options, .namespace_name = "fleet"};
    atomic_store(&fake.fails, true);
    assert_int_equal(tenure_acquire(context, "x", 0, 0, &lease), TENURE_E_UNREACHABLE);
    assert_int_equal(tenure_election_open(context, "role", NULL, &election), TENURE_OK);
    assert_int_equal(tenure_member_open(context, &options, &member), TENURE_OK);
    assert_int_equal(tenure_member_put(member, "y", 0), TENURE_OK);
    atomic_store(&fake.calls, 0);
    UNTIL(atomic_load(&fake.calls) > 6); /* each has asked in vain */
    assert_int_equal(tenure_close(context), TENURE_OK);
    tenure_election_close(election);
    tenure_member_close(member);
}

TEST_GROUP(prepare_store, NULL)
