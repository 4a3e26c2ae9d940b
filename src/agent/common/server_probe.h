/*
 * Which kind of server answers where the URL of a store points: a Redis URL with the port of PostgreSQL is a mistake
 * that no waiting repairs. Asked only after the store itself has failed. Called while a command waits for its store,
 * and by commands that report an error of the store. It decides nothing about leases.
 */
#ifndef TEN_AGENT_SERVER_PROBE_H
#define TEN_AGENT_SERVER_PROBE_H

#include <stdbool.h>

#include "base/error.h"

/* Connects to the server and asks it; takes up to a second. `failure` is the error of the store. True: a server of
 * another kind has answered in its own protocol, and `error` is TENURE_E_STORE with a message that names it. False:
 * no server answers, it is the right kind, or an unknown one, or the URL asks for TLS, so that nothing may be sent
 * in clear; `error` is left alone. */
#if defined(TEN_STORE_REDIS) || defined(TEN_STORE_POSTGRES)
bool ten_server_probe(const char *store, int failure, ten_error *error);
#else /* without them nothing here looks up names, and hardly any server can be mistaken for another */
static inline bool ten_server_probe(const char *store, int failure, ten_error *error) {
    (void)store;
    (void)failure;
    (void)error;
    return false;
}
#endif

#endif
