/*
 * The SQLite store when the disk fails: each read, write, fsync, open and lock of SQLite is failed in turn, once and
 * for good, until a run is clean. Never a false success, never a token twice, never a damaged database; and the handle
 * works again when the disk does. Faults 20 and 22.
 */
#include "conformance/sqlite/faulty_vfs.h"
#include "conformance/sqlite/ledger.h"

#include <stdio.h>

#define RUNS_MAX 3000

struct fault {
    const char *what;
    unsigned kinds;
    bool lasting;
    int expected; /* the only error that may come of it; 0: any that the contract has for a store that fails */
};

static bool is_store_error(int r) {
    return r == TENURE_E_STORE || r == TENURE_E_UNREACHABLE || r == TENURE_E_FULL || r == TENURE_E_TIMEOUT;
}

static void check_error(const struct fault *fault, int r) {
    if (r == TENURE_OK)
        return;
    if (fault->expected)
        assert_int_equal(r, fault->expected);
    else if (!is_store_error(r))
        fail_msg("%s came to %s", fault->what, tenure_error_name(r));
}

static ten_store *open_without_faults(struct sqlite_place *sqlite) {
    (void)faulty_vfs_mend();
    return open_real(sqlite);
}

/* The Nth call fails during the script, on a handle that is open. */
static void fail_during_script(struct sqlite_place *sqlite, const struct fault *fault) {
    struct ledger ledger;
    ten_store *store = open_without_faults(sqlite);
    ledger_start(&ledger, store);
    assert_int_equal(ledger_run(&ledger, store), TENURE_OK);
    unsigned failures = 0;
    long n = 0;
    for (;; n++) {
        assert_true(n < RUNS_MAX);
        faulty_vfs_fail(fault->kinds, n, fault->lasting);
        int r = ledger_run(&ledger, store);
        bool failed = faulty_vfs_mend();
        if (!failed) {
            assert_int_equal(r, TENURE_OK);
            break;
        }
        check_error(fault, r);
        failures += r < 0;
        /* By another connection first: what is on the disk, not what this one remembers. */
        if (n % 8 == 0) {
            ten_store *other = open_without_faults(sqlite);
            ledger_check(&ledger, other);
            ten_store_close(other);
        }
        ledger_check(&ledger, store);
        assert_int_equal(ledger_run(&ledger, store), TENURE_OK);
    }
    print_message("# %s: %ld calls failed in turn, %u runs had an error\n", fault->what, n, failures);
    assert_true(n > 0);
    ten_store_close(store);
    store = open_without_faults(sqlite);
    ledger_check(&ledger, store);
    ten_store_close(store);
    expect_intact(sqlite->path);
}

static void run_faults(void **state, const struct fault *faults, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fail_during_script(*state, &faults[i]);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

/* Fault 22. */
SQLITE_CASE(an_fsync_that_fails_is_never_a_success) {
    static const struct fault faults[] = {
        {"fsync fails once", FAULT_SYNC, false, TENURE_E_STORE},
        {"fsync fails from then on", FAULT_SYNC, true, 0},
    };
    run_faults(state, faults, TEN_COUNT(faults));
}

/* Fault 20. */
SQLITE_CASE(a_full_disk_is_told_as_such_and_recovers_when_there_is_room) {
    static const struct fault faults[] = {
        {"the disk is full for one write", FAULT_FULL, false, TENURE_E_FULL},
        {"the disk is full from then on", FAULT_FULL, true, TENURE_E_FULL},
    };
    run_faults(state, faults, TEN_COUNT(faults));
}

SQLITE_CASE(a_write_that_fails_half_way_is_never_a_success) {
    static const struct fault faults[] = {
        {"a write fails once", FAULT_WRITE, false, 0},
        {"writes fail from then on", FAULT_WRITE, true, 0},
    };
    run_faults(state, faults, TEN_COUNT(faults));
}

SQLITE_CASE(reads_locks_and_shared_memory_may_fail_at_any_call) {
    static const struct fault faults[] = {
        {"a lock or the shared index fails once", FAULT_SHM | FAULT_LOCK, false, 0},
        {"anything fails once", FAULT_READ | FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_OPEN, false, 0},
    };
    run_faults(state, faults, TEN_COUNT(faults));
}

/* The Nth call fails from opening to closing. */
SQLITE_CASE(opening_fails_cleanly_at_any_call) {
    struct sqlite_place *sqlite = *state;
    static const struct fault any = {
        "opening", FAULT_READ | FAULT_WRITE | FAULT_SYNC | FAULT_TRUNCATE | FAULT_OPEN | FAULT_SHM | FAULT_LOCK, false,
        0};
    for (int fresh = 0; fresh < 2; fresh++) {
        long n = 0;
        for (;; n++) {
            assert_true(n < RUNS_MAX);
            if (fresh) {
                assert_int_equal(sqlite_place_teardown(state), 0);
                assert_int_equal(sqlite_place_setup(state), 0);
            }
            faulty_vfs_fail(any.kinds, n, false);
            ten_store *store = NULL;
            ten_error error = {0};
            int r = ten_store_open(sqlite->url, NULL, &store, &error);
            check_error(&any, r);
            ten_op op = {
                .kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "t", .holder = "a", .ttl_ms = LONG_MS};
            ten_result result = {0};
            if (r == TENURE_OK)
                r = ten_store_apply(store, &op, &result, 1, CALL_MS);
            ten_store_close(store);
            bool failed = faulty_vfs_mend();
            store = open_without_faults(sqlite);
            ten_op read = {.kind = TEN_OP_READ, .namespace_name = "poll", .target = "t"};
            ten_result found = apply_one(store, read);
            if (r == TENURE_OK) {
                expect_outcome(result, TEN_OK);
                expect_holder(found, "a");
                assert_int_equal(found.token, result.token);
            }
            assert_int_equal(apply_one(store, op).token, 1);
            ten_store_close(store);
            if (!failed)
                break;
        }
        print_message("# opening %s: %ld calls failed in turn\n", fresh ? "a new database" : "what is there", n);
        assert_true(n > 10);
        expect_intact(sqlite->path);
    }
}

/* With every fsync failing, what must survive a power cut fails, and what need not does not ask for one. */
SQLITE_CASE(what_must_last_waits_for_the_disk_and_a_plain_renewal_does_not) {
    struct sqlite_place *sqlite = *state;
    ten_store *store = sqlite->place.store = open_without_faults(sqlite);
    uint64_t token = must_acquire(&sqlite->place, "t", "a", LONG_MS);
    ten_op keep = {.kind = TEN_OP_RENEW,
                   .namespace_name = "poll",
                   .target = "t",
                   .holder = "a",
                   .token = token,
                   .ttl_ms = LONG_MS};
    /* Each on a target of its own: what failed may have taken effect nevertheless. */
    ten_op lengthen = keep;
    lengthen.target = "lengthened";
    lengthen.token = must_acquire(&sqlite->place, "lengthened", "a", LONG_MS);
    lengthen.ttl_ms = 2 * LONG_MS;
    ten_op beat = {.kind = TEN_OP_ANNOUNCE, .namespace_name = "poll", .holder = "a", .ttl_ms = LONG_MS, .weight = 1};
    expect_outcome(apply_one(store, beat), TEN_OK);
    ten_op join = beat;
    join.holder = "b";
    ten_op grow = beat;
    grow.holder = "c";
    expect_outcome(apply_one(store, grow), TEN_OK);
    grow.weight = 2;
    ten_op take = {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "u", .holder = "a", .ttl_ms = LONG_MS};
    ten_op give = {.kind = TEN_OP_RELEASE, .namespace_name = "poll", .target = "released", .holder = "a"};
    give.token = must_acquire(&sqlite->place, "released", "a", LONG_MS);
    ten_op ask = {.kind = TEN_OP_ASK, .namespace_name = "poll", .target = "asked", .ask = TEN_ASK_RESIGN};
    must_acquire(&sqlite->place, "asked", "a", LONG_MS);
    ten_op lasting[] = {lengthen, join, grow, take, give, ask};
    ten_result result;
    for (size_t i = 0; i < TEN_COUNT(lasting); i++) {
        faulty_vfs_fail(FAULT_SYNC, 0, true);
        assert_int_equal(ten_store_apply(store, &lasting[i], &result, 1, CALL_MS), TENURE_E_STORE);
        (void)faulty_vfs_mend();
        assert_int_equal(store->ops->ping(store, CALL_MS), TENURE_OK); /* connects again */
    }
    ten_target_edit edit = {.action = TEN_TARGET_PUT, .target = {.id = "t"}};
    faulty_vfs_fail(FAULT_SYNC, 0, true);
    assert_int_equal(store->ops->edit_targets(store, "poll", &edit, 1, CALL_MS), TENURE_E_STORE);
    (void)faulty_vfs_mend();
    assert_int_equal(store->ops->ping(store, CALL_MS), TENURE_OK);
    faulty_vfs_fail(FAULT_SYNC, 0, true);
    expect_outcome(apply_one(store, keep), TEN_OK);
    expect_outcome(apply_one(store, beat), TEN_OK);
    assert_false(faulty_vfs_mend());
    expect_intact(sqlite->path);
}

int main(int argc, char **argv) {
    faulty_vfs_register();
    return run_sqlite_tests(argc, argv, NULL);
}
