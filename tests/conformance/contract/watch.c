/*
 * The store contract: the descriptor that wakes watchers, and handles that work again by themselves after the store was
 * disturbed under them. Real time and real processes; nothing here is timed closer than a second.
 */
#include "conformance/suite.h"

#include <stdio.h>
#include <unistd.h>

#define WAKE_MS UINT64_C(1000)

static int watch(ten_store *store, const char *ns) {
    int fd = -1;
    assert_int_equal(store->ops->watch(store, ns, &fd), TENURE_OK);
    assert_true(fd >= 0);
    return fd;
}

/* Until nothing more comes: opening and closing of handles may wake for nothing. */
static void clear_watch(ten_store *store, int fd) {
    store->ops->watch_clear(store);
    for (int i = 0; i < 50 && ten_wait_readable(fd, -1, 30) == 1; i++)
        store->ops->watch_clear(store);
}

static void expect_wake(int fd, const char *by) {
    uint64_t start_ms = now_ms();
    if (ten_wait_readable(fd, -1, WAKE_MS) != 1 && ten_wait_readable(fd, -1, late_ms()) != 1)
        fail_msg("%s woke nobody within %llu ms", by, (unsigned long long)(now_ms() - start_ms));
}

CASE(every_kind_of_change_wakes_a_watcher_on_another_handle) {
    const struct place *place = *state;
    int fd = watch(place->other, place->ns);
    uint64_t cursor = cursor_now(place->other, place->ns);
    struct seen seen;

    clear_watch(place->other, fd);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_wake(fd, "an acquire");
    clear_watch(place->other, fd);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_wake(fd, "a release");
    clear_watch(place->other, fd);
    put_target(place, "t");
    expect_wake(fd, "an edit");
    clear_watch(place->other, fd);
    ten_op join = {.kind = TEN_OP_ANNOUNCE, .namespace_name = place->ns, .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    expect_outcome(apply_one(place->store, join), TEN_OK);
    expect_wake(fd, "a join");
    place->other->ops->watch_clear(place->other);
    read_changes(place->other, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 4);
}

CASE(a_watcher_is_woken_by_its_own_handle_too) {
    const struct place *place = *state;
    int fd = watch(place->store, place->ns);
    assert_int_equal(watch(place->store, place->ns), fd);
    clear_watch(place->store, fd);
    must_acquire(place, "t", "a", LONG_MS);
    expect_wake(fd, "an acquire on the same handle");
}

CASE(the_descriptor_stays_readable_until_it_is_cleared) {
    const struct place *place = *state;
    int fd = watch(place->other, place->ns);
    clear_watch(place->other, fd);
    must_acquire(place, "t", "a", LONG_MS);
    expect_wake(fd, "an acquire");
    assert_int_equal(ten_wait_readable(fd, -1, 0), 1);
    clear_watch(place->other, fd);
    assert_int_equal(ten_wait_readable(fd, -1, 50), 0);
}

/* Notices of what was before may come late, and on a server that others use, too, a wake for nothing is allowed; one in each
 * of many tries is not. */
CASE(renewals_heartbeats_and_pings_wake_nobody) {
    enum { TRIES = 10 };
    const struct place *place = *state;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
    int fd = watch(place->other, place->ns);
    bool woken = true;
    for (int tries = 0; woken && tries < TRIES; tries++) {
        clear_watch(place->other, fd);
        for (int i = 0; i < 10; i++) {
            expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
            expect_outcome(announce(place, "a", LONG_MS), TEN_OK);
            assert_int_equal(place->store->ops->ping(place->store, CALL_MS), TENURE_OK);
            expect_holder(read_lease(place, "t"), "a");
        }
        woken = ten_wait_readable(fd, -1, 100) == 1;
    }
    assert_false(woken);
}

/* ---- another process ----------------------------------------------------------------------------------- */

/* Opens the store, says so, and changes something when told. */
int change_worker(const char *url, const char *ns, int go_fd, int done_fd) {
    ten_store *store = NULL;
    ten_error error;
    char byte = 'r';
    if (ten_store_open(url, NULL, &store, &error) < 0)
        return 3;
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = ns, .target = "t", .holder = "worker", .ttl_ms = LONG_MS};
    ten_result result = {0};
    bool ok = ten_write_all(done_fd, &byte, 1) == 0 && ten_read_some(go_fd, &byte, 1) == 1 &&
              ten_store_apply(store, &op, &result, 1, CALL_MS) == TENURE_OK && result.outcome == TEN_OK;
    /* Closing would wake, too; it must be the change that did. */
    if (ok)
        (void)ten_read_some(go_fd, &byte, 1);
    ten_store_close(store);
    return ok ? 0 : 4;
}

CASE(a_change_by_another_process_wakes_a_watcher) {
    const struct place *place = *state;
    if (!place->store->capabilities.shared_between_processes)
        return; /* does not apply */
    int fd = watch(place->store, place->ns);
    uint64_t cursor = cursor_now(place->store, place->ns);
    int go[2];
    int r[2];
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(r), 0);
    char go_text[16];
    char done_text[16];
    snprintf(go_text, sizeof go_text, "%d", go[0]);
    snprintf(done_text, sizeof done_text, "%d", r[1]);
    pid_t pid = start_worker((const char *[]){"change", suite_fixture.url, place->ns, go_text, done_text, NULL});
    char byte;
    close(r[1]);
    assert_int_equal(ten_read_some(r[0], &byte, 1), 1);
    clear_watch(place->store, fd);
    assert_int_equal(ten_write_all(go[1], "g", 1), 0);
    expect_wake(fd, "another process");
    place->store->ops->watch_clear(place->store);
    struct seen seen = {0};
    for (uint64_t end_ms = now_ms() + WAKE_MS; seen.count == 0 && now_ms() < end_ms;)
        read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.at[0].change.instance, "worker");
    assert_int_equal(ten_write_all(go[1], "g", 1), 0);
    assert_int_equal(wait_for_worker(pid), 0);
    close(go[0]);
    close(go[1]);
    close(r[0]);
}

/* ---- reconnecting -------------------------------------------------------------------------------------- */

static void expect_all_calls_to_work(const struct place *place, const char *what) {
    char target[TENURE_TARGET_MAX + 1];
    snprintf(target, sizeof target, "after-%llu", (unsigned long long)ten_boot_us());
    /* While recovering, newcomers wait; that is an answer, too. */
    ten_result result = acquire(place, target, "n", LONG_MS);
    if (result.outcome != TEN_OK && !(result.outcome == TEN_HELD && result.recovering && result.remaining_ms > 0))
        fail_msg("after '%s' an acquire came to %d", what, result.outcome);
    put_target(place, target);
    assert_true(read_lease(place, target).registered);
    assert_int_equal(place->store->ops->ping(place->store, CALL_MS), TENURE_OK);
}

static void disturb_once(const struct place *place, const fixture_disturbance *disturbance, int fd) {
    char target[TENURE_TARGET_MAX + 1];
    snprintf(target, sizeof target, "t-%llu", (unsigned long long)ten_boot_us());
    ten_result granted = acquire_within(place, target, "a", LONG_MS, 0);
    /* A disturbance before this one may have left the store recovering: then there is nothing to keep. */
    bool holds = granted.outcome == TEN_OK;
    disturbance->disturb(&suite_fixture);
    ten_op op = {.kind = TEN_OP_RENEW,
                 .namespace_name = place->ns,
                 .target = target,
                 .holder = "a",
                 .token = granted.token,
                 .ttl_ms = LONG_MS};
    ten_result result;
    uint64_t start_ms = now_ms();
    int r = ten_store_apply(place->store, &op, &result, 1, 1000);
    assert_true(now_ms() - start_ms < 3000);
    if (disturbance->calls_must_work)
        assert_int_equal(r, TENURE_OK);
    if (r < 0) {
        expect_outcome(result, TEN_ERROR);
        assert_true(tenure_error_retryable(r));
        assert_true(place->store->error.message[0] != '\0');
    }
    if (disturbance->mend)
        disturbance->mend(&suite_fixture);
    result = apply_one(place->store, op);
    if (holds) {
        expect_outcome(result, TEN_OK);
        assert_int_equal(result.token, granted.token);
    }
    expect_all_calls_to_work(place, disturbance->what);
    /* Watchers hear of changes again after they have looked once. */
    clear_watch(place->other, fd);
    (void)cursor_now(place->other, place->ns);
    clear_watch(place->other, fd);
    put_target(place, target);
    expect_wake(fd, disturbance->what);
}

CASE(a_handle_works_again_by_itself_after_the_store_was_disturbed) {
    const struct place *place = *state;
    const fixture_kind *kind = suite_fixture.kind;
    if (!kind || kind->disturbance_count == 0)
        return; /* does not apply */
    int fd = watch(place->other, place->ns);
    for (size_t i = 0; i < kind->disturbance_count; i++) {
        print_message("# %s\n", kind->disturbances[i].what);
        disturb_once(place, &kind->disturbances[i], fd);
    }
}

/* Last of all: a store that was disturbed may be recovering for a while. */
