/*
 * What the URLs of servers have in common that sources and sinks name: the files of their secrets and certificates, and
 * how long an answer may take. Passwords and tokens are in files, never in such a URL: it stands on a command line.
 */
#ifndef TEN_AGENT_ENDPOINT_H
#define TEN_AGENT_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/url_files.h"

/* ten_url_files_read() and ten_url_files_check_tls(); TENURE_E_INVALID also when the URL has a password. To be freed
 * whatever comes of it. */
int ten_endpoint_read(const ten_url *url, bool tls, const char *secret_option, ten_url_files *files, ten_error *error);

#define TEN_SECRET_MAX 4096u
/* The first line of the secret's file, read anew each time because secrets are changed; "" when none is named. Wipe it
 * after use. */
int ten_endpoint_secret(const ten_url_files *files, char secret[TEN_SECRET_MAX], ten_error *error);

/* The URL's option `timeout`, or a part of the TTL: messages and events of targets are worth something as long as
 * leases last. */
int ten_endpoint_timeout(const ten_url *url, uint64_t ttl_ms, uint64_t *ret_timeout_ms, ten_error *error);

#endif
