/*
 * A private PostgreSQL to test the store on. See postgres_place.h.
 */
#include "conformance/postgres/postgres_place.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct postgres_server server;

int postgres_group_setup(void **state) {
    (void)state;
    return postgres_server_start(&server);
}

int postgres_group_teardown(void **state) {
    (void)state;
    postgres_server_remove(&server);
    return 0;
}

int postgres_place_setup(void **state) {
    static unsigned count;
    struct postgres_place *postgres = calloc(1, sizeof *postgres);
    if (!postgres)
        return -1;
    *state = postgres;
    postgres->server = &server;
    make_namespace(postgres->place.ns);
    snprintf(postgres->database, sizeof postgres->database, "test%u", ++count);
    char statement[128];
    snprintf(statement, sizeof statement, "CREATE DATABASE %s", postgres->database);
    bool done;
    free(postgres_server_query(&server, "postgres", statement, &done));
    return done ? 0 : -1;
}

void postgres_place_close(struct postgres_place *postgres) {
    ten_store_close(postgres->place.store);
    ten_store_close(postgres->place.other);
    postgres->place.store = postgres->place.other = NULL;
}

int postgres_place_teardown(void **state) {
    struct postgres_place *postgres = *state;
    postgres_place_close(postgres);
    postgres_server_remove(&postgres->standby);
    free(postgres->text);
    free(postgres);
    return 0;
}

static void open_both(struct postgres_place *postgres, const char *url) {
    postgres_place_close(postgres);
    postgres->place.store = open_store(url);
    postgres->place.other = open_store(url);
}

void postgres_place_open(struct postgres_place *postgres, const char *options) {
    char url[FIXTURE_URL_SIZE];
    postgres_server_url(postgres->server, postgres->database, POSTGRES_SERVER_USER, options, url, sizeof url);
    open_both(postgres, url);
}

void postgres_place_open_pooled(struct postgres_place *postgres, const char *options) {
    char url[FIXTURE_URL_SIZE];
    if (postgres->server->pooler == 0)
        assert_int_equal(postgres_server_start_pooler(postgres->server), 0);
    postgres_server_pooled_url(postgres->server, postgres->database, POSTGRES_SERVER_USER, options, url, sizeof url);
    open_both(postgres, url);
}

int postgres_place_try(struct postgres_place *postgres, const char *role, const char *options, ten_error *error) {
    char url[FIXTURE_URL_SIZE];
    ten_store *store = NULL;
    postgres_server_url(postgres->server, postgres->database, role, options, url, sizeof url);
    int r = ten_store_open(url, NULL, &store, error);
    ten_store_close(store);
    return r;
}

const char *postgres_text(struct postgres_place *postgres, const char *format, ...) {
    char statement[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    bool done;
    char *text = postgres_server_query(postgres->server, postgres->database, statement, &done);
    free(postgres->text);
    postgres->text = text;
    assert_true(done);
    return text ? text : "";
}

/* ---- blockers */

PGconn *postgres_connect(const struct postgres_place *postgres) {
    const char *const keywords[] = {"host", "dbname", "user", NULL};
    const char *const values[] = {postgres->server->directory, postgres->database, POSTGRES_SERVER_USER, NULL};
    return PQconnectdbParams(keywords, values, 0);
}

void postgres_say(PGconn *connection, const char *statement) {
    PGresult *result = PQexec(connection, statement);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(connection));
    PQclear(result);
}

static void *let_go_later(void *arg) {
    struct postgres_blocker *blocker = arg;
    sleep_ms(blocker->hold_ms);
    PQclear(PQexec(blocker->connection, "COMMIT"));
    return NULL;
}

void postgres_block(struct postgres_place *postgres, struct postgres_blocker *blocker, const char *statement,
                    uint64_t hold_ms) {
    blocker->connection = postgres_connect(postgres);
    blocker->hold_ms = hold_ms;
    postgres_say(blocker->connection, "BEGIN");
    postgres_say(blocker->connection, statement);
    assert_int_equal(pthread_create(&blocker->thread, NULL, let_go_later, blocker), 0);
}

void postgres_unblock(struct postgres_blocker *blocker) {
    pthread_join(blocker->thread, NULL);
    PQfinish(blocker->connection);
}
