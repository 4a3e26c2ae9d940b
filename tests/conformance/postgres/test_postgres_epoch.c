/*
 * PostgreSQL stores that may have lost something, and servers whose clock is set: epochs, standbys, dumps. What every
 * store does with an epoch is the contract's; here is what begins one.
 */
#include "conformance/postgres/postgres_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MS   UINT64_C(2000) /* long enough to act before its end on a busy machine */
#define AFTER_MS (TTL_MS + 150)

static struct place *open_place(void **state) {
    struct postgres_place *postgres = *state;
    postgres_place_open(postgres, "");
    return &postgres->place;
}

/* ---- epochs */

/* As if no lease had ever been granted for longer than TTL_MS. */
static void forget_longer_ttls(struct postgres_place *postgres) {
    (void)postgres_text(postgres,
                        "UPDATE tenure.value SET value = regexp_replace(value, 'longest=[0-9]+', 'longest=%u') "
                        "WHERE" KIND("0"),
                        (unsigned)TTL_MS);
}

static void expect_recovering(ten_result result) {
    expect_outcome(result, TEN_HELD);
    assert_true(result.recovering);
    assert_null(result.holder);
    assert_in_range(result.remaining_ms, 1, TTL_MS);
}

/* The holder goes on, newcomers wait, and whoever comes after has a higher token. */
static void expect_survival(const struct place *place, uint64_t token) {
    expect_outcome(acquire(place, "t", "newcomer", TTL_MS), TEN_HELD);
    expect_recovering(acquire(place, "never-seen", "newcomer", TTL_MS));
    expect_recovering(acquire(place, "t", "a", TTL_MS));
    ten_result back = renew(place, "t", "a", token, TTL_MS);
    expect_outcome(back, TEN_OK);
    assert_int_equal(back.token, token);
    expect_holder(acquire(place, "t", "newcomer", TTL_MS), "a");
    sleep_ms(AFTER_MS / 2);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    sleep_ms(AFTER_MS / 2 + 100);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_true(must_acquire(place, "t", "newcomer", TTL_MS) > token);
}

static void lose_something(struct postgres_place *postgres) {
    (void)postgres_text(postgres, "UPDATE tenure.store SET identity = 'another server'");
}

/* Waits until the standby has the last of it: what was not replicated is not part of this case. */
static void await_on_standby(struct postgres_place *postgres) {
    for (bool there = false; !there; sleep_ms(20)) {
        bool done;
        char statement[128];
        snprintf(statement, sizeof statement, "SELECT count(*) FROM tenure.value WHERE value LIKE '%%longest=%u%%'",
                 (unsigned)TTL_MS);
        char *count = postgres_server_query(&postgres->standby, postgres->database, statement, &done);
        there = done && count && strcmp(count, "1") == 0;
        free(count);
    }
}

/* Fault 11. The first case: its standby is a copy of all databases that there are. */
POSTGRES_CASE(a_standby_is_refused_and_begins_an_epoch_when_it_is_promoted) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(postgres_server_start_standby(&postgres->standby, postgres->server), 0);
    struct postgres_server *primary = postgres->server;
    ten_error error;
    postgres->server = &postgres->standby;
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "", &error), TENURE_E_UNREACHABLE);
    assert_non_null(strstr(error.message, "read-only"));
    char url[FIXTURE_URL_SIZE];
    ten_store *store = NULL;
    /* Who insists gets in, and is told why nothing works. */
    postgres_server_url(&postgres->standby, postgres->database, POSTGRES_SERVER_USER, "&target_session_attrs=any", url,
                        sizeof url);
    assert_int_equal(ten_store_open(url, NULL, &store, &error), TENURE_OK);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "u", .holder = "a", .ttl_ms = TTL_MS};
    ten_result result;
    assert_int_equal(ten_store_apply(store, &op, &result, 1, CALL_MS), TENURE_E_UNREACHABLE);
    assert_non_null(strstr(store->error.message, "standby"));
    ten_store_close(store);
    /* Both are named: whoever can write is found, before the failover and after. */
    postgres_place_close(postgres);
    snprintf(url, sizeof url, "postgres:///%s?host=%s,%s&user=%s", postgres->database, postgres->standby.directory,
             primary->directory, POSTGRES_SERVER_USER);
    place->store = open_store(url);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    postgres->server = primary;
    forget_longer_ttls(postgres);
    postgres->server = &postgres->standby;
    await_on_standby(postgres);
    postgres_server_stop(primary);
    bool done;
    free(postgres_server_query(&postgres->standby, "postgres", "SELECT pg_promote()", &done));
    assert_true(done);
    expect_survival(place, token);
    postgres->server = primary;
    assert_int_equal(postgres_server_start_again(primary), 0);
}

POSTGRES_CASE(another_identity_begins_an_epoch) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    assert_int_equal(token, 1);
    uint64_t cursor = cursor_now(place->store, place->ns);
    lose_something(postgres);
    expect_survival(place, token);
    struct seen seen = {0};
    assert_int_equal(place->store->ops->changes(place->store, place->ns, &cursor, 10, see_change, &seen, CALL_MS),
                     TENURE_E_RESYNC);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_RECOVERING);
    assert_string_equal(postgres_text(postgres, "SELECT count(*) FROM tenure.change WHERE text LIKE '%%recovering%%'"),
                        "1");
}

POSTGRES_CASE(a_database_that_was_restored_from_a_dump_begins_an_epoch) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    char command[1024];
    char copy[32];
    snprintf(copy, sizeof copy, "%.20scopy", postgres->database);
    (void)postgres_text(postgres, "CREATE DATABASE %s", copy);
    snprintf(command, sizeof command, "pg_dump -h %s -U %s %s | psql -qX -v ON_ERROR_STOP=1 -h %s -U %s %s >/dev/null",
             postgres->server->directory, POSTGRES_SERVER_USER, postgres->database, postgres->server->directory,
             POSTGRES_SERVER_USER, copy);
    assert_int_equal(system(command), 0);
    snprintf(postgres->database, sizeof postgres->database, "%s", copy);
    postgres_place_open(postgres, "");
    expect_survival(place, token);
}

static void say_to_server(struct postgres_place *postgres, const char *format, const char *name, const char *other) {
    char statement[256];
    bool done;
    snprintf(statement, sizeof statement, format, name, other);
    free(postgres_server_query(postgres->server, "postgres", statement, &done));
    assert_true(done);
}

/* A database is kept as a template, and renamed to the first one's name later: everything in it has the same numbers. */
POSTGRES_CASE(a_database_that_was_copied_and_renamed_begins_an_epoch) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    must_acquire(place, "t", "a", LONG_MS);
    postgres_place_close(postgres);
    say_to_server(postgres, "CREATE DATABASE %scopy TEMPLATE %s", postgres->database, postgres->database);
    postgres_place_open(postgres, "");
    uint64_t token = 0;
    for (int i = 0; i < 3; i++) {
        expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
        token = must_acquire(place, "t", "a", TTL_MS);
    }
    postgres_place_close(postgres);
    say_to_server(postgres, "ALTER DATABASE %s RENAME TO %sold", postgres->database, postgres->database);
    say_to_server(postgres, "ALTER DATABASE %scopy RENAME TO %s", postgres->database, postgres->database);
    forget_longer_ttls(postgres);
    postgres_place_open(postgres, "");
    expect_survival(place, token);
}

POSTGRES_CASE(tables_that_were_emptied_and_filled_from_a_dump_begin_an_epoch) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    char command[1024];
    must_acquire(place, "t", "a", TTL_MS);
    snprintf(command, sizeof command, "pg_dump --data-only -n tenure -h %s -U %s %s > %s/data.sql",
             postgres->server->directory, POSTGRES_SERVER_USER, postgres->database, postgres->server->directory);
    assert_int_equal(system(command), 0);
    uint64_t token = 0;
    for (int i = 0; i < 3; i++) {
        expect_outcome(force(place, "t", TEN_OP_FORCE_NOW, NULL), TEN_OK);
        token = must_acquire(place, "t", "a", TTL_MS);
    }
    (void)postgres_text(postgres, "TRUNCATE tenure.store, tenure.record, tenure.value, tenure.feed, tenure.change");
    snprintf(command, sizeof command, "psql -qX -v ON_ERROR_STOP=1 -h %s -U %s %s < %s/data.sql >/dev/null",
             postgres->server->directory, POSTGRES_SERVER_USER, postgres->database, postgres->server->directory);
    assert_int_equal(system(command), 0);
    expect_survival(place, token);
}

/* ---- the history */

static void change_a_thousand_times(const struct place *place) {
    enum { COUNT = 1000 };
    static char ids[COUNT][16];
    static ten_target_edit edits[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(ids[i], sizeof ids[i], "x%zu", i);
        edits[i] = (ten_target_edit){.action = TEN_TARGET_PUT, .target = {.id = ids[i]}};
    }
    assert_int_equal(place->store->ops->edit_targets(place->store, place->ns, edits, COUNT, CALL_MS), TENURE_OK);
}

POSTGRES_CASE(the_history_survives_an_epoch_and_stays_bounded) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    for (int i = 0; i < 5; i++)
        expect_outcome(release(place, "t", "a", must_acquire(place, "t", "a", TTL_MS)), TEN_OK);
    lose_something(postgres);
    change_a_thousand_times(place); /* then the feed is trimmed */
    assert_int_equal(count_changes(place, "t"), 10);
    /* So does every other kind of change. */
    uint64_t cursor = cursor_now(place->store, place->ns);
    (void)postgres_text(postgres, "UPDATE tenure.feed SET last = last + 999 - last %% 1000");
    assert_int_equal(announce(place, "i", TTL_MS).outcome, TEN_OK);
    (void)postgres_text(postgres, "UPDATE tenure.feed SET last = last + 999 - last %% 1000");
    expect_outcome(acquire_within(place, "u", "a", TTL_MS, HANG_MS), TEN_OK);
    assert_true(cursor_now(place->store, place->ns) / 1000 > cursor / 1000 + 1);
    assert_int_equal(count_changes(place, "t"), 10);
    for (int i = 0; i < 11; i++)
        change_a_thousand_times(place);
    assert_int_equal(count_changes(place, "t"), 10); /* what is young stays */
    (void)postgres_text(postgres, "UPDATE tenure.change SET at = at - interval '2 minutes'");
    change_a_thousand_times(place);
    assert_int_equal(count_changes(place, "t"), 0);
    assert_in_range(atoi(postgres_text(postgres, "SELECT count(*) FROM tenure.change")), TEN_FEED_MAX,
                    TEN_FEED_MAX + 2000);
}

/* ---- synchronous standbys */

/* Commits wait for a standby that is not there; or for none any more. */
static void wait_for_standby(struct postgres_place *postgres, const char *name) {
    (void)postgres_text(postgres, "ALTER SYSTEM SET synchronous_standby_names = '%s'", name);
    (void)postgres_text(postgres, "SELECT pg_reload_conf()");
    for (uint64_t end_ms = now_ms() + HANG_MS;
         strcmp(postgres_text(postgres, "SHOW synchronous_standby_names"), name) != 0;) {
        assert_true(now_ms() < end_ms);
        sleep_ms(10);
    }
    sleep_ms(100); /* the other processes of the server read the file, too */
}

/* A standby is promoted while its primary goes on with another one: as long as nobody follows the new primary, its
 * commits wait, and the former one may grant and renew. */
POSTGRES_CASE(an_epoch_counts_from_the_moment_at_which_its_commit_returned) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "u", .holder = "b", .ttl_ms = TTL_MS};
    ten_result result;
    lose_something(postgres);
    wait_for_standby(postgres, "nobody");
    assert_true(ten_store_apply(place->store, &op, &result, 1, 1000) < 0);
    sleep_ms(AFTER_MS);
    wait_for_standby(postgres, "");
    result = apply_one(place->other, op);
    expect_recovering(result);
    assert_in_range(result.remaining_ms, TTL_MS / 2, TTL_MS);
    expect_outcome(renew(place, "t", "a", token, TTL_MS), TEN_OK);
    expect_outcome(acquire_within(place, "u", "b", TTL_MS, HANG_MS), TEN_OK);
}

static void *cancel_waiting(void *arg) {
    struct postgres_place *postgres = arg;
    for (uint64_t end_ms = now_ms() + HANG_MS; now_ms() < end_ms; sleep_ms(20)) {
        bool done;
        char *count = postgres_server_query(postgres->server, "postgres",
                                            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "
                                            "WHERE wait_event = 'SyncRep'",
                                            &done);
        bool cancelled = done && count && strcmp(count, "0") != 0;
        free(count);
        if (cancelled)
            break;
    }
    return NULL;
}

POSTGRES_CASE(a_commit_whose_wait_for_a_standby_was_cancelled_is_no_answer) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "t", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result;
    pthread_t thread;
    (void)postgres_text(postgres, "ALTER DATABASE \"%s\" SET client_min_messages = error", postgres->database);
    place = open_place(state);
    must_acquire(place, "before", "a", TTL_MS);
    wait_for_standby(postgres, "nobody");
    assert_int_equal(pthread_create(&thread, NULL, cancel_waiting, postgres), 0);
    int r = ten_store_apply(place->store, &op, &result, 1, HANG_MS);
    pthread_join(thread, NULL);
    wait_for_standby(postgres, "");
    assert_int_equal(r, TENURE_E_TIMEOUT);
    assert_non_null(strstr(place->store->error.message, "standby"));
}

/* ---- the wall clock (fault 13); these come last, because it stays where they set it */

static void set_clock(struct postgres_place *postgres, const char *offset) {
    assert_int_equal(postgres_server_set_clock(postgres->server, offset), 0);
    /* A process asks the file when it asks the clock. */
    sleep_ms(20);
}

POSTGRES_CASE(a_clock_that_jumps_forward_ends_leases_early_and_lowers_no_token) {
    struct postgres_place *postgres = *state;
    postgres_server_stop(postgres->server);
    set_clock(postgres, "+0");
    assert_int_equal(postgres_server_start_again(postgres->server), 0);
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    set_clock(postgres, "+10m");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
    assert_int_equal(must_acquire(place, "t", "b", LONG_MS), token + 1);
}

static uint64_t version_of_session(const struct place *place) {
    ten_result result = beat(place, "a", LONG_MS);
    expect_outcome(result, TEN_OK);
    return result.session_version;
}

POSTGRES_CASE(a_clock_that_jumps_back_keeps_leases_longer_and_renewals_put_them_right) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    set_clock(postgres, "+5m");
    ten_result result = acquire(place, "t", "b", LONG_MS);
    expect_outcome(result, TEN_HELD);
    assert_in_range(result.remaining_ms, LONG_MS + 4 * 60000, LONG_MS + 6 * 60000);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS / 2, LONG_MS);
    /* An epoch that began in what is now the future does not last until then. */
    lose_something(postgres);
    assert_true(acquire(place, "u", "b", TTL_MS).recovering);
    (void)version_of_session(place);
    set_clock(postgres, "-5m");
    result = acquire(place, "u", "b", TTL_MS);
    assert_true(result.recovering);
    assert_in_range(result.remaining_ms, 1, LONG_MS);
    /* And an epoch that begins now is another version to whoever has a session. */
    uint64_t version = version_of_session(place);
    lose_something(postgres);
    assert_int_not_equal(version_of_session(place), version);
}

/* The handle relies on what it knows of its records, and is told that they are not so. */
POSTGRES_CASE(whoever_only_renews_puts_its_lives_right_after_the_clock_was_set_back) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    set_clock(postgres, "+1h");
    uint64_t token = must_acquire(place, "t", "b", LONG_MS);
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_OK);
    (void)version_of_session(place);
    ten_result attached = apply_at(
        place,
        (ten_op){
            .kind = TEN_OP_ACQUIRE, .flags = TEN_OP_SESSION, .target = "attached", .holder = "a", .ttl_ms = LONG_MS});
    expect_outcome(attached, TEN_OK);
    set_clock(postgres, "-1h");
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_OK);
    (void)version_of_session(place);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS / 2, LONG_MS);
    assert_in_range(read_lease(place, "attached").remaining_ms, LONG_MS / 2, LONG_MS);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    return run_cases(postgres_group_setup, postgres_group_teardown);
}
