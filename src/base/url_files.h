/*
 * The files that the options of a server's URL name: certificates, a key, a password or a token. Every store, source
 * and sink that speaks to a server reads them here, with the same checks and messages.
 */
#ifndef TEN_BASE_URL_FILES_H
#define TEN_BASE_URL_FILES_H

#include <stdbool.h>

#include "base/url.h"

typedef struct ten_url_files {
    char *ca_file; /* each NULL: not given */
    char *cert_file;
    char *key_file;
    char *secret_file; /* the password or the token */
} ten_url_files;

/* Reads the options ca_file, cert_file, key_file and `secret_option` (NULL: none). TENURE_E_INVALID: a file cannot be
 * read. To be freed whatever comes of it. */
int ten_url_files_read(const ten_url *url, const char *secret_option, ten_url_files *files, ten_error *error);
void ten_url_files_free(ten_url_files *files);

/* TENURE_E_INVALID: there are files of certificates without TLS, or of certificate and key only one. `tls_scheme` is
 * the scheme that has TLS. */
int ten_url_files_check_tls(const ten_url_files *files, bool tls, const char *tls_scheme, ten_error *error);
/* TENURE_E_INVALID: the password is in the URL, and in a file as well. */
int ten_url_files_check_password(const ten_url_files *files, bool in_url, ten_error *error);

#endif
