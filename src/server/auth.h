/*
 * Who may do what: the file of `--auth-file`, a line `NAME ROLE NS-GLOB HOLDER-GLOB SHA256HEX`. A token is known only
 * by its hash, and compared in constant time.
 */
#ifndef TEN_SERVER_AUTH_H
#define TEN_SERVER_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum ten_role { TEN_ROLE_NONE, TEN_ROLE_READ, TEN_ROLE_HOLD, TEN_ROLE_ADMIN };
const char *ten_auth_role_name(enum ten_role role); /* "none", and the words of the auth file */

#define TEN_TOKEN_HASH_SIZE 32u

typedef struct ten_principal {
    char name[64];
    enum ten_role role;
    char namespaces[64]; /* a glob */
    char holders[256];   /* a glob */
    unsigned char hash[TEN_TOKEN_HASH_SIZE];
    size_t line; /* of the file */
} ten_principal;

typedef struct ten_auth {
    ten_principal *principals;
    size_t count;
} ten_auth;

/* Parses the text of the file. The error names the line. */
int ten_auth_parse(const char *text, ten_auth *auth, ten_error *error);
/* Reads a file; it is refused when others may write it. */
int ten_auth_read(const char *path, ten_auth *auth, ten_error *error);
void ten_auth_free(ten_auth *auth);

/* The principal of a bearer token; NULL: none. */
const ten_principal *ten_auth_find(const ten_auth *auth, const char *token);
bool ten_principal_may(const ten_principal *principal, enum ten_role role, const char *namespace_name);
/* Whether a principal that was found earlier is still in the file, with the same token, and may do that. */
bool ten_auth_still_may(const ten_auth *auth, const ten_principal *principal, enum ten_role role,
                        const char *namespace_name);
/* Whether it may act for that holder. */
bool ten_principal_owns(const ten_principal *principal, const char *holder);

#endif
