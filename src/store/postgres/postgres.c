/*
 * The PostgreSQL backend: opening, and running transactions. A transaction is one round trip: everything from BEGIN to
 * COMMIT is sent at once, and no client stands between a lock and the commit that frees it. Nothing is left behind in
 * a session that goes through a pooler (no prepared statements, settings that end with the transaction), so that it may
 * give each transaction to another server connection.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/random.h"
#include "store/postgres/postgres_schema_sql.h"
#include "store/postgres/postgres_state.h"

#define TRIES    20u /* when others are in the way */
#define PAUSE_US 1000u

static ten_postgres_store *self(ten_store *base) {
    return (ten_postgres_store *)base;
}

int ten_postgres_misunderstood(ten_postgres_store *store) {
    return ten_fail(&store->base.error, TENURE_E_STORE, "%s gave an answer that is not understood",
                    ten_postgres_settings_name(store->settings));
}

int ten_postgres_no_memory(ten_postgres_store *store) {
    return ten_fail_memory(&store->base.error, "a call to PostgreSQL");
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void start_element(ten_buf *list) {
    ten_buf_char(list, list->size == 0 ? '{' : ',');
}

void ten_postgres_add_text(ten_buf *list, const char *text) {
    start_element(list);
    if (!text) {
        ten_buf_text(list, "NULL");
        return;
    }
    ten_buf_char(list, '"');
    for (size_t size; (size = strcspn(text, "\"\\")), ten_buf_add(list, text, size), text[size]; text += size + 1) {
        ten_buf_char(list, '\\');
        ten_buf_char(list, text[size]);
    }
    ten_buf_char(list, '"');
}

void ten_postgres_add_number(ten_buf *list, uint64_t number) {
    char text[TEN_DIGITS_SIZE];
    start_element(list);
    ten_buf_text(list, ten_digits(text, number));
}

void ten_postgres_end_list(ten_buf *list) {
    ten_buf_text(list, list->size == 0 ? "{}" : "}");
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
    int r = ten_dial_wait(&store->dial, ten_postgres_settings_name(store->settings), deadline_ms, &store->base.error);
    if (r < 0)
        return r;
    r = ten_postgres_link_open(store->settings, deadline_ms, &store->link, &store->base.error);
    ten_dial_note(&store->dial, r);
    return r;
}

/* ---- transactions -------------------------------------------------------------------------------------- */

/* What one try came to, beside done and an error that is final. */
enum trial {
    TRIAL_ENDED,   /* well or with a final error */
    TRIAL_AGAIN,   /* others were in the way, and nothing has happened */
    TRIAL_REFUSED, /* a statement of ours refused to go on, and nothing has happened */
    TRIAL_CUT,     /* the connection is gone; it may have been done, or not */
};

enum { AT_WORK = 3 }; /* statements before it: BEGIN, the search path, the gate */

int ten_postgres_send(ten_postgres_store *store, const char *statement, int count, const char *const *values) {
    store->sent++;
    return ten_postgres_link_send(store->link, statement, count, values, &store->base.error);
}

/* The server gives up a little before we do, so that its word comes in time and the connection can be kept. */
static int send_gate(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms) {
    char numbers[3][TEN_DIGITS_SIZE];
    uint64_t left_ms = ten_sub_saturating(deadline_ms, ten_now_ms());
    uint64_t wait_ms = ten_max_u64(left_ms - left_ms / 8, 1);
    const char *values[] = {ten_digits(numbers[0], ten_min_u64(wait_ms, INT32_MAX)),
                            ten_digits(numbers[1], ten_min_u64(wait_ms + left_ms / 16, INT32_MAX)),
                            ten_digits(numbers[2], ten_min_u64(left_ms + 1, INT32_MAX)), work->lists ? "on" : "off"};
    return ten_postgres_send(store, PG_GATE, TEN_COUNT(values), values);
}

static int send_all(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms) {
    store->sent = 0;
    int r = ten_postgres_send(store, PG_BEGIN, 0, NULL);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_PIN, 0, NULL);
    if (r == TENURE_OK)
        r = send_gate(store, work, deadline_ms);
    if (r == TENURE_OK)
        r = work->send(store, work->userdata);
    if (r == TENURE_OK)
        r = ten_postgres_send(store, PG_COMMIT, 0, NULL);
    return r == TENURE_OK ? ten_postgres_link_sync(store->link, deadline_ms, &store->base.error) : r;
}

static bool is_one_of(const char *state, const char *const *states, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(state, states[i]) == 0)
            return true;
    return false;
}

/* A prepared statement that is gone, or does not fit the tables any more, has done nothing. */
static enum trial judge_failure(ten_postgres_store *store, const PGresult *result) {
    static const char *const not_prepared[] = {"26000", "0A000"};
    static const char *const in_the_way[] = {"40001", "40P01"};
    static const char *const refusals[] = {"22P02", "42P01",
                                           "3F000"}; /* a text that is no number; no table, no schema */
    const char *state = ten_postgres_sqlstate(result);
    if (is_one_of(state, refusals, TEN_COUNT(refusals)))
        return TRIAL_REFUSED;
    bool again = is_one_of(state, in_the_way, TEN_COUNT(in_the_way));
    if (ten_postgres_link_is_prepared(store->link) && is_one_of(state, not_prepared, TEN_COUNT(not_prepared))) {
        ten_postgres_link_set_prepared(store->link, NULL);
        again = true;
    }
    return again ? TRIAL_AGAIN : TRIAL_ENDED;
}

/* Takes the answers, one for each statement, then the end of the pipeline. *ret_in_step: nothing more can come. */
static int receive_all(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms,
                       enum trial *ret_trial, bool *ret_in_step) {
    int outcome = TENURE_OK;
    for (size_t i = 0;; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        int r = ten_postgres_link_receive(store->link, deadline_ms, &result, &store->base.error);
        if (r < 0)
            return r;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_PIPELINE_SYNC) {
            *ret_in_step = i == store->sent;
            return *ret_in_step ? outcome : ten_postgres_misunderstood(store);
        }
        if (outcome != TENURE_OK)
            continue; /* what comes behind an error was not executed */
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
            *ret_trial = judge_failure(store, result);
            outcome = ten_postgres_failed(result, work->what, &store->base.error);
        } else if (i >= AT_WORK && i + 1 < store->sent) {
            outcome = work->take(store, i - AT_WORK, result, work->userdata);
        } else if (i + 1 == store->sent && strcmp(PQcmdStatus((PGresult *)(uintptr_t)result), "COMMIT") != 0) {
            outcome = ten_postgres_misunderstood(store);
        }
    }
}

/* COMMIT stood behind the error, and was not executed either. The error itself is kept. */
bool ten_postgres_roll_back(ten_postgres_store *store, uint64_t deadline_ms) {
    ten_error error;
    bool done = ten_postgres_link_send(store->link, PG_ROLLBACK, 0, NULL, &error) == TENURE_OK &&
                ten_postgres_link_sync(store->link, deadline_ms, &error) == TENURE_OK;
    for (int i = 0; done && i < 2; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        done = ten_postgres_link_receive(store->link, deadline_ms, &result, &error) == TENURE_OK;
    }
    return done && PQtransactionStatus(ten_postgres_link_connection(store->link)) == PQTRANS_IDLE;
}

static int try_once(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms,
                    enum trial *ret_trial) {
    bool was_connected = store->link != NULL;
    bool in_step = false;
    *ret_trial = TRIAL_ENDED;
    int r = ten_postgres_connect(store, deadline_ms);
    if (r < 0)
        return r;
    if (work->hopeful)
        r = ten_postgres_prepare(store, deadline_ms);
    if (r == TENURE_OK)
        r = send_all(store, work, deadline_ms);
    if (r == TENURE_OK)
        r = receive_all(store, work, deadline_ms, ret_trial, &in_step);
    if (ten_dial_worth_another(r, was_connected, deadline_ms))
        *ret_trial = TRIAL_CUT;
    /* What may still come must not be taken for an answer to something later; and a server that cannot write may have a
     * successor. */
    if (in_step && r < 0)
        in_step = ten_postgres_roll_back(store, deadline_ms);
    if (!in_step || r == TENURE_E_UNREACHABLE)
        ten_postgres_disconnect(store);
    return r;
}

static int gave_up(ten_postgres_store *store, const ten_postgres_work *work) {
    return ten_fail(&store->base.error, TENURE_E_TIMEOUT, "%s: gave up after repeated serialization conflicts",
                    work->what);
}

int ten_postgres_transact(ten_postgres_store *store, const ten_postgres_work *work, uint64_t deadline_ms) {
    bool was_cut = false;
    for (unsigned tries = 1;; tries++) {
        enum trial trial;
        int r = try_once(store, work, deadline_ms, &trial);
        bool last = tries == TRIES || ten_now_ms() >= deadline_ms;
        if (trial == TRIAL_REFUSED && work->hopeful)
            return TEN_POSTGRES_REFUSED;
        if (trial == TRIAL_ENDED || (trial == TRIAL_CUT && (work->once || was_cut || last)))
            return r;
        if (last)
            return gave_up(store, work);
        was_cut |= trial == TRIAL_CUT;
        if (trial == TRIAL_REFUSED && (r = ten_postgres_enter(store, work->namespaces, deadline_ms)) < 0)
            return r;
        if (tries > 1)
            ten_sleep_us(PAUSE_US * tries + ten_random_u64() % (PAUSE_US * tries));
    }
}

/* ---- the handle ---------------------------------------------------------------------------------------- */

static int send_ping(ten_postgres_store *store, void *userdata) {
    (void)userdata;
    return ten_postgres_send(store, PG_PING, 0, NULL);
}

int ten_postgres_take_nothing(ten_postgres_store *store, size_t statement, const PGresult *result, void *userdata) {
    (void)store;
    (void)statement;
    (void)result;
    (void)userdata;
    return TENURE_OK;
}

static int postgres_ping(ten_store *base, uint64_t timeout_ms) {
    ten_postgres_work work = {.what = "a ping", .send = send_ping, .take = ten_postgres_take_nothing};
    return ten_postgres_transact(self(base), &work, ten_add_saturating(ten_now_ms(), timeout_ms));
}

static void postgres_close(ten_store *base) {
    ten_postgres_store *store = self(base);
    ten_notice_watch_close(&store->watch.notice);
    ten_postgres_disconnect(store);
    ten_postgres_settings_free(store->settings);
    ten_postgres_settings_free(store->listen_settings);
    ten_arena_free(&store->results);
}

static int take_listen_url(const ten_url *url, ten_postgres_store *store, ten_error *error) {
    const char *text = ten_url_option(url, "listen_url");
    ten_url parsed;
    if (!text)
        return TENURE_OK;
    int r = ten_url_parse(text, &parsed, error);
    if (r < 0)
        return r;
    if (strcmp(parsed.scheme, "postgres") != 0 && strcmp(parsed.scheme, "postgresql") != 0)
        r = ten_fail(error, TENURE_E_INVALID, "listen_url is a postgres:// URL, with %%26 for & inside of it");
    else
        r = ten_postgres_settings_make(&parsed, &store->listen_settings, error);
    ten_url_free(&parsed);
    return r;
}

static int open_connection(ten_postgres_store *store, uint64_t timeout_ms) {
    uint64_t deadline_ms = ten_add_saturating(ten_now_ms(), timeout_ms);
    int r = ten_postgres_connect(store, deadline_ms);
    return r < 0 ? r : ten_postgres_migrate(store, deadline_ms);
}

static int postgres_open(ten_store *base, const ten_url *url, uint64_t timeout_ms) {
    ten_postgres_store *store = self(base);
    ten_postgres_watch_init(store);
    if (!url->hosts)
        return ten_fail(&base->error, TENURE_E_INVALID, "a PostgreSQL URL looks like %s://user@host:5432/database",
                        url->scheme);
    int r = ten_postgres_settings_make(url, &store->settings, &base->error);
    if (r == TENURE_OK)
        r = take_listen_url(url, store, &base->error);
    return r < 0 ? r : open_connection(store, timeout_ms);
}

const ten_store_ops ten_postgres_ops = {
    .name = "postgres",
    .size = sizeof(ten_postgres_store),
    .capabilities = {.ttl_min_ms = TENURE_TTL_MIN_MS,
                     .shared_between_processes = true,
                     .survives_restart = true,
                     .hands = true,
                     .sessions = true,
                     .expiry_clock = "the PostgreSQL server's clock, read after the row is locked",
                     .change_notice = "LISTEN and NOTIFY"},
    .open = postgres_open,
    .close = postgres_close,
    .apply = ten_postgres_apply,
    .edit_targets = ten_postgres_edit,
    .forget = ten_postgres_forget,
    .forget_history = ten_postgres_forget_history,
    .list = ten_postgres_list,
    .read_targets = ten_postgres_read_targets,
    .list_instances = ten_postgres_list_instances,
    .list_namespaces = ten_postgres_list_namespaces,
    .changes = ten_postgres_changes,
    .watch = ten_postgres_watch_get,
    .watch_clear = ten_postgres_watch_clear,
    .ping = postgres_ping,
    .recovery = ten_postgres_recovery,
    .check = ten_postgres_check,
};
