/*
 * The SQLite store when its database was lost, replaced or restored: an epoch begins, nobody new is let in until what
 * may have been forgotten has ended, the living put their leases back, and tokens go on above all that were.
 */
#include "conformance/sqlite/sqlite_place.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TTL_MS UINT64_C(20000)

/* ---- ways to lose data --------------------------------------------------------------------------------- */

static void backup_path(const struct sqlite_place *sqlite, char path[FIXTURE_PATH_SIZE + 32]) {
    snprintf(path, FIXTURE_PATH_SIZE + 32, "%s/backup.db", sqlite->directory);
}

/* As `mv backup.db leases.db` by an operator who knows about the files beside it: another inode. */
static void move_backup_over(struct sqlite_place *sqlite) {
    char backup[FIXTURE_PATH_SIZE + 32];
    backup_path(sqlite, backup);
    remove_log(sqlite->path);
    remove_log(backup);
    assert_int_equal(rename(backup, sqlite->path), 0);
}

/* As `.restore backup.db` in the sqlite3 shell: the same inode, older content. */
static void restore_backup_into(struct sqlite_place *sqlite) {
    char backup[FIXTURE_PATH_SIZE + 32];
    backup_path(sqlite, backup);
    copy_database(backup, sqlite->path);
}

static void delete_database(struct sqlite_place *sqlite) {
    remove_log(sqlite->path);
    assert_int_equal(unlink(sqlite->path), 0);
}

/* ---- what must hold after each ------------------------------------------------------------------------- */

struct before {
    uint64_t living;    /* token of a lease whose holder lives and that was granted after the backup */
    uint64_t kept;      /* of one that is in the backup, too */
    uint64_t forgotten; /* of one that was granted after the backup, and whose holder is dead */
    uint64_t cursor;
};

static struct before make_history(struct sqlite_place *sqlite) {
    const struct place *place = &sqlite->place;
    struct before before;
    char backup[FIXTURE_PATH_SIZE + 32];
    backup_path(sqlite, backup);
    sqlite->place.store = open_fake(sqlite);
    sqlite->place.other = open_fake(sqlite);
    must_acquire(place, "living", "former", TTL_MS);
    before.kept = must_acquire(place, "kept", "keeper", TTL_MS);
    copy_database(sqlite->path, backup);
    expect_outcome(force(place, "living", TEN_OP_FORCE_NOW, NULL), TEN_OK);
    for (int i = 0; i < 3; i++)
        expect_outcome(release(place, "living", NULL, must_acquire(place, "living", "x", TTL_MS)), TEN_OK);
    sqlite->clock.boot_ms += 5000;
    before.living = must_acquire(place, "living", "holder", TTL_MS);
    before.forgotten = must_acquire(place, "forgotten", "dead", TTL_MS);
    expect_outcome(renew(place, "kept", "keeper", before.kept, TTL_MS), TEN_OK);
    before.cursor = cursor_now(place->other, place->ns);
    sqlite->clock.boot_ms += 1000;
    return before;
}

static void expect_recovering(ten_result result) {
    expect_outcome(result, TEN_HELD);
    expect_holder(result, NULL);
    assert_true(result.recovering);
    assert_in_range(result.remaining_ms, TTL_MS - 1000, TTL_MS);
}

static void expect_feed_to_start_over(const struct place *place, uint64_t cursor) {
    struct seen seen = {0};
    assert_int_equal(place->other->ops->changes(place->other, "poll", &cursor, 10, see_change, &seen, CALL_MS),
                     TENURE_E_RESYNC);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
    /* The epoch's own entry is in the feed, after a gap that no old cursor can bridge. */
    sqlite3_int64 at = 0;
    do {
        cursor--;
        seen.count = 0;
        uint64_t from = cursor;
        if (place->other->ops->changes(place->other, "poll", &from, 1, see_change, &seen, CALL_MS) < 0)
            break;
    } while (++at < 50 && (seen.count == 0 || seen.at[0].change.kind != TENURE_EVENT_RECOVERING));
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
}

static void check_after_loss(struct sqlite_place *sqlite, const struct before *before) {
    const struct place *place = &sqlite->place;
    /* Newcomers wait, also for what nobody ever held. */
    expect_recovering(acquire(place, "forgotten", "new", TTL_MS));
    expect_recovering(acquire(place, "never", "new", TTL_MS));
    expect_feed_to_start_over(place, before->cursor);
    /* The living put back what is theirs: by name, token and TTL; by the token alone nothing is proven. */
    expect_outcome(renew(place, "forgotten", NULL, before->forgotten, TTL_MS), TEN_LOST);
    ten_result result = renew(place, "living", "holder", before->living, TTL_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.token, before->living);
    assert_int_equal(result.remaining_ms, TTL_MS);
    expect_outcome(renew(place, "kept", "keeper", before->kept, TTL_MS), TEN_OK);
    /* A former holder with an older token does not. */
    expect_outcome(renew(place, "living", "x", before->living - 1, TTL_MS), TEN_LOST);
    expect_outcome(renew(place, "living", "x", before->living, TTL_MS), TEN_LOST);
    result = acquire(place, "living", "new", TTL_MS);
    expect_outcome(result, TEN_HELD);
    expect_holder(result, "holder");
    /* What nobody has put back has a bound for a token; what was has its own. */
    result = read_lease(place, "forgotten");
    assert_true(result.recovering && result.token > before->forgotten);
    result = read_lease(place, "living");
    assert_true(!result.recovering && result.token == before->living);
    /* What is put back is a lease as any other. */
    expect_outcome(renew(place, "living", NULL, before->living, 0), TEN_OK);
    /* The epoch has begun once, and another handle is in the same one. */
    ten_op take = {
        .kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "never", .holder = "z", .ttl_ms = TTL_MS};
    uint64_t cursor = cursor_now(place->store, place->ns);
    expect_recovering(apply_one(place->other, take));
    assert_int_equal(cursor_now(place->store, place->ns), cursor);
    /* When all that may have been forgotten has ended, everybody may enter, above every token that was. */
    sqlite->clock.boot_ms += TTL_MS;
    result = acquire(place, "forgotten", "new", TTL_MS);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > before->forgotten);
    result = acquire(place, "living", "new", TTL_MS);
    expect_outcome(result, TEN_OK);
    assert_true(result.token > before->living);
    assert_true(result.token <= TENURE_TOKEN_MAX);
    expect_intact(sqlite->path);
}

SQLITE_CASE(a_database_replaced_by_an_older_backup_begins_an_epoch) {
    struct sqlite_place *sqlite = *state;
    struct before before = make_history(sqlite);
    move_backup_over(sqlite);
    check_after_loss(sqlite, &before);
}

SQLITE_CASE(a_database_restored_in_place_from_an_older_backup_begins_an_epoch) {
    struct sqlite_place *sqlite = *state;
    struct before before = make_history(sqlite);
    restore_backup_into(sqlite);
    check_after_loss(sqlite, &before);
}

SQLITE_CASE(a_database_deleted_beside_its_side_file_begins_an_epoch) {
    struct sqlite_place *sqlite = *state;
    struct before before = make_history(sqlite);
    delete_database(sqlite);
    check_after_loss(sqlite, &before);
}

SQLITE_CASE(a_loss_while_nobody_had_the_store_open_begins_an_epoch_too) {
    static void (*const ways[])(struct sqlite_place *) = {move_backup_over, restore_backup_into, delete_database};
    for (size_t i = 0; i < TEN_COUNT(ways); i++) {
        struct sqlite_place *sqlite = *state;
        struct before before = make_history(sqlite);
        ten_store_close(sqlite->place.store);
        ten_store_close(sqlite->place.other);
        ways[i](sqlite);
        sqlite->place.store = open_fake(sqlite);
        sqlite->place.other = open_fake(sqlite);
        check_after_loss(sqlite, &before);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

SQLITE_CASE(the_quarantine_lasts_until_the_longest_forgotten_lease_has_ended) {
    struct sqlite_place *sqlite = *state;
    struct before before = make_history(sqlite);
    const struct place *place = &sqlite->place;
    (void)before;
    must_acquire(place, "long", "dead", 10 * TTL_MS);
    sqlite->clock.boot_ms += TTL_MS;
    restore_backup_into(sqlite);
    ten_result result = acquire(place, "long", "new", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_int_equal(result.remaining_ms, 9 * TTL_MS);
    sqlite->clock.boot_ms += 9 * TTL_MS - 1;
    expect_outcome(acquire(place, "long", "new", TTL_MS), TEN_HELD);
    sqlite->clock.boot_ms += 1;
    expect_outcome(acquire(place, "long", "new", TTL_MS), TEN_OK);
}

/* Renewals are in no feed, but a lease that was only renewed since the backup is forgotten as well. */
SQLITE_CASE(a_renewal_lost_with_the_database_begins_an_epoch_too) {
    static void (*const ways[])(struct sqlite_place *) = {move_backup_over, restore_backup_into};
    for (size_t i = 0; i < TEN_COUNT(ways); i++) {
        struct sqlite_place *sqlite = *state;
        const struct place *place = &sqlite->place;
        char backup[FIXTURE_PATH_SIZE + 32];
        backup_path(sqlite, backup);
        sqlite->place.store = open_fake(sqlite);
        uint64_t token = must_acquire(place, "t", "a", TTL_MS);
        copy_database_file(sqlite->path, backup);
        sqlite->clock.boot_ms += TTL_MS - 1;
        expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
        sqlite->clock.boot_ms += 2;
        ways[i](sqlite);
        expect_outcome(acquire(place, "t", "b", TTL_MS), TEN_HELD);
        expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
        assert_int_equal(sqlite_place_teardown(state), 0);
        assert_int_equal(sqlite_place_setup(state), 0);
    }
}

SQLITE_CASE(a_copy_opened_elsewhere_begins_an_epoch_and_leaves_the_original_alone) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    char copy[FIXTURE_PATH_SIZE + 32];
    char url[FIXTURE_URL_SIZE];
    snprintf(copy, sizeof copy, "%s/copy.db", sqlite->directory);
    snprintf(url, sizeof url, "sqlite:%s", copy);
    copy_database_file(sqlite->path, copy);
    assert_int_equal(
        ten_store_open(url, &(ten_store_config){.clock = &sqlite->clock.clock}, &sqlite->place.other, &(ten_error){0}),
        TENURE_OK);
    ten_op take = {.kind = TEN_OP_ACQUIRE, .namespace_name = "poll", .target = "u", .holder = "b", .ttl_ms = TTL_MS};
    ten_result result = apply_one(sqlite->place.other, take);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering && result.remaining_ms >= TTL_MS);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    assert_int_equal(must_acquire(place, "u", "b", TTL_MS), 1);
}

SQLITE_CASE(losing_the_side_file_alone_is_no_loss) {
    struct sqlite_place *sqlite = *state;
    const struct place *place = &sqlite->place;
    char side[FIXTURE_PATH_SIZE + 64];
    snprintf(side, sizeof side, "%s-lock", sqlite->path);
    sqlite->place.store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    assert_int_equal(unlink(side), 0);
    assert_int_equal(must_acquire(place, "u", "b", TTL_MS), 1);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    /* Nor is one with something else in it. */
    FILE *file = fopen(side, "w");
    assert_non_null(file);
    for (int i = 0; i < 300; i++)
        fputs("rubbish ", file);
    fclose(file);
    assert_int_equal(must_acquire(place, "v", "b", TTL_MS), 1);
}

/* ---- what only the side file can tell */

static void side_path(const struct sqlite_place *sqlite, const char *ending, char path[FIXTURE_PATH_SIZE + 64]) {
    snprintf(path, FIXTURE_PATH_SIZE + 64, "%s-lock%s", sqlite->path, ending);
}

static void close_handles(struct sqlite_place *sqlite) {
    ten_store_close(sqlite->place.store);
    ten_store_close(sqlite->place.other);
    sqlite->place.store = sqlite->place.other = NULL;
}

static const char *const endings[] = {"", "-lock", "-wal", "-shm"};

/* As `cp -a` of all that is there. */
static void copy_directory(const struct sqlite_place *sqlite, const char *from, const char *to) {
    for (size_t i = 0; i < TEN_COUNT(endings); i++) {
        char source[FIXTURE_PATH_SIZE + 64];
        char target[FIXTURE_PATH_SIZE + 64];
        snprintf(source, sizeof source, "%s%s%s", sqlite->path, endings[i], from);
        snprintf(target, sizeof target, "%s%s%s", sqlite->path, endings[i], to);
        if (access(source, F_OK) == 0)
            copy_bytes(source, target);
    }
}

/* The whole directory comes back from a backup: the database, and the side file with what it knew then. */
enum { MOVED, COPIED_OVER, COPIED_OVER_WHILE_OPEN };

static void put_directory_back(struct sqlite_place *sqlite, int how) {
    struct place *place = &sqlite->place;
    char side[FIXTURE_PATH_SIZE + 64];
    char side_backup[FIXTURE_PATH_SIZE + 64];
    side_path(sqlite, "", side);
    side_path(sqlite, ".backup", side_backup);
    place->store = open_fake(sqlite);
    expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", 1000)), TEN_OK);
    if (how != COPIED_OVER_WHILE_OPEN)
        close_handles(sqlite);
    copy_directory(sqlite, "", ".backup");
    if (how != COPIED_OVER_WHILE_OPEN)
        place->store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "b", TTL_MS);
    expect_outcome(renew(place, "t", "b", token, TTL_MS), TEN_OK);
    if (how != COPIED_OVER_WHILE_OPEN)
        close_handles(sqlite);
    sqlite->clock.boot_ms += 2000; /* what the old side file remembers is over */
    if (how == MOVED) {
        char backup[FIXTURE_PATH_SIZE + 64];
        snprintf(backup, sizeof backup, "%s.backup", sqlite->path);
        assert_int_equal(rename(backup, sqlite->path), 0);
        assert_int_equal(rename(side_backup, side), 0);
    } else {
        if (how == COPIED_OVER)
            ten_sleep_us(100000); /* nobody copies a directory there and back faster than that */
        copy_directory(sqlite, ".backup", "");
    }
    if (!place->store)
        place->store = open_fake(sqlite);
    ten_result result = acquire(place, "t", "c", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    sqlite->clock.boot_ms += TENURE_TTL_DEFAULT_MS;
    assert_true(must_acquire(place, "t", "c", TTL_MS) > token);
}

SQLITE_CASE(a_directory_that_was_put_back_makes_newcomers_wait_as_long_as_leases_are) {
    put_directory_back(*state, MOVED);
}

SQLITE_CASE(a_directory_that_was_copied_over_the_old_one_does_so_too) {
    put_directory_back(*state, COPIED_OVER);
}

SQLITE_CASE(a_directory_that_was_copied_over_the_one_in_use_does_so_too) {
    put_directory_back(*state, COPIED_OVER_WHILE_OPEN);
}

/* As `cp backup.db leases.db`: the same file with older content, in which nothing but a renewal is missing. */
SQLITE_CASE(older_content_is_noticed_also_when_only_renewals_are_missing) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    char backup[FIXTURE_PATH_SIZE + 32];
    backup_path(sqlite, backup);
    place->store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    close_handles(sqlite);
    copy_bytes(sqlite->path, backup);
    place->store = open_fake(sqlite);
    sqlite->clock.boot_ms += TTL_MS - 1000;
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    close_handles(sqlite);
    remove_log(sqlite->path);
    copy_bytes(backup, sqlite->path);
    sqlite->clock.boot_ms += 5000; /* by what the backup says, the lease is over */
    place->store = open_fake(sqlite);
    ten_result result = acquire(place, "t", "b", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    expect_holder(acquire(place, "t", "b", TTL_MS), "a");
}

SQLITE_CASE(a_long_lease_that_was_released_makes_nobody_wait) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    const uint64_t month_ms = UINT64_C(30) * 24 * 3600 * 1000;
    place->store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "long", "a", month_ms);
    must_acquire(place, "t", "b", TTL_MS);
    expect_outcome(release(place, "long", "a", token), TEN_OK);
    run_sql(sqlite->path, "VACUUM"); /* looks like a restore */
    ten_result result = acquire(place, "u", "c", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_in_range(result.remaining_ms, 1, TTL_MS);
}

/* As `once --at-least 23h` leaves it: also after other leases were released, which makes the store count again. */
SQLITE_CASE(a_lease_that_is_only_kept_makes_nobody_wait) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    const uint64_t day_ms = UINT64_C(23) * 3600 * 1000;
    place->store = open_fake(sqlite);
    uint64_t token = must_acquire(place, "daily", "a", TTL_MS);
    expect_outcome(keep_off(place, "daily", "a", token, day_ms), TEN_OK);
    expect_outcome(release(place, "long", "b", must_acquire(place, "long", "b", 2 * day_ms)), TEN_OK);
    must_acquire(place, "t", "b", TTL_MS);
    expect_outcome(ask_of(place, "daily", NULL, TEN_ASK_RESIGN), TEN_OK);
    run_sql(sqlite->path, "VACUUM");
    ten_result result = acquire(place, "u", "c", TTL_MS);
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_in_range(result.remaining_ms, 1, TTL_MS);
    /* It is kept nevertheless, also over a reboot. */
    sqlite->clock.boot_ms += TTL_MS;
    expect_outcome(acquire(place, "u", "c", TTL_MS), TEN_OK);
    expect_holder(acquire(place, "daily", "c", TTL_MS), "a");
    memcpy(sqlite->clock.boot_id, "22222222-2222-2222-2222-222222222222", 37);
    close_handles(sqlite);
    place->store = open_fake(sqlite);
    expect_holder(acquire(place, "daily", "c", TTL_MS), "a");
    assert_int_equal(query_sql(sqlite->path, "SELECT kept_ends_ms = ends_ms FROM lease WHERE target = 'daily'"), 1);
}

/* ---- the history */

SQLITE_CASE(the_history_survives_an_epoch_and_readers_start_over) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    place->store = open_fake(sqlite);
    must_acquire(place, "held", "b", TTL_MS);
    uint64_t start = cursor_now(place->store, place->ns);
    for (int i = 0; i < 5; i++)
        expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", TTL_MS)), TEN_OK);
    uint64_t middle = start + 4;
    uint64_t end = cursor_now(place->store, place->ns);
    assert_int_equal(count_changes(place, NULL), 11);
    run_sql(sqlite->path, "VACUUM"); /* looks like a restore */
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_HELD);
    assert_int_equal(count_changes(place, NULL), 12);
    sqlite->clock.boot_ms += TTL_MS + TENURE_TTL_DEFAULT_MS;
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_OK);
    assert_int_equal(count_changes(place, NULL), 13);
    uint64_t cursors[] = {start, middle, end, end + 1};
    for (size_t i = 0; i < TEN_COUNT(cursors); i++) {
        struct seen seen = {0};
        assert_int_equal(
            place->store->ops->changes(place->store, place->ns, &cursors[i], 10, see_change, &seen, CALL_MS),
            TENURE_E_RESYNC);
        assert_int_equal(seen.count, 1);
        assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
    }
}

static int count_change(const ten_change *change, void *userdata) {
    size_t *count = userdata;
    (void)change;
    ++*count;
    return 0;
}

/* The database was much newer than its backup: cursors leap by more than the feed is long. */
SQLITE_CASE(the_history_survives_a_long_leap_of_the_cursors_and_stays_bounded) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    char path[FIXTURE_PATH_SIZE + 32];
    size_t count = 0;
    backup_path(sqlite, path);
    place->store = open_fake(sqlite);
    must_acquire(place, "first", "a", TTL_MS);
    copy_database(sqlite->path, path);
    run_sql(sqlite->path, "UPDATE change SET cursor = cursor + 50000; UPDATE store SET cursor = cursor + 50000");
    must_acquire(place, "second", "a", TTL_MS);
    restore_backup_into(sqlite);
    expect_outcome(acquire(place, "t", "a", TTL_MS), TEN_HELD);
    sqlite->clock.boot_ms += 2 * TENURE_TTL_DEFAULT_MS;
    for (int i = 0; i < 300; i++) /* it is trimmed now and then */
        expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", TTL_MS)), TEN_OK);
    assert_int_equal(query_sql(sqlite->path, "SELECT count(*) FROM change WHERE id = 'first'"), 1);
    run_sql(sqlite->path, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
                          "INSERT INTO change SELECT 1 + i, at_ms, 'poll', 'x', '1 event=lease_released target=x' "
                          "FROM n, (SELECT max(at_ms) AS at_ms FROM change)");
    run_sql(sqlite->path, "UPDATE change SET at_ms = at_ms - 120000"); /* what is young stays */
    for (int i = 0; i < 300; i++)
        expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", TTL_MS)), TEN_OK);
    uint64_t cursor = TEN_CURSOR_OLDEST;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 20000, count_change, &count, CALL_MS),
                     0);
    assert_in_range(count, TEN_FEED_MAX, TEN_FEED_MAX + 600);
}

SQLITE_CASE(an_operator_ends_a_recovery_and_the_history_says_who) {
    struct sqlite_place *sqlite = *state;
    struct place *place = &sqlite->place;
    uint64_t left_ms = 1;
    place->store = open_fake(sqlite);
    const ten_store_ops *ops = place->store->ops;
    must_acquire(place, "t", "a", 10 * TTL_MS);
    assert_int_equal(ops->recovery(place->store, place->ns, TTL_MS, "me@here", &left_ms, CALL_MS), TENURE_OK);
    assert_int_equal(left_ms, 0);
    assert_int_equal(count_changes(place, NULL), 1);
    run_sql(sqlite->path, "VACUUM");
    uint64_t cursor = cursor_now(place->store, place->ns);
    assert_int_equal(ops->recovery(place->store, place->ns, TTL_MS, NULL, &left_ms, CALL_MS), TENURE_OK);
    assert_int_equal(left_ms, 10 * TTL_MS);
    expect_outcome(acquire(place, "u", "b", TTL_MS), TEN_HELD);
    assert_int_equal(ops->recovery(place->store, place->ns, TTL_MS, "me@here", &left_ms, CALL_MS), TENURE_OK);
    assert_int_equal(left_ms, 10 * TTL_MS);
    expect_outcome(acquire(place, "u", "b", TTL_MS), TEN_OK);
    expect_holder(acquire(place, "t", "b", TTL_MS), "a"); /* what the store remembers stays held */
    /* Whoever waits looks again. */
    struct seen seen = {0};
    assert_int_equal(ops->changes(place->store, place->ns, &cursor, 10, see_change, &seen, CALL_MS), TENURE_E_RESYNC);
    cursor = TEN_CURSOR_OLDEST;
    seen.count = 0;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 4);
    assert_int_equal(seen.at[2].change.kind, TENURE_EVENT_RECOVERING);
    assert_int_equal(seen.at[2].change.reason, TEN_REASON_FORCED);
    assert_string_equal(seen.at[2].actor, "me@here");
}

int main(int argc, char **argv) {
    return run_sqlite_tests(argc, argv, NULL);
}
