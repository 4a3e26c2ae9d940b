/*
 * The settings of a URL (postgres_settings.c), and one connection to a PostgreSQL server: libpq, driven by our own
 * deadlines. A link that failed is closed, never used again; making a new one is the caller's business. What the
 * statements mean is postgres_state.h's.
 */
#ifndef TEN_STORE_POSTGRES_LINK_H
#define TEN_STORE_POSTGRES_LINK_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/resolve.h"
#include "base/url_files.h"

#define TEN_POSTGRES_SQLSTATE_SIZE 6u
#define TEN_POSTGRES_PLACES_MAX    16u /* addresses of all hosts together */
#define TEN_POSTGRES_KEYWORDS_MAX  64u

typedef struct ten_postgres_settings {
    char *name;                /* for people, without passwords: postgres://db.example:5432/jobs */
    PQconninfoOption *options; /* what the URL says, in libpq's words */
    ten_url_files files;
} ten_postgres_settings;

/* Where to try. A place without a host is libpq's to find: from its environment, a service file, or a socket. */
typedef struct ten_postgres_place {
    char host[256];
    char address[64]; /* "": a socket, or unknown */
    char port[8];     /* "": the usual one */
    bool remote;      /* reached by a network: neither a socket nor a loopback address */
} ten_postgres_place;

/* From a URL; TENURE_E_INVALID says what is wrong with it. Our own options are taken out, the rest is libpq's. */
int ten_postgres_settings_make(const ten_url *url, ten_postgres_settings **ret_settings, ten_error *error);
void ten_postgres_settings_free(ten_postgres_settings *settings);
/* The places that the URL names, its names looked up by deadline_ms; at least one. */
int ten_postgres_places(const ten_postgres_settings *settings, uint64_t deadline_ms, ten_postgres_place *places,
                        size_t *ret_count, ten_error *error);

/* Whether nobody has said how to encrypt: then the server of a remote place has to prove who it is (verify-full). */
bool ten_postgres_verifies_by_default(const ten_postgres_settings *settings, const ten_postgres_place *place);
/* The parameters for one place, NULL-terminated; they point into the settings, the place and `password`. */
void ten_postgres_parameters(const ten_postgres_settings *settings, const ten_postgres_place *place,
                             const char *password, const char **keywords, const char **values);

/* ---- the connection */

typedef struct ten_postgres_link ten_postgres_link;

/* Every place that the settings name, in order, until one takes us. */
int ten_postgres_link_open(ten_postgres_settings *settings, uint64_t deadline_ms, ten_postgres_link **ret_link,
                           ten_error *error);
void ten_postgres_link_close(ten_postgres_link *link);
/* False: the server has closed it, or said something that nobody asked for. */
bool ten_postgres_link_is_fresh(ten_postgres_link *link);
/* Its server is reached by a network. */
bool ten_postgres_link_is_remote(const ten_postgres_link *link);
PGconn *ten_postgres_link_connection(ten_postgres_link *link);

/* Queues a statement with its parameters: text, or so many bytes in the server's own format (1); NULL is NULL. */
int ten_postgres_link_send(ten_postgres_link *link, const char *statement, int count, const char *const *values,
                           const int *sizes, const int *formats, ten_error *error);
/* From a number that a statement got by pg_backend_pid(): no pooler stands in front of the server. A pooler tells its
 * clients numbers of its own. */
bool ten_postgres_link_is_direct(const ten_postgres_link *link, uint64_t process);
/* The same, to be noted: if it is direct, prepare() is due, once. */
void ten_postgres_link_note_process(ten_postgres_link *link, uint64_t process);
/* If it is due: from now on these statements, a constant, are sent by name. One round trip. */
int ten_postgres_link_prepare(ten_postgres_link *link, const char *const *statements, size_t count,
                              uint64_t deadline_ms, ten_error *error);
/* From now on all of them are sent as text. False: they were already. */
bool ten_postgres_link_unprepare(ten_postgres_link *link);
/* Ends the pipeline and sends all that is queued. */
int ten_postgres_link_sync(ten_postgres_link *link, uint64_t deadline_ms, ten_error *error);
/* The result of the next statement, whatever it is, to be cleared by the caller; with the pipeline's end,
 * PGRES_PIPELINE_SYNC. An error means that the link is dead. */
int ten_postgres_link_receive(ten_postgres_link *link, uint64_t deadline_ms, PGresult **ret_result, ten_error *error);
/* A script of several statements, outside of the pipeline. The last result (NULL: it is not wanted); one that was
 * refused by the server is an error. what: for messages. */
int ten_postgres_link_run(ten_postgres_link *link, const char *what, const char *script, uint64_t deadline_ms,
                          PGresult **ret_result, ten_error *error);

/* What the server said of a statement that failed, as one of our errors. */
int ten_postgres_failed(const PGresult *result, const char *what, ten_error *error);
const char *ten_postgres_sqlstate(const PGresult *result);

static inline void ten_postgres_clear(PGresult **result) {
    PQclear(*result);
}

#endif
