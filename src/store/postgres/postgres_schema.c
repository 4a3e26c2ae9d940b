/*
 * What must be there before a call can work: the schema with its tables and functions, and its one row. Looked at when
 * a store is opened, and when a call was refused because of it.
 */
#include <string.h>

#include "store/postgres/postgres_sql.h"
#include "store/postgres/postgres_state.h"

#define SCHEMA_VERSION 3u /* and in postgres.sql */

struct found {
    bool has_schema;
    bool has_store;
    char user[64];
    char database[64];
    char owner[64]; /* of the schema, if that is a role whose rights this one does not have; else "" */
    bool marked;    /* our tables may have a trigger or a rule */
};

static int run(ten_postgres_store *store, const char *what, const char *script, uint64_t deadline_ms,
               PGresult **ret_result) {
    return ten_postgres_link_run(store->link, what, script, deadline_ms, ret_result, store->base.error);
}

static int look(ten_postgres_store *store, uint64_t deadline_ms, struct found *found) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = run(store, "looking for the schema", PG_FIND_SCHEMA, deadline_ms, &result);
    if (r < 0)
        return r;
    if (PQntuples(result) != 1)
        return ten_postgres_misunderstood(store);
    found->has_schema = ten_postgres_flag(result, 0, 0);
    found->has_store = ten_postgres_flag(result, 0, 1);
    snprintf(found->user, sizeof found->user, "%s", ten_postgres_text(result, 0, 2));
    snprintf(found->database, sizeof found->database, "%s", ten_postgres_text(result, 0, 3));
    const char *owner = ten_postgres_text(result, 0, 4);
    snprintf(found->owner, sizeof found->owner, "%s", owner ? owner : "");
    found->marked = ten_postgres_flag(result, 0, 5);
    return TENURE_OK;
}

/* Whoever may create a schema could have made this one first, with code that would run with this role's rights. */
static int check_is_ours(ten_postgres_store *store, const struct found *found, uint64_t deadline_ms) {
    if (found->has_schema && !found->has_store && found->owner[0])
        return ten_fail(store->base.error, TENURE_E_SCHEMA,
                        "the schema tenure of the database %s is empty and belongs to the role %s: drop it, or run "
                        "`tenure doctor --migrate` once as that role",
                        found->database, found->owner);
    if (!found->marked)
        return TENURE_OK;
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = run(store, "looking for triggers", PG_FIND_FOREIGN, deadline_ms, &result);
    if (r < 0 || PQntuples(result) == 0)
        return r;
    return ten_fail(store->base.error, TENURE_E_SCHEMA,
                    "the database %s has a %s, which Tenure did not make and which would run with the rights of the "
                    "role %s: drop it",
                    found->database, ten_postgres_text(result, 0, 0), found->user);
}

/* The version of the schema that is there. */
static int check_version(ten_postgres_store *store, const struct found *found, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
    int r = run(store, "reading the version of the schema", PG_GET_VERSION, deadline_ms, &result);
    if (r == TENURE_E_DENIED)
        return ten_fail(
            store->base.error, r,
            "the role %s may not use the schema tenure of the database %s: let its owner GRANT USAGE ON SCHEMA "
            "tenure, and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure",
            found->user, found->database);
    if (r < 0)
        return r;
    uint64_t version = PQntuples(result) == 1 ? ten_postgres_number(result, 0, 0) : 0;
    if (version > SCHEMA_VERSION)
        return ten_fail(
            store->base.error, TENURE_E_SCHEMA,
            "the schema tenure of the database %s has version %llu, this program knows %u: upgrade this program",
            found->database, (unsigned long long)version, SCHEMA_VERSION);
    if (version > 0 && version < SCHEMA_VERSION)
        return ten_fail(
            store->base.error, TENURE_E_SCHEMA,
            "the schema tenure of the database %s has the layout %llu of an earlier version, which this program does "
            "not use (it knows %u): use another database; or, when no program uses that schema, rename it or drop it",
            found->database, (unsigned long long)version, SCHEMA_VERSION);
    if (version == 0)
        return ten_fail(
            store->base.error, TENURE_E_STORE,
            "tenure.store of the database %s has lost its row: restore the schema tenure from a backup; or, when no "
            "program uses it, drop it, and it is made anew",
            found->database);
    return TENURE_OK;
}

static int create(ten_postgres_store *store, const struct found *found, uint64_t deadline_ms) {
    TEN_CLEANUP(ten_postgres_clear) PGresult *may_identify = NULL;
    int r = run(store, "looking at the server", PG_MAY_IDENTIFY, deadline_ms, &may_identify);
    if (r == TENURE_OK && !found->has_schema)
        r = run(store, "creating the schema", PG_SCHEMA, deadline_ms, NULL);
    if (r == TENURE_OK)
        r = run(store, "creating the tables", PG_TABLES, deadline_ms, NULL);
    if (r == TENURE_OK)
        r = run(store, "creating the tables",
                ten_postgres_flag(may_identify, 0, 0) ? PG_SERVER_VIEW : PG_SERVER_VIEW_BY_START, deadline_ms, NULL);
    if (r == TENURE_OK)
        r = run(store, "creating the functions", PG_FUNCTIONS, deadline_ms, NULL);
    if (r == TENURE_OK)
        r = run(store, "creating the tables", PG_FIRST_ROW, deadline_ms, NULL);
    if (r == TENURE_E_DENIED)
        return ten_fail(
            store->base.error, r,
            "the role %s may not create the schema tenure in the database %s: run `tenure doctor --migrate` once "
            "as a role that may, or let the owner GRANT CREATE ON DATABASE %s TO %s",
            found->user, found->database, found->database, found->user);
    return r;
}

/* Two that start together both find nothing: whoever has the lock second looks again. */
static int create_alone(ten_postgres_store *store, struct found *found, uint64_t deadline_ms) {
    int r = run(store, "waiting for the schema's lock", PG_LOCK_SCHEMA, deadline_ms, NULL);
    if (r == TENURE_OK)
        r = look(store, deadline_ms, found);
    if (r == TENURE_OK && !found->has_store)
        r = create(store, found, deadline_ms);
    /* Well, or with everything undone and the error kept. */
    ten_error why = *store->base.error;
    int ended = run(store, "ending", r < 0 ? PG_ROLLBACK : PG_COMMIT, deadline_ms, NULL);
    if (r < 0)
        *store->base.error = why;
    return r < 0 ? r : ended;
}

int ten_postgres_migrate(ten_postgres_store *store, uint64_t deadline_ms) {
    struct found found = {0};
    int r = look(store, deadline_ms, &found);
    if (r == TENURE_OK)
        r = check_is_ours(store, &found, deadline_ms);
    if (r == TENURE_OK && !found.has_store)
        r = create_alone(store, &found, deadline_ms);
    if (r == TENURE_OK)
        r = check_version(store, &found, deadline_ms);
    return r;
}
