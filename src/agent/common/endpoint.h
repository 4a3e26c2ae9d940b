/*
 * What the URLs of servers have in common that sources and sinks name: the files of their secrets and certificates, and
 * how long an answer may take. Passwords and tokens are in files, never in such a URL: it stands on a command line.
 */
#ifndef TEN_AGENT_ENDPOINT_H
#define TEN_AGENT_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/url.h"

typedef struct ten_endpoint {
    char *ca_file; /* these may be NULL */
    char *cert_file;
    char *key_file;
    char *secret_file; /* the password or the token */
} ten_endpoint;

/* Reads the options ca_file, cert_file, key_file and `secret_option`. TENURE_E_INVALID: a file cannot be read, one of
 * them makes no sense without another or without TLS, or the URL has a password. To be freed whatever comes of it. */
int ten_endpoint_read(const ten_url *url, bool tls, const char *secret_option, ten_endpoint *endpoint,
                      ten_error *error);
void ten_endpoint_free(ten_endpoint *endpoint);

#define TEN_SECRET_MAX 4096u
/* The first line of the secret's file, read anew each time because secrets are changed; "" when none is named. Wipe it
 * after use. */
int ten_endpoint_secret(const ten_endpoint *endpoint, char secret[TEN_SECRET_MAX], ten_error *error);

/* The URL's option `timeout`, or a part of the TTL: messages and events of targets are worth something as long as
 * leases last. */
int ten_endpoint_timeout(const ten_url *url, uint64_t ttl_ms, uint64_t *ret_timeout_ms, ten_error *error);

#endif
