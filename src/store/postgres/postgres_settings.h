/*
 * The inside of the settings: what postgres_settings.c makes of a URL, for postgres_link.c.
 */
#ifndef TEN_STORE_POSTGRES_SETTINGS_H
#define TEN_STORE_POSTGRES_SETTINGS_H

#include "base/resolve.h"
#include "base/url_files.h"
#include "store/postgres/postgres_link.h"

#define TEN_POSTGRES_PLACES_MAX   16u /* addresses of all hosts together */
#define TEN_POSTGRES_KEYWORDS_MAX 64u

struct ten_postgres_settings {
    char *name;
    PQconninfoOption *options; /* what the URL says, in libpq's words */
    ten_url_files files;
};

/* Where to try. A place without a host is libpq's to find: from its environment, a service file, or a socket. */
typedef struct ten_postgres_place {
    char host[256];
    char address[64]; /* "": a socket, or unknown */
    char port[8];     /* "": the usual one */
    bool remote;      /* reached by a network: neither a socket nor a loopback address */
} ten_postgres_place;

/* The places that the URL names, its names looked up by deadline_ms; at least one. */
int ten_postgres_places(const ten_postgres_settings *settings, uint64_t deadline_ms, ten_postgres_place *places,
                        size_t *ret_count, ten_error *error);

/* Whether nobody has said how to encrypt: then the server of a remote place has to prove who it is (verify-full). */
bool ten_postgres_verifies_by_default(const ten_postgres_settings *settings, const ten_postgres_place *place);
/* The parameters for one place, NULL-terminated; they point into the settings, the place and `password`. */
void ten_postgres_parameters(const ten_postgres_settings *settings, const ten_postgres_place *place,
                             const char *password, const char **keywords, const char **values);

#endif
