/*
 * The lease manager over REST: `tenure serve`. One thread speaks HTTP (libmicrohttpd), two carry requests to the store
 * (lane.h), one follows its changes (events.h). It decides nothing about leases: the store does.
 */
#ifndef TEN_SERVER_SERVER_H
#define TEN_SERVER_SERVER_H

#include "base/error.h"
#include "base/log.h"

typedef struct ten_server_config {
    const char *store;      /* NULL: the default */
    uint64_t store_wait_ms; /* for one that is down at the start; UINT64_MAX: for ever */
    const char *listen;     /* ADDR:PORT, [ADDR]:PORT or unix:PATH */
    const char *auth_file;
    const char *tls_cert;
    const char *tls_key;
    const char *client_ca;
    const char *const *hosts; /* names by which it may be called, beside loopback and its address */
    size_t host_count;
    bool insecure;       /* a non-loopback address without TLS and auth is allowed */
    uint32_t namespaces; /* that may be written to at the same time */
    uint64_t ttl_max_ms; /* of leases and heartbeats */
    uint64_t request_ms; /* for a request to arrive, and for its answer to be taken */
    uint64_t ttl_ms;
    uint64_t timeout_ms; /* of one call on the store; 0: the default */
    enum ten_log_format log_format;
    enum ten_log_level log_level;
} ten_server_config;

/* Runs until SIGTERM or SIGINT: takes no new connections, answers what has arrived, and returns 0; or the error that
 * made it end. The caller has started no threads. `ready` is called once with the address it listens on. */
int ten_server_run(const ten_server_config *config, void (*ready)(const char *address), ten_error *error);

#endif
