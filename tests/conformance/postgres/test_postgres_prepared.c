/*
 * The usual way of renewals on PostgreSQL: statements that are prepared on a direct connection, none behind a pooler,
 * and what the one plain UPDATE compares. The contract itself is the conformance suite's.
 */
#include "conformance/postgres/postgres_place.h"
#include "store/postgres/postgres_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define RENEWALS 6 /* after which a connection has its statements prepared */
#define COUNT    "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'tenure%'"

static PGconn *connection_of(ten_store *store) {
    return ten_postgres_link_connection(((ten_postgres_store *)store)->link);
}

/* A statement in the store's own session. */
static void say_inside(ten_store *store, const char *statement, char *text, size_t size) {
    PGconn *connection = connection_of(store);
    assert_true(PQexitPipelineMode(connection));
    PGresult *result = PQexec(connection, statement);
    if (text)
        snprintf(text, size, "%s", PQgetvalue(result, 0, 0));
    else
        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
    PQclear(result);
    assert_true(PQenterPipelineMode(connection));
}

static uint64_t acquire_and_renew(struct place *place, const char *target) {
    expect_outcome(release(place, target, "a", must_acquire(place, target, "a", LONG_MS)), TEN_OK);
    uint64_t token = must_acquire(place, target, "a", LONG_MS);
    for (int i = 0; i < RENEWALS; i++)
        expect_outcome(renew(place, target, "a", token, LONG_MS), TEN_OK);
    return token;
}

static void a_direct_connection_has_its_statements_prepared_and_works_on_when_they_are_removed(void **state) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    char count[16];
    postgres_place_open(postgres, "");
    uint64_t token = acquire_and_renew(place, "t");
    say_inside(place->store, COUNT, count, sizeof count);
    assert_string_equal(count, "4");
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_LOST);
    expect_outcome(renew(place, "t", "a", token - 1, LONG_MS), TEN_LOST);
    say_inside(place->store, "DEALLOCATE ALL", NULL, 0);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    expect_outcome(renew(place, "t", "a", token - 1, LONG_MS), TEN_LOST);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
}

/* The search path of the session is not the one that counts when a statement is prepared either. */
static void functions_of_strangers_do_not_get_into_prepared_statements(void **state) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    postgres_place_open(postgres, "");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "CREATE FUNCTION public.string_agg(text, text) RETURNS text LANGUAGE sql AS "
                                  "'SELECT NULL::text'");
    (void)postgres_text(postgres, "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                                  "'SELECT timestamptz ''2001-01-01 00:00:00+00'''");
    (void)postgres_text(postgres, "ALTER DATABASE \"%s\" SET search_path = public, pg_catalog", postgres->database);
    postgres_place_open(postgres, "");
    for (int i = 0; i < RENEWALS; i++)
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    assert_string_equal(postgres_text(postgres, "SELECT expires_at > pg_catalog.clock_timestamp() FROM tenure.lease"),
                        "t");
}

static void nothing_is_prepared_in_a_session_behind_a_pooler(void **state) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    char url[FIXTURE_URL_SIZE];
    postgres_place_open_pooled(postgres, "");
    acquire_and_renew(place, "t");
    postgres_server_pooled_url(postgres->server, postgres->database, POSTGRES_SERVER_USER, "", url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    for (int i = 0; i < RENEWALS; i++) { /* the pooler's sessions, one after the other */
        PGresult *result = PQexec(connection, COUNT);
        assert_int_equal(PQntuples(result), 1);
        assert_string_equal(PQgetvalue(result, 0, 0), "0");
        PQclear(result);
    }
    PQfinish(connection);
}

static ten_op renewal(const struct place *place, const char *target, uint64_t token) {
    return (ten_op){.kind = TEN_OP_RENEW,
                    .namespace_name = place->ns,
                    .target = target,
                    .holder = "a",
                    .token = token,
                    .ttl_ms = LONG_MS};
}

/* Another index gives the rows in another order: the tokens, one after the other, are then as the caller has them. The
 * second one is an old one. The first one was never granted, which is another matter. */
static void tokens_that_were_swapped_are_lost_in_whatever_order_the_rows_are_found(void **state) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    postgres_place_open(postgres, "");
    expect_outcome(release(place, "t2", "a", must_acquire(place, "t2", "a", LONG_MS)), TEN_OK);
    uint64_t first = must_acquire(place, "t1", "a", LONG_MS);
    uint64_t second = must_acquire(place, "t2", "a", LONG_MS);
    assert_true(second > first);
    (void)postgres_text(postgres, "ALTER TABLE tenure.lease DROP CONSTRAINT lease_pkey");
    (void)postgres_text(postgres, "CREATE UNIQUE INDEX ON tenure.lease (namespace, target_id DESC)");
    const ten_op ops[] = {renewal(place, "t1", second), renewal(place, "t2", first)};
    ten_result results[TEN_COUNT(ops)];
    assert_int_equal(ten_store_apply(place->store, ops, results, TEN_COUNT(ops), CALL_MS), TENURE_OK);
    expect_outcome(results[1], TEN_LOST);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        POSTGRES_CASE(a_direct_connection_has_its_statements_prepared_and_works_on_when_they_are_removed),
        POSTGRES_CASE(functions_of_strangers_do_not_get_into_prepared_statements),
        POSTGRES_CASE(nothing_is_prepared_in_a_session_behind_a_pooler),
        POSTGRES_CASE(tokens_that_were_swapped_are_lost_in_whatever_order_the_rows_are_found),
    };
    return cmocka_run_group_tests_name("postgres-prepared", tests, postgres_group_setup, postgres_group_teardown);
}
