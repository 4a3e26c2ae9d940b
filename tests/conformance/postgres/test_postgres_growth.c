/*
 * What a PostgreSQL store does over a long life: old entries and counters go, a page costs the same however many targets
 * there are, and `tenure doctor` names what keeps dead rows.
 */
#include "conformance/postgres/postgres_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct place *open_place(void **state) {
    struct postgres_place *postgres = *state;
    postgres_place_open(postgres, "");
    return &postgres->place;
}

/* ---- what is old */

POSTGRES_CASE(entries_of_the_feed_go_after_thirty_days_and_younger_ones_stay) {
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "old", "a", LONG_MS);
    must_acquire(place, "kept", "a", LONG_MS);
    (void)postgres_text(postgres,
                        "UPDATE tenure.change SET at = at - interval '31 days' WHERE namespace = '%s' "
                        "AND id = 'old' RETURNING 1",
                        place->ns);
    for (int i = 0; i < 4; i++) /* it is trimmed now and then */
        use_many(place, "t", 250);
    struct seen seen = {0};
    uint64_t cursor = TEN_CURSOR_OLDEST;
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 2, see_change, &seen, CALL_MS), 0);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.at[0].target, "kept");
    assert_string_equal(seen.at[1].target, "t0");
}

/* ---- pages */

/* How many rows of Tenure's tables the session has read, by an index or without one. */
static unsigned long count_rows_read(PGconn *connection) {
    PGresult *result = PQexec(connection, "SELECT sum(seq_tup_read) + sum(coalesce(idx_tup_fetch, 0)) "
                                          "FROM pg_stat_xact_user_tables WHERE schemaname = 'tenure'");
    assert_int_equal(PQntuples(result), 1);
    unsigned long count = strtoul(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return count;
}

/* How many of them a call reads. */
static unsigned long rows_read(PGconn *connection, const char *call) {
    postgres_say(connection, "BEGIN");
    unsigned long before = count_rows_read(connection);
    postgres_say(connection, call);
    unsigned long after = count_rows_read(connection);
    postgres_say(connection, "ROLLBACK");
    return after - before;
}

/* So many targets that were leased once: u1, u2... */
static void make_targets(struct postgres_place *postgres, unsigned count) {
    (void)postgres_text(
        postgres,
        "WITH many AS (INSERT INTO tenure.record SELECT split_part(key, ' ', 1) || ' 4u' || n, version, "
        "number, now(), '' FROM tenure.record, generate_series(1, %u) AS n WHERE" KIND(
            "4") "AND" ID "= 't' RETURNING 1) SELECT count(*) FROM many",
        count);
    (void)postgres_text(postgres,
                        "WITH many AS (INSERT INTO tenure.value SELECT split_part(key, ' ', 1) || ' 4u' || n, value "
                        "FROM tenure.value, generate_series(1, %u) AS n WHERE" KIND(
                            "4") "AND" ID "= 't' RETURNING 1) SELECT count(*) FROM many",
                        count);
}

/* Not all of what follows it: to go through a million targets would take a million times as long as a page. Nor if few of
 * them are held, or free. */
POSTGRES_CASE(a_page_reads_about_as_many_targets_as_it_shows) {
    enum { PAGE = 50 };
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    make_targets(postgres, 20000);
    must_acquire(place, "v", "a", LONG_MS);
    PGconn *connection = postgres_connect(postgres);
    for (int analyzed = 0; analyzed < 2; analyzed++) {
        char call[200];
        for (int names = 0; names < 3; names++) { /* all, held, free */
            snprintf(call, sizeof call, "SELECT * FROM tenure.scan('1000', '%s 4t', '%s 5', %d, %d)", place->ns,
                     place->ns, PAGE, names);
            assert_in_range(rows_read(connection, call), 1, 4 * PAGE);
        }
        snprintf(call, sizeof call, "SELECT * FROM tenure.scan('1000', '', '', %d, 3)", PAGE);
        assert_in_range(rows_read(connection, call), 1, 4 * PAGE);
        (void)postgres_text(postgres, "ANALYZE tenure.record");
        (void)postgres_text(postgres, "ANALYZE tenure.value");
    }
    PQfinish(connection);
}

/* A plan that was made for a table with one row must serve one with many: the next statistics may be long in coming. */
POSTGRES_CASE(a_batch_reads_about_as_many_leases_as_it_has) {
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "ANALYZE tenure.record");
    PGconn *connection = postgres_connect(postgres);
    for (int i = 0; i < 2; i++) {
        char keys[512];
        char call[1200];
        snprintf(keys, sizeof keys, "'{%s 4t,%s 4u1,%s 4u2,%s 4u3}'", place->ns, place->ns, place->ns, place->ns);
        snprintf(call, sizeof call, "SELECT * FROM tenure.read('1000', %s)", keys);
        assert_in_range(rows_read(connection, call), 1, 30);
        snprintf(call, sizeof call,
                 "SELECT * FROM tenure.touch('1000', '%s', (SELECT identity FROM tenure.here), 1, 0, %s, "
                 "'{-1,-1,-1,-1}', '{a,a,a,a}', '{1,1,1,1}')",
                 place->ns, keys);
        assert_in_range(rows_read(connection, call), 1, 40);
        snprintf(call, sizeof call,
                 "SELECT * FROM tenure.touch('1000', '%s', (SELECT identity FROM tenure.here), 1, 1000, '{%s 4t}', "
                 "(SELECT array_agg(version) FROM tenure.record WHERE key = '%s 4t'), '{a}', '{%u}')",
                 place->ns, place->ns, place->ns, (unsigned)(2 * LONG_MS));
        assert_in_range(rows_read(connection, call), 1, 40);
        if (i == 0)
            make_targets(postgres, 5000);
    }
    PQfinish(connection);
}

/* Only every thousandth change reads the feed, to find out how much of it to trim. */
POSTGRES_CASE(a_change_does_not_read_the_feed) {
    enum { FEED = 20000 };
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    put_target(place, "t");
    (void)postgres_text(postgres,
                        "WITH many AS (INSERT INTO tenure.change SELECT namespace, number + n, at, id, text "
                        "FROM tenure.change, generate_series(1, %u) AS n RETURNING 1), "
                        "moved AS (UPDATE tenure.feed SET last = last + %u) SELECT count(*) FROM many",
                        FEED, FEED);
    PGconn *connection = postgres_connect(postgres);
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 2; i++) { /* one of them may be the thousandth */
        char call[1200];
        snprintf(
            call, sizeof call,
            "SELECT * FROM tenure.commit('1000', '%s', (SELECT identity FROM tenure.here), 1, %d, 1, false, false, "
            "false, false, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', "
            "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{1}', '{t}', '{text}')",
            place->ns, 2 * FEED + i);
        least = ten_min_u64(least, rows_read(connection, call));
    }
    assert_in_range(least, 1, 100);
    PQfinish(connection);
}

/* ---- what keeps dead rows (the clock makes a transaction old) */

struct snapshots {
    unsigned warnings;
    char text[2048]; /* all of them, with what to do */
};

static void note_snapshots(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                           void *userdata) {
    struct snapshots *snapshots = userdata;
    size_t size = strlen(snapshots->text);
    if (strcmp(check, "old snapshots") != 0)
        return;
    snapshots->warnings += level == TENURE_CHECK_WARN;
    snprintf(snapshots->text + size, sizeof snapshots->text - size, "%s -> %s\n", found, advice);
}

static struct snapshots look_for_snapshots(const struct place *place) {
    struct snapshots snapshots = {0};
    assert_int_equal(place->store->ops->check(place->store, note_snapshots, &snapshots, HANG_MS), TENURE_OK);
    return snapshots;
}

/* A transaction that has read, and goes on. */
static PGconn *begin_reading(const struct postgres_place *postgres) {
    PGconn *connection = postgres_connect(postgres);
    postgres_say(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    postgres_say(connection, "SELECT * FROM tenure.record");
    return connection;
}

/* So many transactions. */
static void run_transactions(struct postgres_place *postgres, unsigned count) {
    (void)postgres_text(postgres,
                        "DO $$ BEGIN PERFORM set_config('synchronous_commit', 'off', false); FOR i IN 1..%u LOOP "
                        "PERFORM txid_current(); COMMIT; END LOOP; END $$",
                        count);
}

static void wait_until(struct postgres_place *postgres, const char *condition) {
    uint64_t end_ms = now_ms() + HANG_MS;
    while (strcmp(postgres_text(postgres, "SELECT coalesce((%s), false)", condition), "t") != 0) {
        assert_true(now_ms() < end_ms);
        sleep_ms(20);
    }
}

POSTGRES_CASE(a_slot_that_nobody_uses_and_a_standby_that_keep_dead_rows_are_named) {
    static const char *const with_slot[] = {"hot_standby_feedback=on", "wal_receiver_status_interval=1",
                                            "primary_slot_name=left_over", NULL};
    static const char *const without[] = {"hot_standby_feedback=on", "wal_receiver_status_interval=1", NULL};
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "SELECT pg_create_physical_replication_slot('left_over')");
    postgres->standby.settings = with_slot;
    assert_int_equal(postgres_server_start_standby(&postgres->standby, postgres->server), 0);
    wait_until(postgres, "SELECT xmin IS NOT NULL FROM pg_replication_slots");
    run_transactions(postgres, 2000);
    assert_int_equal(look_for_snapshots(place).warnings, 0); /* it is in use, and not far behind */
    postgres_server_stop(&postgres->standby);
    wait_until(postgres, "SELECT NOT active FROM pg_replication_slots");
    run_transactions(postgres, 2000);
    struct snapshots snapshots = look_for_snapshots(place);
    assert_int_equal(snapshots.warnings, 1);
    assert_non_null(strstr(snapshots.text, "replication slot 'left_over' (not in use)"));
    assert_non_null(strstr(snapshots.text, "pg_drop_replication_slot('left_over')"));
    (void)postgres_text(postgres, "SELECT pg_drop_replication_slot('left_over')");
    assert_int_equal(look_for_snapshots(place).warnings, 0);

    struct postgres_place there = {.server = &postgres->standby};
    memcpy(there.database, postgres->database, sizeof there.database);
    postgres->standby.settings = without;
    assert_int_equal(postgres_server_start_again(&postgres->standby), 0);
    PGconn *reader = begin_reading(&there);
    wait_until(postgres, "SELECT backend_xmin IS NOT NULL FROM pg_stat_replication");
    run_transactions(postgres, 110000);
    snapshots = look_for_snapshots(place);
    assert_int_equal(snapshots.warnings, 1);
    assert_non_null(strstr(snapshots.text, "standby at session"));
    assert_non_null(strstr(snapshots.text, "hot_standby_feedback"));
    PQfinish(reader);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    return run_cases(postgres_group_setup, postgres_group_teardown);
}

/* The last case: the clock stays where it sets it. */
POSTGRES_CASE(a_transaction_that_keeps_dead_rows_is_named_with_what_to_do) {
    struct postgres_place *postgres = *state;
    char expected[128];
    (void)postgres_text(postgres, "ALTER SYSTEM SET max_prepared_transactions = 2");
    postgres_server_stop(postgres->server);
    assert_int_equal(postgres_server_set_clock(postgres->server, "+0"), 0);
    assert_int_equal(postgres_server_start_again(postgres->server), 0);
    struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "BEGIN; CREATE TABLE forgotten (); PREPARE TRANSACTION 'it''s'");
    PGconn *reader = begin_reading(postgres);
    struct snapshots snapshots = look_for_snapshots(place);
    assert_int_equal(snapshots.warnings, 0);
    assert_non_null(strstr(snapshots.text, "none"));
    assert_int_equal(postgres_server_set_clock(postgres->server, "+10m"), 0);
    snapshots = look_for_snapshots(place);
    assert_int_equal(snapshots.warnings, 2);
    snprintf(expected, sizeof expected, "pg_terminate_backend(%d)", PQbackendPID(reader));
    assert_non_null(strstr(snapshots.text, expected));
    assert_non_null(strstr(snapshots.text, "idle in transaction"));
    assert_non_null(strstr(snapshots.text, "ROLLBACK PREPARED 'it''s'"));
    assert_non_null(strstr(snapshots.text, "has begun 10m"));
    postgres_say(reader, "COMMIT");
    (void)postgres_text(postgres, "ROLLBACK PREPARED 'it''s'");
    assert_int_equal(look_for_snapshots(place).warnings, 0);
    PQfinish(reader);
}
