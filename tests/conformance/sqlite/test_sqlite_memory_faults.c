/*
 * The stores without memory: every allocation, ours and SQLite's, is failed in turn, the Nth, then the N+1st, until a
 * run is clean. No crash, no leak (the sanitizer's build sees to that), no false success, and all works afterwards.
 * Fault 35.
 */
#include "conformance/sqlite/faulty_vfs.h"
#include "conformance/sqlite/ledger.h"

#include <stdio.h>

#include "base/alloc.h"

#define RUNS_MAX 6000

/* ---- SQLite's memory ----------------------------------------------------------------------------------- */

static sqlite3_mem_methods real_memory;
static long countdown = -1;
static bool has_failed;

static bool fails(void) {
    if (countdown < 0 || countdown-- > 0)
        return false;
    has_failed = true;
    return true;
}

static void *failing_malloc(int size) {
    return fails() ? NULL : real_memory.xMalloc(size);
}

static void *failing_realloc(void *memory, int size) {
    return fails() ? NULL : real_memory.xRealloc(memory, size);
}

/* Before anything else in the program uses SQLite. Without lookaside, so that small allocations come here, too. */
static void take_over_memory(void) {
    static sqlite3_mem_methods methods;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK)
        return;
    methods = real_memory;
    methods.xMalloc = failing_malloc;
    methods.xRealloc = failing_realloc;
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    (void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
}

/* ---- whose memory fails -------------------------------------------------------------------------------- */

struct memory {
    const char *whose;
    void (*fail_after)(long skip);
    bool (*mend)(void);
};

static void fail_sqlite(long skip) {
    has_failed = false;
    countdown = skip;
}

static bool mend_sqlite(void) {
    countdown = -1;
    return has_failed;
}

static void fail_ours(long skip) {
    ten_alloc_fail_after(skip);
}

static bool mend_ours(void) {
    bool failed = ten_alloc_has_failed();
    ten_alloc_fail_after(-1);
    return failed;
}

static const struct memory memories[] = {
    {"SQLite's", fail_sqlite, mend_sqlite},
    {"our own", fail_ours, mend_ours},
};

/* ---- tests --------------------------------------------------------------------------------------------- */

static void check_error(int r) {
    /* SQLite forgoes some memory without harm, and tells the lack of other memory as a failed read. */
    if (r != TENURE_OK && r != TENURE_E_NOMEM && r != TENURE_E_STORE && r != TENURE_E_UNREACHABLE)
        fail_msg("a failed allocation came to %s", tenure_error_name(r));
}

static void run_script(struct sqlite_place *sqlite, const char *url, const struct memory *memory) {
    struct ledger ledger;
    ten_store *store = open_store(url);
    ledger_start(&ledger, store);
    unsigned told = 0;
    long n = 0;
    for (;; n++) {
        assert_true(n < RUNS_MAX);
        memory->fail_after(n);
        int r = ledger_run(&ledger, store);
        bool failed = memory->mend();
        if (!failed) {
            assert_int_equal(r, TENURE_OK);
            break;
        }
        check_error(r);
        told += r == TENURE_E_NOMEM;
        ledger_check(&ledger, store);
    }
    print_message("# %s memory, %s: %ld allocations failed in turn, %u times told\n", memory->whose,
                  sqlite ? "sqlite" : "memory", n, told);
    ledger_check(&ledger, store);
    assert_int_equal(ledger_run(&ledger, store), TENURE_OK);
    ten_store_close(store);
    if (sqlite)
        expect_intact(sqlite->path);
}

/* A handle that is open has its statements and pages already; a new one each time has everything before it. */
static void run_open_to_close(struct sqlite_place *sqlite, const char *url, const struct memory *memory) {
    struct ledger ledger;
    ten_store *store = open_store(url);
    ledger_start(&ledger, store);
    unsigned told = 0;
    long n = 0;
    for (;; n++) {
        assert_true(n < RUNS_MAX);
        ten_store *tried = NULL;
        ten_error error = {0};
        memory->fail_after(n);
        int r = ten_store_open(url, NULL, &tried, &error);
        if (r < 0)
            assert_true(error.message[0] != '\0');
        else
            r = ledger_run(&ledger, tried);
        ten_store_close(tried);
        bool failed = memory->mend();
        if (!failed) {
            assert_int_equal(r, TENURE_OK);
            break;
        }
        check_error(r);
        told += r == TENURE_E_NOMEM;
        ledger_check(&ledger, store);
    }
    print_message("# %s memory, %s from open to close: %ld allocations failed in turn, %u times told\n", memory->whose,
                  sqlite ? "sqlite" : "memory", n, told);
    assert_true(told > 0);
    ten_store_close(store);
    if (sqlite)
        expect_intact(sqlite->path);
}

SQLITE_CASE(each_allocation_of_an_open_sqlite_store_may_fail) {
    for (size_t i = 0; i < TEN_COUNT(memories); i++) {
        struct sqlite_place *sqlite = *state;
        run_script(sqlite, sqlite->url, &memories[i]);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

SQLITE_CASE(each_allocation_of_a_sqlite_store_may_fail_from_open_to_close) {
    for (size_t i = 0; i < TEN_COUNT(memories); i++) {
        struct sqlite_place *sqlite = *state;
        run_open_to_close(sqlite, sqlite->url, &memories[i]);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

SQLITE_CASE(each_allocation_of_a_memory_store_may_fail) {
    run_script(NULL, "memory:faults", &memories[1]);
    run_open_to_close(NULL, "memory:more-faults", &memories[1]);
}

int main(int argc, char **argv) {
    take_over_memory();
    faulty_vfs_register();
    faulty_vfs_skip_sync();
    return run_sqlite_tests(argc, argv, NULL);
}
