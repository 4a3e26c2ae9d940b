/*
 * What is PostgreSQL's own: locks that others hold, restarts, roles, poolers, and what people see with psql. The
 * contract itself is the conformance suite's; standbys, epochs and clocks are in test_postgres_epoch.c.
 */
#include "conformance/postgres/postgres_place.h"
#include "lib/freeze.h"
#include "store/apply.h"
#include "store/postgres/postgres_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define TTL_MS     UINT64_C(2000) /* long enough to act before its end on a busy machine */
#define AFTER_MS   (TTL_MS + 150)
#define LOCK_LEASE "SELECT FROM tenure.record WHERE" KIND("4") "FOR UPDATE"

static struct place *open_place(void **state) {
    struct postgres_place *postgres = *state;
    postgres_place_open(postgres, "");
    return &postgres->place;
}

static int apply_for(ten_store *store, ten_op op, uint64_t timeout_ms, ten_result *result) {
    return ten_store_apply(store, &op, result, 1, timeout_ms);
}

/* ---- locks (fault 25) */

static void expect_not_renewed_behind_a_lock(void **state, const char *holder) {
    struct place *place = open_place(state);
    struct postgres_blocker blocker;
    uint64_t token = must_acquire(place, "t", "a", TTL_MS);
    postgres_block(*state, &blocker, LOCK_LEASE, AFTER_MS);
    expect_outcome(renew(place, "t", holder, token, TTL_MS), TEN_LOST);
    postgres_unblock(&blocker);
    expect_holder(read_lease(place, "t"), NULL);
    assert_true(must_acquire(place, "t", "b", TTL_MS) > token);
}

POSTGRES_CASE(a_renewal_that_waited_for_a_lock_until_its_lease_was_over_is_lost) {
    expect_not_renewed_behind_a_lock(state, "a");
}

POSTGRES_CASE(so_is_one_that_names_no_holder) {
    expect_not_renewed_behind_a_lock(state, NULL);
}

POSTGRES_CASE(a_lease_that_was_had_after_a_long_wait_lasts_its_whole_ttl) {
    struct place *place = open_place(state);
    struct postgres_blocker blocker;
    must_acquire(place, "t", "a", TENURE_TTL_MIN_MS);
    sleep_ms(TENURE_TTL_MIN_MS + 50);
    postgres_block(*state, &blocker, LOCK_LEASE, AFTER_MS);
    ten_result result = acquire(place, "t", "b", TTL_MS);
    expect_outcome(result, TEN_OK);
    assert_int_equal(result.remaining_ms, TTL_MS);
    result = read_lease(place, "t");
    expect_holder(result, "b");
    assert_true(result.remaining_ms > TTL_MS / 2);
    postgres_unblock(&blocker);
}

POSTGRES_CASE(a_heartbeat_that_waited_until_it_was_dead_joins_anew) {
    struct place *place = open_place(state);
    struct postgres_blocker blocker;
    expect_outcome(announce(place, "a", TTL_MS), TEN_OK);
    uint64_t cursor = cursor_now(place->store, place->ns);
    postgres_block(*state, &blocker, "SELECT FROM tenure.record WHERE" KIND("2") "FOR UPDATE", AFTER_MS);
    expect_outcome(announce(place, "a", TTL_MS), TEN_OK);
    postgres_unblock(&blocker);
    struct seen seen;
    read_changes(place->store, place->ns, &cursor, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.at[0].change.kind, TENURE_EVENT_JOINED);
}

POSTGRES_CASE(a_lock_that_is_held_too_long_is_a_timeout_and_no_harm) {
    struct place *place = open_place(state);
    struct postgres_blocker blocker;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    ten_op op = {.kind = TEN_OP_RELEASE, .namespace_name = place->ns, .target = "t", .holder = "a", .token = token};
    ten_result result;
    postgres_block(*state, &blocker, LOCK_LEASE, 1500);
    uint64_t start_ms = now_ms();
    assert_int_equal(apply_for(place->store, op, 400, &result), TENURE_E_TIMEOUT);
    assert_true(now_ms() - start_ms < 1000 + late_ms());
    expect_outcome(result, TEN_ERROR);
    postgres_unblock(&blocker);
    expect_holder(read_lease(place, "t"), "a");
    expect_outcome(release(place, "t", "a", token), TEN_OK);
}

/* A trigger can do that, and so can a row that changed between two looks at it. */
POSTGRES_CASE(what_changed_no_row_is_never_ok) {
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(
        *state, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
                "CREATE TRIGGER keep BEFORE INSERT OR UPDATE ON tenure.record FOR EACH ROW EXECUTE FUNCTION keep()");
    ten_op ops[] = {
        {.kind = TEN_OP_RENEW, .target = "t", .holder = "a", .token = token, .ttl_ms = LONG_MS},
        {.kind = TEN_OP_RELEASE, .target = "t", .holder = "a", .token = token},
        {.kind = TEN_OP_ACQUIRE, .target = "u", .holder = "a", .ttl_ms = LONG_MS},
    };
    for (size_t i = 0; i < TEN_COUNT(ops); i++) {
        ten_result result;
        ops[i].namespace_name = place->ns;
        /* It is tried again, and by then the trigger is found. */
        assert_int_equal(apply_for(place->store, ops[i], 5000, &result), TENURE_E_SCHEMA);
        expect_outcome(result, TEN_ERROR);
    }
    (void)postgres_text(*state, "DROP TRIGGER keep ON tenure.record");
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
}

/* ---- two at a time */

enum { RACERS = 2, RACE_TARGETS = 40, RACES = 10 };

struct racer {
    pthread_t thread;
    ten_store *store;
    const char *ns;
    bool backwards;
    char targets[RACE_TARGETS][16];
    ten_op ops[RACE_TARGETS];
    ten_result results[RACE_TARGETS];
    size_t count; /* 0: all of them */
    int r;
};

static void *race(void *arg) {
    struct racer *racer = arg;
    racer->r =
        ten_store_apply(racer->store, racer->ops, racer->results, racer->count ? racer->count : RACE_TARGETS, CALL_MS);
    return NULL;
}

static void make_race(struct racer *racer, int round) {
    for (int i = 0; i < RACE_TARGETS; i++) {
        snprintf(racer->targets[i], sizeof racer->targets[i], "r%d-%03d", round,
                 racer->backwards ? RACE_TARGETS - 1 - i : i);
        racer->ops[i] = (ten_op){.kind = TEN_OP_ACQUIRE,
                                 .namespace_name = racer->ns,
                                 .target = racer->targets[i],
                                 .holder = racer->backwards ? "b" : "a",
                                 .ttl_ms = LONG_MS};
    }
}

POSTGRES_CASE(two_batches_for_the_same_new_targets_in_opposite_order_share_them_without_a_deadlock) {
    struct place *place = open_place(state);
    struct racer *racers = calloc(RACERS, sizeof *racers);
    assert_non_null(racers);
    for (int round = 0; round < RACES; round++) {
        for (int i = 0; i < RACERS; i++) {
            racers[i].store = i ? place->other : place->store;
            racers[i].ns = place->ns;
            racers[i].backwards = i == 1;
            make_race(&racers[i], round);
            assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            pthread_join(racers[i].thread, NULL);
            assert_int_equal(racers[i].r, TENURE_OK);
        }
        for (int i = 0; i < RACE_TARGETS; i++) {
            enum ten_outcome first = racers[0].results[i].outcome;
            enum ten_outcome second = racers[1].results[RACE_TARGETS - 1 - i].outcome;
            assert_true((first == TEN_OK && second == TEN_HELD) || (first == TEN_HELD && second == TEN_OK));
        }
    }
    free(racers);
    assert_string_equal(
        postgres_text(*state, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
}

static const char *lease_end(void **state, const char *target) {
    return postgres_text(*state, "SELECT ends_at FROM tenure.record WHERE" ID "= '%s'", target);
}

/* One renewal of two leases waits for the first, while another connection renews the second: when the first renewal
 * goes on, its clock is the older one. */
POSTGRES_CASE(a_renewal_that_waited_never_shortens_what_a_later_one_has_renewed) {
    struct place *place = open_place(state);
    uint64_t tokens[] = {must_acquire(place, "t1", "a", LONG_MS), must_acquire(place, "t2", "a", LONG_MS)};
    struct postgres_blocker blocker;
    postgres_block(*state, &blocker,
                   "WITH other AS (SELECT pg_sleep(0)) SELECT FROM tenure.record, other WHERE" ID "= 't1' "
                   "FOR UPDATE OF record",
                   2000);
    struct racer first = {.store = place->store, .ns = place->ns};
    first.count = TEN_COUNT(tokens);
    for (size_t i = 0; i < first.count; i++)
        first.ops[i] = (ten_op){.kind = TEN_OP_RENEW,
                                .namespace_name = place->ns,
                                .target = i ? "t2" : "t1",
                                .holder = "a",
                                .token = tokens[i],
                                .ttl_ms = LONG_MS};
    assert_int_equal(pthread_create(&first.thread, NULL, race, &first), 0);
    while (strcmp(postgres_text(*state, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), "0") ==
           0)
        sleep_ms(10);
    sleep_ms(100);
    ten_op second = first.ops[1];
    expect_outcome(apply_one(place->other, second), TEN_OK);
    char end[64];
    snprintf(end, sizeof end, "%s", lease_end(state, "t2"));
    postgres_unblock(&blocker);
    pthread_join(first.thread, NULL);
    assert_int_equal(first.r, TENURE_OK);
    expect_outcome(first.results[1], TEN_OK);
    assert_string_equal(postgres_text(*state, "SELECT ends_at >= '%s' FROM tenure.record WHERE" ID "= 't2'", end), "t");
}

static void *open_one(void *url) {
    ten_store *store = NULL;
    ten_error error = {0};
    int r = ten_store_open(url, NULL, &store, &error);
    if (r < 0)
        print_error("%s\n", error.message);
    ten_store_close(store);
    return r < 0 ? url : NULL;
}

POSTGRES_CASE(many_that_start_together_create_the_schema_once) {
    struct postgres_place *postgres = *state;
    char url[FIXTURE_URL_SIZE];
    pthread_t threads[6];
    postgres_server_url(postgres->server, postgres->database, POSTGRES_SERVER_USER, "", url, sizeof url);
    for (size_t i = 0; i < TEN_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, url), 0);
    for (size_t i = 0; i < TEN_COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_string_equal(postgres_text(postgres, "SELECT count(*) FROM tenure.store"), "1");
}

/* ---- connections (fault 24) */

POSTGRES_CASE(a_backend_that_is_terminated_during_a_call_costs_nothing) {
    struct place *place = open_place(state);
    struct postgres_blocker blocker;
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    postgres_block(*state, &blocker,
                   "WITH other AS (SELECT pg_sleep(0)) SELECT FROM tenure.record, other FOR UPDATE OF record", 700);
    pthread_t killer;
    struct racer renewal = {.store = place->store, .ns = place->ns};
    renewal.ops[0] = (ten_op){.kind = TEN_OP_RENEW,
                              .namespace_name = place->ns,
                              .target = "t",
                              .holder = "a",
                              .token = token,
                              .ttl_ms = LONG_MS};
    for (int i = 1; i < RACE_TARGETS; i++)
        renewal.ops[i] = renewal.ops[0];
    assert_int_equal(pthread_create(&killer, NULL, race, &renewal), 0);
    sleep_ms(250);
    (void)postgres_text(*state,
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
    pthread_join(killer, NULL);
    assert_int_equal(renewal.r, TENURE_OK);
    expect_outcome(renewal.results[0], TEN_OK);
    postgres_unblock(&blocker);
}

POSTGRES_CASE(a_restarted_server_has_its_leases_and_no_new_epoch) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    postgres_server_kill(postgres->server);
    ten_op op = {.kind = TEN_OP_RENEW, .namespace_name = place->ns, .target = "t", .holder = "a", .token = token};
    ten_result result;
    assert_int_equal(apply_for(place->store, op, 300, &result), TENURE_E_UNREACHABLE);
    assert_int_equal(postgres_server_start_again(postgres->server), 0);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    assert_int_equal(must_acquire(place, "u", "a", LONG_MS), 1);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    assert_int_equal(must_acquire(place, "t", "a", LONG_MS), token + 1);
}

POSTGRES_CASE(a_server_that_does_not_answer_is_a_timeout_within_bounds) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    pid_t pid = (pid_t)atoi(postgres_text(
        postgres,
        "SELECT min(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"));
    assert_true(pid > 1);
    assert_int_equal(freeze_process(pid), 0);
    ten_store *stopped = NULL;
    for (int i = 0; i < 2; i++) {
        ten_store *store = i ? place->other : place->store;
        uint64_t start_ms = now_ms();
        int r = store->ops->ping(store, 400);
        assert_true(now_ms() - start_ms < 1000 + late_ms());
        if (r != TENURE_OK) {
            assert_int_equal(r, TENURE_E_TIMEOUT);
            stopped = store;
        }
    }
    assert_non_null(stopped);
    /* Its connection is closed: a late answer cannot be taken for another's. */
    assert_int_equal(stopped->ops->ping(stopped, CALL_MS), TENURE_OK);
    (void)thaw_process(pid);
}

POSTGRES_CASE(a_place_that_is_silent_or_wrong_does_not_keep_from_the_next_one) {
    struct postgres_place *postgres = *state;
    char url[FIXTURE_URL_SIZE];
    snprintf(url, sizeof url, "postgres:///%s?host=/nonexistent,%s&user=%s", postgres->database,
             postgres->server->directory, POSTGRES_SERVER_USER);
    ten_store_close(open_store(url));
    ten_error error;
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "&tiemout=1s", &error), TENURE_E_INVALID);
    ten_store *store = NULL;
    uint64_t start_ms = now_ms();
    int r =
        ten_store_open("postgres://u:secret@192.0.2.1/db?timeout=300ms&listen_url=postgres%3A%2F%2Fu%3Asecret%40h%2Fdb",
                       NULL, &store, &error);
    assert_true(r == TENURE_E_TIMEOUT || r == TENURE_E_UNREACHABLE);
    assert_true(now_ms() - start_ms < 1500);
    assert_null(strstr(error.message, "secret"));
    assert_non_null(strstr(error.message, "192.0.2.1"));
}

/* ---- roles (fault 34) */

POSTGRES_CASE(a_role_that_may_not_create_is_told_what_to_do) {
    struct postgres_place *postgres = *state;
    ten_error error;
    (void)postgres_text(postgres, "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN");
    assert_int_equal(postgres_place_try(postgres, "guest", "", &error), TENURE_E_DENIED);
    assert_non_null(strstr(error.message, "tenure doctor --migrate"));
    /* Its owner has done so; still it needs the permission to use it. */
    struct place *place = open_place(state);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_int_equal(postgres_place_try(postgres, "guest", "", &error), TENURE_E_DENIED);
    assert_non_null(strstr(error.message, "GRANT USAGE"));
    (void)postgres_text(postgres,
                        "GRANT USAGE ON SCHEMA tenure TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA tenure TO guest");
    char url[FIXTURE_URL_SIZE];
    ten_store *reader = NULL;
    postgres_server_url(postgres->server, postgres->database, "guest", "", url, sizeof url);
    assert_int_equal(ten_store_open(url, NULL, &reader, &error), TENURE_OK);
    struct place as_guest = *place;
    as_guest.store = reader;
    expect_holder(read_lease(&as_guest, "t"), "a");
    ten_op op = {.kind = TEN_OP_RELEASE, .namespace_name = place->ns, .target = "t", .token = token};
    ten_result result;
    assert_int_equal(apply_for(reader, op, CALL_MS, &result), TENURE_E_DENIED);
    op.kind = TEN_OP_ACQUIRE;
    op.target = "u";
    op.holder = "b";
    op.ttl_ms = LONG_MS;
    assert_int_equal(apply_for(reader, op, CALL_MS, &result), TENURE_E_DENIED);
    ten_store_close(reader);
    expect_holder(read_lease(place, "t"), "a");
    (void)postgres_text(postgres, "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure TO guest");
    reader = open_store(url);
    as_guest.store = reader;
    expect_outcome(release(&as_guest, "t", "a", token), TEN_OK);
    ten_store_close(reader);
    (void)postgres_text(postgres, "DROP OWNED BY guest; DROP ROLE guest");
}

POSTGRES_CASE(a_role_that_may_not_identify_the_server_works_too) {
    struct postgres_place *postgres = *state;
    (void)postgres_text(postgres,
                        "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public; DROP ROLE IF EXISTS modest;"
                        "CREATE ROLE modest LOGIN; GRANT CREATE ON DATABASE %s TO modest",
                        postgres->database);
    char url[FIXTURE_URL_SIZE];
    postgres_server_url(postgres->server, postgres->database, "modest", "", url, sizeof url);
    struct place place = postgres->place;
    place.store = open_store(url);
    must_acquire(&place, "t", "a", TTL_MS);
    ten_store_close(place.store);
}

/* Whoever may create objects in another schema of the search path must not change what our statements do. */
POSTGRES_CASE(operators_of_strangers_are_not_used) {
    struct postgres_place *postgres = *state;
    postgres_place_open(postgres, "");
    struct place *place = &postgres->place;
    (void)postgres_text(postgres, "CREATE FUNCTION public.shrink(bigint, interval) RETURNS interval LANGUAGE sql AS "
                                  "'SELECT interval ''1 millisecond'''");
    (void)postgres_text(postgres, "CREATE OPERATOR public.* (LEFTARG = bigint, RIGHTARG = interval, "
                                  "FUNCTION = public.shrink)");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS / 2, LONG_MS);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    assert_in_range(read_lease(place, "t").remaining_ms, LONG_MS / 2, LONG_MS);
}

POSTGRES_CASE(functions_of_strangers_are_not_used) {
    enum { RENEWALS = 6 };
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    postgres_place_open(postgres, "");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "CREATE FUNCTION public.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS "
                                  "'SELECT NULL::text'");
    (void)postgres_text(postgres, "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                                  "'SELECT timestamptz ''2001-01-01 00:00:00+00'''");
    (void)postgres_text(postgres, "CREATE TABLE public.used (what text)");
    static const char *const types[] = {"current_database() RETURNS name", "pg_backend_pid() RETURNS integer"};
    for (size_t i = 0; i < TEN_COUNT(types); i++)
        (void)postgres_text(postgres,
                            "CREATE FUNCTION public.%s LANGUAGE sql AS "
                            "'INSERT INTO public.used VALUES (''%s''); SELECT NULL::%s'",
                            types[i], types[i], strrchr(types[i], ' ') + 1);
    (void)postgres_text(postgres, "ALTER DATABASE \"%s\" SET search_path = public, pg_catalog", postgres->database);
    postgres_place_open(postgres, "");
    int fd;
    assert_int_equal(place->store->ops->watch(place->store, place->ns, &fd), 0);
    for (int i = 0; i < RENEWALS; i++)
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    assert_string_equal(
        postgres_text(postgres, "SELECT ends_at > pg_catalog.clock_timestamp() FROM tenure.record WHERE" ID "= 't'"),
        "t");
    assert_string_equal(postgres_text(postgres, "SELECT count(*) FROM public.used"), "0");
}

POSTGRES_CASE(triggers_and_rules_of_strangers_are_refused) {
    struct postgres_place *postgres = *state;
    ten_error error;
    postgres_place_open(postgres, "");
    (void)postgres_text(postgres, "CREATE FUNCTION public.spy() RETURNS trigger LANGUAGE plpgsql AS "
                                  "'BEGIN RETURN NEW; END'");
    (void)postgres_text(postgres, "CREATE TRIGGER spy BEFORE UPDATE ON tenure.record FOR EACH ROW EXECUTE FUNCTION "
                                  "public.spy()");
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "", &error), TENURE_E_SCHEMA);
    assert_non_null(strstr(error.message, "trigger spy on tenure.record"));
    (void)postgres_text(postgres, "DROP TRIGGER spy ON tenure.record");
    (void)postgres_text(postgres, "CREATE RULE spy AS ON DELETE TO tenure.change DO ALSO NOTHING");
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "", &error), TENURE_E_SCHEMA);
    assert_non_null(strstr(error.message, "rule spy on tenure.change"));
}

POSTGRES_CASE(an_empty_schema_of_another_role_is_refused) {
    struct postgres_place *postgres = *state;
    ten_error error;
    (void)postgres_text(postgres, "DO $$ BEGIN CREATE ROLE fleet LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; "
                                  "END $$");
    (void)postgres_text(postgres, "GRANT CREATE ON DATABASE %s TO fleet", postgres->database);
    (void)postgres_text(postgres, "CREATE SCHEMA tenure");
    (void)postgres_text(postgres, "GRANT ALL ON SCHEMA tenure TO fleet");
    assert_int_equal(postgres_place_try(postgres, "fleet", "", &error), TENURE_E_SCHEMA);
    assert_non_null(strstr(error.message, "belongs to the role"));
}

POSTGRES_CASE(a_newer_schema_is_refused) {
    struct postgres_place *postgres = *state;
    ten_error error;
    (void)open_place(state);
    (void)postgres_text(postgres, "UPDATE tenure.store SET schema_version = 99");
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "", &error), TENURE_E_SCHEMA);
}

/* Every record and its version; every table, view and column. */
#define WHOLE_SCHEMA                                                                                                   \
    "SELECT md5(schema_to_xmlschema('tenure', true, true, '')::text) || "                                              \
    "md5((SELECT string_agg(xmin::text || record::text, ',' ORDER BY key) FROM tenure.record)) || "                    \
    "(SELECT xmin || store::text FROM tenure.store)"

POSTGRES_CASE(a_schema_of_an_earlier_version_is_refused_and_left_as_it_is) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    ten_op op = {.kind = TEN_OP_ACQUIRE, .namespace_name = place->ns, .target = "u", .holder = "a", .ttl_ms = LONG_MS};
    ten_result result;
    ten_error error;
    char before[256];
    must_acquire(place, "t", "a", LONG_MS);
    (void)postgres_text(postgres, "UPDATE tenure.store SET schema_version = 1");
    snprintf(before, sizeof before, "%s", postgres_text(postgres, WHOLE_SCHEMA));
    assert_int_equal(postgres_place_try(postgres, POSTGRES_SERVER_USER, "", &error), TENURE_E_SCHEMA);
    assert_non_null(strstr(error.message, "use another database; or, when no program uses that schema, rename it"));
    assert_int_equal(apply_for(place->store, op, CALL_MS, &result), TENURE_E_SCHEMA);
    assert_string_equal(postgres_text(postgres, WHOLE_SCHEMA), before);
}

POSTGRES_CASE(a_schema_that_was_dropped_under_a_handle_is_made_again) {
    struct place *place = open_place(state);
    must_acquire(place, "t", "a", TTL_MS);
    (void)postgres_text(*state, "DROP SCHEMA tenure CASCADE");
    must_acquire(place, "t", "b", TTL_MS);
}

/* ---- sessions of all kinds */

POSTGRES_CASE(time_zones_and_other_settings_of_a_session_do_not_matter) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    static const char *const options[] = {
        "&options=-c%20TimeZone%3DAsia%2FTokyo%20-c%20DateStyle%3DGerman",
        "&options=-c%20TimeZone%3DAmerica%2FLos_Angeles%20-c%20default_transaction_isolation%3Dserializable",
        "&options=-c%20search_path%3Dnowhere%20-c%20IntervalStyle%3Diso_8601%20-c%20standard_conforming_strings%3Doff",
    };
    postgres_place_open(postgres, options[0]);
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (size_t i = 0; i < TEN_COUNT(options); i++) {
        postgres_place_open(postgres, options[i]);
        ten_result result = acquire(place, "t", "b", LONG_MS);
        expect_outcome(result, TEN_HELD);
        assert_in_range(result.remaining_ms, LONG_MS - 10000, LONG_MS);
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
        expect_outcome(renew(place, "t", "a", token, 0), TEN_OK);
    }
}

POSTGRES_CASE(people_see_scenes_in_a_view) {
    struct postgres_place *postgres = *state;
    struct place *place = open_place(state);
    snprintf(place->ns, sizeof place->ns, "scenes");
    uint64_t token = must_acquire(place, "scene-1", "tracker", LONG_MS);
    must_acquire(place, "scene-2", "tracker", TENURE_TTL_MIN_MS);
    sleep_ms(TENURE_TTL_MIN_MS + 50);
    assert_string_equal(postgres_text(postgres,
                                      "SELECT string_agg(scene_id || ' ' || coalesce(holder_id, '-') || ' ' || version "
                                      "|| ' ' || coalesce((expires_at > now())::text, '-'), ', ' ORDER BY scene_id) "
                                      "FROM tenure.scene_leases"),
                        "scene-1 tracker 1 true, scene-2 - 1 -");
    expect_outcome(release(place, "scene-1", "tracker", token), TEN_OK);
    assert_int_equal(must_acquire(place, "scene-1", "tracker", LONG_MS), token + 1);
}

/* ---- poolers */

static void expect_notice_within(struct postgres_place *postgres, uint64_t wait_ms) {
    struct place *place = &postgres->place;
    int fd = -1;
    assert_int_equal(place->other->ops->watch(place->other, place->ns, &fd), TENURE_OK);
    uint64_t cursor = cursor_now(place->other, place->ns);
    sleep_ms(50);
    place->other->ops->watch_clear(place->other);
    put_target(place, "t");
    uint64_t start_ms = now_ms();
    struct seen seen = {0};
    while (seen.count == 0 && now_ms() - start_ms < 5000) {
        (void)ten_wait_readable(fd, -1, 5000);
        place->other->ops->watch_clear(place->other);
        read_changes(place->other, place->ns, &cursor, &seen);
    }
    assert_int_equal(seen.count, 1);
    assert_in_range(now_ms() - start_ms, 0, wait_ms + late_ms());
}

static void note_warning(enum tenure_check_level level, const char *check, const char *found, const char *advice,
                         void *userdata) {
    (void)found;
    (void)advice;
    if (strcmp(check, "change notices") == 0)
        *(int *)userdata = (int)level;
    else
        assert_int_equal(level, TENURE_CHECK_OK);
}

POSTGRES_CASE(everything_works_through_a_pooler_that_changes_servers_after_each_transaction) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    postgres_place_open_pooled(postgres, "");
    for (int i = 0; i < 20; i++) {
        char target[16];
        snprintf(target, sizeof target, "t%d", i);
        uint64_t token = must_acquire(place, target, "a", LONG_MS);
        expect_outcome(renew(place, target, "a", token, LONG_MS), TEN_OK);
        struct place other = *place;
        other.store = place->other;
        expect_outcome(acquire(&other, target, "b", LONG_MS), TEN_HELD);
        expect_outcome(release(&other, target, "a", token), TEN_OK);
    }
    int level = -1;
    assert_int_equal(place->store->ops->check(place->store, note_warning, &level, CALL_MS), TENURE_OK);
    assert_int_equal(level, TENURE_CHECK_WARN);
    expect_notice_within(postgres, 1500);
}

POSTGRES_CASE(nothing_is_left_in_a_session_behind_a_pooler) {
    enum { CALLS = 6 };
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    char url[FIXTURE_URL_SIZE];
    postgres_place_open_pooled(postgres, "");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (int i = 0; i < CALLS; i++)
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    postgres_server_pooled_url(postgres->server, postgres->database, POSTGRES_SERVER_USER, "", url, sizeof url);
    PGconn *connection = PQconnectdb(url);
    for (int i = 0; i < CALLS; i++) { /* the pooler's sessions, one after the other */
        PGresult *result = PQexec(connection, "SELECT (SELECT count(*) FROM pg_prepared_statements) || ' ' || "
                                              "current_setting('lock_timeout') || ' ' || "
                                              "current_setting('enable_seqscan')");
        assert_int_equal(PQntuples(result), 1);
        assert_string_equal(PQgetvalue(result, 0, 0), "0 0 on");
        PQclear(result);
    }
    PQfinish(connection);
}

/* A statement in the store's own session. */
static void say_inside(ten_store *store, const char *statement, char *text, size_t size) {
    ten_postgres_store *backend = (ten_postgres_store *)((ten_record_store *)store)->backend;
    PGconn *connection = ten_postgres_link_connection(backend->link);
    assert_true(PQexitPipelineMode(connection));
    PGresult *result = PQexec(connection, statement);
    assert_int_not_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    snprintf(text, size, "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    assert_true(PQenterPipelineMode(connection));
}

POSTGRES_CASE(a_direct_connection_has_its_statements_prepared_and_works_on_when_they_are_removed) {
    struct postgres_place *postgres = *state;
    struct place *place = &postgres->place;
    char text[16];
    postgres_place_open(postgres, "");
    uint64_t token = must_acquire(place, "t", "a", LONG_MS);
    for (int i = 0; i < 3; i++)
        expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    say_inside(place->store, "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'tenure%'", text,
               sizeof text);
    assert_string_equal(text, "5");
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_LOST);
    say_inside(place->store, "DEALLOCATE ALL", text, sizeof text);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_OK);
    expect_outcome(renew(place, "t", "b", token, LONG_MS), TEN_LOST);
    expect_outcome(release(place, "t", "a", token), TEN_OK);
    expect_outcome(renew(place, "t", "a", token, LONG_MS), TEN_LOST);
}

POSTGRES_CASE(with_a_direct_connection_beside_the_pooler_notices_come_at_once) {
    struct postgres_place *postgres = *state;
    char options[FIXTURE_URL_SIZE];
    snprintf(options, sizeof options, "&listen_url=postgres%%3A%%2F%%2F%%2F%s%%3Fhost=%s%%26user=%s",
             postgres->database, postgres->server->directory, POSTGRES_SERVER_USER);
    postgres_place_open_pooled(postgres, options);
    int level = -1;
    struct place *place = &postgres->place;
    assert_int_equal(place->store->ops->check(place->store, note_warning, &level, CALL_MS), TENURE_OK);
    assert_int_equal(level, TENURE_CHECK_OK);
    expect_notice_within(postgres, 300);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    return run_cases(postgres_group_setup, postgres_group_teardown);
}
