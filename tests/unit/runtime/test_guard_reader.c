/*
 * The C API of the guard: what it reads from the store, and the feed that it follows, on stores in memory and on SQLite. The rules
 * themselves are tested on a simulated clock (test_guard.c).
 */
#include "unit/runtime/handles.h"

#include <pthread.h>
#include <tenure.h>

#include "base/alloc.h"
#include "base/io.h"

#define WAIT_MS HANG_MS

static tenure_guard *open_guard(tenure_context *context, const tenure_guard_options *options) {
    tenure_guard *guard = NULL;
    if (tenure_guard_open(context, options, &guard) < 0)
        fail_msg("%s", tenure_message(context));
    return guard;
}

/* A receiver has a context of its own, as in a program of its own. */
struct receiver {
    tenure_context *context;
    tenure_guard *guard;
};

static struct receiver open_receiver(const char *url, const tenure_guard_options *options) {
    struct receiver receiver = {.context = open_context(url)};
    receiver.guard = open_guard(receiver.context, options);
    return receiver;
}

static void close_receiver(struct receiver receiver) {
    tenure_guard_close(receiver.guard);
    assert_int_equal(tenure_close(receiver.context), TENURE_OK);
}

static uint64_t take(tenure_context *context, const char *target) {
    tenure_lease *lease = NULL;
    if (tenure_acquire(context, target, 0, TENURE_MANUAL, &lease) < 0)
        fail_msg("%s", tenure_message(context));
    uint64_t token = tenure_lease_token(lease);
    tenure_lease_free(lease);
    return token;
}

/* Changes hands: the token is the next one. */
static uint64_t hand_over(tenure_context *context, const char *target, uint64_t token) {
    assert_int_equal(tenure_token_release(context, target, token, NULL), TENURE_OK);
    return take(context, target);
}

static int check_until(tenure_guard *guard, const char *target, uint64_t token, int wanted) {
    uint64_t start_us = ten_boot_us();
    int verdict;
    while ((verdict = tenure_guard_check(guard, target, token)) != wanted && elapsed_ms(start_us) < WAIT_MS)
        ten_sleep_us(1000);
    return verdict;
}

/* ---- the rules, as a program meets them */

static void tell_stale_from_current(const char *url) {
    tenure_context *context = open_context(url);
    struct receiver receiver = open_receiver(url, NULL);
    tenure_guard *guard = receiver.guard;
    uint64_t old = take(context, "scene-1");
    assert_int_equal(tenure_guard_check(guard, "scene-1", old), TENURE_OK);
    uint64_t current = hand_over(context, "scene-1", old);
    /* The guard hears of it, and refuses the old one without having seen the new one. */
    assert_int_equal(check_until(guard, "scene-1", old, TENURE_E_STALE), TENURE_E_STALE);
    assert_contains(tenure_message(guard), "token 1 of scene-1 is stale: the newest is 2");
    assert_int_equal(tenure_guard_check(guard, "scene-1", current), TENURE_OK);
    tenure_guard_totals totals = {.size = sizeof totals};
    assert_int_equal(tenure_guard_read(guard, &totals), TENURE_OK);
    assert_int_equal(totals.targets, 1);
    assert_int_equal(totals.stale, 1);
    assert_true(totals.accepted >= 2);
    close_receiver(receiver);
    tenure_close(context);
}

TEST(a_stale_token_is_refused_in_memory) {
    tell_stale_from_current("memory:guard-stale");
}

/* As far as the feed has been read, the second one is still the newest. */
TEST(in_a_batch_a_token_behind_a_newer_one_is_stale) {
    tenure_context *context = open_context("memory:guard-batch-order");
    struct receiver receiver = open_receiver("memory:guard-batch-order", NULL);
    uint64_t token = take(context, "a");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tenure_guard_check(receiver.guard, "a", token), TENURE_OK);
        uint64_t next = hand_over(context, "a", token);
        tenure_guard_item items[] = {{.target = "a", .token = next}, {.target = "a", .token = token}};
        assert_int_equal(tenure_guard_check_many(receiver.guard, items, 2, sizeof items[0]), TENURE_OK);
        assert_int_equal(items[0].verdict, TENURE_OK);
        assert_int_equal(items[1].verdict, TENURE_E_STALE);
        token = next;
    }
    close_receiver(receiver);
    tenure_close(context);
}

TEST(a_token_that_was_never_granted_is_refused) {
    tenure_context *context = open_context("memory:guard-forged");
    struct receiver receiver = open_receiver("memory:guard-forged", NULL);
    tenure_guard *guard = receiver.guard;
    uint64_t token = take(context, "a");
    assert_int_equal(tenure_guard_check(guard, "a", token + 1), TENURE_E_TOKEN);
    assert_contains(tenure_message(guard), "token 2 of a was never granted: the newest is 1");
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    assert_int_equal(tenure_guard_check(guard, "nobody-leased-it", 1), TENURE_E_TOKEN);
    assert_int_equal(tenure_guard_check(guard, "a", 0), TENURE_E_TOKEN);
    assert_int_equal(tenure_guard_check(guard, "a", TENURE_TOKEN_MAX + 1), TENURE_E_TOKEN);
    assert_int_equal(tenure_guard_check(guard, "not a target", 1), TENURE_E_INVALID);
    assert_int_equal(tenure_guard_check(guard, NULL, 1), TENURE_E_INVALID);
    close_receiver(receiver);
    tenure_close(context);
}

TEST(a_namespace_is_its_own) {
    tenure_context *context = open_context("memory:guard-namespace");
    tenure_guard_options options = {.size = sizeof options, .namespace_name = "scenes"};
    struct receiver receiver = open_receiver("memory:guard-namespace", &options);
    tenure_guard *guard = receiver.guard;
    uint64_t token = take(context, "a");
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_E_TOKEN);
    close_receiver(receiver);
    tenure_close(context);
}

TEST(what_cannot_be_used_is_refused_with_a_reason) {
    tenure_context *context = open_context("memory:");
    tenure_guard *guard = NULL;
    assert_int_equal(tenure_guard_open(context, &(tenure_guard_options){0}, &guard), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "sizeof(tenure_guard_options)");
    tenure_guard_options bad = {.size = sizeof bad, .cache_ttl_ms = 99};
    assert_int_equal(tenure_guard_open(context, &bad, &guard), TENURE_E_TTL);
    assert_contains(tenure_message(context), "99 ms");
    bad = (tenure_guard_options){.size = sizeof bad, .namespace_name = "a b"};
    assert_int_equal(tenure_guard_open(context, &bad, &guard), TENURE_E_INVALID);
    assert_contains(tenure_message(context), "a b");
    bad = (tenure_guard_options){.size = sizeof bad, .flags = 0x80};
    assert_int_equal(tenure_guard_open(context, &bad, &guard), TENURE_E_UNSUPPORTED);
    assert_null(guard);
    tenure_guard_close(NULL);
    tenure_close(context);
}

/* ---- many */

enum { MANY = 3000 };

TEST(what_comes_together_is_asked_together) {
    static tenure_guard_item items[2 * MANY];
    static char names[MANY][16];
    tenure_context *context = open_context("memory:guard-many");
    struct receiver receiver = open_receiver("memory:guard-many", NULL);
    tenure_guard *guard = receiver.guard;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "t-%u", (unsigned)i);
        uint64_t token = take(context, names[i]);
        items[2 * i] = (tenure_guard_item){.target = names[i], .token = token};
        items[2 * i + 1] = (tenure_guard_item){.target = names[i], .token = token + i % 2};
    }
    items[10].target = "bad target";
    assert_int_equal(tenure_guard_check_many(guard, items, TEN_COUNT(items), sizeof items[0]), TENURE_OK);
    for (size_t i = 0; i < TEN_COUNT(items); i++) {
        bool forged = i % 4 == 3;
        assert_int_equal(items[i].verdict, i == 10 ? TENURE_E_INVALID : forged ? TENURE_E_TOKEN : TENURE_OK);
        assert_int_equal(items[i].newest, i == 10 ? 0 : 1);
    }
    tenure_guard_totals totals = {.size = sizeof totals};
    assert_int_equal(tenure_guard_read(guard, &totals), TENURE_OK);
    assert_in_range(totals.reads, 1, MANY + 3);
    assert_int_equal(tenure_guard_check_many(guard, NULL, 0, sizeof(tenure_guard_item)), TENURE_OK);
    close_receiver(receiver);
    tenure_close(context);
}

TEST(no_more_is_remembered_than_there_is_room_for) {
    tenure_context *context = open_context("memory:guard-room");
    tenure_guard_options options = {.size = sizeof options, .max_targets = 10};
    struct receiver receiver = open_receiver("memory:guard-room", &options);
    tenure_guard *guard = receiver.guard;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 100; i++) {
            char target[16];
            snprintf(target, sizeof target, "t-%u", i);
            uint64_t token = round == 0 ? take(context, target) : 1;
            assert_int_equal(tenure_guard_check(guard, target, token), TENURE_OK);
        }
    }
    tenure_guard_totals totals = {.size = sizeof totals};
    assert_int_equal(tenure_guard_read(guard, &totals), TENURE_OK);
    assert_int_equal(totals.targets, 10);
    close_receiver(receiver);
    tenure_close(context);
}

struct consumer {
    tenure_guard *guard;
    _Atomic(uint64_t) *current;
    atomic_bool *over;
    uint64_t checks;
    uint64_t accepted;
    bool fell;
};

/* Sends what is current, and what was: after an acceptance nothing lower is accepted again. */
static void *consume(void *arg) {
    struct consumer *consumer = arg;
    uint64_t highest = 0;
    while (!atomic_load(consumer->over)) {
        uint64_t current = atomic_load(consumer->current);
        uint64_t token = consumer->checks++ % 3 ? current : current > 1 ? current - 1 : 1;
        int verdict = tenure_guard_check(consumer->guard, "a", token);
        consumer->accepted += verdict == TENURE_OK;
        if (verdict == TENURE_OK && token < highest)
            consumer->fell = true;
        if (verdict == TENURE_OK && token > highest)
            highest = token;
    }
    return NULL;
}

TEST(threads_share_a_guard) {
    enum { THREADS = 4 };
    tenure_context *context = open_context("memory:guard-threads");
    struct receiver receiver = open_receiver("memory:guard-threads", NULL);
    tenure_guard *guard = receiver.guard;
    uint64_t token = take(context, "a");
    _Atomic(uint64_t) current = token;
    atomic_bool over = false;
    struct consumer consumers[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        consumers[i] = (struct consumer){.guard = guard, .current = &current, .over = &over};
        assert_int_equal(pthread_create(&threads[i], NULL, consume, &consumers[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        token = hand_over(context, "a", token);
        atomic_store(&current, token);
        ten_sleep_us(500);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(consumers[i].fell);
        assert_true(consumers[i].accepted > 0);
    }
    close_receiver(receiver);
    tenure_close(context);
}

/* ---- fork and memory */

static void use_in_child(void *arg) {
    tenure_guard *guard = arg;
    tenure_guard_item item = {.target = "a", .token = 1};
    tenure_guard_totals totals = {.size = sizeof totals};
    CHILD_CHECK(tenure_guard_check(guard, "a", 1) == TENURE_E_FORKED);
    CHILD_CHECK(strstr(tenure_message(guard), "open another one after fork()"));
    CHILD_CHECK(tenure_guard_check_many(guard, &item, 1, sizeof item) == TENURE_E_FORKED);
    CHILD_CHECK(tenure_guard_read(guard, &totals) == TENURE_E_FORKED);
    tenure_guard_close(guard);
}

TEST(a_child_of_fork_can_only_close_it) {
    tenure_context *context = open_context("memory:guard-fork");
    struct receiver receiver = open_receiver("memory:guard-fork", NULL);
    tenure_guard *guard = receiver.guard;
    uint64_t token = take(context, "a");
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    assert_child_is_content(use_in_child, guard);
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    token = hand_over(context, "a", token);
    assert_int_equal(check_until(guard, "a", token - 1, TENURE_E_STALE), TENURE_E_STALE);
    close_receiver(receiver);
    tenure_close(context);
}

TEST(opening_without_memory_fails_whole) {
    bool complete = false;
    tenure_options driven = {.size = sizeof driven,
                             .flags = TENURE_DRIVEN}; /* a thread's allocations would fail, too */
    tenure_context *context = NULL;
    assert_int_equal(tenure_open("memory:guard-faults", &driven, &context), TENURE_OK);
    for (long skip = 0; !complete && skip < 200; skip++) {
        tenure_guard *guard = NULL;
        ten_alloc_fail_after(skip);
        int r = tenure_guard_open(context, NULL, &guard);
        complete = !ten_alloc_has_failed();
        ten_alloc_fail_after(-1);
        assert_true(r == TENURE_OK || r == TENURE_E_NOMEM);
        assert_true((r == TENURE_OK) == (guard != NULL));
        tenure_guard_close(guard);
    }
    assert_true(complete);
    tenure_close(context);
}

/* ---- on SQLite, whose file can be taken away */

#ifdef TEN_STORE_SQLITE
struct witness {
    atomic_uint downs;
    atomic_uint ups;
};

static void on_event(const tenure_event *event, void *userdata) {
    struct witness *witness = userdata;
    if (event->kind == TENURE_EVENT_STORE_DOWN)
        atomic_fetch_add(&witness->downs, 1);
    if (event->kind == TENURE_EVENT_STORE_UP)
        atomic_fetch_add(&witness->ups, 1);
}

struct place {
    char directory[256];
    char away[300];
    char url[320];
};

static void place_make(struct place *place) {
    directory_make(place->directory);
    snprintf(place->away, sizeof place->away, "%s.away", place->directory);
    snprintf(place->url, sizeof place->url, "sqlite:%s/store.db", place->directory);
}

TEST(a_stale_token_is_refused_on_sqlite) {
    struct place place;
    place_make(&place);
    tell_stale_from_current(place.url);
    directory_remove(place.directory);
}

/* The store goes away: what is cached serves for its TTL, then the policy says what becomes of it. */
static void outlive_the_store(bool accept) {
    struct place place;
    struct witness witness = {0};
    tenure_guard_options options = {.size = sizeof options,
                                    .cache_ttl_ms = 2000,
                                    .flags = accept ? TENURE_ACCEPT_EXPIRED : 0,
                                    .on_event = on_event,
                                    .userdata = &witness};
    place_make(&place);
    tenure_context *context = open_context(place.url);
    struct receiver receiver = open_receiver(place.url, &options);
    tenure_guard *guard = receiver.guard;
    uint64_t token = take(context, "a");
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    assert_int_equal(rename(place.directory, place.away), 0);
    uint64_t gone_us = ten_boot_us();
    /* A question that nobody can answer is how it is noticed. */
    assert_int_equal(check_until(guard, "b", 1, TENURE_E_UNREACHABLE), TENURE_E_UNREACHABLE);
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    assert_int_equal(tenure_guard_check(guard, "a", token + 1), TENURE_E_UNREACHABLE);
    assert_contains(tenure_message(guard), "cannot be confirmed");
    if (accept) {
        while (elapsed_ms(gone_us) < 2500)
            assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
        tenure_guard_totals totals = {.size = sizeof totals};
        assert_int_equal(tenure_guard_read(guard, &totals), TENURE_OK);
        assert_true(totals.accepted_expired > 0);
    } else {
        assert_int_equal(check_until(guard, "a", token, TENURE_E_UNREACHABLE), TENURE_E_UNREACHABLE);
        assert_true(elapsed_ms(gone_us) >= 200);
    }
    assert_int_equal(rename(place.away, place.directory), 0);
    assert_int_equal(check_until(guard, "b", 1, TENURE_E_TOKEN), TENURE_E_TOKEN);
    assert_int_equal(tenure_guard_check(guard, "a", token), TENURE_OK);
    /* The event comes from the guard's thread, perhaps after the answer. */
    for (uint64_t asked_us = ten_boot_us(); atomic_load(&witness.ups) == 0 && elapsed_ms(asked_us) < WAIT_MS;)
        ten_sleep_us(1000);
    close_receiver(receiver);
    assert_int_equal(witness.downs, 1);
    assert_int_equal(witness.ups, 1);
    tenure_close(context);
    directory_remove(place.directory);
}

TEST(without_the_store_the_cache_serves_and_then_refuses) {
    outlive_the_store(false);
}

TEST(without_the_store_the_policy_may_accept_what_was_confirmed_once) {
    outlive_the_store(true);
}
#endif
