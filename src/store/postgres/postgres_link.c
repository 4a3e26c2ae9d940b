/*
 * One connection to a PostgreSQL server. See postgres_link.h. libpq never waits here: it is asked what it waits for,
 * and poll() waits for that until the call's deadline.
 */
#include "store/postgres/postgres_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/random.h"

#define PASSWORD_SIZE 16384u /* some are tokens that somebody signed */

#define NAME_SIZE 48u /* of a prepared statement */

/* Whether statements are prepared in the server's session: not yet, and it is not known if it is ours alone; it is;
 * they are; they must not be. */
enum preparation { PREPARATION_UNKNOWN, PREPARATION_DUE, PREPARATION_DONE, PREPARATION_OFF };

struct ten_postgres_link {
    PGconn *connection;
    const char *name; /* the settings' */
    bool remote;      /* its server is not on this host, */
    bool verifies;    /* and has to prove who it is, because nobody has said otherwise */
    bool unconfirmed; /* a commit did not wait for its standbys to the end */
    enum preparation preparation;
    const char *const *statements; /* those that are prepared, */
    size_t statement_count;
    uint64_t tag; /* and in their names, so that they are nobody else's */
};

bool ten_postgres_link_is_remote(const ten_postgres_link *link) {
    return link->remote;
}

PGconn *ten_postgres_link_connection(ten_postgres_link *link) {
    return link->connection;
}

/* ---- errors -------------------------------------------------------------------------------------------- */

/* By SQLSTATE, or by its class of two characters; what is not here is TENURE_E_STORE. */
static const struct {
    const char *start;
    int error;
    const char *advice;
} meanings[] = {
    {"08", TENURE_E_UNREACHABLE, ""},
    {"28", TENURE_E_DENIED, ""},
    {"42501", TENURE_E_DENIED, ""},
    {"3D000", TENURE_E_INVALID, ""}, /* no such database */
    {"22021", TENURE_E_INVALID, ""}, /* text that is none in the database's encoding */
    {"22P05", TENURE_E_INVALID, ""},
    {"53300", TENURE_E_UNREACHABLE, ""}, /* too many connections */
    {"53100", TENURE_E_FULL, ""},
    {"25006", TENURE_E_UNREACHABLE, ": the server is a standby, or read-only"},
    {"55000", TENURE_E_UNREACHABLE, ": the server is a standby"},
    {"57P01", TENURE_E_UNREACHABLE, ""}, /* shut down, or terminated by an administrator */
    {"57P02", TENURE_E_UNREACHABLE, ""},
    {"57P03", TENURE_E_UNREACHABLE, ""}, /* starting up */
    {"57P05", TENURE_E_UNREACHABLE, ""},
    {"25P03", TENURE_E_TIMEOUT, ""}, /* idle in a transaction */
    {"55P03", TENURE_E_TIMEOUT, ": somebody else has locked it"},
    {"57014", TENURE_E_TIMEOUT, ""},
    {"40", TENURE_E_TIMEOUT, ""}, /* others were in the way until the end */
};

static int fail_by_state(const char *state, const char *what, const char *message, const char *advice,
                         ten_error *error) {
    size_t size = strcspn(message, "\n");
    for (size_t i = 0; i < TEN_COUNT(meanings); i++)
        if (strncmp(state, meanings[i].start, strlen(meanings[i].start)) == 0)
            return ten_fail(error, meanings[i].error, "%s: %.*s%s%s", what, (int)size, message, meanings[i].advice,
                            advice);
    return ten_fail(error, TENURE_E_STORE, "%s: %.*s (SQLSTATE %s)", what, (int)size, message, state);
}

const char *ten_postgres_sqlstate(const PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state ? state : "";
}

int ten_postgres_failed(const PGresult *result, const char *what, ten_error *error) {
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *state = ten_postgres_sqlstate(result);
    /* Without a state it is libpq that speaks: the connection is gone. */
    return fail_by_state(state[0] ? state : "08006", what, message ? message : PQresultErrorMessage(result), "", error);
}

#define TLS_ADVICE                                                                                                     \
    " (sslmode is verify-full for a server on another host: name the authority that signed its certificate with "      \
    "ca_file=FILE in the URL, or choose a weaker sslmode there)"

/* libpq tells the state of a refused connection in its text only, and only when it is to be verbose:
 * "...FATAL:  28P01: password authentication failed...". A text without one is libpq's own, or the system's. */
static int fail_to_connect(const ten_postgres_link *link, ten_error *error) {
    const char *message = PQerrorMessage(link->connection);
    const char *state = "08001";
    char found[TEN_POSTGRES_SQLSTATE_SIZE];
    for (const char *at = strstr(message, ":  "); at; at = strstr(at + 1, ":  ")) {
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':' && at[9] == ' ') {
            snprintf(found, sizeof found, "%s", at + 3);
            state = found;
            message = at + 10;
            break;
        }
    }
    if (PQconnectionNeedsPassword(link->connection)) {
        state = "28P01";
        message = "the server asks for a password; name a file that has it: password_file=PATH";
    }
    const char *last = strstr(message, "failed: "); /* behind the address, which has been named */
    bool about_tls = link->verifies && (strstr(message, "SSL") || strstr(message, "certificate"));
    return fail_by_state(state, link->name, last ? last + 8 : message, about_tls ? TLS_ADVICE : "", error);
}

static int too_late(const ten_postgres_link *link, ten_error *error) {
    return ten_fail(error, TENURE_E_TIMEOUT, "%s did not answer in time", link->name);
}

static int check_confirmed(const ten_postgres_link *link, ten_error *error) {
    return link->unconfirmed ? ten_fail(error, TENURE_E_TIMEOUT,
                                        "%s: the wait for a synchronous standby was cancelled, so the change does not "
                                        "count; pg_stat_replication shows which standbys are there",
                                        link->name)
                             : TENURE_OK;
}

static int broken(const ten_postgres_link *link, ten_error *error) {
    const char *message = PQerrorMessage(link->connection);
    return ten_fail(error, TENURE_E_UNREACHABLE, "%s: %.*s", link->name, (int)strcspn(message, "\n"),
                    message[0] ? message : "the connection is closed");
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

static int wait_for(const ten_postgres_link *link, short events, uint64_t deadline_ms) {
    return ten_wait_events(PQsocket(link->connection), events, deadline_ms);
}

static int finish_connecting(ten_postgres_link *link, uint64_t deadline_ms, ten_error *error) {
    for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
        int ready = wait_for(link, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_ms);
        if (ready == 0)
            return ten_fail(error, TENURE_E_TIMEOUT, "%s accepted no session in time", link->name);
        if (ready < 0)
            return ten_fail_errno(error, TENURE_E_SYSTEM, -ready, "%s", link->name);
        next = PQconnectPoll(link->connection);
        if (next == PGRES_POLLING_FAILED)
            return fail_to_connect(link, error);
    }
    return TENURE_OK;
}

/* Libpq would print notices. One of them matters: somebody cancelled a commit while it waited for a standby, and the
 * commit counts as done, although no standby may have it. */
static void take_notice(void *arg, const PGresult *result) {
    ten_postgres_link *link = arg;
    const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
    link->unconfirmed |= function && strcmp(function, "SyncRepWaitForLSN") == 0;
}

static int connect_to(ten_postgres_link *link, const ten_postgres_settings *settings, const ten_postgres_place *place,
                      const char *password, uint64_t deadline_ms, ten_error *error) {
    const char *keywords[TEN_POSTGRES_KEYWORDS_MAX];
    const char *values[TEN_POSTGRES_KEYWORDS_MAX];
    ten_postgres_parameters(settings, place, password, keywords, values);
    link->remote = place->remote;
    link->verifies = ten_postgres_verifies_by_default(settings, place);
    PQfinish(link->connection);
    link->connection = PQconnectStartParams(keywords, values, 0);
    if (!link->connection)
        return ten_fail_memory(error, "a connection to %s", link->name);
    PQsetErrorVerbosity(link->connection, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(link->connection, take_notice, link);
    if (PQstatus(link->connection) == CONNECTION_BAD)
        return fail_to_connect(link, error);
    int r = finish_connecting(link, deadline_ms, error);
    PQsetErrorVerbosity(link->connection, PQERRORS_DEFAULT);
    if (r == TENURE_OK && (PQsetnonblocking(link->connection, 1) != 0 || !PQenterPipelineMode(link->connection)))
        r = broken(link, error);
    if (r == TENURE_OK && PQserverVersion(link->connection) < 120000)
        r = ten_fail(error, TENURE_E_UNSUPPORTED, "%s is PostgreSQL %d: at least version 12 is needed", link->name,
                     PQserverVersion(link->connection) / 10000);
    return r;
}

/* Each place gets its share of the time that is left, so that one which is silent does not cost the others theirs. */
static int connect_somewhere(ten_postgres_link *link, const ten_postgres_settings *settings, const char *password,
                             uint64_t deadline_ms, ten_error *error) {
    ten_postgres_place places[TEN_POSTGRES_PLACES_MAX];
    size_t count = 0;
    int r = ten_postgres_places(settings, deadline_ms, places, &count, error);
    for (size_t i = 0; i < count; i++) {
        uint64_t now_ms = ten_now_ms();
        uint64_t share_ms = ten_sub_saturating(deadline_ms, now_ms) / (count - i);
        r = connect_to(link, settings, &places[i], password, ten_add_saturating(now_ms, share_ms), error);
        if (r == TENURE_OK)
            break;
    }
    return r;
}

int ten_postgres_link_open(ten_postgres_settings *settings, uint64_t deadline_ms, ten_postgres_link **ret_link,
                           ten_error *error) {
    ten_postgres_link *link = ten_calloc(1, sizeof *link);
    char password[PASSWORD_SIZE] = "";
    if (!link)
        return ten_fail_memory(error, "a connection to %s", settings->name);
    link->name = settings->name;
    link->tag = ten_random_u64();
    const char *file = settings->files.secret_file;
    ssize_t size = file ? ten_read_line(file, password, sizeof password) : 0;
    int r = size < 0 ? ten_fail_errno(error, TENURE_E_DENIED, (int)-size, "cannot read password_file=%s", file)
                     : connect_somewhere(link, settings, password, deadline_ms, error);
    explicit_bzero(password, sizeof password);
    if (r < 0)
        ten_postgres_link_close(link);
    else
        *ret_link = link;
    return r;
}

void ten_postgres_link_close(ten_postgres_link *link) {
    if (!link)
        return;
    PQfinish(link->connection);
    ten_free(link);
}

/* On a link where nothing is under way the server speaks only to say farewell, or that a setting has changed. */
bool ten_postgres_link_is_fresh(ten_postgres_link *link) {
    while (wait_for(link, POLLIN, 0) == 1)
        if (!PQconsumeInput(link->connection))
            return false;
    return PQstatus(link->connection) == CONNECTION_OK;
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static void name_statement(const ten_postgres_link *link, size_t number, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "tenure_%016llx_%zu", (unsigned long long)link->tag, number);
}

int ten_postgres_link_send(ten_postgres_link *link, const char *statement, int count, const char *const *values,
                           const int *sizes, const int *formats, ten_error *error) {
    for (size_t i = 0; link->preparation == PREPARATION_DONE && i < link->statement_count; i++) {
        char name[NAME_SIZE];
        if (strcmp(link->statements[i], statement) != 0)
            continue;
        name_statement(link, i, name);
        return PQsendQueryPrepared(link->connection, name, count, values, sizes, formats, 0) ? TENURE_OK
                                                                                             : broken(link, error);
    }
    return PQsendQueryParams(link->connection, statement, count, NULL, values, sizes, formats, 0) ? TENURE_OK
                                                                                                  : broken(link, error);
}

/* Waits for what the server has to say also when it is written to: it may not read on before it has got rid of that. */
static int wait_and_read(ten_postgres_link *link, short events, uint64_t deadline_ms, ten_error *error) {
    int ready = wait_for(link, (short)(events | POLLIN), deadline_ms);
    if (ready == 0)
        return too_late(link, error);
    return ready > 0 && PQconsumeInput(link->connection) ? TENURE_OK : broken(link, error);
}

static int flush(ten_postgres_link *link, uint64_t deadline_ms, ten_error *error) {
    int left;
    int r = TENURE_OK;
    while (r == TENURE_OK && (left = PQflush(link->connection)) != 0)
        r = left == 1 ? wait_and_read(link, POLLOUT, deadline_ms, error) : broken(link, error);
    return r;
}

int ten_postgres_link_sync(ten_postgres_link *link, uint64_t deadline_ms, ten_error *error) {
    return PQpipelineSync(link->connection) ? flush(link, deadline_ms, error) : broken(link, error);
}

/* The next thing that libpq has to give, which may be NULL: the end of a statement's results. */
static int get_result(ten_postgres_link *link, uint64_t deadline_ms, PGresult **ret_result, ten_error *error) {
    int r = TENURE_OK;
    while (r == TENURE_OK && PQisBusy(link->connection))
        r = wait_and_read(link, 0, deadline_ms, error);
    if (r < 0)
        return r;
    *ret_result = PQgetResult(link->connection);
    return TENURE_OK;
}

int ten_postgres_link_receive(ten_postgres_link *link, uint64_t deadline_ms, PGresult **ret_result, ten_error *error) {
    PGresult *result = NULL;
    PGresult *end = NULL;
    int r = get_result(link, deadline_ms, &result, error);
    if (r == TENURE_OK && !result)
        return broken(link, error);
    if (r == TENURE_OK && PQstatus(link->connection) == CONNECTION_BAD) {
        r = ten_postgres_failed(result, link->name, error);
        PQclear(result);
        return r;
    }
    if (r == TENURE_OK && PQresultStatus(result) != PGRES_PIPELINE_SYNC)
        r = get_result(link, deadline_ms, &end, error);
    if (r == TENURE_OK && end)
        r = ten_fail(error, TENURE_E_STORE, "%s answered more than was asked", link->name);
    if (r == TENURE_OK)
        r = check_confirmed(link, error);
    PQclear(end);
    if (r < 0)
        PQclear(result);
    else
        *ret_result = result;
    return r;
}

/* ---- prepared statements ------------------------------------------------------------------------------- */

bool ten_postgres_link_is_direct(const ten_postgres_link *link, uint64_t process) {
    return process == (uint64_t)PQbackendPID(link->connection);
}

void ten_postgres_link_note_process(ten_postgres_link *link, uint64_t process) {
    if (link->preparation == PREPARATION_UNKNOWN)
        link->preparation = ten_postgres_link_is_direct(link, process) ? PREPARATION_DUE : PREPARATION_OFF;
}

int ten_postgres_link_prepare(ten_postgres_link *link, const char *const *statements, size_t count,
                              uint64_t deadline_ms, ten_error *error) {
    bool done = true;
    int r = TENURE_OK;
    if (link->preparation != PREPARATION_DUE)
        return TENURE_OK;
    for (size_t i = 0; r == TENURE_OK && i < count; i++) {
        char name[NAME_SIZE];
        name_statement(link, i, name);
        r = PQsendPrepare(link->connection, name, statements[i], 0, NULL) ? TENURE_OK : broken(link, error);
    }
    if (r == TENURE_OK)
        r = ten_postgres_link_sync(link, deadline_ms, error);
    for (size_t i = 0; r == TENURE_OK && i <= count; i++) {
        TEN_CLEANUP(ten_postgres_clear) PGresult *result = NULL;
        r = ten_postgres_link_receive(link, deadline_ms, &result, error);
        done &= r == TENURE_OK && PQresultStatus(result) == (i < count ? PGRES_COMMAND_OK : PGRES_PIPELINE_SYNC);
    }
    link->statements = statements;
    link->statement_count = count;
    link->preparation = done ? PREPARATION_DONE : PREPARATION_OFF;
    return r;
}

bool ten_postgres_link_unprepare(ten_postgres_link *link) {
    bool had = link->preparation == PREPARATION_DONE;
    link->preparation = PREPARATION_OFF;
    return had;
}

/* ---- scripts ------------------------------------------------------------------------------------------- */

int ten_postgres_link_run(ten_postgres_link *link, const char *what, const char *script, uint64_t deadline_ms,
                          PGresult **ret_result, ten_error *error) {
    if (PQpipelineStatus(link->connection) != PQ_PIPELINE_OFF && !PQexitPipelineMode(link->connection))
        return broken(link, error);
    int r = PQsendQuery(link->connection, script) ? flush(link, deadline_ms, error) : broken(link, error);
    PGresult *last = NULL;
    for (PGresult *result = NULL; r == TENURE_OK;) {
        r = get_result(link, deadline_ms, &result, error);
        if (r < 0 || !result)
            break;
        /* What follows an error is its consequence. */
        bool refused = last && PQresultStatus(last) == PGRES_FATAL_ERROR;
        PQclear(refused ? result : last);
        last = refused ? last : result;
    }
    if (r == TENURE_OK &&
        (!last || PQstatus(link->connection) == CONNECTION_BAD || !PQenterPipelineMode(link->connection)))
        r = broken(link, error);
    if (r == TENURE_OK)
        r = check_confirmed(link, error);
    if (r == TENURE_OK && PQresultStatus(last) == PGRES_FATAL_ERROR)
        r = ten_postgres_failed(last, what, error);
    if (r < 0 || !ret_result)
        PQclear(last);
    else
        *ret_result = last;
    return r;
}
