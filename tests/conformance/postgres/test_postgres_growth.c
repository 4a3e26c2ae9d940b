/*
 * What a PostgreSQL store does over a long life: old entries and counters go, a page costs the same however many targets
 * there are, and `tenure doctor` names what keeps dead rows.
 */
#include "conformance/postgres/postgres_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres_lease_sql.h"
#include "store/postgres/postgres_target_sql.h"

static struct place *open_place(void **state) {
    struct postgres_place *postgres = *state;
    postgres_place_open(postgres, "");
    return &postgres->place;
}

/* ---- what is old */

static void entries_of_the_feed_go_after_thirty_days_and_younger_ones_stay(void **state) {
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "old", "a", LONG_MS);
    must_acquire(place, "kept", "a", LONG_MS);
    (void)postgres_text(postgres,
                        "UPDATE tenure.change SET at = at - interval '31 days' WHERE namespace = '%s' "
                        "AND target_id = 'old' RETURNING 1",
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

static void counters_go_when_they_were_free_and_unregistered_for_thirty_days(void **state) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    use_once(place, "old");
    uint64_t old = use_once(place, "old");
    uint64_t registered = use_once(place, "registered");
    put_target(place, "registered");
    uint64_t held = must_acquire(place, "held", "a", LONG_MS);
    uint64_t younger = use_once(place, "younger");
    (void)postgres_text(postgres,
                        "WITH aged AS (UPDATE tenure.lease SET acquired_at = now() - interval '31 days', expires_at = "
                        "now() - CASE target_id WHEN 'younger' THEN "
                        "interval '29 days' ELSE interval '31 days' END WHERE holder_id IS NULL RETURNING 1) SELECT "
                        "count(*) FROM aged");
    for (int i = 0; i < 4; i++)
        use_many(place, "busy", 260); /* so many acquires that a step of the search is certain */
    assert_string_equal(postgres_text(postgres, "SELECT count(*) FROM tenure.lease WHERE target_id = 'old'"), "0");
    assert_int_equal(read_lease(place, "registered").token, registered);
    assert_int_equal(read_lease(place, "younger").token, younger);
    expect_outcome(renew(place, "held", "a", held, LONG_MS), TEN_OK);
    assert_true(must_acquire(place, "old", "b", LONG_MS) > old);
}

/* ---- pages */

static unsigned long number_after(const char *text, const char *words) {
    const char *found = strstr(text, words);
    return found ? strtoul(found + strlen(words), NULL, 10) : 0;
}

/* The most rows that a step of the plan has found, or looked at in vain. */
static unsigned long most_rows(PGconn *connection, const char *execution) {
    char statement[256];
    unsigned long most = 0;
    snprintf(statement, sizeof statement, "EXPLAIN (ANALYZE, TIMING OFF) %s", execution);
    PGresult *plan = PQexec(connection, statement);
    assert_int_equal(PQresultStatus(plan), PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(plan); i++) {
        const char *line = PQgetvalue(plan, i, 0);
        most = ten_max_u64(most, number_after(line, "(actual rows="));
        most = ten_max_u64(most, number_after(line, "Rows Removed by Filter: "));
    }
    PQclear(plan);
    return most;
}

/* A session with the statement, and with the settings of the store's own. */
static PGconn *prepare(struct postgres_place *postgres, const char *statement) {
    PGconn *connection = postgres_connect(postgres);
    PGresult *prepared = PQprepare(connection, "it", statement, 0, NULL);
    assert_int_equal(PQresultStatus(prepared), PGRES_COMMAND_OK);
    PQclear(prepared);
    postgres_say(connection, "SET jit = off");
    postgres_say(connection, "SET enable_seqscan = off");
    postgres_say(connection, "SET enable_bitmapscan = off");
    postgres_say(connection, "SET enable_mergejoin = off");
    return connection;
}

static const char *const plan_modes[] = {"SET plan_cache_mode = force_custom_plan",
                                         "SET plan_cache_mode = force_generic_plan"};

/* So many targets that were leased once: u1, u2... */
static void make_targets(struct postgres_place *postgres, unsigned count) {
    (void)postgres_text(postgres,
                        "WITH many AS (INSERT INTO tenure.lease SELECT (l).* FROM (SELECT jsonb_populate_record(lease, "
                        "jsonb_build_object('target_id', 'u' || n, 'holder_id', NULL)) AS l FROM tenure.lease, "
                        "generate_series(1, %u) AS n WHERE lease.target_id = 't') AS copies RETURNING 1) "
                        "SELECT count(*) FROM many",
                        count);
}

/* Not all of what follows it: to go through a million targets would take a million times as long as a page. */
static void a_page_reads_about_as_many_targets_as_it_shows(void **state) {
    enum { PAGE = 50 };
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    make_targets(postgres, 20000);
    for (int i = 0; i < 3 * PAGE; i++) {
        char id[16];
        snprintf(id, sizeof id, "u%d", i * 2);
        put_target(place, id);
    }
    (void)postgres_text(postgres, "ANALYZE tenure.lease");
    PGconn *connection = prepare(postgres, PG_LIST);
    postgres_say(connection, "SET enable_hashjoin = off");
    for (size_t i = 0; i < TEN_COUNT(plan_modes); i++) {
        char execution[200];
        postgres_say(connection, plan_modes[i]);
        snprintf(execution, sizeof execution, "EXECUTE it('%s', 'u1', 'free', %d, false)", place->ns, PAGE);
        assert_in_range(most_rows(connection, execution), PAGE, 4 * PAGE);
        snprintf(execution, sizeof execution, "EXECUTE it('%s', '', 'all', %d, false)", place->ns, PAGE);
        assert_in_range(most_rows(connection, execution), PAGE, 4 * PAGE);
    }
    PQfinish(connection);
}

/* A plan that was made for a table with one row must serve one with many: the next statistics may be long in coming. */
static void a_batch_reads_about_as_many_leases_as_it_has(void **state) {
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "ANALYZE tenure.lease");
    PGconn *connection = prepare(postgres, PG_LOCK_LEASES);
    postgres_say(connection, "SET enable_nestloop = off");
    for (size_t i = 0; i < TEN_COUNT(plan_modes); i++) {
        char execution[200];
        postgres_say(connection, plan_modes[i]);
        snprintf(execution, sizeof execution, "EXECUTE it('{%s}', '{t,u1,u2,u3}')", place->ns);
        (void)most_rows(connection, execution);
        if (i == 0)
            make_targets(postgres, 5000);
        assert_in_range(most_rows(connection, execution), 4, 20);
    }
    PQfinish(connection);
}

/* Only every thousandth change reads the feed, to find out how much of it to trim. */
static void a_change_does_not_read_the_feed(void **state) {
    enum { FEED = 20000 };
    struct postgres_place *postgres = *state;
    const struct place *place = open_place(state);
    put_target(place, "t");
    (void)postgres_text(
        postgres,
        "WITH many AS (INSERT INTO tenure.change SELECT namespace, cursor + n, at, event, reason, target_id, "
        "instance, actor, version FROM tenure.change, generate_series(1, %u) AS n RETURNING 1), "
        "moved AS (UPDATE tenure.namespace SET cursor = cursor + %u) SELECT count(*) FROM many",
        FEED, FEED);
    PGconn *connection = prepare(postgres, PG_EDIT_TARGETS);
    char execution[200];
    uint64_t least = UINT64_MAX;
    snprintf(execution, sizeof execution,
             "EXECUTE it('%s', '{put}', '{t}', '{u}', '{e}', '{s}', '{0}', '{f}', '{\"\"}', '{0}', '{\"\"}', "
             "'{\"\"}', '{\"\"}')",
             place->ns);
    for (int i = 0; i < 2; i++) /* one of them may be the thousandth */
        least = ten_min_u64(least, (uint64_t)most_rows(connection, execution));
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
    postgres_say(connection, "SELECT * FROM tenure.lease");
    return connection;
}

static void a_transaction_that_keeps_dead_rows_is_named_with_what_to_do(void **state) {
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

static void a_slot_that_nobody_uses_and_a_standby_that_keep_dead_rows_are_named(void **state) {
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
    const struct CMUnitTest tests[] = {
        POSTGRES_CASE(entries_of_the_feed_go_after_thirty_days_and_younger_ones_stay),
        POSTGRES_CASE(counters_go_when_they_were_free_and_unregistered_for_thirty_days),
        POSTGRES_CASE(a_page_reads_about_as_many_targets_as_it_shows),
        POSTGRES_CASE(a_batch_reads_about_as_many_leases_as_it_has),
        POSTGRES_CASE(a_change_does_not_read_the_feed),
        POSTGRES_CASE(a_slot_that_nobody_uses_and_a_standby_that_keep_dead_rows_are_named),
        /* The last one: the clock stays where it sets it. */
        POSTGRES_CASE(a_transaction_that_keeps_dead_rows_is_named_with_what_to_do),
    };
    return cmocka_run_group_tests_name("postgres-growth", tests, postgres_group_setup, postgres_group_teardown);
}
