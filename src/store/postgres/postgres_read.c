/*
 * What the PostgreSQL backend reads (targets with their leases, instances, changes), and edits of the registry. Each is
 * one round trip.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "rules/pin.h"
#include "store/postgres/postgres_instance_sql.h"
#include "store/postgres/postgres_state.h"
#include "store/postgres/postgres_target_sql.h"

#define LIMIT_MOST INT32_MAX

static ten_postgres_store *self(ten_store *base) {
    return (ten_postgres_store *)base;
}

/* A listing: one statement, whose rows are handed out after the transaction has ended, because then the connection is
 * free again. */
struct listing {
    const char *statement;
    int count;
    const char *const *values;
    int fields;
    PGresult *rows;
};

static int send_listing(ten_postgres_store *store, void *userdata) {
    const struct listing *listing = userdata;
    return ten_postgres_send(store, listing->statement, listing->count, listing->values);
}

static int take_listing(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct listing *listing = userdata;
    (void)statement;
    if (PQnfields(result) != listing->fields)
        return ten_postgres_misunderstood(store);
    PQclear(listing->rows);
    listing->rows = PQcopyResult(result, PG_COPYRES_TUPLES);
    return listing->rows ? TENURE_OK : ten_postgres_no_memory(store);
}

static int read_rows(ten_store *base, const char *what, struct listing *listing, uint64_t timeout_ms) {
    ten_postgres_work work = {
        .what = what, .lists = true, .send = send_listing, .take = take_listing, .userdata = listing};
    int r = ten_postgres_transact(self(base), &work, ten_add_saturating(ten_now_ms(), timeout_ms));
    if (r < 0) {
        PQclear(listing->rows);
        listing->rows = NULL;
    }
    return r;
}

/* ---- targets with their leases ------------------------------------------------------------------------- */

enum { LIST_FIELDS = 15, INSTANCE_FIELDS = 8, CHANGE_FIELDS = 11 };

static int hand_out_row(const PGresult *rows, int at, ten_row_fn each, void *userdata) {
    ten_row row = {.target = {.id = PQgetvalue(rows, at, 0)},
                   .registered = ten_postgres_flag(rows, at, 1),
                   .token = ten_postgres_number(rows, at, 7),
                   .holder = ten_postgres_text(rows, at, 8)};
    ten_pin_copy pin;
    if (row.registered) {
        row.target.url = ten_postgres_text(rows, at, 2);
        row.target.exec = ten_postgres_text(rows, at, 3);
        row.target.spec = ten_postgres_text(rows, at, 4);
        row.target.every_ms = ten_postgres_number(rows, at, 5);
        row.target.paused = ten_postgres_flag(rows, at, 6);
        ten_pin_read(ten_postgres_text(rows, at, 13), ten_postgres_number(rows, at, 14), &pin);
        row.pin = pin.pin;
    }
    if (row.holder) {
        row.ttl_ms = ten_postgres_number(rows, at, 9);
        row.remaining_ms = ten_postgres_number(rows, at, 10);
        row.acquired_at_ms = ten_postgres_number(rows, at, 11);
        row.barred = ten_postgres_flag(rows, at, 12);
    }
    return each(&row, userdata);
}

int ten_postgres_list(ten_store *base, const ten_query *query, ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    char limit[TEN_DIGITS_SIZE];
    const char *most = ten_digits(limit, ten_min_u64(query->limit, LIMIT_MOST));
    const char *after = query->after ? query->after : "";
    const char *values[] = {query->namespace_name, after, ten_filter_name(query->filter), most,
                            query->current ? "t" : "f"};
    const char *registered[] = {query->namespace_name, after, most};
    struct listing listing = {
        .statement = PG_LIST, .count = TEN_COUNT(values), .values = values, .fields = LIST_FIELDS};
    if (query->filter == TENURE_REGISTERED)
        listing = (struct listing){.statement = PG_LIST_REGISTERED,
                                   .count = TEN_COUNT(registered),
                                   .values = registered,
                                   .fields = LIST_FIELDS};
    int r = read_rows(base, "listing targets", &listing, timeout_ms);
    for (int i = 0; r == TENURE_OK && i < PQntuples(listing.rows); i++)
        r = hand_out_row(listing.rows, i, each, userdata);
    PQclear(listing.rows);
    return r;
}

int ten_postgres_read_targets(ten_store *base, const char *namespace_name, const char *const *ids, size_t count,
                              ten_row_fn each, void *userdata, uint64_t timeout_ms) {
    ten_buf list = {0};
    for (size_t i = 0; i < count; i++)
        ten_postgres_add_text(&list, ids[i]);
    ten_postgres_end_list(&list);
    const char *values[] = {namespace_name, list.data};
    struct listing listing = {
        .statement = PG_READ_TARGETS, .count = TEN_COUNT(values), .values = values, .fields = LIST_FIELDS};
    int r = list.failed ? ten_postgres_no_memory(self(base)) : read_rows(base, "reading targets", &listing, timeout_ms);
    for (int i = 0; r == TENURE_OK && i < PQntuples(listing.rows); i++)
        r = hand_out_row(listing.rows, i, each, userdata);
    PQclear(listing.rows);
    ten_buf_free(&list);
    return r;
}

/* ---- instances ----------------------------------------------------------------------------------------- */

int ten_postgres_list_instances(ten_store *base, const char *namespace_name, ten_instance_fn each, void *userdata,
                                uint64_t timeout_ms) {
    struct listing listing = {
        .statement = PG_LIST_INSTANCES, .count = 1, .values = &namespace_name, .fields = INSTANCE_FIELDS};
    int r = read_rows(base, "listing instances", &listing, timeout_ms);
    for (int i = 0; r == TENURE_OK && i < PQntuples(listing.rows); i++) {
        const char *metadata = PQgetvalue(listing.rows, i, 2);
        ten_instance instance = {.instance = PQgetvalue(listing.rows, i, 0),
                                 .weight = (uint32_t)ten_postgres_number(listing.rows, i, 1),
                                 .metadata = metadata[0] ? metadata : NULL,
                                 .ttl_ms = ten_postgres_number(listing.rows, i, 3),
                                 .remaining_ms = ten_postgres_number(listing.rows, i, 4),
                                 .since_ms = ten_postgres_number(listing.rows, i, 5),
                                 .ask = (enum ten_ask)ten_postgres_number(listing.rows, i, 6),
                                 .has_session = ten_postgres_flag(listing.rows, i, 7)};
        r = each(&instance, userdata);
    }
    PQclear(listing.rows);
    return r;
}

int ten_postgres_list_namespaces(ten_store *base, tenure_name_fn each, void *userdata, uint64_t timeout_ms) {
    struct listing listing = {.statement = PG_LIST_NAMESPACES, .fields = 1};
    int r = read_rows(base, "listing namespaces", &listing, timeout_ms);
    for (int i = 0; r == TENURE_OK && i < PQntuples(listing.rows); i++)
        r = each(PQgetvalue(listing.rows, i, 0), userdata);
    PQclear(listing.rows);
    return r;
}

/* ---- changes ------------------------------------------------------------------------------------------- */

static int hand_out_changes(const PGresult *rows, const char *namespace_name, uint64_t *cursor, ten_change_fn each,
                            void *userdata) {
    int r = TENURE_OK;
    for (int i = 0; r == TENURE_OK && i < PQntuples(rows); i++) {
        if (!ten_postgres_text(rows, i, 2))
            break; /* there are none */
        ten_change change = {.cursor = ten_postgres_number(rows, i, 2),
                             .at_ms = ten_postgres_number(rows, i, 3),
                             .kind = (enum tenure_event_kind)ten_event_parse(PQgetvalue(rows, i, 4)),
                             .reason = ten_reason_parse(PQgetvalue(rows, i, 5)),
                             .namespace_name = namespace_name,
                             .target = PQgetvalue(rows, i, 6),
                             .instance = PQgetvalue(rows, i, 7),
                             .actor = PQgetvalue(rows, i, 8),
                             .token = ten_postgres_number(rows, i, 9)};
        *cursor = change.cursor;
        /* A kind that a newer version writes is nothing to this one. */
        if ((int)change.kind < TEN_EVENT_COUNT)
            r = each(&change, userdata);
    }
    return r;
}

int ten_postgres_changes(ten_store *base, const char *namespace_name, uint64_t *cursor, size_t limit,
                         ten_change_fn each, void *userdata, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    char numbers[2][TEN_DIGITS_SIZE];
    bool now = *cursor == TEN_CURSOR_NOW;
    bool oldest = *cursor == TEN_CURSOR_OLDEST;
    uint64_t from = oldest ? 0 : ten_min_u64(*cursor, INT64_MAX);
    const char *values[] = {namespace_name, ten_digits(numbers[0], from),
                            ten_digits(numbers[1], now ? 0 : ten_min_u64(limit, LIMIT_MOST))};
    struct listing listing = {
        .statement = PG_LIST_CHANGES, .count = TEN_COUNT(values), .values = values, .fields = CHANGE_FIELDS};
    ten_notice_watch_reconnect(&store->watch.notice);
    int r = read_rows(base, "reading the feed", &listing, timeout_ms);
    if (r < 0)
        return r;
    bool exists = PQntuples(listing.rows) > 0;
    uint64_t last = exists ? ten_postgres_number(listing.rows, 0, 0) : 0;
    uint64_t first = exists ? ten_postgres_number(listing.rows, 0, 1) : 0;
    if (oldest) {
        *cursor = last; /* unless there is something to read */
        r = hand_out_changes(listing.rows, namespace_name, cursor, each, userdata);
    } else if (now || *cursor > last || *cursor < first) {
        /* Without the namespace, what the cursor belonged to is gone. */
        bool epoch = !exists || ten_postgres_flag(listing.rows, 0, 10);
        *cursor = last;
        if (!now)
            r = ten_store_missed(base, namespace_name, last, epoch, each, userdata);
    } else {
        r = hand_out_changes(listing.rows, namespace_name, cursor, each, userdata);
    }
    PQclear(listing.rows);
    return r;
}

/* ---- the quarantine ------------------------------------------------------------------------------------ */

struct recovery {
    const char *values[2]; /* the TTL, the actor */
    uint64_t left_ms;
};

static int send_recovery(ten_postgres_store *store, void *userdata) {
    const struct recovery *recovery = userdata;
    return recovery->values[1] ? ten_postgres_send(store, PG_END_RECOVERY, 2, recovery->values)
                               : ten_postgres_send(store, PG_GET_RECOVERY, 1, recovery->values);
}

static int take_recovery(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct recovery *recovery = userdata;
    (void)statement;
    if (PQntuples(result) != 1)
        return ten_postgres_misunderstood(store);
    recovery->left_ms = ten_postgres_number(result, 0, 0);
    return TENURE_OK;
}

int ten_postgres_recovery(ten_store *base, const char *namespace_name, uint64_t ttl_ms, const char *actor,
                          uint64_t *ret_left_ms, uint64_t timeout_ms) {
    char number[TEN_DIGITS_SIZE];
    struct recovery recovery = {.values = {ten_digits(number, ttl_ms), actor}};
    ten_postgres_work work = {.what = "ending the recovery",
                              .lists = true,
                              .once = actor != NULL,
                              .send = send_recovery,
                              .take = take_recovery,
                              .userdata = &recovery};
    (void)namespace_name; /* an epoch is of all of them */
    int r = ten_postgres_transact(self(base), &work, ten_add_saturating(ten_now_ms(), timeout_ms));
    if (r == TENURE_OK)
        *ret_left_ms = recovery.left_ms;
    return r;
}

/* ---- the registry -------------------------------------------------------------------------------------- */

/* Edits go in rounds, none of which has an id twice: a statement sees nothing of what it does itself. */
struct edits {
    const char *namespace_name;
    ten_target_edit *at;
    size_t count;
    unsigned *rounds; /* of each */
    unsigned last_round;
};

enum { EDIT_COLUMNS = 12 };

static int number_rounds(ten_postgres_store *store, struct edits *edits) {
    ten_map times = {0};
    bool failed = !(edits->rounds = ten_calloc(edits->count ? edits->count : 1, sizeof *edits->rounds));
    for (size_t i = 0; !failed && i < edits->count; i++) {
        uintptr_t round = (uintptr_t)ten_map_get(&times, edits->at[i].target.id) + 1;
        edits->rounds[i] = (unsigned)round;
        edits->last_round = edits->rounds[i] > edits->last_round ? edits->rounds[i] : edits->last_round;
        failed = !ten_map_put(&times, edits->at[i].target.id, (void *)round);
    }
    ten_map_free(&times);
    return failed ? ten_postgres_no_memory(store) : TENURE_OK;
}

static void write_pin(ten_buf *lists, const ten_target_edit *edit) {
    bool pins = edit->action == TEN_TARGET_PIN || edit->action == TEN_TARGET_UNPIN;
    ten_change change = {.instance = "", .actor = ""};
    ten_pin_tell(edit, &change);
    ten_buf text = {0};
    if (edit->action == TEN_TARGET_PIN)
        ten_pin_write(&text, &edit->pin);
    ten_postgres_add_text(lists, text.size ? ten_buf_string(&text) : NULL);
    lists++->failed |= text.failed;
    ten_buf_free(&text);
    ten_postgres_add_number(lists++, edit->pin.left_ms);
    ten_postgres_add_text(lists++, pins ? ten_reason_name(change.reason) : NULL);
    ten_postgres_add_text(lists++, pins ? change.instance : NULL);
    ten_postgres_add_text(lists++, change.actor);
}

static void write_edit(ten_buf *lists, const ten_target_edit *edit) {
    const tenure_target *target = &edit->target;
    ten_postgres_add_text(lists++, ten_op_action_name(edit->action));
    ten_postgres_add_text(lists++, target->id);
    ten_postgres_add_text(lists++, target->url);
    ten_postgres_add_text(lists++, target->exec);
    ten_postgres_add_text(lists++, target->spec);
    ten_postgres_add_number(lists++, target->every_ms);
    ten_postgres_add_text(lists++, target->paused ? "t" : "f");
    write_pin(lists, edit);
}

static int send_round(ten_postgres_store *store, const struct edits *edits, unsigned round) {
    ten_buf lists[EDIT_COLUMNS] = {0};
    const char *values[EDIT_COLUMNS + 1] = {edits->namespace_name};
    bool failed = false;
    for (size_t i = 0; i < edits->count; i++)
        if (edits->rounds[i] == round)
            write_edit(lists, &edits->at[i]);
    for (size_t i = 0; i < EDIT_COLUMNS; i++) {
        ten_postgres_end_list(&lists[i]);
        values[i + 1] = lists[i].data;
        failed |= lists[i].failed;
    }
    int r =
        failed ? ten_postgres_no_memory(store) : ten_postgres_send(store, PG_EDIT_TARGETS, TEN_COUNT(values), values);
    for (size_t i = 0; i < EDIT_COLUMNS; i++)
        ten_buf_free(&lists[i]);
    return r;
}

static int send_edits(ten_postgres_store *store, void *userdata) {
    const struct edits *edits = userdata;
    int r = ten_postgres_send(store, PG_LOCK_NAMESPACE, 1, &edits->namespace_name);
    for (unsigned round = 1; r == TENURE_OK && round <= edits->last_round; round++)
        r = send_round(store, edits, round);
    return r;
}

static int take_edits(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct edits *edits = userdata;
    int row = 0;
    if (statement == 0)
        return TENURE_OK; /* the lock */
    for (size_t i = 0; i < edits->count; i++) {
        if (edits->rounds[i] != statement)
            continue;
        if (row >= PQntuples(result))
            return ten_postgres_misunderstood(store);
        edits->at[i].found = ten_postgres_flag(result, row++, 0);
    }
    return TENURE_OK;
}

int ten_postgres_edit(ten_store *base, const char *namespace_name, ten_target_edit *edits, size_t count,
                      uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    struct edits all = {.namespace_name = namespace_name, .at = edits, .count = count};
    ten_buf namespaces = {0};
    ten_postgres_add_text(&namespaces, namespace_name);
    ten_postgres_end_list(&namespaces);
    int r = namespaces.failed ? ten_postgres_no_memory(store) : number_rounds(store, &all);
    ten_postgres_work work = {.what = "editing targets",
                              .namespaces = namespaces.data,
                              .send = send_edits,
                              .take = take_edits,
                              .userdata = &all};
    if (r == TENURE_OK && count > 0)
        r = ten_postgres_transact(store, &work, ten_add_saturating(ten_now_ms(), timeout_ms));
    ten_free(all.rounds);
    ten_buf_free(&namespaces);
    return r;
}
