/*
 * Counters of targets that are gone: forgetting those that are named, and, by chance with acquires, a step of the search
 * for those that nobody has used for long. The statements are in postgres_lease.sql.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "store/postgres/postgres_lease_sql.h"
#include "store/postgres/postgres_state.h"

#define AGED_EVERY 250u /* acquires between two steps, on average */
#define AGED_STEP  500u /* leases that a step looks at: twice as many as were acquired */

#define HISTORY_STEP 5000u /* changes */

struct forgetting {
    const char *namespace_name;
    ten_forget *items;
    size_t count;
};

static int send_forgetting(ten_postgres_store *store, void *userdata) {
    const struct forgetting *forgetting = userdata;
    ten_buf lists[3] = {0};
    ten_postgres_add_text(&lists[0], forgetting->namespace_name);
    ten_postgres_add_text(&lists[1], "");
    for (size_t i = 0; i < forgetting->count; i++) {
        ten_postgres_add_text(&lists[1], forgetting->items[i].id);
        ten_postgres_add_text(&lists[2], forgetting->items[i].id);
    }
    bool failed = false;
    for (size_t i = 0; i < TEN_COUNT(lists); i++) {
        ten_postgres_end_list(&lists[i]);
        failed |= lists[i].failed;
    }
    const char *locks[] = {lists[0].data, lists[1].data};
    const char *values[] = {forgetting->namespace_name, lists[2].data};
    int r = failed ? ten_postgres_no_memory(store) : ten_postgres_send(store, PG_MAKE_FORGOTTEN, 1, values);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_LOCK_LEASES, TEN_COUNT(locks), locks);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_FORGET, TEN_COUNT(values), values);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_FORGET_CHECKPOINTS, TEN_COUNT(values), values);
    for (size_t i = 0; i < TEN_COUNT(lists); i++)
        ten_buf_free(&lists[i]);
    return r;
}

static int take_forgetting(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    const struct forgetting *forgetting = userdata;
    if (statement != 2)
        return TENURE_OK; /* the row without a target, the locks, the checkpoints */
    if (PQntuples(result) != (int)forgetting->count)
        return ten_postgres_misunderstood(store);
    for (size_t i = 0; i < forgetting->count; i++)
        if (!ten_forget_parse(PQgetvalue(result, (int)i, 0), &forgetting->items[i].outcome))
            return ten_postgres_misunderstood(store);
    return TENURE_OK;
}

int ten_postgres_forget(ten_store *base, const char *namespace_name, ten_forget *items, size_t count,
                        uint64_t timeout_ms) {
    ten_postgres_store *store = (ten_postgres_store *)base;
    struct forgetting forgetting = {.namespace_name = namespace_name, .items = items, .count = count};
    ten_postgres_work work = {
        .what = "forgetting targets", .send = send_forgetting, .take = take_forgetting, .userdata = &forgetting};
    return ten_postgres_transact(store, &work, ten_add_saturating(ten_now_ms(), timeout_ms));
}

struct history {
    const char *namespace_name;
    uint64_t place;
};

static int send_history(ten_postgres_store *store, void *userdata) {
    const struct history *history = userdata;
    char place[TEN_DIGITS_SIZE];
    char step[TEN_DIGITS_SIZE];
    const char *values[] = {history->namespace_name, ten_digits(place, history->place), ten_digits(step, HISTORY_STEP)};
    return ten_postgres_send(store, PG_FORGET_HISTORY, TEN_COUNT(values), values);
}

static int take_history(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct history *history = userdata;
    (void)statement;
    if (PQntuples(result) != 1)
        return ten_postgres_misunderstood(store);
    history->place = ten_postgres_number(result, 0, 0);
    return TENURE_OK;
}

int ten_postgres_forget_history(ten_store *base, const char *namespace_name, uint64_t timeout_ms) {
    struct history history = {.namespace_name = namespace_name};
    ten_postgres_work work = {.what = "forgetting the history of targets",
                              .lists = true,
                              .send = send_history,
                              .take = take_history,
                              .userdata = &history};
    int r;
    do
        r = ten_postgres_transact((ten_postgres_store *)base, &work, ten_add_saturating(ten_now_ms(), timeout_ms));
    while (r == TENURE_OK && history.place > 0);
    return r;
}

/* ---- what nobody has used for long --------------------------------------------------------------------- */

struct aged {
    PGresult *rows;
    const char *place; /* "namespace/target": where the next step begins; NULL: at the start */
};

static int send_search(ten_postgres_store *store, void *userdata) {
    char step[TEN_DIGITS_SIZE];
    const char *values[] = {ten_digits(step, AGED_STEP)};
    (void)userdata;
    return ten_postgres_send(store, PG_LIST_AGED, 1, values);
}

static int take_search(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    struct aged *aged = userdata;
    (void)statement;
    PQclear(aged->rows);
    aged->rows = PQcopyResult(result, PG_COPYRES_TUPLES);
    return aged->rows ? TENURE_OK : ten_postgres_no_memory(store);
}

static int send_place(ten_postgres_store *store, void *userdata) {
    const struct aged *aged = userdata;
    int r = ten_postgres_send(store, PG_REMOVE_PLACE, 0, NULL);
    return r < 0 || !aged->place ? r : ten_postgres_send(store, PG_PUT_PLACE, 1, &aged->place);
}

/* The rows are in the order of their namespaces. */
static int forget_rows(ten_postgres_store *store, const PGresult *rows, uint64_t deadline_ms) {
    ten_forget items[AGED_STEP];
    size_t count = 0;
    int r = TENURE_OK;
    for (int i = 0; r == TENURE_OK && i < PQntuples(rows); i++) {
        const char *namespace_name = PQgetvalue(rows, i, 0);
        bool last = i + 1 == PQntuples(rows) || strcmp(namespace_name, PQgetvalue(rows, i + 1, 0)) != 0;
        if (ten_postgres_flag(rows, i, 2) && count < AGED_STEP)
            items[count++] = (ten_forget){.id = PQgetvalue(rows, i, 1)};
        if (!last || count == 0)
            continue;
        r = ten_postgres_forget(&store->base, namespace_name, items, count,
                                ten_sub_saturating(deadline_ms, ten_now_ms()));
        count = 0;
    }
    return r;
}

void ten_postgres_forget_aged(ten_postgres_store *store, size_t acquires, uint64_t deadline_ms) {
    if (acquires == 0 || ten_random_u64() % AGED_EVERY >= acquires)
        return;
    struct aged aged = {0};
    char place[TENURE_NAMESPACE_MAX + TENURE_TARGET_MAX + 2];
    ten_postgres_work search = {
        .what = "looking for old targets", .lists = true, .send = send_search, .take = take_search, .userdata = &aged};
    ten_postgres_work mark = {
        .what = "looking for old targets", .send = send_place, .take = ten_postgres_take_nothing, .userdata = &aged};
    int r = ten_postgres_transact(store, &search, deadline_ms);
    int count = r == TENURE_OK ? PQntuples(aged.rows) : 0;
    if (count > 0)
        r = forget_rows(store, aged.rows, deadline_ms);
    if (count == (int)AGED_STEP) {
        snprintf(place, sizeof place, "%s/%s", PQgetvalue(aged.rows, count - 1, 0),
                 PQgetvalue(aged.rows, count - 1, 1));
        aged.place = place;
    }
    if (r == TENURE_OK && count > 0)
        (void)ten_postgres_transact(store, &mark, deadline_ms);
    PQclear(aged.rows);
}
