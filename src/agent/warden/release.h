/*
 * Giving back what a dead worker held, in its name. Called in a process of the warden's own.
 */
#ifndef TEN_AGENT_RELEASE_H
#define TEN_AGENT_RELEASE_H

#include "store/store.h"

typedef struct ten_release {
    const char *namespace_name;
    const char *instance; /* the dead worker's */
    uint64_t ttl_ms;      /* of its leases */
} ten_release;

/* Leaves a tombstone for the instance, then releases everything that it holds. */
int ten_release_all(const ten_release *release, ten_store *store);

#endif
