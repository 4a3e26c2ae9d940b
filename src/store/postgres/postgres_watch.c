/*
 * Hearing of changes: a second connection that LISTENs to the namespace's channel, kept by notice_watch.h; its ping is
 * an empty statement.
 */
#include <string.h>

#include "store/postgres/postgres_state.h"

_Static_assert(offsetof(ten_postgres_store, watch) == offsetof(ten_noticing, watch), "see notice_watch.h");

static ten_postgres_store *self(ten_backend *base) {
    return (ten_postgres_store *)base;
}

#define POOLED_MS 1000u /* how often the feed is read when listening is in vain */

/* Through one that gives the server connection to another client after each transaction, nothing would be heard. */
static int check_for_pooler(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = ten_postgres_link_run(link, "listening", "SELECT pg_catalog.pg_backend_pid()", deadline_ms, &result,
                                  store->base.error);
    if (r < 0)
        return r;
    bool pooled = PQntuples(result) != 1 || !ten_postgres_link_is_direct(link, ten_postgres_number(result, 0, 0));
    store->watch.poll_ms = pooled ? POOLED_MS : 0;
    return pooled ? ten_fail(store->base.error, TENURE_E_UNSUPPORTED,
                             "a pooler stands in front of the server: give listen_url=URL for a direct connection")
                  : TENURE_OK;
}

static int listen_on(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    PGconn *connection = ten_postgres_link_connection(link);
    char channel[64];
    char statement[160];
    snprintf(channel, sizeof channel, "tenure:%.56s", store->watch.namespace_name);
    char *quoted = PQescapeIdentifier(connection, channel, strlen(channel));
    if (!quoted)
        return ten_postgres_no_memory(store);
    snprintf(statement, sizeof statement, "LISTEN %s", quoted);
    PQfreemem(quoted);
    return ten_postgres_link_run(link, "listening", statement, deadline_ms, NULL, store->base.error);
}

static int listen_beside(ten_backend *base, uint64_t deadline_ms, int *ret_fd) {
    ten_postgres_store *store = self(base);
    ten_postgres_settings *settings = store->listen_settings ? store->listen_settings : store->settings;
    int r = ten_postgres_link_open(settings, deadline_ms, &store->watch_link, base->error);
    if (r == TENURE_OK)
        r = check_for_pooler(store, store->watch_link, deadline_ms);
    if (r == TENURE_OK)
        r = listen_on(store, store->watch_link, deadline_ms);
    if (r == TENURE_OK)
        *ret_fd = PQsocket(ten_postgres_link_connection(store->watch_link));
    return r;
}

static void end_listening(ten_backend *base) {
    ten_postgres_link_close(self(base)->watch_link);
    self(base)->watch_link = NULL;
}

/* Takes what has come: notices, and the answers to our empty statements. */
static bool take_notices(ten_backend *base) {
    ten_postgres_store *store = self(base);
    PGconn *connection = ten_postgres_link_connection(store->watch_link);
    if (!ten_postgres_link_is_fresh(store->watch_link))
        return false;
    for (PGnotify *notice; (notice = PQnotifies(connection)); PQfreemem(notice))
        ;
    while (store->watch.ping_sent && !PQisBusy(connection)) {
        PGresult *result = PQgetResult(connection);
        bool answered = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (answered)
            store->watch.ping_sent = false;
        else if (PQstatus(connection) != CONNECTION_OK)
            return false;
    }
    return true;
}

static bool send_ping(ten_backend *base, uint64_t deadline_ms) {
    ten_error error;
    return ten_postgres_link_sync(self(base)->watch_link, deadline_ms, &error) == TENURE_OK;
}

const ten_notice_ops ten_postgres_notice_ops = {.server = "PostgreSQL",
                                                .patience = 3,
                                                .listen = listen_beside,
                                                .close = end_listening,
                                                .read = take_notices,
                                                .ping = send_ping};
