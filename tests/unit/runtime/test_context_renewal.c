/*
 * What a context does for its leases by itself: it renews them in batches, says when one is lost, once, and releases
 * them when it is closed. Where the thread is the subject, renewals are frequent and the TTL is long, so that a busy
 * machine loses nothing; the rest is driven, on a clock that stands still.
 */
#include "unit/runtime/handles.h"

#include <pthread.h>

#include "base/io.h"
#include "runtime/context.h"
#include "store/store.h"

enum { TTL = 30000, MARGIN = 3750, MANY = 150 };

/* ---- what the store is asked: the linker puts this one between the runtime and the store (--wrap) */

static struct {
    atomic_uint automatic; /* renewals of the target of this name, and so on */
    atomic_uint manual;
    atomic_uint freed;
    atomic_uint many;    /* of targets many-N */
    atomic_uint batches; /* calls with renewals in them */
    atomic_uint releases;
    atomic_bool fails; /* renewals get no answer */
} asked;

static void count_renewal(const char *target) {
    atomic_fetch_add(&asked.automatic, strcmp(target, "automatic") == 0);
    atomic_fetch_add(&asked.manual, strcmp(target, "manual") == 0);
    atomic_fetch_add(&asked.freed, strcmp(target, "freed") == 0);
    atomic_fetch_add(&asked.many, strncmp(target, "many-", 5) == 0);
}

int __real_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);
int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count, uint64_t timeout_ms);

int __wrap_ten_store_apply(ten_store *store, const ten_op *ops, ten_result *results, size_t count,
                           uint64_t timeout_ms) {
    bool renews = false;
    for (size_t i = 0; i < count; i++) {
        renews |= ops[i].kind == TEN_OP_RENEW;
        if (ops[i].kind == TEN_OP_RENEW)
            count_renewal(ops[i].target);
        atomic_fetch_add(&asked.releases, ops[i].kind == TEN_OP_RELEASE);
    }
    atomic_fetch_add(&asked.batches, renews);
    if (!renews || !atomic_load(&asked.fails))
        return __real_ten_store_apply(store, ops, results, count, timeout_ms);
    for (size_t i = 0; i < count; i++)
        results[i] = (ten_result){.outcome = TEN_ERROR, .error = TENURE_E_UNREACHABLE};
    return ten_fail(&store->error, TENURE_E_UNREACHABLE, "it fails on purpose");
}

/* ---- contexts */

struct fixture {
    struct fake_clock fake;
    ten_clock clock;
    tenure_context *context; /* driven */
    tenure_context *other;   /* driven, by nobody */
};

/* What the context has told. */
struct diary {
    atomic_uint acquired;
    atomic_uint renewed;
    atomic_uint renew_failed;
    atomic_uint lost;
    atomic_uint released;
    atomic_uint on_lost;
    atomic_bool in_caller; /* on_lost was called by the thread that set it */
    pthread_t caller;
    char reason[16];
};

static struct diary diary;

static void note_event(const tenure_event *event, void *userdata) {
    struct diary *own = userdata;
    atomic_fetch_add(&own->acquired, event->kind == TENURE_EVENT_ACQUIRED);
    atomic_fetch_add(&own->renew_failed, event->kind == TENURE_EVENT_RENEW_FAILED);
    atomic_fetch_add(&own->lost, event->kind == TENURE_EVENT_LOST);
    atomic_fetch_add(&own->released, event->kind == TENURE_EVENT_RELEASED);
    if (event->kind == TENURE_EVENT_RENEWED)
        atomic_fetch_add(&own->renewed, event->target[0] ? 1 : (unsigned)event->count);
}

static void note_lost(tenure_lease *lease, const char *reason, void *userdata) {
    struct diary *own = userdata;
    (void)lease;
    snprintf(own->reason, sizeof own->reason, "%s", reason);
    if (pthread_equal(pthread_self(), own->caller))
        atomic_store(&own->in_caller, true);
    atomic_fetch_add(&own->on_lost, 1);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tenure_options options = {
        .size = sizeof options, .flags = TENURE_DRIVEN, .on_event = note_event, .userdata = &diary};
    memset(&asked, 0, sizeof asked);
    memset(&diary, 0, sizeof diary);
    diary.caller = pthread_self();
    fixture->clock = fake_clock_make(&fixture->fake);
    assert_int_equal(ten_context_open("memory:unit-renewal", &options, &fixture->clock, &fixture->context), TENURE_OK);
    options.on_event = NULL;
    assert_int_equal(ten_context_open("memory:unit-renewal", &options, &fixture->clock, &fixture->other), TENURE_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    tenure_close(fixture->context);
    tenure_close(fixture->other);
    free(fixture);
    return 0;
}

#define RENEWAL_TEST(name) TEST_WITH(name, set_up, tear_down)

/* Does all that is due at this moment. */
static void process(const struct fixture *fixture) {
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tenure_process(fixture->context), TENURE_OK);
        if (tenure_timeout_ms(fixture->context) != 0)
            return;
    }
    fail_msg("something is due all the time");
}

static void pass(struct fixture *fixture, uint64_t ms) {
    fixture->fake.boot_ms += ms;
    process(fixture);
}

static bool is_free(tenure_context *context, const char *target) {
    tenure_info info = {.size = sizeof info};
    assert_int_equal(tenure_target_read(context, target, &info), TENURE_OK);
    return info.holder[0] == '\0';
}

static bool reaches(const atomic_uint *count, unsigned wanted) {
    for (uint64_t start_us = ten_boot_us(); atomic_load(count) < wanted && elapsed_ms(start_us) < HANG_MS;)
        ten_sleep_us(1000);
    return atomic_load(count) >= wanted;
}

/* ---- with the thread */

static tenure_context *open_threaded(const char *url) {
    tenure_options options = {
        .size = sizeof options, .ttl_ms = 60000, .renew_ms = 30, .on_event = note_event, .userdata = &diary};
    tenure_context *context = NULL;
    memset(&asked, 0, sizeof asked);
    memset(&diary, 0, sizeof diary);
    diary.caller = pthread_self();
    if (tenure_open(url, &options, &context) < 0)
        fail_msg("%s", tenure_message(NULL));
    return context;
}

TEST(a_lease_is_renewed_without_any_call_and_a_manual_one_is_not) {
    tenure_context *context = open_threaded("memory:unit-renewed");
    tenure_lease *manual = acquire(context, "manual", TENURE_MANUAL);
    tenure_lease *automatic = acquire(context, "automatic", 0);
    assert_true(reaches(&asked.automatic, 5));
    assert_true(reaches(&diary.renewed, 5));
    assert_int_equal(atomic_load(&asked.manual), 0);
    assert_true(tenure_lease_valid(automatic));
    assert_int_equal(tenure_lease_token(automatic), 1);
    assert_int_equal(tenure_renew(manual), TENURE_OK);
    assert_int_equal(atomic_load(&asked.manual), 1);
    tenure_lease_free(manual);
    tenure_lease_free(automatic);
    tenure_close(context);
}

TEST(a_freed_lease_is_not_renewed_any_more_and_not_released) {
    tenure_context *context = open_threaded("memory:unit-freed");
    tenure_lease *automatic = acquire(context, "automatic", 0);
    tenure_lease *freed = acquire(context, "freed", 0);
    assert_true(reaches(&asked.freed, 2));
    tenure_lease_free(freed);
    assert_true(reaches(&asked.automatic, atomic_load(&asked.automatic) + 2)); /* what was under way has arrived */
    unsigned renewals = atomic_load(&asked.freed);
    assert_true(reaches(&asked.automatic, atomic_load(&asked.automatic) + 5));
    assert_int_equal(atomic_load(&asked.freed), renewals);
    assert_int_equal(atomic_load(&asked.releases), 0);
    assert_false(is_free(context, "freed"));
    assert_int_equal(atomic_load(&diary.lost), 0);
    tenure_lease_free(automatic);
    tenure_close(context);
}

TEST(the_loss_of_a_lease_is_told_once_and_by_the_contexts_thread) {
    tenure_context *context = open_threaded("memory:unit-lost");
    tenure_context *other = NULL;
    assert_int_equal(tenure_open("memory:unit-lost", NULL, &other), TENURE_OK);
    tenure_lease *automatic = acquire(context, "automatic", 0);
    tenure_lease *lease = acquire(context, "x", 0);
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    assert_int_equal(tenure_force_release(other, "x", NULL, TENURE_NOW, NULL), TENURE_OK);
    assert_true(reaches(&diary.on_lost, 1));
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), 0);
    /* Told by the feed, or by a renewal that found nothing there: whichever came first. */
    assert_true(strcmp(diary.reason, "forced") == 0 || strcmp(diary.reason, "store") == 0);
    assert_int_equal(tenure_renew(lease), TENURE_E_LOST);
    assert_true(reaches(&asked.automatic, atomic_load(&asked.automatic) + 5)); /* the context goes on */
    assert_int_equal(atomic_load(&diary.on_lost), 1);
    assert_int_equal(atomic_load(&diary.lost), 1);
    /* One that has ended already is told again to whoever asks, at once, and not by the caller. */
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    assert_true(reaches(&diary.on_lost, 2));
    assert_false(atomic_load(&diary.in_caller));
    tenure_lease_free(lease);
    tenure_lease_free(automatic);
    tenure_close(context);
    tenure_close(other);
}

/* The next renewal is hours away: it is heard by the feed. */
TEST(a_forced_lease_whose_loss_is_watched_is_lost_long_before_its_next_renewal) {
    memset(&diary, 0, sizeof diary);
    tenure_options options = {.size = sizeof options, .ttl_ms = 24 * 3600 * 1000};
    tenure_context *context = NULL;
    tenure_context *other = NULL;
    assert_int_equal(tenure_open("memory:unit-watched", &options, &context), TENURE_OK);
    assert_int_equal(tenure_open("memory:unit-watched", &options, &other), TENURE_OK);
    tenure_lease *lease = acquire(context, "x", 0);
    tenure_lease *manual = acquire(context, "y", TENURE_MANUAL);
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    assert_int_equal(tenure_lease_on_lost(manual, note_lost, &diary), TENURE_OK);
    assert_int_equal(tenure_force_release(other, "x", NULL, 0, NULL), TENURE_OK);
    assert_true(reaches(&diary.on_lost, 1));
    assert_string_equal(diary.reason, "forced");
    assert_false(tenure_lease_valid(lease));
    assert_true(tenure_lease_valid(manual));
    assert_int_equal(tenure_force_release(other, "y", NULL, TENURE_NOW, NULL), TENURE_OK);
    assert_true(reaches(&diary.on_lost, 2));
    assert_false(tenure_lease_valid(manual));
    tenure_lease_free(lease);
    tenure_lease_free(manual);
    tenure_close(context);
    tenure_close(other);
}

/* ---- driven */

RENEWAL_TEST(renewals_of_many_leases_are_one_batch) {
    struct fixture *fixture = *state;
    tenure_lease *leases[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        char target[32];
        snprintf(target, sizeof target, "many-%u", i);
        leases[i] = acquire(fixture->context, target, 0);
    }
    for (unsigned round = 1; round <= 5; round++) {
        pass(fixture, TTL / 2); /* all are due */
        assert_int_equal(atomic_load(&asked.many), round * MANY);
        assert_int_equal(atomic_load(&asked.batches), round);
        assert_int_equal(atomic_load(&diary.renewed), round * MANY);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(tenure_lease_valid(leases[i]));
        assert_int_equal(tenure_lease_remaining_ms(leases[i]), TTL - MARGIN);
        tenure_lease_free(leases[i]);
    }
}

RENEWAL_TEST(an_unanswered_renewal_makes_a_lease_uncertain_until_the_next_one) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->context, "automatic", 0);
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    atomic_store(&asked.fails, true);
    pass(fixture, TTL / 2);
    assert_true(atomic_load(&asked.automatic) > 0);
    assert_true(atomic_load(&diary.renew_failed) > 0);
    assert_false(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_remaining_ms(lease), TTL - MARGIN - TTL / 2);
    /* The store compares the token of a checkpoint: the lease is not said to be lost. */
    char text[TENURE_CHECKPOINT_MAX + 1];
    size_t size;
    assert_int_equal(tenure_checkpoint_write(lease, "7", 1), TENURE_OK);
    assert_int_equal(tenure_checkpoint_read(lease, text, &size), TENURE_OK);
    assert_string_equal(text, "7");
    assert_false(tenure_lease_valid(lease));
    atomic_store(&asked.fails, false);
    for (int i = 0; i < 100 && !tenure_lease_valid(lease); i++) {
        int pause_ms = tenure_timeout_ms(fixture->context);
        assert_true(pause_ms >= 0); /* it tries again by itself */
        pass(fixture, (uint64_t)pause_ms);
    }
    assert_true(tenure_lease_valid(lease));
    assert_int_equal(tenure_lease_token(lease), 1);
    assert_int_equal(atomic_load(&diary.on_lost), 0);
    tenure_lease_free(lease);
}

RENEWAL_TEST(a_lease_that_is_not_renewed_in_time_is_lost_once) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->context, "automatic", 0);
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    atomic_store(&asked.fails, true);
    for (uint64_t passed_ms = 0; passed_ms <= TTL; passed_ms += 500) {
        assert_true(atomic_load(&diary.on_lost) == 0 || passed_ms >= TTL - MARGIN);
        pass(fixture, 500);
    }
    assert_int_equal(atomic_load(&diary.on_lost), 1);
    assert_int_equal(atomic_load(&diary.lost), 1);
    assert_true(strcmp(diary.reason, "expired") == 0 || strcmp(diary.reason, "store") == 0);
    assert_false(tenure_lease_valid(lease));
    atomic_store(&asked.fails, false);
    for (int i = 0; i < 10; i++)
        pass(fixture, TTL / 3);
    assert_int_equal(atomic_load(&diary.on_lost), 1); /* nor does it come back */
    assert_false(tenure_lease_valid(lease));
    tenure_lease_free(lease);
}

/* ---- closing */

RENEWAL_TEST(closing_a_context_releases_what_is_held_and_not_what_was_freed) {
    struct fixture *fixture = *state;
    tenure_lease *lease = acquire(fixture->context, "automatic", 0);
    tenure_lease *manual = acquire(fixture->context, "manual", TENURE_MANUAL);
    tenure_lease *again = acquire(fixture->context, "automatic", 0); /* the same grant */
    tenure_lease_free(acquire(fixture->context, "freed", 0));
    assert_int_equal(tenure_lease_on_lost(lease, note_lost, &diary), TENURE_OK);
    assert_int_equal(tenure_close(fixture->context), TENURE_OK);
    fixture->context = NULL;
    assert_true(is_free(fixture->other, "automatic"));
    assert_true(is_free(fixture->other, "manual"));
    assert_false(is_free(fixture->other, "freed"));
    assert_int_equal(atomic_load(&diary.on_lost), 0);
    assert_false(tenure_lease_valid(lease) || tenure_lease_valid(manual) || tenure_lease_valid(again));
    tenure_lease_free(lease);
    tenure_lease_free(manual);
    tenure_lease_free(again);
}

TEST(closing_a_threaded_context_releases_many) {
    tenure_context *context = open_threaded("memory:unit-close");
    tenure_context *other = NULL;
    tenure_lease *leases[MANY];
    assert_int_equal(tenure_open("memory:unit-close", NULL, &other), TENURE_OK);
    for (unsigned i = 0; i < MANY; i++) {
        char target[32];
        snprintf(target, sizeof target, "many-%u", i);
        leases[i] = acquire(context, target, 0);
    }
    assert_int_equal(tenure_close(context), TENURE_OK);
    assert_int_equal(atomic_load(&asked.releases), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(is_free(other, tenure_lease_target(leases[i])));
        assert_false(tenure_lease_valid(leases[i]));
        tenure_lease_free(leases[i]);
    }
    tenure_close(other);
}

/* ---- events */

RENEWAL_TEST(events_are_pulled_in_their_order) {
    struct fixture *fixture = *state;
    tenure_event event = {.size = sizeof event};
    tenure_context *context = fixture->other; /* without on_event */
    assert_int_equal(tenure_next_event(context, 0, &event), TENURE_E_TIMEOUT);
    tenure_lease *lease = acquire(context, "x", 0);
    assert_int_equal(tenure_next_event(context, 0, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_ACQUIRED);
    assert_string_equal(event.target, "x");
    assert_int_equal(event.token, 1);
    fixture->fake.boot_ms += TTL / 2;
    assert_int_equal(tenure_process(context), TENURE_OK);
    assert_int_equal(tenure_next_event(context, 0, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_RENEWED);
    assert_int_equal(tenure_release(lease), TENURE_OK);
    assert_int_equal(tenure_next_event(context, 0, &event), TENURE_OK);
    assert_int_equal(event.kind, TENURE_EVENT_RELEASED);
    assert_string_equal(event.reason, "done");
    assert_int_equal(tenure_next_event(context, 0, &event), TENURE_E_TIMEOUT);
    tenure_lease_free(lease);
}
