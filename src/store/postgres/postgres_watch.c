/*
 * Hearing of changes: a second connection that LISTENs to the namespace's channel, kept by notice_watch.h; its ping is
 * an empty statement. Called through backend.h.
 */
#include <string.h>

#include "store/postgres/postgres_state.h"

#define POOLED_MS 1000u /* how often the feed is read when listening is in vain */

/* Through one that gives the server connection to another client after each transaction, nothing would be heard. */
static int check_for_pooler(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = ten_postgres_link_run(link, "SELECT pg_catalog.pg_backend_pid()", deadline_ms, &result, store->base.error);
    if (r < 0)
        return r;
    bool pooled = PQntuples(result) != 1 || !ten_postgres_link_is_direct(link, ten_postgres_number(result, 0, 0));
    store->watch.notice.poll_ms = pooled ? POOLED_MS : 0;
    return pooled ? ten_fail(store->base.error, TENURE_E_UNSUPPORTED,
                             "a pooler stands in front of the server: give listen_url=URL for a direct connection")
                  : TENURE_OK;
}

static int listen_on(ten_postgres_store *store, ten_postgres_link *link, uint64_t deadline_ms) {
    PGconn *connection = ten_postgres_link_connection(link);
    char channel[64];
    char statement[160];
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    snprintf(channel, sizeof channel, "tenure:%.56s", store->watch.notice.namespace_name);
    char *quoted = PQescapeIdentifier(connection, channel, strlen(channel));
    if (!quoted)
        return ten_postgres_no_memory(store);
    snprintf(statement, sizeof statement, "LISTEN %s", quoted);
    PQfreemem(quoted);
    int r = ten_postgres_link_run(link, statement, deadline_ms, &result, store->base.error);
    if (r == TENURE_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        r = ten_postgres_failed(result, "listening", store->base.error);
    return r;
}

static int listen_beside(void *owner, uint64_t deadline_ms, int *ret_fd) {
    ten_postgres_store *store = owner;
    ten_postgres_watch *watch = &store->watch;
    ten_postgres_settings *settings = store->listen_settings ? store->listen_settings : store->settings;
    int r = ten_postgres_link_open(settings, deadline_ms, &watch->link, store->base.error);
    if (r == TENURE_OK)
        r = check_for_pooler(store, watch->link, deadline_ms);
    if (r == TENURE_OK)
        r = listen_on(store, watch->link, deadline_ms);
    if (r == TENURE_OK)
        *ret_fd = PQsocket(ten_postgres_link_connection(watch->link));
    return r;
}

static void end_listening(void *owner) {
    ten_postgres_watch *watch = &((ten_postgres_store *)owner)->watch;
    ten_postgres_link_close(watch->link);
    watch->link = NULL;
}

/* Takes what has come: notices, and the answers to our empty statements. */
static bool take_notices(void *owner) {
    ten_postgres_watch *watch = &((ten_postgres_store *)owner)->watch;
    PGconn *connection = ten_postgres_link_connection(watch->link);
    if (!ten_postgres_link_is_fresh(watch->link))
        return false;
    for (PGnotify *notice; (notice = PQnotifies(connection)); PQfreemem(notice))
        ;
    while (watch->notice.ping_sent && !PQisBusy(connection)) {
        PGresult *result = PQgetResult(connection);
        bool answered = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        if (answered)
            watch->notice.ping_sent = false;
        else if (PQstatus(connection) != CONNECTION_OK)
            return false;
    }
    return true;
}

static bool send_ping(void *owner, uint64_t deadline_ms) {
    ten_error error;
    return ten_postgres_link_sync(((ten_postgres_store *)owner)->watch.link, deadline_ms, &error) == TENURE_OK;
}

/* ---- the ops */

static const ten_notice_ops notice_ops = {.server = "PostgreSQL",
                                          .patience = 3,
                                          .listen = listen_beside,
                                          .close = end_listening,
                                          .read = take_notices,
                                          .ping = send_ping};

void ten_postgres_watch_init(ten_postgres_store *store) {
    ten_notice_watch_init(&store->watch.notice, store, store->base.error, &notice_ops);
}

int ten_postgres_watch_get(ten_backend *base, const char *namespace_name, int *ret_fd) {
    return ten_notice_watch_get(&((ten_postgres_store *)base)->watch.notice, namespace_name, ret_fd);
}

void ten_postgres_watch_clear(ten_backend *base) {
    ten_notice_watch_clear(&((ten_postgres_store *)base)->watch.notice);
}
