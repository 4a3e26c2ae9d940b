/*
 * How often the SQLite store waits for the disk. docs/GUARANTEES.md says what must last; here it is counted that nothing
 * waits more often than that: a grant and a release once each, a renewal and a heartbeat not at all.
 */
#include "conformance/sqlite/sqlite_place.h"

#include <sys/syscall.h>
#include <unistd.h>

static unsigned flushes;

/* In place of the C library's, also for libsqlite3: it must be seen there. */
__attribute__((visibility("default"))) int fdatasync(int fd) {
    flushes++;
    return (int)syscall(SYS_fdatasync, fd);
}

static unsigned count_flushes(void) {
    unsigned count = flushes;
    flushes = 0;
    return count;
}

SQLITE_CASE(a_grant_waits_for_the_disk_once_and_a_renewal_not_at_all) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_true(count_flushes() > 0); /* the function above is the one that is called */
    for (unsigned i = 0; i < 20; i++) {
        token = must_acquire(place, "t", "a", LONG_MS);
        assert_int_equal(count_flushes(), 1);
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
        assert_int_equal(count_flushes(), 0);
        expect_outcome(release(place, "t", "a", token), TEN_OK);
        assert_int_equal(count_flushes(), 1);
    }
}
