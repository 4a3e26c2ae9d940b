/*
 * The metrics of the namespaces that clients use: leases held, targets that are unheld,
 * takeovers. An agent knows that of its own fleet; the server reads it from the store when Prometheus asks, in the lane
 * of the listings, and no more often than every few seconds. Nothing of it is on the way of a lease.
 */
#ifndef TEN_SERVER_GAUGES_H
#define TEN_SERVER_GAUGES_H

#include "base/buf.h"
#include "store/store.h"

typedef struct ten_gauges ten_gauges;

/* NULL: out of memory. */
ten_gauges *ten_gauges_new(void);
void ten_gauges_free(ten_gauges *gauges);

/* A client uses this namespace, which has metrics from now on. ten_accounts_measure() says which are; of too many the
 * first ones. */
void ten_gauges_note(ten_gauges *gauges, const char *namespace_name);

/* Which namespaces the client may see. */
typedef bool ten_gauges_filter(const char *namespace_name, const void *userdata);

/* Looks, and writes what was found. Called by one thread. When the store does not answer, what was found before is left
 * out, and the error returned. */
int ten_gauges_write(ten_gauges *gauges, ten_store *store, uint64_t timeout_ms, ten_gauges_filter *is_shown,
                     const void *userdata, ten_buf *to);

#endif
