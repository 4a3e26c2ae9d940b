/*
 * The SQLite store when others have its lock, or stand before it in the queue: calls stay bounded, nothing is renewed
 * after its end, and a stopped process does not hold up the rest for long. Real time and real processes.
 */
#include "conformance/sqlite/sqlite_place.h"
#include "lib/freeze.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- another program's lock ---------------------------------------------------------------------------- */

static sqlite3 *lock_database(const struct sqlite_place *sqlite) {
    sqlite3 *connection = open_plain(sqlite->path);
    assert_int_equal(sqlite3_exec(connection, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return connection;
}

static void unlock_database(sqlite3 *connection) {
    assert_int_equal(sqlite3_exec(connection, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

static void expect_timeout(ten_store *store, const ten_op *op, uint64_t timeout_ms) {
    ten_result result;
    uint64_t start_ms = now_ms();
    assert_int_equal(ten_store_apply(store, op, &result, 1, timeout_ms), TENURE_E_TIMEOUT);
    uint64_t took_ms = now_ms() - start_ms;
    expect_outcome(result, TEN_ERROR);
    assert_non_null(strstr(store->error.message, "locked"));
    assert_in_range(took_ms + ROUNDING_MS, timeout_ms, timeout_ms + 1000 + late_ms());
}

/* Fault 21. */
SQLITE_CASE(a_lock_held_longer_than_the_time_out_is_a_time_out_and_nothing_else) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_real(sqlite);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op take = {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "u", .holder = "a", .ttl_ms = LONG_MS};
    ten_op keep = {.kind = TEN_OP_RENEW,
                   .namespace_name = "poll",
                   .target = "t",
                   .holder = "a",
                   .token = token,
                   .ttl_ms = LONG_MS};
    /* A join is found to be more than a heartbeat only in its transaction; that must not double the time. */
    ten_op join = {.kind = TEN_OP_ANNOUNCE, .namespace_name = "poll", .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    sqlite3 *connection = lock_database(sqlite);
    expect_timeout(place->store, &take, 300);
    expect_timeout(place->store, &keep, 100);
    expect_timeout(place->store, &join, 100);
    ten_target_edit edit = {.action = TEN_TARGET_PUT, .target = {.id = "u"}};
    assert_int_equal(place->store->ops->edit_targets(place->store, "poll", &edit, 1, 100), TENURE_E_TIMEOUT);
    assert_int_equal(place->store->ops->ping(place->store, 100), TENURE_E_TIMEOUT);
    /* Readers do not wait for a writer. */
    expect_holder(read_lease(place, "t"), "a");
    unlock_database(connection);
    expect_outcome(apply_one(place->store, keep), TEN_OK);
    assert_int_equal(must_acquire(place, "u", "b", LONG_MS), 1);
    expect_outcome(apply_one(place->store, join), TEN_OK);
}

SQLITE_CASE(opening_a_locked_database_is_bounded) {
    struct sqlite_place *sqlite = *state;
    ten_error error;
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
    sqlite3 *connection = lock_database(sqlite);
    ten_store *store = NULL;
    uint64_t start_ms = now_ms();
    int r = ten_store_open(sqlite->url, &(ten_store_config){.timeout_ms = 200}, &store, &error);
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_in_range(now_ms() - start_ms, 0, 1500 + late_ms());
    unlock_database(connection);
    assert_int_equal(try_open(sqlite->url, NULL, &error), TENURE_OK);
}

struct waiting_call {
    pthread_t thread;
    ten_store *store;
    ten_op op;
    ten_result result;
    int done;
    atomic_bool returned;
};

static void *call_in_thread(void *arg) {
    struct waiting_call *call = arg;
    call->done = ten_store_apply(call->store, &call->op, &call->result, 1, CALL_MS);
    atomic_store(&call->returned, true);
    return NULL;
}

static void start_call(struct waiting_call *call) {
    assert_int_equal(pthread_create(&call->thread, NULL, call_in_thread, call), 0);
}

/* The clock counts when the lock is had, not when the call was made. */
SQLITE_CASE(a_renewal_that_waited_for_the_lock_past_the_end_of_its_lease_is_lost) {
    struct sqlite_place *sqlite = *state;
    sqlite->place.store = open_real(sqlite);
    sqlite->place.other = open_real(sqlite);
    for (int plain = 0; plain < 2; plain++) {
        uint64_t ttl_ms = 300;
        char target[8];
        snprintf(target, sizeof target, "t%d", plain);
        uint64_t token = must_acquire(&sqlite->place, target, "a", ttl_ms);
        sqlite3 *connection = lock_database(sqlite);
        struct waiting_call call = {.store = sqlite->place.store,
                                    .op = {.kind = TEN_OP_RENEW,
                                           .namespace_name = "poll",
                                           .target = target,
                                           .holder = plain ? "a" : NULL,
                                           .token = token,
                                           .ttl_ms = plain ? ttl_ms : 0}};
        start_call(&call);
        sleep_ms(ttl_ms + 200);
        assert_false(atomic_load(&call.returned));
        unlock_database(connection);
        pthread_join(call.thread, NULL);
        assert_int_equal(call.done, TENURE_OK);
        expect_outcome(call.result, TEN_LOST);
        ten_op read = {.kind = TEN_OP_READ, .namespace_name = "poll", .target = target};
        expect_holder(apply_one(sqlite->place.other, read), NULL);
    }
}

SQLITE_CASE(an_acquire_that_waited_for_the_lock_gets_its_whole_ttl) {
    struct sqlite_place *sqlite = *state;
    sqlite->place.store = open_real(sqlite);
    sqlite->place.other = open_real(sqlite);
    sqlite3 *connection = lock_database(sqlite);
    struct waiting_call call = {
        .store = sqlite->place.store,
        .op = {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "t", .holder = "a", .ttl_ms = 2000}};
    start_call(&call);
    sleep_ms(300);
    unlock_database(connection);
    pthread_join(call.thread, NULL);
    assert_int_equal(call.done, TENURE_OK);
    expect_outcome(call.result, TEN_OK);
    assert_int_equal(call.result.remaining_ms, 2000);
    ten_op read = {.kind = TEN_OP_READ, .namespace_name = "poll", .target = "t"};
    assert_in_range(apply_one(sqlite->place.other, read).remaining_ms, 1000, 2000);
}

/* ---- the queue ----------------------------------------------------------------------------------------- */

/* One process of a queue: opens, says so, waits to be let go, and acquires a target with a long time-out. */
static int stand_in_queue(int count, char **arguments) {
    if (count != 4)
        return 2;
    ten_store *store = NULL;
    ten_error error;
    char byte;
    if (ten_store_open(arguments[0], NULL, &store, &error) < 0)
        return 3;
    (void)ten_write_all(atoi(arguments[1]), "r", 1);
    (void)ten_read_some(atoi(arguments[2]), &byte, 1);
    ten_op op = {.kind = TEN_OP_ACQUIRE,
                 .namespace_name = "poll",
                 .target = arguments[3],
                 .holder = arguments[3],
                 .ttl_ms = LONG_MS};
    ten_result result = {0};
    int r = ten_store_apply(store, &op, &result, 1, 20000);
    ten_store_close(store);
    return r == TENURE_OK && result.outcome == TEN_OK ? 0 : 4;
}

/* Starts one, takes the lock, and lets it go into the queue, which nobody leaves while the lock is taken. */
static pid_t start_in_queue(const struct sqlite_place *sqlite, const char *target, sqlite3 **ret_connection) {
    int ready[2];
    int go[2];
    char ready_text[16];
    char go_text[16];
    char byte;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    snprintf(ready_text, sizeof ready_text, "%d", ready[1]);
    snprintf(go_text, sizeof go_text, "%d", go[0]);
    pid_t pid = start_worker((const char *[]){sqlite->url, ready_text, go_text, target, NULL});
    assert_int_equal(ten_read_some(ready[0], &byte, 1), 1);
    *ret_connection = lock_database(sqlite);
    assert_int_equal(ten_write_all(go[1], "g", 1), 0);
    sleep_well_ms(200);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
    return pid;
}

SQLITE_CASE(a_stopped_process_in_the_queue_does_not_hold_up_the_others_for_long) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_real(sqlite);
    sqlite3 *connection;
    pid_t pid = start_in_queue(sqlite, "queued", &connection);
    assert_int_equal(freeze_process(pid), 0);
    unlock_database(connection);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "mine", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result;
    uint64_t start_ms = now_ms();
    assert_int_equal(ten_store_apply(place->store, &op, &result, 1, 4000), TENURE_OK);
    uint64_t took_ms = now_ms() - start_ms;
    expect_outcome(result, TEN_OK);
    assert_in_range(took_ms, 100,
                    3600 + late_ms()); /* it did stand before us, and we did not wait for the whole time-out */
    /* Once it has been overtaken it is in nobody's way. */
    start_ms = now_ms();
    for (int i = 0; i < 10; i++)
        expect_outcome(renew(place, "mine", "a", result.token, LONG_MS), TEN_OK);
    assert_in_range(now_ms() - start_ms, 0, 1500 + late_ms());
    (void)thaw_process(pid);
    assert_int_equal(wait_for_worker(pid), 0);
    expect_holder(read_lease(place, "queued"), "queued");
}

SQLITE_CASE(a_process_killed_in_the_queue_is_out_of_the_way_at_once) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_real(sqlite);
    sqlite3 *connection;
    pid_t pid = start_in_queue(sqlite, "queued", &connection);
    (void)kill(pid, SIGKILL);
    assert_int_equal(wait_for_worker(pid), -1);
    unlock_database(connection);
    uint64_t start_ms = now_ms();
    must_acquire(place, "mine", "a", LONG_MS);
    assert_in_range(now_ms() - start_ms, 0, 1000 + late_ms());
    expect_intact(sqlite->path);
}

int main(int argc, char **argv) {
    return run_sqlite_tests(argc, argv, stand_in_queue);
}
