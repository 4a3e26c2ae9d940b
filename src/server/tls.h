/*
 * The certificate of the server and its key: read at the start and again at SIGHUP, so that a renewed one needs no
 * restart. There is one for the process, because libmicrohttpd's callback brings nothing along. Called by server.c, in
 * the HTTP thread.
 */
#ifndef TEN_SERVER_TLS_H
#define TEN_SERVER_TLS_H

#include <gnutls/abstract.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A file as a text that is freed with ten_free(). */
int ten_tls_read_file(const char *path, gnutls_datum_t *ret_text, mode_t *ret_mode, ten_error *error);
/* Reads both files. On an error the ones that were read before stay. ret_exposed: every user can read the key. */
int ten_tls_read(const char *cert_path, const char *key_path, bool *ret_exposed, ten_error *error);
void ten_tls_free(void);
/* What a handshake costs this thread, in microseconds, about: a signature with the present key, and the rest. */
uint64_t ten_tls_handshake_us(void);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
int ten_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **ret_certs,
                     unsigned *ret_count, gnutls_privkey_t *ret_key);

#endif
