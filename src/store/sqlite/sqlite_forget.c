/*
 * Counters of targets that are gone. Their rows are removed, and the namespace remembers the highest token among them,
 * so that no token is granted again. Called by sqlite.c for ids that are named, and with every trimming of the feed for
 * those that nobody has used for long.
 */
#include <string.h>

#include "store/sqlite/sqlite_db.h"

#define AGED_STEP    512u  /* leases that are looked at in one step: more than are made between two */
#define HISTORY_STEP 5000u /* changes */

int ten_db_get_forgotten(ten_db *db, const char *namespace_name) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_FORGOTTEN);
    if (!statement)
        return db->error->code;
    ten_bind_text(statement, 1, namespace_name);
    int found = ten_db_step(db, statement);
    db->context.forgotten = found > 0 ? ten_column_u64(statement, 0) : 0;
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

int ten_db_forget(ten_db *db, const char *namespace_name, const char *target, uint64_t token) {
    sqlite3_stmt *put = ten_db_statement(db, TEN_SQL_PUT_FORGOTTEN);
    sqlite3_stmt *removal = ten_db_statement(db, TEN_SQL_REMOVE_LEASE);
    if (!put || !removal)
        return db->error->code;
    ten_bind_text(put, 1, namespace_name);
    ten_bind_u64(put, 2, token);
    int r = ten_db_run(db, put);
    if (r < 0)
        return r;
    ten_bind_text(removal, 1, namespace_name);
    ten_bind_text(removal, 2, target);
    return ten_db_run(db, removal);
}

int ten_db_forget_history(ten_db *db, const char *namespace_name, uint64_t *place) {
    sqlite3_stmt *next = ten_db_statement(db, TEN_SQL_NEXT_CHANGES);
    sqlite3_stmt *blank = ten_db_statement(db, TEN_SQL_BLANK_CHANGES);
    if (!next || !blank)
        return db->error->code;
    ten_bind_u64(next, 1, *place);
    ten_bind_u64(next, 2, HISTORY_STEP);
    int found = ten_db_step(db, next);
    uint64_t end = found > 0 ? ten_column_u64(next, 0) : 0;
    sqlite3_reset(next);
    if (found < 0)
        return found;
    ten_bind_text(blank, 1, namespace_name);
    ten_bind_u64(blank, 2, *place);
    ten_bind_u64(blank, 3, end ? end : INT64_MAX);
    *place = end;
    return ten_db_run(db, blank);
}

/* ---- what nobody has used for long ---------------------------------------------------------------------- */

struct place {
    char namespace_name[TENURE_NAMESPACE_MAX + 2];
    char target[TENURE_TARGET_MAX + 1];
};

struct aged {
    struct place place;
    uint64_t token;
};

/* Where the last step ended, whoever made it. */
static int get_place(ten_db *db, struct place *place) {
    *place = (struct place){.namespace_name = " "}; /* before every namespace */
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_GET_AGED);
    if (!statement)
        return db->error->code;
    int found = ten_db_step(db, statement);
    const char *text = found > 0 ? ten_column_text(statement, 0) : NULL;
    const char *slash = text ? strchr(text, '/') : NULL;
    if (slash && (size_t)(slash - text) < sizeof place->namespace_name) {
        snprintf(place->namespace_name, sizeof place->namespace_name, "%.*s", (int)(slash - text), text);
        snprintf(place->target, sizeof place->target, "%s", slash + 1);
    }
    sqlite3_reset(statement);
    return found < 0 ? found : TENURE_OK;
}

static int put_place(ten_db *db, const struct place *place) {
    char text[sizeof *place + 2];
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_PUT_AGED);
    int r = statement ? ten_db_run_plain(db, TEN_SQL_REMOVE_AGED) : db->error->code;
    if (r < 0)
        return r;
    snprintf(text, sizeof text, "%s/%s", place->namespace_name, place->target);
    ten_bind_text(statement, 1, text);
    return ten_db_run(db, statement);
}

/* The next leases; the place moves on. At the end it is where the next pass begins. */
static int list_aged(ten_db *db, struct place *place, struct aged *aged, size_t *ret_count) {
    sqlite3_stmt *statement = ten_db_statement(db, TEN_SQL_LIST_AGED);
    if (!statement)
        return db->error->code;
    struct place from = *place;
    ten_bind_text(statement, 1, from.namespace_name);
    ten_bind_text(statement, 2, from.target);
    ten_bind_u64(statement, 3, AGED_STEP);
    ten_bind_u64(statement, 4, ten_sub_saturating(db->context.wall_ms, TEN_FEED_AGE_MS));
    ten_bind_u64(statement, 5, ten_sub_saturating(db->context.now_ms, TEN_FEED_AGE_MS));
    size_t looked_at = 0;
    int found;
    *ret_count = 0;
    while ((found = ten_db_step(db, statement)) > 0) {
        const char *namespace_name = ten_column_text(statement, 0);
        const char *target = ten_column_text(statement, 1);
        snprintf(place->namespace_name, sizeof place->namespace_name, "%s", namespace_name ? namespace_name : "");
        snprintf(place->target, sizeof place->target, "%s", target ? target : "");
        if (ten_column_u64(statement, 3) != 0)
            aged[(*ret_count)++] = (struct aged){.place = *place, .token = ten_column_u64(statement, 2)};
        looked_at++;
    }
    sqlite3_reset(statement);
    if (looked_at < AGED_STEP)
        *place = (struct place){.namespace_name = " "};
    return found < 0 ? found : TENURE_OK;
}

int ten_db_forget_aged(ten_db *db) {
    static _Thread_local struct aged aged[AGED_STEP];
    struct place place;
    size_t count = 0;
    if (db->context.recovering_ms > 0)
        return TENURE_OK;
    int r = get_place(db, &place);
    if (r == TENURE_OK)
        r = list_aged(db, &place, aged, &count);
    for (size_t i = 0; r == TENURE_OK && i < count; i++)
        r = ten_db_forget(db, aged[i].place.namespace_name, aged[i].place.target, aged[i].token);
    return r < 0 ? r : put_place(db, &place);
}
