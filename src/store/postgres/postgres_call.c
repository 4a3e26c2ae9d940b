/*
 * One call of a function in the server: BEGIN, the call and COMMIT are sent at once, and no client stands between a
 * lock and the commit that frees it. Settings end with the transaction, and statements are prepared only where no
 * pooler stands in between, so that one may give each transaction to another server connection. See postgres_state.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/random.h"
#include "store/postgres/postgres_sql.h"
#include "store/postgres/postgres_state.h"

#define TRIES    20u /* when others are in the way */
#define PAUSE_US 1000u

int ten_postgres_misunderstood(ten_postgres_store *store) {
    return ten_fail(store->base.error, TENURE_E_STORE, "%s gave an unexpected answer to a statement of Tenure",
                    store->settings->name);
}

int ten_postgres_no_memory(ten_postgres_store *store) {
    return ten_fail_memory(store->base.error, "a call to PostgreSQL");
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void add_int(ten_buf *buf, uint64_t number, size_t size) {
    char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(number >> (8 * (size - 1 - i)));
    ten_buf_add(buf, bytes, size);
}

#define COUNT_PLACE 12u /* in the header of an array */

void ten_postgres_begin_list(ten_postgres_list *list, enum ten_postgres_type type) {
    /* One dimension, no word on NULLs, the type, how many, and the number of the first. */
    const uint32_t header[] = {1, 0, (uint32_t)type, 0, 1};
    list->type = type;
    list->count = 0;
    ten_buf_clear(&list->data);
    for (size_t i = 0; i < TEN_COUNT(header); i++)
        add_int(&list->data, header[i], 4);
}

void ten_postgres_add_text(ten_postgres_list *list, const char *text) {
    list->count++;
    add_int(&list->data, text ? strlen(text) : UINT32_MAX, 4);
    ten_buf_text(&list->data, text ? text : "");
}

void ten_postgres_add_number(ten_postgres_list *list, uint64_t number) {
    size_t size = list->type == TEN_POSTGRES_INT8   ? 8
                  : list->type == TEN_POSTGRES_INT4 ? 4
                  : list->type == TEN_POSTGRES_INT2 ? 2
                                                    : 1;
    list->count++;
    add_int(&list->data, size, 4);
    add_int(&list->data, number, size);
}

int ten_postgres_add_list(ten_postgres_store *store, ten_postgres_call *call, ten_postgres_list *list) {
    if (list->data.failed || list->data.size > INT32_MAX)
        return ten_postgres_no_memory(store);
    for (size_t i = 0; i < 4; i++)
        list->data.data[COUNT_PLACE + i] = (char)(list->count >> (8 * (3 - i)));
    call->values[call->count] = list->data.data;
    call->sizes[call->count] = (int)list->data.size;
    call->formats[call->count++] = 1;
    return TENURE_OK;
}

const char *ten_postgres_text(const PGresult *result, int row, int column) {
    return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

uint64_t ten_postgres_number(const PGresult *result, int row, int column) {
    return strtoull(PQgetvalue(result, row, column), NULL, 10);
}

bool ten_postgres_flag(const PGresult *result, int row, int column) {
    return PQgetvalue(result, row, column)[0] == 't';
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

void ten_postgres_disconnect(ten_postgres_store *store) {
    ten_postgres_link_close(store->link);
    store->link = NULL;
}

int ten_postgres_connect(ten_postgres_store *store, uint64_t deadline_ms) {
    if (store->link && !ten_postgres_link_is_fresh(store->link))
        ten_postgres_disconnect(store);
    if (store->link)
        return TENURE_OK;
    int r = ten_dial_wait(&store->dial, store->settings->name, deadline_ms, store->base.error);
    if (r < 0)
        return r;
    r = ten_postgres_link_open(store->settings, deadline_ms, &store->link, store->base.error);
    ten_dial_note(&store->dial, r);
    return r;
}

/* ---- transactions -------------------------------------------------------------------------------------- */

/* What one try came to, beside done and an error that is final. */
enum trial {
    TRIAL_ENDED,   /* well or with a final error */
    TRIAL_AGAIN,   /* others were in the way, and nothing has happened */
    TRIAL_REFUSED, /* the schema is not as it should be, and nothing has happened */
    TRIAL_IN_VAIN, /* it was hopeful, and nothing has happened */
    TRIAL_CUT,     /* the connection is gone; it may have been done, or not */
};

/* To parse and to plan these takes the server a quarter of the time of a heartbeat. */
static const char *const usual[] = {PG_BEGIN, PG_READ, PG_COMMIT_RECORDS, PG_TOUCH, PG_COMMIT};

static int send_all(ten_postgres_store *store, ten_postgres_call *call, uint64_t deadline_ms) {
    ten_error *error = store->base.error;
    /* The server gives up a little before we do, so that its word comes in time and the connection can be kept. */
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    char wait[TEN_DIGITS_SIZE];
    call->values[0] = ten_digits(wait, ten_min_u64(ten_max_u64(left_ms - left_ms / 8, 1), INT32_MAX));
    int r = ten_postgres_link_send(store->link, PG_BEGIN, 0, NULL, NULL, NULL, error);
    if (r == TENURE_OK)
        r = ten_postgres_link_send(store->link, call->statement, call->count, call->values, call->sizes, call->formats,
                                   error);
    if (r == TENURE_OK)
        r = ten_postgres_link_send(store->link, PG_COMMIT, 0, NULL, NULL, NULL, error);
    return r == TENURE_OK ? ten_postgres_link_sync(store->link, deadline_ms, error) : r;
}

static bool is_one_of(const char *state, const char *const *states, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(state, states[i]) == 0)
            return true;
    return false;
}

/* A prepared statement that is gone, or does not fit the schema any more, has done nothing. */
static enum trial judge_failure(ten_postgres_store *store, const PGresult *result) {
    static const char *const not_prepared[] = {"26000", "0A000"};
    static const char *const in_the_way[] = {"40001", "40P01"};
    /* postgres.sql says so; no table, no schema, no function, no type */
    static const char *const refusals[] = {"TN001", "42P01", "3F000", "42883", "42704"};
    const char *state = ten_postgres_sqlstate(result);
    if (is_one_of(state, refusals, TEN_COUNT(refusals)))
        return TRIAL_REFUSED;
    if (strcmp(state, "TN002") == 0)
        return TRIAL_IN_VAIN;
    if (is_one_of(state, not_prepared, TEN_COUNT(not_prepared)) && ten_postgres_link_unprepare(store->link))
        return TRIAL_AGAIN;
    return is_one_of(state, in_the_way, TEN_COUNT(in_the_way)) ? TRIAL_AGAIN : TRIAL_ENDED;
}

/* Takes the answers, one for each statement, then the end of the pipeline. *ret_in_step: nothing more can come. */
static int receive_all(ten_postgres_store *store, const ten_postgres_call *call, uint64_t deadline_ms,
                       enum trial *ret_trial, bool *ret_in_step) {
    enum { OWN = 1, STATEMENTS = 3 }; /* behind BEGIN, and before COMMIT */
    int outcome = TENURE_OK;
    for (size_t i = 0;; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        int r = ten_postgres_link_receive(store->link, deadline_ms, &result, store->base.error);
        if (r < 0)
            return r;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_PIPELINE_SYNC) {
            *ret_in_step = i == STATEMENTS;
            return *ret_in_step ? outcome : ten_postgres_misunderstood(store);
        }
        if (outcome != TENURE_OK)
            continue; /* what comes behind an error was not executed */
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
            *ret_trial = judge_failure(store, result);
            outcome = ten_postgres_failed(result, call->what, store->base.error);
        } else if (i == OWN) {
            store->answer = result;
            result = NULL;
        } else if (i == OWN + 1 && strcmp(PQcmdStatus(result), "COMMIT") != 0) {
            outcome = ten_postgres_misunderstood(store);
        }
    }
}

/* COMMIT stood behind the error, and was not executed either. The error itself is kept. False: the connection is not to
 * be used any more. */
static bool roll_back(ten_postgres_store *store, uint64_t deadline_ms) {
    ten_error error;
    bool done = ten_postgres_link_send(store->link, PG_ROLLBACK, 0, NULL, NULL, NULL, &error) == TENURE_OK &&
                ten_postgres_link_sync(store->link, deadline_ms, &error) == TENURE_OK;
    for (int i = 0; done && i < 2; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        done = ten_postgres_link_receive(store->link, deadline_ms, &result, &error) == TENURE_OK;
    }
    return done && PQtransactionStatus(ten_postgres_link_connection(store->link)) == PQTRANS_IDLE;
}

static int try_once(ten_postgres_store *store, ten_postgres_call *call, uint64_t deadline_ms, enum trial *ret_trial) {
    bool was_connected = store->link != NULL;
    bool in_step = false;
    *ret_trial = TRIAL_ENDED;
    PQclear(store->answer);
    store->answer = NULL;
    int r = ten_postgres_connect(store, deadline_ms);
    if (r < 0)
        return r;
    r = ten_postgres_link_prepare(store->link, usual, TEN_COUNT(usual), deadline_ms, store->base.error);
    if (r == TENURE_OK)
        r = send_all(store, call, deadline_ms);
    if (r == TENURE_OK)
        r = receive_all(store, call, deadline_ms, ret_trial, &in_step);
    if (ten_dial_worth_another(r, was_connected, deadline_ms))
        *ret_trial = TRIAL_CUT;
    /* What may still come must not be taken for an answer to something later; and a server that cannot write may have a
     * successor. */
    if (in_step && r < 0)
        in_step = roll_back(store, deadline_ms);
    if (!in_step || r == TENURE_E_UNREACHABLE)
        ten_postgres_disconnect(store);
    return r;
}

/* The schema is looked at again: somebody may have dropped it, or put something into it. */
static int enter(ten_postgres_store *store, uint64_t deadline_ms) {
    int r = ten_postgres_connect(store, deadline_ms);
    if (r == TENURE_OK && (r = ten_postgres_migrate(store, deadline_ms)) < 0)
        ten_postgres_disconnect(store);
    return r;
}

int ten_postgres_do(ten_postgres_store *store, ten_postgres_call *call, uint64_t deadline_ms) {
    bool was_cut = false;
    for (unsigned tries = 1;; tries++) {
        enum trial trial;
        int r = try_once(store, call, deadline_ms, &trial);
        bool last = tries == TRIES || ten_now_ms() >= deadline_ms;
        if (trial == TRIAL_IN_VAIN)
            return TEN_POSTGRES_IN_VAIN;
        if (trial == TRIAL_ENDED || (trial == TRIAL_CUT && (was_cut || last)))
            return r;
        if (last)
            return ten_fail(store->base.error, TENURE_E_TIMEOUT, "%s: gave up after repeated conflicts", call->what);
        was_cut |= trial == TRIAL_CUT;
        if (trial == TRIAL_REFUSED && (r = enter(store, deadline_ms)) < 0)
            return r;
        if (tries > 1)
            ten_sleep_us(PAUSE_US * tries + ten_random_u64() % (PAUSE_US * tries));
    }
}
