/*
 * The statements of heartbeats and renewals, prepared on a connection that carries many of them: to parse and to plan
 * them again each time takes the server as long as to renew a hundred leases. A connection that goes through a pooler
 * is left alone, because the pooler gives the server's session to others. Called by postgres.c.
 */
#include <string.h>

#include "store/postgres/postgres_instance_sql.h"
#include "store/postgres/postgres_lease_sql.h"
#include "store/postgres/postgres_schema_sql.h"
#include "store/postgres/postgres_state.h"

#define USES_BEFORE 2u /* of a connection: who comes for one call has nothing from it */

static const char *const usual[TEN_POSTGRES_PREPARED] = {PG_GATE, PG_RENEW_PLAINLY, PG_BEAT, PG_READ_LEASES};

/* Takes `count` answers and the end of the pipeline. The number in the first one's first row, if it has one; *ret_done:
 * none of them is an error. */
static int receive(ten_postgres_store *store, size_t count, uint64_t deadline_ms, uint64_t *ret_number,
                   bool *ret_done) {
    *ret_done = true;
    for (size_t i = 0; i <= count; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        int r = ten_postgres_link_receive(store->link, deadline_ms, &result, &store->base.error);
        if (r < 0)
            return r;
        *ret_done &= PQresultStatus(result) != PGRES_FATAL_ERROR && PQresultStatus(result) != PGRES_PIPELINE_ABORTED;
        if (i == 0 && PQntuples(result) == 1)
            *ret_number = ten_postgres_number(result, 0, 0);
    }
    return TENURE_OK;
}

/* A pooler tells its clients numbers of its own, and not those of the server's processes. */
static int find_pooler(ten_postgres_store *store, uint64_t deadline_ms, bool *ret_direct) {
    uint64_t process = 0;
    bool done = false;
    int r = ten_postgres_link_send(store->link, PG_PROCESS, 0, NULL, &store->base.error);
    if (r == TENURE_OK)
        r = ten_postgres_link_sync(store->link, deadline_ms, &store->base.error);
    if (r == TENURE_OK)
        r = receive(store, 1, deadline_ms, &process, &done);
    *ret_direct = done && process == (uint64_t)PQbackendPID(ten_postgres_link_connection(store->link));
    return r;
}

/* A transaction of its own, so that names are looked up with the pinned search path. */
static int send_statements(ten_postgres_store *store, uint64_t deadline_ms) {
    ten_error *error = &store->base.error;
    int r = ten_postgres_link_send(store->link, PG_BEGIN, 0, NULL, error);
    if (r == TENURE_OK)
        r = ten_postgres_link_send(store->link, PG_PIN, 0, NULL, error);
    for (size_t i = 0; r == TENURE_OK && i < TEN_COUNT(usual); i++)
        r = ten_postgres_link_prepare(store->link, i, usual[i], error);
    if (r == TENURE_OK)
        r = ten_postgres_link_send(store->link, PG_COMMIT, 0, NULL, error);
    return r == TENURE_OK ? ten_postgres_link_sync(store->link, deadline_ms, error) : r;
}

int ten_postgres_prepare(ten_postgres_store *store, uint64_t deadline_ms) {
    bool direct = false;
    bool done = false;
    uint64_t nothing;
    if (ten_postgres_link_uses(store->link) != USES_BEFORE)
        return TENURE_OK;
    int r = find_pooler(store, deadline_ms, &direct);
    if (r < 0 || !direct)
        return r;
    r = send_statements(store, deadline_ms);
    if (r == TENURE_OK)
        r = receive(store, TEN_COUNT(usual) + 3, deadline_ms, &nothing, &done);
    if (r == TENURE_OK && !done && !ten_postgres_roll_back(store, deadline_ms))
        r = ten_postgres_misunderstood(store);
    if (r == TENURE_OK && done)
        ten_postgres_link_set_prepared(store->link, usual);
    return r;
}
